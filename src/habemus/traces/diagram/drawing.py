"""The space-time diagram as SVG.

Time runs downwards, so a long run scrolls like a text and labels on arrows stay nearly
horizontal.  Each process is a line, each message an arrow; the legend of a picture explains the
rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from habemus.traces.diagram import arrows, bars, ink, marks
from habemus.traces.diagram.columns import Columns
from habemus.traces.diagram.head import head
from habemus.traces.diagram.lettering import BOLD, clipped, variants
from habemus.traces.diagram.lettering import width as text_width
from habemus.traces.diagram.placing import LabelBox
from habemus.traces.diagram.scale import (
    NARROW,
    NARROW_WITH_NOTES,
    TIGHT,
    WIDE,
    WIDE_WITH_NOTES,
    Gap,
    Scale,
    Spacing,
)
from habemus.traces.diagram.sheet import FOOT, Sheet
from habemus.traces.diagram.window import leave_out
from habemus.traces.folding import folded
from habemus.traces.network import changes, named
from habemus.traces.periods import periods
from habemus.traces.trace import Trace
from habemus.traces.view import EVERYTHING, Selection, States, View, select
from habemus.traces.words import ENGLISH, Words, milliseconds, moment

MOST_HEIGHT = 2_000.0
"""Height of the tallest picture, in pixels."""
NAMES_AGAIN = 640.0
"""Distance after which the names of the processes are repeated, for readers who have scrolled."""
SECONDS_FROM = 20_000_000


def svg(
    trace: Trace,
    *,
    width: int | None = None,
    words: Words = ENGLISH,
    selection: Selection = EVERYTHING,
    states: States | None = None,
) -> str:
    """Draw a trace, with as much folded as is needed to fit."""
    picture = ""
    moments = list(accumulate((event.time for event in trace.events), max))
    for view, spacing in _candidates(select(trace, selection, states), selection.fold):
        if not view.left_out and _least_bottom(view, spacing, moments) >= MOST_HEIGHT:
            continue
        scale = Scale(trace.events, view.all_flights, view.shown, spacing, view.left_out)
        if view.left_out or scale.height + FOOT < MOST_HEIGHT:
            picture, height = _drawn(*_sheet(view, words, width, scale))
            if height <= MOST_HEIGHT:
                break
    return picture


def _least_bottom(view: View, spacing: Spacing, moments: Sequence[int]) -> float:
    """Return a bound below the height of a view, which is found much faster than its scale."""
    shown = {moments[index] for index in view.shown}
    return (len(shown) - 1) * spacing.least + FOOT


def _candidates(whole: View, folds: bool) -> Iterator[tuple[View, Spacing]]:
    """Yield views of which ever more is folded, and at last some that leave events out."""
    has_notes = whole.states is not None
    wide = WIDE_WITH_NOTES if has_notes else WIDE
    narrow = NARROW_WITH_NOTES if has_notes else NARROW
    for view in folded(whole) if folds else [whole]:
        yield view, wide
        yield view, narrow
    yield view, NARROW if has_notes else TIGHT
    scale = Scale(view.trace.events, view.all_flights, view.shown, narrow)
    for height in (1_700.0, 1_500.0, 1_200.0, 800.0):
        yield leave_out(view, scale, height), narrow


def _drawn(sheet: Sheet, marked: list[marks.Mark]) -> tuple[str, float]:
    """Return the picture and its height."""
    all_arrows = arrows.arrows(sheet)
    _axis(sheet)
    bars.draw_lines(sheet)
    marks.draw_points(sheet)
    bars.draw_bars(sheet)
    marks.draw_changes(sheet)
    marks.draw_left_out(sheet)
    bars.draw_violations(sheet)
    for arrow in all_arrows:
        if arrow.flight.sender != arrow.flight.receiver:
            sheet.layout.add_stroke(arrow.stroke)
    marks.draw_marks(sheet, marked)
    marks.draw_states(sheet)
    arrows.draw(sheet, all_arrows)
    arrows.label(sheet, all_arrows)
    _names_again(sheet)
    top, height = head(sheet, all_arrows)
    return _assembled(sheet, top, height), _total(sheet, height)


def _sheet(
    view: View, words: Words, wanted: int | None, scale: Scale
) -> tuple[Sheet, list[marks.Mark]]:
    trace = view.trace
    marked = marks.marks(view, words)
    sent = [
        event
        for index, event in enumerate(trace.events)
        if event.kind == "send" and index in view.shown
    ]
    between = [
        text_width(variants(event.described(), event.name)[-2:][0], arrows.SIZE) for event in sent
    ]
    between += [marks.state_width(note) + 12 for note in view.notes.values()]
    last = view.processes[-1] if view.processes else None
    beside = [
        marks.state_width(note)
        for index, note in view.notes.items()
        if trace.events[index].process == last
    ]
    beside += [
        min(text_width(mark.label, marks.SIZE * BOLD), marks.LONGEST)
        for mark in marked
        if mark.event.process == last
    ]
    beside += [
        text_width(event.described(), arrows.SIZE) + arrows.LOOP
        for event in sent
        if event.process == event.peer == last
    ]
    notes = [
        named(change, trace.processes, trace.label, words)
        for change in changes(trace.events)
        if change.first in view.shown
    ]
    right = max(52.0, marks.note_width(notes) + 44 if notes else 0.0, max(beside, default=0.0) + 26)
    left = 34.0
    if view.processes:
        name = text_width(trace.label(view.processes[0]), 12) * BOLD
        left = max(left, min(name / 2, 60.0) + 20)
        notes_there = (
            marks.state_width(note) + 20
            for index, note in view.notes.items()
            if trace.events[index].process == view.processes[0]
        )
        left = max(left, *notes_there, 0.0)
    whole = max(
        (
            text_width(mark.label, marks.SIZE * BOLD)
            for mark in marked
            if mark.event.process != last
        ),
        default=0.0,
    )
    columns = Columns(view.processes, between, left, right, wanted, min(whole, marks.LONGEST) + 24)
    return Sheet(view, words, scale, columns, periods(trace.events)), marked


def _axis(sheet: Sheet) -> None:
    scale, words, left = sheet.scale, sheet.words, sheet.columns.left
    in_seconds = scale.last - scale.origin() >= SECONDS_FROM
    unit = words["axis s" if in_seconds else "axis ms"]
    sheet.draw(
        "ground",
        ink.text(left - 10, -24, unit, size=10.5, fill=ink.MUTED, anchor="end", style="italic"),
    )
    for tick in scale.ticks():
        if not sheet.view.covers(tick.time):
            continue
        time = tick.time - scale.origin()
        shown = milliseconds(time // 1_000 if in_seconds else time)
        sheet.draw(
            "ground", ink.line(left - 5, tick.y, sheet.columns.last + 20, tick.y, ink.FAINT, 1)
        )
        sheet.draw(
            "ground",
            ink.text(left - 10, tick.y + 3.7, shown, size=10.5, fill=ink.MUTED, anchor="end"),
        )
    top = -14.0
    for gap in scale.gaps:
        middle = (gap.top + gap.bottom) / 2
        sheet.draw("ground", ink.line(left, top, left, middle - 7, ink.FAINT, 1.5))
        if not sheet.view.covers(gap.begin + gap.duration // 2):
            continue  # a note says that events are left out there
        text = _wait(sheet, gap)
        sheet.draw("ground", ink.element("g", ink.tooltip(text) + ink.zigzag(left, middle)))
        sheet.seen.add("break")
        top = middle + 7
    sheet.draw("ground", ink.line(left, top, left, sheet.bottom, ink.FAINT, 1.5))


def _wait(sheet: Sheet, gap: Gap) -> str:
    """Describe a wait, for a tooltip: how long it is, and what is folded in it."""
    hidden = sum(
        1
        for index, event in enumerate(sheet.trace.events)
        if index not in sheet.shown and gap.begin < event.time < gap.begin + gap.duration
    )
    key = "folded" if hidden else "nothing"
    time = moment(gap.duration, sheet.words)
    return sheet.words[key].format(time=time, events=hidden)


def _names_again(sheet: Sheet) -> None:
    """Repeat the names of the processes where there is room on their lines."""
    y = NAMES_AGAIN
    while y < sheet.bottom - 160:
        for process in sheet.processes:
            name = clipped(sheet.trace.label(process), 10, sheet.columns.gap - 20)
            half = text_width(name, 10) / 2 + 4
            places = [LabelBox(sheet.x(process), y + drop, half, 8) for drop in range(0, 120, 6)]
            free = [box for box in places if sheet.layout.is_free(box)]
            if free:
                box = min(free, key=sheet.layout.crossings)
                sheet.layout.add(box)
                shape = ink.rectangle(
                    box.x - half, box.y - 8, 2 * half, 16, ink.PAPER, ink.FAINT, corner=8
                )
                sheet.draw(
                    "labels",
                    shape
                    + ink.text(box.x, box.y + 3.5, name, size=10, fill=ink.MUTED, anchor="middle"),
                )
        y += NAMES_AGAIN


def _names(sheet: Sheet, y: float) -> list[str]:
    shapes = []
    for process in sheet.processes:
        name = clipped(sheet.trace.label(process), 12 * BOLD, sheet.columns.gap - 22)
        half = max(14.0, text_width(name, 12) * BOLD / 2 + 8)
        x = sheet.x(process)
        shapes.append(ink.rectangle(x - half, y - 12, 2 * half, 22, "#f3f5f8", ink.LINE, corner=5))
        shapes.append(ink.text(x, y + 3.2, name, size=12, anchor="middle", weight="bold"))
    return shapes


def _total(sheet: Sheet, head_height: float) -> float:
    return head_height + 48 + sheet.bottom + 46


def _assembled(sheet: Sheet, top: list[str], height: float) -> str:
    trace, words = sheet.trace, sheet.words
    offset, total = height + 48, _total(sheet, height)
    title = trace.title or words["untitled"]
    findings = "; ".join(sheet.description(finding) for finding in trace.findings)
    described = words["described"].format(
        processes=len(trace.processes), events=len(trace.events), findings=findings
    )
    drawn = "".join("\n".join(("", *filter(None, shapes))) for shapes in sheet.layers.values())
    names = "\n".join([*_names(sheet, -28), *_names(sheet, sheet.bottom + 12)])
    inner = "\n".join(
        [
            "",
            ink.tooltip(title) + ink.element("desc", ink.escaped(described)),
            ink.element("rect", width="100%", height="100%", fill=ink.PAPER),
            *top,
            ink.element(
                "g", drawn + "\n" + names + "\n", transform=f"translate(0 {ink.number(offset)})"
            ),
            "",
        ]
    )
    return (
        ink.element(
            "svg",
            inner,
            xmlns="http://www.w3.org/2000/svg",
            width=sheet.columns.width,
            height=total,
            viewBox=f"0 0 {ink.number(sheet.columns.width)} {ink.number(total)}",
            role="img",
            aria_label=title,
            font_family=ink.FONT,
            font_size=11.0,
            fill=ink.TEXT,
        )
        + "\n"
    )

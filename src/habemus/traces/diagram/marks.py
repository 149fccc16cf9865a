"""Marks: events of processes other than sends and receipts, and changes of the network."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from habemus.core.events import Event
from habemus.traces.diagram import ink
from habemus.traces.diagram.lettering import BOLD, clipped, variants, width, wrapped
from habemus.traces.diagram.placing import LabelBox
from habemus.traces.diagram.sheet import Sheet
from habemus.traces.network import KINDS_OF_CHANGE, changes, named
from habemus.traces.periods import asks, enters, leaves
from habemus.traces.view import View, times
from habemus.traces.words import Words, in_words, what

SIZE = 10.5
LONGEST = 150.0


class Mark(NamedTuple):
    at: int  # index of the event
    event: Event
    sign: str
    label: str


def marks(view: View, words: Words) -> list[Mark]:
    """Return the events to be marked, and their words."""
    events = view.trace.events
    first = events[0].time if events else 0
    found = []
    for index, event in enumerate(events):
        if index not in view.shown or asks(event) or enters(event) or leaves(event):
            continue  # the bars show these
        if event.kind == "timer":
            found.append(Mark(index, event, "timer", view.described(index, event)))
        elif event.kind == "indicate":
            found.append(Mark(index, event, "indication", what(event)))
        elif event.kind == "request":
            known = f"request {event.name}" in words
            label = in_words(event, view.trace.label, words) if known else what(event)
            found.append(Mark(index, event, "request", label))
        elif event.kind == "choose":
            found.append(
                Mark(index, event, "choose", words["mark choose"].format(what=what(event)))
            )
        elif event.kind == "recover":
            how = event.fields().get("value")
            key = f"mark recover {how}" if how in ("amnesia", "replaced") else "mark recover"
            found.append(Mark(index, event, "recover", words[key]))
        elif (
            event.kind == "crash"
            or event.kind == "pause"
            or (event.kind == "start" and event.time > first)
        ):
            found.append(Mark(index, event, event.kind, words[f"mark {event.kind}"]))
    return found


def draw_points(sheet: Sheet) -> None:
    """Draw a point for each step of a process, with its events and vector clock as a tooltip."""
    steps: defaultdict[tuple[int, float], list[Event]] = defaultdict(list)
    for index, event in enumerate(sheet.trace.events):
        if index in sheet.shown and event.kind not in (*KINDS_OF_CHANGE, "lost", "duplicate"):
            steps[event.process, sheet.scale.y(index)].append(event)
    for (process, y), events in steps.items():
        x = sheet.x(process)
        lines = [f"{sheet.trace.label(process)}, {sheet.when(events[0].time)}"]
        lines += [in_words(event, sheet.trace.label, sheet.words) for event in events]
        clocks = [event.clock for event in events if event.clock is not None]
        if clocks:
            lines.append(sheet.words["clock"].format(clock=f"[{', '.join(map(str, clocks[-1]))}]"))
        # A larger invisible point is easier to hit with the mouse.
        shape = ink.tooltip("\n".join(lines)) + ink.element(
            "circle", cx=x, cy=y, r=8, fill=ink.PAPER, fill_opacity=0.01
        )
        shape += ink.circle(x, y, 2.4, ink.TEXT)
        sheet.draw("points", ink.element("g", shape))
        sheet.layout.add(LabelBox(x, y, 4, 4))


def draw_marks(sheet: Sheet, all_marks: list[Mark]) -> None:
    for mark in all_marks:
        x, y = sheet.x(mark.event.process), sheet.scale.y(mark.at)
        shape = sign_of(mark.sign, x, y)
        if mark.sign in ("timer", "indication", "request"):
            sheet.seen.add(mark.sign)
        sheet.draw(
            "marks",
            ink.element(
                "g", ink.tooltip(in_words(mark.event, sheet.trace.label, sheet.words)) + shape
            )
            if shape
            else "",
        )
        sheet.layout.add(LabelBox(x, y, 7, 6))
    for mark in all_marks:
        if mark.label:
            _label(sheet, mark)


def sign_of(sign: str, x: float, y: float) -> str:
    if sign == "timer":  # an hourglass
        return ink.polygon(
            [(x - 4.5, y - 5.5), (x + 4.5, y - 5.5), (x - 4.5, y + 5.5), (x + 4.5, y + 5.5)],
            ink.PAPER,
            ink.TEXT,
        )
    if sign == "indication":
        return ink.polygon(
            [(x, y - 6), (x + 6, y), (x, y + 6), (x - 6, y)], ink.INDICATION, ink.PAPER
        )
    if sign == "request":
        return ink.polygon([(x - 5, y - 5), (x + 6, y), (x - 5, y + 5)], ink.INDICATION, ink.PAPER)
    if sign == "crash":
        return ink.circle(x, y, 7.5, ink.PAPER) + ink.cross(x, y, 5.5, ink.TEXT, 3)
    if sign in ("recover", "start"):
        return ink.circle(x, y, 5, ink.PAPER, ink.TEXT, 2)
    if sign == "choose":
        return ink.rectangle(x - 4, y - 4, 8, 8, ink.PAPER, ink.TEXT, corner=1)
    return ""


_FILL = {
    "indication": ink.INDICATION,
    "request": ink.INDICATION,
    "timer": ink.MUTED,
    "choose": ink.MUTED,
    "pause": ink.MUTED,
}


def _label(sheet: Sheet, mark: Mark) -> None:
    x, y = sheet.x(mark.event.process), sheet.scale.y(mark.at)
    room = min(LONGEST, sheet.columns.gap - 24)
    is_bold = mark.sign in ("indication", "crash")
    size = SIZE * BOLD if is_bold else SIZE
    text = _fitting(sheet, mark, size, max(room, 40))
    half = width(text, size) / 2
    best: tuple[int, LabelBox] | None = None
    for order, (side, drop) in enumerate(
        (side, drop) for drop in (0.0, -9.0, 9.0, -15.0, 15.0) for side in (1, -1)
    ):
        box = LabelBox(x + side * (11 + half), y + drop, half + 1, SIZE * 0.58)
        if box.x - half < sheet.columns.left + 3 or not sheet.is_free(box):
            continue
        cost = order + 8 * sheet.layout.crossings(box)
        if best is None or cost < best[0]:
            best = cost, box
    if best is None:
        return
    box = best[1]
    sheet.layout.add(box)
    fill = _FILL.get(mark.sign, ink.TEXT)
    style = "italic" if mark.sign in ("timer", "pause") else None
    weight = "bold" if is_bold else None
    shape = ink.text(
        box.x,
        box.y + SIZE * 0.35,
        text,
        size=SIZE,
        fill=fill,
        anchor="middle",
        style=style,
        weight=weight,
        halo=True,
    )
    sheet.draw("labels", shape)


def _fitting(sheet: Sheet, mark: Mark, size: float, room: float) -> str:
    """Return the fullest form of the label that there is room for."""
    count = sheet.view.repeats.get(mark.at)
    ending = "" if count is None else times(count)
    if ending:
        sheet.seen.add("repeats")
    described = mark.label.removesuffix(ending)
    if not described.startswith(f"{mark.event.name}("):
        return clipped(mark.label, size, room)
    forms = [form + ending for form in variants(described, mark.event.name)]
    forms = [form for form in forms[:-1] if width(form, size) <= room]
    return forms[0] if forms else clipped(mark.label, size, room)


NOTE_WIDTH = 130.0


def note_width(notes: list[str]) -> float:
    """Return the width of the names of changes beside the last column."""
    return max((min(width(note, SIZE * BOLD), NOTE_WIDTH) for note in notes), default=0.0)


def draw_changes(sheet: Sheet) -> None:
    """Draw a line across the picture for each change of the network, with its name on the right."""
    trace = sheet.trace
    for change in changes(trace.events):
        if change.first not in sheet.shown:
            continue
        sheet.seen.add("network")
        y = sheet.scale.y(change.first)
        sheet.draw(
            "ground",
            ink.line(sheet.columns.left, y, sheet.columns.last + 26, y, ink.NETWORK, 1.2, "7 4"),
        )
        label = named(change, trace.processes, trace.label, sheet.words)
        lines = wrapped(label, SIZE * BOLD, NOTE_WIDTH, most=4)
        half = max(width(line, SIZE * BOLD) for line in lines) / 2
        for drop in (0.0, 14.0, 28.0, -14.0):
            box = LabelBox(
                sheet.columns.last + 30 + half,
                y + drop + (len(lines) - 1) * 6.5,
                half + 1,
                len(lines) * 6.5,
            )
            if sheet.is_free(box):
                break
        sheet.layout.add(box)
        for order, line in enumerate(lines):
            baseline = box.y + SIZE * 0.35 + (order - (len(lines) - 1) / 2) * 13
            sheet.draw(
                "labels",
                ink.text(
                    sheet.columns.last + 30,
                    baseline,
                    line,
                    size=SIZE,
                    fill=ink.NETWORK,
                    weight="bold",
                    halo=True,
                ),
            )


def draw_left_out(sheet: Sheet) -> None:
    """Draw a note across the picture where events are left out."""
    events, columns = sheet.trace.events, sheet.columns
    for first, last in sheet.view.left_out:
        above = [sheet.scale.y(index) for index in sheet.shown if index < first]
        below = [sheet.scale.y(index) for index in sheet.shown if index > last]
        top = max(above, default=0.0)
        y = (top + min(below)) / 2 if below else sheet.bottom - 14
        text = sheet.words["left out"].format(
            events=f"{last - first + 1:,}",
            begin=sheet.when(events[first].time),
            end=sheet.when(events[last].time),
        )
        half = width(text, SIZE) / 2 + 8
        middle = max((columns.left + columns.last + 20) / 2, columns.left + half + 3)
        sheet.draw(
            "labels",
            ink.rectangle(columns.left, y - 10, columns.last + 20 - columns.left, 20, ink.PAPER)
            + ink.line(columns.left, y - 10, columns.last + 20, y - 10, ink.LINE, 1, "2 3")
            + ink.line(columns.left, y + 10, columns.last + 20, y + 10, ink.LINE, 1, "2 3")
            + ink.text(middle, y + 3.5, text, size=SIZE, fill=ink.MUTED, anchor="middle"),
        )
        sheet.layout.add(LabelBox((columns.left + columns.last + 20) / 2, y, columns.last, 11))


STATE_SIZE = 9.5
STATE_LEADING = 11.5
WIDEST_STATE = 150.0


def state_width(note: str) -> float:
    """Return the width of a note on variables."""
    return max(width(line, STATE_SIZE) for line in _state_lines(note)) + 8


def _state_lines(note: str) -> list[str]:
    return [clipped(line, STATE_SIZE, WIDEST_STATE) for line in note.split(" · ")]


def draw_states(sheet: Sheet) -> None:
    """Draw a note with the variables that changed beside each step that changed them."""
    for index, note in sheet.view.notes.items():
        event = sheet.trace.events[index]
        x, y = sheet.x(event.process), sheet.scale.y(index)
        lines = _state_lines(note)
        half, tall = state_width(note) / 2, len(lines) * STATE_LEADING / 2 + 1.5
        best: tuple[float, LabelBox] | None = None
        for drop in (0.0, 6.0, -6.0, 12.0, -12.0, 20.0, -20.0, 30.0, 42.0):
            for side in (1, -1):
                box = LabelBox(x + side * (9 + half), y + drop, half, tall)
                cost = abs(drop) / 3 + (side < 0) + 3 * sheet.layout.crossings(box)
                inside = sheet.columns.left + 2 < box.x - half
                if inside and (best is None or cost < best[0]) and sheet.is_free(box):
                    best = cost, box
        box = best[1] if best else LabelBox(x + 9 + half, y, half, tall)
        sheet.layout.add(box)
        sheet.seen.add("state")
        shape = ink.rectangle(
            box.x - half, box.y - tall, 2 * half, 2 * tall, ink.STATE_TINT, ink.STATE_EDGE, corner=3
        )
        for order, line in enumerate(lines):
            baseline = box.y - tall + 1.5 + (order + 0.8) * STATE_LEADING
            shape += ink.text(box.x - half + 4, baseline, line, size=STATE_SIZE, fill=ink.STATE)
        sheet.draw("labels", ink.element("g", ink.tooltip(note) + shape))

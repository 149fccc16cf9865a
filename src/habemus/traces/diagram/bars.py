"""Bars and bands: the life of each process, its waits and entries, and the violations."""

from __future__ import annotations

from itertools import pairwise

from habemus.core.process import ProcessId
from habemus.core.properties import Finding
from habemus.traces.diagram import ink
from habemus.traces.diagram.lettering import BOLD, clipped, width
from habemus.traces.diagram.placing import LabelBox, Stroke
from habemus.traces.diagram.sheet import BAR, Sheet
from habemus.traces.network import KINDS_OF_CHANGE
from habemus.traces.periods import DOWN, INSIDE, PAUSED, WAITING, Period

SIZE = 10.0
LONGEST = 160.0
"""Largest width of the tag with the name of a property."""
BELOW_NAMES = -10.0
"""Where a tag does not cover the names of the processes, which are above the picture."""


def draw_lines(sheet: Sheet) -> None:
    """Draw the line of each process: solid while it is up, dotted while it is down."""
    starts: dict[ProcessId, float] = {}
    for index, event in enumerate(sheet.trace.events):
        if event.kind not in KINDS_OF_CHANGE and event.process not in starts:
            begins = event.kind == "start" and index in sheet.shown
            starts[event.process] = sheet.scale.y(index) if begins else -12.0
    for process in sheet.processes:
        x = sheet.x(process)
        down = [
            sheet.extent(period)
            for period in sheet.periods
            if period.process == process and period.kind == DOWN
        ]
        edges = [
            starts.get(process, -12.0),
            *(edge for extent in down for edge in extent),
            sheet.bottom,
        ]
        for order, (top, bottom) in enumerate(pairwise(edges)):
            if bottom > top:
                is_down = order % 2 == 1
                sheet.draw(
                    "lines",
                    ink.line(
                        x,
                        top,
                        x,
                        bottom,
                        ink.LINE,
                        1.6 if not is_down else 1.4,
                        "1.5 4.5" if is_down else None,
                    ),
                )
        if down:
            sheet.seen.add("down")


def draw_bars(sheet: Sheet) -> None:
    entries = 0
    for period in sheet.periods:
        if period.kind == DOWN or period.process not in sheet.processes:
            continue
        entries += period.kind == INSIDE
        if not sheet.touches(period):
            continue
        sheet.seen.add(period.kind)
        top, bottom = sheet.extent(period)
        x, height = sheet.x(period.process), max(bottom - top, 2.0)
        inner = ink.tooltip(_description(sheet, period))
        layer = "bars"
        if period.kind == WAITING:
            inner += ink.rectangle(
                x - BAR + 1, top, 2 * BAR - 2, height, ink.WAITING, ink.WAITING_EDGE
            )
        elif period.kind == PAUSED:
            layer = "pauses"  # below the others: a process can be paused while it is inside
            inner += ink.rectangle(
                x - BAR - 4, top, 2 * BAR + 8, height, ink.PAUSED, ink.PAUSED_EDGE, dashes="3 2"
            )
        elif period.kind == INSIDE:
            inner += ink.rectangle(
                x - BAR, top, 2 * BAR, height, ink.INSIDE, ink.INSIDE_EDGE, corner=2
            )
            inner += _number(sheet, entries, x, top, bottom)
        sheet.draw(layer, ink.element("g", inner))
        taken = sheet.layout if period.kind == INSIDE else sheet.bars
        taken.add(LabelBox(x, (top + bottom) / 2, BAR + 1, height / 2))


def _number(sheet: Sheet, entries: int, x: float, top: float, bottom: float) -> str:
    """Draw the number of an entry on its bar, away from points."""
    y = top + 8.5
    while y + 5.5 < bottom and entries < 100:
        if sheet.layout.is_free(LabelBox(x, y, 3, 4.5)):
            return ink.text(
                x, y + 3, str(entries), size=8.5, fill=ink.PAPER, anchor="middle", weight="bold"
            )
        y += 2.0
    return ""


def _description(sheet: Sheet, period: Period) -> str:
    events, words = sheet.trace.events, sheet.words
    key = f"period {period.kind}" if period.last is not None else f"period {period.kind} to the end"
    begin = sheet.when(events[period.first].time)
    end = "" if period.last is None else sheet.when(events[period.last].time)
    return f"{sheet.trace.label(period.process)} {words[key].format(begin=begin, end=end)}"


# Violations.


def draw_violations(sheet: Sheet) -> None:
    """Draw the violations.

    A red band marks two processes inside at once, a red frame a wait that did not end, a ring
    anything else.
    """
    for finding in sheet.trace.violations:
        if finding.time is None or not sheet.view.covers(finding.time):
            continue
        sheet.seen.add("violation")
        named = tuple(each for each in finding.processes if each in sheet.processes)
        processes = named or sheet.processes
        inside = _periods_at(sheet, finding.time, processes, INSIDE)
        waiting = _periods_at(sheet, finding.time, processes, WAITING)
        if len(inside) >= 2:
            _band(sheet, finding, inside)
        elif named and len(waiting) == len(named):
            _frames(sheet, finding, waiting)
        elif named:
            _rings(sheet, finding, named)
        else:
            y = sheet.scale.at(finding.time)
            sheet.draw(
                "bands",
                ink.line(sheet.columns.left, y, sheet.columns.last + 20, y, ink.VIOLATION, 1.6),
            )
            _tag(sheet, finding, sheet.columns.left, y, begins=True)


def _periods_at(
    sheet: Sheet, time: int, processes: tuple[ProcessId, ...], kind: str
) -> list[Period]:
    """Return the period of that kind in which each process is at that time."""
    events = sheet.trace.events
    found: dict[ProcessId, Period] = {}
    for period in sheet.periods:
        end = events[-1].time if period.last is None else events[period.last].time
        if (
            period.process in processes
            and period.kind == kind
            and events[period.first].time <= time <= end
        ):
            found[period.process] = period  # of two that meet at that time, the later one
    return list(found.values())


def _band(sheet: Sheet, finding: Finding, inside: list[Period]) -> None:
    top = max(sheet.extent(period)[0] for period in inside)
    bottom = max(top + 10, min(sheet.extent(period)[1] for period in inside))
    places = [sheet.x(period.process) for period in inside]
    left, right = min(places) - 15, max(places) + 15
    sheet.draw(
        "bands",
        ink.rectangle(
            left, top, right - left, bottom - top, ink.VIOLATION_TINT, ink.VIOLATION, corner=4
        ),
    )
    for x in places:
        frame = ink.frame(x - BAR - 3, top, 2 * BAR + 6, bottom - top, ink.VIOLATION)
        sheet.draw("points", ink.element("g", ink.tooltip(sheet.description(finding)) + frame))
    _tag(sheet, finding, left + 34, top + 18, begins=True)


def _frames(sheet: Sheet, finding: Finding, waiting: list[Period]) -> None:
    for period in waiting:
        top, bottom = sheet.extent(period)
        x = sheet.x(period.process)
        frame = ink.frame(x - BAR - 3, top - 2, 2 * BAR + 6, bottom - top + 4, ink.VIOLATION)
        sheet.draw("points", ink.element("g", ink.tooltip(sheet.description(finding)) + frame))
        _tag(sheet, finding, x, top - 2)


def _rings(sheet: Sheet, finding: Finding, processes: tuple[ProcessId, ...]) -> None:
    assert finding.time is not None
    places = []
    for process in processes:
        at = [
            index
            for index, event in enumerate(sheet.trace.events)
            if event.process == process and event.time == finding.time and index in sheet.shown
        ]
        places.append(
            (sheet.x(process), sheet.scale.y(at[-1]) if at else sheet.scale.at(finding.time))
        )
    places.sort()
    for (x1, y1), (x2, y2) in pairwise(places):
        sheet.layout.add_stroke(Stroke(x1, y1, x2, y2))
        sheet.draw("bands", ink.line(x1, y1, x2, y2, ink.VIOLATION, 1.6, "5 3"))
    for x, y in places:
        ring = ink.element(
            "circle",
            cx=x,
            cy=y,
            r=10,
            fill=ink.VIOLATION_TINT,
            stroke=ink.VIOLATION,
            stroke_width=2.4,
        )
        sheet.draw("bands", ink.element("g", ink.tooltip(sheet.description(finding)) + ring))
    _tag(sheet, finding, places[0][0], places[0][1] - 13)


def _tag(sheet: Sheet, finding: Finding, x: float, y: float, *, begins: bool = False) -> None:
    """Draw the name of a property on red just above a place, centred or beginning there."""
    name = clipped(finding.name, SIZE * BOLD, LONGEST)
    half = width(name, SIZE) * BOLD / 2 + 5
    x = min(
        max(x + half if begins else x, sheet.columns.left + half + 3),
        sheet.columns.width - half - 4,
    )
    places = [
        LabelBox(x, y - 8.5 - lift, half + 1, 8)
        for lift in (0, 16, -16, 32, 48, -24)
        if y - 8.5 - lift > BELOW_NAMES
    ]
    box = next(filter(sheet.is_free, places), places[0])
    sheet.layout.add(box)
    shape = ink.rectangle(box.x - half, box.y - 7.5, 2 * half, 15, ink.VIOLATION, corner=3)
    shape += ink.text(
        box.x, box.y + 3.6, name, size=SIZE, fill=ink.PAPER, anchor="middle", weight="bold"
    )
    sheet.draw("labels", ink.element("g", ink.tooltip(sheet.description(finding)) + shape))

"""The events as a table of plain text, for the terminal."""

from __future__ import annotations

import re
from textwrap import wrap
from typing import NamedTuple

from habemus.traces.flights import flights
from habemus.traces.network import KINDS_OF_CHANGE, changes, named
from habemus.traces.periods import holders
from habemus.traces.trace import Trace
from habemus.traces.words import ENGLISH, Words, in_words, one_line, printable

SPACE = 2
"""Space between two columns."""
LEAST_ROOM = 20
"""Smallest width of the column of events."""


FIELD_NAME = re.compile(r"(?<=[(\s])\w+=")
"""The names of fields, which a line that is too long goes without."""


class EventRow(NamedTuple):
    time: str
    process: str
    what: str
    inside: str  # the processes in the critical section afterwards


def rows(trace: Trace, words: Words = ENGLISH, *, steps: bool = False) -> list[EventRow]:
    """Return a row for each event, and one for all links that change together.

    `steps`: the times of the trace count steps, not microseconds.
    """
    on_arrival = {
        flight.ended
        for flight in flights(trace.events)
        if flight.is_lost and not flight.is_swallowed
    }
    changed = {change.first: change for change in changes(trace.events)}
    found = []
    for index, (event, inside) in enumerate(zip(trace.events, holders(trace.events), strict=True)):
        time = str(event.time) if steps else _thousandths(event.time)
        names = ", ".join(trace.label(process) for process in inside)
        if index in changed:
            found.append(
                EventRow(
                    time,
                    words["network"],
                    named(changed[index], trace.processes, trace.label, words),
                    names,
                )
            )
        elif event.kind not in KINDS_OF_CHANGE:
            described = in_words(event, trace.label, words, on_arrival=index in on_arrival)
            part = f" [{event.part.removeprefix('.')}]" if event.part else ""
            found.append(EventRow(time, trace.label(event.process), described + part, names))
    return found


def text(trace: Trace, width: int = 100, words: Words = ENGLISH, *, steps: bool = False) -> str:
    """Return the table and, below it, the findings.

    No line is longer than the width, unless the width is too small for a table.
    """
    title = EventRow(
        words["axis steps"] if steps else words["time"],
        words["process"],
        words["what"],
        words["inside"],
    )
    body = rows(trace, words, steps=steps)
    shows_inside = any(row.inside for row in body)
    widths = [max(len(row[column]) for row in (title, *body)) for column in range(4)]
    widths[1] = min(widths[1], 24)
    widths[3] = min(widths[3], 24) if shows_inside else 0
    taken = widths[0] + widths[1] + widths[3] + SPACE * (3 if shows_inside else 2)
    widths[2] = max(LEAST_ROOM, min(widths[2], width - taken))
    lines = [
        _line(title, widths, shows_inside),
        "-" * (sum(widths) + SPACE * (3 if shows_inside else 2)),
    ]
    lines += [_line(row, widths, shows_inside) for row in body]
    if trace.findings:
        findings = (one_line(finding, words, steps) for finding in trace.findings)
        lines += [
            "",
            *(
                line
                for each in findings
                for line in wrap(each, max(width, LEAST_ROOM), subsequent_indent="  ")
            ),
        ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _line(row: EventRow, widths: list[int], shows_inside: bool) -> str:
    time, process, what, inside = (
        _clipped(cell, room) for cell, room in zip(row, widths, strict=True)
    )
    cells = [time.rjust(widths[0]), process.ljust(widths[1]), what.ljust(widths[2])]
    return (" " * SPACE).join([*cells, inside] if shows_inside else cells)


def _clipped(cell: str, room: int) -> str:
    cell = printable(cell)
    if len(cell) > room:
        cell = FIELD_NAME.sub("", cell)
    return cell if len(cell) <= room else cell[: max(0, room - 1)] + "…"


def _thousandths(time: int) -> str:
    """Format a time as milliseconds with three decimals, so that columns align."""
    return f"{'-' if time < 0 else ''}{abs(time) // 1_000}.{abs(time) % 1_000:03}"

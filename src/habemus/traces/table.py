"""The events as a table of plain text, for the terminal."""

from __future__ import annotations

import re
from textwrap import wrap
from typing import NamedTuple

from habemus.traces.flights import flights
from habemus.traces.network import KINDS_OF_CHANGE, changes, named
from habemus.traces.periods import holders
from habemus.traces.trace import Trace
from habemus.traces.view import EVERYTHING, Selection, States, View, select
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
    state: tuple[str, ...] = ()  # variables of the process after the step that begins here


def rows(
    trace: Trace,
    words: Words = ENGLISH,
    *,
    selection: Selection = EVERYTHING,
    states: States | None = None,
) -> list[EventRow]:
    """Return a row for each event, and one for all links that change together."""
    view = select(trace, selection, states)
    on_arrival = {
        flight.ended
        for flight in flights(trace.events)
        if flight.is_lost and not flight.is_swallowed
    }
    changed = {change.first: change for change in changes(trace.events)}
    found = []
    for index, (event, inside) in enumerate(zip(trace.events, holders(trace.events), strict=True)):
        time = _thousandths(event.time)
        names = ", ".join(trace.label(process) for process in inside)
        if index not in view.shown:
            continue
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
            who = trace.label(event.process)
            found.append(EventRow(time, who, described + part, names, _state(view, index)))
    return found


def _state(view: View, index: int) -> tuple[str, ...]:
    if view.states is None:
        return ()
    if view.states.changes_only:
        return (view.notes.get(index, ""),)
    return view.states.after.get(index, ())


def text(
    trace: Trace,
    width: int = 100,
    words: Words = ENGLISH,
    *,
    selection: Selection = EVERYTHING,
    states: States | None = None,
) -> str:
    """Return the table and, below it, the findings.

    No line is longer than the width, unless the width is too small for a table.
    """
    title = EventRow(
        words["time"],
        words["process"],
        words["what"],
        words["inside"],
        () if states is None else (words["changes"],) if states.changes_only else states.names,
    )
    body = rows(trace, words, selection=selection, states=states)
    shows_inside = any(row.inside for row in body)
    widths = [max(len(row[column]) for row in (title, *body)) for column in range(4)]
    widths[1] = min(widths[1], 24)
    widths[3] = min(widths[3], 24) if shows_inside else 0
    state_widths = _state_widths([title, *body], width)
    taken = widths[0] + widths[1] + widths[3] + SPACE * (3 if shows_inside else 2)
    taken += sum(state_widths) + SPACE * len(state_widths)
    widths[2] = max(LEAST_ROOM, min(widths[2], width - taken))
    widths += state_widths
    lines = [_line(title, widths, shows_inside), "-" * (taken + widths[2])]
    lines += [_line(row, widths, shows_inside) for row in body]
    if trace.findings:
        findings = (one_line(finding, words) for finding in trace.findings)
        lines += [
            "",
            *(
                line
                for each in findings
                for line in wrap(each, max(width, LEAST_ROOM), subsequent_indent="  ")
            ),
        ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _state_widths(all_rows: list[EventRow], width: int) -> list[int]:
    """Return the widths of the columns of variables, which take half of the line at most."""
    count = len(all_rows[0].state)
    room = max(6, (width // 2 - SPACE * count) // max(1, count))
    return [
        min(room, max(len(row.state[column]) for row in all_rows if row.state))
        for column in range(count)
    ]


def _line(row: EventRow, widths: list[int], shows_inside: bool) -> str:
    plain = [row.time, row.process, row.what, row.inside, *row.state]
    cells = [_clipped(cell, room).ljust(room) for cell, room in zip(plain, widths, strict=False)]
    cells[0] = cells[0].strip().rjust(widths[0])
    if not shows_inside:
        del cells[3]
    return (" " * SPACE).join(cells)


def _clipped(cell: str, room: int) -> str:
    cell = printable(cell)
    if len(cell) > room:
        cell = FIELD_NAME.sub("", cell)
    return cell if len(cell) <= room else cell[: max(0, room - 1)] + "…"


def _thousandths(time: int) -> str:
    """Format a time as milliseconds with three decimals, so that columns align."""
    return f"{'-' if time < 0 else ''}{abs(time) // 1_000}.{abs(time) % 1_000:03}"

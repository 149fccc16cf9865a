"""The trace as a Mermaid sequence diagram.

Mermaid draws a message as a horizontal arrow, so its travel time is lost.  The arrow is at the time
of arrival, because that is when the message has an effect.  The space-time diagram shows time.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from habemus.core.process import ProcessId
from habemus.traces.diagram.scale import WIDE, Scale
from habemus.traces.diagram.window import leave_out
from habemus.traces.flights import Flight
from habemus.traces.folding import folded
from habemus.traces.network import KINDS_OF_CHANGE, Change, changes, named
from habemus.traces.periods import INSIDE, Period, periods
from habemus.traces.trace import Trace
from habemus.traces.view import EVERYTHING, Selection, States, View, select, times
from habemus.traces.words import ENGLISH, Words, in_words, moment, one_line, printable, what

MOST_CHARACTERS = 50_000
"""Mermaid's default limit on the length of a diagram."""

LONGEST = 60
"""Mermaid makes room for the longest text between two participants, however long it is."""

RED = "rgb(253, 227, 225)"


def mermaid(
    trace: Trace,
    words: Words = ENGLISH,
    *,
    selection: Selection = EVERYTHING,
    states: States | None = None,
) -> str:
    """Return the diagram in Mermaid's notation, with as much folded as is needed to fit."""
    text = ""
    for view in _candidates(select(trace, selection, states), selection.fold):
        lines = ["sequenceDiagram"]
        lines += [
            f"participant {_name(process)} as {_safe(trace.label(process)) or _name(process)}"
            for process in view.processes
        ]
        lines += _DiagramWriter(view, words).lines()
        text = "\n    ".join(lines) + "\n"
        if len(text) <= MOST_CHARACTERS:
            break
    return text


def _candidates(whole: View, folds: bool) -> Iterator[View]:
    """Yield views of which ever more is folded, and at last some that leave events out."""
    for view in folded(whole) if folds else [whole]:
        yield view
    scale = Scale(view.trace.events, view.all_flights, view.shown, WIDE)
    for height in (20_000.0, 10_000.0, 5_000.0, 2_000.0, 500.0):
        yield leave_out(view, scale, height)


def markdown(
    trace: Trace,
    words: Words = ENGLISH,
    *,
    selection: Selection = EVERYTHING,
    states: States | None = None,
) -> str:
    """Return a page of Markdown with the title, the diagram and the findings."""
    findings = [f"- {_inline(one_line(finding, words))}" for finding in trace.findings]
    title = _inline(trace.title or words["untitled"])
    return (
        "\n".join(
            [
                f"# {title}",
                "",
                "```mermaid",
                mermaid(trace, words, selection=selection, states=states) + "```",
                "",
                *findings,
            ]
        ).rstrip("\n")
        + "\n"
    )


class _DiagramWriter:
    """Writer of the lines of a diagram, event by event."""

    def __init__(self, view: View, words: Words) -> None:
        trace = view.trace
        self._view = view
        self._trace = trace
        self._words = words
        self._first = trace.events[0].time if trace.events else 0
        self._flights: dict[int, Flight] = {}
        self._under_way: list[Flight] = []
        for flight in view.flights:
            if flight.ended is None:
                self._under_way.append(flight)
            else:
                self._flights[flight.ended] = flight
        self._changes: dict[int, Change] = {
            change.first: change for change in changes(trace.events)
        }
        inside = [
            period
            for period in periods(trace.events)
            if period.kind == INSIDE and _is_shown(period, view)
        ]
        self._entries = {period.first for period in inside}
        self._exits: defaultdict[int, list[ProcessId]] = defaultdict(list)
        for period in inside:
            self._exits[len(trace.events) if period.last is None else period.last].append(
                period.process
            )
        self._red = _red_stretches(view, inside)

    def lines(self) -> Iterator[str]:
        begins = {first: names for first, _, names in self._red}
        ends = {last for _, last, _ in self._red}
        for index in range(len(self._trace.events)):
            if index in begins:
                yield f"rect {RED}"
                yield f"Note over {self._everybody()}: {_safe(begins[index])}"
            if index in self._view.shown or index in self._entries or index in self._exits:
                yield from self._described(index)
            yield from self._left_out(index)
            if index in ends:
                yield "end"
        for flight in self._under_way:
            event = self._trace.events[flight.sent or 0]
            text = self._view.described(flight.sent or 0, event)
            text += f" ({self._words['under way']})"
            yield f"{_name(flight.sender)}--){_name(flight.receiver)}: {_safe(text)}"
        for process in self._exits[len(self._trace.events)]:
            yield f"deactivate {_name(process)}"

    def _left_out(self, index: int) -> Iterator[str]:
        for first, last in self._view.left_out:
            if index == last:
                text = self._words["left out"].format(
                    events=last - first + 1,
                    begin=moment(self._trace.events[first].time, self._words),
                    end=moment(self._trace.events[last].time, self._words),
                )
                yield f"Note over {self._everybody()}: {_safe(text)}"

    def _described(self, index: int) -> Iterator[str]:
        event = self._trace.events[index]
        flight = self._flights.get(index)
        if index not in self._view.shown:
            pass  # only the beginning and the end of a stay inside
        elif flight is not None:
            copy = f" ({self._words['copy']})" if flight.is_copy else ""
            arrow = (
                ("--x" if flight.is_copy else "-x")
                if flight.is_lost
                else "-->>"
                if flight.is_copy
                else "->>"
            )
            yield (
                f"{_name(flight.sender)}{arrow}{_name(flight.receiver)}:"
                f" {_safe(self._view.described(index, event) + copy)}"
            )
        elif event.kind in KINDS_OF_CHANGE:
            change = self._changes.get(index)
            if change is not None:
                text = named(change, self._trace.processes, self._trace.label, self._words)
                yield f"Note over {self._everybody()}: {_safe(text)}"
        elif event.kind not in ("send", "duplicate") and not (
            event.kind == "start" and event.time == self._first
        ):
            if event.kind == "indicate" and index not in self._entries:
                described = what(event)
            else:
                described = in_words(event, self._trace.label, self._words)
            described += times(self._view.repeats[index]) if index in self._view.repeats else ""
            yield f"Note over {_name(event.process)}: {_safe(described)}"
        if index in self._view.notes:
            yield f"Note right of {_name(event.process)}: {_safe(self._view.notes[index])}"
        if index in self._entries:
            yield f"activate {_name(event.process)}"
        for process in self._exits[index]:
            yield f"deactivate {_name(process)}"

    def _everybody(self) -> str:
        ends = dict.fromkeys((self._view.processes[0], self._view.processes[-1]))
        return ",".join(map(_name, ends))


def _is_shown(period: Period, view: View) -> bool:
    last = len(view.trace.events) if period.last is None else period.last
    return period.process in view.processes and any(
        index in view.shown for index in range(period.first, last + 1)
    )


def _red_stretches(view: View, inside: list[Period]) -> list[tuple[int, int, str]]:
    """Return the stretches of events on red ground, and the names of the violated properties.

    Mermaid wants such stretches nested or disjoint, so overlapping ones are merged.
    """
    found: list[tuple[int, int, str]] = []
    trace = view.trace
    last = len(trace.events) - 1
    for finding in trace.violations:
        if finding.time is None or not trace.events or not view.covers(finding.time):
            continue
        at = [index for index, event in enumerate(trace.events) if event.time <= finding.time]
        first = at[-1] if at else 0
        together = [
            period
            for period in inside
            if period.process in finding.processes
            and period.first <= first
            and (period.last is None or period.last > first)
        ]
        begin, end = first, first
        if len(together) > 1:
            begin = max(period.first for period in together)
            end = min(last if period.last is None else period.last for period in together)
        found.append((begin, end, finding.name))
    merged: list[tuple[int, int, str]] = []
    for begin, end, name in sorted(found):
        if merged and begin <= merged[-1][1]:
            before = merged[-1]
            merged[-1] = (before[0], max(before[1], end), f"{before[2]}, {name}")
        else:
            merged.append((begin, end, name))
    return merged


def _name(process: ProcessId) -> str:
    return f"p{process}" if process >= 0 else f"m{-process}"


_PLAIN = re.compile(r"[^\w .,()/+=*'!?|\[\]-]")


def _safe(text: str) -> str:
    """Escape everything that has a meaning in Mermaid; the word "end" ends a block."""
    text = printable(text)
    text = text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
    text = _PLAIN.sub(lambda found: f"#{ord(found[0])};", text)
    return re.sub(
        r"\bend\b", lambda found: f"#{ord(found[0][0])};{found[0][1:]}", text, flags=re.IGNORECASE
    )


def _inline(text: str) -> str:
    """Escape text for Markdown, on one line."""
    return re.sub(r"([\\`*_{}\[\]<>#|&])", r"\\\1", printable(text))

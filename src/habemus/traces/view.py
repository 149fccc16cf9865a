"""Views: the events of a trace that a picture or a table shows, and what stands for the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from habemus.argument_names import argument
from habemus.core.events import KINDS, Event
from habemus.core.process import ProcessId
from habemus.core.words import did_you_mean
from habemus.traces.flights import Flight, flights
from habemus.traces.network import KINDS_OF_CHANGE
from habemus.traces.trace import Trace

ALWAYS_SHOWN = frozenset({"start", "crash", "recover", "pause", "resume", *KINDS_OF_CHANGE})
"""Kinds of events that `only` does not hide: without them the others cannot be understood."""


class UnknownWord(ValueError):
    """A word of `hide` or `only` that matches no event of the trace."""


@dataclass(frozen=True)
class Selection:
    """The choice of a reader.  Times are microseconds.

    A word of `hide` and `only` is a name (`Heartbeat`), a kind of event (`timer`), a component
    (`election.detector`) or a process.
    """

    begin: int | None = None
    end: int | None = None
    hide: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    fold: bool = True


EVERYTHING = Selection()


NOTHING = ("", "none", "no", "0", "0.0", "[]", "{}")
"""Texts of values that say nothing at the start of a process."""


@dataclass(frozen=True)
class States:
    """Variables of the processes after each step, as texts."""

    names: tuple[str, ...]
    after: Mapping[int, tuple[str, ...]]  # index of the event that begins a step -> values
    changes_only: bool = False  # name what a step changed, instead of a column for each variable

    def notes(self, events: Sequence[Event], shown: Collection[int]) -> dict[int, str]:
        """Return for each step that is shown what has changed since the last one of its process.

        What is empty, zero or absent at the start is not mentioned.
        """
        last: dict[ProcessId, tuple[str, ...]] = {}
        found: dict[int, str] = {}
        for index, values in self.after.items():
            if index not in shown:
                continue
            process = events[index].process
            before = last.get(process)
            changed = [
                f"{name} {value}"
                for order, (name, value) in enumerate(zip(self.names, values, strict=True))
                if (value not in NOTHING if before is None else value != before[order])
            ]
            last[process] = values
            if changed:
                found[index] = " · ".join(changed)
        return found


@dataclass(frozen=True)
class View:
    trace: Trace
    processes: tuple[ProcessId, ...]
    shown: frozenset[int]  # indices of events
    all_flights: Sequence[Flight]  # of the whole trace
    repeats: Mapping[int, int] = field(default_factory=dict)
    """Key of a flight, or index of a timer -> the number of equal ones that it stands for."""
    varying: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """Key of a repeated flight or timer -> the fields in which the equal ones differ."""
    left_out: tuple[tuple[int, int], ...] = ()
    """First and last index of each stretch of events that does not fit and is left out."""
    begin: int | None = None
    end: int | None = None
    """The times that were selected."""
    folded_events: int = 0
    """Number of events for which others stand."""
    states: States | None = None

    @cached_property
    def flights(self) -> list[Flight]:
        """The flights of messages of which an end is shown, between processes that are shown."""
        return [
            flight
            for flight in self.all_flights
            if (flight.sent in self.shown or flight.ended in self.shown)
            and flight.sender in self.processes
            and flight.receiver in self.processes
        ]

    @cached_property
    def notes(self) -> dict[int, str]:
        """Index of an event -> the variables that changed."""
        return self.states.notes(self.trace.events, self.shown) if self.states else {}

    def covers(self, time: int) -> bool:
        """Return whether a moment lies within what is shown."""
        events = self.trace.events
        return (
            (self.begin is None or time >= self.begin)
            and (self.end is None or time <= self.end)
            and not any(
                events[first].time < time < events[last].time for first, last in self.left_out
            )
        )

    def described(self, key: int, event: Event) -> str:
        """Describe a message or timer and how often it is repeated; `…` is a field that varies."""
        count = self.repeats.get(key)
        if count is None:
            return event.described()
        fields = {
            name: _blurred(value) if name in self.varying[key] else value
            for name, value in event.fields().items()
        }
        return event._replace(value=fields).described() + times(count)


def times(count: int) -> str:
    """Return what follows the name of a message that stands for so many."""
    return f" \N{MULTIPLICATION SIGN}{count}"


def _blurred(value: Any) -> Any:
    """Return what stands for a field that varies: the name of a message inside, or three dots."""
    is_message = isinstance(value, dict) and len(value) == 1
    return next(iter(value)) if is_message else "…"


def key_of(flight: Flight) -> int:
    """Return the index of the event that identifies a flight among all flights."""
    index = flight.ended if flight.ended is not None else flight.sent
    assert index is not None
    return index


def select(trace: Trace, selection: Selection = EVERYTHING, states: States | None = None) -> View:
    """Return the view of the selected events, without folding."""
    choice = _Choice(trace, selection)
    shown = frozenset(index for index, event in enumerate(trace.events) if choice.takes(event))
    return View(
        trace,
        choice.processes,
        shown,
        flights(trace.events),
        begin=selection.begin,
        end=selection.end,
        states=states,
    )


class _Choice:
    """The test whether an event is selected."""

    def __init__(self, trace: Trace, selection: Selection) -> None:
        self._selection = selection
        labels = {trace.label(process): process for process in trace.processes}
        labels |= {str(process): process for process in trace.processes}
        self._parts = {event.part.removeprefix(".") for event in trace.events} - {""}
        known = {event.name for event in trace.events} - {""} | self._parts
        for option, words in (("hide", selection.hide), ("only", selection.only)):
            for word in words:
                if word not in known and word not in labels and word not in KINDS:
                    raise _unknown(option, word, [*known, *labels, *KINDS])
        hidden = {labels[word] for word in selection.hide if word in labels and word not in known}
        wanted = {labels[word] for word in selection.only if word in labels and word not in known}
        self.processes = tuple(
            process
            for process in trace.processes
            if process not in hidden and (not wanted or process in wanted)
        )
        self._hide = frozenset(word for word in selection.hide if word in known or word in KINDS)
        self._only = frozenset(word for word in selection.only if word in known or word in KINDS)

    def takes(self, event: Event) -> bool:
        begin, end = self._selection.begin, self._selection.end
        if (begin is not None and event.time < begin) or (end is not None and event.time > end):
            return False
        if event.process not in self.processes:
            return False
        if event.peer is not None and event.peer not in self.processes:
            return False
        words = self._words(event)
        if words & self._hide:
            return False
        return not self._only or event.kind in ALWAYS_SHOWN or bool(words & self._only)

    def _words(self, event: Event) -> set[str]:
        path = event.part.removeprefix(".").split(".")
        parts = {
            ".".join(path[begin : end + 1])
            for begin in range(len(path))
            for end in range(begin, len(path))
        }
        return {event.name, event.kind, *parts} - {""}


def _unknown(option: str, word: str, known: Sequence[str]) -> UnknownWord:
    return UnknownWord(
        f"{argument(option)} {word}: no event of this run has this name, kind, component or"
        " process; " + did_you_mean(word, sorted(known))
    )

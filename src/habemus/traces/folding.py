"""Folding: one message or timer stands for many that repeat it.

A heartbeat is sent every few milliseconds, and a picture of hundreds of them shows nothing.  A
message is folded into an earlier one if it repeats it: same sender and receiver, name and fields,
the same fate, and its receipt leads to the same kinds of effects.  A field that grows nearly
every time is a counter, and is not compared.

Only what a process does by itself is folded: what begins with a timer or at the start, and makes
no indication.  What an application asks for, and what follows from it, is always shown.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from habemus.core.events import Event
from habemus.core.process import ProcessId
from habemus.core.values import canonical
from habemus.traces.flights import Flight
from habemus.traces.network import KINDS_OF_CHANGE
from habemus.traces.view import View, key_of

OPENING = frozenset({"start", "recover", "request", "receive", "timer"})
"""Kinds of events that begin a step of a process."""
NEVER_FOLDED = frozenset({"crash", "recover", "pause", "resume", *KINDS_OF_CHANGE})


NO_COUNTERS = frozenset({"process", "leader", "term", "epoch", "round", "phase"})
"""Fields that matter whenever they change, even if they nearly always do."""


class Folding(NamedTuple):
    """How much is folded."""

    least: int  # smallest number of equal messages that are folded
    news: frozenset[str]
    """Kinds of events after which the next message of each sort is shown again."""


FOLDINGS = (
    Folding(3, NEVER_FOLDED | {"indicate", "request"}),
    Folding(2, NEVER_FOLDED | {"indicate"}),
    Folding(2, NEVER_FOLDED),
    Folding(2, frozenset()),
)
"""All levels, from the least to the most."""


class _Unit(NamedTuple):
    """A message from its sending to its end, or a timer: folded as one."""

    key: int
    events: tuple[int, ...]
    event: Event
    sort: tuple[Any, ...]  # equal in units that repeat each other, apart from the fields
    may_fold: bool


def folded(view: View) -> Iterator[View]:
    """Yield views of which ever more is folded."""
    folder = _Folder(view)
    for folding in FOLDINGS:
        yield folder.fold(folding)


class _Folder:
    """Folds one view, more or less."""

    def __init__(self, view: View) -> None:
        self._view = view
        units = _units(view.trace.events, view.all_flights)
        self._units = sorted(
            (unit for unit in units if view.shown.issuperset(unit.events)),
            key=lambda unit: unit.events[0],
        )
        counters = _counters(self._units)
        self._fields = [_fields_of(unit, counters) for unit in self._units]

    def fold(self, folding: Folding) -> View:
        """Return the view with repeated messages and timers folded."""
        hidden: set[int] = set()
        repeats: dict[int, int] = {}
        varying: dict[int, frozenset[str]] = {}
        for first, *others in self._groups(_epochs(self._view, folding.news)):
            if len(others) + 1 < folding.least:
                continue
            repeats[first.key] = len(others) + 1
            varying[first.key] = frozenset(
                name
                for name, value in first.event.fields().items()
                if any(unit.event.fields()[name] != value for unit in others)
            )
            hidden.update(index for unit in others for index in unit.events)
        hidden |= _copies_of(hidden, self._view.trace.events)
        hidden &= self._view.shown
        return replace(
            self._view,
            shown=self._view.shown - hidden,
            repeats=repeats,
            varying=varying,
            folded_events=len(hidden),
        )

    def _groups(self, epochs: list[int]) -> list[list[_Unit]]:
        """Return the units, each with those that repeat it."""
        groups: list[list[_Unit]] = []
        equal: dict[tuple[Any, ...], list[_Unit]] = {}
        similar: dict[tuple[Any, ...], list[_Unit]] = {}  # but for counters
        for unit, (fields, rest) in zip(self._units, self._fields, strict=True):
            when = epochs[unit.events[0]], unit.sort
            exactly, nearly = (*when, fields), (*when, rest)
            group = equal.get(exactly) or similar.get(nearly) if unit.may_fold else None
            if group is None:
                groups.append(group := [])
            group.append(unit)
            equal.setdefault(exactly, group)
            if unit.may_fold:
                similar.setdefault(nearly, group)
        return groups


def _copies_of(hidden: set[int], events: Sequence[Event]) -> set[int]:
    """Return the events that say that a hidden message was duplicated."""
    numbers = {events[index].number for index in hidden if events[index].kind == "send"}
    return {
        index
        for index, event in enumerate(events)
        if event.kind == "duplicate" and event.number in numbers
    }


def _epochs(view: View, news: frozenset[str]) -> list[int]:
    """Return for each event how much news there was before it."""
    found, count = [], 0
    for index, event in enumerate(view.trace.events):
        if event.kind in news and index in view.shown:
            count += 1
        found.append(count)
    return found


def _units(events: Sequence[Event], all_flights: Sequence[Flight]) -> list[_Unit]:
    steps = _Steps(events, all_flights)
    units = []
    for flight in all_flights:
        indices = tuple(each for each in (flight.sent, flight.ended) if each is not None)
        if flight.is_copy:
            indices = indices[1:]  # the sending belongs to the first copy
        if not indices:
            continue
        event = events[flight.sent if flight.sent is not None else indices[0]]
        received = flight.ended is not None and not flight.is_lost
        effects = steps.effects(flight.ended) if received else frozenset()
        sort = (*flight[:2], event.name, event.part, *flight[4:], flight.ended is None, effects)
        may_fold = (
            flight.sent is not None
            and steps.is_by_itself(flight.sent)
            and not _has_indication(effects)
        )
        units.append(_Unit(key_of(flight), indices, event, sort, may_fold))
    for index, event in enumerate(events):
        if event.kind == "timer":
            effects = steps.effects(index)
            indices = (index, *steps.choices(index))
            timer = ("timer", event.process, event.name, event.part, effects)
            units.append(_Unit(index, indices, event, timer, not _has_indication(effects)))
    return units


def _has_indication(effects: frozenset[tuple[str, str, str]]) -> bool:
    return any(kind == "indicate" for kind, _, _ in effects)


class _Steps:
    """The steps of the processes, their effects, and what began each chain of steps."""

    def __init__(self, events: Sequence[Event], all_flights: Sequence[Flight]) -> None:
        self._events = events
        self._effects: defaultdict[int, list[int]] = defaultdict(list)
        self._by_itself: list[bool] = []  # for each event
        sent = {flight.ended: flight.sent for flight in all_flights if flight.ended is not None}
        current: dict[ProcessId, int] = {}
        for index, event in enumerate(events):
            opening = current.get(event.process)
            if event.kind in OPENING:
                current[event.process] = index
                cause = sent.get(index)
                by_itself = event.kind != "request" and (cause is None or self._by_itself[cause])
            elif event.kind in ("send", "indicate", "choose") and opening is not None:
                self._effects[opening].append(index)
                by_itself = self._by_itself[opening]
            else:
                by_itself = True
            self._by_itself.append(by_itself)

    def is_by_itself(self, index: int) -> bool:
        """Return whether the event follows from a timer or the start, not from a request."""
        return self._by_itself[index]

    def effects(self, opening: int | None) -> frozenset[tuple[str, str, str]]:
        """Return kind, name and component of the effects of a step."""
        if opening is None:
            return frozenset()
        events = (self._events[index] for index in self._effects[opening])
        return frozenset((event.kind, event.name, event.part) for event in events)

    def choices(self, opening: int) -> list[int]:
        return [index for index in self._effects[opening] if self._events[index].kind == "choose"]


def _counters(units: Sequence[_Unit]) -> dict[tuple[str, str], frozenset[str]]:
    """Return for each name of a message or timer the fields that grow nearly every time."""
    last: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    pairs: Counter[tuple[str, str]] = Counter()
    changed: dict[tuple[str, str], Counter[str]] = {}
    for unit in units:
        sort = unit.event.name, unit.event.part
        fields = unit.event.fields()
        between = (*sort, unit.event.process, unit.event.peer, unit.event.kind)
        before = last.get(between)
        changed.setdefault(sort, Counter())
        if before is not None:
            pairs[sort] += 1
            changed[sort].update(
                name
                for name in fields
                if name not in NO_COUNTERS and _counts(before.get(name), fields[name])
            )
        last[between] = fields
    return {
        sort: frozenset(name for name, count in found.items() if 2 * count > pairs[sort])
        for sort, found in changed.items()
    }


def _counts(before: Any, now: Any) -> bool:
    """Return whether a counter may go from one value to the other."""
    if type(before) is int and type(now) is int:
        return now > before
    return bool(before != now)


def _fields_of(unit: _Unit, counters: dict[tuple[str, str], frozenset[str]]) -> tuple[str, str]:
    """Return the fields as texts to compare: all of them, and those that are no counters."""
    fields, dropped = unit.event.fields(), counters[unit.event.name, unit.event.part]
    if not fields:
        return "", ""
    rest = {name: value for name, value in fields.items() if name not in dropped}
    return canonical(fields), canonical(rest)

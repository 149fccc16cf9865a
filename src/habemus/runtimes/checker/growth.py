"""Runs that repeat with ever larger numbers, such as rounds or terms.

Such a run returns to no state.  But it returns to states of the same *shape*: those that differ
only in how far their counters have come.  A counter is a variable or a field, given by its name,
whose values grow beyond all process ids while the graph is followed.  The shape of a state has,
instead of the value of a counter, its distance from the smallest value under that name in the
state.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, NamedTuple

from habemus.core.values import Value
from habemus.runtimes.checker.second_phase import SecondPhase


class _Number(NamedTuple):
    """An integer with the name of its variable or field."""

    name: str
    value: int


def _tagged(thing: Any, name: str) -> Hashable:
    """Return a value as nested tuples, with names at its integers."""
    if isinstance(thing, bool) or thing is None:
        return thing
    if isinstance(thing, int):
        return _Number(name, int(thing))
    if isinstance(thing, Value):
        fields = type(thing).__fields__
        return (type(thing).__name__, *(_tagged(getattr(thing, each), each) for each in fields))
    if isinstance(thing, tuple) and hasattr(thing, "_fields"):
        return tuple(_tagged(getattr(thing, each), each) for each in thing._fields)
    if isinstance(thing, frozenset | set):
        return ("set", *sorted((_tagged(each, name) for each in thing), key=repr))
    if isinstance(thing, Mapping):
        return tuple(_tagged(each, name) for each in sorted(thing.items(), key=repr))
    if isinstance(thing, tuple | list):
        return tuple(_tagged(each, name) for each in thing)
    return repr(thing)


def _numbers(tagged: Hashable) -> Iterator[_Number]:
    if isinstance(tagged, _Number):
        yield tagged
    elif isinstance(tagged, tuple):
        for each in tagged:
            yield from _numbers(each)


def _shifted(tagged: Hashable, least: Mapping[str, int]) -> Hashable:
    if isinstance(tagged, _Number):
        return tagged.value - least.get(tagged.name, 0)
    if isinstance(tagged, tuple):
        return tuple(_shifted(each, least) for each in tagged)
    return tagged


class Shapes:
    """The shapes of the states of a second phase."""

    def __init__(self, phase: SecondPhase) -> None:
        self.phase = phase
        self._parts: list[dict[int, Hashable]] = [{} for _ in range(len(phase.models) + 1)]
        self._largest = max(phase.system.topology.processes)
        greatest: dict[str, int] = {}
        for position in range(len(phase.states)):
            for part in self._tagged_parts(position):
                for number in _numbers(part):
                    greatest[number.name] = max(greatest.get(number.name, 0), number.value)
        self.counters = {name for name, value in greatest.items() if value > self._largest}

    def _tagged_parts(self, position: int) -> list[Hashable]:
        numbers = self.phase.unpacked(self.phase.states[position])
        for place, number in enumerate(numbers):
            if number not in self._parts[place]:
                self._parts[place][number] = self._tagged_part(place, number)
        return [self._parts[place][number] for place, number in enumerate(numbers)]

    def _tagged_part(self, place: int, number: int) -> Hashable:
        if place == len(self.phase.models):
            return _tagged(self.phase.knowledge.values[number], "")
        model = self.phase.models[place]
        component = model.components.values[number]
        if not component.up:
            return "down"  # for ever, so its counters do not matter
        node = tuple(
            tuple(
                _tagged(value, name)
                for name, value in zip(type(part.plan).__state_names__, state, strict=True)
            )
            for part, state in zip(model.stack.parts, model.state_of(number), strict=True)
        )
        inbox = tuple(_tagged(model.messages.values[each], "") for each in component.inbox)
        timers = tuple(
            (each.port, _tagged(each.timer, ""), f"{each.left} left")
            for each in model.timers.values[component.timers]
        )
        return (node, inbox, timers, _tagged(model.use_of(number), ""), component.up)

    def of(self, position: int) -> tuple[Hashable, dict[str, int]]:
        """Return the shape of a state, and the smallest value of each counter in it."""
        parts = self._tagged_parts(position)
        least: dict[str, int] = {}
        for part in parts:
            for name, value in _numbers(part):
                if name in self.counters and value < least.get(name, value + 1):
                    least[name] = value
        return tuple(_shifted(part, least) for part in parts), least


__all__ = ["Shapes"]

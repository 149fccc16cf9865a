"""Durable variables of a node: read, encoded for stable storage, and decoded again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from habemus.core.node import Known, Stack, State
from habemus.core.process import Process
from habemus.core.shapes import Malformed, Shape


class _Variable(NamedTuple):
    port: int
    place: int  # in the state of its part
    name: str
    shape: Shape
    known: Known
    title: str  # path and class of its part, and its name
    is_synced: bool  # a crash of the machine must not lose its latest value


class Stable:
    """The durable variables of a process with all its parts, in one order."""

    def __init__(self, stack: Stack) -> None:
        self._initial = stack.initial
        self._variables = [
            _Variable(
                part.port,
                place,
                name,
                shape,
                stack.known_at(part.port),
                f"{part.path}:{type(part.plan).__name__}.{name}",
                name not in part.plan.unsynced().variables,
            )
            for part in stack.parts
            for place, name, shape in _durable(type(part.plan))
        ]
        self._frozen = [
            (each.port, each.name, each.shape.freeze)
            for each in self._variables
            if each.shape.freeze is not None
        ]
        # the others, those of each part at once: a live node compares them after every step
        kind = attrgetter("port", "is_synced")
        plain = sorted((each for each in self._variables if each.shape.freeze is None), key=kind)
        groups = [
            (port, is_synced, list(found)) for (port, is_synced), found in groupby(plain, kind)
        ]
        # The getter of a single variable returns no tuple; compiled code would expect one.
        self._taken: list[tuple[int, Callable[[Any], Any]]] = [
            (port, attrgetter(*(each.name for each in found))) for port, _, found in groups
        ]
        # of the values that are taken, in their order
        self._are_synced = [is_synced for _, is_synced, _ in groups]
        self._are_synced += [
            each.is_synced for each in self._variables if each.shape.freeze is not None
        ]
        self.down_us = max((part.plan.unsynced().down for part in stack.parts), default=0)
        """How long the process stays down after a crash of its machine."""

    @property
    def names(self) -> list[str]:
        """Names of the variables, in the order in which they are stored."""
        return [each.title for each in self._variables]

    def taken(self, parts: Sequence[Process]) -> tuple[Any, ...]:
        """Return the current values in a form that can be compared with earlier ones."""
        values: list[Any] = [get(parts[port]) for port, get in self._taken]
        for port, name, freeze in self._frozen:
            values.append(freeze(getattr(parts[port], name)))
        return tuple(values)

    def are_unchanged(self, parts: Sequence[Process], taken: tuple[Any, ...]) -> bool:
        """Return whether the values are those that were taken.  A live node asks after every step,
        and the answer is nearly always yes.
        """
        place = 0
        for port, get in self._taken:
            if get(parts[port]) != taken[place]:
                return False
            place += 1
        for port, name, freeze in self._frozen:
            if freeze(getattr(parts[port], name)) != taken[place]:
                return False
            place += 1
        return True

    def must_sync(self, parts: Sequence[Process], taken: tuple[Any, ...]) -> bool:
        """Return whether variables have changed that a crash of the machine must not set back."""
        for is_synced, now, before in zip(self._are_synced, self.taken(parts), taken, strict=True):
            if is_synced and now != before:
                return True
        return False

    def plain(self, parts: Sequence[Process]) -> list[Any]:
        """Return the current values in a form that JSON can hold."""
        return [
            each.shape.to_plain(getattr(parts[each.port], each.name)) for each in self._variables
        ]

    def state(self, plain: Any, names: Sequence[str] | None = None) -> State:
        """Return the state in which a process recovers that had stored these values.

        names: of the variables that were stored, if they may be others.  A variable that is not
            among them has its initial value.

        Raises `Malformed` if they are not values of the durable variables.
        """
        names = self.names if names is None else names
        if not isinstance(plain, list) or len(plain) != len(names):
            count = len(plain) if isinstance(plain, list) else "no"
            raise Malformed(f"expected {len(names)} durable variables, found {count}")
        variables = {each.title: each for each in self._variables}
        unknown = [name for name in names if name not in variables]
        if unknown:
            raise Malformed(f"unknown durable variables {', '.join(unknown)}")
        state = [list(values) for values in self._initial]
        for name, found in zip(names, plain, strict=True):
            each = variables[name]
            state[each.port][each.place] = each.shape.frozen(each.shape.parse(found, each.known))
        return tuple(tuple(values) for values in state)


def _durable(cls: type[Process]) -> list[tuple[int, str, Shape]]:
    found = []
    for place, name in enumerate(cls.__state_names__):
        variable = cls.__variables__[name]
        if variable.kind == "durable" and variable.shape is not None:
            found.append((place, name, variable.shape))
    return found

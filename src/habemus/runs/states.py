"""States of the processes after each step of a trace, for readers.

The trace does not contain them.  The events are fed to the pure processes again, and their
variables are read after each step.  So this works for whatever can be replayed: a simulated run, a
counterexample, the merged records of live nodes.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, NamedTuple

from habemus.argument_names import argument
from habemus.core.events import described_plain
from habemus.core.node import Part, Stack, State
from habemus.core.process import ProcessId, Variable
from habemus.core.shapes import IS_PROCESS
from habemus.core.system import System
from habemus.core.values import Value, to_plain
from habemus.core.words import did_you_mean
from habemus.runtimes.replay import Divergence, Replay
from habemus.traces import Trace
from habemus.traces.view import States

DEFAULT, CHANGES = "default", "changes"
"""Words that stand for the variables that an algorithm names, and for all variables."""
USUAL = 3
"""Number of variables that are shown of an algorithm that names none."""


Labels = Mapping[ProcessId, str]


class UnknownVariable(ValueError):
    """No process of the run has a variable of this name."""


class Place(NamedTuple):
    """Where a variable is in the state of a process."""

    port: int
    position: int
    variable: Variable


def states_of(trace: Trace, system: System, wanted: Sequence[str]) -> States:
    """Return the wanted variables after each step of the trace."""
    stacks = {process: Stack(plan) for process, plan in system.plans.items()}
    names = names_of(list(stacks.values()), wanted)
    places = {
        process: [place_of(stack, name) for name in names] for process, stack in stacks.items()
    }
    steps = (
        index
        for index, event in enumerate(trace.events)
        if event.kind in ("start", "receive", "timer", "request", "recover")
        and event.process in stacks
    )
    after: dict[int, tuple[str, ...]] = {}
    try:
        for index, (event, state) in zip(steps, Replay(system).states(trace.events), strict=False):
            after[index] = tuple(
                value_at(place, state, trace.labels) for place in places[event.process]
            )
    except Divergence as reason:
        raise ValueError(
            f"{argument('show')} needs the states, and the events of this trace do not lead the"
            f" processes through it: {reason}"
        ) from None
    return States(tuple(names), after, changes_only=CHANGES in wanted)


def known_names(stacks: Sequence[Stack]) -> list[str]:
    """Return the names of all variables, those of components with their path."""
    return list(
        dict.fromkeys(
            _path(part, variable)
            for stack in stacks
            for part in stack.parts
            for variable in _variables(part)
        )
    )


def names_of(stacks: Sequence[Stack], wanted: Sequence[str]) -> list[str]:
    """Return the names of variables that the words stand for."""
    known = known_names(stacks)
    found: list[str] = []
    for word in wanted:
        if word == CHANGES:
            found += known
        elif word == DEFAULT:
            for stack in stacks:
                found += type(stack.plan).shows or known[:USUAL]
        elif any(place_of(stack, word) for stack in stacks):
            found.append(word)
        else:
            raise UnknownVariable(
                f"{argument('show')} {word}: no process has such a variable; "
                + did_you_mean(word, known)
            )
    return list(dict.fromkeys(found))


def _variables(part: Part) -> list[Variable]:
    kind = type(part.plan)
    return [kind.__variables__[name] for name in kind.__state_names__]


def _path(part: Part, variable: Variable) -> str:
    return f"{part.path}.{variable.name}".removeprefix(".")


def place_of(stack: Stack, name: str) -> Place | None:
    """Return where the first part that has the variable keeps it; `name` may have its path."""
    for part in stack.parts:
        for position, variable in enumerate(_variables(part)):
            if name in (variable.name, _path(part, variable)):
                return Place(part.port, position, variable)
    return None


def value_at(place: Place | None, state: State, labels: Labels) -> str:
    """Return a variable of a state as a text; empty if the process does not have it."""
    if place is None:
        return ""
    variable, value = place.variable, state[place.port][place.position]
    if variable.name == "token" and isinstance(value, tuple):
        return described_plain(list(value), "token")
    return _text(variable.declared, value, labels)


def _text(declared: Any, value: Any, labels: Labels) -> str:
    """Write a captured value for people: ids of processes by their labels."""
    arguments = typing.get_args(declared)
    origin = typing.get_origin(declared)
    if origin is Annotated:
        if IS_PROCESS in arguments[1:]:
            return labels.get(value, str(value))
        return _text(arguments[0], value, labels)
    if value is None:
        return "none"
    if origin in (typing.Union, types.UnionType):
        [*rest] = (each for each in arguments if each is not type(None))
        return _text(rest[0] if len(rest) == 1 else type(value), value, labels)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Value):
        return described_plain(to_plain(value))
    if origin is dict:
        pairs = (
            f"{_text(arguments[0], key, labels)}: {_text(arguments[1], each, labels)}"
            for key, each in value
        )
        return "{" + ", ".join(pairs) + "}"
    if origin in (set, frozenset):
        return "{" + ", ".join(_text(arguments[0], each, labels) for each in sorted(value)) + "}"
    if origin is list or (origin is tuple and arguments[-1] is Ellipsis):
        return "[" + ", ".join(_text(arguments[0], each, labels) for each in value) + "]"
    if origin is tuple:
        items = zip(arguments, value, strict=True)
        return "(" + ", ".join(_text(kind, each, labels) for kind, each in items) + ")"
    return str(value)


__all__ = [
    "CHANGES",
    "DEFAULT",
    "Place",
    "UnknownVariable",
    "known_names",
    "names_of",
    "place_of",
    "states_of",
    "value_at",
]

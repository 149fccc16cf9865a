"""Invariants: what an author writes so that a property is proved for every number of processes.

An invariant names an algorithm and a property, and has clauses: functions of processes and of
messages in transit that return whether something is so.  They are plain Python.  A search calls
them in every state that it reaches; `habemus prove` reads them as formulas.

    invariant = Invariant(TokenRing, "ME1")

    @invariant.clause
    def one_has_the_token(p: TokenRing, q: TokenRing) -> bool:
        return not (p.has_token and q.has_token) or p.me == q.me

    @invariant.clause
    def no_token_beside_its_holder(p: TokenRing, token: InTransit[Token]) -> bool:
        return not p.has_token

A clause holds for all processes and all messages in transit.  Two parameters may be the same
process, but never the same message.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Generic, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from habemus.core.process import MistakeInPlan, Process, ProcessId
from habemus.core.system import System
from habemus.core.values import Message

M = TypeVar("M", bound=Message)
Clause = Callable[..., bool]


class ClientStage(IntEnum):
    """Where the application of a process stands."""

    OUTSIDE = 0
    WAITING = 1
    INSIDE = 2


class InTransit(Generic[M]):
    """A message in transit, with the fields of the message as attributes.

    message: the message itself.
    sender: the process that has sent it; its id is `sender.me`.
    receiver: the process that will receive it.
    """

    __slots__ = ("message", "receiver", "sender")

    def __init__(self, message: M, sender: Any, receiver: Any) -> None:
        self.message = message
        self.sender = sender
        self.receiver = receiver

    def __getattr__(self, name: str) -> Any:
        return getattr(self.message, name)


class StateView:
    """A process in a state of a search, as clauses see it: its variables and its stage."""

    __slots__ = ("_claims", "_process", "_stage", "_system")

    def __init__(self, process: Process, system: System, stage: int, claims: bool) -> None:
        self._process = process
        self._system = system
        self._stage = stage
        self._claims = claims

    def __getattr__(self, name: str) -> Any:
        return getattr(self._process, name)


# What clauses may ask beside the variables.  A search computes the answers; a proof reads the
# functions of this list as symbols with axioms.


def is_inside(process: Any) -> bool:
    """Return whether the application of a process is in the critical section."""
    return bool(process._stage == ClientStage.INSIDE)


def is_waiting(process: Any) -> bool:
    """Return whether the application of a process has asked and not been let in yet."""
    return bool(process._stage == ClientStage.WAITING)


def is_leader(process: Any) -> bool:
    """Return whether a process has named itself the leader, and no other one since."""
    return bool(process._claims)


def between(first: Any, middle: Any, last: Any) -> bool:
    """Return whether a process of a ring is met on the way from one to another, before that one."""
    around = _around(first._system, first.me)
    return 0 < around.index(middle.me) < around.index(last.me)


def is_next(process: Any, other: Any) -> bool:
    """Return whether a process of a ring sends to another, on its right."""
    return bool(_around(process._system, process.me)[1:2] == [other.me])


def towards(process: Any, target: Any) -> ProcessId:
    """Return the neighbour of a process in a tree on the way to another; itself at the target."""
    return next_hop(process._system, process.me, target.me)


def same_link(first: InTransit[Any], second: InTransit[Any]) -> bool:
    """Return whether two messages are in transit from one process to another one."""
    return bool(first.sender.me == second.sender.me and first.receiver.me == second.receiver.me)


def opposite(first: InTransit[Any], second: InTransit[Any]) -> bool:
    """Return whether a message is in transit to the sender of another, from its receiver."""
    return bool(first.sender.me == second.receiver.me and first.receiver.me == second.sender.me)


QUESTIONS = (
    *("is_inside", "is_waiting", "is_leader", "between", "is_next", "towards"),
    *("opposite", "same_link"),
)
"""Names of the functions above."""


def _around(system: System, first: ProcessId) -> list[ProcessId]:
    around = [first]
    while len(around) < len(system.plans):
        around.append(system.topology.neighbours[around[-1]][-1])
    return around


def next_hop(system: System, start: ProcessId, target: ProcessId) -> ProcessId:
    """Return the first process after the start on a path to the target."""
    came_from = {target: target}
    frontier = [target]
    for process in frontier:
        for other in system.topology.neighbours[process]:
            if other not in came_from:
                came_from[other] = process
                frontier.append(other)
    return came_from[start]


class Parameter(NamedTuple):
    """A parameter of a clause: a process, or a message of this class in transit."""

    name: str
    message: type[Message] | None


class Invariant:
    """A property of an algorithm for every number of processes, with the clauses that prove it.

    algorithm: the class.
    ensures: the property, ME1 or E1.
    assumes: names of the axioms that the proof needs: ring, tree, intersection, majority, quorums.
    clauses: the clauses that `clause` has added, by name.
    beginnings: the clauses that `initially` has added, by name.
    """

    def __init__(self, algorithm: type[Process], ensures: str, assumes: Sequence[str] = ()) -> None:
        self.algorithm = algorithm
        self.ensures = ensures
        self.assumes = tuple(assumes)
        self.clauses: dict[str, Clause] = {}
        self.beginnings: dict[str, Clause] = {}

    def clause(self, function: Clause) -> Clause:
        """Add a clause of the invariant."""
        self.clauses[function.__name__] = function
        return function

    def initially(self, function: Clause) -> Clause:
        """Add a clause about initial states, for variables that differ between processes."""
        self.beginnings[function.__name__] = function
        return function

    def of(self, algorithm: type[Process]) -> Invariant:
        """Return this invariant for a subclass of its algorithm."""
        if algorithm is self.algorithm:
            return self
        found = Invariant(algorithm, self.ensures, self.assumes)
        found.clauses, found.beginnings = self.clauses, self.beginnings
        return found


def parameters_of(clause: Clause) -> tuple[Parameter, ...]:
    """Return what a clause is about, by the annotations of its parameters."""
    hints: Mapping[str, Any] = get_type_hints(clause)
    found = []
    for name in inspect.signature(clause).parameters:
        hint = hints.get(name)
        if get_origin(hint) is InTransit:
            found.append(Parameter(name, get_args(hint)[0]))
        elif isinstance(hint, type) and issubclass(hint, Process):
            found.append(Parameter(name, None))
        else:
            raise MistakeInPlan(
                f"{clause.__name__}({name}): a clause is about processes and messages in transit;"
                " annotate the parameter with the class of the algorithm, or InTransit[Message]"
            )
    return tuple(found)


__all__ = [
    "Clause",
    "ClientStage",
    "InTransit",
    "Invariant",
    "Parameter",
    "StateView",
    "between",
    "is_inside",
    "is_leader",
    "is_next",
    "is_waiting",
    "opposite",
    "parameters_of",
    "same_link",
    "towards",
]

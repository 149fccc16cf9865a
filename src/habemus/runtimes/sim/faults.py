"""What can go wrong in a simulated run, and when: at a time, or at the k-th event of a kind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from habemus.core.process import ProcessId
from habemus.runtimes.sim.network import Delay


@dataclass(frozen=True)
class Nth:
    """The k-th event of a kind at a process: `send`, `receive`, `request`, `indicate`, `timer`, or
    the name of a message, request, timer or indication.  At a `send` the process is struck in the
    middle of its step: what it had stored is stored, earlier messages of the step are out, this one
    and later ones are not."""

    kind: str
    count: int = 1
    process: ProcessId | None = None  # None: the process that the fault strikes

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"events are counted from 1, not from {self.count}")


When: TypeAlias = int | Nth


@dataclass(frozen=True)
class Crash:
    """Lose everything that is not stable, and do nothing until a recovery."""

    process: ProcessId
    when: When


@dataclass(frozen=True)
class Recover:
    """Comes back with its stable memory, or with amnesia: as if it had never run."""

    process: ProcessId
    when: When
    amnesia: bool = False


@dataclass(frozen=True)
class Pause:
    """Does nothing for a while; what comes in the meantime waits for it."""

    process: ProcessId
    when: When
    duration: int


@dataclass(frozen=True)
class Cut:
    """What these links carry is lost from now on.  Messages already under way still arrive."""

    links: tuple[tuple[ProcessId, ProcessId], ...]
    when: When


@dataclass(frozen=True)
class Heal:
    """These links carry messages again; all links, if none is named."""

    links: tuple[tuple[ProcessId, ProcessId], ...]
    when: When


@dataclass(frozen=True)
class Slow:
    """These links have another delay from now on."""

    links: tuple[tuple[ProcessId, ProcessId], ...]
    when: When
    delay: Delay


@dataclass(frozen=True)
class Skew:
    """The clock of this process is fast (negative) or slow by so many millionths: its timers run
    shorter or longer.
    """

    process: ProcessId
    millionths: int

    def __post_init__(self) -> None:
        if not -900_000 <= self.millionths <= 9_000_000:
            raise ValueError("a clock is off by -900000 to 9000000 millionths")


Fault: TypeAlias = Crash | Recover | Pause | Cut | Heal | Slow | Skew


def both_ways(one: ProcessId, other: ProcessId) -> tuple[tuple[ProcessId, ProcessId], ...]:
    """Return the links between two processes, in both directions."""
    return ((one, other), (other, one))


def one_way(sender: ProcessId, receiver: ProcessId) -> tuple[tuple[ProcessId, ProcessId], ...]:
    """Return the link from one process to another."""
    return ((sender, receiver),)


def between(*groups: Iterable[ProcessId]) -> tuple[tuple[ProcessId, ProcessId], ...]:
    """Return all links that join two of the groups: cutting them is a partition."""
    members = [tuple(group) for group in groups]
    return tuple(
        link
        for one in members
        for other in members
        if one is not other
        for link in product(one, other)
    )


def processes_of(fault: Fault) -> list[ProcessId]:
    """Who is named in a fault, so that a name that does not exist can be refused."""
    named = (
        [process for link in fault.links for process in link]
        if isinstance(fault, Cut | Heal | Slow)
        else [fault.process]
    )
    when = getattr(fault, "when", None)
    return [*named, when.process] if isinstance(when, Nth) and when.process is not None else named

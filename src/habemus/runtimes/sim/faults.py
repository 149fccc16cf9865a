"""Faults of a simulated run, each at a given time or at the k-th event of a kind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from habemus.core.process import ProcessId
from habemus.runtimes.sim.network import Delay


@dataclass(frozen=True)
class Nth:
    """The k-th event of a kind at a process.

    A fault at a `send` strikes in the middle of the step: durable variables keep what the step
    stored, messages sent earlier in the step are on the network, this message and later ones are
    not.

    kind: `send`, `receive`, `request`, `indicate`, `timer`, or the name of any message, request,
        timer or indication.
    count: the number k, counted from 1.
    process: the process at which the event happens; None: the process that the fault strikes.
    """

    kind: str
    count: int = 1
    process: ProcessId | None = None

    def __post_init__(self) -> None:
        kind: object = self.kind
        count: object = self.count
        if not (isinstance(kind, str) and isinstance(count, int)):
            raise TypeError(
                f"Nth({self.kind!r}, {self.count!r}): give the kind of an event and a number, such"
                " as Nth('Granted', 1)"
            )
        if self.count < 1:
            raise ValueError(f"events are counted from 1, not from {self.count}")


When: TypeAlias = int | Nth
"""A time in microseconds, or an event."""


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_process(fault: object, process: object) -> None:
    if not _is_number(process):
        raise TypeError(f"{fault}: {process!r} is not the number of a process, such as 2")


def _check_when(fault: object, when: object) -> None:
    if not (_is_number(when) or isinstance(when, Nth)):
        raise TypeError(
            f"{fault}: {when!r} is not a time; give a number of microseconds, such as 5_000, or an"
            " event, such as Nth('Granted', 1)"
        )


def _check_links(fault: object, links: object) -> None:
    is_fit = isinstance(links, tuple) and all(
        isinstance(link, tuple) and len(link) == 2 and all(map(_is_number, link)) for link in links
    )
    if not is_fit:
        every = ", or () for all links" if isinstance(fault, Heal) else ""
        raise TypeError(
            f"{fault}: {links!r} are not links; give for example both_ways(1, 2), one_way(1, 2) or"
            f" between([1, 2], [3]){every}"
        )
    if not links and not isinstance(fault, Heal):
        raise ValueError(f"{fault}: it names no link; give for example both_ways(1, 2)")


@dataclass(frozen=True)
class Crash:
    """Stop a process.  Only its durable variables survive until it recovers.

    process: the process.
    when: a time in microseconds, or an event.
    """

    process: ProcessId
    when: When

    def __post_init__(self) -> None:
        _check_process(self, self.process)
        _check_when(self, self.when)


@dataclass(frozen=True)
class Recover:
    """Restart a crashed process.

    process: the process.
    when: a time in microseconds, or an event.
    amnesia: whether its durable variables are lost, too.
    """

    process: ProcessId
    when: When
    amnesia: bool = False

    def __post_init__(self) -> None:
        _check_process(self, self.process)
        _check_when(self, self.when)


@dataclass(frozen=True)
class Replace:
    """Replace a crashed process whose stable memory is lost, as `habemus node --replace` does.

    It has no effect unless all others are up and connected with it.  Messages in flight from its
    former life are lost.  It strikes after everything else that happens at its time.

    process: the process.
    when: a time in microseconds.
    """

    process: ProcessId
    when: int

    def __post_init__(self) -> None:
        _check_process(self, self.process)
        if not _is_number(self.when):
            raise TypeError(
                f"{self}: {self.when!r} is not a time; give a number of microseconds, such as 5_000"
            )


@dataclass(frozen=True)
class Pause:
    """Suspend a process for a while.  Events for it are delivered when it resumes.

    process: the process.
    when: a time in microseconds, or an event.
    duration: how long, in microseconds.
    """

    process: ProcessId
    when: When
    duration: int

    def __post_init__(self) -> None:
        _check_process(self, self.process)
        _check_when(self, self.when)
        if not _is_number(self.duration) or self.duration < 0:
            raise ValueError(
                f"{self}: a pause lasts a number of microseconds, such as 20_000, not"
                f" {self.duration!r}"
            )


@dataclass(frozen=True)
class Cut:
    """Lose all messages sent on these links from now on.  Messages in flight still arrive.

    links: pairs of sender and receiver; `both_ways`, `one_way` and `between` return them.
    when: a time in microseconds, or an event.
    """

    links: tuple[tuple[ProcessId, ProcessId], ...]
    when: When

    def __post_init__(self) -> None:
        _check_links(self, self.links)
        _check_when(self, self.when)


@dataclass(frozen=True)
class Heal:
    """Let these links carry messages again.

    links: pairs of sender and receiver; all links, if it is empty.
    when: a time in microseconds, or an event.
    """

    links: tuple[tuple[ProcessId, ProcessId], ...]
    when: When

    def __post_init__(self) -> None:
        _check_links(self, self.links)
        _check_when(self, self.when)


@dataclass(frozen=True)
class Slow:
    """Change the delay of these links from now on.

    links: pairs of sender and receiver; `both_ways`, `one_way` and `between` return them.
    when: a time in microseconds, or an event.
    delay: the distribution of delays from then on.
    """

    links: tuple[tuple[ProcessId, ProcessId], ...]
    when: When
    delay: Delay

    def __post_init__(self) -> None:
        _check_links(self, self.links)
        _check_when(self, self.when)
        if not hasattr(self.delay, "sampler"):
            raise ValueError(
                f"{self.delay!r} is not a delay; give Uniform(9_000, 9_000), Exponential(9_000) or"
                " HeavyTail(9_000) of habemus.faults"
            )


@dataclass(frozen=True)
class Skew:
    """Make the clock of a process fast (negative) or slow, in parts per million.

    Its timers then run shorter or longer.

    process: the process.
    millionths: by how much its timers run longer, from -900,000 to 9,000,000.
    """

    process: ProcessId
    millionths: int

    def __post_init__(self) -> None:
        _check_process(self, self.process)
        if not _is_number(self.millionths):
            raise TypeError(
                f"{self}: {self.millionths!r} is not a whole number of millionths, such as 50_000"
            )
        if not -900_000 <= self.millionths <= 9_000_000:
            raise ValueError(
                f"a clock is off by -900000 to 9000000 millionths, not by {self.millionths}"
            )


Fault: TypeAlias = Crash | Recover | Replace | Pause | Cut | Heal | Slow | Skew
"""A fault of any kind, for the argument `faults` of `habemus.simulate`."""


def both_ways(one: ProcessId, other: ProcessId) -> tuple[tuple[ProcessId, ProcessId], ...]:
    """Return the links between two processes, in both directions."""
    return ((one, other), (other, one))


def one_way(sender: ProcessId, receiver: ProcessId) -> tuple[tuple[ProcessId, ProcessId], ...]:
    """Return the link from one process to another."""
    return ((sender, receiver),)


def between(*groups: Iterable[ProcessId]) -> tuple[tuple[ProcessId, ProcessId], ...]:
    """Return all links that join two of the groups: cutting them is a partition.

    groups: the processes of each side, such as [1, 2], [3].
    """
    given: tuple[object, ...] = groups
    if not all(isinstance(group, Iterable) and not isinstance(group, str) for group in given):
        raise TypeError(
            f"between{groups!r}: give groups of processes, such as between([1], [2, 3])"
        )
    members = [tuple(group) for group in groups]
    return tuple(
        link
        for one in members
        for other in members
        if one is not other
        for link in product(one, other)
    )


def processes_of(fault: Fault) -> list[ProcessId]:
    """Return the processes that a fault names, so that unknown ones can be refused."""
    named = (
        [process for link in fault.links for process in link]
        if isinstance(fault, Cut | Heal | Slow)
        else [fault.process]
    )
    when = getattr(fault, "when", None)
    return [*named, when.process] if isinstance(when, Nth) and when.process is not None else named

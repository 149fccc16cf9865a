"""Logical clocks: what a process can know about before and after without looking at a real clock.

*Lamport's clock* is one number per process.  It grows with every event, and if one event happened before
another its number is smaller.  The reverse does not hold, so numbers cannot tell what is concurrent.

    self.clock = tick(self.clock)                     # the application asks
    self.clock = tick_past(self.clock, reply.stamp)   # a message arrives; what is sent now carries this stamp

*Vector clocks* keep one number for every process.  One event happened before another exactly if its clock is
smaller, so they also tell when neither did.  Traces carry them as bare tuples of counts in the order of the
processes; `happened_before` and `concurrent` compare those, and a `VectorClock` knows its processes as well.

Sources  Lamport: Time, clocks, and the ordering of events in a distributed system, CACM 21(7), 1978.
         Fidge: Timestamps in message-passing systems that preserve the partial ordering, ACSC 1988.
         Mattern: Virtual time and global states of distributed systems, 1989.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import le

from habemus.core.process import ProcessId
from habemus.core.values import Value

# Lamport's clock.


def tick(clock: int) -> int:
    """The clock after a local event, such as a request of the application."""
    return clock + 1


def tick_past(clock: int, received: int) -> int:
    """The clock after the receipt of a message with the given stamp: later than all that either side has seen."""
    return max(clock, received) + 1


# Bare vectors: counts in the same order on both sides, as the events of one trace have them.


def happened_before(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether the event with the first clock can have caused the event with the second."""
    _same_length(one, other)
    return one != other and all(map(le, one, other))


def concurrent(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether neither event can have caused the other.  An event is not concurrent with itself."""
    return one != other and not happened_before(one, other) and not happened_before(other, one)


def _same_length(one: Sequence[int], other: Sequence[int]) -> None:
    if len(one) != len(other):
        raise ValueError(f"vector clocks of {len(one)} and of {len(other)} processes cannot be compared")


class VectorClock(Value):
    """How many events of each process its owner knows of.

    It is a value, so messages and variables may hold it.  The order of values, which `sorted` uses, goes by the
    counts from left to right and so never puts an effect before its cause; it orders concurrent clocks too, which
    is why the causal order has names of its own and not `<`.
    """

    processes: tuple[ProcessId, ...]
    counts: tuple[int, ...]

    @classmethod
    def zero(cls, processes: Iterable[ProcessId]) -> VectorClock:
        """The clock before any event, over the given processes in the given order."""
        everybody = tuple(processes)
        twice = sorted({process for process in everybody if everybody.count(process) > 1})
        if twice:
            raise ValueError(f"process {twice[0]} is named twice in a vector clock")
        return cls(everybody, (0,) * len(everybody))

    @classmethod
    def of(cls, counts: Mapping[ProcessId, int]) -> VectorClock:
        """The clock with these counts, its processes in ascending order."""
        for process in sorted(counts):
            if counts[process] < 0:
                raise ValueError(f"process {process} cannot have had {counts[process]} events")
        everybody = tuple(sorted(counts))
        return cls(everybody, tuple(counts[process] for process in everybody))

    def __getitem__(self, process: ProcessId) -> int:
        return self.counts[self._position(process)]

    def _position(self, process: ProcessId) -> int:
        if process not in self.processes:
            raise ValueError(f"process {process} is not in this vector clock; it has {', '.join(map(str, self.processes)) or 'none'}")
        return self.processes.index(process)

    def tick(self, process: ProcessId) -> VectorClock:
        """After one more event of the process."""
        position = self._position(process)
        return VectorClock(self.processes, (*self.counts[:position], self.counts[position] + 1, *self.counts[position + 1 :]))

    def merge(self, other: VectorClock) -> VectorClock:
        """What both know together: the smallest clock that neither exceeds."""
        self._same_processes(other)
        return VectorClock(self.processes, tuple(map(max, self.counts, other.counts)))

    def tick_past(self, process: ProcessId, received: VectorClock) -> VectorClock:
        """After the process has received a message with the given clock."""
        return self.merge(received).tick(process)

    def happened_before(self, other: VectorClock) -> bool:
        self._same_processes(other)
        return happened_before(self.counts, other.counts)

    def concurrent_with(self, other: VectorClock) -> bool:
        self._same_processes(other)
        return concurrent(self.counts, other.counts)

    def _same_processes(self, other: VectorClock) -> None:
        if self.processes != other.processes:
            raise ValueError(f"vector clocks over different processes, {self.processes} and {other.processes}, cannot be compared")

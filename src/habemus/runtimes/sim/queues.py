"""The two queues of the simulator.  Both give events in the order of (time, tie, address, sender, message).

With little in flight a binary heap is fastest.  With a million messages in flight its comparisons dominate,
and a calendar wins: events go unsorted into the bucket of their time, and a bucket is sorted once, when its
time has come.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, TypeAlias

from habemus.core.process import ProcessId

Queued: TypeAlias = tuple[int, int, int, ProcessId, Any]
"""Time, tie (drawn, so that the seed orders what happens at one instant), address, sender, message."""
Push: TypeAlias = Callable[[Any, Queued], None]
Pop: TypeAlias = Callable[[Any], Queued]

BUCKET_BITS = 6
"""A bucket holds 64 microseconds: short against a message's delay, so events rarely enter the current one."""


class Calendar:
    __slots__ = ("buckets", "current", "epoch", "epochs", "index")

    def __init__(self) -> None:
        self.buckets: dict[int, list[Queued]] = {}
        self.epochs: list[int] = []  # a heap of the times that have a bucket
        self.epoch = -1
        self.current: list[Queued] = []
        self.index = 0

    def __len__(self) -> int:
        return len(self.current) - self.index + sum(map(len, self.buckets.values()))

    def __bool__(self) -> bool:
        return self.index < len(self.current) or bool(self.epochs)


def calendar_push(calendar: Calendar, event: Queued) -> None:
    epoch = event[0] >> BUCKET_BITS
    if epoch in calendar.buckets:
        calendar.buckets[epoch].append(event)
    elif epoch == calendar.epoch:
        insort(calendar.current, event, calendar.index)
    else:
        calendar.buckets[epoch] = [event]
        heappush(calendar.epochs, epoch)


def calendar_pop(calendar: Calendar) -> Queued:
    index = calendar.index
    if index < len(calendar.current):
        calendar.index = index + 1
        return calendar.current[index]
    epoch = calendar.epoch = heappop(calendar.epochs)
    current = calendar.current = calendar.buckets.pop(epoch)
    current.sort()
    calendar.index = 1
    return current[0]

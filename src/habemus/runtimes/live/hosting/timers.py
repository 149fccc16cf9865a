"""Timers on a clock that continues while the machine is suspended.

All timers of a node are in two heaps, urgent ones and others, and the event loop wakes up for the
first of them.  A cancelled timer stays in its heap and is skipped, so setting and cancelling are
cheap.

A timer never fires early: event loops round, so a timer that wakes up too soon sleeps again.  It
may fire late.  After a pause of the process, overdue timers fire in the order of their deadlines,
urgent ones first, with other work of the event loop in between if that takes long.

The clock of an event loop stops during suspend.  So its waits are short, and overdue timers fire a
moment after a resume.

Times are whole microseconds.  The wall clock is never read.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final

from habemus import boottime
from habemus.core.process import Span
from habemus.runtimes.live.hosting.turn import Turn

SWEEP_FROM: Final = 1_000
"""Number of cancelled entries from which on they are removed, if they are most of the heap."""


SLICE_US: Final = 5_000
"""Time slice after which the event loop continues with other work."""


def now_us() -> int:
    """Microseconds since the machine booted, comparable between processes of one machine."""
    return boottime.nanoseconds() // 1_000


def random_source(seed: int | None) -> random.Random:
    """Return the system's source of random numbers, or a seeded one for tests."""
    return random.SystemRandom() if seed is None else random.Random(seed)


class Alarm:
    """A timer that has been set, and may have fired or been cancelled since."""

    __slots__ = ("action", "deadline")

    def __init__(self, deadline: int, action: Callable[[], None]) -> None:
        self.deadline = deadline
        self.action: Callable[[], None] | None = action

    @property
    def is_set(self) -> bool:
        return self.action is not None


class Timers:
    """All timers of a node."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        draw: random.Random,
        clock: Callable[[], int] = now_us,
        turn: Turn | None = None,
    ) -> None:
        self._loop = loop
        self._draw = draw
        self.now_us = clock
        self._turn = turn or Turn(loop)
        self._heap: list[tuple[int, int, Alarm]] = []  # deadline, sequence
        self._urgent: list[tuple[int, int, Alarm]] = []  # those that are due first
        self._sequence = 0
        self._cancelled = 0  # entries of the heap
        self._wake: asyncio.TimerHandle | None = None
        self._wake_at = 0
        self._is_firing = False

    def turn_us(self) -> int:
        """Return the time of this turn, in which the clock is read once.

        It is later than that of everything that was received before the turn.
        """
        turn = self._turn
        if not turn.is_open:
            return self.now_us()
        if not turn.time_us:
            turn.time_us = self.now_us()
        return turn.time_us

    def __len__(self) -> int:
        return len(self._heap) + len(self._urgent) - self._cancelled

    def drawn(self, span: Span) -> int:
        return span if isinstance(span, int) else self._draw.randint(*span)

    def set(self, after: Span, action: Callable[[], None], is_urgent: bool = False) -> Alarm:
        """Call the action once, after a delay drawn from the span.

        Urgent actions that are due come before all others: those of elections and detectors, whose
        heartbeats must not wait until thousands of locks have retransmitted something.
        """
        self._sequence += 1
        deadline = self.now_us() + (after if isinstance(after, int) else self.drawn(after))
        alarm = Alarm(deadline, action)
        heappush(self._urgent if is_urgent else self._heap, (deadline, self._sequence, alarm))
        if not self._is_firing and (self._wake is None or deadline < self._wake_at):
            self._sleep()
        return alarm

    def left(self, alarm: Alarm) -> int:
        """Return the time until the alarm fires."""
        return max(0, alarm.deadline - self.now_us())

    def cancel(self, alarm: Alarm | None) -> None:
        if alarm is not None and alarm.action is not None:
            alarm.action = None
            self._cancelled += 1
            if self._cancelled > SWEEP_FROM and self._cancelled > len(self):
                self._sweep()

    def close(self) -> None:
        for heap in (self._urgent, self._heap):
            for _, _, alarm in heap:
                alarm.action = None
            heap.clear()
        self._cancelled = 0
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None

    def _sweep(self) -> None:
        for heap in (self._urgent, self._heap):
            heap[:] = [entry for entry in heap if entry[2].action is not None]
            heapify(heap)
        self._cancelled = 0

    def _sleep(self) -> None:
        """Sleep until the first entry is due."""
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        for heap in (self._urgent, self._heap):
            while heap and heap[0][2].action is None:
                heappop(heap)
                self._cancelled -= 1
        first = [heap[0][0] for heap in (self._urgent, self._heap) if heap]
        if first:
            self._wake_at = min(first)
            # In whole milliseconds, rounded up: event loops round to the nearest, and would wake up
            # again and again before the time.
            left_ms = max(0, -(-(self._wake_at - self.now_us()) // 1_000))
            self._wake = self._loop.call_later(
                min(left_ms / 1_000, boottime.LONGEST_WAIT), self._fire
            )

    def _fire(self) -> None:
        self._wake = None
        self._is_firing = True
        now = self.now_us()
        last = self._sequence  # timers set from now on wait for the next call
        self._turn.open()
        try:
            for heap in (self._urgent, self._heap):
                self._fire_due(heap, now, last)
        finally:
            self._is_firing = False
            self._sleep()
            self._turn.close()

    def _fire_due(self, heap: list[tuple[int, int, Alarm]], now: int, last: int) -> None:
        while heap and heap[0][0] <= now and heap[0][1] <= last and self.now_us() < now + SLICE_US:
            alarm = heappop(heap)[2]
            action, alarm.action = alarm.action, None
            if action is None:
                self._cancelled -= 1
            else:
                action()

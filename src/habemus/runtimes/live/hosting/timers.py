"""Timers on a clock that goes on while the machine sleeps.

All timers of a node lie in one heap, and the event loop is asked to wake up for the first of them.
Cancelling leaves an entry behind that is skipped when its time comes, so setting and cancelling
cost little.

A timer never fires early, though event loops round: what wakes up too soon goes back to sleep.  It
may fire late, and after a pause of the whole process all that are overdue fire in the order in
which they were due; if that takes long, other work of the event loop is done in between.

An event loop waits by a clock that stops during suspend.  So it is never asked to wait for long,
and what is overdue after a resume fires a moment later, not after the rest of its time.

Times are whole microseconds, as everywhere; the wall clock is never read.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from heapq import heapify, heappop, heappush

from habemus import boottime
from habemus.core.process import Span
from habemus.runtimes.live.hosting.turn import Turn

SWEEP_FROM = 1_000
"""A heap with so many cancelled entries, if they are most of it, is cleared of these."""


SLICE_US = 5_000
"""How long one kind of work may take before the event loop goes on to the others."""


def now_us() -> int:
    """The time since the machine booted in microseconds: common to all processes of a machine, and
    to nobody else.
    """
    return boottime.nanoseconds() // 1_000


def random_source(seed: int | None) -> random.Random:
    """Where draws come from: the system, or a seed where a test wants the same ones again."""
    return random.SystemRandom() if seed is None else random.Random(seed)


class Alarm:
    """A timer that has been set.  When it has fired, or was cancelled, there is nothing left to do."""

    __slots__ = ("action", "deadline")

    def __init__(self, deadline: int, action: Callable[[], None]) -> None:
        self.deadline = deadline
        self.action: Callable[[], None] | None = action

    @property
    def is_set(self) -> bool:
        return self.action is not None


class Timers:
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
        self._heap: list[tuple[int, int, Alarm]] = []  # when, in which order set, which
        self._sequence = 0
        self._cancelled = 0  # of those in the heap
        self._wake: asyncio.TimerHandle | None = None
        self._wake_at = 0
        self._is_firing = False

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def drawn(self, span: Span) -> int:
        return span if isinstance(span, int) else self._draw.randint(*span)

    def set(self, after: Span, action: Callable[[], None]) -> Alarm:
        """Calls the action once, after a delay from the span."""
        self._sequence += 1
        deadline = self.now_us() + (after if isinstance(after, int) else self.drawn(after))
        alarm = Alarm(deadline, action)
        heappush(self._heap, (deadline, self._sequence, alarm))
        if not self._is_firing and (self._wake is None or deadline < self._wake_at):
            self._sleep()
        return alarm

    def left(self, alarm: Alarm) -> int:
        """How long it is until it fires."""
        return max(0, alarm.deadline - self.now_us())

    def cancel(self, alarm: Alarm | None) -> None:
        if alarm is not None and alarm.action is not None:
            alarm.action = None
            self._cancelled += 1
            if self._cancelled > SWEEP_FROM and 2 * self._cancelled > len(self._heap):
                self._sweep()

    def close(self) -> None:
        for _, _, alarm in self._heap:
            alarm.action = None
        self._heap.clear()
        self._cancelled = 0
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None

    def _sweep(self) -> None:
        self._heap = [entry for entry in self._heap if entry[2].action is not None]
        heapify(self._heap)
        self._cancelled = 0

    def _sleep(self) -> None:
        """Until the first entry is due."""
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        while self._heap and self._heap[0][2].action is None:
            heappop(self._heap)
            self._cancelled -= 1
        if self._heap:
            self._wake_at = self._heap[0][0]
            # In whole milliseconds, rounded up: event loops round to the nearest, and would wake up
            # again and again before the time.
            left_ms = max(0, -(-(self._wake_at - self.now_us()) // 1_000))
            self._wake = self._loop.call_later(
                min(left_ms / 1_000, boottime.LONGEST_WAIT), self._fire
            )

    def _fire(self) -> None:
        self._wake = None
        self._is_firing = True
        now, last = (
            self.now_us(),
            self._sequence,
        )  # what is set from now on waits for another time, even if it is due at once
        self._turn.open()
        try:
            while (
                self._heap
                and self._heap[0][0] <= now
                and self._heap[0][1] <= last
                and self.now_us() < now + SLICE_US
            ):
                alarm = heappop(self._heap)[2]
                action, alarm.action = alarm.action, None
                if action is None:
                    self._cancelled -= 1
                else:
                    action()
        finally:
            self._is_firing = False
            self._sleep()
            self._turn.close()

"""Timers on the monotonic clock.

All timers of a node lie in one heap, and the event loop is asked to wake up for the first of them.  Cancelling leaves an
entry behind that is skipped when its time comes, so setting and cancelling cost little.

A timer never fires early, though event loops round: what wakes up too soon goes back to sleep.  It may fire late, and after
a pause of the whole process all that are overdue fire in the order in which they were due.

Times are whole microseconds, as everywhere; the wall clock is never read.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush

from habemus.core.process import Span
from habemus.runtimes.live.turn import Turn

SWEEP_FROM = 1_000
"""A heap with so many entries, most of them cancelled, is cleared of these."""


def now_us() -> int:
    """The monotonic clock in microseconds: common to all processes of a machine, and to nobody else."""
    return time.monotonic_ns() // 1_000


def chance(seed: int | None) -> random.Random:
    """Where draws come from: the system, or a seed where a test wants the same ones again."""
    return random.SystemRandom() if seed is None else random.Random(seed)


class Timers:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, draw: random.Random, clock: Callable[[], int] = now_us, turn: Turn | None = None
    ) -> None:
        self._loop = loop
        self._draw = draw
        self._clock = clock
        self._turn = turn or Turn(loop)
        self._heap: list[tuple[int, int, Hashable]] = []  # when, in which order set, which
        self._set: dict[Hashable, tuple[int, Callable[[], None], int]] = {}  # which of its entries counts, what it does, when
        self._sequence = 0
        self._wake: asyncio.TimerHandle | None = None
        self._wake_at = 0

    def __len__(self) -> int:
        return len(self._set)

    def drawn(self, span: Span) -> int:
        return span if isinstance(span, int) else self._draw.randint(*span)

    def set(self, key: Hashable, after: Span, action: Callable[[], None]) -> None:
        """Calls the action once, after a delay from the span; whatever was set for the same key is replaced."""
        self._sequence += 1
        deadline = self._clock() + self.drawn(after)
        self._set[key] = (self._sequence, action, deadline)
        heappush(self._heap, (deadline, self._sequence, key))
        if len(self._heap) > SWEEP_FROM and len(self._heap) > 4 * len(self._set):
            self._sweep()
        if self._wake is None or deadline < self._wake_at:
            self._sleep()

    def left(self, key: Hashable) -> int | None:
        """How long it is until a timer fires; None if it is not set."""
        found = self._set.get(key)
        return None if found is None else max(0, found[2] - self._clock())

    def cancel(self, key: Hashable) -> None:
        self._set.pop(key, None)

    def close(self) -> None:
        self._set.clear()
        self._heap.clear()
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None

    def _sweep(self) -> None:
        self._heap = [entry for entry in self._heap if self._set.get(entry[2], (0,))[0] == entry[1]]
        heapify(self._heap)

    def _sleep(self) -> None:
        """Until the first entry is due."""
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        while self._heap and self._set.get(self._heap[0][2], (0,))[0] != self._heap[0][1]:
            heappop(self._heap)  # it was cancelled, or replaced
        if self._heap:
            self._wake_at = self._heap[0][0]
            # In whole milliseconds, rounded up: event loops round to the nearest, and would wake up again and again before the time.
            left_ms = max(0, -(-(self._wake_at - self._clock()) // 1_000))
            self._wake = self._loop.call_later(left_ms / 1_000, self._fire)

    def _fire(self) -> None:
        self._wake = None
        now = self._clock()
        due = []
        while self._heap and self._heap[0][0] <= now:
            _, sequence, key = heappop(self._heap)
            if self._set.get(key, (0,))[0] == sequence:
                due.append((sequence, key))
        self._sleep()
        self._turn.open()
        try:
            for sequence, key in due:
                found = self._set.get(key)
                if found is not None and found[0] == sequence:  # an action before it may have cancelled or replaced it
                    del self._set[key]
                    found[1]()
        finally:
            self._turn.close()

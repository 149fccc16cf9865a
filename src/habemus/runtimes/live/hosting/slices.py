"""Long work in short time slices, so that no client or peer blocks the event loop.

Work is an iterator that yields after each small piece: a line, a frame, a lock.  It runs until its
time slice is used up; the rest continues in the next turn of the loop.  Waiting work is scheduled
round-robin by owner (a connection, a session); all of it together has one slice per turn of the
loop.  The work of one owner keeps its order.

Short work is done at once, up to `MOST_AT_ONCE` pieces per turn of the loop: if thousands of
clients send a line each, most of these lines wait, and the timers and frames of elections come in
between.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from time import monotonic_ns
from typing import Final, TypeAlias

from habemus.runtimes.live.hosting.timers import SLICE_US
from habemus.runtimes.live.hosting.turn import Turn

Work: TypeAlias = Iterator[None]
SLICE_NS: Final = SLICE_US * 1_000
MOST_AT_ONCE: Final = 32
"""Pieces of short work, of 0.05 to 0.3 ms each, that are done at once in a turn of the loop."""


class TimeSlicer:
    """Schedules the work of all owners on one event loop.

    clock: returns nanoseconds.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, turn: Turn, clock: Callable[[], int] = monotonic_ns
    ) -> None:
        self._loop = loop
        self.turn = turn
        self._clock = clock
        self._waiting: dict[object, deque[Work]] = {}
        self._owners: deque[object] = deque()  # of waiting work, next first
        self._is_scheduled = False
        self._done_at_once = 0  # pieces of work, in this turn of the loop
        self._is_turn_noted = False

    def may_do_at_once(self) -> bool:
        """Count a piece of short work.  Return whether it may be done now."""
        self._done_at_once += 1
        if self._done_at_once >= MOST_AT_ONCE // 4 and not self._is_turn_noted:
            self._is_turn_noted = True
            self._loop.call_soon(self._begin_turn)
        return self._done_at_once <= MOST_AT_ONCE

    def _begin_turn(self) -> None:
        self._is_turn_noted = False
        self._done_at_once = 0

    def run(self, owner: object, work: Work, *, at_once: bool = True) -> bool:
        """Run the first slice now, unless earlier work of the owner waits.  Return whether all work
        is done.

        at_once: whether to run a slice now, and not in the next turn of the loop.
        """
        waiting = self._waiting.get(owner)
        if waiting is not None:
            waiting.append(work)
            return False
        if at_once and self._run_slice(work, self._clock() + SLICE_NS):
            return True
        waiting = self._waiting.get(owner)
        if waiting is None:
            waiting = self._waiting[owner] = deque()
            self._owners.append(owner)
        waiting.appendleft(work)  # before work that it has itself added
        self._schedule()
        return False

    def _run_slice(self, work: Work, until_ns: int) -> bool:
        """Run the work up to that time.  Return whether all of it is done."""
        is_outermost = self.turn.open_unless_open()
        try:
            for _ in work:  # noqa: SIM110  # a loop is compiled without a generator
                if self._clock() >= until_ns:
                    return False
            return True
        finally:
            if is_outermost:
                self.turn.close()

    def _schedule(self) -> None:
        if self._owners and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_scheduled = False
        until_ns = self._clock() + SLICE_NS
        try:
            while self._owners:
                self._run_next(until_ns)
                if self._clock() >= until_ns:
                    break
        finally:
            self._schedule()

    def _run_next(self, until_ns: int) -> None:
        owner = self._owners.popleft()
        waiting = self._waiting[owner]
        try:
            if self._run_slice(waiting[0], until_ns):
                waiting.popleft()
        except BaseException:
            waiting.popleft()
            raise
        finally:
            if waiting:
                self._owners.append(owner)
            else:
                del self._waiting[owner]

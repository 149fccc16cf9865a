"""Long work in short time slices, so that no client or peer blocks the event loop.

Work is an iterator that yields after each small piece: a line, a frame, a lock.  It runs until its
time slice is used up; the rest continues in the next turn of the loop.  Waiting work is scheduled
round-robin by owner (a connection, a session), one slice per turn of the loop.  The work of one
owner keeps its order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from time import monotonic_ns
from typing import TypeAlias

from habemus.runtimes.live.hosting.timers import SLICE_US
from habemus.runtimes.live.hosting.turn import Turn

Work: TypeAlias = Iterator[None]


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

    def run(self, owner: object, work: Work) -> bool:
        """Run the first slice now, unless earlier work of the owner waits.  Return whether all work
        is done.
        """
        waiting = self._waiting.get(owner)
        if waiting is not None:
            waiting.append(work)
            return False
        if self._run_slice(work):
            return True
        waiting = self._waiting.get(owner)
        if waiting is None:
            waiting = self._waiting[owner] = deque()
            self._owners.append(owner)
        waiting.appendleft(work)  # before work that it has itself added
        self._schedule()
        return False

    def _run_slice(self, work: Work) -> bool:
        """Run one slice of the work.  Return whether all of it is done."""
        is_outermost = self.turn.open_unless_open()
        until_ns = self._clock() + SLICE_US * 1_000
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
        owner = self._owners.popleft()
        waiting = self._waiting[owner]
        try:
            if self._run_slice(waiting[0]):
                waiting.popleft()
        except BaseException:
            waiting.popleft()
            raise
        finally:
            if waiting:
                self._owners.append(owner)
            else:
                del self._waiting[owner]
            self._schedule()

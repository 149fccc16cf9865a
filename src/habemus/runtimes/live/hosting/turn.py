"""A turn of the event loop, and the work that is done once at its end.

A callback of the event loop opens a turn around its work.  Messages between processes of this node,
entries to store and frames to send are collected, and handled once when the turn closes: one write
per peer, one batch for the disk, and no extra turn of the loop to deliver a local message.

Outside of a turn the same is done in the next turn of the loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

ROUNDS = 50
"""Rounds of local messages per turn, so that two processes that always answer each other do not
block the loop.
"""

Action = Callable[[], None]


class Turn:
    """Actions that are deferred to the end of the current turn of the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._before_end: deque[Action] = deque()
        self._at_end: deque[Action] = deque()
        self.is_open = False
        self.time_us = 0  # of this turn; 0 until the clock is read (`Timers.turn_us`)
        self.number = 0  # of this turn
        self._is_scheduled = False

    def before_end(self, action: Action) -> None:
        """Run the action before the turn ends.  It may add more actions."""
        self._before_end.append(action)
        if not self.is_open:
            self._schedule()

    def at_end(self, action: Action) -> None:
        """Run the action once no action of `before_end` is left."""
        self._at_end.append(action)
        if not self.is_open:
            self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._run)

    def open(self) -> None:
        self.is_open = True
        self.time_us = 0
        self.number += 1

    def open_unless_open(self) -> bool:
        """Open a turn, unless one is open already.  Return whether the caller has to close it."""
        if self.is_open:
            return False
        self.open()
        return True

    def close(self) -> None:
        try:
            if self._before_end or self._at_end:
                self._finish()
        except BaseException:
            self._schedule()  # what the failed action kept back
            raise
        finally:
            self.is_open = False

    def _run(self) -> None:
        self._is_scheduled = False
        self.open()
        self.close()

    def _finish(self) -> None:
        for _ in range(ROUNDS):
            for _ in range(len(self._before_end)):
                self._before_end.popleft()()
            if self._before_end:
                continue
            for _ in range(len(self._at_end)):
                self._at_end.popleft()()
            if not self._before_end and not self._at_end:
                return
        self._schedule()

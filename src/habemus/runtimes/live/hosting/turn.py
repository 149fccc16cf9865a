"""A turn of the event loop, and what is left for its end.

Whoever is called by the loop, because bytes have come or a timer is due, opens a turn around what
it does.  Messages that stay on this node, what has to be stored and what has to be sent gather
meanwhile, and are seen to once when it ends: one write for each peer, one batch for the disk, and
no further turn of the loop just to carry a message from one process to its neighbour.

Outside of any turn the same happens with the next turn of the loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

ROUNDS = 50
"""A process that always has something to say to its neighbour must not keep the loop from its other
work.
"""

Action = Callable[[], None]


class Turn:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._before_end: deque[Action] = deque()
        self._at_end: list[Action] = []
        self.is_open = False
        self._is_scheduled = False

    def before_end(self, action: Action) -> None:
        """Something that may give more to do."""
        self._before_end.append(action)
        if not self.is_open:
            self._schedule()

    def at_end(self, action: Action) -> None:
        """Something for which all is better known at once."""
        self._at_end.append(action)
        if not self.is_open:
            self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._run)

    def open(self) -> None:
        self.is_open = True

    def close(self) -> None:
        try:
            if self._before_end or self._at_end:
                self._finish()
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
            at_end, self._at_end = self._at_end, []
            for action in at_end:
                action()
            if not self._before_end and not self._at_end:
                return
        self._schedule()

"""The thread that renews the leases of all clients of this process.

It is a thread and not a task of the client's event loop, so neither blocking code nor a busy loop
delays it.  It is one thread for all sessions, with an event loop of its own
(`habemus.client.heartbeats`), so a thousand clients need no thousand threads.  A session gets a
connection for heartbeats when it has held a lock, or waited for one, for the time of a heartbeat:
a lock that is held for a moment costs none.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from habemus.client.session import NodeSession

LONGEST_LOOK = 0.5
"""Seconds between two looks at the sessions that have something to renew, at most."""
SHORTEST_LOOK = 0.01
IMPORT_SECONDS = 5.0
"""How long a fork waits for the keeper to import its event loop, at most."""
REGISTERED_BEFORE = (logging,)
"""Modules whose hooks at a fork are registered before ours, and so take their locks after it: the
import of the event loop needs the lock of `logging`.
"""


class Keeper:
    """The sessions of this process that have something to renew, and the thread that does it."""

    def __init__(self) -> None:
        self.wake_loop: Callable[[], object] | None = None
        """Wakes the event loop of the thread, when there is one."""
        self._awake: dict[NodeSession, None] = {}
        self._is_asleep = False  # the thread waits until a session is added
        self._called = threading.Event()  # wakes the thread before it has an event loop
        self._starting = threading.Lock()
        self._importing = threading.RLock()
        self._thread: threading.Thread | None = None

    def add(self, session: NodeSession) -> None:
        """Look after a session until it has nothing to renew; any thread may call it."""
        self._awake[session] = None
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._run, name="habemus-keeper", daemon=True
                    )
                    self._thread.start()
        if self._is_asleep:
            self.hurry()

    def hurry(self) -> None:
        """Look at the sessions at once."""
        self._called.set()
        if self.wake_loop is not None:
            self.wake_loop()

    def due(self) -> list[NodeSession]:
        """Return the sessions that need heartbeats by now."""
        return [session for session in list(self._awake) if session.is_due()]

    def pause(self) -> float | None:
        """Forget sessions with nothing to renew; return after how many seconds to look again, None
        if there is none left.
        """
        pause = LONGEST_LOOK
        for session in list(self._awake):
            if not session.has_to_renew():
                self._awake.pop(session, None)
                if session.has_to_renew():  # a request came in between
                    self._awake[session] = None
            pause = min(pause, session.beat / 2)
        self._is_asleep = not self._awake
        if self._is_asleep and not self._awake:
            return None
        return max(SHORTEST_LOOK, pause)

    def _run(self) -> None:
        # Not before it is needed: to import asyncio takes longer than most locks are held.
        while not self.due():
            self._called.wait(self.pause())
            self._called.clear()
        with self._importing:
            from habemus.client.heartbeats import send_heartbeats

        send_heartbeats(self)

    def begin_fork(self) -> None:
        """Import nothing until the fork is over: the child could never import the same modules."""
        self._importing.acquire(timeout=IMPORT_SECONDS)

    def end_fork(self) -> None:
        """Go on in the parent."""
        with suppress(RuntimeError):  # the import took too long
            self._importing.release()


_KEEPERS = [Keeper()]
"""The last one is that of this process; the others were of the processes that have forked."""


def keeper() -> Keeper:
    """Return the keeper of this process."""
    return _KEEPERS[-1]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: keeper().begin_fork(),
        after_in_parent=lambda: keeper().end_fork(),
        after_in_child=lambda: _KEEPERS.append(Keeper()),
    )

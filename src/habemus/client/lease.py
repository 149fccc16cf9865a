"""A lock in somebody's hands."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from habemus import boottime
from habemus.client.errors import LockLost

if TYPE_CHECKING:
    from habemus.client.session import NodeSession


class Lease:
    """A lock that is held, until it is released or lost.  Whoever has this object has the lock;
    nothing else makes an owner.
    """

    def __init__(
        self,
        session: NodeSession,
        id: int,
        service: str,
        name: str,
        token: int | None,
        since: float,
        until: float,
    ) -> None:
        self.service = service
        self.name = name
        self.token = token
        """Strictly larger than that of every earlier grant of this lock, for the resource to check;
        None if the algorithm has none.
        """
        self._id = id
        self._since = since
        """When the client last said that it lives before the lock was granted."""
        self._session = session
        self._until = until
        self._why = ""  # it is over
        self._open = [
            True
        ]  # whoever takes this out ends it: the holder or, if it is lost, the session
        self._listeners: list[Callable[[Lease], None]] = []
        self._on_wanted: Callable[[], None] | None = None
        """Called, from another thread, when somebody else would like to have a lock that is kept."""

    def __repr__(self) -> str:
        state = f"over: {self._why}" if self._why else "held"
        return f"<Lease of {self.name}, token {self.token}, {state}>"

    @property
    def remaining(self) -> float:
        """Seconds until the lease expires if nothing renews it; infinite where no lease expires, 0
        once the lock is over.

        The cluster does not let the lease expire before that.  The lock can still be lost earlier:
        when an operator releases it by force, when the connection on which it was granted ends, or
        when the node ends.  `check` looks for that; the token is what the resource can rely on.
        """
        return 0.0 if self._why else max(0.0, self._until - boottime.seconds())

    @property
    def lost(self) -> bool:
        """Whether it is over, or may be, without having been released."""
        return self._why != RELEASED if self._why else self._until <= boottime.seconds()

    @property
    def held(self) -> bool:
        """Whether it is neither lost nor released, as far as is known."""
        return not self._why and boottime.seconds() < self._until

    def check(self) -> None:
        """Raises `LockLost` if the lock is not held any more, or may not be."""
        self._is_lost_now()
        if self._why:
            raise LockLost(f"{self.name} is not held any more: {self._why}")

    def _is_lost_now(self) -> bool:
        """Look at the connection and the clock, and return whether the lock is lost."""
        self._session.look(self)
        if self.lost:
            self._lose("its lease was not renewed in time")
        return self.lost

    def wrote(self) -> None:
        """Tells the node that the resource was written to with this token, for its record, by which
        the run can be judged later.
        """
        if self.token is not None:
            self._session.note_write(self.service, self.name, self.token)

    def on_lost(self, listener: Callable[[Lease], None]) -> None:
        """Call the listener once if the lock is lost, from whichever thread notices it first."""
        self._listeners.append(listener)
        if self._why and self._why != RELEASED:
            self._call_listeners()

    # For the session.

    def _renew(self, until: float) -> None:
        if not self._why:
            self._until = max(self._until, until)

    def _lose(self, why: str) -> None:
        if self._is_ended_by(why):
            self._session.forget(self)
            self._call_listeners()

    def _end(self) -> bool:
        """It is released; False if it was over already."""
        return self._is_ended_by(RELEASED)

    def _is_ended_by(self, why: str) -> bool:
        try:
            self._open.pop()  # two threads cannot both do this
        except IndexError:
            return False
        self._why = why
        return True

    def _call_listeners(self) -> None:
        while self._listeners:
            try:
                listener = self._listeners.pop(0)
            except IndexError:  # another thread has called it
                return
            try:
                listener(self)
            except Exception:  # of the user: the keeper has other locks to see to
                report = (*sys.exc_info(), threading.current_thread())
                threading.excepthook(threading.ExceptHookArgs(report))


RELEASED = "it was released"

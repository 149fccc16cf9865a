"""A lock in somebody's hands."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from habemus.api.errors import LockLost

if TYPE_CHECKING:
    from habemus.api.session import Session


class Lease:
    """A lock that is held, until it is released or lost.  Whoever has this object has the lock; nothing else makes an owner."""

    def __init__(self, session: Session, id: int, service: str, name: str, token: int | None, since: float, until: float) -> None:
        self.service = service
        self.name = name
        self.token = token
        """Strictly larger than that of every earlier grant of this lock, for the resource to check; None if the algorithm has none."""
        self.id = id
        self.since = since
        """When the client last said that it lives before the lock was granted."""
        self.session = session
        self._until = until
        self._why = ""  # it is over
        self._listeners: list[Callable[[Lease], None]] = []
        self.on_wanted: Callable[[], None] | None = None
        """Called, from another thread, when somebody else would like to have a lock that is kept."""

    def __repr__(self) -> str:
        state = f"over: {self._why}" if self._why else "held"
        return f"<Lease of {self.name}, token {self.token}, {state}>"

    @property
    def remaining(self) -> float:
        """Seconds for which nobody else can have the lock, whatever happens; more than that if the lease is renewed until then."""
        return 0.0 if self._why else max(0.0, self._until - monotonic())

    @property
    def lost(self) -> bool:
        """Whether it is over, or may be, without having been released."""
        return self._why != RELEASED if self._why else self._until <= monotonic()

    @property
    def held(self) -> bool:
        """Whether it is neither lost nor released, as far as is known."""
        return not self._why and monotonic() < self._until

    def check(self) -> None:
        """Raises `LockLost` if the lock is not held any more, or may not be."""
        self.session.look(self)
        if self.lost:
            self.lose("its lease was not renewed in time")
        if self._why:
            raise LockLost(f"{self.name} is not held any more: {self._why}")

    def wrote(self) -> None:
        """Tells the node that the resource was written to with this token, for its record, by which the run can be judged later."""
        if self.token is not None:
            self.session.note_write(self.service, self.name, self.token)

    def on_lost(self, listener: Callable[[Lease], None]) -> None:
        """Calls the listener once if the lock is lost; from another thread."""
        if self._why and self._why != RELEASED:
            listener(self)
        else:
            self._listeners.append(listener)

    # For the session.

    def renew(self, until: float) -> None:
        if not self._why:
            self._until = max(self._until, until)

    def lose(self, why: str) -> None:
        if not self._why:
            self._why = why
            self.session.forget(self)
            for listener in self._listeners:
                listener(self)

    def end(self) -> bool:
        """It is released; False if it was over already."""
        if self._why:
            return False
        self._why = RELEASED
        return True


RELEASED = "it was released"

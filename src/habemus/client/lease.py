"""A lock that this client holds."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING

from habemus import boottime
from habemus.client.errors import LockLost
from habemus.client.protocol import EXPIRED, LeaseState
from habemus.fencing.tokens import token_text
from habemus.runtimes.live.clients.protocol import ELECTIONS, SEMAPHORES

if TYPE_CHECKING:
    from habemus.client.backend import LeaseKeeper

RELEASED = "it was released"


class Lease:
    """A lock that is held, until it is released or lost; `with` and `acquire` of a lock return it.

    The code that has this object holds the lock; ownership does not depend on threads or tasks.

    token: the fencing token, for the resource to check: larger than that of every earlier grant of
        this lock, unless a node was paused beyond its lease.  None if the algorithm has none.
    """

    _listeners: list[Callable[[Lease], None]] | None = None
    _on_wanted: Callable[[], None] | None = None  # for locks that are kept
    _owner: list[Lease] | None = None  # the leases of the thread that has acquired it

    def __init__(self, session: LeaseKeeper, state: LeaseState) -> None:
        self.token = state.token
        self._session = session
        self._state = state
        self._why = ""  # the reason why it is over
        self._at_end: Callable[[str], None] | None = None
        self._open = [True]  # the thread that takes this out ends the lease

    def __repr__(self) -> str:
        state = f"over: {self._why}" if self._why else "held"
        token = "" if self.token is None else f", token {token_text(self.token)}"
        return f"<Lease of {self.name}{token}, {state}>"

    @property
    def service(self) -> str:
        """The service of the cluster that granted the lock."""
        return self._state.service

    @property
    def name(self) -> str:
        """The name of the lock."""
        return self._state.name

    @property
    def _shown(self) -> str:
        """The lock, election or semaphore, for messages."""
        name = self.name
        if name.startswith(ELECTIONS):
            return f"election {name.removeprefix(ELECTIONS)!r}"
        if name.startswith(SEMAPHORES):  # and the number of the place
            return f"semaphore {name.removeprefix(SEMAPHORES).rpartition('/')[0]!r}"
        return f"lock {name!r}"

    @property
    def _id(self) -> int:
        return self._state.id

    @property
    def remaining(self) -> float:
        """Seconds until the lease expires unless it is renewed: infinite if it does not expire, 0
        once it is over.

        The cluster does not let the lease expire before that.  The lock can still be lost earlier:
        when an operator releases it by force, or when the node ends and its locks cannot be taken
        to another one.  `check` looks for that; the token is what the resource can rely on.
        """
        until_us = self._state.until_us
        if self._why or until_us is None:
            return 0.0 if self._why else inf
        return max(0.0, (until_us - boottime.microseconds()) / 1_000_000)

    @property
    def lost(self) -> bool:
        """Whether the lease is over, or may be, without having been released."""
        why = self._why
        return why != RELEASED if why else self._has_expired()

    @property
    def released(self) -> bool:
        """Whether the lock was released before it was lost."""
        return self._why == RELEASED

    @property
    def held(self) -> bool:
        """Whether the lock is neither lost nor released, as far as this client knows."""
        return not self._why and not self._has_expired()

    def _has_expired(self) -> bool:
        until_us = self._state.until_us
        return until_us is not None and until_us <= boottime.nanoseconds() // 1_000

    def check(self) -> None:
        """Raise `LockLost` if the lock is not held any more, or may not be."""
        self._look()
        if self._why:
            raise LockLost(f"{self._shown} is not held any more: {self._why}")

    def wrote(self) -> None:
        """Record at the node that the resource was written with this token.

        The record is for judging the run later; see `habemus trace merge`.
        """
        if self.token is not None:
            self._session.note_write(self.service, self.name, self.token)

    def on_lost(self, listener: Callable[[Lease], None]) -> None:
        """Call the listener once if the lock is lost, from the thread that notices it first.

        listener: called with this lease; at once if the lock is lost already.
        """
        given: object = listener
        if not callable(given):
            raise TypeError(f"{listener!r} is not a function: give one that takes the lease")
        vars(self).setdefault("_listeners", []).append(listener)  # two threads share one list
        if self._why and self._why != RELEASED:
            self._call_listeners()

    def _forget_listener(self, listener: Callable[[Lease], None]) -> None:
        if self._listeners is not None:
            with suppress(ValueError):
                self._listeners.remove(listener)

    def _look(self) -> None:
        """Look at the connection and the clock; lose the lease if the lock is lost."""
        self._session.look(self)
        until_us = self._state.until_us
        if until_us is not None and until_us <= boottime.nanoseconds() // 1_000:
            self._lose(EXPIRED)

    def _is_lost_now(self) -> bool:
        """Look at the connection and the clock, and return whether the lock is lost."""
        self._look()
        return bool(self._why) and self._why != RELEASED

    def _lose(self, why: str) -> None:
        if self._end(why):
            self._session.forget(self)
            self._call_listeners()

    def _end(self, why: str = RELEASED) -> bool:
        """End the lease for this reason; return False if it was over already."""
        try:
            self._open.pop()  # two threads cannot both do this
        except IndexError:
            return False
        self._why = why
        if self._at_end is not None:
            self._at_end(why)
        return True

    def _call_at_end(self, listener: Callable[[str], None]) -> None:
        """Call the listener once, with the reason, when the lock is released or lost."""
        self._at_end = listener
        if self._why:
            listener(self._why)

    def _call_listeners(self) -> None:
        while self._listeners:
            try:
                listener = self._listeners.pop(0)
            except IndexError:  # another thread has called it
                return
            try:
                listener(self)
            except Exception:  # of the application; the keeper has other leases to renew
                report = (*sys.exc_info(), threading.current_thread())
                threading.excepthook(threading.ExceptHookArgs(report))


class LeaseUse(Lease):
    """One use of a lease that is kept: from one acquire to its release.

    The code outside has this object and never the kept lease.  So a second release, or a check
    after the release, does not touch the use that another thread has begun since.
    """

    def __init__(self, kept: Lease) -> None:
        self.token = kept.token
        self._kept = kept
        self._over = ""  # the reason why this use is over
        self._open = [True]  # the thread that takes this out ends the use

    # The kept lease may move to another node meanwhile, and changes its state and session then.

    @property
    def _state(self) -> LeaseState:  # type: ignore[override]
        return self._kept._state

    @property
    def _session(self) -> LeaseKeeper:  # type: ignore[override]
        return self._kept._session

    @property
    def _why(self) -> str:  # type: ignore[override]
        return self._over or self._kept._why

    def _look(self) -> None:
        self._kept._look()

    def _lose(self, why: str) -> None:
        if self._open:
            self._kept._lose(why)

    def _end(self, why: str = RELEASED) -> bool:
        """End this use and the kept lease; return False if the use was over already."""
        return self._finish(why) and self._kept._end(why)

    def _finish(self, why: str = RELEASED) -> bool:
        """End this use only; return False if it was over already."""
        try:
            self._open.pop()  # two threads cannot both do this
        except IndexError:
            return False
        self._over = why = self._kept._why or why
        if why != RELEASED:
            self._call_listeners()
        return True


class KeptLease:
    """A lease that this client keeps when the lock is released, until another client wants it.

    As Roucairol and Carvalho keep a permission: a client that is alone need not ask again.  The
    callers see to it that only one thread is inside.
    """

    def __init__(self) -> None:
        self._lease: Lease | None = None  # kept, or in use
        self._use: LeaseUse | None = None  # in progress
        self._is_wanted = False  # by another client

    def take(self) -> LeaseUse | None:
        """Begin a use of the kept lease; return None if the node has to be asked."""
        lease = self._lease
        if lease is None or self._use is not None or self._is_wanted or not lease.held:
            return None
        use = self._use = LeaseUse(lease)
        return use

    def adopt(self, lease: Lease) -> LeaseUse | None:
        """Keep a new lease and begin to use it; return None if another one is kept already."""
        if self._lease is not None and self._lease.held:
            return None
        use = LeaseUse(lease)
        self._lease, self._use, self._is_wanted = lease, use, False
        return use

    def give_back(self, use: LeaseUse) -> Lease | None:
        """Note that a use has ended; return the lease if it has to be released."""
        lease = use._kept
        if lease is self._lease:
            self._use = None
            if not self._is_wanted and not lease._why:
                return None
            self._lease = None
        return lease

    def want(self) -> Lease | None:
        """Note that another client waits; return the lease to release, if it is not in use."""
        self._is_wanted = True
        if self._use is not None or self._lease is None:
            return None
        lease, self._lease = self._lease, None
        return lease

    def hear_lost(self, lease: Lease) -> None:
        """End the use of a lease that is lost, if there is one; any thread may call it."""
        use = self._use
        if use is not None and use._kept is lease:
            use._finish(lease._why)


class ReentrantLeases:
    """Leases that their owners, threads or tasks, may take again.

    Each owner changes its own entries only, so threads need no lock here.
    """

    def __init__(self) -> None:
        self._held: dict[Hashable, list[Lease]] = {}  # as often as it was taken

    def again(self, key: Hashable) -> Lease | None:
        """Return the lease that the owner holds already, taken once more."""
        taken = self._held.get(key)
        if not taken or not taken[-1].held:
            return None
        taken.append(taken[-1])
        return taken[-1]

    def add(self, key: Hashable, lease: Lease) -> None:
        """Add a new lease of the owner."""
        self._held[key] = [lease]

    def is_last(self, key: Hashable, lease: Lease) -> bool:
        """Give a lease back once; return whether to release it."""
        taken = self._held.get(key)
        if taken and taken[-1] is lease:
            taken.pop()
            if taken:
                return False
            del self._held[key]
        return True

"""Locks of an engine, for the blocking client.

A thread renews the leases, three times in the time of each.  Another looks at the clock: the calls
of an engine can hang, and a lease has to be over here before it is over there.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import suppress
from functools import lru_cache
from itertools import count
from time import sleep
from typing import Any
from weakref import WeakSet

from habemus import boottime
from habemus.client.attempts import Attempts
from habemus.client.backend import LockState
from habemus.client.credentials import Credentials
from habemus.client.engines import engine_at, split_offset
from habemus.client.engines.engine import EngineGrant, LockGone, Wait, WaitOver
from habemus.client.errors import HabemusError, RefusedByNode, Unreachable
from habemus.client.lease import Lease
from habemus.client.protocol import (
    CLOSED,
    EXPIRED,
    TOO_LATE,
    AcquireRequest,
    AnyRequest,
    LeaseState,
    SemaphoreRequest,
)
from habemus.client.session import own_label
from habemus.runtimes.live.clients.protocol import SEMAPHORES, semaphore_places

BEATS = 3
"""Renewals in the time of a lease."""
NAME_LIMIT = 1_000
"""Bytes of the name of a lock and its service."""


class EngineBackend:
    """An engine, as the blocking client sees it."""

    def __init__(self, url: str, credentials: Credentials, label: str | None) -> None:
        url, self._offset = split_offset(url)
        self._label = label
        self.engine = engine_at(url, credentials)
        self._is_known = False  # whether the engine has ever answered
        self._ids = count(1)
        self._lock = threading.Lock()
        self._start_empty()
        _BACKENDS.add(self)

    def _start_empty(self) -> None:
        self._held: dict[Lease, EngineGrant] = {}
        self._queueing: set[EngineGrant] = set()  # first in the queue of a semaphore
        self._own_label = own_label()
        self._wanted = threading.Event()  # set while there may be something to renew
        self._threads: list[threading.Thread] = []

    @property
    def label(self) -> str:
        return self._label or self._own_label

    def connect(self) -> None:
        """Connect to the engine, unless it does not answer: then the first request tries again."""
        try:
            self.engine.connect()
        except BaseException as reason:  # `__exit__` is not called then
            self.engine.close()
            if not isinstance(reason, Unreachable):
                raise
        else:
            self._is_known = True

    def close(self) -> None:
        """Release all locks and close all connections."""
        for lease in list(self._held):
            grant = self._held.pop(lease, None)
            if grant is not None:
                with suppress(LockGone, HabemusError):
                    self.engine.release(grant)
                lease._lose(CLOSED)
        self.engine.close()

    # Locks.

    def acquire(
        self,
        request: AcquireRequest,
        timeout: float | None,
        names_holder: bool = True,
        *,
        wait: Wait | None = None,
    ) -> Lease:
        """Wait for the lock; connect again if the connection is lost."""
        wait = wait or Wait(timeout)
        if not self._threads:
            self._start_threads()  # not when the lock is granted: that would delay the caller
        key = _key(request.service, request.name)
        attempts = None
        while True:
            try:
                wait.left()  # the request may be withdrawn already, and the lock free
                grant = self._granted(key, request, wait)
            except (Unreachable, WaitOver) as reason:
                attempts = attempts or Attempts(
                    timeout, request, shortest=0.0, deadline=wait.deadline.at
                )
                if isinstance(reason, WaitOver):
                    if wait.is_withdrawn:
                        raise Unreachable(CLOSED) from None
                    news = self._news(key) if names_holder else None
                    raise attempts.timed_out(news) from None
                attempts.failed(reason, is_known=self._is_known)
                sleep(attempts.pause())
            else:
                self._is_known = True
                lease = self._hold(request.service, grant)
                if not lease.lost:
                    return lease

    def timed_out(
        self, request: AcquireRequest, timeout: float | None, names_holder: bool
    ) -> HabemusError:
        """Return the error of a request that timed out before the engine had it."""
        key = _key(request.service, request.name)
        news = self._news(key) if names_holder else None
        return Attempts(timeout, request, shortest=0.0).timed_out(news)

    def _granted(self, key: str, request: AcquireRequest, wait: Wait) -> EngineGrant:
        if isinstance(request, SemaphoreRequest):
            return self._place(key, request, wait)
        if isinstance(request, AnyRequest):
            return self._one_of(
                [_key(request.service, each) for each in request.names], request, wait
            )
        return self.engine.acquire(key, self.label, request.lease, wait)

    def _place(self, key: str, request: SemaphoreRequest, wait: Wait) -> EngineGrant:
        """Wait for a place of a semaphore.

        Clients queue up for a lock, whose holder takes the next place that is free.
        """
        size = self._size(key, request)
        places = [
            _key(request.service, place)
            for place in semaphore_places(request.name.removeprefix(SEMAPHORES), size)
        ]
        first = self.engine.acquire(key, self.label, None, wait)
        self._queueing.add(first)
        self._wanted.set()
        try:
            return self._one_of(places, request, wait)
        finally:
            self._queueing.discard(first)
            with suppress(LockGone, HabemusError):
                self.engine.release(first)

    def _one_of(self, keys: list[str], request: AcquireRequest, wait: Wait) -> EngineGrant:
        """Wait until one of the locks is free, and take it."""
        while True:
            for key in keys:
                with suppress(WaitOver):
                    return self.engine.acquire(key, self.label, request.lease, Wait(0.0))
            wait.longest(1.0)
            self.engine.await_change(keys, wait)

    def _size(self, key: str, request: SemaphoreRequest) -> int:
        size = self.engine.agreed_size(key, request.size)
        if size is None:
            raise RefusedByNode(
                f"{request.shown} is not known to {self.engine.shown}: give its size, as in"
                " semaphore(name, size=3); the first client to do so decides"
            )
        if request.size not in (None, size):
            raise RefusedByNode(
                f"{request.shown} has {size} places in {self.engine.shown}, not {request.size}"
            )
        return size

    def _hold(self, service: str, grant: EngineGrant) -> Lease:
        state = LeaseState(
            next(self._ids),
            service,
            grant.key.removeprefix(f"{service}/"),
            grant.token + self._offset,
            grant.at_us,
            grant.lease_ms,
        )
        lease = Lease(self, state)
        self._held[lease] = grant
        if lease.lost:  # this process was suspended while it waited
            lease._lose(TOO_LATE)
        elif not self._wanted.is_set():
            self._wanted.set()
        return lease

    def release(self, lease: Lease, to: str | None = None) -> None:
        """Release the lock; the lease is lost instead if the engine had given the lock away."""
        if to is not None:
            raise RefusedByNode(
                f"{self.engine.shown} cannot hand an election over to a given client; resign, and"
                " the next client in the queue leads"
            )
        lease._is_lost_now()
        # Not renewed from now on: the renewal would find that the lock is gone.
        grant = self._held.pop(lease, None)
        if grant is None:
            return
        try:
            self.engine.release(grant)
        except LockGone as reason:
            lease._lose(str(reason))
        except HabemusError:
            # The engine frees the lock when the lease expires or the connection has ended.
            self.engine.drop(grant)
            lease._end()
        else:
            lease._end()

    # Leases.

    def look(self, lease: Lease) -> None:
        """Lose the lease if its lock is known to be lost."""
        grant = self._held.get(lease)
        if (
            grant is not None
            and self.engine.is_gone(grant)
            and self._held.get(lease) is grant  # else it was released meanwhile
        ):
            lease._lose(f"{self.engine.shown} has given it up")

    def forget(self, lease: Lease) -> None:
        """Drop a lease that is lost."""
        grant = self._held.pop(lease, None)
        if grant is not None:
            self.engine.drop(grant)

    def note_write(self, service: str, name: str, token: int) -> None:
        """Do nothing: engines do not record events of habemus."""

    def shows_waiters(self, service: str) -> bool:
        """Return False: engines do not tell a holder that others wait."""
        return False

    def hurry(self) -> None:
        """Do nothing: the renewals begin with the lease."""

    def _start_threads(self) -> None:
        with self._lock:
            if not self._threads:
                wanted = self._wanted
                for target in (self._keep, self._watch_clock):
                    thread = threading.Thread(target=target, args=[wanted], daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _keep(self, wanted: threading.Event) -> None:
        """Renew the leases, for as long as the process runs."""
        while True:
            wanted.wait()
            sleep(self._beat())
            if not (self._held or self._queueing):
                wanted.clear()
                if self._held or self._queueing:  # a lease came in between
                    wanted.set()
            for lease, grant in list(self._held.items()):
                self._renew(lease, grant)
            for grant in list(self._queueing):
                with suppress(LockGone, HabemusError):
                    self.engine.renew(grant)

    def _beat(self) -> float:
        leases = [grant.lease_ms for grant in list(self._held.values())]
        shortest = min((each for each in leases if each is not None), default=None)
        beat_ms = self.engine.beat_ms
        return (beat_ms if shortest is None else min(beat_ms, shortest // BEATS)) / 1_000

    def _renew(self, lease: Lease, grant: EngineGrant) -> None:
        try:
            self.engine.renew(grant)
        except LockGone as reason:
            if self._held.get(lease) is grant:  # else it was released meanwhile
                lease._lose(str(reason))
        except HabemusError:
            return  # the lease has its own time
        else:
            lease._state.renew(grant.at_us, grant.lease_ms)

    def _watch_clock(self, wanted: threading.Event) -> None:
        """Lose leases that were not renewed in time, and those that are known to be lost."""
        while True:
            wanted.wait()
            left_us = int(boottime.LONGEST_WAIT * 1_000_000)
            for lease in list(self._held):
                self.look(lease)
                until_us = lease._state.until_us
                if until_us is not None:
                    left_us = min(left_us, until_us - boottime.microseconds())
                    if lease.lost:
                        lease._lose(EXPIRED)
            sleep(max(1_000, left_us) / 1_000_000)

    # Looking.

    def _news(self, key: str) -> list[Any] | None:
        try:
            return ["news", 0, {"holder": self.engine.state(key).holder}]
        except HabemusError:
            return None

    def watch(
        self, service: str, name: str, wait: Wait | None = None
    ) -> Generator[LockState, None, None]:
        """Yield the holder of a lock, now and after each change, until the wait is withdrawn."""
        attempts = Attempts(None)
        while True:
            try:
                for state in self.engine.states(_key(service, name), wait or Wait(None)):
                    self._is_known = True
                    attempts = Attempts(None)
                    yield self._shifted(state)
            except Unreachable as reason:
                attempts.failed(reason, is_known=self._is_known)
            except WaitOver:
                return
            sleep(attempts.pause())

    def _shifted(self, state: LockState) -> LockState:
        token = state.token
        return state._replace(token=None if token is None else token + self._offset)

    def status(self) -> dict[str, Any]:
        """Return the engine, and its locks that are held or requested."""
        locks = []
        for key, state in sorted(self.engine.held().items()):
            service, _, name = key.partition("/")
            shown = self._shifted(state)
            locks.append({"service": service, "name": name, **shown._asdict()})
        return {"engine": self.engine.shown, "fair": self.engine.is_fair, "locks": locks}

    def force(self, service: str, name: str) -> dict[str, Any]:
        """Take a lock away from its holder."""
        return {"taken": self.engine.force(_key(service, name)), "reclaims": False}

    def abandon(self) -> None:
        """Give up everything in the child of a fork: it belongs to the parent."""
        for lease in list(self._held):
            lease._end()
        self._lock = threading.Lock()  # another thread of the parent may have held it
        self._start_empty()
        self.engine.abandon()


@lru_cache(1_000)
def _key(service: str, name: str) -> str:
    """Return the key of a lock; `ValueError` if it is too long, or no name."""
    key = f"{service}/{name}"
    if len(key.encode()) > NAME_LIMIT:
        raise ValueError(
            f"a name of {len(key.encode()):,} bytes is too long for a lock; give one of at most"
            f" {NAME_LIMIT:,}"
        )
    if "\0" in key or "/" in service or not service:
        raise ValueError(f"{key!r} is not a name for a lock: it has a zero byte, or no service")
    return key


_BACKENDS: WeakSet[EngineBackend] = WeakSet()


def _abandon_all() -> None:
    for backend in list(_BACKENDS):
        backend.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)

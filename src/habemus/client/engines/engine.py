"""The interface of an engine that grants locks.

An engine is blocking, and several threads use it at once.  It knows locks by their keys, such as
`locks/printer`; elections and places of semaphores are locks as well.  It connects when it is first
used, and again after an error.

An engine raises `Unreachable` if trying again may help, and `RefusedByNode` if not.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import sleep
from typing import Any

from habemus import boottime
from habemus.client.backend import LockState

WATCH_SECONDS = 0.1
"""Time between two looks at a lock that is watched, where the engine sends no news."""


class WaitOver(Exception):
    """The time of a request is over, or the request was withdrawn."""


class LockGone(Exception):
    """The engine does not hold the lock for this client any more."""


_WAKING = threading.Lock()  # of all requests; it is held for a moment only


class Wait:
    """The time that a request may take; it can be withdrawn from another thread."""

    def __init__(self, timeout: float | None, *, is_plain: bool = True) -> None:
        self.is_plain = is_plain
        """Whether the request will not be withdrawn: its own thread may wait in the kernel."""
        self.deadline = boottime.Deadline(timeout)
        self.is_withdrawn = False
        self._wakes: list[Callable[[], None]] = []

    def left(self) -> float | None:
        """Return the seconds that are left, 0 at the end, None without a limit; raise `WaitOver`
        if the request was withdrawn.
        """
        if self.is_withdrawn:
            raise WaitOver
        return self.deadline.left()

    def longest(self, seconds: float) -> float:
        """Return how long to wait now, at most so many seconds; raise `WaitOver` at the end."""
        left = self.left()
        if left is None:
            return seconds
        if left <= 0:
            raise WaitOver
        return min(left, seconds)

    def pause(self, seconds: float) -> None:
        """Wait at most so many seconds; raise `WaitOver` at the end."""
        woken = threading.Event()
        with self.waking(woken.set):
            woken.wait(self.longest(seconds))
        self.left()

    def withdraw(self) -> None:
        """Withdraw the request: wake the thread that waits."""
        with _WAKING:
            self.is_withdrawn = True
            wakes = list(self._wakes)
        for wake in wakes:
            wake()

    @contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """Call `wake`, from another thread, if the request is withdrawn inside."""
        with _WAKING:
            self._wakes.append(wake)
        try:
            self.left()
            yield
        finally:
            with _WAKING:
                self._wakes.remove(wake)


@dataclass(slots=True, eq=False)
class EngineGrant:
    """A lock that the engine holds for this client."""

    key: str
    token: int
    at_us: int
    """Time at which the client sent the last request that counts for the lease."""
    lease_ms: int | None
    """Time for which the lease lasts from then on; None if it does not expire."""
    handle: Any
    """Data that the engine needs to renew and release it."""


class Engine(ABC):
    """A system that grants locks."""

    shown: str
    """The engine and its address, for messages; without credentials."""
    lease_ms: int | None
    """The default lease; None if locks do not expire."""
    beat_ms: int
    """Time between two renewals of a lease of the default length."""
    is_quick = False
    """Whether requests that need not wait can be made on an event loop."""
    is_fair = True
    """Whether locks are granted in the order of requests."""

    @abstractmethod
    def connect(self) -> None:
        """Connect, to see whether the engine can be used."""

    @abstractmethod
    def acquire(self, key: str, label: str, lease: float | None, wait: Wait) -> EngineGrant:
        """Wait for a lock; raise `WaitOver` if the time is over.

        lease: seconds after which a silent client loses the lock; None for the default.
        """

    @abstractmethod
    def renew(self, grant: EngineGrant) -> None:
        """Renew the lease and set `grant.at_us`; raise `LockGone` if the lock is lost."""

    @abstractmethod
    def release(self, grant: EngineGrant) -> None:
        """Release a lock; raise `LockGone` if it was lost before."""

    @abstractmethod
    def drop(self, grant: EngineGrant) -> None:
        """Free what a lost lock uses here, without waiting."""

    def is_gone(self, grant: EngineGrant) -> bool:
        """Return whether the lock is known to be lost, without waiting."""
        return False

    @abstractmethod
    def await_change(self, keys: Sequence[str], wait: Wait) -> None:
        """Wait until one of the locks may be free; raise `WaitOver` if the time is over."""

    @abstractmethod
    def agreed_size(self, key: str, size: int | None) -> int | None:
        """Return the size of a semaphore that is stored; store the given one if there is none."""

    @abstractmethod
    def state(self, key: str) -> LockState:
        """Return the holder of a lock."""

    def states(self, key: str, wait: Wait) -> Iterator[LockState]:
        """Yield the holder of a lock, now and after each change; raise `WaitOver` at the end."""
        seen = None
        while True:
            found = self.state(key)
            if found != seen:
                seen = found
                yield found
            sleep(wait.longest(WATCH_SECONDS))

    @abstractmethod
    def held(self) -> dict[str, LockState]:
        """Return the locks that are held or requested, by key."""

    @abstractmethod
    def force(self, key: str) -> str | None:
        """Take a lock away from its holder; return the label of the holder, None if there was
        none.
        """

    @abstractmethod
    def close(self) -> None:
        """Close all connections.  The engine may be used again."""

    def share_with_children(self) -> None:
        """Let children of this process, made by a fork, keep its locks as well."""
        return

    @abstractmethod
    def abandon(self) -> None:
        """Give up everything in the child of a fork: it belongs to the parent."""

"""The lock of redis-py, granted by a cluster or an engine of habemus."""

from __future__ import annotations

import threading
from time import monotonic
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any, Self

from habemus.client.lease import Lease
from habemus.redis.exceptions import LockError, LockNotOwnedError

if TYPE_CHECKING:
    from habemus.redis import Redis


class RedisLock:
    """A lock with the methods of `redis.lock.Lock`, and a fencing token.

    redis: the client; its method `lock` returns such a lock.
    name: the name of the lock.
    timeout: seconds after which the lock is released unless it is extended; None for no limit.
        The lock is released earlier if the process ends or hangs.
    sleep: ignored; a waiting client is notified, and need not poll.
    blocking, blocking_timeout: whether `acquire` waits, and for how many seconds.
    thread_local: whether only the thread that acquired the lock may release it.
    raise_on_release_error: whether the end of `with` raises if the lock was lost inside.
    """

    def __init__(
        self,
        redis: Redis,
        name: str,
        timeout: float | None = None,
        sleep: float = 0.1,
        blocking: bool = True,
        blocking_timeout: float | None = None,
        thread_local: bool = True,
        raise_on_release_error: bool = True,
    ) -> None:
        self.redis = redis
        self.name = name
        self.timeout = timeout
        self.blocking = blocking
        self.blocking_timeout = blocking_timeout
        self._raises = raise_on_release_error
        self._lock = redis.cluster.lock(name)
        self._own: Any = threading.local() if thread_local else SimpleNamespace()

    @property
    def token(self) -> int | None:
        """The fencing token: larger than that of every earlier holder; None if not held."""
        held = self._held()
        return None if held is None else held.lease.token

    def acquire(
        self,
        sleep: float | None = None,
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
    ) -> bool:
        """Return whether the lock was acquired.

        sleep, blocking, blocking_timeout: as in `RedisLock`; the defaults are the arguments of the
            lock.
        """
        blocking = self.blocking if blocking is None else blocking
        seconds = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        lease = self._lock.acquire(timeout=seconds if blocking else 0)
        if lease is None:
            return False
        self._own.held = _TimedLease(self, lease, self.timeout)
        return True

    def release(self) -> None:
        """Release the lock; raise `LockNotOwnedError` if it has expired or was lost."""
        held = self._held()
        if held is None:
            raise LockError(f"cannot release {self.name}: this thread has not acquired it")
        self._own.held = None
        if not held.end():
            raise LockNotOwnedError(f"cannot release {self.name}: it is not owned any more")

    def extend(self, additional_time: float, replace_ttl: bool = False) -> bool:
        """Let the lock expire so many seconds later, or so many from now with `replace_ttl`."""
        return self._owned("extend").extend(additional_time, replace_ttl)

    def reacquire(self) -> bool:
        """Let the lock expire `timeout` seconds from now."""
        if self.timeout is None:
            raise LockError(f"cannot reacquire {self.name}: it has no timeout")
        return self._owned("reacquire").extend(self.timeout, replaces=True)

    def locked(self) -> bool:
        """Return whether any client holds the lock."""
        return self._lock.locked()

    def owned(self) -> bool:
        """Return whether this thread holds the lock."""
        held = self._held()
        return held is not None and held.is_owned()

    def __enter__(self) -> Self:
        if not self.acquire():
            raise LockError(f"cannot acquire {self.name} within the time specified")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.release()
        except LockError:
            if self._raises:
                raise

    def _held(self) -> _TimedLease | None:
        held: _TimedLease | None = getattr(self._own, "held", None)
        return held

    def _owned(self, what: str) -> _TimedLease:
        held = self._held()
        if held is None:
            raise LockError(f"cannot {what} {self.name}: this thread has not acquired it")
        if not held.is_owned():
            raise LockNotOwnedError(f"cannot {what} {self.name}: it is not owned any more")
        return held


class _TimedLease:
    """A lease that is released after a time."""

    def __init__(self, lock: RedisLock, lease: Lease, timeout: float | None) -> None:
        self.lease = lease
        self._lock = lock
        self._guard = threading.Lock()
        self._has_expired = False
        self._timer: threading.Timer | None = None
        self._until = 0.0
        if timeout is not None:
            self._set_timer(timeout)

    def _set_timer(self, seconds: float) -> None:
        self._until = monotonic() + seconds
        self._timer = threading.Timer(seconds, self._expire)
        self._timer.daemon = True
        self._timer.start()

    def _expire(self) -> None:
        with self._guard:
            if self._timer is not threading.current_thread():  # it was extended
                return
            self._has_expired = True
        self._lock._lock.release(self.lease)

    def extend(self, seconds: float, replaces: bool) -> bool:
        with self._guard:
            if self._has_expired:
                raise LockNotOwnedError(f"{self._lock.name} has expired")
            if self._timer is None:
                raise LockError(f"cannot extend {self._lock.name}: it has no timeout")
            self._timer.cancel()
            left = 0.0 if replaces else max(0.0, self._until - monotonic())
            self._set_timer(left + seconds)
        return True

    def is_owned(self) -> bool:
        return not self._has_expired and not self.lease._is_lost_now() and self.lease.held

    def end(self) -> bool:
        """Release the lease; return whether it was held until now."""
        with self._guard:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._has_expired:
                return False
        self._lock._lock.release(self.lease)
        return not self.lease.lost


Lock = RedisLock

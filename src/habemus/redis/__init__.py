"""The locks of redis-py, for programs that know only those: on a cluster, on one machine, or on any
engine.

    import habemus.redis as redis

    client = redis.Redis.from_url("local")
    with client.lock("report", timeout=10, blocking_timeout=5):
        ...

Only locks are here; `docs/from-redis-py.md` lists what differs.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from habemus.client.blocking import Cluster, connect
from habemus.redis import exceptions
from habemus.redis.exceptions import LockError, LockNotOwnedError
from habemus.redis.lock import Lock, RedisLock

__all__ = ["LockError", "LockNotOwnedError", "Redis", "RedisLock", "exceptions", "from_url"]


class Redis:
    """A client with the locks of `redis.Redis`.

    host, port, db, username, password: address and login of a Redis server; `from_url` takes
        everything else.
    options: options of connections, which are ignored.
    """

    def __init__(
        self,
        host: str = "localhost",
        port: int = 6379,
        db: int = 0,
        password: str | None = None,
        *,
        username: str | None = None,
        **options: Any,
    ) -> None:
        user = quote(username or "", safe="")
        login = "" if password is None else f"{user}:{quote(password, safe='')}@"
        self._open(f"redis://{login}{host}:{port}/{db}")

    def _open(self, url: str | None) -> None:
        self.cluster: Cluster = connect(url)
        """The client of habemus behind this one."""

    @classmethod
    def from_url(cls, url: str | None = None, **options: Any) -> Self:
        """Return a client of a cluster, of "local", or of an engine.

        url: as the argument `cluster` of `habemus.connect`.
        options: options of connections, which are ignored.
        """
        made = cls.__new__(cls)
        made._open(url)
        return made

    def lock(
        self,
        name: str,
        timeout: float | None = None,
        sleep: float = 0.1,
        blocking: bool = True,
        blocking_timeout: float | None = None,
        lock_class: type[RedisLock] | None = None,
        thread_local: bool = True,
        raise_on_release_error: bool = True,
    ) -> RedisLock:
        """Return a lock; the arguments are those of `RedisLock`."""
        return (lock_class or Lock)(
            self,
            name,
            timeout,
            sleep,
            blocking,
            blocking_timeout,
            thread_local,
            raise_on_release_error,
        )

    def close(self) -> None:
        """Release all locks and close all connections."""
        self.cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def from_url(url: str | None = None, **options: Any) -> Redis:
    """Return a client; the arguments are those of `Redis.from_url`."""
    return Redis.from_url(url, **options)

"""The interface of a system that grants the locks of `Cluster` and `AsyncCluster`.

The nodes of a cluster are one such system (`habemus.client.node_backend`,
`habemus.client.async_node_backend`).  A lock engine is another (`habemus.client.engines`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

if TYPE_CHECKING:
    from habemus.client.lease import Lease
    from habemus.client.protocol import AcquireRequest


class LockState(NamedTuple):
    """The holder of a lock, or the leader of an election, as far as the node knows.

    holder: the label of the client that holds the lock; None if it is free.
    node: the number of the node at which it holds the lock; None if that is not known.
    token: the fencing token of the holder; None if there is none.
    waiting: the number of requests that wait for the lock.
    """

    holder: str | None
    node: int | None
    token: int | None
    waiting: int

    @classmethod
    def of(cls, news: dict[str, Any]) -> Self:
        """Return the state that a node reports.  In a service of elections, nodes lead, and the
        term is the token.
        """
        if "leader" in news:
            leader = news["leader"]
            return cls(None if leader is None else f"node {leader}", leader, news.get("term"), 0)
        return cls(news.get("holder"), news.get("node"), news.get("token"), news.get("waiting", 0))


class LeaseKeeper(Protocol):
    """The part of a backend that a lease depends on."""

    def look(self, lease: Lease) -> None:
        """Take in what is known about a lease, without waiting; lose the lease if it is lost."""

    def forget(self, lease: Lease) -> None:
        """Drop a lease that is lost; the other side may not know that yet."""

    def note_write(self, service: str, name: str, token: int) -> None:
        """Record that the resource was written."""

    def shows_waiters(self, service: str) -> bool:
        """Return whether holders of locks of this service learn that other clients wait."""

    def hurry(self) -> None:
        """Have news about leases arrive from now on."""


class Backend(Protocol):
    """The system that grants the locks of a `Cluster`.  Several threads may use it."""

    def connect(self) -> None:
        """Connect; raise `Unreachable` or `RefusedByNode`."""

    def acquire(
        self, request: AcquireRequest, timeout: float | None, names_holder: bool = True
    ) -> Lease:
        """Wait for the lock; raise `LockTimeout`, `Unreachable` or `RefusedByNode`.

        timeout: seconds; 0 takes the lock if it is free, None waits for ever.
        names_holder: whether the message of `LockTimeout` names the holder.
        """

    def release(self, lease: Lease, to: str | None = None) -> None:
        """Release the lock, in favour of the client with the label `to` if it is given.  If the
        lock turns out to be lost, the lease is lost instead.
        """

    def watch(self, service: str, name: str) -> Generator[LockState, None, None]:
        """Yield the holder of a lock, now and after each change, for ever."""

    def status(self) -> dict[str, Any]:
        """Return the state of the other side, for operators."""

    def force(self, service: str, name: str) -> dict[str, Any]:
        """Take a lock away from its holder, for operators."""

    def close(self) -> None:
        """Release all locks and close all connections."""


class AsyncBackend(Protocol):
    """The system that grants the locks of an `AsyncCluster`; see `Backend`."""

    async def connect(self) -> None: ...

    async def acquire(
        self, request: AcquireRequest, timeout: float | None, *, names_holder: bool = True
    ) -> Lease: ...

    def release(self, lease: Lease, to: str | None = None) -> None:
        """Release the lock, without waiting for an answer."""

    async def settle(self, lease: Lease) -> None:
        """Wait until it is known whether the lease was still held when it was released."""

    async def is_lost_now(self, lease: Lease) -> bool:
        """Look at the connection and the clock, and return whether the lock is lost."""

    def watch(self, service: str, name: str) -> AsyncGenerator[LockState, None]: ...

    async def status(self) -> dict[str, Any]: ...

    async def force(self, service: str, name: str) -> dict[str, Any]: ...

    async def close(self) -> None: ...

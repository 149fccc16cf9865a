"""The asynchronous client.

    async with habemus.connect() as cluster:
        async with cluster.lock("printer", timeout=5) as lease:
            await print_with(lease.token)

If a lock is lost, the task inside is cancelled, and `async with` raises `LockLost` in its place.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Self

from habemus import boottime
from habemus.client.async_node_backend import AsyncNodeBackend
from habemus.client.backend import AsyncBackend, LockState
from habemus.client.blocking import (
    checked_lease,
    checked_timeout,
    lock_request,
    lost_inside,
    no_waiters_shown,
    semaphore_request,
    shows_waiters,
)
from habemus.client.credentials import Credentials
from habemus.client.engines import is_engine
from habemus.client.errors import (
    LockLost,
    LockTimeout,
)
from habemus.client.lease import KeptLease, Lease, ReentrantLeases
from habemus.client.protocol import (
    AcquireRequest,
    LeadRequest,
)
from habemus.client.session import own_label
from habemus.runtimes.live.clients.protocol import (
    ELECTIONS,
    LOCKS,
)


def async_backend_of(
    named: str | None, credentials: Credentials, label: str | None
) -> AsyncBackend:
    """Return the backend of the named cluster; `ValueError` if no engine has the scheme."""
    url = os.environ.get("HABEMUS_CLUSTER") if named is None else named
    if url is not None and is_engine(url):
        from habemus.client.engines.async_engine_backend import AsyncEngineBackend

        return AsyncEngineBackend(url, credentials, label)
    return AsyncNodeBackend(named, credentials, label)


class AsyncCluster:
    """A client of a cluster, for the tasks of one event loop.  See `Cluster`."""

    def __init__(
        self, named: str | None, credentials: Credentials, label: str | None = None
    ) -> None:
        self._named = named
        self._credentials = credentials
        self._label = label
        self._backend = async_backend_of(named, credentials, label)
        self._reentrant = ReentrantLeases()

    @property
    def label(self) -> str:
        """The name of this client that others see."""
        return self._label or own_label()

    async def __aenter__(self) -> Self:
        try:
            await self._backend.connect()
        except BaseException:  # a cancellation, too: `__aexit__` is not called then
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Release all locks and close all connections."""
        await self._backend.close()

    # Locks.

    def lock(
        self,
        name: str,
        timeout: float | None = None,
        lease: float | None = None,
        *,
        reentrant: bool = False,
        keep: bool = False,
        on_lost: Callable[[Lease], None] | None = None,
        service: str = LOCKS,
    ) -> AsyncLock | AsyncKeptLock:
        """Return a lock, to be taken by `async with` or `await acquire()`.

        The arguments are those of `Cluster.lock`; a re-entrant lock belongs to a task.
        """
        if keep:
            if reentrant:
                raise ValueError("keep and reentrant exclude each other: use one of them")
            request = lock_request(service, name, lease, keep=True)
            return AsyncKeptLock(self, request, timeout, on_lost)
        return AsyncLock(self, lock_request(service, name, lease), timeout, reentrant, on_lost)

    async def try_lock(
        self,
        name: str,
        lease: float | None = None,
        *,
        on_lost: Callable[[Lease], None] | None = None,
        service: str = LOCKS,
    ) -> AsyncHeldLock | None:
        """Take the lock if it is free now, else return None.  Use `async with`, or release it."""
        try:
            request = lock_request(service, name, lease)
            return AsyncHeldLock(
                self, await self._acquire(request, 0.0, on_lost, names_holder=False)
            )
        except LockTimeout:
            return None

    def semaphore(
        self,
        name: str,
        size: int | None = None,
        timeout: float | None = None,
        lease: float | None = None,
        *,
        on_lost: Callable[[Lease], None] | None = None,
        service: str = LOCKS,
    ) -> AsyncLock:
        """Return a semaphore that the cluster declares, for `async with` or `await acquire()`.

        The arguments are those of `Cluster.semaphore`.
        """
        request = semaphore_request(service, name, size, lease)
        return AsyncLock(self, request, timeout, False, on_lost)

    @asynccontextmanager
    async def acquire_all(
        self,
        names: Sequence[str],
        timeout: float | None = None,
        lease: float | None = None,
        *,
        on_lost: Callable[[Lease], None] | None = None,
        service: str = LOCKS,
    ) -> AsyncIterator[list[Lease]]:
        """Acquire several locks, in the order of their names: two clients cannot deadlock."""
        timeout = checked_timeout(timeout)
        deadline = None if timeout is None else boottime.seconds() + timeout
        async with AsyncExitStack() as stack:
            leases = []
            for name in sorted(set(names)):
                left = None if deadline is None else max(0.0, deadline - boottime.seconds())
                leases.append(
                    await stack.enter_async_context(
                        self.lock(name, left, lease, on_lost=on_lost, service=service)
                    )
                )
            yield leases

    def election(self, name: str, *, service: str = LOCKS) -> AsyncLeaderElection:
        """Return the election of this name, to lead or to observe."""
        return AsyncLeaderElection(self, name, service)

    async def _acquire(
        self,
        request: AcquireRequest,
        timeout: float | None,
        on_lost: Callable[[Lease], None] | None = None,
        *,
        names_holder: bool = True,
    ) -> Lease:
        lease = await self._backend.acquire(request, timeout, names_holder=names_holder)
        if on_lost is not None:
            lease.on_lost(on_lost)
        return lease

    def _release(self, lease: Lease, to: str | None = None) -> None:
        """Release the lock.  There is no answer to wait for."""
        self._backend.release(lease, to)

    # Looking.

    def watch(self, name: str, *, service: str = LOCKS) -> AsyncIterator[LockState]:
        """Yield the holder of a lock, now and after each change, for ever."""
        return self._backend.watch(service, name)

    async def status(self) -> dict[str, Any]:
        """Return the status of the node that this client is connected to."""
        return await self._backend.status()

    async def force(self, name: str, *, service: str = LOCKS) -> dict[str, Any]:
        """Take a lock away from its holder at this node; for operators."""
        return await self._backend.force(service, name)


class AsyncHeldLock:
    """A lease to be used by `async with`; released once, at the end.

    The task inside is cancelled if the lock is lost.
    """

    def __init__(
        self,
        cluster: AsyncCluster,
        lease: Lease,
        release: Callable[[Lease], None] | None = None,
    ) -> None:
        self.lease = lease
        self._cluster = cluster
        self._release = release or cluster._release
        self._task: asyncio.Task[Any] | None = None
        self._has_cancelled = False
        self._listener: Callable[[Lease], None] = lambda _: None

    async def __aenter__(self) -> Lease:
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._listener = lambda _: self._tell(loop)
        self.lease.on_lost(self._listener)
        return self.lease

    def _tell(self, loop: asyncio.AbstractEventLoop) -> None:
        with suppress(RuntimeError):  # the loop may have closed
            loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._has_cancelled = True
            self._task.cancel()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        task, self._task = self._task, None
        self.lease._forget_listener(self._listener)  # a kept lease is entered many times
        try:
            was_lost = await self._cluster._backend.is_lost_now(self.lease)
        finally:
            self.release()
            if self._has_cancelled and task is not None:
                task.uncancel()
        await self._cluster._backend.settle(self.lease)
        if (was_lost or self.lease.lost) and (
            kind is None or (self._has_cancelled and issubclass(kind, asyncio.CancelledError))
        ):
            raise lost_inside(self.lease) from error

    def release(self) -> None:
        """Release the lock."""
        self._release(self.lease)


class AsyncLock:
    """A lock that can be acquired any number of times; each `acquire` returns a new lease."""

    def __init__(
        self,
        cluster: AsyncCluster,
        request: AcquireRequest,
        timeout: float | None,
        reentrant: bool,
        on_lost: Callable[[Lease], None] | None,
    ) -> None:
        self._cluster = cluster
        self._request = request
        self._timeout = checked_timeout(timeout)
        self._reentrant = reentrant
        self._on_lost = on_lost
        self._entered: dict[asyncio.Task[Any] | None, list[AsyncHeldLock]] = {}  # by task

    async def acquire(self) -> Lease:
        """Wait for the lock.  Release it by `release`, or use `async with`."""
        own, key = self._cluster._reentrant, self._key()
        lease = own.again(key) if self._reentrant else None
        if lease is None:
            lease = await self._cluster._acquire(self._request, self._timeout, self._on_lost)
            if self._reentrant:
                own.add(key, lease)
        return lease

    def release(self, lease: Lease) -> None:
        """Release a lease that `acquire` returned."""
        if not self._reentrant or self._cluster._reentrant.is_last(self._key(), lease):
            self._cluster._release(lease)

    def _key(self) -> tuple[asyncio.Task[Any] | None, str, str]:
        return asyncio.current_task(), self._request.service, self._request.shown

    async def __aenter__(self) -> Lease:
        held = AsyncHeldLock(self._cluster, await self.acquire(), self.release)
        self._entered.setdefault(asyncio.current_task(), []).append(held)
        return await held.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        me = asyncio.current_task()
        held = self._entered[me].pop()
        if not self._entered[me]:
            del self._entered[me]
        await held.__aexit__(kind, error, trace)


class AsyncKeptLock:
    """A lock that stays with this client when it is released; see `KeptLease`."""

    def __init__(
        self,
        cluster: AsyncCluster,
        request: AcquireRequest,
        timeout: float | None,
        on_lost: Callable[[Lease], None] | None,
    ) -> None:
        self._cluster = cluster
        self._request = request
        self._timeout = checked_timeout(timeout)
        self._on_lost = on_lost
        self._kept = KeptLease()
        self._entered: dict[asyncio.Task[Any] | None, AsyncHeldLock] = {}  # by task

    async def acquire(self) -> Lease:
        """Take the kept lock, or wait for it."""
        kept = self._kept.take()
        if kept is not None:
            return kept
        lease = await self._cluster._acquire(self._request, self._timeout, self._on_lost)
        if not shows_waiters(lease):
            self._cluster._release(lease)
            raise no_waiters_shown(lease)
        if self._kept.adopt(lease):
            loop = asyncio.get_running_loop()
            lease._on_wanted = lambda: self._tell(loop)  # the keeper's thread may call it
            lease._session.hurry()
        return lease

    def release(self, lease: Lease) -> None:
        """End the use of the lock; keep it unless another client waits for it."""
        if self._kept.give_back(lease):
            self._cluster._release(lease)

    def _tell(self, loop: asyncio.AbstractEventLoop) -> None:
        with suppress(RuntimeError):  # the loop may have closed
            loop.call_soon_threadsafe(self._hear_wanted)

    def _hear_wanted(self) -> None:
        lease = self._kept.want()
        if lease is not None:
            self._cluster._release(lease)

    async def __aenter__(self) -> Lease:
        held = AsyncHeldLock(self._cluster, await self.acquire(), self.release)
        self._entered[asyncio.current_task()] = held
        return await held.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        held = self._entered.pop(asyncio.current_task())
        await held.__aexit__(kind, error, trace)


class AsyncLeaderElection:
    """An election; see `LeaderElection`."""

    def __init__(self, cluster: AsyncCluster, name: str, service: str) -> None:
        self.name = name
        self._cluster = cluster
        self._service = service
        self._lease: Lease | None = None

    @asynccontextmanager
    async def lead(
        self,
        timeout: float | None = None,
        lease: float | None = None,
        *,
        on_lost: Callable[[Lease], None] | None = None,
    ) -> AsyncIterator[Lease]:
        """Wait until this client leads.  The term ends with the `async with`, or before it by
        `resign` or `transfer`.
        """
        request = LeadRequest(self._service, self.name, checked_lease(lease))
        lock = AsyncLock(self._cluster, request, checked_timeout(timeout), False, on_lost)
        async with lock as term:
            self._lease = term
            try:
                yield term
            finally:
                if self._lease is term:
                    self._lease = None

    async def resign(self) -> None:
        """End the term that was begun here."""
        lease, self._lease = self._lease, None
        if lease is not None:
            self._cluster._release(lease)

    async def transfer(self, to: str) -> None:
        """Resign in favour of the client with this label; it leads next if it is waiting."""
        lease, self._lease = self._lease, None
        if lease is None:
            raise LockLost(f"this client does not lead {self.name}")
        self._cluster._release(lease, to)

    async def leader(self) -> LockState | None:
        """Return the leader, as far as the node knows; None if there is none."""
        async for standing in self.observe():
            return standing if standing.holder is not None else None
        return None

    def observe(self) -> AsyncIterator[LockState]:
        """Yield the leader, now and after each change, for ever."""
        return self._cluster.watch(ELECTIONS + self.name, service=self._service)

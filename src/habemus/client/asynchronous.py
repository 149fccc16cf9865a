"""The asynchronous client.

    async with habemus.connect() as cluster:
        async with cluster.lock("printer", timeout=5) as lease:
            await print_with(lease.token)

If a lock is lost, the task inside is cancelled, and `async with` raises `LockLost` in its place.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, overload
from weakref import WeakKeyDictionary

from habemus import boottime
from habemus.client.async_node_backend import AsyncNodeBackend
from habemus.client.backend import AsyncBackend, LockState
from habemus.client.blocking import (
    UNSET,
    Parameters,
    Result,
    asked_timeout,
    checked_label,
    checked_lease,
    checked_listener,
    checked_names,
    checked_timeout,
    lock_request,
    lost_inside,
    no_waiters_shown,
    not_held,
    not_leading,
    permits_gate,
    semaphore_request,
    shows_waiters,
)
from habemus.client.credentials import Credentials
from habemus.client.engines import is_engine, without_password
from habemus.client.errors import LockTimeout
from habemus.client.lease import KeptLease, Lease, LeaseUse, ReentrantLeases
from habemus.client.protocol import (
    AcquireRequest,
    LeadRequest,
    SemaphoreRequest,
)
from habemus.client.session import own_label
from habemus.client.tracing import spans_of
from habemus.runtimes.live.clients.protocol import (
    ELECTIONS,
    LOCKS,
    checked_name,
)

if TYPE_CHECKING:
    from habemus.client.barrier import AsyncBarrier
    from habemus.client.read_write import AsyncReadWriteLock


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
    """A client of a cluster, for the tasks of one event loop.

    `async with` makes it from what `habemus.connect` returns; there is no other way.

        async with habemus.connect() as cluster:
            async with cluster.lock("printer", timeout=5) as lease:
                ...

    A program without a place for one `async with` around its tasks keeps an exit stack instead:

        stack = contextlib.AsyncExitStack()
        cluster = await stack.enter_async_context(habemus.connect())    # at the start
        await stack.aclose()                                            # at the end
    """

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

    def __repr__(self) -> str:
        return f"<AsyncCluster {without_password(self._named or 'by default')}, as {self.label}>"

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
        """Release all locks and close all connections.  A later request connects again."""
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
    ) -> AsyncLock:
        """Return a lock, to be taken by `async with` or `await acquire()`, or to decorate a
        coroutine function.

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
        """Take the lock if it is free now, else return None.  Use `async with`, or release it.

        The arguments are those of `Cluster.try_lock`.
        """
        request = lock_request(service, name, lease)
        listener = checked_listener(on_lost)
        try:
            return self._held(await self._acquire(request, 0.0, listener, names_holder=False))
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
    async def permits(
        self,
        name: str,
        count: int,
        size: int,
        timeout: float | None = None,
        lease: float | None = None,
        *,
        on_lost: Callable[[Lease], None] | None = None,
        service: str = LOCKS,
    ) -> AsyncIterator[list[Lease]]:
        """Acquire several places of a semaphore at once, all or none.

        The arguments are those of `Cluster.permits`.
        """
        gate = permits_gate(service, name, count, size, lease)
        timeout = checked_timeout(timeout)
        deadline = boottime.Deadline(timeout)
        async with AsyncExitStack() as stack:
            async with AsyncLock(self, gate, timeout, False, None):
                leases = []
                for _ in range(count):
                    place = self.semaphore(
                        name, size, deadline.left(), lease, on_lost=on_lost, service=service
                    )
                    leases.append(await stack.enter_async_context(place))
            yield leases

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
        """Acquire several locks, in the order of their names: two clients cannot deadlock.

        The arguments are those of `Cluster.acquire_all`.
        """
        timeout = checked_timeout(timeout)
        deadline = boottime.Deadline(timeout)
        async with AsyncExitStack() as stack:
            yield [
                await stack.enter_async_context(
                    self.lock(name, deadline.left(), lease, on_lost=on_lost, service=service)
                )
                for name in checked_names(names)
            ]

    def read_write_lock(
        self,
        name: str,
        timeout: float | None = None,
        lease: float | None = None,
        *,
        service: str = LOCKS,
    ) -> AsyncReadWriteLock:
        """Return a lock that many readers, or one writer, may hold.

        The arguments are those of `Cluster.read_write_lock`.
        """
        from habemus.client.read_write import AsyncReadWriteLock

        return AsyncReadWriteLock(self, name, timeout, lease, service)

    def barrier(
        self, name: str, parties: int, lease: float | None = None, *, service: str = LOCKS
    ) -> AsyncBarrier:
        """Return a barrier, at which so many parties wait for each other.

        The arguments are those of `Cluster.barrier`.
        """
        from habemus.client.barrier import AsyncBarrier

        return AsyncBarrier(self, name, parties, lease, service)

    def election(self, name: str, *, service: str = LOCKS) -> AsyncLeaderElection:
        """Return the election of this name, to lead or to observe.

        The arguments are those of `Cluster.election`.
        """
        return AsyncLeaderElection(self, checked_name(name), service)

    async def _acquire(
        self,
        request: AcquireRequest,
        timeout: float | None,
        on_lost: Callable[[Lease], None] | None = None,
        *,
        names_holder: bool = True,
    ) -> Lease:
        spans = spans_of(request)
        if spans is None:
            lease = await self._backend.acquire(request, timeout, names_holder=names_holder)
        else:
            with spans:
                lease = await self._backend.acquire(request, timeout, names_holder=names_holder)
                spans.hold(lease)
        if on_lost is not None:
            lease.on_lost(on_lost)
        return lease

    def _held(self, lease: Lease, release: Callable[[Lease], None] | None = None) -> AsyncHeldLock:
        return AsyncHeldLock(self, lease, release)

    def _with_label(self, label: str) -> AsyncCluster:
        """Return another client of the same cluster."""
        return AsyncCluster(self._named, self._credentials, label)

    def _task(self) -> Any:
        """Return the task that runs now."""
        return asyncio.current_task()

    def _soon(self, function: Callable[[], None]) -> Callable[[], None]:
        """Return a function that any thread may call, to call the given one in this event loop."""
        loop = asyncio.get_running_loop()

        def call() -> None:
            with suppress(RuntimeError):  # the loop may have closed
                loop.call_soon_threadsafe(function)

        return call

    def _release(self, lease: Lease, to: str | None = None) -> None:
        """Release the lock.  There is no answer to wait for."""
        self._backend.release(lease, to)

    # Looking.

    def watch(self, name: str, *, service: str = LOCKS) -> AsyncIterator[LockState]:
        """Yield the holder of a lock, now and after each change, for ever.

        The arguments are those of `Cluster.watch`.
        """
        return self._backend.watch(service, checked_name(name))

    async def _state(self, request: AcquireRequest) -> LockState:
        """Return the holder of a lock, as far as the node knows."""
        async with aclosing(self._backend.watch(request.service, request.name)) as states:
            return await anext(states)

    async def status(self) -> dict[str, Any]:
        """Return the status of the node that this client is connected to."""
        return await self._backend.status()

    async def force(self, name: str, *, service: str = LOCKS) -> dict[str, Any]:
        """Take a lock away from its holder, at whichever node; for operators.

        The arguments and the answer are those of `Cluster.force`.
        """
        return await self._backend.force(service, checked_name(name))


class AsyncHeldLock:
    """A lock that `AsyncCluster.try_lock` has taken: use it by `async with`, or call `release`.

    The task inside `async with` is cancelled if the lock is lost.
    """

    def __init__(
        self,
        cluster: AsyncCluster,
        lease: Lease,
        release: Callable[[Lease], None] | None = None,
    ) -> None:
        self.lease = lease
        """The lease, which `async with` gives."""
        self._cluster = cluster
        self._release = release or cluster._release
        self._task: asyncio.Task[Any] | None = None
        self._has_cancelled = False
        self._listener: Callable[[Lease], None] = lambda _: None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.lease!r}>"

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
        self.lease._forget_listener(self._listener)  # a re-entrant lease is entered many times
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
        """Release the lock, without waiting for an answer."""
        self._release(self.lease)


class AsyncLock:
    """A lock that can be acquired any number of times; each time is a new lease.

    `AsyncCluster.lock` and `AsyncCluster.semaphore` return it.  It is a `Lock` for the tasks of one
    event loop: each task releases its own lease.  If the lock is lost inside `async with`, the task
    is cancelled there, and `async with` raises `LockLost` in place of the cancellation.

        lock = cluster.lock("report")
        if await lock.acquire(timeout=5):
            try:
                ...
            finally:
                lock.release()
    """

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
        self._on_lost = checked_listener(on_lost)
        self._entered: dict[Any, list[AsyncHeldLock]] = {}  # by `async with`, for each task
        self._acquired: WeakKeyDictionary[Any, list[Lease]] = WeakKeyDictionary()  # by `acquire`

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._request.shown}>"

    @overload
    async def acquire(self, blocking: Literal[True] = True) -> Lease: ...

    @overload
    async def acquire(
        self, blocking: bool = True, timeout: float | None = None
    ) -> Lease | None: ...

    async def acquire(self, blocking: bool = True, timeout: float | None = UNSET) -> Lease | None:
        """Wait for the lock and return the lease; the arguments are those of `Lock.acquire`.

        A task that is not inside `async with` is not cancelled if the lock is lost.
        """
        if blocking is True and timeout is UNSET:
            lease = await self._take(self._timeout)
        else:
            found = await self._take_if(blocking, timeout)
            if found is None:
                return None
            lease = found
        self._acquired.setdefault(self._cluster._task(), []).append(lease)
        return lease

    def release(self, lease: Lease | None = None) -> None:
        """Release the lock, without waiting for an answer.  Raise `LockLost` if the lock was lost
        before.

        lease: the lease to release; any task may release it.  The default is that of the last
            `acquire` of this task through this object: raise `LockNotHeld` if there is none.
        """
        if lease is not None:
            mine = self._acquired.get(self._cluster._task(), [])
            if lease in mine:
                mine.remove(lease)
            self._give_back(lease)
            if lease.lost:
                raise lost_inside(lease)
            return
        last = self._last()
        if last is None:
            is_entered = self._cluster._task() in self._entered
            raise not_held(self._request.shown, "task", "async with" if is_entered else "")
        self.release(last)

    def _last(self) -> Lease | None:
        mine = self._acquired.get(self._cluster._task(), [])
        while mine and mine[-1].released:
            mine.pop()
        return mine[-1] if mine else None

    @property
    def lease(self) -> Lease | None:
        """The lease that this task holds through this object, the latest if there are several;
        None if it has none.
        """
        entered = self._entered.get(self._cluster._task(), [])
        return self._last() or (entered[-1].lease if entered else None)

    async def owned(self) -> bool:
        """Return whether this task holds the lock through this object, and has not lost it."""
        lease = self.lease
        if lease is None or not lease.held:
            return False
        return not await self._cluster._backend.is_lost_now(lease)

    async def locked(self) -> bool:
        """Return whether a client holds the lock, this one or another, as far as the node knows.

        For a semaphore, return whether all places are held; this takes a place for a moment.
        """
        if isinstance(self._request, SemaphoreRequest):
            found = await self._take_if(False, UNSET)
            if found is not None:
                self._give_back(found)
            return found is None
        return (await self._cluster._state(self._request)).holder is not None

    def __call__(
        self, function: Callable[Parameters, Coroutine[Any, Any, Result]]
    ) -> Callable[Parameters, Coroutine[Any, Any, Result]]:
        """Return the coroutine function, to be executed with the lock held."""
        from habemus.client.decorators import locked_in_loop

        return locked_in_loop(self, function)

    async def _take(self, timeout: float | None) -> Lease:
        own, key = self._cluster._reentrant, self._key()
        lease = own.again(key) if self._reentrant else None
        if lease is None:
            lease = await self._cluster._acquire(self._request, timeout, self._on_lost)
            if self._reentrant:
                own.add(key, lease)
        return lease

    async def _take_if(self, blocking: bool, timeout: float | None) -> Lease | None:
        try:
            return await self._take(asked_timeout(blocking, timeout))
        except LockTimeout:
            return None

    def _give_back(self, lease: Lease) -> None:
        if not self._reentrant or self._cluster._reentrant.is_last(self._key(), lease):
            self._cluster._release(lease)

    def _key(self) -> tuple[Any, str, str]:
        return self._cluster._task(), self._request.service, self._request.shown

    async def __aenter__(self) -> Lease:
        held = self._cluster._held(await self._take(self._timeout), self._give_back)
        self._entered.setdefault(self._cluster._task(), []).append(held)
        return await held.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        me = self._cluster._task()
        held = self._entered[me].pop()
        if not self._entered[me]:
            del self._entered[me]
        await held.__aexit__(kind, error, trace)


class AsyncKeptLock(AsyncLock):
    """A lock that stays with this client when it is released; see `KeptLease`."""

    def __init__(
        self,
        cluster: AsyncCluster,
        request: AcquireRequest,
        timeout: float | None,
        on_lost: Callable[[Lease], None] | None,
    ) -> None:
        super().__init__(cluster, request, timeout, False, on_lost)
        self._kept = KeptLease()

    async def _take(self, timeout: float | None) -> Lease:
        """Take the kept lock, or wait for it."""
        use: Lease | None = self._kept.take()
        if use is None:
            use = self._new_use(await self._cluster._acquire(self._request, timeout))
        if self._on_lost is not None:
            use.on_lost(self._on_lost)
        return use

    def _new_use(self, lease: Lease) -> Lease:
        """Keep a lease that was granted, and begin to use it."""
        if not shows_waiters(lease):
            self._cluster._release(lease)
            raise no_waiters_shown(lease)
        use = self._kept.adopt(lease)
        if use is None:
            return lease
        # the keeper's thread may call these two
        lease._on_wanted = self._cluster._soon(self._hear_wanted)
        lease.on_lost(self._kept.hear_lost)
        lease._session.hurry()
        return use

    def _give_back(self, lease: Lease) -> None:
        """End the use of the lock; keep it unless another client waits for it."""
        if not isinstance(lease, LeaseUse):  # it is not kept
            self._cluster._release(lease)
        elif lease._finish():
            ended = self._kept.give_back(lease)
            if ended is not None:
                self._cluster._release(ended)

    def _hear_wanted(self) -> None:
        lease = self._kept.want()
        if lease is not None:
            self._cluster._release(lease)


class AsyncLeaderElection:
    """An election: to lead is to hold a lock.  Its token is the term, larger for each leader.

        async with cluster.election("scheduler").lead() as lease:
            ...  # this client leads, in the term lease.token

    `AsyncCluster.election` returns it.
    """

    def __init__(self, cluster: AsyncCluster, name: str, service: str) -> None:
        self.name = name
        """The name of the election."""
        self._cluster = cluster
        self._service = service
        self._lease: Lease | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def lead(
        self,
        timeout: float | None = None,
        lease: float | None = None,
        *,
        on_lost: Callable[[Lease], None] | None = None,
    ) -> AsyncTerm:
        """Return a term of office, to be taken by `async with` or `await begin()`, which wait for
        it.

        timeout, lease, on_lost: as in `Cluster.lock`; a term that is lost is over.
        """
        request = LeadRequest(self._service, self.name, checked_lease(lease))
        return AsyncTerm(self, AsyncLock(self._cluster, request, timeout, False, on_lost))

    async def resign(self) -> None:
        """End the term that was begun by this object; see `LeaderElection.resign`."""
        await self._give_up(None)

    async def transfer(self, to: str) -> None:
        """Resign in favour of the client with this label; it leads next if it is waiting.

        to: the label of the client; see `Cluster.label`.
        """
        await self._give_up(checked_label("to", to))

    async def _give_up(self, to: str | None) -> None:
        lease = self._lease
        if lease is None:
            raise not_leading(self.name)
        was_lost = await self._cluster._backend.is_lost_now(lease)
        self._cluster._release(lease, to)  # which an engine may refuse
        self._end(lease)
        await self._cluster._backend.settle(lease)
        if was_lost or lease.lost:
            raise lost_inside(lease)

    async def leader(self) -> LockState | None:
        """Return the leader, as far as the node knows; None if there is none."""
        standing = await self._cluster._state(LeadRequest(self._service, self.name))
        return standing if standing.holder is not None else None

    def observe(self) -> AsyncIterator[LockState]:
        """Yield the leader, now and after each change, for ever."""
        return self._cluster.watch(ELECTIONS + self.name, service=self._service)

    def _begin(self, lease: Lease) -> None:
        self._lease = lease

    def _end(self, lease: Lease) -> None:
        """Forget this term, but none that another task has begun since."""
        if self._lease is lease:
            self._lease = None


class AsyncTerm:
    """A term of office; see `AsyncLeaderElection.lead`."""

    def __init__(self, election: AsyncLeaderElection, lock: AsyncLock) -> None:
        self._election = election
        self._lock = lock
        self._lease: Lease

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._lock._request.shown}>"

    async def begin(self) -> Lease:
        """Wait until this client leads.  End the term by `resign` or `transfer`.

        The task is not cancelled if the term is lost, unlike that inside `async with`.
        """
        self._lease = await self._lock.acquire()
        self._election._begin(self._lease)
        return self._lease

    async def __aenter__(self) -> Lease:
        self._lease = await self._lock.__aenter__()
        self._election._begin(self._lease)
        return self._lease

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._election._end(self._lease)
        await self._lock.__aexit__(kind, error, trace)

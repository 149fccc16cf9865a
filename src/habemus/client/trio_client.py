"""The asynchronous client under trio.

The connection belongs to an event loop of asyncio in a thread of its own (`LoopThread`), as the
heartbeats belong to a thread anyway.  A call from trio runs there as a task, and its end wakes the
caller.  If the caller is cancelled, so is the task; a lock that was granted in the same moment is
released.  The rest is `AsyncCluster`: locks, elections and read-write locks wait by the backend
only.  `async with` of a lock opens a cancel scope, which is cancelled if the lock is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

import trio

from habemus.client.asynchronous import AsyncCluster, AsyncHeldLock
from habemus.client.backend import AsyncBackend, LockState
from habemus.client.barrier import AsyncBarrier, LoopThread
from habemus.client.blocking import lost_inside
from habemus.client.credentials import Credentials
from habemus.client.lease import Lease
from habemus.client.protocol import AcquireRequest
from habemus.runtimes.live.clients.protocol import LOCKS

Result = TypeVar("Result")


class _Call:
    """A coroutine that runs in the loop of the thread, for a task of trio that waits for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any]) -> None:
        self._loop = loop
        self._work = work
        self._done = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        self._task: asyncio.Task[Any]

    def _start(self) -> None:
        self._task = self._loop.create_task(self._work)
        self._task.add_done_callback(lambda _: self._tell())

    def _tell(self) -> None:
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._done.set)

    async def wait(self) -> None:
        """Run the coroutine to its end.  If the caller is cancelled, so is the coroutine."""
        self._loop.call_soon_threadsafe(self._start)
        try:
            await self._done.wait()
        except trio.Cancelled:
            self._loop.call_soon_threadsafe(lambda: self._task.cancel())
            with trio.CancelScope(shield=True):
                await self._done.wait()
            raise

    @property
    def has_result(self) -> bool:
        return not self._task.cancelled() and self._task.exception() is None

    def result(self) -> Any:
        return self._task.result()


class TrioBackend:
    """A backend of asyncio, used from trio."""

    def __init__(self, inner: AsyncBackend) -> None:
        self._inner = inner
        self._thread: LoopThread | None = None

    def _loop(self) -> asyncio.AbstractEventLoop:
        if self._thread is None:
            self._thread = LoopThread("habemus-trio")
        return self._thread.loop

    async def run(
        self,
        work: Coroutine[Any, Any, Result],
        undo: Callable[[Result], None] = lambda _: None,
    ) -> Result:
        """Run the coroutine in the loop of the thread, and wait for its result.

        undo: called with the result if the caller is cancelled in the moment when there is one.
        """
        call = _Call(self._loop(), work)
        try:
            await call.wait()
        except trio.Cancelled:
            if call.has_result:
                undo(call.result())
            raise
        result: Result = call.result()
        return result

    async def _finish(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run the coroutine, even if the caller is cancelled: it takes no time to speak of."""
        call = _Call(self._loop(), work)
        with trio.CancelScope(shield=True):
            await call.wait()
        result: Result = call.result()
        return result

    async def connect(self) -> None:
        await self.run(self._inner.connect())

    async def acquire(
        self, request: AcquireRequest, timeout: float | None, *, names_holder: bool = True
    ) -> Lease:
        work = self._inner.acquire(request, timeout, names_holder=names_holder)
        return await self.run(work, self.release)

    def release(self, lease: Lease, to: str | None = None) -> None:
        """Release the lock, without waiting for an answer of the node."""
        done: Future[None] = Future()

        def release() -> None:
            try:
                self._inner.release(lease, to)
            except BaseException as reason:
                done.set_exception(reason)
            else:
                done.set_result(None)

        self._loop().call_soon_threadsafe(release)
        done.result()

    async def settle(self, lease: Lease) -> None:
        await self._finish(self._inner.settle(lease))

    async def is_lost_now(self, lease: Lease) -> bool:
        return await self._finish(self._inner.is_lost_now(lease))

    async def watch(self, service: str, name: str) -> AsyncGenerator[LockState, None]:
        states = self._inner.watch(service, name)

        async def following() -> LockState:
            return await anext(states)

        try:
            while True:
                yield await self.run(following())
        finally:
            await self._finish(states.aclose())

    async def status(self) -> dict[str, Any]:
        return await self.run(self._inner.status())

    async def force(self, service: str, name: str) -> dict[str, Any]:
        return await self.run(self._inner.force(service, name))

    async def close(self) -> None:
        """Release all locks, close all connections, and end the thread."""
        if self._thread is not None:
            await self._finish(self._inner.close())
            thread, self._thread = self._thread, None
            thread.close()


class TrioHeldLock(AsyncHeldLock):
    """A lease to be used by `async with` under trio; its scope is cancelled if the lock is lost."""

    async def __aenter__(self) -> Lease:
        token = trio.lowlevel.current_trio_token()
        self._scope = trio.CancelScope()
        self._listener = lambda _: _cancel_soon(token, self._scope)
        self._scope.__enter__()
        self.lease.on_lost(self._listener)
        return self.lease

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.lease._forget_listener(self._listener)
        try:
            is_cancelled = self._scope.__exit__(kind, error, trace)  # because the lock was lost
        finally:
            was_lost = await self._cluster._backend.is_lost_now(self.lease)
            self.release()
            await self._cluster._backend.settle(self.lease)
        if (was_lost or self.lease.lost) and (kind is None or is_cancelled):
            raise lost_inside(self.lease) from error


def _cancel_soon(token: trio.lowlevel.TrioToken, scope: trio.CancelScope) -> None:
    with suppress(trio.RunFinishedError):
        token.run_sync_soon(scope.cancel)


class TrioBarrier(AsyncBarrier):
    """A barrier for tasks of trio; the parties wait in the loop of the thread."""

    _cluster: TrioCluster

    async def wait(self, timeout: float | None = None) -> int:
        """Wait until all parties wait; see `Barrier.wait`."""
        return await self._cluster._trio_backend.run(super().wait(timeout))

    async def abort(self) -> None:
        """Break the barrier for all parties that wait."""
        await self._cluster._trio_backend.run(super().abort())

    async def __aenter__(self) -> Self:
        await self._cluster._trio_backend.run(super().__aenter__())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with trio.CancelScope(shield=True):
            await self._cluster._trio_backend.run(super().__aexit__(kind, error, trace))


class TrioCluster(AsyncCluster):
    """A client of a cluster, for the tasks of one run of trio.  See `Cluster`."""

    def __init__(
        self, named: str | None, credentials: Credentials, label: str | None = None
    ) -> None:
        super().__init__(named, credentials, label)
        self._trio_backend = TrioBackend(self._backend)
        self._backend = self._trio_backend

    def _held(self, lease: Lease, release: Callable[[Lease], None] | None = None) -> TrioHeldLock:
        return TrioHeldLock(self, lease, release)

    def _task(self) -> Any:
        return trio.lowlevel.current_task()

    def _soon(self, function: Callable[[], None]) -> Callable[[], None]:
        token = trio.lowlevel.current_trio_token()

        def call() -> None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(function)

        return call

    def barrier(
        self, name: str, parties: int, lease: float | None = None, *, service: str = LOCKS
    ) -> AsyncBarrier:
        """Return a barrier, at which so many parties wait for each other; see `Barrier`."""
        return TrioBarrier(self, name, parties, lease, service)

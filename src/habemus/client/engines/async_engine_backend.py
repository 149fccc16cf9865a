"""Locks of an engine, for the asynchronous client.

Requests run in threads: engines are blocking.  One thread waits for each lock.  Tasks of one client
that want the same lock queue up here, and the request of the next one goes to the engine when the
one before it has been granted.  A task that is cancelled withdraws its request; if the lock is
granted nevertheless, the thread releases it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from habemus.client.backend import LockState
from habemus.client.credentials import Credentials
from habemus.client.engines.engine import Wait
from habemus.client.engines.engine_backend import EngineBackend
from habemus.client.errors import HabemusError, LockTimeout, Unreachable
from habemus.client.lease import Lease
from habemus.client.protocol import CLOSED, AcquireRequest, SemaphoreRequest

THREADS = 10_000
"""Locks for which tasks of one client may wait at a time."""
SHORT_THREADS = 32
"""Threads for calls that do not wait for a lock."""

CLOSING_SECONDS = 1.0
"""How long requests may take to end when the client is closed.  An engine that hangs delays them.
"""

Result = TypeVar("Result")


class AsyncEngineBackend:
    """An engine, as the asynchronous client sees it."""

    def __init__(self, url: str, credentials: Credentials, label: str | None) -> None:
        self._blocking = EngineBackend(url, credentials, label)
        self._start_pools()
        self._releasing: dict[Lease, Future[None]] = {}
        self._waits: set[Wait] = set()
        self._running: set[Future[Any]] = set()  # that may wait for a lock
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def _start_pools(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, "habemus-request")
        self._short_threads = ThreadPoolExecutor(SHORT_THREADS, "habemus-call")

    async def _call(self, function: Callable[..., Result], *arguments: Any) -> Result:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._short_threads, function, *arguments)

    async def connect(self) -> None:
        """Connect to the engine."""
        await self._call(self._blocking.connect)

    async def close(self) -> None:
        """Release all locks, end all requests and close all connections."""
        for wait in list(self._waits):
            wait.withdraw()
        # First the requests, then the connections, which their threads use.
        await self._call(wait_for, list(self._running), CLOSING_SECONDS)
        releasing = [asyncio.wrap_future(each) for each in self._releasing.values()]
        await asyncio.gather(*releasing, return_exceptions=True)
        await self._call(self._blocking.close)
        for pool in (self._threads, self._short_threads):
            pool.shutdown(wait=False)
        self._start_pools()

    # Locks.

    async def acquire(
        self, request: AcquireRequest, timeout: float | None, *, names_holder: bool = True
    ) -> Lease:
        """Wait for the lock behind the other tasks; try first if the engine is quick."""
        turn = self._turns.setdefault((request.service, request.name), asyncio.Lock())
        is_quick = self._blocking.engine.is_quick and not isinstance(request, SemaphoreRequest)
        if is_quick and (timeout == 0 or not turn.locked()):
            try:
                names_it = names_holder and timeout == 0
                return self._blocking.acquire(request, 0.0, names_holder=names_it)
            except LockTimeout:
                if timeout == 0:
                    raise
        wait = Wait(timeout, is_plain=False)
        self._waits.add(wait)
        try:
            if timeout == 0:
                return await self._requested(request, timeout, wait, names_holder=names_holder)
            try:
                async with asyncio.timeout(timeout):
                    await turn.acquire()
            except TimeoutError:
                named = self._blocking.timed_out
                raise await self._call(named, request, timeout, names_holder) from None
            try:
                return await self._requested(request, timeout, wait, names_holder=names_holder)
            finally:
                turn.release()
        finally:
            self._waits.discard(wait)

    def _start(self, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """Call a function that may wait for a lock, in a thread."""
        future = self._threads.submit(function, *arguments)
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        return future

    async def _requested(
        self, request: AcquireRequest, timeout: float | None, wait: Wait, *, names_holder: bool
    ) -> Lease:
        """Wait for the lock in a thread."""
        acquire = partial(self._blocking.acquire, names_holder=names_holder, wait=wait)
        future = self._start(acquire, request, timeout)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            wait.withdraw()
            future.add_done_callback(self._give_back)
            raise

    def _give_back(self, future: Future[Lease]) -> None:
        """Release a lock that was granted to a task after it was cancelled."""
        if not future.cancelled() and future.exception() is None:
            self._blocking.release(future.result())

    def release(self, lease: Lease, to: str | None = None) -> None:
        """Release the lock in a thread, or at once if the engine is quick."""
        if to is not None or self._blocking.engine.is_quick or lease.lost:
            self._blocking.release(lease, to)
            return
        future = self._short_threads.submit(self._blocking.release, lease)
        self._releasing[lease] = future
        future.add_done_callback(lambda _: self._releasing.pop(lease, None))

    async def settle(self, lease: Lease) -> None:
        """Wait for the answer of the engine to the release."""
        future = self._releasing.get(lease)
        if future is not None:
            with suppress(HabemusError):
                await asyncio.shield(asyncio.wrap_future(future))

    async def is_lost_now(self, lease: Lease) -> bool:
        """Look at the connection and the clock, and return whether the lock is lost."""
        return lease._is_lost_now()

    # Looking.

    async def watch(self, service: str, name: str) -> AsyncGenerator[LockState, None]:
        """Yield the holder of a lock, now and after each change, until the client is closed."""
        wait = Wait(None, is_plain=False)
        self._waits.add(wait)
        states = self._blocking.watch(service, name, wait)
        try:
            while True:
                state = await asyncio.wrap_future(self._start(next, states, None))
                if state is None:
                    raise Unreachable(CLOSED)
                yield state
        finally:
            self._waits.discard(wait)
            wait.withdraw()

    async def status(self) -> dict[str, Any]:
        """Return the engine, and its locks that are held or requested."""
        return await self._call(self._blocking.status)

    async def force(self, service: str, name: str) -> dict[str, Any]:
        """Take a lock away from its holder."""
        return await self._call(self._blocking.force, service, name)

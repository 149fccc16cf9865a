"""A client under torture: it acquires the lock, reads a value, writes the next one and releases the
lock, in a loop.

    python -m habemus.torture.client ORDERS

ORDERS is JSON: name, cluster (where it is), service, locks, lease (seconds or null), referee (its
socket), record (the file to write), seed, think_s (the longest pause between two requests),
is_asynchronous.

Each event is recorded in one call before the client acts, so the record is complete when the
process is killed (`habemus.torture.history`).

The client checks its lease before an update, as it should, but not again before the write: a client
can be paused between a check and a write.  It checks again only if the work took very long.

Blocking and asynchronous clients do the same; they differ in how they wait.  Sometimes a request is
given up: it times out, or an asynchronous client cancels it.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from contextlib import AsyncExitStack, suppress
from random import Random
from typing import Any, Protocol

import habemus
from habemus.client.asynchronous import AsyncCluster, AsyncLock
from habemus.client.blocking import Cluster, Lock
from habemus.client.lease import Lease

LONG_S = 10.0
SHORT_S = (0.02, 0.3)
"""Short timeouts of requests, and times after which a request is cancelled."""
HURRIES = 0.1
"""Fraction of requests with a short timeout."""
CANCELS = 0.1
"""Fraction of requests that an asynchronous client cancels if they are not granted soon."""
UPDATES = (1, 3)
"""Number of updates in a stay."""
WORK_S = (0.0005, 0.004)
LONG_WORK_S = (0.02, 0.1)
"""Time between reading and writing; sometimes long, so that a fault can hit a client inside."""
LONG_WORKS = 0.03
"""Fraction of updates with long work."""
ENDLESS_WORK_S = (0.3, 2.5)
"""Longer than an election or the restart of a node."""
ENDLESS_WORKS = 0.004
REST_S = 0.05
"""Pause after a failed request."""


class Cancelled(Exception):
    """The client has cancelled its request."""


class ClientKind(Protocol):
    """How a client waits: for time, for a lock, for the referee."""

    def lock(self, *given: Any, **more: Any) -> Any: ...

    async def acquire(self, lock: Any, cancel_s: float | None) -> Lease:
        """Return the lease; raise `Cancelled` if the request was cancelled after that time."""

    async def sleep(self, seconds: float) -> None: ...

    async def ask(self, line: bytes) -> bytes:
        """Return the answer of the referee."""


class Blocking:
    """A client that waits in the only thread of its program."""

    def __init__(self, cluster: Cluster, referee: str) -> None:
        self.lock = cluster.lock
        self._referee = socket.socket(socket.AF_UNIX)
        self._referee.connect(referee)
        self._answers = self._referee.makefile("rb")

    async def acquire(self, lock: Lock, cancel_s: float | None) -> Lease:
        return lock.acquire()

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def ask(self, line: bytes) -> bytes:
        self._referee.sendall(line)
        return self._answers.readline()


class Asynchronous:
    """A client that is a task of an event loop."""

    def __init__(
        self, cluster: AsyncCluster, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    ) -> None:
        self.lock = cluster.lock
        self._reader, self._writer = streams

    async def acquire(self, lock: AsyncLock, cancel_s: float | None) -> Lease:
        request = asyncio.create_task(lock.acquire())
        await asyncio.wait([request], timeout=cancel_s)
        if not request.done():
            request.cancel()
        try:
            return await request  # it may have been granted nevertheless
        except asyncio.CancelledError:
            raise Cancelled from None

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def ask(self, line: bytes) -> bytes:
        self._writer.write(line)
        return await self._reader.readline()


class TortureClient:
    def __init__(self, orders: dict[str, Any]) -> None:
        self._name: str = orders["name"]
        self._address: str = orders["cluster"]
        self._referee: str = orders["referee"]
        self._is_asynchronous: bool = orders["is_asynchronous"]
        self._service: str = orders["service"]
        self._locks: list[str] = orders["locks"]
        self._lease: float | None = orders["lease"]
        self._draw = Random(orders["seed"])
        self._think_s: float = orders["think_s"]
        self._record = os.open(orders["record"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._kind: ClientKind
        self._stay = 0

    def note(self, what: str, *more: object, stay: int = 0) -> None:
        line = [time.monotonic_ns(), what, stay or self._stay, *more]
        os.write(self._record, json.dumps(line).encode() + b"\n")

    async def run(self) -> None:
        async with AsyncExitStack() as stack:
            self._kind = await self._connect(stack)
            while True:
                await self._kind.sleep(self._draw.uniform(0.0, self._think_s))
                self._stay += 1
                await self._visit(self._draw.choice(self._locks))

    async def _connect(self, stack: AsyncExitStack) -> ClientKind:
        if not self._is_asynchronous:
            return Blocking(habemus.connect(self._address, name=self._name), self._referee)
        streams = await asyncio.open_unix_connection(self._referee)
        while True:
            try:
                connecting = habemus.connect(self._address, name=self._name)
                return Asynchronous(await stack.enter_async_context(connecting), streams)
            except habemus.HabemusError:  # no node is up
                await asyncio.sleep(REST_S)

    async def _visit(self, name: str) -> None:
        stay, draw = self._stay, self._draw
        timeout = draw.uniform(*SHORT_S) if draw.random() < HURRIES else LONG_S
        cancels = self._is_asynchronous and draw.random() < CANCELS
        cancel_s = draw.uniform(*SHORT_S) if cancels else None
        lock = self._kind.lock(
            name,
            timeout,
            self._lease,
            on_lost=lambda _: self.note("lost", "notified", stay=stay),
            service=self._service,
        )
        self.note("acquire", name)
        try:
            lease = await self._kind.acquire(lock, cancel_s)
        except habemus.LockTimeout as reason:
            self.note("timeout", str(reason))
        except Cancelled:
            self.note("cancelled", f"after {cancel_s} s")
        except habemus.HabemusError as reason:
            self.note("failed", str(reason))
            await self._kind.sleep(REST_S)
        else:
            self.note("granted", lease.token)
            await self._use(name, lease)
            self.note("release")
            with suppress(habemus.LockLost):
                lock.release(lease)

    async def _use(self, name: str, lease: Lease) -> None:
        for _ in range(self._draw.randint(*UPDATES)):
            try:
                lease.check()
            except habemus.LockLost as reason:
                self.note("lost", str(reason))
                return
            if not await self._update(name, lease):
                return

    async def _update(self, name: str, lease: Lease) -> bool:
        self.note("read")
        accepted, value = await self._ask("read", name, self._name, self._stay, lease.token)
        if accepted and not await self._work(lease):
            return False
        if accepted:
            self.note("write", value)
            accepted, _ = await self._ask("write", name, self._name, self._stay, lease.token, value)
        self.note("wrote" if accepted else "refused")
        return accepted

    async def _work(self, lease: Lease) -> bool:
        """Return whether the client still holds the lock after its work."""
        drawn = self._draw.random()
        if drawn >= ENDLESS_WORKS:
            times = LONG_WORK_S if drawn < LONG_WORKS else WORK_S
            await self._kind.sleep(self._draw.uniform(*times))
            return True
        await self._kind.sleep(self._draw.uniform(*ENDLESS_WORK_S))
        try:
            lease.check()
        except habemus.LockLost as reason:
            self.note("lost", str(reason))
            return False
        return True

    async def _ask(self, *line: object) -> tuple[bool, int]:
        answer = await self._kind.ask(json.dumps(line).encode() + b"\n")
        accepted, said = json.loads(answer)
        return accepted, said


if __name__ == "__main__":
    asyncio.run(TortureClient(json.loads(sys.argv[1])).run())

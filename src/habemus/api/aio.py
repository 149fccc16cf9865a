"""The asynchronous client.

    async with habemus.connect() as cluster:
        async with cluster.lock("printer", timeout=5) as lease:
            await print_with(lease.token)

Requests of all tasks go over one connection, which belongs to the event loop.  The signs of life go over another, which belongs to
a thread (`habemus.api.session`): a loop that is busy, or a task that blocks it, does not lose its locks by that.

If a lock is lost, the task that is inside is cancelled, and `async with` raises `LockLost` in its place.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Self, cast

from habemus import boottime
from habemus.api.cluster import GRACE_SECONDS, TRY_SECONDS, Request, Standing, checked_timeout, lost_inside, opened
from habemus.api.credentials import Credentials
from habemus.api.errors import LockLost, LockTimeout, ProtocolError, RefusedByNode, Unreachable
from habemus.api.lease import Lease
from habemus.api.protocol import LINE_LIMIT, Greeting, decode, encode
from habemus.api.session import Session, own_label
from habemus.api.wire import ANSWER_SECONDS, at_path, check_certificate, security
from habemus.runtimes.live.lines import CONNECT_SECONDS, ELECTIONS, LOCKS

Handler = Callable[[list[Any]], None]

LOOKS = 8
"""Turns of the event loop in which it surely reads what has arrived before them."""


class _Lines(asyncio.Protocol):
    """One connection; who waits for a line is known by the id in it."""

    def __init__(self) -> None:
        self.handlers: dict[int, Handler] = {}
        self.greetings: asyncio.Queue[list[Any]] = asyncio.Queue()
        self.unasked: Handler = self.greetings.put_nowait
        self.ended: Callable[[str], None] = lambda _: None
        self.is_over = False
        self.transport: asyncio.Transport
        self._rest = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._rest += data
        if b"\n" in data:
            *lines, last = bytes(self._rest).split(b"\n")
            self._rest = bytearray(last)
            for text in lines:
                self._hear(text)
        elif len(self._rest) > LINE_LIMIT:
            self._refuse(f"the node sends a line of more than {LINE_LIMIT:,} bytes")

    def _hear(self, text: bytes) -> None:
        if self.is_over:
            return
        try:
            line = decode(text, "the node")
        except ProtocolError as reason:
            self._refuse(str(reason))
            return
        handler = self.handlers.get(line[1]) if type(line[1]) is int and line[0] != "lost" else None
        (handler or self.unasked)(line)

    def _refuse(self, why: str) -> None:
        """The node does not speak as a node would: whoever waits for an answer is told so."""
        self.transport.abort()
        self._end("malformed", why)

    def say(self, line: list[Any]) -> None:
        if not self.is_over:
            self.transport.write(encode(line).encode() + b"\n")

    def connection_lost(self, exc: Exception | None) -> None:
        self._end("ended", f"the connection to the node has ended{f': {exc}' if exc else ''}")

    def _end(self, word: str, why: str) -> None:
        if self.is_over:
            return
        self.is_over = True
        self.ended(why)
        for id, handler in list(self.handlers.items()):
            handler([word, id, word, why])
        self.greetings.put_nowait([word, None, word, why])

    async def look(self) -> None:
        """Have the event loop read what has arrived already; returns at once if there is nothing."""
        arrival = select.poll()
        if not self.is_over:
            arrival.register(self.transport.get_extra_info("socket").fileno(), select.POLLIN)
        for _ in range(LOOKS):
            if self.is_over or not arrival.poll(0):
                return
            await asyncio.sleep(0)


class AsyncCluster:
    """A cluster, as one of its clients sees it; for the tasks of one event loop."""

    def __init__(self, named: str | None, credentials: Credentials, label: str | None = None) -> None:
        self._named = named
        self._credentials = credentials
        self._label = label
        self._session: Session | None = None
        self._lines: _Lines | None = None
        self._opening = asyncio.Lock()

    @property
    def label(self) -> str:
        """What others see of this client."""
        return self._label or own_label()

    async def __aenter__(self) -> Self:
        try:
            await self._connected()
        except BaseException:  # a cancellation, too; nobody will call `__aexit__`
            await self.close()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Releases everything."""
        if self._session is not None:
            self._session.close()
        if self._lines is not None:
            self._lines.transport.close()

    async def _connected(self) -> tuple[Session, _Lines]:
        session, lines = self._session, self._lines
        if session is not None and lines is not None and not session.over and not lines.is_over:
            return session, lines
        async with self._opening:
            if self._session is None or self._session.over:
                if self._lines is not None:
                    self._lines.transport.abort()  # what was acquired there has ended with its session
                    self._lines = None
                self._session = await _opened(self._named, self._credentials, self.label)
            if self._lines is None or self._lines.is_over:
                self._lines = await _joined(self._session)
            return self._session, self._lines

    # Locks.

    def lock(
        self,
        name: str,
        timeout: float | None = None,
        lease: float | None = None,
        *,
        reentrant: bool = False,
        on_lost: Callable[[Lease], None] | None = None,
        service: str = LOCKS,
    ) -> AsyncLock:
        """A lock, to be taken by `async with` or `await acquire()`; see `Cluster.lock`.  Re-entrant: by the same task."""
        return AsyncLock(self, Request(service, [name], lease), timeout, reentrant, on_lost)

    async def try_lock(
        self, name: str, lease: float | None = None, *, on_lost: Callable[[Lease], None] | None = None, service: str = LOCKS
    ) -> AsyncHeld | None:
        """The lock if it is free now, else None; to be used by `async with` or released."""
        try:
            return AsyncHeld(self, await self.acquire(Request(service, [name], lease), TRY_SECONDS, on_lost))
        except LockTimeout:
            return None

    def semaphore(
        self,
        name: str,
        size: int,
        timeout: float | None = None,
        lease: float | None = None,
        *,
        on_lost: Callable[[Lease], None] | None = None,
        service: str = LOCKS,
    ) -> AsyncLock:
        """One of so many places, each of which is a lock."""
        if size < 1:
            raise ValueError(f"a semaphore of {size} places; it has at least one")
        return AsyncLock(self, Request(service, [f"{name}/{place}" for place in range(1, size + 1)], lease), timeout, False, on_lost)

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
        """All of these, in the order of their names, so that two who want the same ones cannot wait for each other."""
        timeout = checked_timeout(timeout)
        deadline = None if timeout is None else boottime.seconds() + timeout
        async with AsyncExitStack() as stack:
            leases = []
            for name in sorted(set(names)):
                left = None if deadline is None else max(0.0, deadline - boottime.seconds())
                leases.append(await stack.enter_async_context(self.lock(name, left, lease, on_lost=on_lost, service=service)))
            yield leases

    def election(self, name: str, *, service: str = LOCKS) -> AsyncElection:
        return AsyncElection(self, name, service)

    async def acquire(self, request: Request, timeout: float | None, on_lost: Callable[[Lease], None] | None = None) -> Lease:
        """Waits until one of the locks is granted."""
        deadline = None if timeout is None else boottime.seconds() + timeout
        while True:
            session, lines = await self._connected()
            line = await self._asked(session, lines, request, timeout)
            if line[0] == "granted":
                lease = session.granted(request.service, line, None)
                if not lease.lost:
                    if on_lost is not None:
                        lease.on_lost(on_lost)
                    return lease
                lines.say(["release", lease.id])
            elif line[0] != "ended":
                raise request.refusal(line)
            if deadline is not None:
                timeout = deadline - boottime.seconds()
                if timeout <= 0:
                    raise LockTimeout(f"{request.shown} was not to be had in time")

    async def _asked(self, session: Session, lines: _Lines, request: Request, timeout: float | None) -> list[Any]:
        id = next(session.ids)
        answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        lines.handlers[id] = lambda line: None if answer.done() else answer.set_result(line)
        lines.transport.write(request.line(session, id, None if timeout is None else max(0, round(timeout * 1_000))))
        session.begin_waiting(id, request.lease_ms)
        try:
            async with asyncio.timeout(None if timeout is None else timeout + GRACE_SECONDS):
                return await answer
        except BaseException as reason:  # a cancellation, too: whatever it may have been granted, nobody wants it any more
            lines.transport.write(b'["release",%d]\n' % id)
            if isinstance(reason, TimeoutError):
                raise LockTimeout(f"{request.shown} was not to be had in time, and node {session.node} does not answer") from None
            raise
        finally:
            del lines.handlers[id]
            session.end_waiting(id)

    async def is_lost_now(self, lease: Lease) -> bool:
        """Look at the connection and the clock, and return whether the lock is lost."""
        if self._lines is not None and lease.session is self._session:
            await self._lines.look()
        return lease.is_lost_now()

    def release(self, lease: Lease, to: str | None = None) -> None:
        """At once: nobody waits for an answer."""
        if lease.end():
            lease.session.forget(lease)
            if self._lines is not None and lease.session is self._session:  # else its connection has ended, and that has released it
                self._lines.say(["release", lease.id] if to is None else ["transfer", lease.id, to])

    # Looking.

    async def watch(self, name: str, *, service: str = LOCKS) -> AsyncIterator[Standing]:
        """Who holds a lock, now and whenever that changes; for ever."""
        while True:
            session, lines = await self._connected()
            id = next(session.ids)
            heard: asyncio.Queue[list[Any]] = asyncio.Queue()
            lines.handlers[id] = heard.put_nowait
            lines.say(["watch", id, service, name])
            try:
                while (line := await heard.get())[0] != "ended":
                    if line[0] in ("refused", "malformed"):
                        raise RefusedByNode(line[3])
                    yield Standing.of(line[2])
            finally:
                lines.handlers.pop(id, None)
                lines.say(["unwatch", id])

    async def status(self) -> dict[str, Any]:
        """What goes on at the node that this client talks to."""
        session, lines = await self._connected()
        id = next(session.ids)
        answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        lines.handlers[id] = lambda line: None if answer.done() else answer.set_result(line)
        lines.say(["status", id])
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                line = await answer
        except TimeoutError:
            raise Unreachable(f"node {session.node} does not answer") from None
        finally:
            del lines.handlers[id]
        if line[0] != "status":
            raise Unreachable(line[3])
        told: dict[str, Any] = line[2]
        return told


async def _opened(named: str | None, credentials: Credentials, label: str) -> Session:
    """In a thread, which cannot be cancelled: if the task is, what comes of it is closed."""
    made: list[Session] = []
    is_wanted = True

    def open_there() -> Session:
        made.append(opened(named, credentials, label))
        if not is_wanted:
            made[0].close()
        return made[0]

    try:
        return await asyncio.to_thread(open_there)
    except asyncio.CancelledError:
        is_wanted = False
        for session in made:
            session.close()
        raise


async def _joined(session: Session) -> _Lines:
    """A connection of the event loop's own, of a session that there is already."""
    loop = asyncio.get_running_loop()
    place, credentials = session.place, session.credentials
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            if place.path:
                _, lines = await loop.create_unix_connection(_Lines, sock=at_path(place.path, CONNECT_SECONDS))
            else:
                context = security(credentials) if credentials.authority else None
                named = "" if context is not None else None  # compared with the certificate below
                _, lines = await loop.create_connection(_Lines, place.host, place.port, ssl=context, server_hostname=named)
    except (OSError, TimeoutError) as reason:
        session.close(f"node {session.node} has gone: {reason}")
        raise Unreachable(f"{place}: {reason}") from None
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await _greet(lines, session)
    except BaseException as reason:  # a cancellation, too
        lines.transport.abort()
        if isinstance(reason, TimeoutError):
            raise Unreachable(f"{place} does not answer") from None
        raise
    lines.unasked = session.hear
    lines.ended = session.close  # what was acquired on this connection has ended with it
    return lines


async def _greet(lines: _Lines, session: Session) -> None:
    credentials = session.credentials
    if credentials.authority and not session.place.path:
        certificate = lines.transport.get_extra_info("peercert") or {}
        check_certificate(session.place, certificate, f"node-{session.node}.{session.welcome['cluster']}")
    greeting = Greeting(session.place, credentials, session.label, session.key)
    said: list[Any] | None = greeting.hello
    while said is not None:
        lines.say(said)
        line = await lines.greetings.get()
        if lines.is_over:
            raise Unreachable(f"{session.place}: {line[3]}")
        said = greeting.answer(line)


class AsyncHeld:
    """A lease to be used by `async with`; released once, at the end.  The task inside is cancelled if the lock is lost."""

    def __init__(self, cluster: AsyncCluster, lease: Lease) -> None:
        self.lease = lease
        self._cluster = cluster
        self._task: asyncio.Task[Any] | None = None
        self._has_cancelled = False

    async def __aenter__(self) -> Lease:
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self.lease.on_lost(lambda _: self._tell(loop))
        return self.lease

    def _tell(self, loop: asyncio.AbstractEventLoop) -> None:
        with suppress(RuntimeError):  # the loop may have closed
            loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._has_cancelled = True
            self._task.cancel()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        task, self._task = self._task, None
        try:
            was_lost = await self._cluster.is_lost_now(self.lease)
        finally:
            self.release()
            if self._has_cancelled and task is not None:
                task.uncancel()
        if was_lost and (kind is None or (self._has_cancelled and issubclass(kind, asyncio.CancelledError))):
            raise lost_inside(self.lease) from error

    def release(self) -> None:
        self._cluster.release(self.lease)


class AsyncLock:
    """A wish, which can be granted many times; each `acquire` is one, and gives a lease of its own."""

    def __init__(
        self,
        cluster: AsyncCluster,
        request: Request,
        timeout: float | None,
        reentrant: bool,
        on_lost: Callable[[Lease], None] | None,
    ) -> None:
        self._cluster = cluster
        self._request = request
        self._timeout = checked_timeout(timeout)
        self._reentrant = reentrant
        self._on_lost = on_lost
        self._entered: dict[asyncio.Task[Any] | None, list[AsyncHeld]] = {}  # by task: in a semaphore several are inside

    async def acquire(self) -> Lease:
        """Waits for the lock.  `release` it, or use `async with`."""
        return await self._cluster.acquire(self._request, self._timeout, self._on_lost)

    def release(self, lease: Lease) -> None:
        self._cluster.release(lease)

    async def __aenter__(self) -> Lease:
        me = asyncio.current_task()
        mine = self._entered.get(me)
        if self._reentrant and mine and mine[-1].lease.held:
            mine.append(mine[-1])
            return mine[-1].lease
        held = AsyncHeld(self._cluster, await self.acquire())
        self._entered.setdefault(me, []).append(held)
        return await held.__aenter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        me = asyncio.current_task()
        mine = self._entered[me]
        held = mine.pop()
        if not mine:
            del self._entered[me]
        if held not in mine:
            await held.__aexit__(kind, error, trace)


class AsyncElection:
    """Who leads; see `Election`."""

    def __init__(self, cluster: AsyncCluster, name: str, service: str) -> None:
        self.name = name
        self._cluster = cluster
        self._service = service
        self._lease: Lease | None = None

    @asynccontextmanager
    async def lead(
        self, timeout: float | None = None, lease: float | None = None, *, on_lost: Callable[[Lease], None] | None = None
    ) -> AsyncIterator[Lease]:
        """Waits until nobody else leads; the term of office ends with the `async with`, or before, by `resign` or `transfer`."""
        lock = self._cluster.lock(ELECTIONS + self.name, timeout, lease, on_lost=on_lost, service=self._service)
        async with lock as term:
            self._lease = term
            try:
                yield term
            finally:
                if self._lease is term:
                    self._lease = None

    async def resign(self) -> None:
        """Ends the term that was begun here."""
        lease, self._lease = self._lease, None
        if lease is not None:
            self._cluster.release(lease)

    async def transfer(self, to: str) -> None:
        """Resigns in favour of the client with this label, for whom the others stand back for a moment; if it waits, it leads next."""
        lease, self._lease = self._lease, None
        if lease is None:
            raise LockLost(f"this client does not lead {self.name}")
        self._cluster.release(lease, to)

    async def leader(self) -> Standing | None:
        """Who leads now, as far as the node knows; None if nobody does."""
        async for standing in self.observe():
            return standing if standing.holder is not None else None
        return None

    def observe(self) -> AsyncIterator[Standing]:
        """Who leads, now and whenever that changes; for ever."""
        return self._cluster.watch(ELECTIONS + self.name, service=self._service)

"""The asynchronous client.

    async with habemus.connect() as cluster:
        async with cluster.lock("printer", timeout=5) as lease:
            await print_with(lease.token)

Requests of all tasks go over one connection, which belongs to the event loop.  The signs of life go
over another, which belongs to a thread (`habemus.client.session`): a loop that is busy, or a task
that blocks it, does not lose its locks by that.

If a lock is lost, the task that is inside is cancelled, and `async with` raises `LockLost` in its
place.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Self, cast

from habemus import boottime
from habemus.client.address import NodeAddress
from habemus.client.attempts import TRY_SECONDS, Attempts
from habemus.client.blocking import (
    GRACE_SECONDS,
    AcquireRequest,
    LeftNodes,
    LockState,
    checked_timeout,
    lost_inside,
    opened,
)
from habemus.client.connection import (
    ANSWER_SECONDS,
    ConnectionClosed,
    at_path,
    check_certificate,
    security,
)
from habemus.client.credentials import Credentials
from habemus.client.errors import (
    LockLost,
    LockTimeout,
    NodeTimeout,
    ProtocolError,
    RefusedByNode,
    Unreachable,
)
from habemus.client.lease import Lease
from habemus.client.protocol import LINE_LIMIT, Greeting, decode, encode
from habemus.client.session import NodeSession, own_label
from habemus.runtimes.live.clients.protocol import (
    CONNECT_SECONDS,
    ELECTIONS,
    LOCKS,
    lock_name,
    semaphore_names,
)

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
        self.end_requests(word, why)
        self.greetings.put_nowait([word, None, word, why])

    def end_requests(self, word: str, why: str) -> None:
        for id, handler in list(self.handlers.items()):
            handler([word, id, word, why])

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

    def __init__(
        self, named: str | None, credentials: Credentials, label: str | None = None
    ) -> None:
        self._named = named
        self._credentials = credentials
        self._label = label
        self._session: NodeSession | None = None
        self._lines: dict[
            NodeSession, _Lines
        ] = {}  # of the session, and of those that were left but still have leases
        self._left = LeftNodes()
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

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Releases everything."""
        if self._session is not None:
            self._session.close()
        self._left.close()
        for lines in self._lines.values():
            lines.transport.close()

    async def _connected(self, within: float | None = None) -> tuple[NodeSession, _Lines]:
        """With a node that answers; another one if the one before has gone or was left."""
        session = self._session
        lines = None if session is None else self._lines.get(session)
        if session is not None and lines is not None and session.is_open and not lines.is_over:
            return session, lines
        async with self._opening:
            if self._session is None or not self._session.is_open:
                if self._session is not None:
                    self._left.add(self._session)
                self._close_ended()
                self._session = await _opened(
                    self._named, self._credentials, self.label, self._left.addresses, within
                )
                self._left.is_known = True
            lines = self._lines.get(self._session)
            if lines is None or lines.is_over:
                lines = self._lines[self._session] = await _joined(self._session)
            return self._session, lines

    def _close_ended(self) -> None:
        """Close the connections of sessions that are over; what was acquired there has ended with
        them.
        """
        for session in [each for each in self._lines if each.over]:
            self._lines.pop(session).transport.abort()

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
        """A lock, to be taken by `async with` or `await acquire()`; see `Cluster.lock`.
        Re-entrant: by the same task.
        """
        return AsyncLock(
            self, AcquireRequest(service, [lock_name(name)], lease), timeout, reentrant, on_lost
        )

    async def try_lock(
        self,
        name: str,
        lease: float | None = None,
        *,
        on_lost: Callable[[Lease], None] | None = None,
        service: str = LOCKS,
    ) -> AsyncHeldLock | None:
        """The lock if it is free now, else None; to be used by `async with` or released."""
        try:
            return AsyncHeldLock(
                self,
                await self._acquire(
                    AcquireRequest(service, [lock_name(name)], lease), TRY_SECONDS, on_lost
                ),
            )
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
        """One of so many places, each of which is a lock.

        The size belongs to the name: clients that give another size use another semaphore.
        """
        return AsyncLock(
            self,
            AcquireRequest(service, semaphore_names(name, size), lease),
            timeout,
            False,
            on_lost,
        )

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
        """All of these, in the order of their names, so that two who want the same ones cannot wait
        for each other.
        """
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
        return AsyncLeaderElection(self, name, service)

    async def _acquire(
        self,
        request: AcquireRequest,
        timeout: float | None,
        on_lost: Callable[[Lease], None] | None = None,
    ) -> Lease:
        """Wait until one of the locks is granted; move on if a node ends, hangs or has no majority."""
        attempts = Attempts(timeout)
        while True:
            try:
                async with asyncio.timeout(attempts.left()):
                    session, lines = await self._connected(attempts.left())
            except Unreachable as reason:
                attempts.failed(reason, is_known=self._left.is_known)
            except TimeoutError:
                attempts.failed(NodeTimeout("no node has answered in time"))
            else:
                line = await self._asked(session, lines, request, attempts)
                if line[0] == "granted":
                    lease = session.granted(request.service, line, None)
                    if not lease.lost:
                        if on_lost is not None:
                            lease.on_lost(on_lost)
                        return lease
                    lines.say(["release", lease._id])
                elif line[0] != "ended":
                    request.take_refusal(session, attempts, line)
            await asyncio.sleep(attempts.pause(request.shown))

    async def _asked(
        self, session: NodeSession, lines: _Lines, request: AcquireRequest, attempts: Attempts
    ) -> list[Any]:
        id, left = next(session.ids), attempts.left()
        answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        lines.handlers[id] = lambda line: None if answer.done() else answer.set_result(line)
        line = ["ended", id, "ended", ""]
        try:
            lines.transport.write(
                request.line(session, id, None if left is None else round(left * 1_000))
            )
            session.begin_waiting(id, request.lease_ms)
            async with asyncio.timeout(None if left is None else left + GRACE_SECONDS):
                line = await answer
        except ConnectionClosed:
            pass  # the session was left or has ended in between
        except TimeoutError:
            why = f"node {session.node} does not answer"
            attempts.failed(why)
            session.leave(why)
            raise attempts.timed_out(request.shown) from None
        finally:
            if (
                line[0] == "ended"
                # after a cancellation, too: whatever it may have been granted, nobody wants it any more
            ):
                lines.say(["release", id])
            del lines.handlers[id]
            session.end_waiting(id)
        return line

    async def _is_lost_now(self, lease: Lease) -> bool:
        """Look at the connection and the clock, and return whether the lock is lost."""
        lines = self._lines.get(lease._session)
        if lines is not None:
            await lines.look()
        return lease._is_lost_now()

    def _release(self, lease: Lease, to: str | None = None) -> None:
        """At once: nobody waits for an answer."""
        if lease._end():
            lease._session.forget(lease)
            lines = self._lines.get(lease._session)
            if lines is not None:  # else its connection has ended, and that has released it
                lines.say(["release", lease._id] if to is None else ["transfer", lease._id, to])

    # Looking.

    async def watch(self, name: str, *, service: str = LOCKS) -> AsyncIterator[LockState]:
        """Who holds a lock, now and whenever that changes; for ever."""
        attempts = Attempts(None)
        while True:
            try:
                session, lines = await self._connected()
            except Unreachable as reason:
                attempts.failed(reason, is_known=self._left.is_known)
                await asyncio.sleep(attempts.pause(name))
                continue
            id = next(session.ids)
            heard: asyncio.Queue[list[Any]] = asyncio.Queue()
            lines.handlers[id] = heard.put_nowait
            lines.say(["watch", id, service, name])
            try:
                session.begin_waiting(id, None)  # so that a node that hangs is left
                while (line := await heard.get())[0] != "ended":
                    if line[0] in ("refused", "malformed"):
                        raise RefusedByNode(line[3])
                    attempts = Attempts(None)
                    yield LockState.of(line[2])
            except ConnectionClosed:
                pass  # the session was left or has ended in between
            finally:
                session.end_waiting(id)
                lines.handlers.pop(id, None)
                lines.say(["unwatch", id])
            await asyncio.sleep(attempts.pause(name))

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


async def _opened(
    named: str | None,
    credentials: Credentials,
    label: str,
    left: Mapping[NodeAddress, float] | None = None,
    within: float | None = None,
) -> NodeSession:
    """In a thread, which cannot be cancelled: if the task is, what comes of it is closed."""
    made: list[NodeSession] = []
    is_wanted = True

    def open_there() -> NodeSession:
        made.append(opened(named, credentials, label, dict(left or {}), within))
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


async def _joined(session: NodeSession) -> _Lines:
    """A connection of the event loop's own, of a session that there is already."""
    loop = asyncio.get_running_loop()
    place, credentials = session.place, session.credentials
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            if place.path:
                _, lines = await loop.create_unix_connection(
                    _Lines, sock=at_path(place.path, CONNECT_SECONDS)
                )
            else:
                context = security(credentials) if credentials.authority else None
                named = "" if context is not None else None  # compared with the certificate below
                _, lines = await loop.create_connection(
                    _Lines, place.host, place.port, ssl=context, server_hostname=named
                )
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
    session.left = lambda: _tell_left(loop, lines, session)
    lines.ended = session.close  # what was acquired on this connection has ended with it
    return lines


def _tell_left(loop: asyncio.AbstractEventLoop, lines: _Lines, session: NodeSession) -> None:
    """The session is left: have its requests made elsewhere.  Called by any thread."""
    with suppress(RuntimeError):  # the loop may have closed
        loop.call_soon_threadsafe(lines.end_requests, "ended", session.leaving)


async def _greet(lines: _Lines, session: NodeSession) -> None:
    credentials = session.credentials
    if credentials.authority and not session.place.path:
        certificate = lines.transport.get_extra_info("peercert") or {}
        check_certificate(
            session.place, certificate, f"node-{session.node}.{session.welcome['cluster']}"
        )
    greeting = Greeting(session.place, credentials, session.label, session.key)
    said: list[Any] | None = greeting.hello
    while said is not None:
        lines.say(said)
        line = await lines.greetings.get()
        if lines.is_over:
            raise Unreachable(f"{session.place}: {line[3]}")
        said = greeting.answer(line)


class AsyncHeldLock:
    """A lease to be used by `async with`; released once, at the end.  The task inside is cancelled
    if the lock is lost.
    """

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

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        task, self._task = self._task, None
        try:
            was_lost = await self._cluster._is_lost_now(self.lease)
        finally:
            self.release()
            if self._has_cancelled and task is not None:
                task.uncancel()
        if was_lost and (
            kind is None or (self._has_cancelled and issubclass(kind, asyncio.CancelledError))
        ):
            raise lost_inside(self.lease) from error

    def release(self) -> None:
        self._cluster._release(self.lease)


class AsyncLock:
    """A request, which can be granted many times; each `acquire` is one, and gives a lease of its own."""

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
        self._entered: dict[
            asyncio.Task[Any] | None, list[AsyncHeldLock]
        ] = {}  # by task: in a semaphore several are inside

    async def acquire(self) -> Lease:
        """Waits for the lock.  `release` it, or use `async with`."""
        return await self._cluster._acquire(self._request, self._timeout, self._on_lost)

    def release(self, lease: Lease) -> None:
        self._cluster._release(lease)

    async def __aenter__(self) -> Lease:
        me = asyncio.current_task()
        mine = self._entered.get(me)
        if self._reentrant and mine and mine[-1].lease.held:
            mine.append(mine[-1])
            return mine[-1].lease
        held = AsyncHeldLock(self._cluster, await self.acquire())
        self._entered.setdefault(me, []).append(held)
        return await held.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        me = asyncio.current_task()
        mine = self._entered[me]
        held = mine.pop()
        if not mine:
            del self._entered[me]
        if held not in mine:
            await held.__aexit__(kind, error, trace)


class AsyncLeaderElection:
    """Who leads; see `LeaderElection`."""

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
        """Waits until nobody else leads; the term of office ends with the `async with`, or before,
        by `resign` or `transfer`.
        """
        request = AcquireRequest(self._service, [ELECTIONS + self.name], lease)
        lock = AsyncLock(self._cluster, request, checked_timeout(timeout), False, on_lost)
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
            self._cluster._release(lease)

    async def transfer(self, to: str) -> None:
        """Resigns in favour of the client with this label, for whom the others stand back for a
        moment; if it waits, it leads next.
        """
        lease, self._lease = self._lease, None
        if lease is None:
            raise LockLost(f"this client does not lead {self.name}")
        self._cluster._release(lease, to)

    async def leader(self) -> LockState | None:
        """Who leads now, as far as the node knows; None if nobody does."""
        async for standing in self.observe():
            return standing if standing.holder is not None else None
        return None

    def observe(self) -> AsyncIterator[LockState]:
        """Who leads, now and whenever that changes; for ever."""
        return self._cluster.watch(ELECTIONS + self.name, service=self._service)

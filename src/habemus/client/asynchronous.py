"""The asynchronous client.

    async with habemus.connect() as cluster:
        async with cluster.lock("printer", timeout=5) as lease:
            await print_with(lease.token)

Requests of all tasks share one connection, which belongs to the event loop.  Heartbeats go over
another, which belongs to a thread (`habemus.client.session`): a busy loop, or a task that blocks
it, does not lose its locks.

If a lock is lost, the task inside is cancelled, and `async with` raises `LockLost` in its place.
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
    HOLDER_SECONDS,
    LeftNodes,
    LockState,
    checked_lease,
    checked_timeout,
    lock_request,
    lost_inside,
    no_waiters_shown,
    opened,
    semaphore_request,
    shows_waiters,
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
from habemus.client.lease import KeptLease, Lease, ReentrantLeases
from habemus.client.protocol import (
    AcquireRequest,
    Greeting,
    LeadRequest,
    LineBuffer,
    decode,
    encode_line,
)
from habemus.client.session import NodeSession, own_label
from habemus.runtimes.live.clients.protocol import (
    CONNECT_SECONDS,
    ELECTIONS,
    LOCKS,
)

Handler = Callable[[list[Any]], None]

LOOKS = 8
"""Turns of the event loop in which it reads all that has arrived before them."""
CLOSING_SECONDS = 1.0
"""How long a connection may take to close in good order.  Over TLS that takes an answer of the
node.
"""


class _Lines(asyncio.Protocol):
    """A connection of the event loop; lines go to the handlers of their ids."""

    def __init__(self) -> None:
        self.handlers: dict[int, Handler] = {}
        self.greetings: asyncio.Queue[list[Any]] = asyncio.Queue()
        self.unasked: Handler = self.greetings.put_nowait
        self.ended: Callable[[str], None] = lambda _: None
        self.is_over = False
        self._is_closed = asyncio.Event()
        self.transport: asyncio.Transport
        self._lines = LineBuffer("the node")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._lines.feed(data)
        try:
            while not self.is_over and (line := self._lines.next_line()) is not None:
                self._hear(decode(line, "the node"))
        except ProtocolError as reason:
            self.refuse(str(reason))

    def _hear(self, line: list[Any]) -> None:
        handler = self.handlers.get(line[1]) if type(line[1]) is int and line[0] != "lost" else None
        (handler or self.unasked)(line)

    def refuse(self, why: str) -> None:
        """End the connection to a node that breaks the protocol, and all requests with it."""
        self.transport.abort()
        self._end("malformed", why)

    def say(self, *line: object) -> None:
        """Send a line."""
        self.send(encode_line(*line))

    def send(self, line: bytes) -> None:
        """Send a line that is encoded already."""
        if not self.is_over:
            self.transport.write(line)

    async def ask(self, id: int, line: bytes, within: float) -> list[Any]:
        """Send a line and return its answer; `TimeoutError` if none arrives in time."""
        answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self.handlers[id] = lambda line: None if answer.done() else answer.set_result(line)
        try:
            self.send(line)
            async with asyncio.timeout(within):
                return await answer
        finally:
            del self.handlers[id]

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closed.set()
        self._end("ended", f"the connection to the node ended{f': {exc}' if exc else ''}")

    async def close(self) -> None:
        """Close the connection.  Return when its socket is closed, so that the loop may end."""
        if not self.is_over:
            self.transport.close()
        with suppress(TimeoutError):  # of a node that hangs
            async with asyncio.timeout(CLOSING_SECONDS):
                await self._is_closed.wait()
        self.abort()
        await self._is_closed.wait()

    def abort(self) -> None:
        """Close the socket in the next turn of the event loop."""
        if not self.is_over:
            self.transport.abort()

    def _end(self, word: str, why: str) -> None:
        if self.is_over:
            return
        self.is_over = True
        self.ended(why)
        self.end_requests(word, why)
        self.greetings.put_nowait([word, None, word, why])

    def end_requests(self, word: str, why: str) -> None:
        """Answer all requests with a line that no node sends."""
        for id, handler in list(self.handlers.items()):
            handler([word, id, word, why])

    async def look(self) -> None:
        """Have the event loop read what has arrived already."""
        arrival = select.poll()
        if not self.is_over:
            arrival.register(self.transport.get_extra_info("socket").fileno(), select.POLLIN)
        for _ in range(LOOKS):
            if self.is_over or not arrival.poll(0):
                return
            await asyncio.sleep(0)


class AsyncCluster:
    """A client of a cluster, for the tasks of one event loop.  See `Cluster`."""

    def __init__(
        self, named: str | None, credentials: Credentials, label: str | None = None
    ) -> None:
        self._named = named
        self._credentials = credentials
        self._label = label
        self._session: NodeSession | None = None
        # Of the session, and of sessions that were left but still have leases.
        self._lines: dict[NodeSession, _Lines] = {}
        self._left = LeftNodes()
        self._opening = asyncio.Lock()
        self._reentrant = ReentrantLeases()

    @property
    def label(self) -> str:
        """The name of this client that others see."""
        return self._label or own_label()

    async def __aenter__(self) -> Self:
        try:
            await self._connected()
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
        if self._session is not None:
            self._session.close()
        self._left.close()
        closing = list(self._lines.values())
        self._lines.clear()  # a second call does not close them again
        try:
            await asyncio.gather(*(lines.close() for lines in closing))
        finally:  # after a cancellation, too
            for lines in closing:
                lines.abort()

    async def _connected(self, within: float | None = None) -> tuple[NodeSession, _Lines]:
        """Return a session with a node that answers, a new one if the last one has ended."""
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
        """Close the connections of sessions that are over; their leases have ended with them."""
        for session in [each for each in self._lines if each.over]:
            self._lines.pop(session).abort()

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
                self, await self._acquire(request, TRY_SECONDS, on_lost, names_holder=False)
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
        """Wait until one of the locks is granted; ask another node if one ends or hangs."""
        attempts = Attempts(timeout, request, names_holder=names_holder)
        while True:
            try:
                async with asyncio.timeout(attempts.left()):
                    session, lines = await self._connected(attempts.left())
            except Unreachable as reason:
                attempts.failed(reason, is_known=self._left.is_known)
            except TimeoutError:
                attempts.failed(NodeTimeout("no node answered in time"))
            else:
                lease = await self._acquire_at(session, lines, request, attempts)
                if lease is not None:
                    if on_lost is not None:
                        lease.on_lost(on_lost)
                    return lease
            await asyncio.sleep(attempts.pause())

    async def _acquire_at(
        self, session: NodeSession, lines: _Lines, request: AcquireRequest, attempts: Attempts
    ) -> Lease | None:
        """Ask one node; return None if another node has to be asked."""
        id, line = await self._answer(session, lines, request, attempts)
        if line[0] == "ended":
            return None
        if line[0] == "malformed":
            raise RefusedByNode(line[3])
        try:
            answer = session.receive_answer(line)
        except ProtocolError as reason:
            lines.refuse(str(reason))
            raise
        if isinstance(answer, Lease):
            if not answer.lost:
                return answer
            lines.say("release", id)
        elif answer.word == "timeout":
            asks = attempts.names_holder
            news = await self._ask_holder(session, lines, request) if asks else None
            raise attempts.timed_out(news)
        else:
            attempts.refused(answer.word, answer.why)
            session.leave(answer.why)
        return None

    @staticmethod
    async def _ask_holder(
        session: NodeSession, lines: _Lines, request: AcquireRequest
    ) -> list[Any] | None:
        """Return the news of the lock; None if there are none soon."""
        id = session.protocol.next_id()
        watch = request.watch_line(id)
        if watch is None:
            return None
        try:
            return await lines.ask(id, watch, HOLDER_SECONDS)
        except TimeoutError:
            return None
        finally:
            lines.say("unwatch", id)

    async def _answer(
        self, session: NodeSession, lines: _Lines, request: AcquireRequest, attempts: Attempts
    ) -> tuple[int, list[Any]]:
        """Send a request and wait for its answer; `ended` if there will be none."""
        left = attempts.left()
        id, sent = session.request(request, left)
        answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        lines.handlers[id] = lambda line: None if answer.done() else answer.set_result(line)
        line = ["ended", id, "ended", ""]
        try:
            lines.send(sent)
            session.begin_waiting(id)
            async with asyncio.timeout(None if left is None else left + GRACE_SECONDS):
                line = await answer
        except ConnectionClosed:
            pass  # the session was left or has ended in between
        except TimeoutError:
            why = f"node {session.node} does not answer"
            attempts.failed(why)
            session.leave(why)
            raise attempts.timed_out() from None
        finally:
            if line[0] == "ended":  # after a cancellation, too: the lock may have been granted
                lines.say("release", id)
                session.protocol.forget(id)
            del lines.handlers[id]
            session.end_waiting(id)
        return id, line

    async def _is_lost_now(self, lease: Lease) -> bool:
        """Look at the connection and the clock, and return whether the lock is lost."""
        lines = self._lines.get(lease._session)
        if lines is not None:
            await lines.look()
        return lease._is_lost_now()

    def _release(self, lease: Lease, to: str | None = None) -> None:
        """Release the lock.  There is no answer to wait for."""
        if lease._end():
            lease._session.forget(lease)
            lines = self._lines.get(lease._session)
            if lines is not None:  # else its connection has ended, which releases as well
                lines.say(*(("release", lease._id) if to is None else ("transfer", lease._id, to)))

    # Looking.

    async def watch(self, name: str, *, service: str = LOCKS) -> AsyncIterator[LockState]:
        """Yield the holder of a lock, now and after each change, for ever."""
        attempts = Attempts(None)
        while True:
            try:
                session, lines = await self._connected()
            except Unreachable as reason:
                attempts.failed(reason, is_known=self._left.is_known)
                await asyncio.sleep(attempts.pause())
                continue
            id = session.protocol.next_id()
            heard: asyncio.Queue[list[Any]] = asyncio.Queue()
            lines.handlers[id] = heard.put_nowait
            lines.say("watch", id, service, name)
            try:
                session.begin_waiting(id)  # so that a node that hangs is left
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
                lines.say("unwatch", id)
            await asyncio.sleep(attempts.pause())

    async def status(self) -> dict[str, Any]:
        """Return the status of the node that this client is connected to."""
        return await self._ask("status")

    async def force(self, name: str, *, service: str = LOCKS) -> dict[str, Any]:
        """Take a lock away from its holder at this node; for operators."""
        return await self._ask("force", service, name)

    async def _ask(self, word: str, *rest: str) -> dict[str, Any]:
        session, lines = await self._connected()
        id = session.protocol.next_id()
        try:
            line = await lines.ask(id, encode_line(word, id, *rest), ANSWER_SECONDS)
        except TimeoutError:
            raise Unreachable(f"node {session.node} does not answer") from None
        if line[0] == "refused":
            raise RefusedByNode(line[3])
        if line[0] in ("ended", "malformed"):
            raise Unreachable(line[3])
        found: dict[str, Any] = line[2]
        return found


async def _opened(
    named: str | None,
    credentials: Credentials,
    label: str,
    left: Mapping[NodeAddress, float] | None = None,
    within: float | None = None,
) -> NodeSession:
    """Open a session in a thread.  A cancelled task closes it, since the thread goes on."""
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
    """Connect the event loop to a session that is open already."""
    loop = asyncio.get_running_loop()
    address, credentials = session.address, session.credentials
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            if address.path:
                _, lines = await loop.create_unix_connection(
                    _Lines, sock=at_path(address.path, CONNECT_SECONDS)
                )
            else:
                context = security(credentials) if credentials.authority else None
                named = "" if context is not None else None  # compared with the certificate below
                _, lines = await loop.create_connection(
                    _Lines, address.host, address.port, ssl=context, server_hostname=named
                )
    except (OSError, TimeoutError) as reason:
        session.close(f"lost the connection to node {session.node}: {reason}")
        raise Unreachable(f"{address}: {reason}") from None
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await _greet(lines, session)
    except BaseException as reason:  # a cancellation, too
        lines.abort()
        if isinstance(reason, TimeoutError):
            raise Unreachable(f"{address} does not answer") from None
        raise
    lines.unasked = session.receive_news
    session.left = lambda: _tell_left(loop, lines, session)
    lines.ended = session.close  # what was acquired on this connection has ended with it
    return lines


def _tell_left(loop: asyncio.AbstractEventLoop, lines: _Lines, session: NodeSession) -> None:
    """End the requests of a session that is left, so that other nodes are asked.  Any thread may
    call it.
    """
    with suppress(RuntimeError):  # the loop may have closed
        loop.call_soon_threadsafe(lines.end_requests, "ended", session.leaving)


async def _greet(lines: _Lines, session: NodeSession) -> None:
    credentials = session.credentials
    if credentials.authority and not session.address.path:
        certificate = lines.transport.get_extra_info("peercert") or {}
        check_certificate(
            session.address, certificate, f"node-{session.node}.{session.welcome['cluster']}"
        )
    greeting = Greeting(
        session.address,
        session.label,
        session.key,
        credentials.secret,
        is_local=bool(session.address.path),
    )
    sent: bytes | None = greeting.hello
    while sent is not None:
        lines.send(sent)
        line = await lines.greetings.get()
        if lines.is_over:
            raise Unreachable(f"{session.address}: {line[3]}")
        sent = greeting.answer(line)


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

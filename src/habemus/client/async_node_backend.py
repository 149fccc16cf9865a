"""Locks of the nodes of a cluster, for the asynchronous client.

Requests of all tasks share one connection, which belongs to the event loop.  Heartbeats go over
another, which belongs to a thread (`habemus.client.session`): a busy loop, or a task that blocks
it, does not lose its locks.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from typing import Any, cast

from habemus.client.address import NodeAddress, cluster_address
from habemus.client.attempts import Attempts
from habemus.client.backend import LockState
from habemus.client.connection import (
    ANSWER_SECONDS,
    ConnectionClosed,
    at_path,
    check_certificate,
    security,
)
from habemus.client.credentials import Credentials
from habemus.client.errors import (
    NodeTimeout,
    ProtocolError,
    RefusedByNode,
    Unreachable,
)
from habemus.client.lease import Lease
from habemus.client.node_backend import (
    LeftNodes,
    force_at,
    opened,
)
from habemus.client.protocol import (
    CLOSED,
    GRACE_US,
    HOLDER_US,
    AcquireRequest,
    Greeting,
    LineBuffer,
    decode,
    encode_line,
    release_line,
)
from habemus.client.session import NodeSession, own_label
from habemus.runtimes.live.clients.protocol import CONNECT_SECONDS

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


class AsyncNodeBackend:
    """The nodes of a cluster, as the asynchronous client sees them."""

    def __init__(self, named: str | None, credentials: Credentials, label: str | None) -> None:
        self._named = named
        self._credentials = credentials
        self._label = label
        self._session: NodeSession | None = None
        # Of the session, and of sessions that were left but still have leases.
        self._lines: dict[NodeSession, _Lines] = {}
        self._left = LeftNodes(named, credentials)
        self._opening = asyncio.Lock()
        self._closings = 0  # a request ends with the next one; later requests connect again

    async def connect(self) -> None:
        """Connect to a node, unless none answers; see `NodeBackend.connect`."""
        cluster_address(self._named)
        with suppress(Unreachable):
            await self.connected(CONNECT_SECONDS)

    async def close(self) -> None:
        """Release all locks, end all requests and close all connections."""
        self._closings += 1
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

    async def connected(self, within: float | None = None) -> tuple[NodeSession, _Lines]:
        """Return a session with a node that answers, a new one if the last one has ended."""
        session = self._session
        lines = None if session is None else self._lines.get(session)
        if session is not None and lines is not None and session.is_open and not lines.is_over:
            return session, lines
        closings = self._closings
        async with self._opening:
            before = self._session
            try:
                return await self._joined_session(closings, within)
            except Unreachable:
                if self._session is before or self._session is None or self._session.is_open:
                    raise
                return await self._joined_session(closings, within)  # its node has ended just now

    async def _joined_session(
        self, closings: int, within: float | None
    ) -> tuple[NodeSession, _Lines]:
        self._check_open(closings)
        if self._session is None or not self._session.is_open:
            if self._session is not None:
                self._left.add(self._session)
            self._close_ended()
            self._session = session = await _opened(
                self._named,
                self._credentials,
                self._label or own_label(),
                self._left.addresses,
                within,
                self._left.told,
            )
            self._left.is_known = True
            session.successor = self._left.successor
            if closings != self._closings:
                session.close()
            self._check_open(closings)
        lines = self._lines.get(self._session)
        if lines is None or lines.is_over:
            lines = self._lines[self._session] = await _joined(self._session)
            if closings != self._closings:
                self._lines.pop(self._session).abort()
            self._check_open(closings)
        return self._session, lines

    def _check_open(self, closings: int) -> None:
        """Raise `Unreachable` if the client was closed since it had been closed so often."""
        if self._closings != closings:
            raise Unreachable(CLOSED)

    def _close_ended(self) -> None:
        """Close the connections of sessions that are over; their leases have ended with them."""
        for session in [each for each in self._lines if each.over]:
            self._lines.pop(session).abort()

    async def acquire(
        self,
        request: AcquireRequest,
        timeout: float | None,
        *,
        names_holder: bool = True,
    ) -> Lease:
        """Wait until one of the locks is granted; ask another node if one ends or hangs."""
        attempts = Attempts(timeout, request, names_holder)
        closings = self._closings
        while True:
            self._check_open(closings)
            try:
                async with asyncio.timeout(attempts.left()):
                    session, lines = await self.connected(attempts.left())
            except Unreachable as reason:
                attempts.failed(reason, is_known=self._left.is_known)
            except TimeoutError:
                attempts.failed(NodeTimeout("no node answered in time"))
            else:
                lease = await self._acquire_at(session, lines, request, attempts)
                if lease is not None:
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
            lines.send(release_line(id))
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
            return await lines.ask(id, watch, HOLDER_US / 1_000_000)
        except TimeoutError:
            return None
        finally:
            lines.say("unwatch", id)

    async def _answer(
        self, session: NodeSession, lines: _Lines, request: AcquireRequest, attempts: Attempts
    ) -> tuple[int, list[Any]]:
        """Send a request and wait for its answer; `ended` if there will be none."""
        left = attempts.left()
        id, sent = session.request(request, attempts.asked())
        answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        lines.handlers[id] = lambda line: None if answer.done() else answer.set_result(line)
        line = ["ended", id, "ended", ""]
        try:
            lines.send(sent)
            session.begin_waiting(id)
            async with asyncio.timeout(None if left is None else left + GRACE_US / 1_000_000):
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
                lines.send(release_line(id))
                session.protocol.forget(id)
            del lines.handlers[id]
            if line[0] != "granted":  # else when it is held
                session.end_waiting(id)
        return id, line

    async def is_lost_now(self, lease: Lease) -> bool:
        """Look at the connection and the clock, and return whether the lock is lost."""
        lines = self._lines_of(lease)
        if lines is not None:
            await lines.look()
        return lease._is_lost_now()

    def release(self, lease: Lease, to: str | None = None) -> None:
        """Release the lock.  There is no answer to wait for."""
        if not lease._end():
            return
        session = lease._session  # read after its end: see `NodeSession.send_release`
        assert isinstance(session, NodeSession)
        lines = self._lines.get(session)
        if lines is None or lines.is_over:
            # it was taken there from another node, on a connection of its own, or was cut off
            session.send_release(lease, to)
        elif (line := session.protocol.end(lease._state, to)) is not None:
            lines.send(line)

    async def settle(self, lease: Lease) -> None:
        """Return at once: nodes do not answer to a release."""

    def _lines_of(self, lease: Lease) -> _Lines | None:
        session = lease._session
        return self._lines.get(session) if isinstance(session, NodeSession) else None

    async def watch(self, service: str, name: str) -> AsyncGenerator[LockState, None]:
        """Yield the holder of a lock, now and after each change, until the client is closed."""
        attempts = Attempts(None)
        closings = self._closings
        while True:
            self._check_open(closings)
            try:
                session, lines = await self.connected()
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
        return await self._asked(*await self.connected(), "status")

    async def force(self, service: str, name: str) -> dict[str, Any]:
        """Take a lock away from its holder, at the node of the holder."""
        session, lines = await self.connected()
        node = LockState.of(await self._asked(session, lines, "watch", service, name)).node
        if node is None or node == session.node:
            return await self._asked(session, lines, "force", service, name)
        return await asyncio.to_thread(force_at, node, self._named, session, service, name)

    @staticmethod
    async def _asked(session: NodeSession, lines: _Lines, word: str, *rest: str) -> dict[str, Any]:
        """Return the answer of the node; `Unreachable` if there is none, or `RefusedByNode`."""
        id = session.protocol.next_id()
        try:
            line = await lines.ask(id, encode_line(word, id, *rest), ANSWER_SECONDS)
        except TimeoutError:
            raise Unreachable(f"node {session.node} does not answer") from None
        finally:
            if word == "watch":
                lines.say("unwatch", id)
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
    told: tuple[NodeAddress, ...] = (),
) -> NodeSession:
    """Open a session in a thread.  A cancelled task closes it, since the thread goes on."""
    made: list[NodeSession] = []
    is_wanted = True

    def open_there() -> NodeSession:
        made.append(opened(named, credentials, label, dict(left or {}), within, told))
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
        session.lose_node(f"lost the connection to node {session.node}: {reason}")
        raise Unreachable(f"{address}: {reason}") from None
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await _greet(lines, session)
    except BaseException as reason:  # a cancellation, too
        lines.abort()
        if isinstance(reason, TimeoutError):
            reason = Unreachable(f"{address} does not answer")
        if isinstance(reason, Unreachable):
            session.lose_node(f"lost the connection to node {session.node}: {reason}")
        raise reason from None
    lines.unasked = session.receive_news
    session.left = lambda: _tell_left(loop, lines, session)
    lines.ended = session.lose_node  # what was acquired on this connection moves, or has ended
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

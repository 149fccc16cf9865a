"""Locks of the nodes of a cluster, for the asynchronous client.

Requests of all tasks share one connection, which belongs to the event loop, and heartbeats too.
If the loop is busy, or a task blocks it, the keeper of the process (`habemus.client.keeper`) sends
them over a connection of its own, so the locks are not lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

from habemus.client.address import cluster_address
from habemus.client.attempts import Attempts
from habemus.client.backend import LockState
from habemus.client.connection import ANSWER_SECONDS, ConnectionClosed
from habemus.client.credentials import Credentials
from habemus.client.errors import (
    NodeTimeout,
    ProtocolError,
    RefusedByNode,
    Unreachable,
)
from habemus.client.lease import Lease
from habemus.client.lines import Lines, first_lines_of
from habemus.client.node_backend import LeftNodes, force_at
from habemus.client.protocol import (
    CLOSED,
    GRACE_US,
    HOLDER_US,
    AcquireRequest,
    encode_line,
    release_line,
)
from habemus.client.session import NodeSession, own_label


class AsyncNodeBackend:
    """The nodes of a cluster, as the asynchronous client sees them."""

    def __init__(self, named: str | None, credentials: Credentials, label: str | None) -> None:
        self._named = named
        self._credentials = credentials
        self._label = label
        self._session: NodeSession | None = None
        # Of the session, and of sessions that were left but still have leases.
        self._lines: dict[NodeSession, Lines] = {}
        self._left = LeftNodes(named, credentials)
        self._opening = asyncio.Lock()
        self._closings = 0  # a request ends with the next one; later requests connect again

    async def connect(self) -> None:
        """Connect to a node, unless none answers; see `NodeBackend.connect`."""
        cluster_address(self._named)
        with suppress(Unreachable):
            await self.connected()

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

    async def connected(self, within: float | None = None) -> tuple[NodeSession, Lines]:
        """Return a session with a node that answers, a new one if the last one has ended."""
        session = self._session
        lines = None if session is None else self._lines.get(session)
        if session is not None and lines is not None and session.is_open and not lines.is_over:
            return session, lines
        closings = self._closings
        async with self._opening:
            self._check_open(closings)
            session = self._session
            if session is None or not session.is_open:
                if session is not None:
                    self._left.add(session)
                self._close_ended()
                session = self._session = await self._opened(within)
                self._left.is_known = True
                session.successor = self._left.successor
                if closings != self._closings:
                    session.close()
                    self._lines.pop(session).abort()
                self._check_open(closings)
            return session, self._lines[session]

    async def _opened(self, within: float | None) -> NodeSession:
        """Open a session with a node, on a connection of this event loop."""
        cluster = cluster_address(self._named)._replace(told=self._left.told)
        credentials = self._credentials.at(cluster)
        label = self._label or own_label()
        lines = await first_lines_of(cluster, credentials, label, self._left.addresses, within)
        session = NodeSession(lines, cluster, credentials, label)
        _join(lines, session)
        self._lines[session] = lines
        return session

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
        self, session: NodeSession, lines: Lines, request: AcquireRequest, attempts: Attempts
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
        session: NodeSession, lines: Lines, request: AcquireRequest
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
        self, session: NodeSession, lines: Lines, request: AcquireRequest, attempts: Attempts
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

    def _lines_of(self, lease: Lease) -> Lines | None:
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
    async def _asked(session: NodeSession, lines: Lines, word: str, *rest: str) -> dict[str, Any]:
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


def _join(lines: Lines, session: NodeSession) -> None:
    loop = asyncio.get_running_loop()
    lines.unasked = session.receive_news
    session.send_soon = lambda line: _send_soon(loop, lines, line)
    session.left = lambda: _tell_left(loop, lines, session)
    lines.ended = session.lose_node  # what was acquired on this connection moves, or has ended


def _send_soon(loop: asyncio.AbstractEventLoop, lines: Lines, line: bytes) -> bool:
    """Send a line from any thread, at once from that of the loop; return whether it can be sent."""
    if lines.is_over:
        return False
    if asyncio._get_running_loop() is loop:
        lines.send(line)
        return True
    try:
        loop.call_soon_threadsafe(lines.send, line)
    except RuntimeError:  # the loop has closed
        return False
    return True


def _tell_left(loop: asyncio.AbstractEventLoop, lines: Lines, session: NodeSession) -> None:
    """End the requests of a session that is left, so that other nodes are asked.  Any thread may
    call it.
    """
    with suppress(RuntimeError):  # the loop may have closed
        loop.call_soon_threadsafe(lines.end_requests, "ended", session.leaving)

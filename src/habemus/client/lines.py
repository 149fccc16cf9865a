"""A connection to a node that belongs to an event loop and carries lines."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, cast

from habemus.client.address import ClusterAddress, NodeAddress, distinct
from habemus.client.attempts import in_order
from habemus.client.connection import (
    at_path,
    check_certificate,
    no_node,
    patience_for,
    security,
)
from habemus.client.credentials import Credentials
from habemus.client.errors import (
    HabemusError,
    NodeTimeout,
    ProtocolError,
    RefusedByNode,
    Unreachable,
)
from habemus.client.protocol import Greeting, LineBuffer, decode, encode_line
from habemus.runtimes.live.clients.protocol import CONNECT_SECONDS

Handler = Callable[[list[Any]], None]

LOOKS = 8
"""Turns of the event loop in which it reads all that has arrived before them."""
ACCEPT_PAUSE = 0.01
"""Seconds until the second attempt to connect to a local socket with a full queue."""
LONGEST_ACCEPT_PAUSE = 0.16
CLOSING_SECONDS = 1.0
"""How long a connection may take to close in good order.  Over TLS that takes an answer of the
node.
"""


class Lines(asyncio.Protocol):
    """A connection of the event loop; lines go to the handlers of their ids."""

    def __init__(self, address: NodeAddress) -> None:
        self.address = address
        self.welcome: dict[str, Any] = {}
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

    async def greet(self, credentials: Credentials, label: str, session: str | None) -> None:
        """Lead the handshake; `RefusedByNode` if the node does not admit this client."""
        address = self.address
        greeting = Greeting(
            address, label, session, credentials.secret, is_local=bool(address.path)
        )
        sent: bytes | None = greeting.hello
        while sent is not None:
            self.send(sent)
            line = await self.greetings.get()
            if self.is_over:
                raise Unreachable(f"{address}: {line[3]}")
            sent = greeting.answer(line)
        assert greeting.welcome is not None
        self.welcome = greeting.welcome
        if credentials.authority and not address.path:
            certificate = self.transport.get_extra_info("peercert") or {}
            named = f"node-{self.welcome['node']}.{self.welcome['cluster']}"
            check_certificate(address, certificate, named)

    def abandon(self) -> None:
        """Close the descriptor in the child of a fork, where the loop does not run."""
        found = self.transport.get_extra_info("socket")
        getattr(found, "_sock", found).close()


async def open_lines(
    address: NodeAddress,
    credentials: Credentials,
    label: str,
    session: str | None = None,
    patience: float = CONNECT_SECONDS,
) -> Lines:
    """Connect and greet; `Unreachable` if no node answers there, `RefusedByNode` if the node does
    not admit this client.
    """
    try:
        async with asyncio.timeout(patience):
            lines = await _connected(address, credentials)
    except TimeoutError:
        raise NodeTimeout(f"{address} does not answer") from None
    except OSError as reason:
        raise Unreachable(f"{address}: {reason.strerror or reason}") from None
    try:
        async with asyncio.timeout(patience):
            await lines.greet(credentials, label, session)
    except BaseException as reason:  # a cancellation, too
        lines.abort()
        if isinstance(reason, TimeoutError):
            raise NodeTimeout(f"{address} does not answer") from None
        raise
    return lines


async def _connected(address: NodeAddress, credentials: Credentials) -> Lines:
    loop = asyncio.get_running_loop()
    lines = Lines(address)
    if address.path:
        await loop.create_unix_connection(lambda: lines, sock=await _at_path(address.path))
        return lines
    context = security(credentials) if credentials.authority else None
    named = "" if context is not None else None  # `greet` compares the number of the node
    await loop.create_connection(
        lambda: lines, address.host, address.port, ssl=context, server_hostname=named
    )
    return lines


async def _at_path(path: str) -> socket.socket:
    pause = ACCEPT_PAUSE
    while True:
        try:
            return at_path(path, 0.0)
        except BlockingIOError:  # the node has not accepted those before
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_ACCEPT_PAUSE)


async def first_lines_of(
    cluster: ClusterAddress,
    credentials: Credentials,
    label: str,
    left: Mapping[NodeAddress, float],
    within: float | None = None,
) -> Lines:
    """Connect to the first node that answers; see `first_of`."""
    cluster = await _resolved(cluster)
    patience = patience_for(cluster, within)
    reasons: list[HabemusError] = []
    for address in in_order(cluster.nodes, cluster.told, left):
        try:
            return await open_lines(address, credentials, label, patience=patience)
        except (RefusedByNode, Unreachable, ProtocolError) as reason:
            reasons.append(reason)
    raise no_node(cluster, reasons)


async def _resolved(cluster: ClusterAddress) -> ClusterAddress:
    loop = asyncio.get_running_loop()
    nodes: list[NodeAddress] = []
    for node in cluster.nodes:
        found: list[Any] = []
        if not node.path:
            with suppress(OSError):  # the attempt to connect reports it
                found = await loop.getaddrinfo(node.host, node.port, type=socket.SOCK_STREAM)
        nodes += distinct(node, found)
    return cluster._replace(nodes=nodes)

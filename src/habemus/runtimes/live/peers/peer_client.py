"""The link to a peer: a queue, a connection, and reconnection with growing random pauses.

The first frame of a turn is sent at once, so that the peer can work on it while this node goes on;
the others are sent together at the end of the turn.

Random pauses keep nodes that start together from dialling in step.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from habemus.runtimes.live.cluster_file import Address
from habemus.runtimes.live.peers.codec import (
    HANDSHAKE_LIMIT,
    Deframer,
    Refused,
    encoded,
    greeting_of,
)
from habemus.runtimes.live.peers.handshake import DiallerHandshake, node_name
from habemus.runtimes.live.sockets import HANDSHAKE_SECONDS, tune

if TYPE_CHECKING:
    from habemus.runtimes.live.peers.network import PeerNetwork

log = logging.getLogger("habemus.live")

FIRST_PAUSE = 0.05
"""Seconds before the first reconnection; each further pause is twice as long."""
LONGEST_PAUSE = 2.0
CLOSING_SECONDS = 1.0
QUEUE_LIMIT = 4 << 20
"""Bytes that may wait for one peer."""


class PeerLink:
    """The queue of frames for one peer, and the connection that sends them."""

    def __init__(self, network: PeerNetwork, peer: int, address: Address) -> None:
        self.network = network
        self.peer = peer
        self.address = address
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._connection: _OutgoingConnection | None = None
        self._flushing = False
        self._flushed_in = 0  # the last turn in which a frame was sent at once
        self._task: asyncio.Task[None] | None = None
        self._last_error = ""  # logged once, not at every attempt

    @property
    def is_up(self) -> bool:
        return self._connection is not None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._stay_connected())

    async def stop(self) -> None:
        """Send what is queued, if the peer accepts it now, and close the connection."""
        self._flush()
        if self._connection is not None:
            connection = self._connection
            connection.close()
            await asyncio.wait((connection.ended,), timeout=CLOSING_SECONDS)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def send(self, frame: bytes) -> None:
        self._queue.append(frame)
        self._queued += len(frame)
        while self._queued > QUEUE_LIMIT:
            self._queued -= len(self._queue.popleft())
            self.network.counts["lost"] += 1
        if self._flushing or self._connection is None or not self._connection.takes_more:
            return
        turn = self.network.turn
        if turn.is_open and turn.number != self._flushed_in:
            self._flushed_in = turn.number
            self._flush()
        else:
            self._flushing = True
            turn.at_end(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if self._queue and self._connection is not None and self._connection.takes_more:
            self.network.counts["sent"] += len(self._queue)
            self.network.counts["writes"] += 1
            self._connection.write(
                self._queue[0] if len(self._queue) == 1 else b"".join(self._queue)
            )
            self._queue.clear()
            self._queued = 0

    async def _stay_connected(self) -> None:
        loop = asyncio.get_running_loop()
        pause = FIRST_PAUSE
        while True:
            connection = _OutgoingConnection(self, loop)
            try:
                async with asyncio.timeout(HANDSHAKE_SECONDS):
                    await self._connect(loop, connection)
                    await connection.decided
                pause = FIRST_PAUSE
                self._last_error = ""
                await connection.ended
            except (OSError, TimeoutError, _HandshakeRejected) as reason:
                self._log_error(str(reason) or type(reason).__name__)
            finally:
                connection.abort()
            await asyncio.sleep(pause * self.network.draw.uniform(0.5, 1.0))
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _connect(
        self, loop: asyncio.AbstractEventLoop, connection: _OutgoingConnection
    ) -> None:
        security: dict[str, Any] = {}
        if self.network.tls is not None:
            security = {
                "ssl": self.network.tls.dialling,
                "server_hostname": node_name(self.network.identity.cluster, self.peer),
            }
        await loop.create_connection(
            lambda: connection, self.address.host, self.address.port, **security
        )

    def _log_error(self, reason: str) -> None:
        if reason != self._last_error:
            self._last_error = reason
            log.warning("cannot reach node %d at %s: %s", self.peer, self.address, reason)

    def opened(self, connection: _OutgoingConnection) -> None:
        log.info("connected to node %d", self.peer)
        self.network.counts["connected"] += 1
        self._connection = connection
        self.network.connected(self.peer)
        self._flush()

    def resume(self) -> None:
        """Send what is queued: the transport accepts more."""
        self._flush()

    def broke(self, connection: _OutgoingConnection) -> None:
        if self._connection is connection:
            log.info("connection to node %d closed", self.peer)
            self._connection = None


class _HandshakeRejected(Exception):
    """The peer, or this node, has refused the handshake."""


class _OutgoingConnection(asyncio.Protocol):
    """A connection that this node has dialled.  It only sends; answers belong to the handshake."""

    def __init__(self, link: PeerLink, loop: asyncio.AbstractEventLoop) -> None:
        self._link = link
        self._transport: asyncio.Transport | None = None
        self._deframer = Deframer(HANDSHAKE_LIMIT)
        self._handshake = DiallerHandshake(link.network.identity, link.peer)
        self.decided: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self.takes_more = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's does not derive from it
        self._transport = transport
        tune(transport)
        if transport.get_extra_info("sslcontext") is None:
            # So uvloop writes at once, and not after the turn.  With TLS it would pause for ever.
            transport.set_write_buffer_limits(high=0)
        transport.write(encoded(self._handshake.hello()))

    def data_received(self, data: bytes) -> None:
        bodies = self._deframer.feed(data)
        refused = self._deframer.refused
        for body in bodies:
            greeting = greeting_of(body)
            reply = greeting if isinstance(greeting, Refused) else self._handshake.answer(greeting)
            if isinstance(reply, Refused):
                refused = reply
                break
            if reply is not None:
                self.write(encoded(reply))
            elif self._handshake.is_welcome and not self.decided.done():
                self.decided.set_result(None)
                self.takes_more = True
                self._link.opened(self)
        if refused is not None:
            if not self.decided.done():
                self.decided.set_exception(_HandshakeRejected(refused.reason))
            self.abort()

    def pause_writing(self) -> None:
        self.takes_more = False

    def resume_writing(self) -> None:
        if self._handshake.is_welcome:
            self.takes_more = True
            self._link.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self.takes_more = False
        self._transport = None
        if not self.decided.done():
            self.decided.set_exception(
                _HandshakeRejected(
                    f"connection closed during the handshake{f': {exc}' if exc else ''}"
                )
            )
        if not self.decided.cancelled():
            self.decided.exception()  # retrieved here, in case it is not awaited any more
        if not self.ended.done():
            self.ended.set_result(None)
        self._link.broke(self)

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """Close after sending what was written."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

"""Connections that peers, or clients, have dialled: a handshake, then frames of that one peer.

Frames are handled in time slices.  Those of elections and detectors are handled first: heartbeats
must not wait behind thousands of messages about locks, or the leader would change just when there
is much to do.  Messages of one instance keep their order.  So that heartbeats can be seen, a node
goes on reading while it is behind, up to `BACKLOG_LIMIT`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from habemus.runtimes.live.clients.protocol import FIRST_BYTE
from habemus.runtimes.live.peers.codec import (
    FRAME_LIMIT,
    HANDSHAKE_LIMIT,
    PREFIX,
    Deframer,
    Refused,
    encoded,
    frame_of,
    greeting_of,
)
from habemus.runtimes.live.peers.frames import Rejection
from habemus.runtimes.live.peers.handshake import AnswererHandshake
from habemus.runtimes.live.peers.tls import names_in
from habemus.runtimes.live.sockets import HANDSHAKE_SECONDS, origin, tune

if TYPE_CHECKING:
    from habemus.runtimes.live.peers.network import PeerNetwork


FEW_FRAMES = 8
"""Frames that are handled at once."""
BACKLOG_LIMIT = 8 << 20
"""Bytes of received frames at which a node stops reading."""


class PeerConnection(asyncio.Protocol):
    """A connection from a peer.  It becomes a `ClientConnection` if its first byte is of a line."""

    def __init__(self, network: PeerNetwork) -> None:
        self._network = network
        self._transport: asyncio.Transport | None = None
        self._closing: asyncio.Transport | None = None  # after what was written
        self._deframer = Deframer(HANDSHAKE_LIMIT)
        self._handshake = AnswererHandshake(network.identity, self._is_named)
        self._deadline: asyncio.TimerHandle | None = None
        self._has_received = False
        self._bodies: deque[bytes] = deque()  # received and not handled yet
        self._urgent: deque[bytes] = deque()  # the same, of services that come first
        self._backlog = 0  # bytes of both
        self._has_dropped = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's does not derive from it
        self._transport = transport
        network = self._network
        if network.is_closed:
            transport.abort()
            return
        network.incoming.add(self)
        network.unauthenticated.add(self)
        tune(transport)
        self._deadline = asyncio.get_running_loop().call_later(HANDSHAKE_SECONDS, self._give_up)

    def _is_named(self, name: str) -> bool:
        if self._network.tls is None:
            return True
        assert self._transport is not None
        return name in names_in(self._transport.get_extra_info("peercert"))

    def _give_up(self) -> None:
        if self._handshake.peer is None:
            self._refuse(Refused(f"no handshake within {HANDSHAKE_SECONDS:g} s"))

    def data_received(self, data: bytes) -> None:
        if not self._has_received:
            self._has_received = True
            if data.startswith(FIRST_BYTE):
                self._hand_over(data)
                return
        is_behind = bool(self._bodies or self._urgent)
        bodies = self._deframer.feed(data)
        self._sort_in(bodies)
        if is_behind:
            self._take_urgent()
        else:
            if len(bodies) <= FEW_FRAMES:
                self._take_few()
            else:
                self._network.slices.run(self, self._take())
        if self._backlog > BACKLOG_LIMIT and self._transport is not None:
            self._transport.pause_reading()

    def _sort_in(self, bodies: list[bytes]) -> None:
        urgent = self._network.urgent if self._handshake.peer is not None else ()
        for body in bodies:
            self._backlog += len(body)
            is_urgent = body[PREFIX.start : PREFIX.stop] in urgent
            (self._urgent if is_urgent else self._bodies).append(body)

    def _take_few(self) -> None:
        """Handle the frames at once, without the cost of time slices."""
        turn = self._network.turn
        is_outermost = turn.open_unless_open()
        try:
            while self._has_taken():
                pass
        finally:
            if is_outermost:
                turn.close()

    def _take_urgent(self) -> None:
        """Handle the frames that come first.  The others wait for a time slice, and the work of
        thousands of clients may be in front of it.
        """
        turn = self._network.turn
        is_outermost = turn.open_unless_open()
        try:
            while self._urgent and self._has_taken():
                pass
        finally:
            if is_outermost:
                turn.close()

    def _take(self) -> Iterator[None]:
        while self._has_taken():
            yield

    def _has_taken(self) -> bool:
        """Handle the next frame.  Return False if there is none."""
        if self._transport is None:
            self._bodies.clear()
            self._urgent.clear()
            return False
        queue = self._urgent or self._bodies
        if not queue:
            if self._deframer.refused is not None:
                self._refuse(self._deframer.refused)
            return False
        try:
            self._read(queue[0])
        except BaseException:
            self.abort()  # its frames are not read any more
            raise
        self._backlog -= len(queue.popleft())
        if self._backlog <= BACKLOG_LIMIT // 2:
            self._resume()
        return True

    def _resume(self) -> None:
        if self._transport is not None and not self._transport.is_reading():
            self._transport.resume_reading()

    def _read(self, body: bytes) -> None:
        peer = self._handshake.peer
        if peer is None:
            self._handle_greeting(body)
            return
        frame = frame_of(body, self._network.terms)
        if isinstance(frame, Refused):
            self._refuse_or_drop(peer, frame)
            return
        self._network.counts["received"] += 1
        refused = self._network.received(peer, frame)
        if refused is not None:
            self._refuse_or_drop(peer, refused)

    def _refuse_or_drop(self, peer: int, refused: Refused) -> None:
        """Close the connection, unless the peer is of a release that has more types of messages:
        they are lost, as on any fair-loss link.
        """
        if not refused.is_unknown:
            self._refuse(refused)
            return
        self._network.counts["not understood"] += 1
        if not self._has_dropped:  # logged once for each connection
            self._has_dropped = True
            self._network.limited_log.warning(
                "dropped a frame of node %d: %s; run one release on all nodes", peer, refused.reason
            )

    def _hand_over(self, data: bytes) -> None:
        """Hand the connection over to `clients`: it speaks the client protocol."""
        transport = self._transport
        assert transport is not None
        self.connection_lost(None)
        client = self._network.clients.connection(self._network.unauthenticated)
        transport.set_protocol(client)
        client.connection_made(transport)
        client.data_received(data)

    def _handle_greeting(self, body: bytes) -> None:
        greeting = greeting_of(body)
        reply = greeting if isinstance(greeting, Refused) else self._handshake.answer(greeting)
        if isinstance(reply, Refused):
            self._refuse(reply)
            return
        assert self._transport is not None
        self._transport.write(encoded(reply))
        peer = self._handshake.peer
        if peer is not None:
            if self._deadline is not None:
                self._deadline.cancel()
            self._deframer.limit = FRAME_LIMIT
            self._network.unauthenticated.remove(self)
            before = self._network.current.get(peer)
            self._network.current[peer] = self
            if before is not None:
                before.abort()  # the peer has restarted or reconnected

    def _refuse(self, refused: Refused) -> None:
        network = self._network
        network.counts["refused"] += 1
        who = "a connection" if self._handshake.peer is None else f"node {self._handshake.peer}"
        network.limited_log.warning(
            "refused %s%s: %s", who, origin(self._transport), refused.reason
        )
        transport, self._transport = self._transport, None  # ignore what still arrives
        if transport is not None:
            if self._handshake.peer is None and self._deframer.refused is None:
                self._closing = transport
                transport.write(encoded(Rejection(refused.reason[:200])))
                transport.close()
            else:
                transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = self._closing = None
        if self._deadline is not None:
            self._deadline.cancel()
        network = self._network
        network.incoming.discard(self)
        network.unauthenticated.remove(self)
        peer = self._handshake.peer
        if peer is not None and network.current.get(peer) is self:
            del network.current[peer]

    def abort(self) -> None:
        transport, self._transport = self._transport or self._closing, None
        if transport is not None:
            transport.abort()

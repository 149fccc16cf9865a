"""The connections of a node to its peers.

Every node dials every other one and sends on the connection that it dialled, so each pair of nodes
has two connections, one per direction.  No agreement on who dials is needed, and a link can fail in
one direction only.

Delivery on a link: as long as a connection lasts, every message once, those of one service in
order; messages of elections and detectors overtake others at the receiver.  When it breaks,
messages in transit are lost without notice.  Frames that are not yet written wait in a bounded
queue, also while the peer is down; when the queue is full, the oldest are dropped and counted.
These are *fair-loss* links that keep the order.  An algorithm that assumes reliable links runs over
`PerfectLinks`.

Frames of one turn of the event loop are sent with one write per peer.

All resources are bounded: the size of frames, the time of a handshake, the number of connections,
the queues, the time for which sent bytes may stay unacknowledged.  An unauthenticated connection
may send one kilobyte within five seconds, and the oldest of them are closed when there are too many
(`unauthenticated`).  Frames are read in short time slices (`slices`).
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from habemus.runtimes.live.clients.connections import ClientConnections
from habemus.runtimes.live.cluster_file import Address
from habemus.runtimes.live.hosting.slices import TimeSlicer
from habemus.runtimes.live.hosting.timers import random_source
from habemus.runtimes.live.hosting.turn import Turn
from habemus.runtimes.live.log_limits import RateLimitedLog
from habemus.runtimes.live.peers.codec import OF_NEW_NODE, Refused, TermBound
from habemus.runtimes.live.peers.frames import Frame
from habemus.runtimes.live.peers.handshake import Identity
from habemus.runtimes.live.peers.peer_client import CLOSING_SECONDS, PeerLink
from habemus.runtimes.live.peers.peer_server import PeerConnection
from habemus.runtimes.live.peers.tls import TlsContexts, log_refusals
from habemus.runtimes.live.peers.tls_server import TlsHandshakes
from habemus.runtimes.live.peers.unauthenticated import UnauthenticatedConnections
from habemus.runtimes.live.sockets import local_socket


class PeerNetwork:
    """All connections of one node, to peers and from peers and clients."""

    def __init__(
        self,
        identity: Identity,
        peers: Mapping[int, Address],
        received: Callable[[int, Frame], Refused | None],
        connected: Callable[[int], None],
        clients: ClientConnections,
        turn: Turn,
        slices: TimeSlicer,
        limited_log: RateLimitedLog,
        tls: TlsContexts | None = None,
        seed: int | None = None,
        urgent: frozenset[bytes] = frozenset(),
        terms: TermBound = OF_NEW_NODE,
    ) -> None:
        self.identity = identity
        self.received = received
        self.connected = connected
        self.clients = clients
        self.turn = turn
        self.slices = slices
        self.limited_log = limited_log
        self.tls = tls
        self.terms = terms
        self.urgent = urgent  # how frames begin that are handled first
        self.counts: Counter[str] = Counter()
        self.draw = random_source(seed)
        self._links = {peer: PeerLink(self, peer, address) for peer, address in peers.items()}
        self._dropped: set[asyncio.Task[None]] = set()  # links to former peers, until closed
        self._is_serving = False
        self._server: asyncio.Server | None = None
        self._local: asyncio.Server | None = None
        self.incoming: set[PeerConnection] = set()
        self.current: dict[int, PeerConnection] = {}  # the current connection of each peer
        self.unauthenticated = UnauthenticatedConnections(self.counts, limited_log)
        self.tls_handshakes = TlsHandshakes(self.unauthenticated, limited_log)
        self.is_closed = False

    async def listen(self, bind: Address | socket.socket, local: Path | None = None) -> Address:
        """Bind the address, or use a listening socket.  Return the address.  Accept nothing yet.

        The local path is for clients of the same user only, by the permissions of the socket file.
        """
        loop = asyncio.get_running_loop()
        if self.tls is not None:
            self.use(self.tls)
        place: dict[str, Any] = (
            {"sock": bind}
            if isinstance(bind, socket.socket)
            else {"host": bind.host, "port": bind.port}
        )
        server = await loop.create_server(
            self._answer,
            start_serving=False,
            **place,
        )
        self._server = server
        if local is not None:
            self._local = await loop.create_unix_server(
                self.clients.connection, sock=local_socket(local), start_serving=False
            )
        host, port = (
            cast(Any, server).sockets[0].getsockname()[:2]
        )  # asyncio has a tuple of sockets, uvloop a list
        return Address(host, port)

    def _answer(self) -> asyncio.Protocol:
        """Return the protocol of a connection that was accepted."""
        if self.tls is None:
            return PeerConnection(self)
        return self.tls_handshakes.begin(self.tls.answering, lambda: PeerConnection(self))

    def use(self, tls: TlsContexts) -> None:
        """Use these certificates for new connections; those that are open stay."""
        log_refusals(tls.answering, self.limited_log)
        self.tls = tls

    async def serve(self) -> None:
        """Accept connections, and connect to every peer."""
        assert self._server is not None
        await self._server.start_serving()
        if self._local is not None:
            await self._local.start_serving()
        self._is_serving = True
        for link in self._links.values():
            link.start()

    def send(self, peer: int, frame: bytes) -> None:
        link = self._links.get(peer)
        if link is not None:
            link.send(frame)
        else:
            self.counts["lost"] += 1  # to a node that the cluster does not have

    def dial(self, peer: int, address: Address) -> None:
        """Connect to a new peer, or to one whose address has changed."""
        self._drop_link(peer)
        link = self._links[peer] = PeerLink(self, peer, address)
        if self._is_serving and not self.is_closed:
            link.start()

    def drop(self, peer: int) -> None:
        """Send what is queued for a former peer, and close all connections with it."""
        self._drop_link(peer)
        self.disconnect(peer)

    def disconnect(self, peer: int) -> None:
        """Close the connection that a peer has dialled."""
        connection = self.current.get(peer)
        if connection is not None:
            connection.abort()

    def _drop_link(self, peer: int) -> None:
        link = self._links.pop(peer, None)
        if link is not None and self._is_serving:
            task = asyncio.get_running_loop().create_task(link.stop())
            self._dropped.add(task)
            task.add_done_callback(self._dropped.discard)

    def reaches(self) -> list[int]:
        """Return the peers to which there is a connection."""
        return sorted(peer for peer, link in self._links.items() if link.is_up)

    async def close(self) -> None:
        """Send what is queued for reachable peers, then close all connections."""
        self.is_closed = True
        for server in (self._server, self._local):
            if server is not None:
                server.close()
        await self.tls_handshakes.close()
        await asyncio.gather(*(link.stop() for link in self._links.values()), *self._dropped)
        for connection in list(self.incoming):
            connection.abort()
        self.clients.close()
        for _ in range(int(CLOSING_SECONDS * 100)):
            if not self.clients.connections:
                break
            await asyncio.sleep(0.01)
        for client in list(self.clients.connections):
            client.abort()  # it does not read what was written, or does not answer `close_notify`
        await asyncio.sleep(0)  # closes their sockets
        self.limited_log.close()
        for server in (self._server, self._local):
            if server is not None:
                await server.wait_closed()

"""Links that can be cut: a proxy in between.

A node sends to a peer on a connection that it has dialled itself, and hears nothing on it but the
handshake.  So there is one listening socket for each pair of sender and receiver, and what is done
to it is done to one direction.  A client has one for each node, and what is done to that is done to
both directions.

    hold       nothing passes, in the connections that there are and in new ones; when it ends, what has waited goes on
    refuse     connections break, with what is under way, and new ones are not to be had
    lag        what passes is late, in order
    break_off  connections break once, with what is under way

A proxy on top of TCP cannot lose a byte in the middle of a connection, and neither can a network:
the kernels would send it again.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import cast

BUFFER_LIMIT = 1 << 20
"""Bytes that wait in one direction before the sender is made to wait."""


class Link:
    """From one node to another, or from a client to a node."""

    def __init__(self, port: int) -> None:
        self.port = port  # of the receiver
        self.lag_s: Callable[[], float] | None = None
        self.connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None
        self._holds = 0
        self._refusals = 0

    async def listen(self) -> int:
        """Says at which port."""
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Connection(self).near, "127.0.0.1", 0
        )
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self.refuse()  # those that are on their way in, too

    # What can be done to it.  Two cuts may overlap: it passes again when both have ended.

    def hold(self) -> None:
        self._holds += 1

    def let_go(self) -> None:
        self._holds -= 1
        if not self._holds:
            for connection in list(self.connections):
                connection.flush()

    def refuse(self) -> None:
        self._refusals += 1
        self.break_off()

    def accept(self) -> None:
        self._refusals -= 1

    def break_off(self) -> None:
        for connection in list(self.connections):
            connection.abort()

    @property
    def is_held(self) -> bool:
        return self._holds > 0

    @property
    def is_refused(self) -> bool:
        return self._refusals > 0


class _End(asyncio.Protocol):
    """One end of a connection, with what has come in there and not gone out at the other end yet."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self.transport: asyncio.Transport | None = None
        self.is_lost = False
        self.is_paused = False
        self.waiting: deque[tuple[float, bytes]] = deque()  # when it may go out
        self.waits = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(
            asyncio.Transport, transport
        )  # that of uvloop does not derive from it
        found = self.transport.get_extra_info("socket")
        if found is not None:
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection.made(self)

    def data_received(self, data: bytes) -> None:
        due = self._connection.due()
        if self.waiting:
            due = max(due, self.waiting[-1][0])  # order is kept
        self.waiting.append((due, data))
        self.waits += len(data)
        self._connection.flush()
        if self.waits > BUFFER_LIMIT and self.transport is not None and not self.is_paused:
            self.is_paused = True
            self.transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._connection.flush()

    def pass_on(self, far: _End, now: float) -> float | None:
        """Hands over what may go out now; says when there will be more."""
        if (
            far.transport is None or far.is_lost or far.transport.is_closing()
        ):  # nobody takes it any more, and the other end hears of that
            self.waiting.clear()
            if self.transport is not None:
                self.transport.abort()
            return None
        while self.waiting and self.waiting[0][0] <= now:
            data = self.waiting.popleft()[1]
            self.waits -= len(data)
            far.transport.write(data)
        if (
            self.is_paused
            and self.waits <= BUFFER_LIMIT
            and self.transport is not None
            and not self.is_lost
        ):
            self.is_paused = False
            self.transport.resume_reading()
        if self.is_lost and not self.waiting:
            far.transport.close()  # what a dead sender had sent arrives all the same
        return self.waiting[0][0] if self.waiting else None


class _Connection:
    def __init__(self, link: Link) -> None:
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._dialling: asyncio.Task[None] | None = None
        self.near = _End(self)  # to the sender
        self.far = _End(self)  # to the receiver

    def made(self, end: _End) -> None:
        if end is self.far:
            self.flush()
        elif self._link.is_refused:
            self.abort()
        else:
            self._link.connections.add(self)
            self._dialling = self._loop.create_task(self._dial())

    async def _dial(self) -> None:
        try:
            await self._loop.create_connection(lambda: self.far, "127.0.0.1", self._link.port)
        except OSError:
            self.abort()
        if self not in self._link.connections:  # it was broken off in the meantime
            self.abort()

    def due(self) -> float:
        lag = self._link.lag_s
        return 0.0 if lag is None else self._loop.time() + lag()

    def flush(self) -> None:
        """Passes on what can be passed on, the end of one side too.  While the link is held nobody
        hears of anything.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.near.is_lost and self.far.is_lost:
            self._link.connections.discard(self)
            return
        if self._link.is_held or self.far.transport is None:
            return
        now = self._loop.time()
        times = [self.near.pass_on(self.far, now), self.far.pass_on(self.near, now)]
        later = min((time for time in times if time is not None), default=None)
        if later is not None:
            self._timer = self._loop.call_later(max(0.0, later - now), self.flush)

    def abort(self) -> None:
        self._link.connections.discard(self)
        for end in (self.near, self.far):
            end.waiting.clear()
            if end.transport is not None:
                end.transport.abort()

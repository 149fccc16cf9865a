"""Links that can be cut: a proxy in between.

A node sends to a peer on a connection that it has dialled itself, and hears nothing on it but the
handshake.  So there is one listening socket for each pair of sender and receiver, and a fault on it
hits one direction.  A client has one for each node, and a fault on that hits both directions.

    hold       nothing passes, in open and new connections; afterwards the waiting bytes are sent
    refuse     connections break and lose the bytes in flight; new connections are refused
    lag        bytes are delayed, in order
    break_off  connections break once and lose the bytes in flight
    hang_up    connections end at the receiver; the sender hears nothing before `let_go`

A proxy on top of TCP cannot lose a byte in the middle of a connection.  Neither can a network,
because the kernel retransmits it.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import cast

BUFFER_LIMIT = 1 << 20
"""Bytes that wait in one direction before the sender is made to wait."""


DIAL_S = 0.02
"""Time between two attempts to reach a receiver."""


class ProxyLink:
    """A link from one node to another, or from a client to a node."""

    def __init__(self, port: int, patience_s: float = 0.0) -> None:
        """Make a link.

        patience_s: how long to try to reach a receiver that does not listen.  A sender behind a
        proxy is connected before the receiver is, so it cannot try again by itself.
        """
        self.port = port  # of the receiver
        self.patience_s = patience_s
        self.lag_s: Callable[[], float] | None = None
        self.connections: set[_ProxyConnection] = set()
        self._servers: list[asyncio.Server] = []
        self._holds = 0
        self._refusals = 0

    async def listen(self, port: int | None = None) -> int:
        """Listen on a free port and return it.

        port: of the receiver, if it has more than one.
        """
        made = await _listening(lambda _: self, port)
        self._servers.append(made)
        return _port_of(made)

    def close(self) -> None:
        for server in self._servers:
            server.close()
        self.refuse()  # connections that are being made, too

    # Faults.  Two cuts may overlap: bytes pass again when both have ended.

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

    def hang_up(self) -> None:
        self.hold()
        for connection in list(self.connections):
            connection.abort_far()

    @property
    def is_held(self) -> bool:
        return self._holds > 0

    @property
    def is_refused(self) -> bool:
        return self._refusals > 0


class SharedListener:
    """One listening socket for several links, chosen by the port from which a sender connects."""

    def __init__(self, link_of: Callable[[int], ProxyLink]) -> None:
        self._link_of = link_of
        self._server: asyncio.Server | None = None

    async def listen(self) -> int:
        """Listen on a free port and return it."""
        self._server = await _listening(self._link_of, None)
        return _port_of(self._server)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


async def _listening(link_of: Callable[[int], ProxyLink], port: int | None) -> asyncio.Server:
    return await asyncio.get_running_loop().create_server(
        lambda: _ProxyConnection(link_of, port).near, "127.0.0.1", 0
    )


def _port_of(server: asyncio.Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port


def owner_of(port: int, processes: Mapping[int, int]) -> int | None:
    """Return the number of the process that has a TCP connection from this port, or None.

    processes: process id by number.
    """
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        if int(fields[1].rpartition(":")[2], 16) == port and fields[9] != "0":
            name = f"socket:[{fields[9]}]"
            for number, process in processes.items():
                if name in _descriptors(process):
                    return number
    return None


def _descriptors(process: int) -> list[str]:
    found = []
    with suppress(OSError):
        for each in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):
                found.append(str(each.readlink()))
    return found


class _End(asyncio.Protocol):
    """One end of a connection, with the bytes received there and not yet sent at the other end."""

    def __init__(self, connection: _ProxyConnection) -> None:
        self._connection = connection
        self.transport: asyncio.Transport | None = None
        self.is_lost = False
        self.is_paused = False
        self.waiting: deque[tuple[float, bytes]] = deque()  # when it may go out
        self.waits = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport does not derive from asyncio.Transport
        self.transport = cast(asyncio.Transport, transport)
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
        """Send the bytes that are due; return when the next ones are."""
        # If the receiver is gone, the sender's connection breaks as well.
        if far.transport is None or far.is_lost or far.transport.is_closing():
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


class _ProxyConnection:
    def __init__(self, link_of: Callable[[int], ProxyLink], port: int | None) -> None:
        self._link_of = link_of
        self._port = port  # of the receiver; None for that of the link
        self._link: ProxyLink
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._dialling: asyncio.Task[None] | None = None
        self.near = _End(self)  # to the sender
        self.far = _End(self)  # to the receiver

    def made(self, end: _End) -> None:
        if end is self.far:
            self.flush()
            return
        assert end.transport is not None
        self._link = self._link_of(end.transport.get_extra_info("peername")[1])
        if self._link.is_refused:
            self.abort()
        else:
            self._link.connections.add(self)
            self._dialling = self._loop.create_task(self._dial())

    async def _dial(self) -> None:
        port = self._port or self._link.port
        deadline = self._loop.time() + self._link.patience_s
        while self in self._link.connections:
            try:
                await self._loop.create_connection(lambda: self.far, "127.0.0.1", port)
                break
            except OSError:
                if self._loop.time() >= deadline:
                    self.abort()
            await asyncio.sleep(DIAL_S)
        if self not in self._link.connections:  # it was broken off in the meantime
            self.abort()

    def due(self) -> float:
        lag = self._link.lag_s
        return 0.0 if lag is None else self._loop.time() + lag()

    def flush(self) -> None:
        """Pass on bytes that are due, and the end of either side.  Nothing passes while the link is
        held.
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

    def abort_far(self) -> None:
        """Break the connection with the receiver; the sender hears of it when bytes pass again."""
        if self.far.transport is None:  # not connected yet
            self.abort()
        else:
            self.far.transport.abort()

    def abort(self) -> None:
        self._link.connections.discard(self)
        for end in (self.near, self.far):
            end.waiting.clear()
            if end.transport is not None:
                end.transport.abort()

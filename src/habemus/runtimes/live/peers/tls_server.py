"""Connections that others have dialled, until their TLS handshake is complete.

A server with TLS of an event loop hands connections out only after their handshakes.  Until then
they could be neither counted nor closed, and silent ones would use up the descriptors of the
process.  So a node accepts plain connections, counts them as unauthenticated from the beginning,
and starts TLS on a duplicate of their descriptor: uvloop cannot pause the plain connection before
it has read something, so `start_tls` would lose the first bytes of the handshake.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from habemus.runtimes.live.log_limits import RateLimitedLog
from habemus.runtimes.live.peers.unauthenticated import UnauthenticatedConnections
from habemus.runtimes.live.sockets import HANDSHAKE_SECONDS, origin


class TlsHandshakes:
    """The TLS handshakes of the connections that a node has accepted at one address."""

    def __init__(
        self, unauthenticated: UnauthenticatedConnections, limited_log: RateLimitedLog
    ) -> None:
        self.unauthenticated = unauthenticated
        self.limited_log = limited_log
        self.running: dict[asyncio.Task[None], TlsConnection] = {}
        self.is_closed = False

    def begin(
        self, context: ssl.SSLContext, make: Callable[[], asyncio.Protocol]
    ) -> asyncio.Protocol:
        """Return the protocol of a connection until `make` makes the one after its handshake."""
        return TlsConnection(self, context, make)

    async def close(self) -> None:
        """Abort all handshakes, and begin none."""
        self.is_closed = True
        for handshake in self.running.values():
            handshake.abort()
        await asyncio.gather(*self.running)


class TlsConnection(asyncio.Protocol):
    """A connection during its TLS handshake."""

    def __init__(
        self,
        handshakes: TlsHandshakes,
        context: ssl.SSLContext,
        make: Callable[[], asyncio.Protocol],
    ) -> None:
        self._handshakes = handshakes
        self._context = context
        self._make = make
        self._socket: socket.socket | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's does not derive from it
        plain = cast(asyncio.Transport, transport)
        if not self._handshakes.is_closed:
            with suppress(OSError):  # no descriptor is left
                self._socket = plain.get_extra_info("socket").dup()
                self._socket.setblocking(False)
                who = origin(plain)
                self._handshakes.unauthenticated.add(self)
                task = asyncio.get_running_loop().create_task(self._start_tls(self._socket, who))
                self._handshakes.running[task] = self
        plain.abort()  # closes its own descriptor only

    async def _start_tls(self, plain: socket.socket, who: str) -> None:
        handshakes = self._handshakes
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make,
                plain,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
            )
        except ConnectionAbortedError:
            handshakes.limited_log.warning(
                "refused a connection%s: no TLS handshake within %g s", who, HANDSHAKE_SECONDS
            )
        except OSError:  # the handshake failed, which is logged already, or the connection ended
            pass
        finally:
            handshakes.unauthenticated.remove(self)
            handshakes.running.pop(cast(asyncio.Task[None], asyncio.current_task()), None)

    def abort(self) -> None:
        """End the connection: its handshake fails, and the event loop closes the descriptor."""
        if self._socket is not None:
            with suppress(OSError):  # it has ended already
                self._socket.shutdown(socket.SHUT_RDWR)

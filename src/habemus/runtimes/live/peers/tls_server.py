"""Connections that peers or clients have dialled, until their TLS handshake is complete.

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
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from habemus.runtimes.live.peers.peer_server import PeerConnection
from habemus.runtimes.live.sockets import HANDSHAKE_SECONDS, origin

if TYPE_CHECKING:
    from habemus.runtimes.live.peers.network import PeerNetwork


class TlsConnection(asyncio.Protocol):
    """A connection during its TLS handshake.  It becomes a `PeerConnection` after it."""

    def __init__(self, network: PeerNetwork, context: ssl.SSLContext) -> None:
        self._network = network
        self._context = context
        self._socket: socket.socket | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's does not derive from it
        plain = cast(asyncio.Transport, transport)
        if not self._network.is_closed:
            with suppress(OSError):  # no descriptor is left
                self._socket = plain.get_extra_info("socket").dup()
                self._socket.setblocking(False)
                who = origin(plain)
                self._network.unauthenticated.add(self)
                task = asyncio.get_running_loop().create_task(self._start_tls(self._socket, who))
                self._network.tls_handshakes[task] = self
        plain.abort()  # closes its own descriptor only

    async def _start_tls(self, plain: socket.socket, who: str) -> None:
        network = self._network
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: PeerConnection(network),
                plain,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
            )
        except ConnectionAbortedError:
            network.limited_log.warning(
                "refused a connection%s: no TLS handshake within %g s", who, HANDSHAKE_SECONDS
            )
        except OSError:  # the handshake failed, which is logged already, or the connection ended
            pass
        finally:
            network.unauthenticated.remove(self)
            network.tls_handshakes.pop(cast(asyncio.Task[None], asyncio.current_task()), None)

    def abort(self) -> None:
        """End the connection: its handshake fails, and the event loop closes the descriptor."""
        if self._socket is not None:
            with suppress(OSError):  # it has ended already
                self._socket.shutdown(socket.SHUT_RDWR)

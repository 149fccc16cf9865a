"""A small HTTP server for metrics and probes, on the event loop of the node.

It answers GET and HEAD for a few fixed paths and closes each connection after one answer.  The size
of a request, its time and the number of connections are limited.  One connection too many closes
the oldest, and connections in their TLS handshake count: so those that stay silent keep no probe
from its answer.  Connections with a client certificate do not compete with them.

On an address that other machines can reach, it speaks TLS with the certificate of the node.  The
probes answer every connection: they reveal only whether the node is well, and the probes of
Kubernetes have no certificate.  Other pages need a client certificate of the cluster's authority.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple

from habemus.runtimes.live.cluster_file import Address
from habemus.runtimes.live.log_limits import RateLimitedLog
from habemus.runtimes.live.peers.tls_server import TlsHandshakes
from habemus.runtimes.live.peers.unauthenticated import UnauthenticatedConnections

log = logging.getLogger("habemus.live")

REQUEST_LIMIT = 8_192
"""Bytes of a request with its headers."""
ANSWER_SECONDS = 5.0
MOST_CONNECTIONS = 64
"""Largest number without a client certificate, and of those with one."""
DESCRIPTORS_SHARE = 16
PLAIN = "text/plain; charset=utf-8"


class Page(NamedTuple):
    """An answer."""

    status: HTTPStatus
    body: bytes
    content_type: str = PLAIN


class PageSource(NamedTuple):
    """How the answer to requests for a path is made."""

    make: Callable[[], Awaitable[Page]]
    is_public: bool = True  # also for connections without a client certificate


class MonitoringServer:
    """Serves the pages of one node."""

    def __init__(
        self,
        pages: Mapping[str, PageSource],
        counts: Counter[str],
        limited_log: RateLimitedLog,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._pages = pages
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._unauthenticated = UnauthenticatedConnections(
            counts, limited_log, MOST_CONNECTIONS, DESCRIPTORS_SHARE
        )
        self._handshakes = TlsHandshakes(self._unauthenticated, limited_log)
        self._tasks: set[asyncio.Task[None]] = set()
        self._trusted = 0  # connections with a client certificate

    @property
    def is_secured(self) -> bool:
        return self._tls is not None

    async def listen(self, bind: Address) -> Address:
        """Bind the address and begin to answer.  Return the address."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(
            bind.host, bind.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, place = found[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.setblocking(False)
        self._server = await loop.create_server(self._protocol, sock=listening)
        return Address(*listening.getsockname()[:2])

    def _protocol(self) -> asyncio.Protocol:
        """Return the protocol of a connection that was accepted."""
        return (
            self._plain() if self._tls is None else self._handshakes.begin(self._tls, self._plain)
        )

    def _plain(self) -> asyncio.Protocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(REQUEST_LIMIT), self._accept)

    def use(self, tls: ssl.SSLContext) -> None:
        """Use another TLS context for new connections."""
        self._tls = tls

    async def close(self) -> None:
        """Stop to answer, and close all connections."""
        if self._server is not None:
            self._server.close()
        await self._handshakes.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task, transport = asyncio.current_task(), writer.transport
        assert task is not None
        is_trusted = _has_certificate(writer)
        if is_trusted and self._trusted >= MOST_CONNECTIONS:
            transport.abort()
            return
        self._tasks.add(task)
        self._trusted += is_trusted
        if not is_trusted:
            self._unauthenticated.add(transport)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                page, has_body = await self._answer(reader, is_trusted)
                writer.write(_encoded(page, has_body))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            pass  # the client has closed the connection, is too slow, or was the oldest
        finally:
            self._tasks.discard(task)
            self._trusted -= is_trusted
            self._unauthenticated.remove(transport)
            transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, is_trusted: bool) -> tuple[Page, bool]:
        """Return the answer to one request, and whether its body is sent."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "request too long"), True
        method, target, version = (*head.split(b"\r\n", 1)[0].split(b" "), b"", b"", b"")[:3]
        if not version.startswith(b"HTTP/1."):
            return _error(HTTPStatus.BAD_REQUEST, "not a request of HTTP/1"), True
        if method not in (b"GET", b"HEAD"):
            return _error(HTTPStatus.METHOD_NOT_ALLOWED, "use GET"), True
        source = self._pages.get(target.split(b"?")[0].decode("ascii", "replace"))
        has_body = method == b"GET"
        if source is None:
            paths = ", ".join(self._pages)
            return _error(HTTPStatus.NOT_FOUND, f"unknown path; there are {paths}"), has_body
        if not (is_trusted or source.is_public or self._tls is None):
            return _error(HTTPStatus.FORBIDDEN, "show a client certificate"), has_body
        try:
            return await source.make(), has_body
        except Exception:
            log.exception("cannot answer a request for %s", target.decode("ascii", "replace"))
            return _error(HTTPStatus.INTERNAL_SERVER_ERROR, "failed; see the log"), has_body


def _has_certificate(writer: asyncio.StreamWriter) -> bool:
    """Return whether the other end has shown a certificate, which TLS has then verified."""
    return bool(writer.get_extra_info("peercert"))


def _error(status: HTTPStatus, why: str) -> Page:
    return Page(status, f"{why}\n".encode())


def _encoded(page: Page, has_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {page.status.value} {page.status.phrase}\r\n"
        f"Content-Type: {page.content_type}\r\nContent-Length: {len(page.body)}\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + (page.body if has_body else b"")

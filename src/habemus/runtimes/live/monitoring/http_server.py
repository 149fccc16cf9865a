"""A small HTTP server for metrics and probes, on the event loop of the node.

It answers GET and HEAD for a few fixed paths and closes each connection after one answer.  The size
of a request, its time and the number of connections are limited.

On an address that other machines can reach, it speaks TLS with the certificate of the node.  The
probes answer every connection: they reveal only whether the node is well, and the probes of
Kubernetes have no certificate.  Other pages need a client certificate of the cluster's authority.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

from habemus.runtimes.live.cluster_file import Address
from habemus.runtimes.live.sockets import HANDSHAKE_SECONDS

log = logging.getLogger("habemus.live")

REQUEST_LIMIT = 8_192
"""Bytes of a request with its headers."""
ANSWER_SECONDS = 5.0
MOST_CONNECTIONS = 64
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

    def __init__(self, pages: Mapping[str, PageSource], tls: ssl.SSLContext | None = None) -> None:
        self._pages = pages
        self._tls = tls
        self._listening: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

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
        listening = self._listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.setblocking(False)
        await self._serve(listening)
        return Address(*listening.getsockname()[:2])

    async def _serve(self, listening: socket.socket) -> None:
        secured: dict[str, Any] = (
            {} if self._tls is None else {"ssl_handshake_timeout": HANDSHAKE_SECONDS}
        )
        self._server = await asyncio.start_server(
            self._accept, sock=listening.dup(), limit=REQUEST_LIMIT, ssl=self._tls, **secured
        )

    async def use(self, tls: ssl.SSLContext) -> None:
        """Use another TLS context for new connections."""
        assert self._listening is not None
        before, self._tls = self._server, tls
        await self._serve(self._listening)  # no connection is refused meanwhile
        if before is not None:
            before.close()

    async def close(self) -> None:
        """Stop to answer, and close all connections."""
        if self._server is not None:
            self._server.close()
        if self._listening is not None:
            self._listening.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) >= MOST_CONNECTIONS:
            writer.transport.abort()
            return
        self._connections.add(task)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                page, has_body = await self._answer(reader, _has_certificate(writer))
                writer.write(_encoded(page, has_body))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            pass  # the client has closed the connection, or is too slow
        finally:
            self._connections.discard(task)
            writer.transport.abort()

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

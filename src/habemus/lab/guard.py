"""The guard before every request: only a page of this very server may talk to it.

A page of another site can make a browser send requests to a server on this machine, and by DNS
rebinding it can do so under its own name.  Such requests have another Host or another Origin than
the addresses of this server, so both are compared with a list, for every request and for every
WebSocket before it is accepted.  What remains is another program of this machine: it lacks the
token.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, TypeAlias

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

NAMES = ("127.0.0.1", "localhost")
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:;"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""Headers of every answer: the page loads nothing from elsewhere and cannot be framed."""


def new_token() -> str:
    return secrets.token_urlsafe(24)


def is_token(given: object, token: str) -> bool:
    """Compare in constant time."""
    return isinstance(given, str) and hmac.compare_digest(
        given.encode(errors="replace"), token.encode()
    )


class OriginGuard:
    """ASGI middleware that refuses requests of other origins with 403."""

    def __init__(self, application: Application, port: int) -> None:
        self._application = application
        self._hosts = {f"{name}:{port}" for name in NAMES}
        if port == 80:
            self._hosts.update(NAMES)  # browsers leave the default port out
        self._origins = {f"http://{host}" for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
        elif not self._allows(scope):
            await _refuse(scope, send)
        else:
            await self._application(scope, receive, _with_headers(send))

    def _allows(self, scope: Scope) -> bool:
        hosts = _values(scope["headers"], b"host")
        origins = _values(scope["headers"], b"origin")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return False
        if scope["type"] == "websocket" and len(origins) != 1:
            return False  # every browser sends one
        return all(origin in self._origins for origin in origins)


def _values(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key.lower() == name]


async def _refuse(scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})  # before accepting: HTTP 403
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    headers += [(name.encode(), value.encode()) for name, value in HEADERS.items()]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": b"refused: wrong Host or Origin\n"})


def _with_headers(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            message["headers"] = [*message.get("headers", ()), *added]
        await send(message)

    return sending

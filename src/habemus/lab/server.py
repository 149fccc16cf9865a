"""The server of the lab: the files of the page, and one WebSocket for each session.

It listens on the loopback interface only.  `habemus.lab.guard` refuses other origins.  The token is
in the fragment of the address, which browsers do not send; the page sends it as its first message.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from habemus.lab.guard import OriginGuard, is_token, new_token
from habemus.lab.listing import listing
from habemus.lab.strangers import Strangers
from habemus.lab.worker import SESSION, WorkerEnded, WorkerLimits, WorkerProcess

HOST = "127.0.0.1"
MOST_SESSIONS = 8
MOST_WAITING = 64
"""Requests of one session that may wait for an answer."""
MESSAGE_BYTES = 64_000_000
"""Longest message from the page: it may be the text of a trace."""
TOKEN_SECONDS = 10.0
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


class PortTaken(Exception):
    """Another program listens on the port."""


@dataclass
class LabServer:
    """One lab: its address, its token, what it opens first, and its sessions."""

    port: int
    opens: Mapping[str, Any] | None = None
    """The first request of a new page, such as `{"run": "central -n 3"}`."""
    limits: WorkerLimits = field(default_factory=WorkerLimits)
    session: str = SESSION
    token: str = field(default_factory=new_token)
    sessions: int = 0
    strangers: Strangers = field(default_factory=Strangers)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/#token={self.token}"

    def application(self) -> OriginGuard:
        routes = [Route(path, _file_of(name)) for path, name in page_files().items()]
        starlette = Starlette(routes=[*routes, WebSocketRoute("/session", self._serve)])
        return OriginGuard(starlette, self.port)

    async def _serve(self, websocket: WebSocket) -> None:
        """Serve one page from its token to its end."""
        await websocket.accept()
        try:
            async with asyncio.timeout(TOKEN_SECONDS):
                first = _decoded(await websocket.receive_text())
        except (TimeoutError, WebSocketDisconnect, KeyError):
            first = None
        self.strangers.forget(websocket.client)
        if first is None or not is_token(first.get("token"), self.token):
            await _close(websocket, 4401, "wrong token")
        elif self.sessions >= MOST_SESSIONS:
            await _close(websocket, 4429, f"there are {MOST_SESSIONS} pages open; close one")
        else:
            self.sessions += 1
            try:
                known = await asyncio.to_thread(listing)
                await websocket.send_json({"is": "welcome", "opens": self.opens, **known})
                await _Connection(websocket, WorkerProcess(self.limits, self.session)).serve()
            finally:
                self.sessions -= 1


class _Connection:
    """Relays between one page and its worker."""

    def __init__(self, websocket: WebSocket, worker: WorkerProcess) -> None:
        self._websocket = websocket
        self._worker = worker
        self._requests: asyncio.Queue[dict[str, Any]] = asyncio.Queue(MOST_WAITING)

    async def serve(self) -> None:
        answering = asyncio.create_task(self._answer())
        try:
            with suppress(WebSocketDisconnect, KeyError):  # closed; a binary message
                await self._read()
        finally:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)
            await self._worker.kill()

    async def _read(self) -> None:
        """Queue requests.  Reading goes on while one is answered, so that an end is noticed."""
        while True:
            request = _decoded(await self._websocket.receive_text())
            if request is None:
                return await _close(self._websocket, 1007, "not a JSON object")
            if self._requests.full():
                return await _close(self._websocket, 1008, f"more than {MOST_WAITING} requests")
            self._requests.put_nowait(request)

    async def _answer(self) -> None:
        with suppress(WorkerEnded):  # then the first request says why
            await self._worker.start()
        while True:
            request = await self._requests.get()
            try:
                async with aclosing(self._worker.ask(request)) as replies:
                    async for reply in replies:
                        await self._websocket.send_text(reply.decode())
            except WorkerEnded as ended:
                await self._websocket.send_json(
                    {"id": request.get("id"), "is": "ended", "message": str(ended), "done": True}
                )


def _decoded(text: str) -> dict[str, Any] | None:
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


async def _close(websocket: WebSocket, code: int, reason: str) -> None:
    with suppress(RuntimeError, WebSocketDisconnect):  # the page was faster
        await websocket.close(code, reason)


def page_files() -> dict[str, str]:
    """Return the files of the page by their paths on the server; there are no others."""
    files = sorted(
        each.name for each in _page().iterdir() if each.name[each.name.rfind(".") :] in TYPES
    )
    return {"/": "index.html", **{f"/{name}": name for name in files}}


def _page() -> Any:
    return resources.files("habemus.lab") / "page"


def _file_of(name: str) -> Any:
    kind = TYPES[name[name.rfind(".") :]]

    async def file(_: Request) -> Response:
        return Response((_page() / name).read_bytes(), headers={"content-type": kind})

    return file


def listen(port: int) -> socket.socket:
    """Return a socket that listens on the loopback interface; port 0 is a free one."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise PortTaken(f"port {port} cannot be used: {error.strerror}") from None
    return listening


def config_of(lab: LabServer) -> uvicorn.Config:
    return uvicorn.Config(
        lab.application(),
        http=lab.strangers.protocol(),
        log_level="critical",
        access_log=False,
        lifespan="off",
        proxy_headers=False,
        server_header=False,
        ws="websockets-sansio",
        ws_max_size=MESSAGE_BYTES,
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=1,
    )


async def serve(lab: LabServer, listening: socket.socket) -> None:
    """Serve until a signal ends it."""
    await uvicorn.Server(config_of(lab)).serve(sockets=[listening])

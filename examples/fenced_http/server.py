"""A resource on the web that refuses late writers: one document, to be read by everybody and
written by the holder of the lock.

    python examples/fenced_http/server.py report.txt 8080

A writer shows the token of its lock in the header `Habemus-Token`.  The answers:

    204  written
    400  that is not a token
    411  no length, or none that can be understood
    412  stale: a newer token has been accepted; `Habemus-Token` in the answer says which
    413  too long
    428  no token: a writer has to show one
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from habemus.fencing import FencedFile, StaleToken, token_from

LONGEST = 1 << 20
PATIENCE = 10.0
"""Seconds that a client may let us wait."""

Answer = tuple[str, bytes, list[tuple[str, str]]]


class Document:
    """As a WSGI application, so that any server can run it."""

    def __init__(self, path: Path) -> None:
        self._file = FencedFile(path)

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        answers = {"GET": self._get, "PUT": self._put}
        answer = answers.get(environ["REQUEST_METHOD"])
        status, body, headers = (
            answer(environ) if answer else ("405 Method Not Allowed", b"", [("Allow", "GET, PUT")])
        )
        start_response(
            status,
            [
                ("Content-Type", "text/plain; charset=utf-8"),
                ("Content-Length", str(len(body))),
                *headers,
            ],
        )
        return [body]

    def _get(self, environ: dict[str, Any]) -> Answer:
        try:
            return "200 OK", self._file.read(), []
        except FileNotFoundError:
            return "404 Not Found", b"nothing has been written yet\n", []

    def _put(self, environ: dict[str, Any]) -> Answer:
        shown = environ.get("HTTP_HABEMUS_TOKEN")
        if shown is None:
            return (
                "428 Precondition Required",
                b"show the token of your lock in the header Habemus-Token\n",
                [],
            )
        length = environ.get("CONTENT_LENGTH") or ""
        if not (length.isascii() and length.isdigit()):
            return "411 Length Required", b"", []
        if len(length) > 9 or int(length) > LONGEST:
            return "413 Content Too Large", b"", []
        content = environ["wsgi.input"].read(int(length))
        if len(content) != int(length):
            return "400 Bad Request", b"the content is shorter than its Content-Length\n", []
        try:
            self._file.write(content, token_from(shown))
        except StaleToken as refusal:
            return (
                "412 Precondition Failed",
                f"{refusal}\n".encode(),
                [("Habemus-Token", str(refusal.newest))],
            )
        except ValueError as mistake:
            return "400 Bad Request", f"{mistake}\n".encode(), []
        return "204 No Content", b"", []


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Handler(WSGIRequestHandler):
    timeout = PATIENCE

    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing: the answer says it all."""


def serve(path: Path, port: int) -> Server:
    """On the loopback device; port 0 takes a free one."""
    return make_server(
        "127.0.0.1", port, Document(path), server_class=Server, handler_class=Handler
    )


if __name__ == "__main__":
    with serve(Path(sys.argv[1]), int(sys.argv[2])) as server:
        print(f"http://127.0.0.1:{server.server_port}/", flush=True)
        server.serve_forever()

"""A node played by the test: what it says is up to the test, not to a cluster."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from habemus.runtimes.live.certificates import CertificateFiles, client, make, node

PATIENCE = 30.0
"""Seconds after which a test that waits has failed."""
SERVICES = {
    "locks": {"problem": "mutex", "algorithm": "x", "lease_ms": None, "sees_waiters": False}
}
WELCOME = {"cluster": "office", "node": 1, "session": "s", "nodes": {}, "services": SERVICES}

Answer = Callable[[list[Any]], bytes]
"""What the node says to a line of the client."""


def line(*said: object) -> bytes:
    return json.dumps(said, separators=(",", ":")).encode() + b"\n"


def grants(said: list[Any], token: int = 7) -> bytes:
    """Answer as a node that asks for no proof and grants everything for ever."""
    if said[0] == "hello":
        return line("welcome", WELCOME)
    if said[0] == "request":
        return line("granted", said[1], token, None, said[6], said[3][0])
    return b""


class FakeNode:
    def __init__(
        self, answer: Answer, place: str | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._answer = answer
        self._tls = tls
        self._connections: list[socket.socket] = []
        if place is None:
            self._socket = socket.create_server(("127.0.0.1", 0))
            self.place = f"127.0.0.1:{self._socket.getsockname()[1]}"
        else:
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.bind(place)
            self._socket.listen()
            self.place = place
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                made, _ = self._socket.accept()
                self._threads.append(threading.Thread(target=self._serve, args=(made,)))
                self._threads[-1].start()

    def _serve(self, accepted: socket.socket) -> None:
        with suppress(OSError), self._secured(accepted) as made, made.makefile("rb") as lines:
            self._connections.append(made)
            for said in lines:
                made.sendall(self._answer(json.loads(said)))

    def _secured(self, accepted: socket.socket) -> socket.socket:
        return self._tls.wrap_socket(accepted, server_side=True) if self._tls else accepted

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._threads[0].join(PATIENCE)
        self._socket.close()
        for made in self._connections:
            with suppress(OSError):
                made.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join(PATIENCE)


@pytest.fixture
def fake_node() -> Iterator[Callable[..., FakeNode]]:
    made: list[FakeNode] = []

    def start(*given: Any, **more: Any) -> FakeNode:
        made.append(FakeNode(*given, **more))
        return made[-1]

    yield start
    for each in made:
        each.close()


@pytest.fixture(scope="session")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of node 1 and of a client."""
    folder = tmp_path_factory.mktemp("papers")
    names = ("ca", "node-1", "client-alice")
    files = {
        name: CertificateFiles(folder / f"{name}.pem", folder / f"{name}.key") for name in names
    }
    leaves = [node("office", 1, files["node-1"]), client("office", "alice", files["client-alice"])]
    make(files["ca"], "office", leaves)
    return folder


@pytest.fixture(scope="session")
def stolen(papers: Path) -> ssl.SSLContext:
    """What a thief of the key of node 1 can do with it."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=papers / "ca.pem")
    context.load_cert_chain(papers / "node-1.pem", papers / "node-1.key")
    return context


@pytest.fixture(scope="session")
def alice(papers: Path) -> dict[str, str]:
    """The certificates of a client, as `habemus.connect` takes them."""
    return {
        "ca": str(papers / "ca.pem"),
        "certificate": str(papers / "client-alice.pem"),
        "key": str(papers / "client-alice.key"),
    }

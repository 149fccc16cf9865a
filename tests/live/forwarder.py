"""A TCP forwarder whose connections a test can cut."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from tests.live.conftest import PATIENCE


class Forwarder:
    """Between a client and its node, as a firewall or a load balancer would be."""

    def __init__(self, to: str) -> None:
        host, port = to.split(":")
        self._to = host, int(port)
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                pair = near, socket.create_connection(self._to)
                with self._lock:
                    self._pairs.append(pair)
                for one, other in (pair, pair[::-1]):
                    self._threads.append(threading.Thread(target=self._forward, args=(one, other)))
                    self._threads[-1].start()

    def _forward(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65_536):
                other.sendall(data)
        shut_down(one, other)

    def cut(self) -> None:
        with self._lock:
            for pair in self._pairs:
                shut_down(*pair)

    def close(self) -> None:
        shut_down(self._listener)
        self._threads[0].join(PATIENCE)
        self.cut()
        for thread in self._threads[1:]:
            thread.join(PATIENCE)
        for each in [self._listener, *(end for pair in self._pairs for end in pair)]:
            each.close()


def shut_down(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)

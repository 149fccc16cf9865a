"""A server that gives back what it gets, on a port and on a local socket: python echo.py
PORT PATH.
"""

from __future__ import annotations

import socket
import sys
import threading


def echo(connected: socket.socket) -> None:
    while data := connected.recv(4_096):
        connected.sendall(data)


def serve(listening: socket.socket) -> None:
    while True:
        connected, _ = listening.accept()
        if connected.family != socket.AF_UNIX:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=echo, args=(connected,), daemon=True).start()


def main() -> None:
    _, port, path = sys.argv
    local = socket.socket(socket.AF_UNIX)
    local.bind(path)
    local.listen()
    threading.Thread(target=serve, args=(local,), daemon=True).start()
    serve(socket.create_server(("127.0.0.1", int(port))))


if __name__ == "__main__":
    main()

"""What cannot be beaten: a bare round trip over a socket, and a lock in the kernel of one machine.  And a lock that does not lock."""

from __future__ import annotations

import fcntl
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.live.rival import Service, answers, free_port

SERVER = Path(__file__).with_name("echo.py")
LINE = b'["acquire",1,"locks",["x"],null,2000,123456789]\n'


class Echo(Service):
    """Gives back every line; one round trip stands for a cycle."""

    def __init__(self) -> None:
        super().__init__("loopback")

    def start(self, folder: Path) -> None:
        self._port, self._path = free_port(), f"{folder}/echo.sock"
        self.spawn([sys.executable, "-I", str(SERVER), str(self._port), self._path], folder, answers(self._port))

    def by_tcp(self) -> EchoDoor:
        return EchoDoor(self._port, None)

    def local(self) -> EchoDoor:
        return EchoDoor(None, self._path)


@dataclass(frozen=True)
class EchoDoor:
    port: int | None
    path: str | None

    def open(self) -> _EchoClient:
        if self.path is not None:
            made = socket.socket(socket.AF_UNIX)
            made.connect(self.path)
        else:
            made = socket.create_connection(("127.0.0.1", self.port or 0))
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return _EchoClient(made)


class _EchoClient:
    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def lock(self, name: str) -> _EchoClient:
        return self

    def acquire(self) -> None:
        self._socket.sendall(LINE)
        self._socket.recv(4_096)

    def release(self) -> None:
        pass


class Flock(Service):
    """flock(2): the kernel lets the next one in when it tears down the one before."""

    def __init__(self) -> None:
        super().__init__("flock(2)")

    def start(self, folder: Path) -> None:
        self._folder = str(folder)

    def door(self) -> FlockDoor:
        return FlockDoor(self._folder)


@dataclass(frozen=True)
class FlockDoor:
    folder: str

    def open(self) -> FlockDoor:
        return self

    def lock(self, name: str) -> _FlockLock:
        return _FlockLock(os.open(f"{self.folder}/{name}", os.O_CREAT | os.O_RDWR))


class _FlockLock:
    def __init__(self, file: int) -> None:
        self.file = file

    def acquire(self) -> None:
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def release(self) -> None:
        fcntl.flock(self.file, fcntl.LOCK_UN)


@dataclass(frozen=True)
class CarelessDoor(FlockDoor):
    """To a lock that is given back too early: if nobody is seen to overlap with it, the benchmark would not see it anywhere."""

    def open(self) -> CarelessDoor:
        return self

    def lock(self, name: str) -> _CarelessLock:
        return _CarelessLock(super().lock(name))


class _CarelessLock(_FlockLock):
    def __init__(self, lock: _FlockLock) -> None:
        super().__init__(lock.file)

    def acquire(self) -> None:
        super().acquire()
        super().release()

    def release(self) -> None:
        pass

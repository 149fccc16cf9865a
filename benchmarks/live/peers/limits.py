"""What cannot be beaten: a bare round trip, bare hand-overs, and a lock in the kernel of one
machine.  And a lock that does not lock.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.live.rival import PATIENCE_SECONDS, Absent, Service, answers, free_port

SERVER = Path(__file__).with_name("echo.py")
PASSING = Path(__file__).with_name("passing.py")
LINE = b'["request",1,"locks",["x"],null,2000,123456789]\n'


class Echo(Service):
    """Gives back every line; one round trip stands for a cycle."""

    def __init__(self) -> None:
        super().__init__("loopback")

    def start(self, folder: Path) -> None:
        self._port, self._path = free_port(), f"{folder}/echo.sock"
        self.spawn(
            [sys.executable, "-I", str(SERVER), str(self._port), self._path],
            folder,
            answers(self._port),
        )

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


class Passing(Service):
    """Servers that hand one permission from client to client, and do nothing else: what a hand-over
    takes at least.
    """

    def __init__(self, size: int) -> None:
        super().__init__(f"bare hand-overs by {size}")
        self._size = size

    def start(self, folder: Path) -> None:
        self._folder = folder
        for number in range(1, self._size + 1):
            self.spawn(
                [sys.executable, "-I", str(PASSING), str(folder), str(number), str(self._size)],
                folder,
                lambda: True,
            )
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not all((folder / f"{number}.sock").exists() for number in range(1, self._size + 1)):
            if time.monotonic() > deadline:
                raise Absent("the servers do not find each other")
            time.sleep(0.02)

    def everywhere(self, count: int) -> list[PassingDoor]:
        return [
            PassingDoor(f"{self._folder}/{1 + turn % self._size}.sock") for turn in range(count)
        ]


@dataclass(frozen=True)
class PassingDoor:
    path: str

    def open(self) -> _PassingClient:
        made = socket.socket(socket.AF_UNIX)
        made.connect(self.path)
        return _PassingClient(made)


class _PassingClient:
    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def lock(self, name: str) -> _PassingClient:
        return self

    def acquire(self) -> None:
        self._socket.send(b"a")
        self._socket.recv(1)

    def release(self) -> None:
        self._socket.send(b"r")


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
    """To a lock that is given back too early: if nobody is seen to overlap with it, the benchmark
    would not see it anywhere.
    """

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

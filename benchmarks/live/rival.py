"""What takes part: a service that has locks, and the clients that come to it.

A service lives in processes that the benchmark starts and ends.  A *door* is what a client process
is given: it can be sent to another process, and opens a connection there.  A lock is acquired and
released by calls that block.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

PATIENCE_SECONDS = 30.0


class Absent(Exception):
    """A rival that cannot be had here, and why."""


class Lock(Protocol):
    def acquire(self) -> object: ...

    def release(self) -> object: ...


class Client(Protocol):
    def lock(self, name: str) -> Lock: ...


class Door(Protocol):
    def open(self) -> Client: ...


class Service:
    """Server processes with their files in a temporary folder."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, folder: Path) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def spawn(
        self, command: Sequence[str], folder: Path, is_up: Callable[[], bool]
    ) -> subprocess.Popen[bytes]:
        """A server, as soon as it is up; `Absent` if it does not come up."""
        path = folder / f"log-{len(self._processes)}"
        with path.open("ab") as log:
            process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        self._processes.append(process)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_up():
            if process.poll() is not None or time.monotonic() > deadline:
                last = path.read_text(errors="replace").strip().splitlines()[-1:]
                raise Absent(f"{command[0]} does not come up: {' '.join(last)}")
            time.sleep(0.02)
        return process


def program(name: str, package: str, *places: str) -> str:
    """Where it is; Debian does not put every server on the path."""
    found = shutil.which(
        name, path=os.pathsep.join([*places, os.environ.get("PATH", ""), "/usr/sbin"])
    )
    if found is None:
        raise Absent(f"there is no {name}; on Debian: apt-get install {package}")
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers(port: int) -> Callable[[], bool]:
    def is_up() -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    return is_up


def spent_ns(pids: Iterable[int]) -> int:
    """Processor time of these processes, all their threads and children."""
    return sum(_spent_ns(pid) for pid in pids)


def _spent_ns(pid: int) -> int:
    clock = ~pid << 3 | 2  # of another process: clock_getcpuclockid(3), which Python does not have
    with suppress(OSError):  # it may just have ended
        children = [
            int(each)
            for file in Path(f"/proc/{pid}/task").glob("*/children")
            for each in file.read_text().split()
        ]
        return time.clock_gettime_ns(clock) + spent_ns(children)
    return 0


@contextmanager
def on_cores(cores: frozenset[int] | None) -> Iterator[None]:
    """Whatever is started inside stays on these cores."""
    if cores is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)

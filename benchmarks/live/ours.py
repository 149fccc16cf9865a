"""Clusters of real `habemus node` processes."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.live.rival import PATIENCE_SECONDS, Absent, Service, free_port

import habemus
from habemus import Cluster, HabemusError, Lease
from habemus.runtimes.compiled import is_compiled

FORM = "compiled" if is_compiled() else "pure Python"
"""Of the nodes: they run what this process would."""


class Habemus(Service):
    def __init__(
        self, name: str, algorithm: str | None = None, size: int = 3, *, durable: bool = False
    ) -> None:
        """Without an algorithm: what a user gets who names none."""
        super().__init__(name)
        self._algorithm = algorithm
        self._durable = durable
        self.size = size
        self._nodes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, folder: Path) -> None:
        self._folder = folder
        self._ports = {number: free_port() for number in range(1, self.size + 1)}
        memory = 'data = "data"' if self._durable else 'memory = "none"'
        lines = [
            memory,
            'socket = "{id}.sock"',
            "[nodes]",
            *(f'{number} = "127.0.0.1:{port}"' for number, port in self._ports.items()),
        ]
        if self._durable:
            (folder / "data").mkdir()
        if self._algorithm is not None:
            lines += ["[services.locks]", f'algorithm = "{self._algorithm}"']
        self.file = folder / "cluster.toml"
        self.file.write_text("\n".join(lines) + "\n")
        for number in self._ports:
            self.start_node(number)
        self.settle()

    def start_node(self, number: int) -> None:
        """`settle` waits until it is up."""
        command = [
            sys.executable,
            "-m",
            "habemus",
            "node",
            "--config",
            str(self.file),
            "--id",
            str(number),
        ]
        self._nodes[number] = self.spawn(command, self._folder, lambda: True)

    def kill_node(self, number: int) -> None:
        process = self._nodes.pop(number)
        self._processes.remove(process)
        process.kill()
        process.wait()

    def settle(self) -> None:
        """Until every node reaches all others and, where one leads, agrees on who does."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._is_settled():
            ended = [
                number for number, process in self._nodes.items() if process.poll() is not None
            ]
            if ended or time.monotonic() > deadline:
                raise Absent(
                    f"node {ended[0]} has ended" if ended else "the nodes do not find each other"
                )
            time.sleep(0.02)
        assert all(self._form(number) == FORM for number in self._nodes)

    def _form(self, number: int) -> str:
        """Of a node that runs."""
        status = self._status(number)
        return "gone" if status is None else "compiled" if status["compiled"] else "pure Python"

    def _is_settled(self) -> bool:
        found = [self._status(number) for number in self._nodes]
        reach = all(
            status is not None and len(status["reaches"]) == self.size - 1 for status in found
        )
        return reach and (
            self._algorithm is not None or (len(self.leaders()) == 1 and None not in self.leaders())
        )

    def leaders(self) -> set[int | None]:
        """Whom the nodes take for the leader."""
        found = [self._status(number) for number in self._nodes]
        return {
            each["leader"] for status in found if status is not None for each in status["leaders"]
        }

    def _status(self, number: int) -> dict[str, Any] | None:
        with suppress(HabemusError), habemus.connect(self.path(number)) as cluster:
            return cluster.status()
        return None

    def leader(self) -> int:
        """The node whose process leads, where there is such a thing; else the first, where the
        coordinator lives, if there is one.
        """
        return next(iter(self.leaders() - {None}), None) or 1

    def another(self) -> int:
        leader = self.leader()
        return next(number for number in self._nodes if number != leader)

    def path(self, number: int) -> str:
        return str(self._folder / f"{number}.sock")

    # Doors.

    def at(self, number: int) -> Door:
        """By TCP, as all peers that are asked from other machines."""
        return Door(f"127.0.0.1:{self._ports[number]}")

    def local(self, number: int) -> Door:
        return Door(self.path(number))

    def everywhere(self, count: int) -> list[Door]:
        """The clients spread over the nodes."""
        return [self.at(1 + turn % self.size) for turn in range(count)]

    def keeping(self, number: int) -> Door:
        """For a client that keeps a lock until somebody else asks for it."""
        return Door(f"127.0.0.1:{self._ports[number]}", keeps=True)


@dataclass(frozen=True)
class Door:
    place: str
    keeps: bool = False

    def open(self) -> _Client:
        return _Client(habemus.connect(self.place), self.keeps)


class _Client:
    def __init__(self, cluster: Cluster, keeps: bool) -> None:
        self._cluster = cluster
        self._keeps = keeps

    def lock(self, name: str) -> _Lock:
        return _Lock(self._cluster, name, self._keeps)


class _Lock:
    def __init__(self, cluster: Cluster, name: str, keeps: bool) -> None:
        self._lock = cluster.lock(name, keep=keeps)
        self._lease: Lease

    def acquire(self) -> None:
        self._lease = self._lock.acquire()

    def release(self) -> None:
        self._lock.release(self._lease)

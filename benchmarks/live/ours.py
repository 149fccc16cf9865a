"""Clusters of real `habemus node` processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.live.rival import PATIENCE_SECONDS, Absent, Service, free_port

import habemus
from habemus.api import Cluster, HabemusError, Lease


class Habemus(Service):
    def __init__(self, name: str, algorithm: str | None = None, size: int = 3, *, durable: bool = False) -> None:
        """Without an algorithm: what a user gets who names none."""
        super().__init__(name)
        self._algorithm = algorithm
        self._durable = durable
        self.size = size
        self._nodes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, folder: Path) -> None:
        self._folder = folder
        self._ports = {number: free_port() for number in range(1, self.size + 1)}
        lines = ['socket = "{id}.sock"', "[nodes]", *(f'{number} = "127.0.0.1:{port}"' for number, port in self._ports.items())]
        if self._durable:
            (folder / "data").mkdir()
            lines.insert(0, 'data = "data"')
        if self._algorithm is not None:
            lines += ["[services.locks]", f'algorithm = "{self._algorithm}"']
        self.file = folder / "cluster.toml"
        self.file.write_text("\n".join(lines) + "\n")
        for number in self._ports:
            self.start_node(number)
        self.settle()

    def start_node(self, number: int) -> None:
        """`settle` waits until it is up."""
        command = [sys.executable, "-m", "habemus", "node", "--config", str(self.file), "--id", str(number)]
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
            ended = [number for number, process in self._nodes.items() if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise Absent(f"node {ended[0]} has ended" if ended else "the nodes do not find each other")
            time.sleep(0.02)

    def _is_settled(self) -> bool:
        found = [self._status(number) for number in self._nodes]
        reach = all(status is not None and len(status["reaches"]) == self.size - 1 for status in found)
        return reach and (self._algorithm is not None or (len(self.leaders()) == 1 and None not in self.leaders()))

    def leaders(self) -> set[int | None]:
        """Whom the nodes take for the leader."""
        found = [self._status(number) for number in self._nodes]
        return {each["leader"] for status in found if status is not None for each in status["leaders"]}

    def _status(self, number: int) -> dict[str, Any] | None:
        with suppress(HabemusError), habemus.connect(self.path(number)) as cluster:
            return cluster.status()
        return None

    def leader(self) -> int:
        """The node whose process leads, where there is such a thing; else the first, where the coordinator lives, if there is one."""
        return next(iter(self.leaders() - {None}), None) or 1

    def another(self) -> int:
        leader = self.leader()
        return next(number for number in self._nodes if number != leader)

    def path(self, number: int) -> str:
        return str(self._folder / f"{number}.sock")

    # Doors.

    def at(self, number: int) -> Door:
        return Door(self.path(number))

    def by_tcp(self, number: int) -> Door:
        return Door(f"127.0.0.1:{self._ports[number]}")

    def everywhere(self, count: int) -> list[Door]:
        """The clients spread over the nodes."""
        return [self.at(1 + turn % self.size) for turn in range(count)]

    def embedded(self) -> EmbeddedDoor:
        """Ends the first node, and lets the client be it."""
        self.kill_node(1)
        return EmbeddedDoor(str(self.file))


@dataclass(frozen=True)
class Door:
    place: str

    def open(self) -> _Client:
        return _Client(habemus.connect(self.place))


class _Client:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def lock(self, name: str) -> _Lock:
        return _Lock(self._cluster, name)


class _Lock:
    def __init__(self, cluster: Cluster, name: str) -> None:
        self._lock = cluster.lock(name)
        self._lease: Lease

    def acquire(self) -> None:
        self._lease = self._lock.acquire()

    def release(self) -> None:
        self._lock.release(self._lease)


@dataclass(frozen=True)
class EmbeddedDoor:
    """To a node inside the client's own process: no socket lies between the program and the algorithm."""

    file: str

    def open(self) -> _Embedded:
        return _Embedded(Path(self.file))


class _Embedded:
    def __init__(self, file: Path) -> None:
        import uvloop

        from habemus.cli.node import services_of
        from habemus.runtimes.live.config import load

        config = load(file, {}, {})
        self._loop = uvloop.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self._node = habemus.Node(config.settings(1), services_of(config))
        self._loop.run_until_complete(self._node.start())
        while len(self._node.reaches()) < len(config.nodes) - 1:
            self._loop.run_until_complete(asyncio.sleep(0.02))

    def lock(self, name: str) -> _EmbeddedLock:
        return _EmbeddedLock(self._loop, self._node, name)


class _EmbeddedLock:
    def __init__(self, loop: asyncio.AbstractEventLoop, node: habemus.Node, name: str) -> None:
        self._loop = loop
        self._node = node
        self._name = name
        self._granted = False
        node.subscribe("locks", name, self._hear)

    def _hear(self, process: int, said: object) -> None:
        self._granted = True
        if self._loop.is_running():
            self._loop.stop()

    def acquire(self) -> None:
        self._granted = False
        self._node.ask("locks", self._name, "acquire")
        while not self._granted:
            self._loop.run_forever()

    def release(self) -> None:
        self._node.ask("locks", self._name, "release")

"""Clusters for tests: real nodes in processes of their own, in a temporary folder."""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import habemus

if TYPE_CHECKING:
    from habemus.client.blocking import Cluster

START_SECONDS = 60.0
"""How long a cluster may take to start, on a machine that is busy."""
LOOK_SECONDS = 0.005


class _Nursery:
    """The process that makes nodes; started for the first cluster, and ended with this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def start_node(self, file: Path, number: int, log: Path) -> int:
        """Return the id of a new process that is a node."""
        with self._lock:
            process = self._process
            if process is None or process.poll() is not None:
                process = self._process = self._started()
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(json.dumps([str(file), number, str(log)]) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        if not answer:
            raise RuntimeError("the process that makes nodes for tests has ended")
        return int(answer)

    def _started(self) -> subprocess.Popen[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HABEMUS")}
        made = subprocess.Popen(
            [sys.executable, "-m", "habemus.testing.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=kept,
            start_new_session=True,  # Ctrl-C is for the tests
        )
        atexit.register(_end, made)
        return made


def _end(process: subprocess.Popen[str]) -> None:
    process.communicate()


_nursery = _Nursery()


def _default_algorithm() -> str:
    """Return the default algorithm of a cluster; `ModuleNotFoundError` without habemus[live]."""
    try:
        from habemus.runtimes.live.config import DEFAULT_ALGORITHM
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            f"clusters for tests need the package {missing.name}:"
            " pip install '.[live]' in your clone"
        ) from None
    return DEFAULT_ALGORITHM


class NodeProcesses:
    """A cluster of real nodes on this machine, for tests.

        with NodeProcesses(tmp_path) as nodes, nodes.connect() as cluster:
            cluster.lock("report").acquire()
            nodes.kill(1)

    The nodes store their durable state in the folder, and sync it.

    folder: an empty folder, for the cluster.toml and the data of the nodes.
    size: the number of nodes; three tolerate the death of one.
    lease: the lease of locks, in seconds or as a text such as "2s".  The default is longer than a
        busy machine stalls; when a node is killed, its locks are free when the lease has expired.
    semaphores: the sizes of semaphores, by name.
    """

    def __init__(
        self,
        folder: Path | str,
        size: int = 3,
        lease: float | str = "5s",
        semaphores: Mapping[str, int] | None = None,
    ) -> None:
        if not hasattr(os, "fork"):
            raise RuntimeError("clusters for tests need a system with fork, such as Linux or macOS")
        if size < 1:
            raise ValueError(f"size={size}: a cluster has at least 1 node")
        lease = _lease_text(lease)
        self.folder = folder = Path(folder)
        self.url = str(folder / "cluster.toml")
        """The address for `habemus.connect`, and for commands in HABEMUS_CLUSTER."""
        self._ports = [_bound_port() for _ in range(size)]
        self._pids: dict[int, int] = {}
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / "data").mkdir(exist_ok=True)
        nodes = "\n".join(
            f'{number} = "127.0.0.1:{port.getsockname()[1]}"'
            for number, port in enumerate(self._ports, 1)
        )
        sizes = "".join(
            f"{json.dumps(name)} = {count}\n" for name, count in (semaphores or {}).items()
        )
        Path(self.url).write_text(
            f'cluster = "tests"\ndata = "data"\nsocket = "{{id}}.sock"\n\n[nodes]\n{nodes}\n\n'
            f'[services.locks]\nalgorithm = "{_default_algorithm()}"\n'
            f"options = {{ lease = {json.dumps(lease)} }}\n\n[semaphores]\n{sizes}",
            encoding="utf-8",
        )

    @property
    def up(self) -> list[int]:
        """The numbers of the nodes that run."""
        return sorted(self._pids)

    def connect(self, name: str | None = None) -> Cluster:
        """Return a client of the cluster; see `habemus.connect`."""
        return habemus.connect(self.url, name=name)

    def start(self, *numbers: int) -> None:
        """Start these nodes, or all that do not run, and wait until the cluster grants locks."""
        for number in numbers:
            if not 1 <= number <= len(self._ports):
                raise ValueError(f"there is no node {number}; there are 1 to {len(self._ports)}")
        for number in numbers or range(1, len(self._ports) + 1):
            if number not in self._pids:
                log = self.folder / f"{number}.log"
                self._pids[number] = _nursery.start_node(Path(self.url), number, log)
        deadline = monotonic() + START_SECONDS
        for number in self.up:
            while not self._is_member(number):
                if monotonic() > deadline or not _is_alive(self._pids[number]):
                    raise RuntimeError(f"node {number} does not start: {self._log_of(number)}")
                sleep(LOOK_SECONDS)

    def _is_member(self, number: int) -> bool:
        """Return whether a node runs and knows the others; until then it needs all of them."""
        try:
            with habemus.connect(str(self.folder / f"{number}.sock")) as node:
                status: dict[str, Any] = node.status()
        except habemus.HabemusError:
            return False
        return bool(status["member"])

    def _log_of(self, number: int) -> str:
        with suppress(OSError):
            said = (self.folder / f"{number}.log").read_text(encoding="utf-8").splitlines()
            return said[-1] if said else "it has logged nothing"
        return "it has no log"

    def kill(self, number: int) -> None:
        """Kill a node, as `kill -9` does; `start` starts it again."""
        if number not in self._pids:
            running = ", ".join(map(str, self.up)) or "none"
            raise ValueError(f"node {number} does not run, so it cannot be killed; up: {running}")
        pid = self._pids.pop(number)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        while _is_alive(pid):
            sleep(LOOK_SECONDS)

    def stop(self) -> None:
        """Kill all nodes."""
        for number in self.up:
            self.kill(number)
        for port in self._ports:
            port.close()

    def __enter__(self) -> NodeProcesses:
        try:
            self.start()
        except BaseException:  # `__exit__` is not called then
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _lease_text(lease: float | str) -> str:
    """Return a lease in the notation of cluster.toml; a number is in seconds."""
    if isinstance(lease, str):
        return lease
    if isinstance(lease, bool) or not 0 < lease < float("inf"):
        raise ValueError(f'lease={lease!r}: give a number of seconds, such as 2, or a text, "2s"')
    return f"{round(lease * 1_000_000)}us"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _bound_port() -> socket.socket:
    """Return a socket that reserves a port: the system gives it to no other program meanwhile, but
    lets a node listen on it.
    """
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", 0))
    return made

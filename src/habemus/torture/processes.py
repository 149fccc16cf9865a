"""The processes of a torture: nodes, clients and the referee.  Each has its own session, and none
outlives the torture.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import SystemRandom
from time import monotonic

from habemus.operations.engine_servers import end_with_parent
from habemus.runtimes.live.storage.recent import FILE as RECENT
from habemus.torture.damage import size_without_room
from habemus.torture.plan import LOCKS, Plan
from habemus.torture.schedule import is_asynchronous

READY_S = 30.0
"""Timeout for the start of a process."""
TAKES_PART_S = 60.0
"""Timeout for a replaced node to take part."""
FAILING_S = 10.0
"""Timeout for a node to end after a write has failed."""
ZEROS = 8
"""Bytes of zeros with which a write that has failed half-way may end."""
LOOK_S = 0.05
PORTS = (10_000, 30_000)
"""Ports of nodes.  Ephemeral ports of the kernel are above them, so a port is still free when its
node restarts.
"""


class DidNotStart(RuntimeError):
    """A process ended or timed out before it was ready."""


def free_ports(count: int) -> list[int]:
    """Return free ports, independent of the seed: another torture may use the same seed."""
    draw = SystemRandom()
    found: list[int] = []
    while len(found) < count:
        port = draw.randrange(*PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


def plain_environment() -> dict[str, str]:
    """Return the environment without settings of habemus."""
    return {name: value for name, value in os.environ.items() if not name.startswith("HABEMUS_")}


class Child:
    """One process, which may be started again after it has ended."""

    def __init__(
        self, command: Sequence[str], folder: Path, log: Path, *, says_ready: bool
    ) -> None:
        self._command = [sys.executable, "-m", *command]
        self._folder = folder
        self.log = log
        self._says_ready = says_ready
        self._process: asyncio.subprocess.Process | None = None
        self.may_be_down = True  # its end is expected

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_up(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def code(self) -> int | None:
        return None if self._process is None else self._process.returncode

    async def start(self, *more: str, may_end: bool = False) -> None:
        """Start the process, with more arguments than usual.  With may_end it may end by itself."""
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                *more,
                cwd=self._folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE if self._says_ready else asyncio.subprocess.DEVNULL,
                stderr=log,
                env=plain_environment(),
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        self.may_be_down = may_end
        if self._says_ready:
            assert self._process.stdout is not None
            try:
                said = await asyncio.wait_for(self._process.stdout.readline(), READY_S)
            except TimeoutError:
                said = b""
            if not said:
                raise DidNotStart(
                    f"{' '.join(self._command[2:5])} did not start: {self.last_words()}"
                )

    def last_words(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return lines[-1] if lines else "its log is empty"

    def signal(self, number: int) -> None:
        if self.is_up:
            os.kill(self.pid, number)

    async def kill(self) -> None:
        self.may_be_down = True
        if self._process is not None:
            self.signal(signal.SIGKILL)
            await self._process.wait()

    async def ended(self, seconds: float) -> bool:
        """Return whether the process ends by itself in that time."""
        assert self._process is not None
        try:
            await asyncio.wait_for(self._process.wait(), seconds)
        except TimeoutError:
            return False
        return True


class NodeProcess(Child):
    def __init__(self, folder: Path, number: int, config: str = "", *more: str) -> None:
        """Make a node that is not started yet.

        config: the name of its cluster.toml; more: arguments of every start.
        """
        self.number = number
        self.memory = folder / "data" / f"node-{number}" / "memory"
        command = [
            "habemus",
            "node",
            "--config",
            config or f"node-{number}.toml",
            "--id",
            str(number),
            "--json",
            *more,
        ]
        super().__init__(command, folder, folder / f"node-{number}.log", says_ready=True)

    async def replace(self) -> bool:
        """Start the node with --replace.  Return whether it takes part in time."""
        start = self.log.stat().st_size
        await self.start("--replace", "--verbose")
        deadline = monotonic() + TAKES_PART_S
        while self.is_up and monotonic() < deadline:
            if f"node {self.number} takes part".encode() in self.log.read_bytes()[start:]:
                return True
            await asyncio.sleep(LOOK_S)
        return False

    async def ends_by_full_disk(self, spare: int, seconds: float) -> bool:
        """Let the files of the node grow by so many bytes for some time; then a write fails
        half-way.  Return whether the node ended because of that.
        """
        limit = self._limit_disk(spare)
        if await self.ended(seconds):
            return True
        if limit is None:
            return False
        self._limit(resource.RLIM_INFINITY)
        # A write may have failed just before, and a slow machine takes a while to end the node.
        is_full = self._written() + ZEROS >= limit
        return is_full and await self.ended(FAILING_S)

    def _limit_disk(self, spare: int) -> int | None:
        if not (self.is_up and self.memory.exists()):
            return None
        limit = self._written() + spare
        self._limit(limit)
        return limit

    def _written(self) -> int:
        """Return the size of the file that the next grant is written to."""
        recent = self.memory.parent / RECENT
        return recent.stat().st_size if recent.exists() else size_without_room(self.memory)

    def lose_unsynced(self) -> None:
        """Remove what a crash of the machine may lose."""
        (self.memory.parent / RECENT).unlink(missing_ok=True)

    def _limit(self, size: int) -> None:
        if self.is_up:
            _, hard = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (size, hard))


class ClientProcess(Child):
    """One client process; its successor has another name and another record."""

    def __init__(self, folder: Path, plan: Plan, number: int, life: int, cluster: str) -> None:
        self.number = number
        self.life = life
        self.name = f"{number}.{life}"
        self.record = folder / f"client-{self.name}.jsonl"
        orders = {
            "name": self.name,
            "cluster": cluster,
            "service": LOCKS,
            "locks": plan.names,
            "lease": (plan.lease_s or None) if plan.engine else None,
            "referee": "referee.sock",
            "record": self.record.name,
            "seed": f"{plan.seed}/{self.name}",
            "think_s": plan.think_s,
            "is_asynchronous": is_asynchronous(number),
        }
        command = ["habemus.torture.client", json.dumps(orders)]
        super().__init__(command, folder, folder / f"client-{number}.log", says_ready=False)


class RefereeProcess(Child):
    def __init__(self, folder: Path, *, is_fenced: bool) -> None:
        self.record = folder / "referee.jsonl"
        command = [
            "habemus.torture.referee",
            "referee.sock",
            self.record.name,
            *([] if is_fenced else ["--unfenced"]),
        ]
        super().__init__(command, folder, folder / "referee.log", says_ready=True)


def write_config(path: Path, plan: Plan, ports: Mapping[int, int]) -> None:
    """Write a cluster.toml with the ports of the nodes."""
    lines = ['cluster = "torture"', 'data = "data"', 'socket = "node-{id}.sock"', "[nodes]"]
    lines += [f'{number} = "127.0.0.1:{port}"' for number, port in sorted(ports.items())]
    lines += [
        f"[services.{LOCKS}]",
        f"algorithm = {json.dumps(plan.algorithm)}",
        f"over = {json.dumps(plan.over)}",
    ]
    options = ", ".join(
        f"{name} = {json.dumps(value) if equals else 'true'}"
        for name, equals, value in (each.partition("=") for each in plan.options)
    )
    lines += [f"options = {{ {options} }}"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def cluster_address(
    folder: Path, nodes: Sequence[int], client: int, ports: Mapping[int, int]
) -> str:
    """Return the cluster address of a client: all nodes, its own first; without ports, by local
    sockets.
    """
    first = (client - 1) % len(nodes)
    order = [*nodes[first:], *nodes[:first]]
    if ports:
        return ",".join(f"127.0.0.1:{ports[node]}" for node in order)
    sockets = folder / f"client-{client}"
    if not sockets.exists():
        sockets.mkdir()
        for place, node in enumerate(order):
            (sockets / f"{place}.sock").symlink_to(f"../node-{node}.sock")
    return sockets.name

"""The processes of a torture: nodes, clients and the referee, each in a session of its own, and
none of them outlives it.
"""

from __future__ import annotations

import asyncio
import ctypes
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

from habemus.torture.plan import LOCKS, Plan

READY_S = 30.0
"""Within which a process must have said that it is ready."""
TAKES_PART_S = 60.0
"""Within which a node that was replaced has heard from all the others."""
LOOK_S = 0.05
PORTS = (10_000, 30_000)
"""Below those that the kernel gives to outgoing connections: a node that is down must find its port
free when it comes back.
"""
_PR_SET_PDEATHSIG = 1


class DidNotStart(RuntimeError):
    """A process ended, or said nothing, before it was ready."""


def free_ports(count: int) -> list[int]:
    """Not by the seed: another torture with the same one may be going on."""
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


def _end_with_parent() -> None:
    """The kernel ends the process when the torture ends, however it ends; a process that is
    stopped, too.
    """
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


_LIBC = (
    ctypes.CDLL(None) if sys.platform == "linux" else None
)  # loaded here, because little is safe between fork and exec


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
        self.was_told = True  # to end, or it was never there: nobody is to wonder that it is not

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
                env={
                    name: value
                    for name, value in os.environ.items()
                    if not name.startswith("HABEMUS_")
                },
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        self.was_told = may_end
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
        return lines[-1] if lines else "it said nothing"

    def signal(self, number: int) -> None:
        if self.is_up:
            os.kill(self.pid, number)

    async def kill(self) -> None:
        self.was_told = True
        if self._process is not None:
            self.signal(signal.SIGKILL)
            await self._process.wait()

    async def ended(self, seconds: float) -> bool:
        """Whether it ends by itself in that time."""
        assert self._process is not None
        try:
            await asyncio.wait_for(self._process.wait(), seconds)
        except TimeoutError:
            return False
        return True


class NodeProcess(Child):
    def __init__(self, folder: Path, number: int) -> None:
        self.number = number
        self.memory = folder / "data" / f"node-{number}" / "memory"
        command = [
            "habemus",
            "node",
            "--config",
            f"node-{number}.toml",
            "--id",
            str(number),
            "--json",
        ]
        super().__init__(command, folder, folder / f"node-{number}.log", says_ready=True)

    async def replace(self) -> bool:
        """Start it in the place of itself, whose memory is lost.  Return whether it takes part in
        time.
        """
        start = self.log.stat().st_size
        await self.start("--replace", "--verbose")
        deadline = monotonic() + TAKES_PART_S
        while self.is_up and monotonic() < deadline:
            if f"node {self.number} takes part".encode() in self.log.read_bytes()[start:]:
                return True
            await asyncio.sleep(LOOK_S)
        return False

    def limit_disk(self, spare: int) -> None:
        """From now on its files can grow by so many bytes and no more; then writing fails, in the
        middle.
        """
        if self.is_up and self.memory.exists():
            self._limit(self.memory.stat().st_size + spare)

    def unlimit_disk(self) -> None:
        if self.is_up:
            self._limit(resource.RLIM_INFINITY)

    def _limit(self, size: int) -> None:
        _, hard = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (size, hard))


class ClientProcess(Child):
    """One life of a client; the next one has another name and a file of its own."""

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
            "referee": "referee.sock",
            "record": self.record.name,
            "seed": f"{plan.seed}/{self.name}",
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


def write_config(folder: Path, plan: Plan, node: int, ports: Mapping[int, int]) -> None:
    """A cluster as one node sees it: its own address is its own, and those of the others are the
    proxies'.
    """
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
    (folder / f"node-{node}.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def whereabouts(folder: Path, plan: Plan, client: int, ports: Mapping[int, int]) -> str:
    """Where a client looks for nodes: all of them, beginning with its own; without ports by local
    sockets.
    """
    order = [(client - 1 + turn) % plan.nodes + 1 for turn in range(plan.nodes)]
    if ports:
        return ",".join(f"127.0.0.1:{ports[node]}" for node in order)
    sockets = folder / f"client-{client}"
    if not sockets.exists():
        sockets.mkdir()
        for place, node in enumerate(order):
            (sockets / f"{place}.sock").symlink_to(f"../node-{node}.sock")
    return sockets.name

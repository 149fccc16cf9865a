"""A cluster of `habemus node` processes, as a client finds it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.live.conftest import PATIENCE, until
from tests.ports import reserved_ports

import habemus
from habemus.runtimes.live.config import FIXED_ALGORITHM


def leased(lease: str, algorithm: str = FIXED_ALGORITHM) -> str:
    """Return a service of locks with leases of this length, and elections that do not keep a test
    waiting.
    """
    election = "election_options = { patience = [200000, 400000], period = 50000 }"
    return f"""\
[services.locks]
algorithm = "{algorithm}"
options = {{ lease = "{lease}", patience = "300ms", {election} }}
"""


DEFAULT = leased("30s")
"""Far longer than any stall: nobody loses a lock unless the test takes it away."""
SOON = 15.0
"""Seconds: far longer than any stall, and far shorter than a lease.  What is there so soon did not
wait for a lease to expire.
"""
SEMAPHORES = "[semaphores]\n" + "".join(
    f"{name} = {size}\n"
    for name, size in (("places", 2), ("shared", 2), ("shared-tasks", 2), ("printer", 1))
)
LAPSING = leased("3s")
"""For tests that wait until a lease has expired."""


class Nodes:
    def __init__(
        self,
        folder: Path,
        services: str = DEFAULT,
        size: int = 3,
        head: str = "",
        flags: Sequence[str] = (),
        source: Path | None = None,
    ) -> None:
        """Start the nodes.

        source: folder of another release of the package, to run instead of this one.
        """
        self.folder = folder
        self.source = source
        self.file = folder / "cluster.toml"
        (folder / "data").mkdir()
        addresses = "\n".join(
            f'{number} = "127.0.0.1:{port}"' for number, port in enumerate(reserved_ports(size), 1)
        )
        self.file.write_text(
            'cluster = "office"\ndata = "data"\nsocket ='
            f' "{{id}}.sock"\n{head}\n[nodes]\n{addresses}\n{services}{SEMAPHORES}'
        )
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.started: dict[int, dict[str, Any]] = {}  # as the nodes report themselves
        self.flags = flags
        for number in range(1, size + 1):
            self.start(number, wait=False)
        for number, process in self.processes.items():
            self.started[number] = _wait_until_up(process)
        for number in self.processes:
            self._wait_until_member(number)

    def _wait_until_member(self, number: int) -> None:
        """Wait until every other node has met this one; until then it needs all of them."""
        with habemus.connect(self.socket(number)) as cluster:
            until(lambda: cluster.status()["member"])

    def socket(self, number: int) -> str:
        return str(self.folder / f"{number}.sock")

    def address(self, number: int) -> str:
        lines = self.file.read_text().splitlines()
        return next(line.split('"')[1] for line in lines if line.startswith(f"{number} ="))

    def start(self, number: int, *flags: str, wait: bool = True) -> None:
        with (self.folder / f"{number}.log").open("ab") as log:
            command = [
                sys.executable,
                "-m",
                "habemus",
                "node",
                "--config",
                str(self.file),
                "--id",
                str(number),
                "--json",
                *self.flags,
                *flags,
            ]
            # With an input that ends with the test, however that ends.
            self.processes[number] = subprocess.Popen(
                [*command, "--with-stdin"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=None if self.source is None else {**os.environ, "PYTHONPATH": str(self.source)},
            )
        if wait:
            self.started[number] = _wait_until_up(self.processes[number])

    def signal(self, number: int, which: signal.Signals) -> None:
        self.processes[number].send_signal(which)

    def kill(self, number: int) -> None:
        process = self.processes.pop(number)
        process.kill()
        process.communicate(timeout=PATIENCE)

    def close(self) -> None:
        for number in list(self.processes):
            self.kill(number)


def _wait_until_up(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdout is not None
    said = b"".join(iter(process.stdout.readline, b"}\n"))
    started: dict[str, Any] = json.loads(said + b"}")
    assert started["pid"] == process.pid
    return started

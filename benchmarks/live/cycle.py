"""Processor time of one cycle: to acquire and to release a lock that no other client wants.

    python -m benchmarks.live.cycle
    python -m benchmarks.live.cycle --against OTHER/bin/python    # of another version, side by side
    python -m benchmarks.live.cycle --algorithm central --algorithm default --data
    python -m benchmarks.live.cycle --all-cores --against OTHER/bin/python

A client and three nodes share one core, unless all cores are asked for.  The client uses the local
socket of a node.  Where the lock has a leader or a coordinator, the client is at the first node,
wherever that is.  Beside the processor time stands the time that passes, which is what
`benchmarks.live` measures.
Processor time hardly changes when the machine does other things.  So it shows a loss of a few per
cent that a rate would hide.  Versions take turns, one short round each; the figures are medians
over the rounds, and a ratio is the median of the ratios of the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.live.measuring import ONE_CORE
from benchmarks.live.rival import Service, free_port, on_cores, spent_ns

SIZE = 3
WARM_UP = 500
CLIENT = """
import sys, time, habemus
from habemus import HabemusError
deadline = time.monotonic() + 30
while True:
    try:
        cluster = habemus.connect(sys.argv[1])
        cluster.__enter__()
        cluster.status()  # connects, also where entering does not wait for a node
        break
    except HabemusError:
        if time.monotonic() > deadline:
            raise
        time.sleep(0.05)
lock = cluster.lock("cycle")
for line in sys.stdin:
    began, spent = time.perf_counter_ns(), time.process_time_ns()
    for _ in range(int(line)):
        lock.release(lock.acquire())
    print(time.process_time_ns() - spent, time.perf_counter_ns() - began, flush=True)
"""
"""Uses nothing that an earlier version does not have."""


class Round(NamedTuple):
    """Microseconds per cycle."""

    client: float
    nodes: float
    passed: float  # until the client had gone through its cycles

    @property
    def total(self) -> float:
        return self.client + self.nodes


class Contestant(Service):
    """Three nodes and a client of one version."""

    def __init__(self, python: str, algorithm: str, data: bool) -> None:
        super().__init__(python)
        self._python = python
        self._algorithm = algorithm
        self._data = data
        self.rounds: list[Round] = []

    def start(self, folder: Path) -> None:
        lines = ['socket = "{id}.sock"']
        if self._data:
            lines.insert(0, 'data = "data"')
        elif self._has_memory_key():
            lines.insert(0, 'memory = "none"')
        lines += ["[nodes]", *(f'{n} = "127.0.0.1:{free_port()}"' for n in range(1, SIZE + 1))]
        if self._algorithm != "default":
            lines += ["[services.locks]", f'algorithm = "{self._algorithm}"']
        if self._data:
            (folder / "data").mkdir()
        file = folder / "cluster.toml"
        file.write_text("\n".join(lines) + "\n")
        for number in range(1, SIZE + 1):
            command = [self._python, "-m", "habemus", "node", "--config", str(file)]
            self.spawn([*command, "--id", str(number)], folder, lambda: True)
        self._client = subprocess.Popen(
            [self._python, "-c", CLIENT, str(folder / "1.sock")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _has_memory_key(self) -> bool:
        """Return whether `memory` can be configured, which came with the module tried here."""
        command = [self._python, "-c", "import habemus.runtimes.live.cluster_file"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def stop(self) -> None:
        self._client.communicate()
        super().stop()

    def measure(self, cycles: int) -> Round:
        assert self._client.stdin is not None and self._client.stdout is not None
        before = spent_ns(self.pids())
        self._client.stdin.write(f"{cycles}\n")
        self._client.stdin.flush()
        client, passed = map(int, self._client.stdout.readline().split())
        nodes = spent_ns(self.pids()) - before
        return Round(*(each / cycles / 1_000 for each in (client, nodes, passed)))


def compare(
    pythons: Sequence[str],
    algorithm: str,
    data: bool,
    rounds: int,
    cycles: int,
    cores: frozenset[int] | None,
) -> list[list[Round]]:
    """Start the versions and return the rounds of each."""
    contestants = [Contestant(python, algorithm, data) for python in pythons]
    with on_cores(cores), ExitStack() as stack:
        for each in contestants:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="habemus-cycle-"))
            each.start(Path(folder))
            stack.callback(each.stop)
        for each in contestants:
            each.measure(WARM_UP)
        for _ in range(rounds):
            for each in contestants:
                each.rounds.append(each.measure(cycles))
    return [each.rounds for each in contestants]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", metavar="PYTHON", help="interpreter with another version")
    parser.add_argument("--algorithm", action="append", help='default: "central" and "default"')
    parser.add_argument("--data", action="store_true", help="nodes with data folders")
    parser.add_argument("--all-cores", action="store_true", help="not only on one core")
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=20, help="after each start")
    parser.add_argument("--cycles", type=int, default=500, help="in each round")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    pythons = [sys.executable, *([given.against] if given.against else [])]
    found = []
    for algorithm in given.algorithm or ["central", "default"]:
        found_rounds: list[list[Round]] = [[] for _ in pythons]
        for _ in range(given.starts):
            started = compare(
                *(pythons, algorithm, given.data, given.rounds, given.cycles),
                None if given.all_cores else ONE_CORE,
            )
            for known, more in zip(found_rounds, started, strict=True):
                known += more
        totals = [[each.total for each in rounds] for rounds in found_rounds]
        row = {
            "algorithm": algorithm + (", data folders" if given.data else ""),
            "us": [round(median(each), 1) for each in totals],
            "client_us": [round(median(r.client for r in rounds), 1) for rounds in found_rounds],
            "nodes_us": [round(median(r.nodes for r in rounds), 1) for rounds in found_rounds],
            "passed_us": [round(median(r.passed for r in rounds), 1) for rounds in found_rounds],
            "ratio": ratio(totals[0], totals[-1]),
            "ratio_passed": ratio(*([r.passed for r in found_rounds[at]] for at in (0, -1))),
        }
        found.append(row)
        if not given.json:
            print(shown(row, is_compared=len(pythons) > 1), flush=True)
    if given.json:
        json.dump(found, sys.stdout, indent=1)


def ratio(one: Sequence[float], other: Sequence[float]) -> float:
    return round(median(new / old for new, old in zip(one, other, strict=True)), 3)


def shown(row: dict[str, object], *, is_compared: bool) -> str:
    parts = zip(row["us"], row["client_us"], row["nodes_us"], row["passed_us"], strict=True)  # type: ignore[call-overload]
    texts = [
        f"{total} us (client {client}, nodes {nodes}) in {passed} us"
        for total, client, nodes, passed in parts
    ]
    ratios = f", {row['ratio']} times in {row['ratio_passed']} times" if is_compared else ""
    return f"{row['algorithm']}: {' beside '.join(texts)}{ratios}"


if __name__ == "__main__":
    os.environ.pop("HABEMUS_CLUSTER", None)
    main()

"""Processor time of our simulator beside that of another version, in one run.

    python benchmarks/sim/versions.py --against OTHER/bin/python

Each version simulates in a process of its own.  They take turns, one short round each, and a ratio
is the median of the ratios of the rounds: so a busy machine disturbs both alike.  Two starts of the
same version differ by some per cent, by where their memory lies, so everything is started several
times.  Compare a version with itself to see how much of a ratio is chance.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median
from typing import NamedTuple

WORKER = """
import gc, sys, time
from habemus.algorithms.mutex.ricart_agrawala import RicartAgrawala
from habemus.problems.mutex import Clients
from habemus.runtimes.sim.network import Exponential, Network
from habemus.runtimes.sim.simulation import Record, Simulation
SETTINGS = {
    "plain": {"record": Record.NOTHING},
    "traced": {"record": Record.MESSAGES},
    "general": {
        "record": Record.NOTHING, "network": Network(delay=Exponential(1_000), fifo=True)
    },
}
for line in sys.stdin:
    setting, size, entries = line.split()
    system = RicartAgrawala.system(int(size))
    workload = Clients(int(entries), think=(0, 1_000))
    gc.collect()
    began = time.process_time_ns()
    sent = Simulation(system, workload=workload, **SETTINGS[setting]).run().sent
    print(time.process_time_ns() - began, sent, flush=True)
"""
"""Uses nothing that an earlier version does not have."""


class Case(NamedTuple):
    title: str
    setting: str
    size: int
    entries: int


CASES = (
    Case("N = 10", "plain", 10, 300),
    Case("N = 100", "plain", 100, 5),
    Case("N = 10, in-memory trace", "traced", 10, 30),
    Case("N = 10, FIFO, delays drawn", "general", 10, 30),
)


class Version:
    """A process that simulates with one version."""

    def __init__(self, python: str, stack: ExitStack) -> None:
        self._process = stack.enter_context(
            subprocess.Popen(
                [python, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        )

    def measure(self, case: Case) -> float:
        """Nanoseconds per message of one run."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{case.setting} {case.size} {case.entries}\n")
        self._process.stdin.flush()
        spent, sent = map(int, self._process.stdout.readline().split())
        return spent / sent


def rounds_of(pythons: Sequence[str], case: Case, rounds: int) -> list[list[float]]:
    """Start the versions and return the rounds, each with the time of every version."""
    with ExitStack() as stack:
        versions = [Version(python, stack) for python in pythons]
        for each in versions:
            each.measure(case)
        return [[each.measure(case) for each in versions] for _ in range(rounds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", metavar="PYTHON", required=True, help="with another version")
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=10, help="after each start")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = []
    for case in CASES:
        times: list[list[float]] = []
        for _ in range(given.starts):
            times += rounds_of((sys.executable, given.against), case, given.rounds)
        this, other = (round(median(each)) for each in zip(*times, strict=True))
        ratio = round(median(new / old for new, old in times), 3)
        row = {"case": case.title, "ns_per_message": [this, other], "ratio": ratio}
        found.append(row)
        if not given.json:
            print(f"{case.title}: {this} ns per message beside {other}, {ratio} times", flush=True)
    if given.json:
        json.dump(found, sys.stdout, indent=1)


if __name__ == "__main__":
    main()

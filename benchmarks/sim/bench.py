"""Delivered messages per second: our simulator with the real algorithm files, beside SimPy, in one run.

    python benchmarks/sim/bench.py [--quick] [--json]

The rivals take turns and the best of several rounds counts, so that a busy machine disturbs both alike.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from simpy_rivals import Callbacks, Idiom, idiom_ring

from habemus.algorithms.mutex.ricart_agrawala import RicartAgrawala
from habemus.algorithms.mutex.token_ring import TokenRing
from habemus.problems.mutex import Clients
from habemus.runtimes.sim.network import Exponential, Network
from habemus.runtimes.sim.simulation import Record, Simulation


def ours(size: int, rounds: int, record: Record = Record.NOTHING, network: Network | None = None) -> Callable[[], int]:
    system = RicartAgrawala.system(size)
    return lambda: Simulation(system, workload=Clients(rounds, think=(0, 1_000)), record=record, network=network).run().sent


def our_ring(size: int, hops: int) -> Callable[[], int]:
    system = TokenRing.system(size)
    return lambda: Simulation(system, record=Record.NOTHING).run(events=hops).delivered


def fuzzing(runs: int) -> Callable[[], int]:
    """Fresh runs of three processes, one request each, every one with its own seed."""

    def loop() -> int:
        simulation = Simulation(RicartAgrawala.system(3), workload=Clients(1), record=Record.REQUESTS)
        for seed in range(runs):
            simulation.reset(seed)
            simulation.run()
        return runs

    return loop


def best_rates(contenders: dict[str, Callable[[], int]], rounds: int) -> dict[str, float]:
    best = dict.fromkeys(contenders, 0.0)
    for _ in range(rounds):
        for name, run in contenders.items():
            gc.collect()
            started = time.perf_counter()
            done = run()
            best[name] = max(best[name], done / (time.perf_counter() - started))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller runs, for a first look")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    arguments = parser.parse_args()
    scale = 1 if arguments.quick else 4
    general = Network(delay=Exponential(1_000), fifo=True)
    rows: list[dict[str, Any]] = []

    def compare(title: str, contenders: dict[str, Callable[[], int]], base: str, rounds: int = 5) -> None:
        rates = best_rates(contenders, rounds)
        for name, rate in rates.items():
            row = {"case": title, "who": name, "per_second": round(rate), "ratio": round(rate / rates[base], 2)}
            rows.append(row)
            if not arguments.json:
                print(f"{title:34} {name:32} {rate:12,.0f}/s  {row['ratio']:7.2f}x")
        sys.stdout.flush()

    for size, rounds in ((10, 60 * scale), (100, scale)):
        compare(
            f"Ricart-Agrawala, N = {size}",
            {
                "SimPy, a Store per process": lambda n=size, r=rounds: Idiom(n, r, 1).run(),  # type: ignore[misc]
                "SimPy, bare callbacks": lambda n=size, r=rounds: Callbacks(n, r, 1).run(),  # type: ignore[misc]
                "habemus": ours(size, rounds),
                "habemus, in-memory trace": ours(size, rounds, record=Record.MESSAGES),
                "habemus, FIFO, delays drawn": ours(size, rounds, network=general),
            },
            "SimPy, a Store per process",
        )
    compare(
        "Ricart-Agrawala, N = 1000",
        {"SimPy, a Store per process": lambda: Idiom(1_000, 1, 1).run(), "habemus": ours(1_000, 1)},
        "SimPy, a Store per process",
        rounds=1,
    )
    compare(
        "Token ring, N = 10,000",
        {"SimPy, a Store per process": lambda: idiom_ring(10_000, 100_000 * scale), "habemus": our_ring(10_000, 100_000 * scale)},
        "SimPy, a Store per process",
    )
    compare("Fresh runs of 3 processes", {"habemus": fuzzing(2_500 * scale)}, "habemus")
    if arguments.json:
        print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()

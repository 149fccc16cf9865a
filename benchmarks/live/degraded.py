"""Hand-overs of a lock between two clients while one of three nodes is down.

    python -m benchmarks.live.degraded [--algorithm NAME] [--seconds 3]

The clients are at two different nodes; each holds the lock for 2 ms and asks again at once.  The
figures are the median wait and the longest one, first with all nodes up and then with each node
down in turn, with the node that leads then.  The exit code is 1 if a median is more than twice the
healthy one.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import ExitStack
from itertools import count
from statistics import median

from benchmarks.live.measuring import LEAD_NS, running
from benchmarks.live.ours import FORM, Habemus
from benchmarks.live.rival import PATIENCE_SECONDS, Absent
from benchmarks.live.worker import Cycles, Stays, Worker

STAY_SECONDS = 0.002
LIMIT = 2.0
"""A median wait with one node down, in medians of a healthy cluster."""
_names = (f"degraded-{number}" for number in count())


def hand_overs_ms(cluster: Habemus, nodes: list[int], seconds: float) -> list[float]:
    """Return the waits of two clients at these nodes, in milliseconds."""
    with ExitStack() as stack:
        workers = [Worker(cluster.at(node)) for node in nodes]
        for worker in workers:
            stack.callback(worker.close)
            worker.ready()
        begin = time.monotonic_ns() + LEAD_NS
        cycles = Cycles(next(_names), begin, begin + int(seconds * 1e9), STAY_SECONDS)
        for worker in workers:
            worker.begin(cycles)
        found: list[Stays] = [worker.result() for worker in workers]
    return [
        (began - asked) / 1e6
        for stays in found
        for asked, began in zip(stays.asked, stays.began, strict=True)
    ]


def wait_for_leader(cluster: Habemus, dead: int) -> None:
    """Wait until the nodes that are up agree on a leader that is up."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(leaders := cluster.leaders()) != 1 or leaders & {None, dead}:
        if time.monotonic() > deadline:
            raise Absent(f"no leader was elected after the end of node {dead}")
        time.sleep(0.02)


def measure(cluster: Habemus, dead: int | None, seconds: float) -> list[float]:
    """Return the waits with one node down, or none."""
    nodes = [node for node in range(1, cluster.size + 1) if node != dead][:2]
    if dead is not None:
        cluster.kill_node(dead)
        wait_for_leader(cluster, dead)
    waits = hand_overs_ms(cluster, nodes, seconds)
    who = "all nodes up" if dead is None else f"node {dead} down"
    print(
        f"{who}, node {cluster.leader()} leads, clients at {nodes[0]} and {nodes[1]}:"
        f" {len(waits)} grants, median wait {median(waits):.1f} ms, longest {max(waits):.0f} ms",
        flush=True,
    )
    if dead is not None:
        cluster.start_node(dead)
        cluster.settle()
    return waits


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--algorithm", help="default: that of a cluster that names none")
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    cluster = Habemus("degraded", given.algorithm, durable=True)
    print(f"three nodes, {FORM}")
    with running(cluster) as reason:
        if reason:
            print(reason, file=sys.stderr)
            return 1
        healthy = median(measure(cluster, None, given.seconds))
        degraded = [
            median(measure(cluster, dead, given.seconds)) for dead in range(1, cluster.size + 1)
        ]
    worst = max(degraded) / healthy
    print(f"worst median: {worst:.2f} of the healthy one, limit {LIMIT:g}")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())

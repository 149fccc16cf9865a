"""Locks whose names are used once, such as one lock per order: what they cost beside a few names
that are used again and again.

    python -m benchmarks.live.names                      # 200,000 names, 500 per second: 15 minutes
    python -m benchmarks.live.names --names 20000 --rate 200

Each of two clusters of three nodes with data folders gets the same requests at the same rate by one
client: one with a few names, one with a new name for each.  Then a client at a follower holds 100
locks, the leader is killed, and the next client asks for a new name; in the end all nodes are
killed and started again.  The figures are those of the nodes: memory at the end of the requests,
data on disk, locks and elections in use, terms since the start; the waits of the clients; the time
from the kill of the leader to the next grant, and from the start of all nodes to the first one,
which includes the start of Python.
The exit code is 1 if a request failed or a token was not larger than the one before.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.live.rolling import READY_SECONDS, RestartedCluster

import habemus
from habemus.client.asynchronous import AsyncCluster

MOST_PENDING = 300
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


class KilledCluster(RestartedCluster):
    """Nodes as processes that can be killed, and looked at."""

    def kill(self, number: int) -> None:
        self._processes[number].kill()
        self._processes[number].wait()

    def start(self, number: int) -> None:
        self._processes[number] = self._started(number)

    def memory_mb(self) -> list[float]:
        found = []
        for process in self._processes.values():
            pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
            found.append(round(pages * PAGE / 1e6, 1))
        return found

    def processor_seconds(self) -> dict[int, float]:
        """Return the processor time of each node since its start."""
        found = {}
        for number, process in self._processes.items():
            fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            found[number] = (int(fields[11]) + int(fields[12])) / TICKS
        return found

    def disk_mb(self) -> float:
        data = self.file.parent / "data"
        return round(
            sum(each.stat().st_size for each in data.rglob("*") if each.is_file()) / 1e6, 1
        )


class Load:
    """Requests at a steady rate, each for the lock that `name_of` gives its number."""

    def __init__(self, cluster: AsyncCluster, prefix: str, names: int) -> None:
        self._cluster = cluster
        self._prefix, self._names = prefix, names
        self._tokens: dict[str, int] = {}
        self.waits: list[float] = []
        self.errors: list[str] = []

    async def run(self, requests: int, rate: float) -> None:
        began, pending = time.monotonic(), set[asyncio.Task[None]]()
        for number in range(requests):
            while number > (time.monotonic() - began) * rate or len(pending) >= MOST_PENDING:
                await asyncio.sleep(0.002)
            task = asyncio.create_task(self._use(f"{self._prefix}-{number % self._names}"))
            pending.add(task)
            task.add_done_callback(pending.discard)
        await asyncio.gather(*pending)

    async def _use(self, name: str) -> None:
        asked = time.monotonic()
        try:
            async with self._cluster.lock(name, timeout=30) as lease:
                self.waits.append(time.monotonic() - asked)
                assert lease.token is not None
                if lease.token <= self._tokens.get(name, 0):
                    self.errors.append(f"token {lease.token} of {name} after {self._tokens[name]}")
                self._tokens[name] = lease.token
        except Exception as error:
            self.errors.append(f"{type(error).__name__}: {error}")

    def waits_ms(self) -> dict[str, float]:
        ordered = sorted(self.waits)
        return {
            name: round(ordered[int(share * (len(ordered) - 1))] * 1_000, 1)
            for name, share in (("p50", 0.5), ("p99", 0.99), ("longest", 1.0))
        }


async def first_grant(address: str, name: str) -> float:
    """Return when a lock of this name was granted; ask again until it is."""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        with suppress(Exception):
            async with (
                habemus.connect(address) as cluster,
                cluster.lock(name, timeout=READY_SECONDS),
            ):
                return time.monotonic()
        await asyncio.sleep(0.01)
    raise TimeoutError(f"no grant within {READY_SECONDS:g} s")


async def measured(
    prefix: str, names: int, requests: int, given: argparse.Namespace, folder: Path
) -> dict[str, Any]:
    nodes = KilledCluster(folder)
    try:
        addresses = nodes.addresses()
        async with habemus.connect(str(nodes.file)) as cluster:
            load = Load(cluster, prefix, names)
            before, own, began = nodes.processor_seconds(), time.process_time(), time.monotonic()
            await load.run(requests, given.rate)
            lasted, own = time.monotonic() - began, time.process_time() - own
            await asyncio.sleep(2)
            after = nodes.processor_seconds()
            status = await cluster.status()
            figures: dict[str, Any] = {
                "names": names,
                "requests": requests,
                "rate": round(requests / lasted),
                "wait_ms": load.waits_ms(),
                "processor_us": {
                    "client": round(own / requests * 1e6),
                    **{
                        f"node {number}": round((after[number] - before[number]) / requests * 1e6)
                        for number in after
                    },
                },
                "memory_mb": nodes.memory_mb(),
                "disk_mb": nodes.disk_mb(),
                "instances": status["instances"],
                "terms": status["leaders"][0]["term"],
            }
        leader = status["leaders"][0]["leader"]
        follower = next(number for number in addresses if number != leader)
        async with habemus.connect(addresses[follower]) as holder:
            held = [holder.lock(f"held-{each}") for each in range(given.held)]
            for each in held:
                await each.acquire()
            killed = time.monotonic()
            nodes.kill(leader)
            figures["take_over_s"] = round(
                await first_grant(addresses[follower], "new") - killed, 2
            )
        for number in addresses:
            if number != leader:
                nodes.kill(number)
        began = time.monotonic()
        for number in addresses:
            nodes.start(number)
        figures["restart_s"] = round(await first_grant(addresses[follower], "newer") - began, 2)
    finally:
        nodes.close()
    figures["errors"] = load.errors[:3]
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--names", type=int, default=200_000, help="names that are used once each")
    parser.add_argument("--beside", type=int, default=100, help="names of the other cluster")
    parser.add_argument(
        "--beside-requests", type=int, help="requests there; default: as many as names"
    )
    parser.add_argument("--rate", type=float, default=500.0, help="requests per second")
    parser.add_argument(
        "--held", type=int, default=100, help="locks held when the leader is killed"
    )
    given = parser.parse_args()
    found = []
    beside_requests = given.beside_requests or given.names
    for prefix, names, requests in (
        ("again", given.beside, beside_requests),
        ("once", given.names, given.names),
    ):
        with tempfile.TemporaryDirectory() as folder:
            found.append(asyncio.run(measured(prefix, names, requests, given, Path(folder))))
            print(json.dumps(found[-1]), flush=True)
    return 1 if any(each["errors"] for each in found) else 0


if __name__ == "__main__":
    sys.exit(main())

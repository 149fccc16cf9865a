"""Many asynchronous clients that connect at once, each with a lock of its own, once a second.

    python -m benchmarks.live.herd
    python -m benchmarks.live.herd --clients 1000 --seconds 15 --processes 4

Locks of habemus on three nodes, beside `redis.asyncio` on one Redis server with as many clients in
as many processes.  A sample is the time from the wish for a lock to its grant; the first one of
each client connects.  Exits with 1 if a lock was lost, a client failed or an election was held.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import Any, TypeAlias

from benchmarks.live.measuring import running
from benchmarks.live.ours import Habemus
from benchmarks.live.peers.redis import LEASE_SECONDS, Redis

import habemus

Hold: TypeAlias = Callable[[], AbstractAsyncContextManager[object]]


@asynccontextmanager
async def habemus_lock(place: str, name: str, lost: list[str]) -> AsyncIterator[Hold]:
    async with habemus.connect(place) as cluster:
        yield lambda: cluster.lock(name, on_lost=lambda lease: lost.append(lease.name))


@asynccontextmanager
async def redis_lock(place: str, name: str, lost: list[str]) -> AsyncIterator[Hold]:
    redis = import_module("redis.asyncio")
    client = redis.Redis(port=int(place))
    try:
        yield lambda: client.lock(name, timeout=LEASE_SECONDS)
    finally:
        await client.aclose()


KINDS = {"habemus": habemus_lock, "redis.asyncio": redis_lock}


async def work(kind: str, place: str, numbers: range, seconds: float) -> dict[str, Any]:
    """Run the clients of one process; return the milliseconds that they waited."""
    waits: list[float] = []
    lost: list[str] = []
    failed: list[str] = []
    end = time.monotonic() + seconds

    async def client(number: int) -> None:
        began = time.monotonic()
        try:
            async with KINDS[kind](place, f"herd-{number}", lost) as hold:
                while began < end:
                    async with hold():
                        waits.append((time.monotonic() - began) * 1_000)
                    await asyncio.sleep(
                        max(0.0, began + random.uniform(0.9, 1.1) - time.monotonic())
                    )
                    began = time.monotonic()
        except Exception as reason:
            failed.append(f"{type(reason).__name__}: {reason}")

    await asyncio.gather(*(client(number) for number in numbers))
    return {"waits": waits, "lost": len(lost), "failed": failed}


def measure(kind: str, place: str, given: argparse.Namespace) -> dict[str, Any]:
    """Run all clients of one kind; return what they saw."""
    share = -(-given.clients // given.processes)
    running = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "benchmarks.live.herd", "--work", kind, place),
                *("--first", str(first), "--clients", str(min(share, given.clients - first))),
                *("--seconds", str(given.seconds)),
            ],
            stdout=subprocess.PIPE,
        )
        for first in range(0, given.clients, share)
    ]
    found = [json.loads(process.communicate()[0]) for process in running]
    waits = sorted(wait for each in found for wait in each["waits"])
    failed = [reason for each in found for reason in each["failed"]]
    return {
        "who": kind,
        "clients": given.clients,
        "grants": len(waits),
        "median_ms": round(waits[len(waits) // 2], 1),
        "p99_ms": round(waits[len(waits) * 99 // 100], 1),
        "most_ms": round(waits[-1], 1),
        "lost": sum(each["lost"] for each in found),
        "failed": len(failed),
        "reasons": sorted(set(failed))[:3],
    }


def term(service: Habemus) -> int:
    """Return the newest term that the first node knows."""
    with habemus.connect(service.path(1)) as cluster:
        terms: list[int] = [each["term"] for each in cluster.status()["leaders"]]
    return max(terms)


def compare(given: argparse.Namespace) -> int:
    """Measure both kinds, print what was seen, and return the exit code."""
    redis, ours = Redis(), Habemus("habemus")
    with running(redis) as absent:
        theirs = {"who": "redis.asyncio", "absent": absent}
        if not absent:
            theirs = measure("redis.asyncio", str(redis.door().port), given)
    print(json.dumps(theirs), flush=True)
    with running(ours) as absent:
        if absent:
            print(json.dumps({"who": "habemus", "absent": absent}))
            return 1
        before = term(ours)
        found = measure("habemus", str(ours.file), given)
        found["elections"] = term(ours) - before
    if "p99_ms" in theirs:
        found["ratio_p99"] = round(found["p99_ms"] / theirs["p99_ms"], 2)
    print(json.dumps(found), flush=True)
    return 1 if found["lost"] or found["failed"] or found["elections"] else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--clients", type=int, default=2_000)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # of the servers, too
    if given.work:
        numbers = range(given.first, given.first + given.clients)
        kind, place = given.work
        print(json.dumps(asyncio.run(work(kind, place, numbers, given.seconds))))
        return 0
    return compare(given)


if __name__ == "__main__":
    sys.exit(main())

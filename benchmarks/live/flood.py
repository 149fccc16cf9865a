"""Floods of lines from one client at the leader of three nodes, while other clients take locks.

    python -m benchmarks.live.flood

Each flood has a cluster of its own; in the first nothing is sent, for comparison.  The figures are
the terms that began, the longest waits of a client of the flooded node and of a client of another
node for a lock of their own, and the longest turn of the event loop of the flooded node, in
processor time of its thread, which does not depend on what else runs on the machine.  A follower
calls an election 200 ms after the last heartbeat.  The exit code is 1 if a flood has changed the
leader.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.live.rolling import NODES, RestartedCluster

import habemus
from habemus.client.address import NodeAddress
from habemus.client.connection import NodeConnection
from habemus.client.credentials import Credentials
from habemus.runtimes.live.clients.protocol import WIRE_VERSION
from habemus.runtimes.live.hosting.garbage import without_full_collections

WATCHES = 10_000
WAITERS = 9_000
NAMES = 1_000


# Nodes that measure their event loops.


class MeasuredLoop(asyncio.SelectorEventLoop):
    """An event loop that knows its longest turn, in processor time."""

    longest_s = 0.0

    def _run_once(self) -> None:
        began = time.thread_time()
        super()._run_once()  # type: ignore[misc]  # not part of the public interface
        self.longest_s = max(self.longest_s, time.thread_time() - began)


async def serve(file: str, number: int) -> None:
    """Run a node until standard input ends.  For every line there, print the longest turn since
    the last one.
    """
    loop = asyncio.get_running_loop()
    assert isinstance(loop, MeasuredLoop)
    lines: asyncio.Queue[str] = asyncio.Queue()

    def read() -> None:
        for line in iter(sys.stdin.readline, ""):
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, "")

    async with habemus.embedded(file, number):
        threading.Thread(target=read, daemon=True).start()
        with without_full_collections():  # as `habemus node` does
            while await lines.get():
                print(loop.longest_s, flush=True)
                loop.longest_s = 0.0


class MeasuredCluster(RestartedCluster):
    def _command(self, number: int) -> list[str]:
        return [
            sys.executable,
            "-m",
            "benchmarks.live.flood",
            "--node",
            str(self.file),
            str(number),
        ]

    def longest_turn(self, number: int) -> float:
        """Return the longest turn of a node since the last call, in seconds."""
        process = self._processes[number]
        before = len(self.log().splitlines())
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        while len(lines := self.log().splitlines()) == before:
            time.sleep(0.01)
        return float(lines[-1])


# Clients.


class Locker:
    """A client that takes a lock of its own again and again."""

    def __init__(self, node: str) -> None:
        self.waits: list[float] = []
        self._is_over = threading.Event()
        self._node = node
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        with habemus.connect(self._node) as cluster:
            while not self._is_over.is_set():
                asked = time.monotonic()
                with suppress(habemus.HabemusError), cluster.lock(f"of-{self._node}", timeout=20):
                    pass
                self.waits.append(time.monotonic() - asked)

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()


@contextmanager
def attacker(address: str) -> Iterator[socket.socket]:
    """Return a connection that has said hello and ignores all answers."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port))) as made:
        made.sendall(b'["hello",%d,"attacker"]\n' % WIRE_VERSION)

        def drain() -> None:
            with suppress(OSError):
                while made.recv(1 << 20):
                    pass

        reading = threading.Thread(target=drain)
        reading.start()
        try:
            yield made
        finally:
            made.shutdown(socket.SHUT_RDWR)
            reading.join()


Flood = Callable[[socket.socket, float], None]


def nothing(made: socket.socket, seconds: float) -> None:
    time.sleep(seconds)


def names(made: socket.socket, seconds: float) -> None:
    """Five lines of a thousand names each."""
    for line in range(5):
        wanted = [f"{line}-{number}" for number in range(NAMES)]
        made.sendall(json.dumps(["request", line, "locks", wanted, None, None, 0]).encode() + b"\n")
    time.sleep(seconds)


def watches(made: socket.socket, seconds: float) -> None:
    for id in range(WATCHES):
        made.sendall(b'["watch",%d,"locks","w%d"]\n' % (id, id))
    time.sleep(seconds)


def waiters(made: socket.socket, seconds: float) -> None:
    """Thousands of requests for one lock, and statuses that list them all."""
    for id in range(WAITERS):
        made.sendall(b'["request",%d,"locks",["popular"],null,null,0]\n' % id)
    _repeat(made, b'["status",1]\n', seconds)


def small_lines(made: socket.socket, seconds: float) -> None:
    _repeat(made, b'["alive",0]\n', seconds)


def locks(made: socket.socket, seconds: float) -> None:
    """Requests and releases of new locks without an end."""
    until, id = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        id += 1
        made.sendall(
            b'["request",%d,"locks",["n%d"],null,null,0]\n["release",%d]\n' % (id, id % 5_000, id)
        )


def _repeat(made: socket.socket, line: bytes, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        made.sendall(line * 100)


FLOODS: tuple[Flood, ...] = (nothing, names, watches, waiters, small_lines, locks)


def leader_and_term(addresses: dict[int, str]) -> tuple[int, int]:
    """Return the leader of the newest term that a node knows."""
    found = []
    for address in addresses.values():
        host, _, port = address.rpartition(":")
        place = NodeAddress(host=host, port=int(port))
        connection = NodeConnection(place, Credentials(), "observer")
        connection.say("status", 1)
        while (line := connection.hear(60.0))[0] != "status":
            pass
        connection.close()
        found += [(each["term"], each["leader"] or 0) for each in line[2]["leaders"]]
    term, leader = max(found)
    return leader, term


def flooded(cluster: MeasuredCluster, flood: Flood, seconds: float) -> dict[str, Any]:
    addresses = cluster.addresses()
    leader, term = leader_and_term(addresses)
    other = next(number for number in addresses if number != leader)
    lockers = [Locker(addresses[leader]), Locker(addresses[other])]
    cluster.longest_turn(leader)
    with attacker(addresses[leader]) as made:
        flood(made, seconds)
    for each in lockers:
        each.stop()
    return {
        "flood": flood.__name__,
        "terms_begun": leader_and_term(addresses)[1] - term,
        "longest_turn_ms": round(cluster.longest_turn(leader) * 1_000, 1),
        "grants": [len(each.waits) for each in lockers],
        "longest_wait_ms": [round(max(each.waits) * 1_000) for each in lockers],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each flood")
    parser.add_argument("--node", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.node:
        with asyncio.Runner(loop_factory=MeasuredLoop) as runner:
            runner.run(serve(given.node[0], int(given.node[1])))
        return 0
    results = []
    for flood in FLOODS:
        with tempfile.TemporaryDirectory() as folder:
            cluster = MeasuredCluster(Path(folder), NODES)
            try:
                results.append(flooded(cluster, flood, given.seconds))
            finally:
                cluster.close()
        print(json.dumps(results[-1]), flush=True)
    return 1 if any(each["terms_begun"] for each in results[1:]) else 0


if __name__ == "__main__":
    sys.exit(main())

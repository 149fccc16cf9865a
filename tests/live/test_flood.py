"""One client requests as many locks at once as it may; the others do not notice."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

from tests.live.conftest import PATIENCE, until
from tests.live.nodes import Nodes

import habemus
from habemus.runtimes.live.clients.lock_queues import MOST_ACTIVE, MOST_LOCKS_PER_CLIENT
from habemus.runtimes.live.clients.protocol import WIRE_VERSION

SOON_S = 0.1
CYCLES = 30


def follower(nodes: Nodes) -> int:
    """Return a node that does not lead."""
    with habemus.connect(nodes.socket(1)) as cluster:
        with cluster.lock("first", timeout=PATIENCE):
            pass
        leaders = {each["leader"] for each in cluster.status()["leaders"]}
    return next(number for number in nodes.processes if number not in leaders)


@contextmanager
def flood(path: str, lines: bytes) -> Iterator[Counter[str]]:
    """Send all lines at once, and count the answers by their first word."""
    heard: Counter[str] = Counter()
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(path)
        made.sendall(json.dumps(["hello", WIRE_VERSION, "flooder"]).encode() + b"\n")

        def hear() -> None:
            with suppress(OSError), made.makefile("rb") as answers:
                heard.update(json.loads(line)[0] for line in answers)

        hearing = threading.Thread(target=hear)
        hearing.start()
        try:
            made.sendall(lines)
            yield heard
        finally:
            made.shutdown(socket.SHUT_RDWR)
            hearing.join()


def waits_shortly(cluster: habemus.Cluster) -> bool:
    """Return whether the client mostly waits for a free lock no longer than it may."""
    waits = []
    for turn in range(CYCLES):
        began = time.monotonic()
        with cluster.lock(f"free-{turn}", timeout=PATIENCE):
            waits.append(time.monotonic() - began)
    return median(waits) < SOON_S


def test_a_client_that_requests_thousands_of_locks_delays_no_other(tmp_path: Path) -> None:
    """If the machine is slow for a while, the waits are measured again."""
    nodes = Nodes(tmp_path)
    try:
        path = nodes.socket(follower(nodes))
        lines = b"".join(
            json.dumps(["request", id, "locks", [f"flood-{id}"], None, None, 1]).encode() + b"\n"
            for id in range(MOST_LOCKS_PER_CLIENT)
        )
        with habemus.connect(path) as other, flood(path, lines) as heard:
            until(lambda: heard["granted"])
            until(lambda: waits_shortly(other))
            until(lambda: heard["granted"] >= MOST_ACTIVE)
            until(lambda: waits_shortly(other))  # while these locks are renewed
            assert (heard["granted"], heard["lost"], heard["refused"]) == (MOST_ACTIVE, 0, 0)
    finally:
        nodes.close()

"""Clients that move: away from nodes that end, hang or have no majority, and within their
timeout.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.live.rolling import RestartedCluster, Workers
from tests.backends import nodes_of, session_of
from tests.live.conftest import PATIENCE, until
from tests.live.nodes import LAPSING, Nodes
from tests.ports import reserved_ports
from tests.program import command_line

import habemus
from habemus import Cluster, LockLost, LockTimeout, Unreachable

LONG = """\
[services.locks]
algorithm = "elected-coordinator-leased"
[services.locks.options]
lease = "60s"
patience = "300ms"
election_options = { patience = [200000, 400000], period = 50000 }
"""
"""Leases that no pause of the machine lets expire."""

Start = Callable[..., Nodes]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    made: list[Nodes] = []

    def started(services: str = LONG, **more: Any) -> Nodes:
        made.append(Nodes(tmp_path, services, **more))
        return made[-1]

    yield started
    for nodes in made:
        nodes.close()


class Waiting(threading.Thread):
    """A client that waits for a lock, in a thread."""

    def __init__(self, acquire: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._acquire = acquire
        self.result: Any = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self._acquire()
        except habemus.HabemusError as error:
            self.result = error

    def answer(self) -> Any:
        self.join(PATIENCE)
        assert not self.is_alive(), "still waiting"
        return self.result


def waiters(nodes: Nodes, node: int) -> list[str]:
    with habemus.connect(nodes.socket(node)) as cluster:
        return [label for lock in cluster.status()["locks"] for label in lock["waiting"]]


# A node that ends in good order.


def test_a_rolling_restart_under_load_raises_nothing(tmp_path: Path) -> None:
    cluster = RestartedCluster(tmp_path, services=LONG, grace=PATIENCE)
    workers = Workers(str(cluster.file), 8, timeout=3 * PATIENCE)
    try:
        for number in (1, 2, 3):
            cluster.restart(number)
    finally:
        workers.stop()
        cluster.close()
    assert not workers.errors
    assert "Traceback" not in cluster.log()


def test_a_holder_may_finish_at_a_node_that_ends(start: Start) -> None:
    nodes = start()
    with habemus.connect(nodes.socket(1)) as mine, habemus.connect(nodes.socket(2)) as other:
        with mine.lock("x", timeout=PATIENCE) as lease:
            nodes.signal(1, signal.SIGTERM)
            until(lambda: _is_refused(mine))
            lease.check()
        assert nodes.processes[1].wait(PATIENCE) == 0
        with other.lock("x", timeout=PATIENCE) as after:
            assert (after.token or 0) > (lease.token or 0)


def _is_refused(cluster: Cluster) -> bool:
    """Whether the only node that this client knows takes no more requests."""
    try:
        cluster._release(cluster.lock("other", timeout=0).acquire())
    except LockTimeout as reason:
        return "shutting down" in str(reason)
    return False


def test_a_holder_that_outlasts_the_grace_hears_that_its_lock_is_lost(start: Start) -> None:
    nodes = start()
    with habemus.connect(nodes.socket(1)) as mine:
        lease = mine.lock("x", timeout=PATIENCE).acquire()
        nodes.signal(1, signal.SIGTERM)
        until(lambda: _is_refused(mine))
        nodes.signal(1, signal.SIGTERM)  # a second signal ends the grace
        assert nodes.processes[1].wait(PATIENCE) == 0
        until(lambda: lease.lost)  # the keeper of the session finds out that there is no node
        with pytest.raises(LockLost):
            lease.check()


# A node that hangs, or has no majority.


def test_clients_spread_over_the_nodes(start: Start) -> None:
    nodes = start()
    found = set()
    for _ in range(30):
        with habemus.connect(str(nodes.folder)) as cluster:
            found.add(nodes_of(cluster).connected().node)
    assert len(found) > 1


@pytest.mark.parametrize("kind", ["blocking", "asynchronous", "command"])
def test_a_client_that_waits_leaves_a_node_that_hangs(start: Start, kind: str) -> None:
    # The node that hangs may be granted the lock, and then its lease has to expire.
    nodes = start(LAPSING)
    folder = str(nodes.folder)

    async def acquired() -> str:
        async with habemus.connect(folder, name="waits") as cluster, cluster.lock("x"):
            return "granted"

    def blocking() -> str:
        with habemus.connect(folder, name="waits") as cluster, cluster.lock("x"):
            return "granted"

    def command() -> str:
        line = command_line(f"lock x --cluster {folder} -- echo granted")
        return (
            subprocess.run(line, capture_output=True, check=True, timeout=PATIENCE)
            .stdout.decode()
            .strip()
        )

    ways: dict[str, Callable[[], str]] = {
        "blocking": blocking,
        "asynchronous": lambda: asyncio.run(acquired()),
        "command": command,
    }
    held = {node: habemus.connect(nodes.socket(node)) for node in (1, 2, 3)}
    lease = held[1].lock("x", timeout=PATIENCE).acquire()
    waiting = Waiting(ways[kind])
    found: list[int] = []

    def is_found() -> bool:
        found[:] = [node for node in (1, 2, 3) if waiters(nodes, node)]
        return bool(found)

    until(is_found)
    hung = found[0]
    nodes.signal(hung, signal.SIGSTOP)
    held[1]._release(lease)
    assert waiting.answer() == "granted"
    nodes.signal(hung, signal.SIGCONT)
    for each in held.values():
        each.close()


def cut_off(nodes: Nodes, number: int) -> None:
    """Restart a node with a file in which its peers are elsewhere, so that it reaches nobody;
    clients reach it as before.
    """
    nodes.kill(number)
    wrong = []
    for line in nodes.file.read_text().splitlines():
        key, _, _ = line.partition(" = ")
        is_peer = key.isdigit() and int(key) != number
        wrong.append(f'{key} = "127.0.0.1:{reserved_ports(1)[0]}"' if is_peer else line)
    file, nodes.file = nodes.file, nodes.folder / "wrong.toml"
    nodes.file.write_text("\n".join(wrong))
    nodes.start(number)
    nodes.file = file


def test_a_client_leaves_a_node_without_a_majority(start: Start) -> None:
    nodes = start()
    cut_off(nodes, 1)
    places = f"{_address(nodes, 1)},{_address(nodes, 2)}"
    found = []
    while 1 not in found:  # the order is random
        with habemus.connect(places) as cluster:
            found.append(nodes_of(cluster).connected().node)
            with cluster.lock("x", timeout=PATIENCE) as lease:
                assert session_of(lease).node == 2


def test_status_tells_of_a_node_that_reaches_nobody(start: Start) -> None:
    nodes = start()
    command = [sys.executable, "-m", "habemus", "status", "--cluster", str(nodes.file)]

    def status() -> int:
        return subprocess.run(
            command, capture_output=True, check=False, timeout=PATIENCE
        ).returncode

    until(lambda: status() == 0)
    cut_off(nodes, 1)
    done = subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE)
    assert done.returncode == 1
    assert b"node 1 does not reach any node" in done.stdout


def test_status_tells_of_a_node_with_another_configuration(start: Start) -> None:
    nodes = start()
    nodes.kill(3)
    right = nodes.file.read_text()
    nodes.file.write_text(right.replace('lease = "60s"', 'lease = "61s"'))
    nodes.start(3)
    nodes.file.write_text(right)
    command = [sys.executable, "-m", "habemus", "status", "--cluster", str(nodes.file)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE)
    assert done.returncode == 1
    assert b"node 3 has a different configuration" in done.stdout
    told = json.loads(
        subprocess.run(
            [*command, "--json"], capture_output=True, check=False, timeout=PATIENCE
        ).stdout
    )
    assert [node["differs"] for node in told["nodes"]] == [False, False, True]


TWO_KINDS = """\
[services.locks]
algorithm = "elected-coordinator"
options = { patience = "300ms", election_options = { patience = [200000, 400000], period = 50000 } }
[services.votes]
algorithm = "quorum-yield"
"""


def test_a_lock_is_taken_from_a_node_that_is_gone_or_the_command_says_that_it_cannot(
    start: Start,
) -> None:
    nodes = start(TWO_KINDS)
    with habemus.connect(nodes.socket(3)) as gone, habemus.connect(nodes.socket(1)) as other:
        for service in ("locks", "votes"):
            gone.lock("x", service=service, timeout=PATIENCE).acquire()
        nodes.kill(3)

        def release(service: str) -> subprocess.CompletedProcess[bytes]:
            command = command_line(f"release x --force --all-nodes --service {service}")
            return subprocess.run(
                [*command, "--cluster", str(nodes.file)],
                capture_output=True,
                check=False,
                timeout=PATIENCE,
            )

        def is_taken() -> bool:
            """A coordinator that has only just been elected cannot act on the operator's
            word yet.
            """
            assert release("locks").returncode == 0
            return other.try_lock("x") is not None

        until(is_taken)
        told = release("votes")
        assert told.returncode == 1
        assert b"the algorithm of votes cannot revoke a lock at a node that is down" in told.stdout


def _address(nodes: Nodes, number: int) -> str:
    return next(
        line.split('"')[1]
        for line in nodes.file.read_text().splitlines()
        if line.startswith(f"{number} =")
    )


# Timeouts.


def test_a_timeout_of_0_takes_a_free_lock(start: Start) -> None:
    nodes = start()

    def is_taken(cluster: Cluster) -> bool:
        """One try may fail on a machine that is busy; all of them would if 0 meant no time
        at all.
        """
        try:
            cluster._release(cluster.lock("x", timeout=0).acquire())
        except LockTimeout:
            return False
        return True

    with habemus.connect(nodes.socket(1)) as one, habemus.connect(nodes.socket(2)) as other:
        until(lambda: is_taken(one) and is_taken(other))
        with (
            one.lock("x", timeout=PATIENCE),
            pytest.raises(LockTimeout, match="lock 'x'"),
        ):
            other.lock("x", timeout=0).acquire()

    async def run() -> None:
        async with habemus.connect(nodes.socket(3)) as cluster:
            held = None
            while held is None:
                held = await cluster.try_lock("x")
            async with held:
                with pytest.raises(LockTimeout, match="lock 'x'"):
                    await cluster.lock("x", timeout=0).acquire()

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["blocking", "asynchronous", "command"])
def test_a_timeout_is_waited_for_while_all_nodes_are_down(start: Start, kind: str) -> None:
    nodes = start(size=1)
    socket = nodes.socket(1)

    async def acquired(timeout: float) -> str:
        async with habemus.connect(socket) as cluster, cluster.lock("x", timeout=timeout):
            return "granted"

    def blocking(timeout: float) -> str:
        with habemus.connect(socket) as cluster, cluster.lock("x", timeout=timeout):
            return "granted"

    def command(timeout: float) -> str:
        line = command_line(f"lock x --cluster {socket} --timeout {timeout} -- echo granted")
        done = subprocess.run(line, capture_output=True, check=False, timeout=PATIENCE)
        if done.returncode == 125:
            raise Unreachable(done.stderr.decode())
        return done.stdout.decode().strip()

    ways: dict[str, Callable[[float], str]] = {
        "blocking": blocking,
        "asynchronous": lambda timeout: asyncio.run(acquired(timeout)),
        "command": command,
    }
    nodes.kill(1)
    began = time.monotonic()
    with pytest.raises(Unreachable):
        ways[kind](1.0)
    assert time.monotonic() - began >= 1.0
    waiting = Waiting(lambda: ways[kind](PATIENCE))
    nodes.start(1)
    assert waiting.answer() == "granted"


def test_a_timeout_is_honoured_when_all_nodes_hang(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time for which a client waits for one node does not matter, long as it may be."""
    monkeypatch.setattr("habemus.client.connection.CONNECT_SECONDS", PATIENCE)
    nodes = start()
    with habemus.connect(str(nodes.folder)) as cluster:
        for number in (1, 2, 3):
            nodes.signal(number, signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises((LockTimeout, Unreachable)):
            cluster.lock("x", timeout=1).acquire()
        with pytest.raises((LockTimeout, Unreachable)):
            habemus.connect(str(nodes.folder)).lock("x", timeout=1).acquire()
        assert 2 <= time.monotonic() - began < PATIENCE
        for number in (1, 2, 3):
            nodes.signal(number, signal.SIGCONT)

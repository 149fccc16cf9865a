"""Locks that outlive a node: its clients take them to another one."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.backends import nodes_of, session_of
from tests.live.conftest import PATIENCE, until
from tests.live.forwarder import Forwarder
from tests.live.nodes import SOON, Nodes

import habemus
from habemus import LockTimeout, Unreachable
from habemus.client.address import NodeAddress
from habemus.client.asynchronous import AsyncCluster
from habemus.client.connection import NodeConnection
from habemus.client.credentials import Credentials
from habemus.client.session import NodeSession

ENDINGS = [signal.SIGTERM, signal.SIGKILL]


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    made = Nodes(tmp_path)
    yield made
    made.close()


def node_of(lease: habemus.Lease) -> int:
    """Return the number of the node at which a lease is held now."""
    session: Any = lease._session
    number: int = session.node
    return number


def is_taken(nodes: Nodes, name: str, node: int) -> bool:
    with habemus.connect(nodes.socket(node)) as other:
        try:
            with other.lock(name, timeout=0):
                return False
        except LockTimeout:
            return True


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_blocking_client_takes_its_locks_to_another_node(
    nodes: Nodes, ending: signal.Signals
) -> None:
    lost: list[habemus.Lease] = []
    with habemus.connect(str(nodes.file)) as cluster, ExitStack() as stack:
        locks = [cluster.lock(f"lock-{number}", on_lost=lost.append) for number in range(5)]
        leases = [stack.enter_context(lock) for lock in locks]
        tokens = [lease.token for lease in leases]
        first = node_of(leases[0])
        nodes.processes[first].send_signal(ending)
        until(lambda: all(node_of(lease) != first for lease in leases), SOON)
        for lease in leases:
            lease.check()
        assert [lease.token for lease in leases] == tokens
        assert not lost
        assert is_taken(nodes, "lock-3", node_of(leases[0]))
        stack.close()
        if ending == signal.SIGKILL:  # claimed on trust: nobody gets it for a lease
            assert is_taken(nodes, "lock-3", node_of(leases[0]))
            return
        with cluster.lock("lock-3", timeout=SOON) as again:
            assert again.token is not None
            assert tokens[3] is not None
            assert again.token > tokens[3]


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_asynchronous_client_takes_its_locks_to_another_node(
    nodes: Nodes, ending: signal.Signals
) -> None:
    async def main() -> None:
        async with AsyncCluster(str(nodes.file), Credentials()) as cluster:
            async with cluster.lock("report") as lease, cluster.semaphore("places"):
                first = node_of(lease)
                nodes.processes[first].send_signal(ending)
                async with asyncio.timeout(SOON):
                    while node_of(lease) == first:
                        await asyncio.sleep(0.01)
                lease.check()
            if ending == signal.SIGKILL:  # claimed on trust: nobody gets it for a lease
                return
            async with cluster.lock("report", timeout=SOON) as again:
                assert again.token is not None
                assert lease.token is not None
                assert again.token > lease.token

    asyncio.run(main())


def test_locks_of_default_settings_outlive_a_node_that_hangs(tmp_path: Path) -> None:
    """It stops right after the grants, when no client has a connection for heartbeats yet."""
    nodes = Nodes(tmp_path, services="")
    lost: list[habemus.Lease] = []

    async def main() -> None:
        async with AsyncExitStack() as stack:
            blocking = stack.enter_context(habemus.connect(str(nodes.file)))
            leases = [blocking.lock("blocking", on_lost=lost.append).acquire()]
            hung = node_of(leases[0])
            while len(leases) < 2:
                cluster = await stack.enter_async_context(habemus.connect(str(nodes.file)))
                lease = await cluster.lock("asynchronous", on_lost=lost.append).acquire()
                if node_of(lease) == hung:
                    leases.append(lease)
                else:
                    await cluster.close()
                    lost.clear()
            nodes.signal(hung, signal.SIGSTOP)
            async with asyncio.timeout(SOON):
                while any(node_of(lease) == hung and not lost for lease in leases):
                    await asyncio.sleep(0.01)
            for lease in leases:
                lease.check()

    try:
        asyncio.run(main())
    finally:
        nodes.close()


@pytest.mark.parametrize("ending", [*ENDINGS, signal.SIGSTOP])
def test_a_command_goes_on_while_its_lock_moves(nodes: Nodes, ending: signal.Signals) -> None:
    command = [sys.executable, "-m", "habemus", "lock", "--cluster", str(nodes.file), "job", "--"]
    script = "print('inside', flush=True); input(); print('done')"
    running = subprocess.Popen(
        [*command, sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "inside\n"
    first = next(number for number in nodes.processes if holds(nodes, number, "job"))
    nodes.processes[first].send_signal(ending)
    others = [number for number in nodes.processes if number != first]
    until(lambda: any(holds(nodes, number, "job") for number in others), SOON)
    said, complaint = running.communicate("\n", timeout=PATIENCE)
    assert (running.returncode, said, complaint) == (0, "done\n", "")


def holds(nodes: Nodes, number: int, name: str) -> bool:
    """Return whether a client of a node holds a lock."""
    with habemus.connect(nodes.socket(number)) as cluster:
        locks = cluster.status()["locks"]
    return any(each["name"] == name and each["holder"] is not None for each in locks)


def test_a_node_that_all_clients_have_left_ends_at_once(nodes: Nodes) -> None:
    with habemus.connect(str(nodes.file)) as cluster, cluster.lock("report") as lease:
        first = node_of(lease)
        process = nodes.processes[first]
        process.send_signal(signal.SIGTERM)
        process.wait(SOON)  # far shorter than the lease
        assert node_of(lease) != first
        lease.check()


def test_a_claim_is_refused_after_the_lock_went_on(nodes: Nodes) -> None:
    with habemus.connect(nodes.socket(1)) as cluster, cluster.lock("report") as lease:
        token, ticket = lease.token, lease._state.ticket
    with habemus.connect(nodes.socket(2)) as other, other.lock("report", timeout=SOON):
        connection = NodeConnection(NodeAddress(nodes.socket(3)), Credentials(), "late")
        connection.say("claim", 1, "locks", "report", token, token, 30_000, 0, False, ticket)
        line = connection.hear(SOON)
        assert line[:3] == ["refused", 1, "lost"]
        connection.close()


def test_locks_outlive_the_node_that_coordinates(nodes: Nodes) -> None:
    with habemus.connect(str(nodes.file)) as cluster:
        with cluster.lock("first", timeout=PATIENCE):
            leader = next(each["leader"] for each in cluster.status()["leaders"])
        until(lambda: is_at(cluster, leader), PATIENCE)
        with cluster.lock("report") as lease:
            assert node_of(lease) == leader
            nodes.kill(leader)
            until(lambda: node_of(lease) != leader, SOON)
            lease.check()


def is_at(cluster: habemus.Cluster, number: int) -> bool:
    """Connect again if the client is not at this node; return whether it is."""
    if cluster.status()["node"] != number:
        cluster.close()
    return bool(cluster.status()["node"] == number)


def test_a_lock_that_is_released_on_its_way_is_free_before_its_lease_is_over(nodes: Nodes) -> None:
    """Its node keeps it for the client, which does not need it any more."""
    with habemus.connect(str(nodes.file)) as cluster:
        lock = cluster.lock("report")
        lease = lock.acquire()
        first = node_of(lease)

        def release_first(session: NodeSession) -> NodeSession:
            lock.release(lease)
            session.successor = nodes_of(cluster)._left.successor
            raise Unreachable("no node answers")  # at the first attempt

        session_of(lease).successor = release_first
        nodes.processes[first].send_signal(signal.SIGTERM)
        until(lambda: lease.released, SOON)
        others = [nodes.address(each) for each in nodes.processes if each != first]
        with habemus.connect(",".join(others)) as other, other.lock("report", timeout=SOON):
            pass


def test_a_node_that_was_killed_says_that_no_other_one_may_be_restarted_yet(nodes: Nodes) -> None:
    """It does not take part in the locks of its former clients for a lease."""
    words = "does not take part in 1 lock yet"
    with habemus.connect(str(nodes.file)) as cluster, cluster.lock("report") as lease:
        first = node_of(lease)
        nodes.kill(first)
        until(lambda: node_of(lease) != first, SOON)
        nodes.start(first)
        with habemus.connect(nodes.socket(first)) as restarted:
            until(lambda: restarted.status()["member"])
            assert any(words in why for why in restarted.status()["unsettled"])
        command = [sys.executable, "-m", "habemus", "status", "--cluster", str(nodes.file)]
        told = subprocess.run(command, capture_output=True, check=False, text=True)
        assert told.returncode == 1
        assert words in told.stdout + told.stderr
        lease.check()


def test_of_two_claims_of_one_lock_at_two_nodes_only_one_is_granted(nodes: Nodes) -> None:
    with habemus.connect(nodes.socket(1)) as cluster:
        lease = cluster.lock("report").acquire()
        token, ticket = lease.token, lease._state.ticket
        claims = [
            NodeConnection(NodeAddress(nodes.socket(each)), Credentials(), "twice")
            for each in (2, 3)
        ]
        for each in claims:
            each.say("claim", 1, "locks", "report", token, token, 30_000, 0, False, ticket)
        answers = sorted(each.hear(SOON)[0] for each in claims)
        assert answers == ["granted", "refused"]
        for each in claims:
            each.close()


@pytest.mark.parametrize("is_name", [True, False], ids=["name", "address"])
def test_a_lock_outlives_the_only_node_that_its_client_was_given(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch, is_name: bool
) -> None:
    """A name with several addresses, as a headless service has, or the address of one node."""
    places = [nodes.address(number).rpartition(":") for number in (1, 2, 3)]
    resolve = socket.getaddrinfo

    def resolve_cluster(host: str, *given: Any, **more: Any) -> Any:
        if host != "cluster.test":
            return resolve(host, *given, **more)
        return [found for ip, _, port in places for found in resolve(ip, int(port), **more)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve_cluster)
    given = "cluster.test:7400" if is_name else nodes.address(1)
    with habemus.connect(given) as cluster, cluster.lock("report", timeout=SOON) as lease:
        first = node_of(lease)
        if is_name:  # its nodes do not tell usable addresses
            session_of(lease).welcome["nodes"] = {"1": "", "2": "", "3": ""}
        nodes.kill(first)
        until(lambda: node_of(lease) != first or lease.lost, SOON)
        lease.check()


@pytest.mark.parametrize("is_command", [False, True])
def test_a_client_that_is_cut_off_takes_its_lock_to_another_node(
    nodes: Nodes, is_command: bool
) -> None:
    """No other client gets it in between, although one waits."""
    forwarders = [Forwarder(nodes.address(each)) for each in nodes.processes]
    where = ",".join(each.address for each in forwarders)
    script = "print('inside', flush=True); input(); print('done', flush=True)"
    work = "import habemus\nwith habemus.connect(%r) as cluster, cluster.lock('job'):\n    %s"
    program = [sys.executable, "-c", work % (where, script)]
    if is_command:
        lock = [sys.executable, "-m", "habemus", "lock", "--cluster", where, "job", "--"]
        program = [*lock, sys.executable, "-c", script]
    running = subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "inside\n"
    with habemus.connect(nodes.socket(1)) as other:
        began = threading.Event()
        granted: list[bool] = []

        def wait() -> None:
            began.set()
            with other.lock("job", timeout=PATIENCE):
                granted.append(running.poll() is None)

        waiting = threading.Thread(target=wait)
        waiting.start()
        began.wait(PATIENCE)
        for each in forwarders:
            each.cut()
        until(lambda: any(holds(nodes, number, "job") for number in nodes.processes), SOON)
        assert not granted
        said, complaint = running.communicate("\n", timeout=PATIENCE)
        waiting.join(PATIENCE)
    assert (running.returncode, said, complaint) == (0, "done\n", "")
    assert len(granted) == 1
    for each in forwarders:
        each.close()

"""One-way cuts of a real network: every node has a network namespace of its own.

`make test-namespaces` runs this; it needs root and `ip` (iproute2).  The proxies of
`habemus torture` cut connections in one direction above TCP.  Here the kernel loses the packets of
one node to another: the sender has a wrong hardware address for the receiver, so nothing that it
sends arrives, not even acknowledgements, while everything sent to it does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.live.conftest import PATIENCE, until
from tests.live.nodes import LAPSING

import habemus

HUB = f"habemus-{os.getpid()}-0"
NOWHERE = "02:00:00:00:00:99"
"""A hardware address that no interface has."""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def namespace(node: int) -> str:
    return f"habemus-{os.getpid()}-{node}"


class Network:
    """Three nodes, each in its own namespace, on one bridge."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "cluster.toml"
        (folder / "data").mkdir()
        addresses = "".join(f'{node} = "10.77.0.{node}:7400"\n' for node in (1, 2, 3))
        self.file.write_text(
            f'cluster = "namespaces"\ndata = "data"\ninsecure = true\nsocket = "node-{{id}}.sock"\n'
            f"[nodes]\n{addresses}{LAPSING}"
        )
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        ip("netns", "add", HUB)
        ip("-n", HUB, "link", "add", "bridge", "type", "bridge")
        ip("-n", HUB, "link", "set", "bridge", "up")
        for node in (1, 2, 3):
            name = namespace(node)
            ip("netns", "add", name)
            ip("-n", HUB, "link", "add", f"v{node}", "type", "veth", "peer", "eth0", "netns", name)
            ip("-n", HUB, "link", "set", f"v{node}", "master", "bridge", "up")
            ip("-n", name, "address", "add", f"10.77.0.{node}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
            command = [sys.executable, "-m", "habemus", "node", "--config", str(self.file)]
            self.processes.append(
                subprocess.Popen(["ip", "netns", "exec", name, *command, "--id", str(node)])
            )

    def cut(self, sender: int, receiver: int) -> None:
        """Lose all packets of the sender to the receiver, and none of the other direction."""
        self._neighbour(sender, receiver, "replace", "lladdr", NOWHERE, "nud", "permanent")

    def heal(self, sender: int, receiver: int) -> None:
        self._neighbour(sender, receiver, "del")

    def _neighbour(self, node: int, other: int, verb: str, *words: str) -> None:
        ip("-n", namespace(node), "neigh", verb, f"10.77.0.{other}", "dev", "eth0", *words)

    def client(self, node: int) -> habemus.Cluster:
        return habemus.connect(str(self.folder / f"node-{node}.sock"), name=f"of-{node}")

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        for node in (0, 1, 2, 3):
            subprocess.run(["ip", "netns", "del", namespace(node)], check=False)


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    made = Network(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def token_at(network: Network, node: int) -> int:
    """Return the token of a grant at a node, when it grants the lock."""
    with network.client(node) as cluster, cluster.lock("x", timeout=PATIENCE) as lease:
        assert lease.token is not None
        return lease.token


@pytest.mark.parametrize("holder", [1, 2, 3])
def test_a_node_that_cannot_send_loses_its_lock(network: Network, holder: int) -> None:
    others = sorted({1, 2, 3} - {holder})
    until(lambda: all((network.folder / f"node-{node}.sock").exists() for node in (1, 2, 3)))
    assert token_at(network, 1) < token_at(network, 2) < token_at(network, 3)
    with network.client(holder) as cluster:
        lease = cluster.lock("x", timeout=PATIENCE).acquire()
        assert lease.token is not None
        for other in others:
            network.cut(holder, other)
        later = token_at(network, others[0])
        assert later > lease.token
        assert lease.lost, "the lease ends for the client before another one gets the lock"
        with pytest.raises(habemus.LockLost):
            lease.check()
        for other in others:
            network.heal(holder, other)
    assert token_at(network, holder) > later


def test_one_link_that_is_cut_one_way_stops_no_client(network: Network) -> None:
    """A node that cannot talk with the leader has no leader; its clients move to another node."""
    until(lambda: all((network.folder / f"node-{node}.sock").exists() for node in (1, 2, 3)))
    tokens = [token_at(network, 1)]
    for sender, receiver in ((1, 2), (2, 3), (3, 1)):
        network.cut(sender, receiver)
        for _ in range(3):
            with (
                habemus.connect(network.file) as cluster,
                cluster.lock("x", timeout=PATIENCE) as lease,
            ):
                tokens.append(lease.token or 0)
        network.heal(sender, receiver)
    assert tokens == sorted(set(tokens)) and len(tokens) == 10

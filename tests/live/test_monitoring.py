"""Metrics, probes, logs and new certificates of a real cluster with TLS and a secret."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import ssl
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.live.conftest import PATIENCE, until
from tests.live.nodes import DEFAULT, Nodes

import habemus
from habemus.runtimes.live.clients.protocol import WIRE_VERSION
from habemus.runtimes.live.monitoring.http_server import MOST_CONNECTIONS
from habemus.runtimes.live.peers.unauthenticated import MOST_UNAUTHENTICATED

TLS = """
[tls]
ca = "papers/ca.pem"
certificate = "papers/node-{id}.pem"
key = "papers/node-{id}.key"
"""
RULES = """
[[rules]]
who = ["@socket"]
may = ["lock", "watch", "force"]
names = ["*"]

[[rules]]
who = ["alice"]
may = ["lock"]
names = ["reports/*"]
"""


def told(systemd: socket.socket) -> str:
    """Return what a node tells systemd next, except that it is alive."""
    while (told := systemd.recv(1_000).split(b"\n")[0]) == b"WATCHDOG=1":
        pass
    return told.decode()


def certs(folder: Path, *flags: str) -> None:
    command = [sys.executable, "-m", "habemus", "certs", "papers", "--cluster", "office"]
    command += ["--nodes", "3", "--clients", "alice", *flags]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A socket that receives what the nodes tell systemd."""
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", "60000000")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiving:
        receiving.bind(str(tmp_path / "notify"))
        receiving.settimeout(PATIENCE)
        yield receiving


@pytest.fixture
def nodes(tmp_path: Path, systemd: socket.socket) -> Iterator[Nodes]:
    certs(tmp_path, "--secret", "papers/secret")
    head = 'secret_file = "papers/secret"\nmetrics = "0.0.0.0:0"'
    services = DEFAULT + TLS + RULES
    made = Nodes(tmp_path, services, head=head, flags=["--log-format", "json", "-v"])
    try:
        yield made
    finally:
        made.close()


class Monitoring:
    """The pages of the nodes, as Prometheus and the probes of Kubernetes ask for them."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        papers = nodes.folder / "papers"
        self.context = ssl.create_default_context(cafile=str(papers / "ca.pem"))
        self.context.check_hostname = False
        self.trusted = ssl.create_default_context(cafile=str(papers / "ca.pem"))
        self.trusted.check_hostname = False
        self.trusted.load_cert_chain(papers / "client-alice.pem", papers / "client-alice.key")

    def get(self, node: int, path: str, *, trusted: bool = False) -> tuple[int, str]:
        port = int(self.nodes.started[node]["metrics"].rpartition(":")[2])
        connection = http.client.HTTPSConnection(
            "127.0.0.1", port, timeout=PATIENCE, context=self.trusted if trusted else self.context
        )
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def values(self, node: int) -> dict[str, float]:
        status, text = self.get(node, "/metrics", trusted=True)
        assert status == 200
        return {
            sample.name + "".join(f" {value}" for value in sample.labels.values()): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def certificate(self, address: str) -> bytes:
        """Return the certificate that a node shows at an address."""
        host, _, port = address.rpartition(":")
        with (
            socket.create_connection((host.replace("0.0.0.0", "127.0.0.1"), int(port))) as plain,
            self.trusted.wrap_socket(plain) as secured,
        ):
            shown = secured.getpeercert(binary_form=True)
            assert shown is not None
            return shown

    def say(self, address: str, line: list[Any]) -> None:
        """Send one line as a client."""
        host, _, port = address.rpartition(":")
        with (
            socket.create_connection((host, int(port))) as plain,
            self.trusted.wrap_socket(plain) as secured,
        ):
            secured.sendall(json.dumps(line).encode() + b"\n")
            secured.recv(1_000)


def logged(nodes: Nodes, number: int) -> list[dict[str, Any]]:
    """Return the records of a node's log: every line is one JSON object."""
    lines = (nodes.folder / f"{number}.log").read_text().splitlines()
    return [json.loads(line) for line in lines]


def has_logged(nodes: Nodes, number: int, text: str) -> bool:
    return any(text in record["message"] for record in logged(nodes, number))


def say(nodes: Nodes, *command: str) -> tuple[int, Any]:
    """Run a command about the cluster that prints JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "habemus", *command, "--json"],
        cwd=nodes.folder,
        capture_output=True,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


def check_commands(nodes: Nodes) -> None:
    """Check `top` and `doctor` while the lock x is held."""
    code, seen = say(nodes, "top", "--once", "--cluster", "cluster.toml")
    assert code == 0 and (seen["up"], seen["held"], seen["waiting"]) == (3, 1, 0)
    assert seen["locks"][0]["name"] == "x" and seen["locks"][0]["held_ms"] >= 0
    until(lambda: is_sound(nodes))


def is_sound(nodes: Nodes) -> bool:
    """Return whether `doctor` finds a leader and all peers: after a stall, there is none yet."""
    code, found = say(nodes, "doctor", "--config", "cluster.toml")
    levels = {(check["name"], check["level"]) for check in found["checks"]}
    assert {"space", "fsync"} <= {name for name, _ in levels}
    assert code == (0 if found["healthy"] else 1)
    sound = ("quorum", "leader", "versions", "peers", "certificate")
    return {(name, "ok") for name in sound} <= levels


def check_strangers(nodes: Nodes, pages: Monitoring) -> None:
    """Check that silent connections without a certificate keep nobody out of node 1."""
    before = pages.values(1)["process_open_fds"]
    places = [nodes.address(1), nodes.started[1]["metrics"]]
    strangers = []
    for place, number in zip(places, (300, 150), strict=True):
        host, _, port = place.replace("0.0.0.0", "127.0.0.1").rpartition(":")
        strangers += [socket.create_connection((host, int(port))) for _ in range(number)]
    assert pages.get(1, "/livez") == (200, "ok\n")
    assert pages.get(1, "/readyz") == (200, "ok\n")
    assert pages.values(1)["process_open_fds"] <= before + MOST_UNAUTHENTICATED + MOST_CONNECTIONS
    with habemus.connect(nodes.socket(2)) as cluster, cluster.lock("z", timeout=PATIENCE):
        pass
    assert pages.values(1)["habemus_peer_up 2"] == pages.values(1)["habemus_peer_up 3"] == 1
    for each in strangers:
        each.close()


def test_a_cluster_shows_what_happens_in_it(nodes: Nodes, systemd: socket.socket) -> None:
    pages = Monitoring(nodes)
    heard = Counter[bytes]()
    while heard[b"READY=1"] < 3 or heard[b"WATCHDOG=1"] < 3:
        heard[systemd.recv(1_000).split(b"\n")[0]] += 1
    assert len(heard) == 2
    until(lambda: pages.get(1, "/readyz") == (200, "ok\n"))
    assert pages.get(1, "/livez") == (200, "ok\n")
    assert pages.get(1, "/metrics")[0] == 403  # without a certificate

    with habemus.connect(nodes.socket(1)) as cluster:
        with cluster.lock("x", timeout=PATIENCE):
            assert pages.values(1)["habemus_held_locks locks"] == 1
            check_commands(nodes)
        until(lambda: pages.values(1)["habemus_held_locks locks"] == 0)
        found = pages.values(1)
        assert found["habemus_grants_total locks"] == found["habemus_wait_seconds_count locks"] == 1
        assert found["habemus_ready"] == found["habemus_peer_up 2"] == 1

        check_strangers(nodes, pages)

        # new certificates: a lock that is held stays, and both ports show the new one
        before = pages.certificate(nodes.address(1))
        with cluster.lock("y", timeout=PATIENCE) as lease:
            certs(nodes.folder, "--renew")
            nodes.signal(1, signal.SIGHUP)
            until(lambda: has_logged(nodes, 1, "read the certificates again"))
            assert [told(systemd) for _ in range(2)] == ["RELOADING=1", "READY=1"]
            after = pages.certificate(nodes.address(1))
            assert after != before
            assert pages.certificate(nodes.started[1]["metrics"]) == after
            lease.check()
    assert pages.values(1)["habemus_lost_leases_total no_heartbeat"] == 0
    (nodes.folder / "papers" / "node-1.pem").write_text("nonsense")
    nodes.signal(1, signal.SIGHUP)
    until(lambda: has_logged(nodes, 1, "kept the old certificates"))
    assert pages.certificate(nodes.address(1)) == after

    # refusals, forced releases and elections are in the log, the secret is not
    pages.say(nodes.address(2), ["hello", WIRE_VERSION, "mallory"])
    until(lambda: pages.values(2)["habemus_refusals_total unauthenticated"] == 1)
    refused = next(each for each in logged(nodes, 2) if "needs its secret" in each["message"])
    assert "127.0.0.1" in refused["message"] and refused["level"] == "warning"
    assert refused["node"] == 2 and refused["term"] >= 1
    election = next(each for each in logged(nodes, 2) if each.get("event") == "election")
    assert election["leader"] in (1, 2, 3) and election["leader_term"] >= 1
    secret = (nodes.folder / "papers" / "secret").read_text().strip()
    everything = "".join((nodes.folder / f"{number}.log").read_text() for number in (1, 2, 3))
    assert secret not in everything

    # alice may lock reports/*, as her certificate says who she is
    papers = {"ca": "ca.pem", "certificate": "client-alice.pem", "key": "client-alice.key"}
    files = {name: str(nodes.folder / "papers" / file) for name, file in papers.items()}
    with habemus.connect(nodes.address(2), secret=secret.encode(), **files) as alice:
        with alice.lock("reports/x", timeout=PATIENCE):
            pass
        with pytest.raises(habemus.HabemusError, match="alice, @secret may not lock 'x'"):
            alice.lock("x", timeout=PATIENCE).acquire()
    assert pages.values(2)["habemus_refusals_total forbidden"] == 1

    # without a majority a node is alive and not ready
    nodes.kill(2)
    nodes.kill(3)
    until(lambda: pages.get(1, "/readyz")[0] == 503)
    assert "no majority" in pages.get(1, "/readyz")[1]
    assert pages.get(1, "/livez") == (200, "ok\n")
    assert pages.values(1)["habemus_ready"] == 0
    code, found = say(nodes, "doctor", "--cluster", "cluster.toml")
    assert code == 1
    assert "1 of 3 nodes take part: no majority" in [check["text"] for check in found["checks"]]

"""TLS to engines, with real servers and an authority of our own.

etcd and ZooKeeper are among them if their tests were asked for, as in `test_backends`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.live.engines import Etcd, PostgreSQL, Redis, Server, ZooKeeper
from tests.ports import reserved_ports
from tests.unit.fencing.conftest import as_another

import habemus
from habemus.client.blocking import Cluster

CHOSEN = os.environ.get("HABEMUS_TEST_BACKENDS", "postgresql,redis").split(",")


def certificates(folder: Path) -> Path:
    words = ["--nodes", "1", "--host", "127.0.0.1", "--clients", "me,other"]
    command = [sys.executable, "-m", "habemus", "certs", str(folder), *words]
    subprocess.run(command, check=True, capture_output=True)
    return folder


class SafeRedis(Redis):
    """A Redis server with TLS only."""

    def __init__(self, folder: Path, papers: Path) -> None:
        self._papers = papers
        super().__init__(folder)
        self.url = f"rediss://:correct@127.0.0.1:{self.port}/0?ssl_ca_certs={{ca}}"

    def command(self) -> list[str]:
        files = {"cert": "node-1.pem", "key": "node-1.key", "ca-cert": "ca.pem"}
        paths = [
            word for k, v in files.items() for word in (f"--tls-{k}-file", f"{self._papers}/{v}")
        ]
        port = ["--port", "0", "--tls-port", str(self.port), "--tls-auth-clients", "no"]
        return [*super().command(), *port, *paths]


class SafePostgreSQL(PostgreSQL):
    """A PostgreSQL server with TLS."""

    def __init__(self, folder: Path, papers: Path) -> None:
        user, group = as_another()
        for name in ("node-1.pem", "node-1.key"):
            shutil.copy(papers / name, folder)
            os.chown(folder / name, user, group)
            (folder / name).chmod(0o600)
        super().__init__(folder)
        self.url += "?sslmode=verify-full&sslrootcert={ca}"

    def command(self) -> list[str]:
        files = {"ssl_cert_file": "node-1.pem", "ssl_key_file": "node-1.key"}
        settings = ["ssl=on", *(f"{k}={self.folder}/{v}" for k, v in files.items())]
        return [*super().command(), *(word for each in settings for word in ("-c", each))]


class SafeEtcd(Etcd):
    """An etcd server with TLS, which asks clients for certificates."""

    def __init__(self, folder: Path, papers: Path) -> None:
        self._papers = papers
        (self._peers,) = reserved_ports(1)
        Server.__init__(self, folder)
        self.url = f"etcd://127.0.0.1:{self.port}"

    def ready(self) -> bool:
        return Server.ready(self)

    def command(self) -> list[str]:
        files = {"cert": "node-1.pem", "key": "node-1.key", "trusted-ca": "ca.pem"}
        paths = [word for k, v in files.items() for word in (f"--{k}-file", f"{self._papers}/{v}")]
        here = f"http://127.0.0.1:{self.port}"
        return [
            *(word.replace(here, here.replace("http", "https")) for word in super().command()),
            *paths,
            "--client-cert-auth",
        ]


class SafeZooKeeper(ZooKeeper):
    """A ZooKeeper server with TLS only, which asks clients for certificates."""

    def __init__(self, folder: Path, papers: Path) -> None:
        self._papers = papers
        both = [(papers / name).read_text() for name in ("node-1.key", "node-1.pem")]
        (folder / "server.pem").write_text("".join(both))
        Server.__init__(self, folder)
        self.url = f"zookeeper://habemus:correct@127.0.0.1:{self.port}"

    def ready(self) -> bool:
        return Server.ready(self)

    def settings(self) -> list[str]:
        return [
            f"secureClientPort={self.port}",
            "secureClientPortAddress=127.0.0.1",
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
            f"ssl.keyStore.location={self.folder}/server.pem",
            f"ssl.trustStore.location={self._papers}/ca.pem",
        ]


SAFE: dict[str, Callable[[Path, Path], Server]] = {
    "postgresql": SafePostgreSQL,
    "redis": SafeRedis,
    "etcd": SafeEtcd,
    "zookeeper": SafeZooKeeper,
}


@pytest.fixture(params=[each for each in CHOSEN if each in SAFE])
def safe(request: pytest.FixtureRequest) -> Iterator[tuple[str, Server, Path]]:
    with tempfile.TemporaryDirectory(prefix="habemus-", ignore_cleanup_errors=True) as place:
        folder = Path(place) / "server"
        Path(place).chmod(0o755)
        folder.mkdir()
        papers = certificates(Path(place) / "papers")
        certificates(Path(place) / "other")
        server = SAFE[request.param](folder, papers)
        yield request.param, server, Path(place)
        server.stop()


WITH_FILES = ("etcd", "zookeeper")
"""Engines to which certificates are given beside the URL; they ask for that of the client."""


def connected(safe: tuple[str, Server, Path], authority: str, who: str = "me") -> Cluster:
    """Return a client that trusts an authority, and has a certificate of the right one."""
    name, server, place = safe
    ca = str(place / authority / "ca.pem")
    if name not in WITH_FILES:
        return habemus.connect(server.url.replace("{ca}", ca))
    mine = str(place / "papers" / f"client-{who}") if who else ""
    files = (f"{mine}.pem", f"{mine}.key") if mine else (None, None)
    return habemus.connect(server.url, ca=ca, certificate=files[0], key=files[1])


def refusal(cluster: Cluster) -> str:
    with pytest.raises((habemus.RefusedByNode, habemus.Unreachable)) as refused:
        cluster.lock("refused").acquire()
    said = str(refused.value)
    assert "\n" not in said
    return said


def test_locks_over_tls(safe: tuple[str, Server, Path]) -> None:
    name, server, _ = safe
    with connected(safe, "papers") as cluster, cluster.lock("safe") as lease:
        assert lease.token is not None
    assert "certificate" in refusal(connected(safe, "other"))
    if name in WITH_FILES:
        assert "certificate" in refusal(connected(safe, "papers", who=""))
        refusal(habemus.connect(server.url))  # without TLS
    if name == "zookeeper":  # where a certificate is a user as well
        with connected(safe, "papers", "other"):
            pass
        server.url = server.url.replace("correct", "wrong")
        assert "not permitted" in refusal(connected(safe, "papers", "other"))


def test_a_server_with_the_certificate_of_another_host_is_refused(
    safe: tuple[str, Server, Path],
) -> None:
    """It is signed by the right authority."""
    _, server, _ = safe
    there = server.url.replace("127.0.0.1", "localhost")
    assert there != server.url
    server.url = there
    assert "certificate" in refusal(connected(safe, "papers"))

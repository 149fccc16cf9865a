"""What a user can say wrong: numbers that are none, empty names, leases that the cluster does not
give.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from tests.unit.client.conftest import PATIENCE, SERVICES, WELCOME, FakeNode, grants, line

import habemus
from habemus.client.address import NodeAddress, cluster_address
from habemus.client.credentials import Credentials
from habemus.runtimes.live.cluster_file import BadConfig
from habemus.runtimes.live.config import load

Start = Callable[..., FakeNode]

LEASED = {**WELCOME, "services": {"locks": {**SERVICES["locks"], "lease_ms": 2_000}}}


def leased(said: list[Any]) -> bytes:
    return line("welcome", LEASED) if said[0] == "hello" else grants(said)


# Numbers.


@pytest.mark.parametrize("timeout", [nan, inf, 1e9, "5", True])
def test_a_timeout_is_a_number_of_seconds(timeout: Any) -> None:
    cluster = habemus.connect("127.0.0.1:1")
    with pytest.raises(ValueError, match=r"^timeout=.*: give a number of seconds"):
        cluster.lock("x", timeout)
    with pytest.raises(ValueError, match=r"^timeout="):
        cluster.semaphore("x", 2, timeout)
    with pytest.raises(ValueError, match=r"^timeout="):
        cluster.election("x").lead(timeout)
    with pytest.raises(ValueError, match=r"^timeout="):
        cluster.lock("x", timeout, keep=True)
    with pytest.raises(ValueError, match=r"^timeout="), cluster.acquire_all(["x"], timeout):
        pass


def test_arguments_of_acquire_and_functions_that_cannot_be_decorated() -> None:
    lock = habemus.connect("127.0.0.1:1").lock("x")
    with pytest.raises(ValueError, match=r"^timeout=.*leave one of them out$"):
        lock.acquire(blocking=False, timeout=1)
    with pytest.raises(ValueError, match=r"^timeout=.*: give a number of seconds"):
        lock.acquire(timeout=nan)

    def numbers() -> Iterator[int]:
        yield 1

    async def report() -> None: ...

    with pytest.raises(TypeError, match="numbers is a generator"):
        lock(numbers)
    for options in ({"reentrant": True}, {"keep": True}):
        with pytest.raises(ValueError, match="report, which is a coroutine"):
            habemus.connect("127.0.0.1:1").lock("x", **options)(report)  # type: ignore[arg-type]


@pytest.mark.parametrize("lease", [nan, inf, -inf, 0, -1, 1e9, "5", True])
def test_a_lease_is_a_number_of_seconds(lease: Any) -> None:
    cluster = habemus.connect("127.0.0.1:1")
    with pytest.raises(ValueError, match=r"^lease=.*: give a number of seconds, more than 0"):
        cluster.lock("x", lease=lease)
    with pytest.raises(ValueError, match=r"^lease="):
        cluster.try_lock("x", lease)


def test_the_asynchronous_client_looks_at_numbers_as_well(fake_node: Start) -> None:
    async def run() -> None:
        async with habemus.connect(fake_node(grants).place) as cluster:
            with pytest.raises(ValueError, match=r"^timeout=nan"):
                cluster.lock("x", nan)
            with pytest.raises(ValueError, match=r"^lease=inf"):
                cluster.lock("x", lease=inf)
            with pytest.raises(ValueError, match=r"^timeout=inf"):
                async with cluster.acquire_all(["x"], inf):
                    pass

    asyncio.run(run())


@pytest.mark.parametrize("option", ["--lease", "--timeout"])
@pytest.mark.parametrize("number", ["nan", "inf", "-1", "1e99", "soon"])
def test_numbers_on_the_command_line(option: str, number: str) -> None:
    done = lock(option, number, "x", "--", "true")
    assert done.returncode == 2
    assert f"{option}: '{number}' is not a number" in done.stderr
    assert done.stderr.count("\n") == 1


def lock(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "habemus", "lock", *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=environment or None,
    )


# Leases.


def test_a_lease_longer_than_the_clusters_is_refused(fake_node: Start) -> None:
    with habemus.connect(fake_node(leased).place) as cluster:
        with pytest.raises(
            ValueError, match=r"a lease of 3 s is longer than that of the cluster's locks \(2 s\)"
        ):
            cluster.lock("x", PATIENCE, lease=3).acquire()
        with cluster.lock("x", PATIENCE, lease=2):
            pass


def test_and_on_the_command_line(fake_node: Start, tmp_path: Path) -> None:
    place = str(tmp_path / "1.sock")
    fake_node(leased, place)
    done = lock("x", "--cluster", place, "--lease", "3", "--", "echo", "inside")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "habemus: a lease of 3 s is longer than that of the cluster's locks (2 s): ask for"
    )
    assert done.stderr.count("\n") == 1


# Where the cluster is.


@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_name_is_not_another_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / ".habemus").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="the name of the cluster is empty"):
        cluster_address(name)
    monkeypatch.setenv("HABEMUS_CLUSTER", name)
    with pytest.raises(ValueError, match="HABEMUS_CLUSTER is empty"):
        cluster_address()
    assert cluster_address("127.0.0.1:7400").nodes == [NodeAddress(host="127.0.0.1", port=7400)]


def test_an_empty_name_ends_a_command(tmp_path: Path) -> None:
    done = lock("x", "--", "true", HABEMUS_CLUSTER="", HOME=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("habemus: HABEMUS_CLUSTER is empty")
    assert done.stderr.count("\n") == 1


def test_paths_of_a_cluster_file_may_be_absolute(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("secret", "1.sock"):
        (elsewhere / name).write_bytes(b"a secret of the cluster\n")
    (tmp_path / "cluster.toml").write_text(
        f'cluster = "office"\nsecret_file = "{elsewhere}/secret"\nsocket ='
        f' "{elsewhere}/{{id}}.sock"\n[nodes]\n1 = "127.0.0.1:7400"\n[tls]\nca ='
        f' "{elsewhere}/ca.pem"\n'
    )
    where = cluster_address(str(tmp_path / "cluster.toml"))
    assert where.secret == b"a secret of the cluster"
    assert where.authority == f"{elsewhere}/ca.pem"
    assert where.nodes == [
        NodeAddress(f"{elsewhere}/1.sock"),
        NodeAddress(host="127.0.0.1", port=7400),
    ]


# Who the client is.


def test_a_newline_at_the_end_of_a_secret_is_harmless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_bytes(b"a secret of the cluster\n")
    assert Credentials.given(b"a secret of the cluster\n").secret == b"a secret of the cluster"
    assert (
        Credentials.given(secret_file=str(tmp_path / "secret")).secret == b"a secret of the cluster"
    )
    monkeypatch.setenv("HABEMUS_SECRET_FILE", str(tmp_path / "secret"))
    assert Credentials.given().secret == b"a secret of the cluster"
    assert Credentials.given(b"another secret of it").secret == b"another secret of it"


def test_credentials_of_the_environment_are_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("of the environment\n")
    monkeypatch.setenv("HABEMUS_SECRET_FILE", str(tmp_path / "secret"))
    for name in ("CA", "CERTIFICATE", "KEY"):
        monkeypatch.setenv(f"HABEMUS_{name}", f"{name.lower()}.pem")
    found = Credentials.given()
    assert found == (b"of the environment", "ca.pem", "certificate.pem", "key.pem")
    assert Credentials.given(b"mine", "1", "2", "3") == (b"mine", "1", "2", "3")


def test_a_secret_file_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"\n")
    with pytest.raises(ValueError, match="is empty"):
        Credentials.given(secret_file=str(tmp_path / "empty"))
    with pytest.raises(ValueError, match="No such file"):
        habemus.connect(secret_file=str(tmp_path / "none"))


@pytest.mark.parametrize("file", ["ca", "certificate"])
def test_certificates_that_cannot_be_used_are_named(
    fake_node: Start, tmp_path: Path, alice: dict[str, Any], file: str
) -> None:
    missing = str(tmp_path / "missing.pem")
    with pytest.raises(ValueError, match=r"missing\.pem.*: No such file"):
        habemus.connect(fake_node(grants).place, **{**alice, file: missing})._backend.connect()


@pytest.mark.parametrize("file", ["ca", "certificate", "key"])
@pytest.mark.parametrize("url", ["etcd://127.0.0.1:1", "zookeeper://127.0.0.1:1"])
def test_certificates_for_engines_that_cannot_be_used_are_named(
    tmp_path: Path, alice: dict[str, Any], url: str, file: str
) -> None:
    missing = str(tmp_path / "missing.pem")
    with pytest.raises(ValueError, match=r"missing\.pem.*: No such file"):
        habemus.connect(url, **{**alice, file: missing})


NODES = 'nodes = { 1 = "127.0.0.1:7401" }'


@pytest.mark.parametrize(
    ("text", "number", "why"),
    [
        ("nodes = 5", 1, "nodes must be a table, not 5"),
        ("nodes = [1]", 1, "nodes must be a table"),
        ("nodes = { 1 = 5 }", 1, "5 is not an address"),
        ('nodes = { 101 = "127.0.0.1:7401" }', 1, "node 101; the largest number is 100"),
        (f"{NODES}\nsocket = 5", 2, "socket must be a string"),
        (f'{NODES}\nsocket = "run/node.sock"', 2, "the same for all nodes"),
        (f"{NODES}\nsecret_file = true", 2, "secret_file must be a string"),
        (f"{NODES}\ntls = 1979-05-27", 2, "tls must be a table"),
        (f"{NODES}\n[tls]\nca = 1", 3, "tls.ca must be a string"),
    ],
)
def test_clients_and_nodes_refuse_the_same_lines_of_a_cluster_file(
    tmp_path: Path, text: str, number: int, why: str
) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(text + "\n")
    with pytest.raises(ValueError, match=f"cluster.toml, line {number}: .*{why}") as refusal:
        cluster_address(str(file))
    assert "\n" not in str(refusal.value)
    if "tls" not in text:  # of which a client needs only the authority
        with pytest.raises(BadConfig) as refused_by_node:
            load(file, {}, {})
        assert str(refused_by_node.value) == str(refusal.value)

"""With a secret, and over the network, a node has to prove that it knows it."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.backends import nodes_of
from tests.unit.client.conftest import PATIENCE, WELCOME, FakeNode, grants, line

import habemus
from habemus.client.credentials import Credentials
from habemus.client.heartbeats import Heartbeats

SECRET = b"a secret of the cluster"
UNPROVED = "does not prove that it knows the cluster's secret"

Start = Callable[..., FakeNode]


def test_a_node_that_skips_the_proof_grants_nothing(fake_node: Start) -> None:
    with pytest.raises(habemus.RefusedByNode, match=UNPROVED):
        habemus.connect(fake_node(grants).place, secret=SECRET).lock("x", PATIENCE).acquire()


def test_a_stolen_certificate_does_not_stand_for_the_secret(
    fake_node: Start, stolen: ssl.SSLContext, alice: dict[str, Any]
) -> None:
    with pytest.raises(habemus.RefusedByNode, match=UNPROVED):
        habemus.connect(fake_node(grants, tls=stolen).place, secret=SECRET, **alice).lock(
            "x", PATIENCE
        ).acquire()


def test_the_connection_for_heartbeats_asks_for_the_proof_too(fake_node: Start) -> None:
    """Also where the first connection of the session went to a node that has proved it."""
    session = nodes_of(habemus.connect(fake_node(grants).place)).connected()
    session.credentials = Credentials(SECRET)
    with pytest.raises(habemus.RefusedByNode, match=UNPROVED):
        asyncio.run(Heartbeats()._connect(session))
    session.close()


def test_the_asynchronous_client_refuses_it(fake_node: Start) -> None:
    async def run() -> None:
        async with habemus.connect(fake_node(grants).place, secret=SECRET) as cluster:
            await cluster.lock("x", PATIENCE).acquire()

    with pytest.raises(habemus.RefusedByNode, match=UNPROVED):
        asyncio.run(run())


def test_a_command_does_not_run_under_its_lock(fake_node: Start, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(SECRET + b"\n")
    file = tmp_path / "cluster.toml"
    file.write_text(
        f'cluster = "office"\nsecret_file = "secret"\n[nodes]\n1 = "{fake_node(grants).place}"\n'
    )
    done = lock("--cluster", str(file), "x", "--", "echo", "inside")
    assert (done.returncode, done.stdout) == (125, "")
    assert UNPROVED in done.stderr
    assert done.stderr.count("\n") == 1


def lock(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "habemus", "lock", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_a_local_socket_proves_nothing_and_need_not(fake_node: Start, tmp_path: Path) -> None:
    place = str(tmp_path / "1.sock")
    fake_node(grants, place)
    with habemus.connect(place, secret=SECRET) as cluster, cluster.lock("x", PATIENCE) as lease:
        assert lease.token == 7


def test_a_node_challenges_once(fake_node: Start) -> None:
    """Else it could collect proofs for ever."""
    said: list[list[Any]] = []

    def asks_for_ever(heard: list[Any]) -> bytes:
        from habemus.runtimes.live.clients.protocol import proof

        said.append(heard)
        nonce = said[0][4]
        return line("challenge", "office", 1, "n", proof(SECRET, "node", "office", 1, (nonce, "n")))

    with pytest.raises(habemus.RefusedByNode, match="unexpected answer, 'challenge'"):
        habemus.connect(fake_node(asks_for_ever).place, secret=SECRET)._backend.connect()
    assert [each[0] for each in said] == ["hello", "proof"]


def test_a_proof_of_another_secret_is_refused(fake_node: Start) -> None:
    def answer(heard: list[Any]) -> bytes:
        return (
            line("challenge", "office", 1, "n", "0" * 64)
            if heard[0] == "hello"
            else line("welcome", WELCOME)
        )

    with pytest.raises(habemus.RefusedByNode, match="does not know the cluster's secret"):
        habemus.connect(fake_node(answer).place, secret=SECRET)._backend.connect()

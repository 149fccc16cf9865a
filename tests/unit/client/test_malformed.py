"""A node that sends what no node would send raises `HabemusError`, whatever it is."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.program import command_line
from tests.unit.client.conftest import PATIENCE, WELCOME, FakeNode, grants, line

import habemus

NOISES = [
    b"\n",
    b"[]\n",
    b"{}\n",
    b"null\n",
    b'"granted"\n',
    b"[1,2]\n",
    b'["granted"]\n',
    b'["granted",1]\n',
    b'["granted",1,7,null,"now","x"]\n',
    b'["granted",1,7,NaN,1,"x"]\n',
    b'["granted",1,7,1e999,1,"x"]\n',
    b'["granted",1,true,null,1,"x"]\n',
    b'["refused",1]\n',
    b'["lost",1]\n',
    b'["alive",1,[[1]]]\n',
    b'["alive",1,[["one",2]]]\n',
    b'["alive",1,{}]\n',
    b"\xff\xfe\n",
    b"[" * 100_000 + b"\n",
    b'["granted",' + b"9" * 5_000 + b',7,null,1,"x"]\n',
]
SHOWN = [repr(noise[:24]) for noise in NOISES]

Start = Callable[..., FakeNode]


def answering(noise: bytes) -> Callable[[list[Any]], bytes]:
    return lambda said: noise if said[0] == "request" else grants(said)


@pytest.mark.parametrize("noise", NOISES, ids=SHOWN)
def test_in_the_place_of_a_grant(fake_node: Start, noise: bytes) -> None:
    with (
        habemus.connect(fake_node(answering(noise)).place) as cluster,
        pytest.raises(habemus.HabemusError),
    ):
        cluster.lock("x", PATIENCE).acquire()


@pytest.mark.parametrize("noise", NOISES, ids=SHOWN)
def test_in_the_place_of_a_grant_asynchronously(fake_node: Start, noise: bytes) -> None:
    async def run() -> None:
        async with habemus.connect(fake_node(answering(noise)).place) as cluster:
            with pytest.raises(habemus.HabemusError, match="no node would send"):
                await cluster.lock("x", PATIENCE).acquire()

    asyncio.run(run())


@pytest.mark.parametrize(
    "noise", [*NOISES, line("welcome", {}), line("welcome", {**WELCOME, "services": {"locks": 1}})]
)
def test_in_the_place_of_a_welcome(fake_node: Start, noise: bytes) -> None:
    with pytest.raises(habemus.HabemusError):
        habemus.connect(fake_node(lambda _: noise).place).status()


@pytest.mark.parametrize("noise", NOISES, ids=SHOWN)
def test_in_the_place_of_a_status(fake_node: Start, noise: bytes) -> None:
    def answer(said: list[Any]) -> bytes:
        return noise if said[0] == "status" else grants(said)

    with habemus.connect(fake_node(answer).place) as cluster, pytest.raises(habemus.HabemusError):
        cluster.status()


@pytest.mark.parametrize("place", ["tcp", "socket"])
def test_under_habemus_lock(fake_node: Start, tmp_path: Path, place: str) -> None:
    """By both ways of the command: over the network, and the short one by a local socket."""
    at = str(tmp_path / "1.sock") if place == "socket" else None
    node = fake_node(answering(b'["granted",1]\n'), at)
    command = command_line(f"lock x --cluster {node.place} -- echo inside")
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (125, "")
    assert "sends what no node would send" in done.stderr
    assert done.stderr.count("\n") == 1

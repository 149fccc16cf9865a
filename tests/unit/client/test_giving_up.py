"""A client tells its node which leases it has given up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest
from tests.unit.client.conftest import PATIENCE, FakeNode, grants, line

import habemus

LEASE_MS = 300


class ForgetfulNode:
    """Lends the lock "free" for ever, whatever the client releases.

    answers: whether it answers heartbeats, and renews that lock by them.
    """

    def __init__(self, *, answers: bool) -> None:
        self.answers = answers
        self.lent = 0
        self.released: SimpleQueue[int] = SimpleQueue()

    def answer(self, said: list[Any]) -> bytes:
        if said[0] == "request" and said[3] != ["free"]:
            return b""  # a request that waits, with a heartbeat of its own
        if said[0] == "request":
            self.lent = said[1]
            return line("granted", said[1], 7, LEASE_MS, said[6], "free")
        if said[0] == "release" and said[1] == self.lent:
            self.released.put(self.lent)
        if said[0] == "alive" and self.answers and self.lent:
            return line("alive", said[1], [[self.lent, LEASE_MS]])
        return grants(said) if said[0] == "hello" else b""


@pytest.mark.parametrize("answers", [False, True], ids=["told at the loss", "told when listed"])
def test_the_asynchronous_client_tells_the_node_what_it_has_given_up(
    answers: bool, fake_node: Callable[..., FakeNode]
) -> None:
    node = ForgetfulNode(answers=answers)
    place = fake_node(node.answer).place

    async def run() -> None:
        async with habemus.connect(place) as cluster:
            waits = asyncio.create_task(cluster.lock("taken").acquire())
            await asyncio.sleep(
                0
            )  # the first id; a session that comes later does not reach the next
            lease = await cluster.lock("free", lease=LEASE_MS / 1_000).acquire()
            if answers:
                cluster.lock("free").release(lease)
                await asyncio.to_thread(node.released.get, timeout=PATIENCE)
            await asyncio.to_thread(node.released.get, timeout=PATIENCE)
            assert not lease.held
            waits.cancel()

    asyncio.run(run())

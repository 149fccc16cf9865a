"""The asynchronous client has closed its sockets when `close` returns, whatever the node does."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.backends import async_nodes_of
from tests.unit.client.conftest import PATIENCE, FakeNode, grants

import habemus
from habemus.client import lines
from habemus.client.asynchronous import AsyncCluster

Connect = Callable[[], habemus.Cluster]


@pytest.fixture
def to_hanging_node(
    fake_node: Callable[..., FakeNode], stolen: ssl.SSLContext, alice: dict[str, Any]
) -> Iterator[Connect]:
    """Connect to a node that hangs from the first `release` on: it answers no `close_notify`."""
    may_go_on = threading.Event()

    def answer(said: list[Any]) -> bytes:
        if said[0] == "release":
            may_go_on.wait(2 * PATIENCE)
        return grants(said)

    place = fake_node(answer, tls=stolen).place
    yield lambda: habemus.connect(place, **alice)
    may_go_on.set()


async def socket_after_a_lock(cluster: AsyncCluster) -> socket.socket:
    async with cluster.lock("x", PATIENCE):
        (made,) = async_nodes_of(cluster)._lines.values()
        found: socket.socket = made.transport.get_extra_info("socket")
        assert found.fileno() != -1
    return found


def test_a_node_that_hangs_does_not_keep_the_socket_open(
    to_hanging_node: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "CLOSING_SECONDS", 0.01)

    async def run() -> None:
        async with to_hanging_node() as cluster:
            found = await socket_after_a_lock(cluster)
        assert found.fileno() == -1
        await cluster.close()  # a second time

    asyncio.run(run())


@pytest.mark.parametrize("turns", range(1, 5))
def test_a_cancellation_closes_the_socket_at_once(
    to_hanging_node: Connect, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    monkeypatch.setattr(lines, "CLOSING_SECONDS", 2 * PATIENCE)

    async def run() -> socket.socket:
        cluster = await to_hanging_node().__aenter__()
        found = await socket_after_a_lock(cluster)
        closing = asyncio.create_task(cluster.close())
        for _ in range(turns):
            await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        return found

    assert asyncio.run(run()).fileno() == -1

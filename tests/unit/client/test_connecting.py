"""The asynchronous client has two connections to its node, and the node may end between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.client.conftest import PATIENCE, FakeNode, grants

import habemus
from habemus.client import async_node_backend
from habemus.client.address import NodeAddress
from habemus.client.async_node_backend import AsyncNodeBackend
from habemus.client.attempts import in_order
from habemus.client.credentials import Credentials
from habemus.client.errors import Unreachable
from habemus.client.session import NodeSession


def acquire_once(place: str) -> None:
    async def run() -> None:
        async with habemus.connect(place) as cluster, cluster.lock("x", PATIENCE):
            pass

    asyncio.run(run())


def fail_to_join(monkeypatch: pytest.MonkeyPatch, times: int) -> list[NodeSession]:
    """Let the second connection fail so many times; return the sessions that tried."""
    tried: list[NodeSession] = []
    join = async_node_backend._joined

    async def joined(session: NodeSession) -> Any:
        tried.append(session)
        if len(tried) <= times:
            session.lose_node("the node has ended")
            raise Unreachable("the node has ended")
        return await join(session)

    monkeypatch.setattr(async_node_backend, "_joined", joined)
    return tried


def test_a_node_that_ends_between_the_connections_is_left(
    fake_node: Callable[..., FakeNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = fail_to_join(monkeypatch, 1)
    acquire_once(fake_node(grants).place)
    first, second = tried
    assert first is not second and not first.is_open


def test_two_nodes_that_end_are_too_many(
    fake_node: Callable[..., FakeNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = fail_to_join(monkeypatch, 2)
    nodes = AsyncNodeBackend(fake_node(grants).place, Credentials(), None)
    with pytest.raises(Unreachable, match="has ended"):
        asyncio.run(nodes.connected())
    assert len(tried) == 2


def test_nodes_that_a_client_was_given_come_first_and_those_that_it_has_left_last() -> None:
    local, given, told, left = (
        NodeAddress("x.sock"),
        *(NodeAddress("", "127.0.0.1", port) for port in (1, 2, 3)),
    )
    assert in_order([given, local], [given, told], {}) == [local, given, told]
    assert in_order([left, given], [told], {left: 1.0}) == [given, told, left]
    assert in_order([left, given], [told], {left: 1.0, told: 2.0}) == [given, left, told]

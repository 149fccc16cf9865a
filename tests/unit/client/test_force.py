"""A lock is forced at the node of its holder; a node that cannot be reached is an error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.client.conftest import FakeNode, grants, line

import habemus
from habemus import Unreachable

MESSAGE = r"'x' is held by a client of node 2, which does not answer \(no address is known\): start"


def held_elsewhere(said: list[Any]) -> bytes:
    if said[0] == "watch":
        return line("news", said[1], {"holder": "other", "node": 2, "token": 7, "waiting": 0})
    if said[0] == "force":
        return line("done", said[1], {"taken": None, "reclaims": True})
    return grants(said)


def test_a_holder_at_a_node_that_does_not_answer(fake_node: Callable[..., FakeNode]) -> None:
    place = fake_node(held_elsewhere).place
    with habemus.connect(place) as cluster, pytest.raises(Unreachable, match=MESSAGE):
        cluster.force("x")


def test_a_holder_at_a_node_that_does_not_answer_a_task(
    fake_node: Callable[..., FakeNode],
) -> None:
    place = fake_node(held_elsewhere).place

    async def run() -> None:
        async with habemus.connect(place) as cluster:
            await cluster.force("x")

    with pytest.raises(Unreachable, match=MESSAGE):
        asyncio.run(run())

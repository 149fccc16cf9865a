"""Messages about lost locks say what was lost, and why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.client.conftest import FakeNode, grants, line

import habemus
from habemus import LockLost

NAMES = {"lead": "leader/x", "semaphore": "semaphore/x/2"}
KINDS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda cluster: cluster.lock("x"), "lock 'x'"),
    (lambda cluster: cluster.election("x").lead(), "election 'x'"),
    (lambda cluster: cluster.semaphore("x"), "semaphore 'x'"),
]


def answer(said: list[Any]) -> bytes:
    if said[0] in NAMES:
        return line("granted", said[1], 7, None, said[-1], NAMES[said[0]])
    return grants(said)


@pytest.mark.parametrize(("made", "shown"), KINDS)
def test_the_reason_of_a_loss_is_in_the_message(
    made: Callable[[Any], Any], shown: str, fake_node: Callable[..., FakeNode]
) -> None:
    with habemus.connect(fake_node(answer).place) as cluster:
        session: Any = cluster
        with (
            pytest.raises(LockLost, match=f"^{shown} was lost before it was released: node is do"),
            made(cluster) as lease,
        ):
            session._backend._session.close("node is down")
        with pytest.raises(LockLost, match=f"^{shown} is not held any more: node is down"):
            lease.check()


@pytest.mark.parametrize(("made", "shown"), KINDS)
def test_the_reason_of_a_loss_is_in_the_message_of_a_task(
    made: Callable[[Any], Any], shown: str, fake_node: Callable[..., FakeNode]
) -> None:
    place = fake_node(answer).place

    async def run() -> None:
        async with habemus.connect(place) as cluster:
            session: Any = cluster
            async with made(cluster):
                session._backend._session.close("node is down")
                await asyncio.sleep(3_600)

    with pytest.raises(LockLost, match=f"^{shown} was lost before it was released: node is down"):
        asyncio.run(run())

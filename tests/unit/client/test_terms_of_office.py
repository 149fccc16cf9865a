"""Terms of office: who leads through an object can resign by it, in both clients alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import trio
from tests.unit.client.conftest import FakeNode, grants, line

import habemus
from habemus import LockLost, LockNotHeld, RefusedByNode

Run = Callable[[Callable[[], Any]], Any]
LOOPS = pytest.mark.parametrize(
    "run", [lambda main: asyncio.run(main()), trio.run], ids=["asyncio", "trio"]
)
NOT_LED = "election 'boss' is not led through this object: begin a term first"


def grants_terms(said: list[Any]) -> bytes:
    if said[0] == "lead":
        return line("granted", said[1], 7, None, said[6], "leader/boss")
    return grants(said)


def lose(cluster: Any) -> None:
    """End the session, as when the connection to the node is lost."""
    cluster._backend._session.close("the node is down")


def test_a_term_ends_once(fake_node: Callable[..., FakeNode]) -> None:
    with habemus.connect(fake_node(grants_terms).place) as cluster:
        election = cluster.election("boss")
        lease = election.lead().begin()
        for give_up in (
            cluster.election("boss").resign,
            lambda: cluster.election("boss").transfer("x"),
        ):
            with pytest.raises(LockNotHeld, match=NOT_LED):
                give_up()
        lease.check()
        election.resign()
        assert lease.released
        for give_up in (election.resign, lambda: election.transfer("x")):
            with pytest.raises(LockNotHeld, match=NOT_LED):
                give_up()


@LOOPS
def test_an_asynchronous_term_ends_once(run: Run, fake_node: Callable[..., FakeNode]) -> None:
    place = fake_node(grants_terms).place

    async def main() -> None:
        async with habemus.connect(place) as cluster:
            election = cluster.election("boss")
            lease = await election.lead().begin()
            with pytest.raises(LockNotHeld, match=NOT_LED):
                await cluster.election("boss").resign()
            with pytest.raises(LockNotHeld, match=NOT_LED):
                await cluster.election("boss").transfer("x")
            lease.check()
            await election.transfer("x")
            assert lease.released
            with pytest.raises(LockNotHeld, match=NOT_LED):
                await election.resign()
            async with election.lead() as lease:
                assert lease.held
            assert lease.released
            with pytest.raises(LockNotHeld, match=NOT_LED):
                await election.resign()

    run(main)


def test_who_has_lost_the_term_learns_it_when_resigning(fake_node: Callable[..., FakeNode]) -> None:
    with habemus.connect(fake_node(grants_terms).place) as cluster:
        election = cluster.election("boss")
        election.lead().begin()
        lose(cluster)
        with pytest.raises(LockLost, match="boss"):
            election.resign()
        with pytest.raises(LockNotHeld):
            election.resign()


def test_a_task_that_has_lost_the_term_learns_it_when_resigning(
    fake_node: Callable[..., FakeNode],
) -> None:
    place = fake_node(grants_terms).place

    async def main() -> None:
        async with habemus.connect(place) as cluster:
            election = cluster.election("boss")
            await election.lead().begin()
            lose(cluster)
            with pytest.raises(LockLost, match="boss"):
                await election.transfer("x")
            with pytest.raises(LockNotHeld):
                await election.resign()

    asyncio.run(main())


def test_a_transfer_that_is_refused_does_not_end_the_term() -> None:
    """An engine refuses it and says: resign."""
    with habemus.connect("local") as cluster:
        election = cluster.election("handed-over")
        lease = election.lead().begin()
        with pytest.raises(RefusedByNode, match="resign"):
            election.transfer("x")
        lease.check()
        election.resign()
        assert lease.released


@LOOPS
def test_an_asynchronous_transfer_that_is_refused_does_not_end_the_term(run: Run) -> None:
    async def main() -> None:
        async with habemus.connect("local") as cluster:
            election = cluster.election("handed-over-by-a-task")
            lease = await election.lead().begin()
            with pytest.raises(RefusedByNode, match="resign"):
                await election.transfer("x")
            lease.check()
            await election.resign()
            assert lease.released

    run(main)


def test_the_label_of_the_next_leader_is_a_text() -> None:
    with pytest.raises(ValueError, match=r"to=5: give a text of at most 100 printable characters"):
        habemus.connect("local").election("boss").transfer(5)  # type: ignore[arg-type]


def test_the_question_who_leads_leaves_no_connection_open(
    fake_node: Callable[..., FakeNode],
) -> None:
    def names_leader(said: list[Any]) -> bytes:
        if said[0] == "watch":
            return line("news", said[1], {"holder": "me", "node": 1, "token": 7, "waiting": 0})
        return grants(said)

    with habemus.connect(fake_node(names_leader).place) as cluster:
        states = cluster._backend.watch
        made: list[Any] = []

        def watch(service: str, name: str) -> Any:
            made.append(states(service, name))
            return made[-1]

        cluster._backend.watch = watch  # type: ignore[method-assign]
        leader = cluster.election("boss").leader()
        assert leader is not None and leader.holder == "me"
        assert [each.gi_frame for each in made] == [None]  # closed

"""Claims of locks at other nodes: the ticket decides, and the node that has the stay."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import contextmanager
from typing import Any

import pytest
from tests import virtual
from tests.unit.runtimes.live.clients.test_connections import connected
from tests.unit.runtimes.live.conftest import until

from habemus.runtimes.live.clients.tickets import LIVES, Tickets, node_of
from habemus.runtimes.live.hosting.node import Node

LEASE_MS = 2_000
LEASED = "elected-coordinator-leased lease=2s"


class LockClient:
    """A client on a connection to one node."""

    def __init__(self, node: Node) -> None:
        self.connection, self.transport = connected(node)
        self._last = 0

    def say(self, *line: object) -> None:
        self.connection.data_received(json.dumps(line).encode() + b"\n")

    def request(self, name: str = "x") -> int:
        self._last += 1
        self.say("request", self._last, "locks", [name], None, LEASE_MS, self._last)
        return self._last

    def claim(self, token: int, ticket: str, name: str = "x") -> int:
        self._last += 1
        stay = ("locks", name, token, token, LEASE_MS, self._last, False, ticket)
        self.say("claim", self._last, *stay)
        return self._last

    def answer_to(self, id: int) -> list[Any] | None:
        answers = ("granted", "refused")
        return next((each for each in self.lines if each[0] in answers and each[1] == id), None)

    async def answered(self, id: int) -> list[Any]:
        await until(lambda: self.answer_to(id))
        answer = self.answer_to(id)
        assert answer is not None
        return answer

    async def acquire(self, name: str = "x") -> tuple[int, str]:
        """Return the token and the ticket."""
        answer = await self.answered(self.request(name))
        assert answer[0] == "granted"
        return answer[2], answer[6]

    async def claimed(self, token: int, ticket: str, name: str = "x") -> str:
        answer = await self.answered(self.claim(token, ticket, name))
        return str(answer[0] if answer[0] == "granted" else answer[2])

    def release(self) -> None:
        self.say("release", self._last)

    def has_lost(self) -> bool:
        return any(each[0] == "lost" for each in self.lines)

    @property
    def lines(self) -> list[list[Any]]:
        return self.transport.lines


@contextmanager
def silent(node: Node) -> Any:
    """Let a node answer no query of stays, as if it could not be reached."""
    claims = node.lock_queues.stay_claims
    hear, claims.hear = claims.hear, lambda *_: None  # type: ignore[method-assign]
    yield
    claims.hear = hear  # type: ignore[method-assign]


Use = Callable[[dict[int, Node]], Coroutine[Any, Any, None]]


def run(cluster: Any, use: Use) -> None:
    async def main() -> None:
        async with cluster({"locks": LEASED}) as made:
            nodes: dict[int, Node] = made.nodes
            await until(lambda: not any(each.impediments() for each in nodes.values()))
            keys = [each.lock_queues.stay_claims.tickets._keys for each in nodes.values()]
            await until(lambda: all(len(each) == 3 for each in keys))
            await use(nodes)

    virtual.run(main())


def test_a_ticket_is_that_of_one_stay() -> None:
    here, there = Tickets(1), Tickets(2)
    ticket = here.maker("locks", "x")(7)
    assert node_of(ticket) == 1
    assert there.is_valid(ticket, "locks", "x", 7) is None
    there.learn(1, here.key)
    assert there.is_valid(ticket, "locks", "x", 7)
    others = [("locks", "x", 8), ("locks", "y", 7), ("other", "x", 7)]
    assert not any(there.is_valid(ticket, *other) for other in others)
    assert not there.is_valid(there.maker("locks", "x")(7)[:-1], "locks", "x", 7)
    for _ in range(LIVES):
        assert there.is_valid(ticket, "locks", "x", 7)
        there.learn(1, Tickets(1).key)
    assert not there.is_valid(ticket, "locks", "x", 7), "keys are not kept for ever"


@pytest.mark.parametrize(
    "bad", ["", "1", "-", "1-", "x-1", "\u0661-1", "1" * 10 + "-1", "1-\u00e9"]
)
def test_texts_that_are_no_tickets(bad: str) -> None:
    assert not Tickets(1).is_valid(bad, "locks", "x", 7)


@pytest.mark.parametrize("is_reachable", [True, False])
def test_a_client_without_the_ticket_of_the_stay_cannot_take_the_lock(
    cluster: Any, is_reachable: bool
) -> None:
    async def use(nodes: dict[int, Node]) -> None:
        holder, former, thief = (LockClient(nodes[each]) for each in (1, 1, 2))
        old, old_ticket = await former.acquire()
        former.release()
        token, ticket = await holder.acquire()
        _, other_ticket = await LockClient(nodes[1]).acquire("other")
        own_token, own_ticket = await thief.acquire("own")
        guesses = ["", "1-" + "0" * 24, ticket[:-1], old_ticket, other_ticket, own_ticket]
        for guess in guesses:
            assert await thief.claimed(token, guess) in ("lost", "unavailable")
        assert await thief.claimed(own_token, own_ticket) == "lost"
        if is_reachable:
            assert await thief.claimed(old, old_ticket) == "lost", "that stay is over"
        thief.request()
        holder.say("alive", 9)
        assert not holder.has_lost()
        assert nodes[1].lock_queues.status_of("locks", "x").token == token

    async def use_unreachable(nodes: dict[int, Node]) -> None:
        with silent(nodes[1]):
            await use(nodes)

    run(cluster, use if is_reachable else use_unreachable)


def test_nobody_else_gets_a_lock_that_was_claimed_on_trust_while_its_holder_may_be_inside(
    cluster: Any,
) -> None:
    """The node of the holder cannot be asked, and the claim is by a stay that is over."""

    async def use(nodes: dict[int, Node]) -> None:
        holder, former = LockClient(nodes[1]), LockClient(nodes[1])
        old, old_ticket = await former.acquire()
        former.release()
        token, _ = await holder.acquire()
        with silent(nodes[1]):
            thief, waiting = LockClient(nodes[2]), LockClient(nodes[3])
            assert await thief.claimed(old, old_ticket) == "granted"
            thief.release()
            id = waiting.request()

            def next_one() -> list[Any] | None:
                for each in (holder, waiting):
                    each.say("alive", 9)
                return waiting.answer_to(id)

            await until(next_one)
            assert holder.has_lost(), "before the next one has the lock"
            assert (waiting.answer_to(id) or [])[2] > token

    run(cluster, use)


@pytest.mark.parametrize("where", [2, 3])
@pytest.mark.parametrize("is_released", [False, True])
def test_of_the_stays_by_one_loan_the_latest_one_goes_on(
    cluster: Any, where: int, is_released: bool
) -> None:
    async def use(nodes: dict[int, Node]) -> None:
        holder, former = LockClient(nodes[1]), LockClient(nodes[1])
        old, old_ticket = await former.acquire()
        former.release()
        token, ticket = await holder.acquire()
        with silent(nodes[1]):
            thief, again = LockClient(nodes[2]), LockClient(nodes[where])
            assert await thief.claimed(old, old_ticket) == "granted"
            if is_released:
                thief.release()
            assert await again.claimed(token, ticket) == "granted"
            await until(lambda: is_released or thief.has_lost())
            assert await LockClient(nodes[3]).claimed(old, old_ticket) == "lost"
            assert not again.has_lost()

    run(cluster, use)


def test_a_client_that_was_cut_off_takes_its_lock_along(cluster: Any) -> None:
    """The others at its node need not wait for its lease."""

    async def use(nodes: dict[int, Node]) -> None:
        holder, waiting = LockClient(nodes[1]), LockClient(nodes[1])
        token, ticket = await holder.acquire()
        id = waiting.request()
        holder.connection.connection_lost(None)
        again = LockClient(nodes[2])
        assert await again.claimed(token, ticket) == "granted"
        assert nodes[1].lock_queues.status_of("locks", "x").holder is None
        once_more = LockClient(nodes[3])  # as if the answer had been lost
        assert await once_more.claimed(token, ticket) == "granted"
        once_more.release()
        began = virtual_ms()
        await waiting.answered(id)
        assert virtual_ms() - began < LEASE_MS / 4
        assert await LockClient(nodes[2]).claimed(token, ticket) == "lost"

    run(cluster, use)


def test_a_client_that_was_cut_off_goes_on_at_the_same_node(cluster: Any) -> None:
    async def use(nodes: dict[int, Node]) -> None:
        holder = LockClient(nodes[1])
        token, ticket = await holder.acquire()
        holder.connection.connection_lost(None)
        again = LockClient(nodes[1])
        assert await again.claimed(token, ticket) == "granted"
        again.release()
        assert await LockClient(nodes[1]).claimed(token, ticket) == "lost"

    run(cluster, use)


def test_a_lock_that_is_released_while_it_is_claimed_is_free(cluster: Any) -> None:
    async def use(nodes: dict[int, Node]) -> None:
        holder, again = LockClient(nodes[1]), LockClient(nodes[2])
        token, ticket = await holder.acquire()
        again.claim(token, ticket)
        again.release()  # while the other nodes are asked
        began = virtual_ms()
        assert (await LockClient(nodes[3]).acquire())[0] > token
        assert virtual_ms() - began < LEASE_MS / 4

    run(cluster, use)


def virtual_ms() -> float:
    return asyncio.get_running_loop().time() * 1_000

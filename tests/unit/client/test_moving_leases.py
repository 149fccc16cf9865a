"""Leases that are on their way to another node, at moments that real threads meet rarely."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from copy import copy
from typing import Any

import pytest
from tests.unit.client.conftest import PATIENCE, FakeNode, line

from habemus.client.address import cluster_address
from habemus.client.connection import NodeConnection, first_of
from habemus.client.credentials import Credentials
from habemus.client.errors import Unreachable
from habemus.client.lease import Lease
from habemus.client.node_backend import NodeBackend
from habemus.client.protocol import AcquireRequest, RequestRefused
from habemus.client.session import NodeSession

LEASE_MS = 600_000
"""Longer than any test: no lease expires, and no heartbeat is due."""
SERVICES = {"locks": {"problem": "mutex", "algorithm": "x", "lease_ms": LEASE_MS, "moves": True}}


class MovingNode:
    """A node that grants everything, and notes what it is told."""

    def __init__(self, number: int, fake_node: Callable[..., FakeNode]) -> None:
        self.number = number
        self.left_ms = LEASE_MS
        self.told: list[list[Any]] = []
        self.changed = threading.Condition()
        self.place: str = fake_node(self._answer).place

    def _answer(self, said: list[Any]) -> bytes:
        with self.changed:
            self.told.append(said)
            self.changed.notify_all()
        if said[0] == "hello":
            welcome = {"cluster": "office", "node": self.number, "session": "s"}
            return line("welcome", {**welcome, "nodes": {"1": "", "2": ""}, "services": SERVICES})
        if said[0] == "request":
            return line("granted", said[1], 1 << 32 | said[1], self.left_ms, said[6], said[3][0])
        if said[0] == "claim":
            return line("granted", said[1], 2 << 32 | said[1], self.left_ms, said[7], said[3])
        return b""

    def wait_until_told(self, *words: object) -> None:
        """Wait for a line that begins with these words."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.was_told(*words), PATIENCE), self.told

    def was_told(self, *words: object) -> bool:
        return any(tuple(said[: len(words)]) == words for said in self.told)


@pytest.fixture
def first(fake_node: Callable[..., FakeNode]) -> MovingNode:
    return MovingNode(1, fake_node)


@pytest.fixture
def second(fake_node: Callable[..., FakeNode]) -> MovingNode:
    return MovingNode(2, fake_node)


class Client:
    """A session with the first node, whose leases go to the second one."""

    def __init__(self, first: MovingNode, second: MovingNode) -> None:
        self.nodes = (first, second)
        self.here = _session(first, second)
        self.there: list[NodeSession] = []
        self.here.successor = self._successor
        self.meanwhile: Callable[[], None] = lambda: None  # called when the leases have left

    def _successor(self, _: NodeSession) -> NodeSession:
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        self.there.append(_session(*reversed(self.nodes)))
        return self.there[-1]

    def ask(self, name: str) -> tuple[list[Any], NodeConnection]:
        """Request a lock and return the answer, which the session has not received yet."""
        id, sent = self.here.request(AcquireRequest("locks", name), None)
        connection = self.here.connection()
        self.here.begin_waiting(id, connection)
        return connection.ask(sent, id, PATIENCE), connection

    def acquire(self, name: str) -> Lease:
        return held(self.here.receive_answer(*self.ask(name)))

    def ask_without_connection(self, name: str) -> list[Any]:
        """Request a lock as the asynchronous client does, on a connection of all its requests."""
        id, sent = self.here.request(AcquireRequest("locks", name), None)
        self.here.begin_waiting(id)
        with closing(NodeConnection(self.here.address, Credentials(), "client")) as connection:
            return connection.ask(sent, id, PATIENCE)

    def move(self) -> None:
        self.here.move("node 1 is shutting down", is_planned=True)

    def close(self) -> None:
        for session in (self.here, *self.there):
            session.close()


def _session(at: MovingNode, other: MovingNode) -> NodeSession:
    cluster = cluster_address(f"{at.place},{other.place}")
    (last,) = cluster_address(other.place).nodes
    first = first_of(cluster, Credentials(), "client", {last: 1.0})
    return NodeSession(first, cluster, Credentials(), "client")


def held(answer: Lease | RequestRefused) -> Lease:
    assert isinstance(answer, Lease)
    return answer


@pytest.fixture
def client(first: MovingNode, second: MovingNode) -> Iterator[Client]:
    made = Client(first, second)
    yield made
    made.close()


def release(lease: Lease) -> None:
    NodeBackend(None, Credentials(), None).release(lease)


def test_a_lease_moves(client: Client, first: MovingNode, second: MovingNode) -> None:
    lease = client.acquire("x")
    client.move()
    assert (lease.held, lease._session) == (True, client.there[0])
    first.wait_until_told("move", 1)
    assert not second.was_told("release")


def test_a_grant_that_arrives_while_others_move_is_void_if_its_connection_was_closed(
    client: Client,
) -> None:
    """The request is then made again at another node; the application does not lose a lock."""
    client.acquire("x")
    answer, connection = client.ask("y")
    found: list[Lease] = []

    def receive() -> None:
        found.append(held(client.here.receive_answer(answer, connection)))
        assert found[0].lost

    client.meanwhile = receive
    client.move()
    assert found


def test_a_grant_that_arrives_while_others_move_moves_too(
    client: Client, first: MovingNode, second: MovingNode
) -> None:
    client.acquire("x")
    answer = client.ask_without_connection("y")
    found: list[Lease] = []
    client.meanwhile = lambda: found.append(held(client.here.receive_answer(answer)))
    client.move()
    assert (found[0].held, found[0]._session) == (True, client.there[1])
    first.wait_until_told("move", 2)
    second.wait_until_told("claim", 1, "locks", "y")


def test_a_grant_after_all_have_moved_is_void(client: Client) -> None:
    client.acquire("x")
    answer = client.ask_without_connection("y")
    client.move()
    assert held(client.here.receive_answer(answer)).lost


def test_the_keeper_does_not_close_a_session_between_the_grant_and_the_lease(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It closes a session that was left when nothing waits and nothing is held."""
    answer = client.ask_without_connection("y")
    client.here.leave("node 1 is shutting down")
    receive_grant = client.here.protocol.receive_grant

    def look(line: list[Any], now_us: int) -> Any:
        assert client.here._waiting, "neither waits nor is held"
        return receive_grant(line, now_us)

    monkeypatch.setattr(client.here.protocol, "receive_grant", look)
    assert held(client.here.receive_answer(answer)).held


def test_a_lease_that_is_released_on_its_way_is_claimed_and_released(
    client: Client, second: MovingNode
) -> None:
    """Else the cluster would keep it for this client until it has expired."""
    lease = client.acquire("x")

    def release_meanwhile() -> None:
        release(lease)
        raise Unreachable("no node answers")  # at the first attempt

    client.meanwhile = release_meanwhile
    client.move()
    assert lease.released
    second.wait_until_told("claim", 1, "locks", "x")
    second.wait_until_told("release", 1)


def test_a_lease_that_is_released_just_when_it_arrives_is_released_there(
    client: Client, second: MovingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that releases it has read where the lease was before."""
    lease = client.acquire("x")
    end = Lease._end

    def move_first(ending: Lease, *why: str) -> bool:
        monkeypatch.setattr(Lease, "_end", end)
        client.move()
        return end(ending, *why)

    monkeypatch.setattr(Lease, "_end", move_first)
    release(lease)
    assert lease.released
    second.wait_until_told("release", 1)


def test_the_id_of_a_lease_that_has_moved_is_not_used_at_its_former_node(client: Client) -> None:
    moved, other = client.acquire("x"), client.acquire("y")
    moved._state = copy(other._state)  # as `_continue` does it before it changes the session
    client.here.send_release(moved)
    client.here.forget(moved)
    assert other.held
    assert client.here.protocol.leases[other._id].holder is other


def test_a_lease_with_little_time_left_is_renewed_at_once(
    client: Client, first: MovingNode
) -> None:
    """Its request has waited; the next heartbeat would come too late."""
    client.here.protocol.beat_us = LEASE_MS * 1_000 // 10
    client.acquire("x")
    assert not client.here.is_hurried
    first.left_ms = LEASE_MS // 3
    client.acquire("y")
    first.wait_until_told("alive")


def test_a_lease_leaves_a_node_that_was_removed_and_names_one_other_node(
    client: Client, first: MovingNode, second: MovingNode
) -> None:
    lease = held(client.here.receive_answer(client.ask_without_connection("x")))
    client.here.receive_news(["nodes", 0, 1, {"2": second.place}])
    client.here.receive_news(["leave", 0, "node 1 is shutting down"])
    second.wait_until_told("claim", 1, "locks", "x")
    first.wait_until_told("move", 1)
    assert lease.held


def test_a_heartbeat_that_is_answered_after_the_leases_have_left_loses_none(
    client: Client,
) -> None:
    lease = client.acquire("x")
    later = lease._state.since_us + 1
    client.meanwhile = lambda: client.here.receive_news(["alive", later, []])
    client.move()
    assert (lease.held, lease._session) == (True, client.there[0])

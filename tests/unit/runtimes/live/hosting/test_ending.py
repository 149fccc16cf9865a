"""The end of a node in good order: waiting clients are sent away, holders have a grace, leaders
resign.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests import virtual

from habemus.algorithms.election.terms import Terms
from habemus.runtimes.live.clients.lock_queues import ClientSession
from habemus.runtimes.live.hosting.node import Node

NEVER = 3_600_000_000
"""A patience that does not run out during a test."""


class Said:
    def __init__(self) -> None:
        self.lines: list[tuple[object, ...]] = []

    def send(self, *line: object) -> None:
        self.lines.append(line)

    def words(self, id: int) -> list[object]:
        return [
            line[0] if line[0] != "refused" else line[2] for line in self.lines if line[1] == id
        ]


def joined(node: Node, connection: Said) -> ClientSession:
    session = node.lock_queues.join(connection, "client", None)
    assert session is not None
    return session


def leader_of(node: Node) -> int | None:
    return next((leader for _, _, leader, _ in node.leaders()), None)


def test_a_leader_that_ends_resigns_and_a_successor_is_elected_without_any_timeout(
    cluster: Any,
) -> None:
    async def main() -> None:
        async with cluster({"elections": Terms.system(3, patience=NEVER, period=20_000)}) as made:
            for node in made.nodes.values():
                node.open("elections", "x")
            await cluster.until(
                lambda: all(len(node.reaches()) == 2 for node in made.nodes.values())
            )
            made.nodes[1].make_request("elections", "x", "elect")
            await cluster.until(lambda: all(leader_of(node) == 1 for node in made.nodes.values()))
            await made.stop(1)
            await cluster.until(
                lambda: all(leader_of(node) in (2, 3) for node in made.nodes.values())
            )

    virtual.run(main())


def test_a_node_that_ends_waits_for_its_holders_and_sends_the_others_away(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"locks": "central"}) as made:
            node, connection = made.nodes[2], Said()
            session = joined(node, connection)
            for id in (1, 2):
                node.lock_queues.request(connection, session, id, "locks", ["x"], None, None, id)
            await cluster.until(lambda: connection.words(1) == ["granted"])
            ending = asyncio.create_task(node.stop(grace=3_600))
            await cluster.until(lambda: connection.words(2) == ["unavailable"])
            node.lock_queues.request(connection, session, 3, "locks", ["y"], None, None, 3)
            assert connection.words(3) == ["unavailable"]
            assert not ending.done()
            node.lock_queues.release(session, 1)
            await asyncio.wait_for(ending, 600)
            assert connection.words(1) == ["granted"]

    virtual.run(main())


def test_a_grace_can_be_cut_short(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"locks": "central"}) as made:
            node, connection = made.nodes[2], Said()
            session = joined(node, connection)
            node.lock_queues.request(connection, session, 1, "locks", ["x"], None, None, 1)
            await cluster.until(lambda: connection.words(1) == ["granted"])
            ending = asyncio.create_task(node.stop(grace=3_600))
            await asyncio.sleep(0)
            node.hurry()
            await asyncio.wait_for(ending, 600)

    virtual.run(main())


def test_a_node_without_a_majority_sends_clients_away_until_it_has_one_again(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("habemus.runtimes.live.hosting.service_checks.CHECK_SERVICES_US", 20_000)

    async def main() -> None:
        async with cluster({"locks": "elected-coordinator-leased"}, only=(1,)) as made:
            node, connection = made.nodes[1], Said()
            session = joined(node, connection)
            node.lock_queues.request(connection, session, 1, "locks", ["x"], None, None, 1)
            await cluster.until(lambda: connection.words(1) == ["unavailable"])
            assert "node 1 reaches 0 of 2 peers" in str(connection.lines[-1])
            await made.start(2)

            def is_granted() -> bool:
                if not session.requests:
                    node.lock_queues.request(
                        connection,
                        session,
                        len(connection.lines) + 10,
                        "locks",
                        ["x"],
                        None,
                        None,
                        2,
                    )
                return any(line[0] == "granted" for line in connection.lines)

            await cluster.until(is_granted)

    virtual.run(main())

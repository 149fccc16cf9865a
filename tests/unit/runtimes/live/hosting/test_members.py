"""Members that change: many locks above one election."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from tests import virtual
from tests.unit.runtimes.live.hosting.test_ending import Said, joined
from tests.unit.runtimes.live.hosting.test_idle import is_forgotten, representative, visit

from habemus.algorithms.election.shared_election import MembersChanged
from habemus.algorithms.election.terms_members import TermsMembers
from habemus.algorithms.mutex.elected_coordinator_members import ElectedCoordinatorMembers
from habemus.problems.election import Location, Members
from habemus.runtimes.live.hosting.node import Node

MEMBERS = {"locks": "elected-coordinator-members"}
LEASED = {"locks": "elected-coordinator-leased-members"}
LONG_LEASED = {"locks": "elected-coordinator-leased-members lease=60s"}


def process(node: Node, name: str) -> ElectedCoordinatorMembers:
    """The process of a lock at a node."""
    return cast(
        ElectedCoordinatorMembers, node.open("locks", name).processes[node.me].pure.parts[0]
    )


def election(node: Node) -> TermsMembers:
    found = node.open("locks-election", "all").processes[node.me].pure.parts[0]
    return cast(TermsMembers, found)


@pytest.mark.parametrize("services", [MEMBERS, LEASED], ids=["unleased", "leased"])
def test_idle_locks_are_forgotten(cluster: Any, services: dict[str, str]) -> None:
    async def main() -> None:
        async with cluster(services) as made:
            tokens = [await visit(made, 1 + each % 3, "x") for each in range(6)]
            assert tokens == sorted(set(tokens))
            await cluster.until(lambda: is_forgotten(made))

    virtual.run(main())


def test_a_change_waits_for_every_lock(cluster: Any) -> None:
    async def main() -> None:
        async with cluster(MEMBERS) as made:
            await visit(made, 2, "first")
            leader = made.nodes[representative(made.nodes[1]).coordinator]
            one, other = (number for number in (1, 2, 3) if number != leader.me)
            holder = made.client(one, "locks", "held")
            holder.ask("acquire")
            await holder.hear()
            await cluster.until(election(leader).may_change)
            # as if the lock had not confirmed yet
            instance = leader.open("locks", "held")
            confirmed, process(leader, "held").confirmed = process(leader, "held").confirmed, -1
            election(leader).confirmed = -1
            leader._feeds._confirm(instance.service_index, leader.open("locks-election", "all"))
            assert not election(leader).may_change()
            process(leader, "held").confirmed = confirmed
            await cluster.until(election(leader).may_change)
            assert leader.members.change("remove", other, "", "")
            assert not election(leader).may_change()
            await cluster.until(election(leader).may_change)
            assert process(leader, "held").confirmed_members() == (election(leader).term, 1)
            assert representative(leader).members == tuple(sorted((leader.me, one)))
            assert {leader.me, one} <= process(leader, "held").recorders | {one}

    virtual.run(main())


def test_news_of_members_come_before_any_other_event(cluster: Any) -> None:
    async def main() -> None:
        async with cluster(MEMBERS) as made:
            await visit(made, 1, "first")
            node = made.nodes[1]
            instance = node.open("locks", "x")
            instance.unheard.append(MembersChanged(1, 7, (1, 2)))
            node.make_request("locks", "x", "acquire")
            assert not instance.unheard
            assert (process(node, "x").version, process(node, "x").members) == (7, (1, 2))

    virtual.run(main())


def test_only_the_leader_changes_members_and_not_the_last_one(cluster: Any) -> None:
    async def main() -> None:
        async with cluster(MEMBERS) as made:
            await visit(made, 2, "first")
            leader = made.nodes[representative(made.nodes[1]).coordinator]
            follower = next(node for node in made.nodes.values() if node is not leader)
            with pytest.raises(ValueError, match="does not lead"):
                follower.members.change("remove", follower.me, "", "")
            await cluster.until(election(leader).may_change)
            for step, number, reason in (
                ("remove", 9, "no node 9; the cluster has nodes 1, 2, 3"),
                ("forget", 1, "node 1 is a member; remove it first"),
                ("vote", 1, "no step 'vote'"),
                ("introduce", 4, "is not an address"),
                ("add", 101, "number nodes from 1 to 100"),
            ):
                with pytest.raises(ValueError, match=reason):
                    leader.members.change(step, number, "", "")
            known = leader.members.plain()
            assert known is not None and known["members"] == [1, 2, 3]
            with pytest.raises(ValueError, match="is a member with another memory"):
                leader.members.change("introduce", follower.me, "127.0.0.1:1", "ab" * 16)

    virtual.run(main())


def test_a_node_that_was_removed_sends_its_clients_away_and_waits_for_no_peer(
    cluster: Any,
) -> None:
    """The peers have closed all connections with it, so it does not hear that a lock has arrived
    elsewhere.
    """

    async def main() -> None:
        async with cluster(LONG_LEASED) as made:
            await visit(made, 2, "first")
            removed = made.nodes[representative(made.nodes[1]).coordinator]
            connection = Said()
            session = joined(removed, connection)
            removed.lock_queues.request(connection, session, 1, "locks", ["x"], None, None, 1)
            await cluster.until(lambda: connection.words(1) == ["granted"])
            await cluster.until(election(removed).may_change)
            removed.members.change("remove", removed.me, "", "")
            others = [node for node in made.nodes.values() if node is not removed]
            await cluster.until(lambda: any(election(each).may_change() for each in others))
            leader = next(node for node in others if election(node).may_change())
            leader.members.change("forget", removed.me, "", "")
            await asyncio.wait_for(removed.removed.wait(), 600)
            await cluster.until(lambda: not removed.reaches())
            asked_at = asyncio.get_running_loop().time()
            ending = asyncio.create_task(removed.stop(grace=3_600))
            await cluster.until(lambda: "leave" in connection.words(0))
            assert not ending.done()
            removed.lock_queues.move(session, 1)
            await asyncio.wait_for(ending, 600)
            assert asyncio.get_running_loop().time() - asked_at < 1  # second of virtual time

    virtual.run(main())


def test_a_node_that_took_part_until_it_was_removed_leaves_orderly(cluster: Any) -> None:
    """One that was removed while it was down does not, whichever other node has accepted it."""

    async def main() -> None:
        async with cluster(MEMBERS, only=(1, 2)) as made:
            await visit(made, 1, "first")
            took_part = made.nodes[1]
            took_part.members.hear_exclusion(2, (100, 7))
            assert took_part.removed.is_set() and took_part.left_orderly
            await made.stop(1)
            await made.stop(2)
            was_down = await made.start(1)
            was_down._membership.accepted_by(2)
            was_down.members.hear_exclusion(3, (100, 7))
            assert was_down.removed.is_set() and not was_down.left_orderly

    virtual.run(main())


def test_a_node_that_was_replaced_does_not_leave_orderly(cluster: Any) -> None:
    async def main() -> None:
        async with cluster(MEMBERS) as made:
            await visit(made, 2, "first")
            leader = made.nodes[representative(made.nodes[1]).coordinator]
            await cluster.until(election(leader).may_change)
            other = next(node for node in made.nodes.values() if node is not leader)
            book = tuple(
                Location(number, str(address), "ab" * 16 if number == other.me else "")
                for number, address in sorted(made.addresses.items())
            )
            process_of = leader.participant("locks-election", "all")
            leader.make_request_of(process_of, "rewrite", (book,))
            await cluster.until(lambda: leader.members.age()[1] == 1)
            # as if it had heard of it before its connections were closed
            other.members.note(other.me, Members(1, 1, (1, 2, 3), book))
            assert f"node {other.me} has been replaced" in other.removal
            assert not other.left_orderly

    virtual.run(main())


def test_only_a_node_that_was_added_makes_itself_known(cluster: Any) -> None:
    """Where members have never changed, a stranger with the secret has another cluster.toml."""

    async def main() -> None:
        async with cluster(MEMBERS) as made:
            await visit(made, 1, "first")
            node = made.nodes[1]
            assert node.members.age()[1] == 0 and node.members.address() == ""
            for number, address in ((9, ""), (9, "nowhere"), (1, "127.0.0.1:1"), (101, "h:1")):
                assert not node.members.has_learned(number, (100, 7), b"m" * 16, address)
            assert not node.members.has_learned(9, node.members.age(), b"m" * 16, "127.0.0.1:1")
            assert sorted(node.peers) == [2, 3]
            assert node.members.has_learned(9, (100, 7), b"m" * 16, "127.0.0.1:1")
            assert sorted(node.peers) == [2, 3, 9] and 9 in node.members.accepted
            assert node._membership.known(9) == b"m" * 16

    virtual.run(main())


def test_a_node_that_was_replaced_by_hand_stays_replaced(cluster: Any) -> None:
    """An old copy of its memory may have stored a newer configuration than this node."""

    async def main() -> None:
        async with cluster(MEMBERS) as made:
            await visit(made, 1, "first")
            node = made.nodes[1]
            old = node._membership.known(2)
            node._membership.meet(2, b"m" * 16)
            assert not node.members.has_learned(2, (100, 7), old, "127.0.0.1:1")
            assert node._membership.known(2) == b"m" * 16

    virtual.run(main())

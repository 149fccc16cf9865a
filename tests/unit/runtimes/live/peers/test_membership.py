"""Who takes part: nodes know each other by their memories, and one that has lost its own is
noticed.
"""

import asyncio
import itertools
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests import virtual
from tests.unit.runtimes.live.conftest import PATIENCE

from habemus.algorithms.election.terms import Candidacy, Terms, Vote
from habemus.algorithms.mutex.elected_coordinator_participant import LIFE, Loan
from habemus.core.node import PureNode, Send, Stack
from habemus.deployment.services import services_of
from habemus.runtimes.live.peers.codec import Refused
from habemus.runtimes.live.peers.frames import Rejection, StatePageFrame, StateQueryFrame
from habemus.runtimes.live.peers.handshake import AnswererHandshake, DiallerHandshake, Identity
from habemus.runtimes.live.peers.membership import Membership, StateRecovery, irreplaceable
from habemus.runtimes.live.storage.log import (
    NEW,
    REPLACES,
    KnownPeer,
    StableMemory,
    StorageFailed,
)

LOCKS = {"locks": "elected-coordinator-leased"}


class Node:
    """The memory of one node, and what becomes of it in handshakes."""

    def __init__(self, folder: Path, number: int, replace: bool = False) -> None:
        folder.mkdir(exist_ok=True)
        self.number = number
        self.memory = StableMemory(folder, f"office/{number}", replace=replace)
        self.failures: list[str] = []
        self.membership = Membership(
            self.memory,
            number,
            {1, 2, 3} - {number},
            lambda reason: self.failures.append(str(reason)),
        )
        self.identity = Identity(
            "office",
            number,
            frozenset({1, 2, 3} - {number}),
            b"f",
            b"a secret of the cluster",
            self.membership,
        )

    def dial(self, other: "Node") -> str:
        """The reason of the refusal, or nothing."""
        dialling, answering = (
            DiallerHandshake(self.identity, other.number),
            AnswererHandshake(other.identity),
        )
        challenge = answering.answer(dialling.hello())
        assert not isinstance(challenge, Refused)
        proof = dialling.answer(challenge)
        if isinstance(proof, Refused):
            return proof.reason
        assert proof is not None
        reply = answering.answer(proof)
        if not isinstance(reply, Refused):
            assert dialling.answer(reply) is None and dialling.is_welcome
            return ""
        assert isinstance(dialling.answer(Rejection(reply.reason)), Refused)
        return reply.reason


def nodes(folder: Path) -> list[Node]:
    made = [Node(folder / f"{number}", number) for number in (1, 2, 3)]
    for one, other in itertools.permutations(made, 2):
        assert one.dial(other) == ""
    for each in made:
        assert each.membership.missing == set()
        each.memory.join([])
    return made


def test_nodes_learn_each_others_memories_and_keep_them(tmp_path: Path) -> None:
    made = nodes(tmp_path)
    for each in made:
        each.memory.close()
    again = [Node(tmp_path / f"{number}", number) for number in (1, 2, 3)]
    for before, each in zip(made, again, strict=True):
        assert each.memory.known == {
            other.number: KnownPeer(other.memory.identity, 1)
            for other in made
            if other is not before
        }
        assert all(each.dial(other) == "" for other in again if other is not each)
        each.memory.close()


def lost(folder: Path, node: Node, replace: bool = False) -> Node:
    """The same node with its folder deleted."""
    node.memory.close()
    for path in (folder / f"{node.number}").iterdir():
        path.unlink()
    return Node(folder / f"{node.number}", node.number, replace)


def test_a_node_that_has_lost_its_memory_is_refused_by_each_and_ends(tmp_path: Path) -> None:
    one, two, three = nodes(tmp_path)
    anew = lost(tmp_path, two)
    assert "node 2 has another memory" in anew.dial(one)
    assert "start node 2 with `habemus node --replace`" in one.dial(anew)
    assert "node 1 knows node 2 by another memory" in anew.failures[0]
    assert (
        "node 2 has lost its memory; if it is lost for good, start the node with `habemus node"
        " --replace`" in anew.failures[0]
    )
    assert anew.membership.missing == {1, 3}
    assert one.failures == three.failures == []
    assert one.memory.known[2].identity == two.memory.identity


def test_a_replaced_node_is_accepted_and_the_lost_memory_never_again(tmp_path: Path) -> None:
    one, two, three = nodes(tmp_path)
    copy = (tmp_path / "2" / "memory").read_bytes()
    anew = lost(tmp_path, two, replace=True)
    assert (anew.dial(one), three.dial(anew), anew.dial(three)) == ("", "", "")
    assert anew.membership.missing == set()
    assert one.memory.known[2] == three.memory.known[2] == KnownPeer(anew.memory.identity, 2)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "memory").write_bytes(copy)
    old = Node(tmp_path / "old", 2)
    assert "node 2 has another memory" in old.dial(one)
    assert "node 2 has been replaced" in old.failures[0]


def test_a_fake_node_cannot_make_another_believe_that_it_was_disowned(tmp_path: Path) -> None:
    one, two, _ = nodes(tmp_path)
    dialling = DiallerHandshake(two.identity, 1)
    answering = AnswererHandshake(
        one.identity._replace(
            secret=b"not the secret of it", members=lost(tmp_path, one).membership
        )
    )
    challenge = answering.answer(dialling.hello())
    assert not isinstance(challenge, Refused)
    assert isinstance(dialling.answer(challenge), Refused)
    assert two.failures == []


def test_all_nodes_of_a_cluster_have_memory_or_none(tmp_path: Path) -> None:
    with_memory = Node(tmp_path / "1", 1).membership
    without = Membership(None, 2, {1, 3}, lambda _: None)
    assert "node 2 has no stable memory, and node 1 has one" in with_memory.objection(
        2, without.identity, False
    )
    assert "node 1 has a stable memory, and node 2 has none" in without.objection(
        1, with_memory.identity, False
    )
    assert without.is_complete and not without.objection(3, b"", False)


# What a process begins with in the place of one that has forgotten.


def terms(me: int, term: int = 0, voted_for: int | None = None) -> PureNode:
    made = PureNode(Stack(Terms()), me, tuple({1, 2, 3} - {me}), lambda options: options[0])
    process = made.parts[0]
    assert isinstance(process, Terms)
    process.term, process.voted_for = term, voted_for
    return made


@pytest.mark.parametrize(("candidate", "rival"), [(1, 3), (3, 1)])
def test_no_vote_is_cast_twice_in_a_term_that_was_forgotten(candidate: int, rival: int) -> None:
    """2 votes for one candidate of term 7, loses its memory, and the other one stands in the same
    term.
    """
    lost_one = terms(2, term=6)
    sent = lost_one.deliver(0, candidate, Candidacy(7))
    assert [(each.to, each.message) for each in sent if isinstance(each, Send)] == [
        (candidate, Vote(7))
    ]
    fellows = [terms(candidate, term=7, voted_for=candidate), terms(rival, term=6)]
    anew = terms(2)
    anew.parts[0].on_replaced([each.parts[0] for each in fellows], 2)
    anew.recover()
    for each in (candidate, rival):
        assert not any(isinstance(effect, Send) for effect in anew.deliver(0, each, Candidacy(7)))
    votes = anew.deliver(0, rival, Candidacy(8))
    assert [(each.to, each.message) for each in votes if isinstance(each, Send)] == [
        (rival, Vote(8))
    ]


def test_a_grant_that_was_recorded_is_known_again_and_numbers_of_requests_are_not_used_twice() -> (
    None
):
    service = services_of("locks", "elected-coordinator-leased", (), "", (1, 2, 3))[1]
    stored = {1: Loan(4, (4, 9), 3, 17), 3: Loan(5, (4, 8), 2, 40)}
    recollection = StateRecovery(2, (1, 3), [service])
    assert [peer for peer, _ in recollection.questions()] == [1, 3]
    for peer, loan in stored.items():
        pure = PureNode(service.stacks[peer], peer, (), lambda options: options[0])
        part: Any = pure.parts[0]
        part.loan, part.term = loan, loan.term
        plain = msgspec.msgpack.encode(service.stable[peer].plain(pure.parts))
        assert recollection.take(
            peer, StatePageFrame(-1, "", True, 2, [(0, "x", peer, plain)], is_last=False)
        ) == StateQueryFrame(0, "x")
        assert isinstance(
            recollection.take(
                peer, StatePageFrame(0, "x", True, 2, [(0, "x", 2, plain)], is_last=True)
            ),
            Refused,
        )
        assert not recollection.is_complete
        assert recollection.take(peer, StatePageFrame(0, "x", True, 3, [], is_last=True)) is None
    assert recollection.is_complete
    [(key, entry)] = recollection.entries()
    assert key == "locks/2/x" and entry is not None
    pure = PureNode(service.stacks[2], 2, (), lambda options: options[0])
    pure.restore(service.stable[2].state(msgspec.msgpack.decode(entry)))
    process: Any = pure.parts[0]
    assert (process.term, process.loan, process.reserved) == (5, stored[3], 3 * LIFE)


def test_algorithms_without_a_way_back_say_so() -> None:
    assert (
        irreplaceable(services_of("locks", "elected-coordinator-leased", (), "", (1, 2, 3)), 1)
        == ""
    )
    assert irreplaceable(services_of("locks", "ricart-agrawala", (), "", (1, 2, 3)), 1) == ""
    assert irreplaceable(services_of("votes", "quorum-yield", (), "", (1, 2, 3)), 1) == "votes"
    assert (
        irreplaceable(
            services_of("locks", "elected-coordinator-leased", (), "perfect", (1, 2, 3)), 1
        )
        == "locks"
    )


def test_a_peer_that_has_forgotten_as_well_is_of_no_use(caplog: pytest.LogCaptureFixture) -> None:
    recollection = StateRecovery(2, (1, 3), [])
    for _ in range(2):
        assert recollection.take(1, StatePageFrame(-1, "", False, 1, [], is_last=True)) is None
    assert not recollection.is_complete
    assert [each.getMessage() for each in caplog.records] == [
        "node 1 does not take part itself: node 2 cannot recover from it; if both have lost their"
        " memory, the cluster has to begin anew"
    ]


# Whole nodes.


async def entered(client: Any) -> int:
    client.ask("acquire")
    granted = await client.hear()
    client.ask("release")
    return int(granted.token[0] << 32 | granted.token[1])


def test_a_cluster_begins_when_all_nodes_have_met(cluster: Any) -> None:
    async def main() -> None:
        async with cluster(LOCKS, only=(1, 2), is_founded=False) as made:
            await cluster.until(
                lambda: made.nodes[1].reaches() == [2] and made.nodes[2].reaches() == [1]
            )
            client = made.client(1, "locks", "x")
            client.ask("acquire")
            assert not any(each.leaders() for each in made.nodes.values())
            assert made.nodes[1]._memory.joins == NEW
            await made.start(3)
            await client.hear()
            assert all(each._memory.joins == "" for each in made.nodes.values())
            await made.stop(3)
            await made.stop(1)
            await made.start(1)  # alone with 2, which it has met before
            assert await entered(made.client(1, "locks", "x"))

    virtual.run(main())


def test_a_lost_memory_is_noticed_and_replaced_without_tokens_going_back(
    cluster: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    async def main() -> None:
        async with cluster(LOCKS) as made:
            first = await entered(made.client(2, "locks", "x"))
            await made.stop(2)
            for path in (tmp_path / "2").iterdir():
                path.unlink()
            forgetful = await made.start(2)
            await asyncio.wait((forgetful.failure,), timeout=PATIENCE)
            assert isinstance(forgetful.failure.exception(), StorageFailed)
            assert "node 2 has lost its memory" in str(forgetful.failure.exception())
            assert forgetful.leaders() == []
            await made.stop(2)
            assert "node 2 has another memory" in caplog.text  # at the others, too
            anew = await made.start(2, replace=True)
            client = made.client(2, "locks", "x")
            assert await entered(client) > first
            assert anew._memory.joins == ""
            assert process_of(anew).number > 2 * LIFE
            await made.stop(1)  # now it is needed for a majority
            assert await entered(client) > first

    virtual.run(main())


def process_of(node: Any) -> Any:
    [lock] = [each for each in node.instances() if each.title == "locks/x"]
    return lock.processes[node.me].pure.parts[0]


def test_two_lost_memories_do_not_come_back(cluster: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(LOCKS) as made:
            await entered(made.client(1, "locks", "x"))
            for number in (2, 3):
                await made.stop(number)
                for path in (tmp_path / f"{number}").iterdir():
                    path.unlink()
            for number in (2, 3):
                await made.start(number, replace=True)
            await cluster.until(
                lambda: all(made.nodes[number]._joining.recovery is not None for number in (2, 3))
            )
            await cluster.until(
                lambda: all(made.nodes[number]._joining.recovery._not_members for number in (2, 3))
            )
            assert [made.nodes[number]._memory.joins for number in (2, 3)] == [REPLACES, REPLACES]

    virtual.run(main())


def test_there_must_be_others_to_learn_from(cluster: Any) -> None:
    async def main() -> None:
        async with cluster(LOCKS, size=1, only=(), is_founded=False) as made:
            node = made.made(1, replace=True)
            with pytest.raises(ValueError, match="no other node"):
                await node.start()
            made.nodes.clear()

    virtual.run(main())

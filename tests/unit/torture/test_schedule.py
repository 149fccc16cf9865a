"""The schedule: drawn from a seed, of every kind, and never too much at once."""

from __future__ import annotations

from itertools import islice

import pytest

from habemus.torture.schedule import (
    CLIENT_KINDS,
    DAMAGE_KINDS,
    KINDS,
    LONG_CALM_S,
    MASS_KINDS,
    MEMBER_KINDS,
    NODE_ENDS,
    OUT_OF_HEARING,
    PlannedFault,
    Round,
    Size,
    is_asynchronous,
    is_by_network,
    rounds,
)

ALL = Size(nodes=5, clients=4, lease_s=2.0, kinds=tuple(KINDS))


def some(size: Size, seed: int = 1, many: int = 300) -> list[list[PlannedFault]]:
    return [each.faults for each in islice(rounds(size, seed), many)]


def test_the_same_seed_gives_the_same_schedule() -> None:
    assert some(ALL) == some(ALL)
    assert some(ALL) != some(ALL, seed=2)


def test_every_kind_comes() -> None:
    assert {fault.kind for faults in some(ALL) for fault in faults} == set(KINDS)
    assert {fault.kind for faults in some(ALL._replace(kinds=("cut",))) for fault in faults} == {
        "cut"
    }


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 5, 7])
def test_a_majority_is_spared(nodes: int) -> None:
    """Whatever a round does, more than half of the nodes are up and connected, where there are
    enough for that.
    """
    sparing = tuple(kind for kind in KINDS if kind not in MASS_KINDS)
    for faults in some(ALL._replace(nodes=nodes, kinds=sparing)):
        hit = {node for fault in faults for node in fault.nodes}
        cut = [link for fault in faults for link in fault.links]
        spared = [node for node in range(1, nodes + 1) if node not in hit]
        lonely = {node for node in spared if any(node in link for link in cut)}
        # Those that are cut off from somebody but not chosen themselves are still connected with
        # each other.
        while lonely and any(set(link) <= set(spared) for link in cut):
            most = max(
                lonely,
                key=lambda node: sum(node in link for link in cut if set(link) <= set(spared)),
            )
            spared.remove(most)
            lonely.discard(most)
        assert len(spared) >= nodes - max(1, (nodes - 1) // 2)


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
def test_majorities_and_everybody_are_killed_at_once(nodes: int) -> None:
    """And then nothing else ends or pauses a node in that round."""
    seen: dict[str, set[int]] = {}
    for faults in some(ALL._replace(nodes=nodes)):
        for fault in faults:
            if fault.kind in MASS_KINDS:
                assert not any(other.nodes for other in faults if other is not fault)
                seen.setdefault(fault.kind, set()).add(len(set(fault.nodes)))
    assert seen == {"kill-all": {nodes}, "power-all": {nodes}, "kill-majority": {nodes // 2 + 1}}


@pytest.mark.parametrize("nodes", [3, 5, 7])
def test_at_most_one_memory_is_damaged_in_a_round(nodes: int) -> None:
    kinds = []
    for faults in some(ALL._replace(nodes=nodes)):
        damaged = [fault.kind for fault in faults if fault.kind in DAMAGE_KINDS]
        assert len(damaged) <= 1
        kinds += damaged
    assert set(kinds) == set(DAMAGE_KINDS)


def test_members_change_once_in_a_round_beside_any_other_fault() -> None:
    beside: set[str] = set()
    for faults in some(ALL):
        changes = [fault for fault in faults if fault.kind in MEMBER_KINDS]
        assert len(changes) <= 1
        if changes and changes[0].kind == "member-swap":
            assert 1 <= changes[0].member <= ALL.nodes
            beside |= {fault.kind for fault in faults}
    assert beside == set(KINDS) - {"member-replace"}


def test_some_rounds_are_followed_by_a_rest_that_outlasts_every_lease() -> None:
    rests = [each.calm_s for each in islice(rounds(ALL, 1), 300)]
    long = [rest for rest in rests if rest > ALL.aftermath_s + LONG_CALM_S[0]]
    assert 30 < len(long) < 150
    assert ALL.aftermath_s > ALL.lease_s


def test_nobody_is_hit_twice_in_a_round() -> None:
    for faults in some(ALL):
        nodes = [node for fault in faults for node in fault.nodes]
        assert len(nodes) == len(set(nodes))
        clients = [fault.client for fault in faults if fault.kind in CLIENT_KINDS and fault.client]
        assert len(clients) == len(set(clients))


def test_cuts_one_way_are_one_way_and_others_are_not() -> None:
    for faults in some(ALL):
        for fault in faults:
            back = {(receiver, sender) for sender, receiver in fault.links}
            if fault.kind == "cut-one-way":
                assert back.isdisjoint(fault.links)
            elif fault.links:
                assert back == set(fault.links)


def test_clients_stand_still_for_longer_than_their_lease() -> None:
    for kind in OUT_OF_HEARING:
        pauses = [fault.lasts for faults in some(ALL) for fault in faults if fault.kind == kind]
        assert sum(lasts > ALL.lease_s for lasts in pauses) > len(pauses) / 2


def test_only_clients_on_the_network_are_cut_off() -> None:
    cuts = [fault for faults in some(ALL) for fault in faults if fault.kind == "cut-client"]
    named = [fault.client for fault in cuts if fault.client]
    assert named and all(map(is_by_network, named))
    assert {fault.is_silent for fault in cuts} == {True, False}
    spared = [
        fault
        for faults in some(ALL._replace(spares_waking=True))
        for fault in faults
        if fault.kind == "cut-client"
    ]
    assert {fault.is_silent for fault in spared} == {True}, (
        "a client without a lease may not lose its lock by losing its connection"
    )


def test_a_client_closes_its_connections_only_on_the_network() -> None:
    closings = [fault for faults in some(ALL) for fault in faults if fault.kind == "close-client"]
    assert all(is_by_network(fault.client) for fault in closings if fault.client)
    assert {fault.is_silent for fault in closings} == {True, False}


def test_some_clients_on_the_network_and_some_on_local_sockets_are_asynchronous() -> None:
    kinds = {(is_by_network(client), is_asynchronous(client)) for client in range(1, 5)}
    assert len(kinds) == 4


def test_no_client_stands_still_while_nodes_are_killed_where_that_cannot_be_told() -> None:
    together = 0
    for spares in (False, True):
        for faults in some(ALL._replace(spares_waking=spares)):
            kinds = {fault.kind for fault in faults}
            both = not kinds.isdisjoint(OUT_OF_HEARING) and not kinds.isdisjoint(NODE_ENDS)
            assert not (both and spares)
            together += both
    assert together


def test_the_leader_takes_the_place_of_another_one() -> None:
    """And that one its place, so that no more nodes are hit than before."""
    faults = [
        PlannedFault("kill-node", 0, 1, nodes=(2,)),
        PlannedFault("cut", 0, 1, links=((2, 4), (3, 1))),
        PlannedFault("member-swap", 0, 0, member=4),
    ]
    aimed = Round(faults, 2).aimed(4)
    assert [fault.nodes for fault in aimed] == [(4,), (), ()]
    assert [fault.member for fault in aimed] == [0, 0, 2]
    assert aimed[1].links == ((4, 2), (3, 1))
    assert Round(faults, 2).aimed(None) == Round(faults, 0).aimed(4) == faults


def test_a_full_disk_is_that_of_the_leader() -> None:
    """Other nodes may store nothing, and then nothing happens to them."""
    found = list(islice(rounds(ALL, 1), 100))
    full = [each for each in found if any(fault.kind == "disk-full" for fault in each.faults)]
    assert 5 < len(full) < len(found)
    for drawn in full:
        for leader in range(1, ALL.nodes + 1):
            aimed = drawn.aimed(leader)
            assert next(each for each in aimed if each.kind == "disk-full").nodes == (leader,)


def test_some_rounds_are_aimed_at_the_leader() -> None:
    aimed = [each for each in islice(rounds(ALL, 1), 100) if each.leader]
    assert 0 < len(aimed) < 100


def test_whom_is_told() -> None:
    assert PlannedFault("cut", 0, 1, links=((1, 2), (2, 1))).whom == "1>2 2>1"
    assert PlannedFault("kill-node", 0, 1, nodes=(3,)).whom == "node 3"
    assert PlannedFault("kill-majority", 0, 1, nodes=(1, 3)).whom == "nodes 1, 3"
    assert PlannedFault("pause-client", 0, 1).whom == "the current holder"

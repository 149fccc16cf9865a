"""What Maekawa and Sanders, and the lecture notes, claim of voting sets and of the algorithms on
them, one test each.
"""

from collections.abc import Sequence
from math import isqrt

import pytest

from habemus.algorithms.mutex.maekawa import Maekawa, Request, Sets, Vote, voting_sets
from habemus.algorithms.mutex.maekawa_sanders import Failed, Inquire, MaekawaSanders, Release, Yield
from habemus.algorithms.mutex.maekawa_sanders import Request as StampedRequest
from habemus.algorithms.mutex.maekawa_sanders import Vote as NumberedVote
from habemus.catalog.entries import find
from habemus.core import Message, MistakeInPlan, ProcessId
from habemus.core.node import Effect, Indicate, PureNode, Send, Stack
from habemus.core.properties import Verdict
from habemus.core.quorums import sizes_with_plane
from habemus.problems.mutex import Mutex
from habemus.runs.commands import run_of
from habemus.runs.setup import Setup
from habemus.runs.simulate import execute
from habemus.scenarios import find as scenario

NAMES = ("maekawa", "maekawa-sanders")
SEEDS = 300
CYCLE = [[1, 2], [2, 3], [3, 1]]


def sent(effects: Sequence[Effect]) -> list[tuple[ProcessId, Message]]:
    return [(effect.to, effect.message) for effect in effects if isinstance(effect, Send)]


def node_of(algorithm: type[Mutex], me: ProcessId, sets: Sets) -> PureNode:
    system = algorithm.system(len(sets), sets=sets)
    return PureNode(
        Stack(system.plans[me]), me, system.topology.neighbours[me], lambda choices: choices[0]
    )


# Voting sets.


def test_a_plane_is_taken_where_there_is_one_and_else_a_grid() -> None:
    for size in range(1, 60):
        expected = "plane" if size in sizes_with_plane() else "grid"
        assert voting_sets(size, "plane-or-grid") == voting_sets(size, expected)


def test_voting_sets_are_as_small_as_maekawa_says() -> None:
    """Section 3: N = K(K-1) + 1 on a plane, and about 2 sqrt(N) on a grid, whatever N is."""
    for size in range(1, 60):
        sets = voting_sets(size, "plane-or-grid").check()
        if size in sizes_with_plane():
            assert sets.is_regular
            assert size == sets.size * (sets.size - 1) + 1
        else:
            assert sets.size <= 2 * (isqrt(size - 1) + 1) - 1


def test_sets_may_be_written_down_and_must_be_voting_sets() -> None:
    assert voting_sets(3, CYCLE) == {1: (1, 2), 2: (2, 3), 3: (1, 3)}
    for sets, complaint in (
        ([[1], [2], [3]], "no process in common"),
        ([[1, 2], [1], [3, 1]], "not in its own"),
        ([[1, 2], [2, 1]], "2 voting sets for 3"),
        ("circle", "plane, grid, majority"),
        ([1, 2, 3], "write them down"),
        ("plane", "no projective plane"),
    ):
        with pytest.raises(MistakeInPlan, match=complaint):
            voting_sets(3, sets)  # type: ignore[arg-type]  # as it may come from the command line


# Costs.


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_costs_three_messages_for_each_voter_but_oneself(name: str) -> None:
    for size in range(2, 31):
        sets = voting_sets(size, "plane-or-grid")
        costs = execute(Setup(name, size, workload="in-turn"), keep=False).costs
        assert costs["messages"] == sum(3 * (len(voters) - 1) for voters in sets.values())
        assert costs["client_delay"] == costs["formula"]["client_delay"] == 2
        expected = 3 * (sets.size - 1) if sets.is_regular else None
        assert costs["formula"]["messages"] == expected
        assert expected is None or costs["messages_per_entry"] == expected


def test_it_is_cheaper_than_asking_everybody_from_five_on() -> None:
    """The notes say that voting needs more messages than multicast.  3 sqrt(N) and 2(N-1) cross at
    N = 4, where both are 6.
    """
    assert [size for size in range(2, 100) if 9 * size > 4 * (size - 1) ** 2] == [
        2,
        3,
    ]  # squared, to stay with whole numbers
    assert 9 * 4 == 4 * 3**2
    totals = {
        size: sum(3 * (len(voters) - 1) for voters in voting_sets(size, "plane-or-grid").values())
        for size in range(2, 100)
    }
    dearer = [size for size, total in totals.items() if total > 2 * size * (size - 1)]
    equal = [size for size, total in totals.items() if total == 2 * size * (size - 1)]
    assert (dearer, equal) == ([2], [3, 4])
    assert (
        execute(Setup("maekawa", 13, workload="in-turn"), keep=False).costs["messages_per_entry"]
        == 9
    )
    assert (
        execute(Setup("ricart-agrawala", 13, workload="in-turn"), keep=False).costs[
            "messages_per_entry"
        ]
        == 24
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_next_one_enters_two_message_times_later_through_a_third_voter(name: str) -> None:
    """1 and 5 of a square of nine have the voters 2 and 4 in common; 1 and 2 of the cycle only 2,
    so one message is enough.
    """
    costs = execute(Setup(name, 9, asks=("1@1ms+9ms", "5@3ms")), keep=False).costs
    assert costs["sync_delay"] == costs["formula"]["sync_delay"] == 2
    costs = execute(
        Setup(name, 3, options=("sets=[[1,2],[2,3],[3,1]]",), asks=("1@1ms+9ms", "2@3ms")),
        keep=False,
    ).costs
    assert costs["sync_delay"] == pytest.approx(1, abs=0.01)
    assert costs["formula"]["sync_delay"] is None


def test_in_a_crowd_sanders_costs_at_most_twice_as_much() -> None:
    """Each request that comes to a voter leads to one FAILED, or to one INQUIRE, YIELD and second
    vote: 6(K-1) on average.
    """
    for size in (2, 3, 4, 7, 9, 13):
        sets = voting_sets(size, "plane-or-grid")
        for seed in range(10):
            setup = Setup(
                "maekawa-sanders", size, seed, workload="burst", requests=4, delay="exp:1ms"
            )
            costs = execute(setup, keep=False).costs
            assert costs["entries"] == 4 * size
            least = 4 * sum(3 * (len(voters) - 1) for voters in sets.values())
            assert least <= costs["messages"] <= 2 * least, setup.command()


# Maekawa as in textbooks.


def test_a_voter_votes_for_one_at_a_time() -> None:
    voter = node_of(Maekawa, 2, CYCLE)
    assert sent(voter.deliver(0, 1, Request())) == [(1, Vote())]
    assert sent(voter.deliver(0, 2, Request())) == []


def test_a_process_asks_itself_too() -> None:
    one = node_of(Maekawa, 1, CYCLE)
    assert sent(one.request("acquire")) == [(1, Request()), (2, Request())]


def test_three_sets_in_a_cycle_deadlock_and_the_reason_names_the_cycle() -> None:
    report = scenario("maekawa-cycle").run().report
    assert report.violated == ["ME2-deadlock"]
    assert "1 for 2, 2 for 3, 3 for 1; cycle 1 -> 2 -> 3 -> 1" in report.why
    assert report.costs["entries"] == 0


def test_a_crashed_voter_blocks_whoever_needs_its_vote_and_nobody_else() -> None:
    """1 and 9 of a square of nine meet in 3 and 7; 5 is in neither set."""
    calm = execute(
        Setup("maekawa", 9, asks=("1@2ms", "9@9ms"), faults=(("crash", "5@1ms"),)), keep=False
    )
    blocked = execute(
        Setup("maekawa", 9, asks=("1@2ms", "9@9ms"), faults=(("crash", "3@1ms"),)), keep=False
    )
    assert calm.verdict is Verdict.HOLDS
    assert blocked.violated == ["ME2-deadlock"]
    assert "3 (crashed)" in blocked.why


# Sanders.


def test_the_same_cycle_is_resolved_when_votes_are_given_back() -> None:
    outcome = scenario("maekawa-sanders-cycle").run()
    assert outcome.report.verdict is Verdict.HOLDS
    assert outcome.scenario.setup.options == scenario("maekawa-cycle").setup.options
    assert outcome.scenario.setup.asks == scenario("maekawa-cycle").setup.asks


def test_whoever_loses_the_first_place_is_told() -> None:
    """Sanders' correction: 2 has hopes at voter 3, whose vote 3 has, until the earlier request of 1
    comes.
    """
    voter = node_of(MaekawaSanders, 3, [[1, 2, 3], [2, 3], [1, 3]])
    assert sent(voter.deliver(0, 3, StampedRequest(1))) == [(3, NumberedVote(1, 2))]
    assert sent(voter.deliver(0, 2, StampedRequest(1))) == [(3, Inquire(2))]
    assert sent(voter.deliver(0, 1, StampedRequest(1))) == [(2, Failed(1))]
    assert sent(voter.deliver(0, 3, Yield(2))) == [(1, NumberedVote(1, 3))]


def test_the_run_in_which_maekawa_deadlocks_without_that_correction() -> None:
    """2 has voted for itself and must give that vote to 1, which has the vote of 3 that 2 had hoped
    for.
    """
    setup = run_of(
        "habemus run maekawa-sanders -n 3 -o 'sets=[[1,2,3],[2,3],[1,3]]' --ask 1@1ms --ask 2@1ms "
        "--ask 3@1ms --slow '1>3@0=1200us'"
    )
    report = execute(setup)
    assert report.verdict is Verdict.HOLDS
    assert report.trace is not None
    told = [
        (event.process, event.peer)
        for event in report.trace.events
        if (event.kind, event.name) == ("send", "Failed")
    ]
    assert (3, 2) in told


@pytest.fixture
def two() -> PureNode:
    """2 wants in and needs the votes of 2 and 3."""
    node = node_of(MaekawaSanders, 2, CYCLE)
    assert sent(node.request("acquire")) == [(2, StampedRequest(1)), (3, StampedRequest(1))]
    return node


def test_an_inquiry_is_answered_only_by_one_who_was_put_off(two: PureNode) -> None:
    two.deliver(0, 2, NumberedVote(1, 4))
    assert sent(two.deliver(0, 2, Inquire(4))) == []
    assert sent(two.deliver(0, 3, Failed(1))) == [(2, Yield(4))]


def test_an_inquiry_that_comes_before_its_vote_waits_for_it(two: PureNode) -> None:
    two.deliver(0, 3, Failed(1))
    assert sent(two.deliver(0, 2, Inquire(4))) == []
    assert sent(two.deliver(0, 2, NumberedVote(1, 4))) == [(2, Yield(4))]


def test_an_inquiry_that_comes_after_the_release_is_ignored(two: PureNode) -> None:
    two.deliver(0, 2, NumberedVote(1, 4))
    assert Indicate in map(type, two.deliver(0, 3, NumberedVote(1, 6)))
    assert sent(two.deliver(0, 3, Inquire(6))) == [], "inside: the release will come"
    assert sent(two.request("release")) == [(2, Release(1)), (3, Release(1))]
    assert sent(two.deliver(0, 2, Inquire(4))) == []
    two.request("acquire")
    two.deliver(0, 3, Failed(7))
    assert sent(two.deliver(0, 2, NumberedVote(7, 8))) == [], (
        "the late inquiry was not for this vote"
    )


def test_a_failed_that_comes_late_or_twice_changes_nothing(two: PureNode) -> None:
    two.deliver(0, 2, NumberedVote(1, 4))
    two.deliver(0, 2, Failed(1))
    two.deliver(0, 2, Failed(1))
    assert sent(two.deliver(0, 2, Inquire(4))) == [], "the vote came after that failure"
    assert Indicate in map(type, two.deliver(0, 3, NumberedVote(1, 6)))


def test_a_process_that_has_entered_asks_next_with_a_later_stamp(
    two: PureNode,
) -> None:
    voter = node_of(MaekawaSanders, 3, CYCLE)
    voter.deliver(0, 3, StampedRequest(40))
    [(_, vote)] = sent(voter.deliver(0, 3, Release(40)) + voter.deliver(0, 2, StampedRequest(1)))
    assert vote == NumberedVote(1, 42)
    two.deliver(0, 3, vote)
    two.deliver(0, 2, NumberedVote(1, 4))
    two.request("release")
    assert sent(two.request("acquire"))[0][1] == StampedRequest(43)


# Many runs.


@pytest.mark.parametrize("name", NAMES)
def test_over_many_seeds_what_is_claimed_holds(name: str) -> None:
    claimed = find(name).box.ensures
    entered = 0
    for seed in range(SEEDS):
        setup = Setup(
            name,
            2 + seed % 6,
            seed,
            options=(f"sets={('plane-or-grid', 'majority', 'grid')[seed // 6 % 3]}",),
            workload="burst" if seed % 2 and name != "maekawa" else "steady",
            requests=2,
            think="0..20ms",
            delay=("exp:1ms", "heavy:300us", "500..1500us")[seed % 3],
            duplicate="0.1" if seed % 5 == 0 and name != "maekawa" else "0",
            until="30s",
        )
        report = execute(setup, keep=False)
        entered += report.costs["entries"] > 0
        for finding in report.counted:
            if finding.name.partition("-")[0] in claimed:
                nothing_to_see = (
                    finding.name == "ME1" and not report.costs["entries"] and "ME2" not in claimed
                )
                assert finding.verdict is Verdict.HOLDS or nothing_to_see, (
                    f"{setup.command()}: {finding.why}"
                )
    assert entered > SEEDS // 2


def test_the_cards_claim_what_was_seen() -> None:
    assert find("maekawa").box.ensures == ("ME1",)
    assert find("maekawa-sanders").box.ensures == ("ME1", "ME2")
    assert find("maekawa").unsafe == "maekawa-cycle"

"""Every verdict by search: what each algorithm keeps and what it violates, in every interleaving
within a bound.

A row is one search: the algorithm and its size, what holds, what is violated and after how many
steps at the earliest, how many states there are and how deep they lie; then the bound, where it is
not the usual one (one entry of each, links as the algorithm needs them, no faults, timers whenever
they are set).  Whatever is neither kept nor violated is undecided: because timers run out only so
many times, because there is nothing to show, or because the states have no end and the search was
cut off.

What a row is not:
- ME3 is about what happened before what, and only messages of the algorithm carry that.  With
  `central` and `token-ring` nobody hears of
  a request but the one who serves it, so no order can be violated, although neither looks at the
  order of asking: a participant
  that is the coordinator itself shows it, and so would any message of the applications.
- Starvation by priorities (`ra-priority`) and by giving up (`quorum-retry`) takes runs without end,
  in which clocks and numbers grow
  without end: no search comes to an end there.  Scenarios show it.
- `omega`, `omega-recovery` and `probabilistic` are missing.  What the first two promise is about
  the end of runs that never come to
  rest, under timing that a search does not have; the third draws one of 65,536 numbers at each
  call.
- A cut link is no fault of a search, so the split Yo-Yo (yo-yo-cut) is a scenario only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from habemus.catalog.entries import entries, find
from habemus.core.properties import Verdict
from habemus.runs.check import Check, perform
from habemus.scenarios import find as find_scenario


class Row(NamedTuple):
    check: Check
    holds: str
    violated: str  # each with the steps of its shortest counterexample
    states: int
    depth: int
    outside: (
        str  # what the card does not allow for; empty: the row is within what the algorithm assumes
    )


def row(
    algorithm: str,
    n: int,
    holds: str,
    violated: str,
    states: int,
    depth: int,
    outside: str = "",
    **bound: Any,
) -> Row:
    """Of the plain search, which visits the same states on every machine, to its end."""
    return Row(
        Check(algorithm, n, **{"every": True, "search": "breadth", **bound}),
        holds,
        violated,
        states,
        depth,
        outside,
    )


def faults(**counts: int) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(counts.items()))


ONE_TWO_ONE = 'election_options={"prevote":false,"first":1,"changes":2,"movable":[1,2]}'
"""The only member lends the lock; the other one is added, and then one of both is removed."""
MEMBERS_ONLY = (("Beat", 0), ("Change", 2), ("Patience", 0), ("Remind", 0), ("Repeat", 0))

QUICK = [
    # Mutual exclusion: spec, section 2.
    row("central", 2, "ME1 ME2 ME3", "", 261, 20, entries=2, order=True),
    row("central", 3, "ME1 ME2 ME3", "", 239, 15, order=True),
    row("central", 4, "ME1 ME2 ME3", "", 2_284, 20, order=True),
    row("central", 3, "ME1 ME2", "", 182, 10, entries=None),
    row(
        "central", 2, "ME1 ME2", "ME3:9", 327, 20, options=("coordinator=1",), entries=2, order=True
    ),
    row("central-timeout", 2, "", "ME1:7 ME3:11", 2_839, 22, entries=2, timeouts=2, order=True),
    row("central-timeout", 3, "", "ME1:7", 836, 17, timeouts=2),
    row("token-ring", 2, "ME1 ME2 ME3", "", 100, 14, entries=2, order=True),
    row("token-ring", 3, "ME1 ME2 ME3", "", 180, 13, order=True),
    row("token-ring", 4, "ME1 ME2 ME3", "", 960, 18, order=True),
    row("token-ring", 3, "ME1 ME2", "", 36, 6, entries=None),
    row("lamport", 2, "ME1 ME2 ME3", "", 1_604, 20, entries=2, order=True),
    row(
        "lamport",
        2,
        "ME2",
        "ME1:4",
        337,
        10,
        network="unordered",
        outside="the links do not keep the order",
    ),
    row("ricart-agrawala", 2, "ME1 ME2 ME3", "", 544, 16, entries=2, order=True),
    row("ricart-agrawala", 3, "ME1 ME2 ME3", "", 29_836, 18, order=True),
    row("ricart-agrawala", 3, "ME1 ME2", "", 2_879, 18, options=("tick=0",)),
    row(
        "ricart-agrawala",
        3,
        "",
        "ME3:12",
        6_864,
        11,
        options=("tick=0",),
        initial=("1.clock=5",),
        entries=2,
        order=True,
        every=False,
        outside="only requests carry a number",
    ),
    row(
        "ricart-agrawala",
        2,
        "ME1",
        "ME2-deadlock:2",
        115,
        9,
        faults=faults(crash=1),
        outside="a process crashes",
    ),
    row("ra-timeout", 2, "", "ME1:4 ME3:4", 380, 10, timeouts=2, order=True),
    row("ra-majority", 2, "ME1 ME2", "ME3:14", 27_078, 35, entries=2, order=True),
    row("ra-majority-naive", 2, "ME1 ME2 ME3", "", 47, 8, order=True),
    row("ra-majority-naive", 3, "ME2", "ME1:6", 355_059, 18),
    row("ra-priority", 2, "ME1 ME2 ME3", "", 190, 16, entries=2, order=True),
    row("ra-priority", 3, "ME1 ME2", "ME3:8", 19_468, 22, initial=("1.priority=1",), order=True),
    row(
        "ra-priority-aging",
        3,
        "ME1 ME2",
        "ME3:8",
        19_468,
        22,
        initial=("1.priority=1",),
        order=True,
    ),
    row("ra-reliable", 2, "ME1", "", 18_219, 16, network="duplicating", timeouts=1),
    row(
        "ricart-agrawala",
        2,
        "ME1",
        "ME2-deadlock:2",
        78,
        8,
        network="lossy",
        outside="messages are lost",
    ),
    row(
        "ricart-agrawala",
        2,
        "ME2",
        "ME1:9",
        15_533,
        18,
        entries=2,
        network="duplicating",
        outside="a message comes twice",
    ),
    row("roucairol-carvalho", 2, "ME1 ME2", "ME3:6", 305, 16, entries=2, order=True),
    row("roucairol-carvalho", 3, "ME1 ME2", "", 28_582, 18),
    row("quorum", 2, "ME1 ME2 ME3", "", 8_527, 21, order=True),
    row("quorum", 2, "ME1 ME2", "", 77_500, 21, network="duplicating"),
    row("quorum", 3, "ME1", "ME2-deadlock:15", 277_472, 31, network="fifo"),
    row(
        "quorum",
        2,
        "",
        "ME1:12 ME2-deadlock:10",
        133_533,
        23,
        faults=faults(amnesia=1, crash=1),
        outside="a coordinator forgets",
    ),
    row(
        "quorum",
        2,
        "",
        "ME1:8 ME2-deadlock:2",
        326,
        12,
        options=("coordinators=1",),
        faults=faults(amnesia=1, crash=1),
        outside="the coordinator forgets",
    ),
    row(
        "quorum-durable",
        2,
        "ME1",
        "ME2-deadlock:2",
        1_085,
        15,
        options=("coordinators=1",),
        faults=faults(crash=1, recover=1),
    ),
    row(
        "quorum-durable",
        2,
        "ME1",
        "ME2-deadlock:10",
        406_258,
        26,
        faults=faults(crash=1, recover=1),
        network="fifo",
    ),
    row(
        "quorum-durable",
        2,
        "",
        "ME1:8 ME2-deadlock:2",
        1_187,
        15,
        options=("coordinators=1",),
        faults=faults(amnesia=1, crash=1),
        outside="stable memory is lost",
    ),
    row("quorum-any-release", 2, "ME1 ME2", "", 7_792, 20),
    row("quorum-unnumbered", 2, "ME1 ME2", "", 9_382, 22),
    row("quorum-retry", 2, "ME1", "", 37_255, 22, options=("coordinators=2",), timeouts=2),
    row("quorum-yield", 2, "ME1 ME2", "", 94_449, 27),
    row(
        "quorum-yield",
        2,
        "ME1",
        "ME2-deadlock:2",
        4_720,
        18,
        options=("coordinators=1",),
        faults=faults(crash=1, recover=1),
        outside="whoever crashes need not come back",
    ),
    row("maekawa", 2, "ME1", "ME2-deadlock:8 ME3:14", 4_162, 32, entries=2, order=True),
    row("maekawa", 3, "ME1", "ME2-deadlock:10 ME3:16", 22_566, 27, order=True),
    row("maekawa", 3, "ME1", "ME2-deadlock:10", 33_954, 33, entries=None),
    row("maekawa-sanders", 2, "ME1 ME2 ME3", "", 1_879, 20, order=True),
    row("maekawa-sanders", 3, "ME1 ME2", "", 96_492, 37, network="fifo"),
    row("raymond", 2, "ME1 ME2 ME3", "", 85, 14, entries=2, order=True),
    row("raymond", 3, "ME1 ME2", "ME3:9", 3_120, 26, entries=2, order=True),
    row("raymond", 4, "ME1 ME2", "ME3:13", 2_073, 24, order=True),
    row("raymond", 3, "ME1 ME2", "", 110, 10, entries=None),
    row("naimi-trehel", 2, "ME1 ME2 ME3", "", 85, 14, entries=2, order=True),
    row("naimi-trehel", 3, "ME1 ME2", "ME3:9", 2_670, 26, entries=2, order=True),
    row("naimi-trehel", 4, "ME1 ME2 ME3", "", 1_704, 18, order=True),
    row("naimi-trehel", 3, "ME1 ME2", "", 318, 20, entries=None),
    row("suzuki-kasami", 2, "ME1 ME2 ME3", "", 87, 16, entries=2, order=True),
    row("suzuki-kasami", 3, "ME1 ME2", "ME3:5", 1_779, 15, order=True),
    row("suzuki-kasami", 4, "ME1 ME2", "", 126_799, 24),
    row("token-ring-repair", 2, "", "", 26_680, 15, timing="synchronous", limit=20_000),
    row(
        "token-ring-repair",
        2,
        "",
        "ME1:4",
        113,
        3,
        every=False,
        outside="messages may take longer than `patience`",
    ),
    row("elected-coordinator", 2, "ME1 FENCE TOKEN", "", 11_734, 32, timeouts=1, network="fifo"),
    row(  # a recalled loan serves one more application of the same process
        "elected-coordinator",
        2,
        "ME1 FENCE TOKEN",
        "",
        5_254,
        36,
        abstract="election",
        entries=2,
        options=("block=3", "turns=1"),
        timeouts=1,
        timers=(("Lead", 2), ("Follow", 0), ("Doubt", 0)),
        network="fifo",
    ),
    row(
        "elected-coordinator-plain",
        2,
        "ME1 FENCE TOKEN",
        "",
        9_456,
        28,
        timeouts=1,
        network="fifo",
    ),
    row(
        "elected-coordinator-leased",
        2,
        "FENCE TOKEN",
        "ME1:16",
        20_385,
        30,
        timeouts=1,
        network="fifo",
    ),
    row(
        "elected-coordinator-unrecorded",
        2,
        "FENCE TOKEN",
        "ME1:14",
        14_861,
        28,
        timeouts=1,
        network="fifo",
    ),
    row(
        "elected-coordinator-bully",
        2,
        "FENCE TOKEN",
        "ME1:12",
        13_979,
        28,
        timeouts=1,
        network="fifo",
    ),
    # Elections: spec, section 3.
    row("bully", 2, "E1 E2 E3 E4", "", 53, 9, timing="synchronous"),
    row("bully", 3, "E1 E2 E3 E4", "", 5_249, 19, timing="synchronous"),
    row(
        "bully",
        2,
        "E2",
        "E1:5 E3:5 E4:5",
        582,
        12,
        timing="synchronous",
        faults=faults(crash=1, recover=1),
        outside=(
            "nobody need call when the leader is gone; one comes back in the middle of an election"
        ),
    ),
    row(
        "bully",
        3,
        "",
        "E1:3",
        19,
        2,
        every=False,
        outside="a round trip may be longer than `timeout`",
    ),
    row("bully-stable", 2, "E1 E2 E3 E4", "", 94, 14, timing="synchronous"),
    row("bully-stable", 3, "E1 E2 E3 E4", "", 16_685, 31, timing="synchronous"),
    row(
        "bully-stable",
        2,
        "E1 E2 E4",
        "E3:8",
        1_610,
        19,
        timing="synchronous",
        faults=faults(crash=1, recover=1),
        outside="nobody need call when the leader is gone",
    ),
    row("ring-anonymous", 2, "E2 E4", "E1:6 E3:6", 36, 6),
    row("ring-anonymous", 3, "E2 E4", "E1:8 E3:8", 364, 10),
    row("ring-anonymous", 4, "E2 E4", "E1:9 E3:10", 3_716, 15),
    row("ring-list", 2, "E1 E2 E3 E4", "", 366, 16, entries=2),
    row("ring-list", 3, "E1 E2 E3 E4", "", 512, 21),
    row("ring-list", 4, "E1 E2 E3 E4", "", 10_000, 36),
    row("chang-roberts", 2, "E1 E2 E3 E4", "", 304, 18, entries=2),
    row("chang-roberts", 3, "E1 E2 E3 E4", "", 17_767, 42, entries=2),
    row("chang-roberts", 4, "E1 E2 E3 E4", "", 8_834, 38),
    row("chang-roberts-plain", 2, "E1 E3 E4", "E2:2", 12, 5),
    row("chang-roberts-plain", 3, "E1 E3 E4", "E2:2", 60, 9),
    row("chang-roberts-plain", 3, "E1 E3 E4", "E2:2", 151, 12, options=("announce",)),
    row("franklin", 2, "E1 E2 E3 E4", "", 105, 12),
    row("franklin", 3, "E1 E2 E3 E4", "", 809, 18),
    row("franklin", 4, "E1 E2 E3 E4", "", 5_709, 24),
    row("hirschberg-sinclair", 2, "E1 E2 E3 E4", "", 296, 14),
    row("hirschberg-sinclair", 3, "E1 E2 E3 E4", "", 9_894, 29),
    row("peterson", 2, "E1 E2 E3 E4", "", 32, 10),
    row("peterson", 3, "E1 E2 E3 E4", "", 149, 15),
    row("peterson", 4, "E1 E2 E3 E4", "", 676, 20),
    row(
        "peterson",
        3,
        "E1 E3 E4",
        "E2:6",
        914,
        18,
        network="unordered",
        outside="the links do not keep the order",
    ),
    row("itai-rodeh", 2, "", "", 20_011, 447, limit=20_000),
    row("yo-yo", 2, "E1 E2 E3 E4", "", 22, 7),
    row("yo-yo", 3, "E1 E2 E3 E4", "", 730, 17),
    row("terms", 2, "E1 E4", "", 171, 13, timeouts=2),
    row("terms-members", 2, "E1 E4", "", 199, 12, timeouts=2),
    row(
        "elected-coordinator-leased-members",
        2,
        "FENCE TOKEN",
        "ME1:12",
        17_625,
        28,
        options=(ONE_TWO_ONE,),
        timeouts=1,
        timers=MEMBERS_ONLY,
        network="fifo",
    ),
    row(
        "elected-coordinator-leased-members",
        2,
        "FENCE TOKEN",
        "ME1:17",
        21_921,
        31,
        timeouts=1,
        network="fifo",
    ),
    row(
        "elected-coordinator-members",
        2,
        "ME1 FENCE TOKEN",
        "",
        12_835,
        33,
        timeouts=1,
        network="fifo",
    ),
    row(
        "terms",
        2,
        "",
        "E4:12",
        21_495,
        11,
        every=False,
        outside="heartbeats may take longer than the shortest timeout",
    ),
    row("terms", 3, "E1 E4", "", 5_227, 12, timeouts=1, faults=faults(crash=1, recover=1)),
    row(
        "terms",
        3,
        "E1",
        "E4:8",
        10_609,
        14,
        timeouts=2,
        options=("prevote=false",),
        outside="without the pre-vote E4 is not kept",
    ),
    row(
        "terms",
        3,
        "",
        "E1:8",
        16_005,
        7,
        timeouts=2,
        options=("prevote=false",),
        faults=faults(amnesia=1, crash=1),
        every=False,
        outside="stable memory is lost",
    ),
]

# Only with --times 10 or more.
LONG = [
    row("lamport", 3, "ME1 ME2 ME3", "", 546_463, 24, order=True),
    row("ra-reliable", 2, "ME1 ME2", "", 36_199, 20, network="lossy", merging=True),
    row("ricart-agrawala", 4, "ME1 ME2", "", 1_412_505, 32, options=("tick=0",), network="fifo"),
    row(
        "quorum-durable",
        2,
        "ME1",
        "ME2-deadlock:10",
        852_674,
        25,
        faults=faults(crash=1, recover=1),
    ),
    row("elected-coordinator", 2, "ME1 FENCE TOKEN", "", 116_101, 37, timeouts=2, network="fifo"),
    row(
        "elected-coordinator-members",
        2,
        "ME1 FENCE TOKEN",
        "",
        45_460,
        43,
        options=(ONE_TWO_ONE,),
        timers=MEMBERS_ONLY,
        network="fifo",
    ),
    row(
        "elected-coordinator-members",
        2,
        "ME1 FENCE TOKEN",
        "",
        361_433,
        44,
        options=(ONE_TWO_ONE,),
        timers=MEMBERS_ONLY,
        faults=faults(crash=1, recover=1),
        network="fifo",
        returning=True,
    ),
    row("chang-roberts", 5, "E1 E2 E3 E4", "", 147_906, 60),
    row("yo-yo", 4, "E1 E2 E3 E4", "", 103_869, 31),
    row("terms", 3, "E1 E4", "", 260_146, 21, timeouts=2),
    row(
        "terms",
        3,
        "E1",
        "E4:8",
        139_771,
        16,
        timeouts=2,
        options=("prevote=false",),
        faults=faults(crash=1, recover=1),
        outside="without the pre-vote E4 is not kept",
    ),
]


LEFT_OUT = {"omega", "omega-recovery", "probabilistic"}


def names_of(properties: str) -> list[str]:
    """ME2 stands for its two parts."""
    return (
        properties.replace("ME2 ", "ME2-deadlock ME2-starvation ").split()
        if "ME2 " in f"{properties} "
        else properties.split()
    )


def make(one: Row) -> None:
    report = perform(one.check)
    verdicts = {finding.name: finding.verdict for finding in report.findings}
    violated = {name: told.steps for name, told in report.stories.items()}
    assert [name for name, verdict in verdicts.items() if verdict is Verdict.HOLDS] == names_of(
        f"{one.holds} "
    )
    assert violated == {
        name: int(steps)
        for name, _, steps in (each.partition(":") for each in one.violated.split())
    }
    assert violated.keys() == {
        name for name, verdict in verdicts.items() if verdict is Verdict.VIOLATED
    }
    assert (report.extent.states, report.extent.depth) == (one.states, one.depth)


def told(one: Row) -> str:
    return (
        one.check.command()
        .removeprefix("habemus check ")
        .replace(" --every", "")
        .replace(" --search breadth", "")
    )


@pytest.mark.parametrize("one", QUICK, ids=map(told, QUICK))
def test_verdict(one: Row) -> None:
    make(one)


@pytest.mark.long_search
@pytest.mark.parametrize("one", LONG, ids=map(told, LONG))
def test_verdict_of_a_long_search(one: Row) -> None:
    make(one)


@pytest.mark.parametrize("one", [*QUICK, *LONG], ids=map(told, [*QUICK, *LONG]))
def test_verdict_agrees_with_the_card(one: Row) -> None:
    """Within what it assumes, nothing is violated that the card ensures; the way out is to say what
    is outside of that.
    """
    ensured = find(one.check.algorithm).box.ensures
    broken = [
        name
        for name in one.violated.split()
        if name.partition(":")[0] in ensured or name.partition("-")[0] in ensured
    ]
    assert bool(broken) == bool(one.outside)


def test_no_algorithm_is_forgotten() -> None:
    searched = {one.check.algorithm for one in QUICK}
    assert searched | LEFT_OUT == {
        name for name, entry in entries().items() if entry.problem.model is not None
    }
    assert not searched & LEFT_OUT


# The shortest way to break what is there to be broken: no longer than that of the person who wrote
# the scenario.


class Shown(NamedTuple):
    """A scenario that violates a property, and the same by search: with as many processes, or
    fewer.
    """

    scenario: str
    name: str
    by_hand: int  # steps of the scenario up to the violation
    searched: int
    check: Check


def shown(
    scenario: str, name: str, by_hand: int, searched: int, algorithm: str, n: int, **bound: Any
) -> Shown:
    return Shown(
        scenario, name, by_hand, searched, Check(algorithm, n, **{"search": "breadth", **bound})
    )


CYCLE = ("sets=[[1,2],[2,3],[3,1]]",)
SHOWN = [
    # By hand two more messages arrive than are needed.  The search goes on after a deadlock, which
    # is closer: nobody comes back.
    shown(
        "quorum-amnesia-3",
        "ME1",
        14,
        12,
        "quorum",
        2,
        faults=faults(crash=1, amnesia=1),
        every=True,
    ),
    # Each asks the third, which replies to both: two requests, two receipts there, two replies.  By
    # hand they also ask each other.
    shown("ra-majority-naive", "ME1", 8, 6, "ra-majority-naive", 3),
    # Both ask, and both lose their patience before anything has arrived.  By hand the first gets in
    # by replies.
    shown("ra-timeout-slow", "ME1", 9, 4, "ra-timeout", 3),
    # The first asks, is heard, gets the grant; the second asks, is heard; the timer; its grant.  By
    # hand there is one entry before.
    shown("central-holder-slow", "ME1", 12, 7, "central-timeout", 3),
    # Both ask; 1 acknowledges and enters, and its acknowledgement overtakes its request.  As short
    # as by hand.
    shown("lamport-not-fifo", "ME1", 4, 4, "lamport", 2, network="unordered"),
    # Each asks itself and the next, and every one of these six messages and three votes arrives:
    # there is no shorter way to rest.
    shown("maekawa-cycle", "ME2-deadlock", 12, 12, "maekawa", 3, options=CYCLE),
    # Three requests, nine receipts, three grants: all that can happen, so every split is as long.
    shown("quorum-split", "ME2-deadlock", 15, 15, "quorum", 3, network="fifo"),
    shown("ring-anonymous-two", "E1", 6, 6, "ring-anonymous", 2),
    # One call, one receipt: dropped.
    shown("chang-roberts-lone", "E2", 2, 2, "chang-roberts-plain", 3),
    # The largest calls and leads at once, another one calls, and its timer runs out before any
    # message has arrived.
    shown("bully-impatient", "E1", 3, 3, "bully", 3),
]

STEPS = ("request", "receive", "timer", "crash", "recover")


def steps_by_hand(scenario: str, name: str) -> int:
    """Events of processes in the scenario, up to the entry or the claim that is one too many; all,
    where it is about the end.
    """
    report = find_scenario(scenario).run().report
    assert report.trace is not None
    finding = next(each for each in report.findings if each.name == name)
    assert finding.verdict is Verdict.VIOLATED
    steps = 0
    for event in report.trace.events:
        steps += event.kind in STEPS
        is_it = event.kind == "indicate" and (event.time, event.process) == (
            finding.time,
            finding.processes[-1],
        )
        if is_it and name in ("ME1", "E1"):
            break
    return steps


@pytest.mark.parametrize("one", SHOWN, ids=[each.scenario for each in SHOWN])
def test_no_longer_than_by_hand(one: Shown) -> None:
    assert steps_by_hand(one.scenario, one.name) == one.by_hand
    assert perform(one.check).stories[one.name].steps == one.searched <= one.by_hand

"""Every verdict by search: what each algorithm keeps and what it violates, in every interleaving
within a bound.

The rows are in verdicts.txt.

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

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from habemus.catalog.entries import entries, find
from habemus.core.properties import Verdict
from habemus.runs.check import Check, perform
from habemus.runs.commands import check_of
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


def rows(text: str) -> list[Row]:
    """Return the rows: each a plain search, which visits the same states on every machine."""
    found = []
    for line in filter(None, text.splitlines()):
        if not line.startswith("#"):
            command, holds, violated, states, depth, *outside = line.split(" | ")
            check = check_of(f"habemus check {command} --search breadth")
            kept, broken = ("" if each == "-" else each for each in (holds, violated))
            found.append(Row(check, kept, broken, int(states), int(depth), "".join(outside)))
    return found


QUICK, LONG = map(
    rows, Path(__file__).with_name("verdicts.txt").read_text("utf-8").split("# LONG\n")
)


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


FORGETS = (("amnesia", 1), ("crash", 1))
CYCLE = ("sets=[[1,2],[2,3],[3,1]]",)
SHOWN = [
    # By hand two more messages arrive than are needed.  The search goes on after a deadlock, which
    # is closer: nobody comes back.
    shown("quorum-amnesia-3", "ME1", 14, 12, "quorum", 2, faults=FORGETS, every=True),
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

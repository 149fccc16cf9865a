"""Claims about the bully algorithm (Garcia-Molina 1982, and the lecture notes on coordination), one
test each.
"""

import pytest

from habemus.core.properties import Verdict
from habemus.runs.setup import Setup
from habemus.runs.simulate import Report, execute
from habemus.scenarios import find

SHORT = ("timeout=5ms", "patience=15ms")


def messages(report: Report, name: str) -> list[tuple[int, int]]:
    """Who sent a message of that name to whom, in order."""
    assert report.trace is not None
    return [
        (event.process, event.peer or 0)
        for event in report.trace.events
        if event.kind == "send" and event.name == name
    ]


def test_the_seven_steps_of_the_notes() -> None:
    report = find("bully-five").run().report
    assert report.trace is not None
    coordinators = messages(report, "Coordinator")
    assert coordinators[:4] == [(5, other) for other in (1, 2, 3, 4)], "step 1: 5 leads"
    elects = messages(report, "Elect")
    assert {pair for pair in elects if pair[0] in (2, 3)} == {
        (2, 3),
        (2, 4),
        (2, 5),
        (3, 4),
        (3, 5),
    }, "step 2: 2 and 3 stand"
    oks = messages(report, "Ok")
    assert {(4, 2), (4, 3), (3, 2)} <= set(oks), "step 3: 4 answers both, and 3 answers 2"
    assert {pair for pair in elects if pair[0] == 1} == {(1, other) for other in (2, 3, 4, 5)}, (
        "step 4: 1 stands"
    )
    assert {(2, 1), (3, 1), (4, 1)} <= set(oks), "step 5: all that are up answer 1"
    assert (4, 5) in elects and not any(sender == 5 for sender, _ in oks), (
        "step 6: 4 asks 5, which does not answer"
    )
    assert coordinators[4:] == [(4, other) for other in (1, 2, 3, 5)], "step 7: 4 announces itself"
    assert report.costs["leader"] == 4
    assert (len(elects), len(oks), len(coordinators)) == (10, 6, 8), "and nothing else was sent"


@pytest.mark.parametrize("size", [2, 3, 5, 10, 20])
def test_worst_case_is_quadratic(size: int) -> None:
    """All are up and the smallest calls: everybody bullies everybody smaller."""
    for seed in range(5):
        costs = execute(Setup("bully", size, seed=seed, workload="in-turn"), keep=False).costs
        assert costs["messages"] == costs["formula"]["messages"] == size * (size - 1) + 2 * size - 3
        assert costs["turnaround"] == costs["formula"]["turnaround"] == 2


@pytest.mark.parametrize("size", [3, 5, 10])
def test_best_case_is_n_minus_2(size: int) -> None:
    """The second largest notices the crash of the largest: it needs to tell n-2 processes, and asks
    only the dead one.
    """
    setup = Setup(
        "bully", size, options=SHORT, asks=(f"{size - 1}@5ms",), faults=(("crash", f"{size}@1ms"),)
    )
    report = execute(setup)
    assert report.trace is not None
    received = [event for event in report.trace.events if event.kind == "receive"]
    assert len(received) == size - 2
    assert report.costs["messages"] == size
    assert report.costs["leader"] == size - 1


def test_the_largest_announces_itself_at_once() -> None:
    report = execute(Setup("bully", 5, asks=("5@1ms",)))
    assert report.costs["messages"] == 4
    assert report.costs["turnaround"] == 1


def test_the_key_decides_and_the_id_breaks_ties() -> None:
    assert execute(Setup("bully", 4, options=("keys=[1, 9, 9, 2]",))).costs["leader"] == 3
    assert execute(Setup("bully", 4, options=("keys=[7, 1, 1, 1]",))).costs["leader"] == 1
    assert execute(Setup("bully", 4)).costs["leader"] == 4


def test_after_an_ok_without_a_coordinator_the_election_is_called_again() -> None:
    """4 answers 3 and crashes before it has won."""
    setup = Setup(
        "bully", 5, options=SHORT, asks=("3@5ms",), faults=(("crash", "5@1ms"), ("crash", "4@8ms"))
    )
    report = execute(setup)
    assert messages(report, "Ok") == [(4, 3)]
    assert messages(report, "Elect").count((3, 4)) == 2
    assert report.verdict is Verdict.HOLDS
    assert report.costs["leader"] == 3


def test_a_recovered_process_calls_an_election() -> None:
    setup = Setup(
        "bully",
        4,
        options=SHORT,
        asks=("4@0",),
        faults=(("crash", "2@10ms"), ("recover", "2@30ms")),
    )
    report = execute(setup)
    assert report.verdict is Verdict.HOLDS, "4 is asked, and announces itself again"
    assert {(2, 3), (2, 4)} <= set(messages(report, "Elect"))


def test_wrong_suspicion_changes_nothing() -> None:
    for seed in range(20):
        report = execute(Setup("bully", 5, seed=seed, requests=3, delay="500..1500"), keep=False)
        assert report.verdict is Verdict.HOLDS, report.why
        assert report.costs["leader_changes"] == 0


def test_the_leader_crashes_and_somebody_notices() -> None:
    for seed in range(60):
        size = 3 + seed % 4
        notices = tuple(
            f"{1 + (seed + turn) % (size - 1)}@{40_000 + 700 * turn}us"
            for turn in range(1 + seed % 3)
        )
        setup = Setup(
            "bully",
            size,
            seed=seed,
            delay="exp:1ms",
            asks=("1@0", *notices),
            faults=(("crash", f"{size}@35ms"),),
        )
        report = execute(setup, keep=False)
        assert report.verdict is Verdict.HOLDS, f"{setup.command()}: {report.why}"
        assert report.costs["leader"] == size - 1


def test_flapping_costs_an_election_each_time_only_with_a_fixed_key() -> None:
    plain, stable = find("bully-flapping").run().report, find("bully-stable-flapping").run().report
    assert plain.costs["leader_changes"] == 4
    assert stable.costs["leader_changes"] == 1
    assert stable.costs["leader"] == 4


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_cost_of_bully_stable(size: int) -> None:
    costs = execute(Setup("bully-stable", size, workload="in-turn"), keep=False).costs
    assert (
        costs["messages"] == costs["formula"]["messages"] == 3 * size * (size - 1) // 2 + size - 1
    )


def test_two_leaders_of_a_split_brain_are_found() -> None:
    """A cut makes two leaders; the old one was settled, but the news of the new one never
    arrives.
    """
    setup = Setup(
        "bully", 5, options=SHORT, asks=("5@0", "2@20ms"), faults=(("cut", "1,2|3,4,5@10ms"),)
    )
    report = execute(setup)
    assert set(report.violated) == {"E1", "E3"}
    assert "2 became leader while 5 led" in report.why

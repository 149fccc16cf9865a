"""Claims about election by failure detectors (lecture notes on leader election, algorithms 5.2 and
5.3), one test each.
"""

import random
from dataclasses import replace

import pytest

from habemus.algorithms.election.omega import DETECTORS
from habemus.core.process import MistakeInPlan
from habemus.core.properties import Verdict
from habemus.runs.commands import run_of
from habemus.runs.setup import Setup
from habemus.runs.simulate import execute
from habemus.scenarios import find

WILD = "gst:200ms:heavy:4ms:500..1500"


@pytest.mark.parametrize("algorithm", ["omega", "omega-recovery"])
def test_one_leader_after_gst(algorithm: str, times: int) -> None:
    quarrels = 0
    for seed in range(20 * times):
        setup = Setup(algorithm, 3, seed=seed, delay=WILD, until="1s")
        report = execute(setup, keep=False)
        assert report.verdict is Verdict.HOLDS, f"{setup.command()}: {report.why}"
        quarrels += report.costs["leader_changes"]
    assert quarrels > 5 * times, "without leaders side by side before GST this shows nothing"


@pytest.mark.parametrize("by", sorted(DETECTORS))
def test_any_detector_will_do(by: str) -> None:
    for seed in range(5):
        setup = run_of(
            f"habemus run omega -n 4 --seed {seed} -o by={by} --delay {WILD} --crash 1@400ms "
            "--until 2s"
        )
        report = execute(setup, keep=False)
        assert report.verdict is Verdict.HOLDS, f"{setup.command()}: {report.why}"
        assert report.costs["leader"] == 2


def test_the_next_smallest_leads() -> None:
    report = find("omega-crash").run().report
    assert report.costs["leader"] == 2
    assert report.costs["leader_changes"] == 1
    three = execute(Setup("omega", 4, faults=(("crash", "1@100ms"), ("crash", "2@200ms"))))
    assert three.costs["leader"] == 3


def test_another_criterion() -> None:
    setup = Setup("omega", 4, options=("order=[3, 1, 4, 2]",))
    assert execute(setup).costs["leader"] == 3
    assert (
        execute(Setup("omega", 4, options=setup.options, faults=(("crash", "3@100ms"),))).costs[
            "leader"
        ]
        == 1
    )


def test_wrong_options_are_refused() -> None:
    for option in ("by=crystal-ball", "order=[1, 2]", "order=[1, 1, 2]"):
        with pytest.raises(MistakeInPlan):
            execute(Setup("omega", 3, options=(option,)))


def test_no_messages_but_those_of_the_detector() -> None:
    omega = execute(Setup("omega", 4, until="990ms"), keep=False).costs
    detector = execute(Setup("eventually-perfect", 4, until="990ms"), keep=False).costs
    assert omega["messages"] == detector["messages"]


def test_n_squared_heartbeats_per_interval() -> None:
    costs = execute(Setup("omega-recovery", 5, until="200ms"), keep=False).costs
    # The first leader is a change, so the interval is 20 ms once and 30 ms from then on.
    assert costs["messages"] == 20 * (1 + 1 + (200 - 20) // 30 - (1 if (200 - 20) % 30 == 0 else 0))


def test_an_unstable_process_loses_to_one_that_stays_up() -> None:
    report = find("omega-unstable").run().report
    assert report.costs["leader"] == 2
    assert report.trace is not None
    lives = [
        event.fields()["incarnation"]
        for event in report.trace.events
        if event.kind == "send" and event.process == 1
    ]
    assert lives == sorted(lives) and set(lives) == {1, 2, 3, 4}, "counted across crashes"
    followers = [
        event
        for event in report.trace.events
        if event.name == "Leader" and event.process in (3, 4) and event.time > 300_000
    ]
    assert not any(event.fields()["process"] == 1 for event in followers), (
        "nobody that stays up goes back to it"
    )


def test_an_unstable_process_never_leads_after_gst(times: int) -> None:
    """1 crashes and comes back again and again, before GST and after it; in half of the runs it
    stays away in the end.
    """
    quarrels = 0
    for seed in range(20 * times):
        draw, moment, faults = random.Random(seed), 50, list[tuple[str, str]]()
        while moment < 1_500:
            back = moment + draw.randrange(10, 120)
            faults += [("crash", f"1@{moment}ms"), ("recover", f"1@{back}ms")]
            moment = back + draw.randrange(30, 200)
        if seed % 2:
            faults.append(("crash", f"1@{moment}ms"))
        setup = Setup("omega-recovery", 4, seed=seed, delay=WILD, faults=tuple(faults), until="6s")
        report = execute(setup, keep=False)
        assert report.verdict is Verdict.HOLDS, f"{setup.command()}: {report.why}"
        assert report.costs["leader"] == 2, setup.command()
        quarrels += report.costs["leader_changes"]
    assert quarrels > 20 * times


def test_fewest_incarnations_then_smallest_id() -> None:
    faults = (
        ("crash", "1@50ms"),
        ("recover", "1@90ms"),
        ("crash", "2@50ms"),
        ("recover", "2@90ms"),
    )
    assert execute(Setup("omega-recovery", 4, faults=faults)).costs["leader"] == 3
    everybody = tuple(
        fault
        for who in range(1, 5)
        for fault in (("crash", f"{who}@50ms"), ("recover", f"{who}@90ms"))
    )
    assert execute(Setup("omega-recovery", 4, faults=everybody)).costs["leader"] == 1, "equal again"


def test_a_run_that_ends_soon_after_a_change_of_leader_is_undecided() -> None:
    """The interval grows with every change, so a leader that is left shortly before the end may
    have been left for the last time.
    """
    faults = (
        ("crash", "2@160836"),
        ("crash", "3@429672"),
        ("crash", "6@37143"),
        ("recover", "2@236178"),
        ("recover", "3@602955"),
    )
    setup = Setup("omega-recovery", 6, seed=128, delay="100..3000", faults=faults)
    report = execute(setup, keep=False)
    assert {finding.name: finding.verdict for finding in report.findings} == dict.fromkeys(
        ("E1", "E2", "E3", "E4"), Verdict.UNDECIDED
    )
    longer = execute(replace(setup, until="6s"), keep=False)
    assert longer.verdict is Verdict.HOLDS, longer.why


def test_a_process_that_flaps_for_ever_does_not_disturb() -> None:
    """1 comes and goes until the end of the run; the others have settled long before."""
    faults = tuple(
        fault
        for turn in range(20)
        for fault in (("crash", f"1@{100 + 100 * turn}ms"), ("recover", f"1@{150 + 100 * turn}ms"))
    )
    report = execute(Setup("omega-recovery", 4, faults=faults, until="2200ms"))
    assert report.trace is not None
    late = [
        event
        for event in report.trace.events
        if event.name == "Leader" and event.process != 1 and event.time > 600_000
    ]
    assert late == []

"""Claims about the probabilistic election (Gupta, van Renesse, Birman 2000), one test each, with
what is measured against the formulas.
"""

from math import exp, log
from statistics import mean

from habemus.algorithms.election.probabilistic import LOTS, mixed
from habemus.catalog.entries import find
from habemus.core.properties import Verdict
from habemus.runs.check import Check, CheckReport, perform
from habemus.runs.commands import run_of
from habemus.runs.setup import Setup
from habemus.runs.simulate import Report, execute


def run(size: int, fanout: int, seed: int, workload: str = "steady") -> Report:
    return execute(
        run_of(
            f"habemus run probabilistic -n {size} --seed {seed} -o fanout={fanout} --delay exp:1ms "
            f"--workload {workload}"
        ),
        keep=False,
    )


def broken(report: Report) -> set[str]:
    return {finding.name for finding in report.findings if finding.verdict is not Verdict.HOLDS}


def test_nothing_is_claimed_for_certain() -> None:
    assert find("probabilistic").box.ensures == ()


def test_so_many_stand_on_average_and_seldom_nobody() -> None:
    """The filter: K of n on average, nobody with a probability of (1 - K/n)^n."""
    size, wanted, elections = 100, 3, 2_000
    standing = [
        sum(mixed(1, 1, nonce, 0, me) * size < wanted * LOTS for me in range(1, size + 1))
        for nonce in range(elections)
    ]
    assert abs(mean(standing) - wanted) < 0.1
    nobody = standing.count(0) / elections
    assert abs(nobody - (1 - wanted / size) ** size) < 0.012


def test_the_lot_is_the_same_for_everybody_and_another_in_each_round() -> None:
    lots = {
        mixed(1, caller, nonce, turn, me)
        for caller in (1, 2)
        for nonce in range(5)
        for turn in range(5)
        for me in range(20)
    }
    assert len(lots) == 2 * 5 * 5 * 20
    assert mixed(1, 2, 3) == mixed(1, 2, 3) != mixed(3, 2, 1)


def test_the_frequency_of_failures_is_that_of_the_formula() -> None:
    size, runs = 30, 60
    for fanout, allowed in ((3, 0.13), (5, 0.1)):
        failed = [broken(run(size, fanout, seed)) for seed in range(runs)]
        formula = 1 - exp(-size * (1 - fanout / (size - 1)) ** (size - 1))
        assert abs(sum(map(bool, failed)) / runs - formula) < allowed
        if fanout == 3:
            assert {"E1", "E2", "E3"} <= set().union(*failed), "all three can be missed"


def test_it_is_certain_if_everybody_is_told() -> None:
    for seed in range(20):
        assert broken(run(8, 7, seed, workload="burst" if seed % 2 else "steady")) == set()


def test_the_messages_of_a_process_are_bounded_whatever_the_size() -> None:
    """Each passes on the call and every better candidate: of K that stand, less than 1 + ln K are
    better than all before.
    """
    loads = {
        size: mean(run(size, 5, seed).costs["messages"] for seed in range(8)) / size / 5
        for size in (20, 40, 80, 120)
    }
    assert all(1 < load < 2 + log(5) for load in loads.values()), loads


def test_a_round_in_which_nobody_stands_is_followed_by_another() -> None:
    rounds = []
    for seed in range(20):
        setup = Setup(
            "probabilistic", 8, seed=seed, options=("candidates=1", "fanout=7"), asks=("1@0",)
        )
        report = execute(setup)
        assert broken(report) == set(), report.why
        assert report.trace is not None
        rounds.append(
            max(
                event.value.election.round  # type: ignore[union-attr]
                for event in report.trace.events
                if event.name == "Rumour"
            )
        )
    assert max(rounds) >= 1 and min(rounds) == 0


def searched(fanout: int) -> CheckReport:
    """Return the search of all elections that one of three processes calls, for a few of the
    numbers that it can draw.  Two of them let no process stand in the first round.
    """
    check = Check(
        "probabilistic",
        3,
        options=("candidates=1", f"fanout={fanout}", "nonces=4"),
        asking=(1,),
        timing="synchronous",
        every=True,
        search="breadth",
    )
    return perform(check)


def test_it_is_certain_if_all_are_told() -> None:
    """From every state, whatever is drawn; a round in which no process stands is followed by one
    in which one does.
    """
    report = searched(fanout=2)
    assert report.extent.complete
    assert {finding.verdict for finding in report.findings} == {Verdict.HOLDS}


def test_a_rumour_that_does_not_reach_all_is_not_repeated() -> None:
    """So termination is not a matter of time: an unlucky draw violates E2 for ever."""
    assert set(searched(fanout=1).violated) >= {"E2", "E3"}

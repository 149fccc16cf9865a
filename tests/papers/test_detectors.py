"""Claims about failure detectors (lecture notes, algorithm 5.1; Chen et al. 2002; Hayashibara et
al. 2004), one test each.
"""

import random
from dataclasses import replace
from itertools import pairwise
from statistics import NormalDist

import pytest

from habemus.algorithms.detectors.phi_accrual import DEVIATIONS, PhiAccrual
from habemus.core.properties import Verdict
from habemus.runs import notation
from habemus.runs.commands import run_of
from habemus.runs.setup import Setup
from habemus.runs.simulate import Report, execute
from habemus.runtimes.sim.network import Exponential, HeavyTail, Uniform, UntilGst
from habemus.scenarios import find

DETECTORS = ("eventually-perfect", "heartbeat", "adaptive", "phi-accrual")
GST = 200_000
BOUND = 1_500


def partially_synchronous(algorithm: str, seed: int) -> Setup:
    return run_of(
        f"habemus run {algorithm} -n 3 --seed {seed} --delay gst:200ms:heavy:4ms:500..1500 "
        "--crash 3@400ms --until 1400ms"
    )


def properties(report: Report) -> dict[str, Verdict]:
    return {finding.name: finding.verdict for finding in report.findings}


# The model.


def test_delays_until_gst() -> None:
    draw = random.Random(1)
    sample = UntilGst(HeavyTail(4_000), Uniform(500, BOUND), GST).sampler(draw.getrandbits)
    before = [(sent, sample(sent)) for sent in range(0, GST, 20)]
    after = [sample(sent) for sent in range(GST, 2 * GST, 20)]
    assert max(delay for _, delay in before) > 20 * BOUND, "wild before"
    assert all(sent + delay <= GST + BOUND for sent, delay in before), (
        "and at the latest at GST plus the bound"
    )
    assert min(after) >= 500 and max(after) <= BOUND
    assert all(delay >= 1 for _, delay in before)


def test_notation_of_gst() -> None:
    assert notation.delay("gst:50ms") == UntilGst(gst=50_000)
    assert notation.delay("gst:50ms:heavy:1ms:500..1500") == UntilGst(
        HeavyTail(1_000), Uniform(500, 1_500), 50_000
    )
    assert notation.delay("gst:2s:exp:9ms:1ms") == UntilGst(
        Exponential(9_000), Uniform(1_000, 1_000), 2_000_000
    )
    assert notation.delay("gst:2s:1ms..90ms:1ms") == UntilGst(
        Uniform(1_000, 90_000), Uniform(1_000, 1_000), 2_000_000
    )
    for wrong in (
        "gst:",
        "gst:x",
        "gst:1ms:heavy",
        "gst:1ms:1ms",
        "gst:1ms:foo:1ms:1ms",
        "gst:-1:heavy:1ms:1ms",
    ):
        with pytest.raises(notation.BadNotation):
            notation.delay(wrong)


# Eventually perfect.


@pytest.mark.parametrize("algorithm", DETECTORS)
def test_mistakes_before_gst_and_none_after(algorithm: str, times: int) -> None:
    mistakes = 0
    for seed in range(20 * times):
        report = execute(partially_synchronous(algorithm, seed), keep=False)
        assert properties(report) == {"completeness": Verdict.HOLDS, "accuracy": Verdict.HOLDS}, (
            report.why
        )
        assert report.costs["detections"] == 2
        # What was wrong at GST is put right within the longest interval that had grown by then;
        # nothing new begins.
        assert (report.costs["last_mistake"] or 0) < GST + 200_000
        mistakes += report.costs["mistakes"]
    assert mistakes > times, "without mistakes before GST this shows nothing"


def test_gst_scenario() -> None:
    report = find("gst").run().report
    assert report.trace is not None
    suspicions = [event for event in report.trace.events if event.name == "Suspected"]
    assert [
        event
        for event in suspicions
        if event.fields()["process"] != 4 and event.time > 300_000 + 40_000
    ] == []
    assert sum(event.time < 300_000 for event in suspicions) > 5


def test_one_interval_for_all_costs_2n_per_process() -> None:
    """Tests and answers, n(n-1) each per interval; the tests of the last moment are not answered
    any more.
    """
    costs = execute(Setup("eventually-perfect", 5, until="100500us"), keep=False).costs
    assert costs["messages_by_name"] == {"Probe": 6 * 20, "Answer": 5 * 20}


@pytest.mark.parametrize("algorithm", ["heartbeat", "adaptive", "phi-accrual"])
def test_heartbeats_cost_half(algorithm: str) -> None:
    costs = execute(Setup(algorithm, 5, until="100500us"), keep=False).costs
    assert costs["messages_by_name"] == {"Alive": 6 * 20}


def test_a_mistake_makes_the_interval_longer_and_nothing_else_does() -> None:
    """A round trip takes 32 ms and the first interval 20."""
    slow = execute(Setup("eventually-perfect", 2, delay="16ms", until="2s"))
    assert properties(slow)["accuracy"] is Verdict.HOLDS
    assert slow.costs["mistakes"] > 0 and slow.costs["last_mistake"] < 300_000
    assert slow.trace is not None
    probes = [
        event.time
        for event in slow.trace.events
        if event.name == "Probe" and event.kind == "send" and event.process == 1
    ]
    intervals = [later - earlier for earlier, later in pairwise(probes)]
    assert intervals == sorted(intervals) and intervals[0] == 20_000 and intervals[-1] >= 30_000
    fast = execute(Setup("eventually-perfect", 2, delay="1ms", until="1s"))
    assert fast.costs["mistakes"] == 0


def test_a_fixed_timeout_goes_on_making_mistakes() -> None:
    """The same heartbeats with and without growth, on links that are slow now and then for ever."""
    setup = Setup("heartbeat", 3, delay="1ms..60ms", until="10s")
    fixed, grown = (
        execute(replace(setup, options=("step=0",)), keep=False),
        execute(setup, keep=False),
    )
    assert properties(fixed)["accuracy"] is not Verdict.HOLDS
    assert properties(grown)["accuracy"] is Verdict.HOLDS


def test_one_slow_process_makes_the_detection_of_others_slow_only_with_one_interval() -> None:
    """Process 3 takes 45 ms to answer.  2 crashes: the common interval has grown for it, the
    timeout of 2 alone has not.
    """
    faults = (("slow", "3>1@0=45ms"), ("crash", "2@1s"))

    def detection_by_1(algorithm: str) -> int:
        trace = execute(Setup(algorithm, 3, delay="1ms", faults=faults)).trace
        assert trace is not None
        return next(
            event.time - 1_000_000
            for event in trace.events
            if event.name == "Suspected"
            and event.process == 1
            and event.fields()["process"] == 2
            and event.time > 1_000_000
        )

    assert detection_by_1("eventually-perfect") > detection_by_1("adaptive")


def test_a_process_that_comes_back_is_restored() -> None:
    for algorithm in DETECTORS:
        faults = (("crash", "2@300ms"), ("recover", "2@700ms"))
        report = execute(Setup(algorithm, 3, faults=faults))
        assert properties(report) == {"accuracy": Verdict.HOLDS}, report.why
        assert report.trace is not None
        restored = [event for event in report.trace.events if event.name == "Restored"]
        assert {event.process for event in restored} == {1, 3}
        assert report.costs["mistakes"] == 0, "to suspect a process that was down is none"


def test_a_cut_link_is_a_mistake_that_lasts() -> None:
    report = execute(Setup("heartbeat", 3, faults=(("cut", "1>2@100ms"),)))
    assert report.violated == ["accuracy"]
    assert "2 suspects 1" in report.why


# Phi.


def test_the_table_of_the_normal_tail() -> None:
    normal = NormalDist()
    assert list(DEVIATIONS) == [
        round(-1_000 * normal.inv_cdf(10.0**-level)) for level in range(1, 17)
    ]


def test_levels_of_suspicion() -> None:
    plan = PhiAccrual()
    assert plan.level(20_000, 1_000, 20_000) == 0, "at the mean nothing is suspicious"
    assert plan.level(20_000, 1_000, 21_282) == 1
    assert plan.level(20_000, 1_000, 21_281) == 0
    assert plan.level(20_000, 1_000, 25_612) == 8
    assert plan.level(20_000, 1_000, 99_999) == 16
    levels = [plan.level(20_000, 1_500, silence) for silence in range(0, 40_000, 100)]
    assert levels == sorted(levels), "suspicion only accrues"


def test_the_spread_of_intervals() -> None:
    plan = PhiAccrual(least_deviation=1)
    assert plan.spread((4, 6)) == (5_000, 1_000)
    assert plan.spread((5, 5, 5)) == (5_000, 1_000), "never less than the least"
    assert plan.spread((0, 10)) == (5_000, 5_000)
    assert plan.spread(()) == (5_000, 2_000)


def test_a_higher_threshold_is_slower_and_errs_less() -> None:
    def quality(threshold: int) -> tuple[int, int]:
        mistakes = detection = 0
        for seed in range(6):
            options = (f"threshold={threshold}", "least_deviation=1")
            setup = Setup(
                "phi-accrual",
                3,
                seed=seed,
                options=options,
                delay="heavy:4ms",
                faults=(("crash", "3@1s"),),
                until="1500ms",
            )
            costs = execute(setup, keep=False).costs
            mistakes += costs["mistakes"]
            detection += costs["longest_detection_time"] or 500_000
        return mistakes, detection

    hasty, calm = quality(2), quality(12)
    assert hasty[0] > calm[0] and hasty[1] < calm[1]

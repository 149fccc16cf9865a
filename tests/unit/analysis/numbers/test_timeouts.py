"""Which timeout: the least cost is the least, samples are read as they were written, and detectors
meet the very same delays.
"""

from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

from habemus.analysis.numbers.detectors import (
    FAMILIES,
    PERIOD,
    DetectorQuality,
    DetectorSetting,
    Trial,
    cells,
    measured,
)
from habemus.analysis.numbers.timeouts import (
    BadSample,
    Replayed,
    Sample,
    SampleTrial,
    TimeoutCosts,
    best_of,
    cheapest,
    check,
    costs,
    curve,
    of_file,
    of_law,
    outcomes,
    priced,
    trial_of,
)

ONE = costs("100", "1")


@pytest.mark.parametrize(
    "prices", [("100", "1"), ("0", "1"), ("1", "2.5"), ("0.3", "1e-3"), ("7", "0.3333")]
)
def test_no_timeout_is_cheaper_than_the_cheapest(prices: tuple[str, str]) -> None:
    chosen = Random(5)
    for size in (2, 3, 17):
        sample = Sample(tuple(chosen.randrange(50) * 100 for _ in range(size)), "drawn")
        best = cheapest(sample, costs(*prices))
        every = [priced(sample, timeout, costs(*prices)) for timeout in range(5_000)]
        assert best.cost == min(each.cost for each in every)
        assert best.timeout == next(
            each.timeout for each in every if each.cost == best.cost
        )  # the shortest of them


def test_the_cost_is_waiting_plus_mistakes() -> None:
    sample = Sample((1_000, 2_000, 2_000, 9_000), "four")
    three = priced(sample, 2_000, ONE)
    assert (three.mistakes, three.share, three.cost) == (1, 0.25, 2 + 25)
    assert (
        priced(sample, 1_999, ONE).mistakes == 3
    )  # a delay that is as long as the timeout is no mistake
    assert cheapest(sample, ONE).timeout == 9_000
    assert cheapest(sample, costs("10", "1")).timeout == 2_000
    assert cheapest(sample, costs("0.5", "1")).timeout == 0
    assert (
        cheapest(Sample((1_000, 2_000), "even"), costs("2", "1")).timeout == 0
    )  # all cost 2, and the shortest is taken
    assert three.share_at_most == pytest.approx(0.8059, abs=1e-4)  # of one in four little is known
    assert TimeoutCosts(Fraction(3), Fraction(2)).of(1_500, 0.5) == 4.5


def test_one_half_checks_the_other() -> None:
    sample = Sample((1_000, 5_000, 1_000, 5_000), "alternating")
    found = check(sample, ONE)
    assert found is not None
    assert (found.chosen.timeout, found.chosen.cost) == (1_000, 101)
    assert (found.best.timeout, found.best.cost) == (5_000, 5)
    assert found.regret == pytest.approx(19.2)
    assert check(Sample((1, 2, 3), "three"), ONE) is None
    steady = check(of_law("exp:10ms", 4_000), ONE)
    assert steady is not None and steady.regret < 0.05


def test_the_curve_goes_through_its_lowest_point() -> None:
    sample = of_law("heavy:1ms", 1_000)
    drawn = curve(sample, ONE)
    assert drawn[0].timeout == 0 and drawn[-1].timeout == max(sample.delays)
    assert min(drawn, key=lambda each: each.cost) == cheapest(sample, ONE)
    assert [each.timeout for each in drawn] == sorted({each.timeout for each in drawn})
    assert 20 < len(drawn) <= 45


def test_a_sample_of_a_law_is_drawn_as_the_simulator_draws() -> None:
    assert of_law("5ms", 3).delays == (5_000, 5_000, 5_000)
    drawn = of_law("exp:10ms", 5_000)
    assert sum(drawn.delays) / 5_000 == pytest.approx(10_000, rel=0.05)
    assert drawn == of_law("exp:10ms", 5_000) != of_law("exp:10ms", 5_000, seed=1)
    assert drawn.quantile(0.5) == pytest.approx(6_931, rel=0.1) and drawn.quantile(1) == max(
        drawn.delays
    )
    with pytest.raises(BadSample, match="depends on the moment"):
        of_law("gst:50ms", 5)
    with pytest.raises(ValueError, match="'soon' is not a time"):
        of_law("soon", 5)


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "delays.txt"
    file.write_text("1500\n1.5ms  # the same\n\n# a pause\n2s\r\n0\n", encoding="utf-8")
    assert of_file(file) == Sample((1_500, 1_500, 2_000_000, 0), "delays.txt")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"1\n-5ms\n", r"^delays.txt, line 2: a delay cannot be negative, as '-5ms' is$"),
        (
            b"1\n\nfast\n",
            r"^delays.txt, line 3: 'fast' is not a time; write for example 5000, 5ms or 2s$",
        ),
        (b"1\n0.5us\n", r"^delays.txt, line 2: '0.5us' is not a whole number of microseconds$"),
        (b"1\n1e400\n", "is not a time"),
        (b"", r"^delays.txt: a sample has at least 2 delays, not 0$"),
        (b"7\n", "at least 2 delays, not 1"),
        (b"\xff\xfe\x00", "is not a text with one delay on each line"),
    ],
)
def test_a_bad_file_is_refused(text: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "delays.txt"
    file.write_bytes(text)
    with pytest.raises(BadSample, match=message):
        of_file(file)


@pytest.mark.parametrize(
    ("mistake", "waiting", "message"),
    [
        ("-1", "1", "the cost C of a mistake is 0 or a number from 1e-30 to 1e30, not -1"),
        ("much", "1", "the cost C of a mistake is a number, not 'much'"),
        ("1", "inf", "the cost E of waiting is 0 or a number"),
        ("1", "1e99", "the cost E of waiting is 0 or a number"),
        ("1", "0", "wait for ever"),
    ],
)
def test_bad_costs_are_refused(mistake: str, waiting: str, message: str) -> None:
    with pytest.raises(BadSample, match=message):
        costs(mistake, waiting)


def test_delays_are_replayed_in_their_order_from_a_place_that_is_drawn() -> None:
    law = Replayed((5, 0, 7))
    draw = law.sampler(lambda _: 1 << 31)  # the middle
    assert [draw(0) for _ in range(5)] == [7, 5, 1, 7, 5]  # nothing arrives in no time
    assert (law.mean, law.longest) == (4, 7)


def test_a_sample_of_one_delay_is_the_same_trial_as_that_delay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The detectors are measured by the same code, on a network of the sample."""
    sampled = trial_of(Sample((1_000, 1_000), "flat"), 1)
    usual = Trial("1ms", "0", sampled.n, 1, sampled.crash_at)
    monkeypatch.setattr(Trial, "crash", SampleTrial.crash)  # but for the moment of the crash
    for name in ("heartbeat", "phi-accrual"):
        varied, values, fixed = FAMILIES[name]
        assert measured(DetectorSetting(sampled, name, varied, values[4], fixed)) == measured(
            DetectorSetting(usual, name, varied, values[4], fixed)
        )
    assert len(cells(sampled, ["swim"])) == 5


def test_crashes_are_spread_between_two_heartbeats() -> None:
    trial = trial_of(Sample((1_000, 1_000), "flat"), 4)
    assert [trial.crash(seed) - 4_000_000 for seed in range(4)] == [2_500, 7_500, 12_500, 17_500]
    # On average half a period has passed since the last heartbeat, of which the timeout takes no
    # note.
    point = measured(DetectorSetting(trial, "heartbeat", "timeout", 30_000, ("step=0",)))
    assert point.detection_time == 1_000 + 30_000 - PERIOD / 2


def test_what_the_detectors_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    def made_up(every: list[DetectorSetting], _jobs: int, update: object) -> list[DetectorQuality]:
        # Of each detector the second setting is the best, and the third does not see the crash.
        places = [
            sum(cell.detector == other.detector for other in every[:index])
            for index, cell in enumerate(every)
        ]
        times = {0: 50_000, 1: 20_000}
        return [
            DetectorQuality(
                cell.detector,
                cell.setting,
                (times.get(place, 90_000),),
                int(place == 2),
                3,
                100,
                3,
                1_000 * PERIOD,
            )
            for cell, place in zip(every, places, strict=True)
        ]

    monkeypatch.setattr("habemus.analysis.numbers.timeouts.measure", made_up)
    found = outcomes(Sample((1, 2), "none"), ONE, 1)
    best = best_of(found)
    assert [each.point.detector for each in best] == list(FAMILIES)
    assert all(each.mistakes == 0.003 and each.cost == pytest.approx(20 + 0.3) for each in best)
    assert all(each[-1].cost is None for each in found.values())
    assert best[0].plain()["mistakes_per_heartbeat"] == 0.003

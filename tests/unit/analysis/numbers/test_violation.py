"""How likely a violation is: the formulas are exact, the runs are runs of the algorithm, and a
wrong theory would be refuted.
"""

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations
from math import comb

import pytest

from habemus.analysis.numbers import violation
from habemus.analysis.numbers.violation import (
    CASES,
    Arrival,
    Experiment,
    NoQuorum,
    ViolationQuery,
    at_least,
    batches,
    bias_of,
    chance,
    check_sizes,
    contradicted,
    coordinators_of,
    described,
    draw,
    experiments,
    is_violated,
    log10,
    quorums,
    runs_of,
    scientific,
    smallest_quorum,
)
from habemus.runs.simulate import execute

P = Fraction(1, 5)


def arrival(cell: ViolationQuery) -> Arrival:
    coordinators = coordinators_of(cell.n, cell.m)
    first = coordinators if cell.case == "first" else coordinators[: cell.m]
    return Arrival(first, first[: cell.n - cell.m] if cell.case == "given" else [])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 2), (4, 3), (5, 3), (5, 4)])
def test_every_set_of_restarts_run_by_the_algorithm_adds_up_to_the_formula_exactly(
    n: int, m: int, case: str
) -> None:
    """No sampling: all 2^n sets of coordinators restart once, each counted with its chance."""
    cell = ViolationQuery(n, m, P, case)
    coordinators = coordinators_of(n, m)
    total = Fraction(0)
    for size in range(n + 1):
        for restarting in combinations(coordinators, size):
            setup = described(cell, size, arrival(cell), dict.fromkeys(restarting, 7_000))
            if is_violated(cell, setup):
                total += P**size * (1 - P) ** (n - size)
    assert total == cell.probability


@pytest.mark.parametrize("case", CASES)
def test_the_printed_command_is_the_run(case: str) -> None:
    """Judged by everything that judges a run of the command line."""
    cell = ViolationQuery(5, 3, Fraction(1, 3), case)
    verdicts = set()
    for seed in range(12):
        setup = draw(cell, seed, cell.p).setup
        broken = "ME1" in execute(setup).violated
        assert is_violated(cell, setup) == broken
        verdicts.add(broken)
    assert verdicts == {True, False}


def test_a_run_in_which_a_is_not_inside_is_no_run_of_the_experiment() -> None:
    cell = ViolationQuery(3, 2, P)
    nobody = Arrival([], [])  # A's requests are all late
    with pytest.raises(AssertionError, match="A was not inside"):
        is_violated(cell, described(cell, 0, nobody, {}))


def test_draws_restart_as_often_as_they_should_and_never_depend_on_anything_else() -> None:
    cell = ViolationQuery(5, 4, Fraction(1, 10))
    drawn = [draw(cell, seed, Fraction(3, 4)) for seed in range(400)]
    assert sum(each.restarts for each in drawn) == pytest.approx(400 * 4 * 0.75, rel=0.05)
    others = sum(
        sum(kind == "crash" for kind, _ in each.setup.faults) - each.restarts for each in drawn
    )
    assert others == pytest.approx(400 * 0.1, rel=0.4)
    assert drawn[7] == draw(cell, 7, Fraction(3, 4))
    starts = Counter(
        frozenset(text for kind, text in each.setup.faults if kind == "slow") for each in drawn
    )
    assert len(starts) == 5  # each of the five coordinators is the one that A does not reach


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("n", "m"), [(1, 1), (7, 5), (32, 24)])
def test_weights_make_up_for_the_bias_exactly(n: int, m: int, case: str) -> None:
    cell = ViolationQuery(n, m, Fraction(1, 10_000), case)
    q = bias_of(cell)
    experiment = Experiment(cell, q)
    assert cell.p < q < 1
    expected = sum(
        comb(cell.telling, k) * q**k * (1 - q) ** (cell.telling - k) * experiment.weight(k)
        for k in range(cell.needed, cell.telling + 1)
    )
    assert expected == cell.probability
    # Seldom enough to be told apart from always, often enough to be seen.
    assert Fraction(1, 4) < at_least(cell.needed, cell.telling, q) < Fraction(4, 5)


def test_the_variance_of_weighted_runs() -> None:
    experiment = Experiment(ViolationQuery(3, 2, P), Fraction(1, 2), Counter({1: 3, 2: 1}), runs=8)
    weights = [experiment.weight(1)] * 3 + [experiment.weight(2)] + [Fraction(0)] * 4
    mean = sum(weights, Fraction(0)) / 8
    assert experiment.estimate == mean
    assert experiment.variance == sum((each - mean) ** 2 for each in weights) / 7 / 8
    low, high = experiment.interval()
    assert mean - low == high - mean
    assert float(high - mean) == pytest.approx(
        1.959964 * float(experiment.variance) ** 0.5, rel=1e-6
    )


def test_results_do_not_depend_on_how_the_work_is_cut_or_who_does_it() -> None:
    cells = [ViolationQuery(3, 2, P), ViolationQuery(5, 3, Fraction(1, 1_000), "given")]
    work = batches(cells, 120)
    told: list[int] = []
    alone = experiments(work, 1, lambda done, _: told.append(done))
    assert told == [50, 100, 120, 170, 220, 240]
    assert [each.plain() for each in alone] == [each.plain() for each in experiments(work, 2)]
    assert [each.is_plain for each in alone] == [True, False]
    backwards = [runs_of(batch) for batch in reversed(work) if batch.cell == cells[0]]
    whole = Experiment(cells[0], P)
    for part in backwards:
        whole.add(part)
    assert whole == alone[0]


def test_a_wrong_theory_and_a_wrong_algorithm_are_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = ViolationQuery(5, 3, Fraction(3, 10))
    assert not contradicted(experiments(batches([cell], 150), 1))

    class Wrong(ViolationQuery):
        @property
        def probability(self) -> Fraction:
            return self.p**self.shared

    assert contradicted(experiments(batches([Wrong(5, 3, Fraction(3, 10))], 150), 1))
    right = violation._system
    monkeypatch.setattr(
        violation, "_system", lambda n, m: right(n, m + 1 if n == 5 else m)
    )  # one grant more than the cell says
    monkeypatch.setattr(violation, "coordinators_of", lambda n, m: list(range(101, 101 + n)))
    wrong = [ViolationQuery(5, 3, Fraction(3, 10), "first")]
    assert contradicted(experiments(batches(wrong, 600, "plain"), 1))


@pytest.mark.parametrize("case", CASES)
def test_the_smallest_quorum_is_the_first_that_is_safe_enough(case: str) -> None:
    for n in (1, 2, 9, 14):
        for p in (Fraction(1, 100), Fraction(1, 2)):
            for target in (Fraction(1, 2), Fraction(1, 10**6), Fraction(1, 10**30)):
                enough = [
                    m for m in quorums(n) if ViolationQuery(n, m, p, case).probability <= target
                ]
                assert smallest_quorum(n, p, target, case) == (enough[0] if enough else None)


def test_the_case_that_is_called_worst_is() -> None:
    for n in range(1, 12):
        for m in quorums(n):
            for p in (Fraction(1, 1_000), Fraction(3, 10), Fraction(9, 10)):
                worst, given, first = (ViolationQuery(n, m, p, case).probability for case in CASES)
                assert max(given, first) <= worst <= comb(m, 2 * m - n) * given
                # If A was first at more than m, B needs as many more.
                reached = [at_least(m + g - n, g, p) for g in range(m, n + 1)]
                assert reached == sorted(reached, reverse=True) and (reached[0], reached[-1]) == (
                    worst,
                    first,
                )


def test_at_least_is_the_sum_of_the_definition() -> None:
    for each in (Fraction(0), Fraction(2, 7), Fraction(1)):
        for needed in range(6):
            expected = sum(comb(5, k) * each**k * (1 - each) ** (5 - k) for k in range(needed, 6))
            assert at_least(needed, 5, each) == expected


def test_nothing_is_too_small_to_be_told() -> None:
    value = ViolationQuery(200, 190, chance("1e-20")).probability
    assert scientific(value).endswith("e-3584") and float(value) == 0.0
    assert log10(value) == pytest.approx(math.log10(comb(190, 180)) - 3_600, abs=1e-9)
    plain = ViolationQuery(200, 190, chance("1e-20")).plain()
    assert plain["pv"] == 0.0 and plain["pv_log10"] == log10(value)
    assert (scientific(Fraction(0)), log10(Fraction(0))) == ("0", None)
    assert (scientific(Fraction(1, 3)), scientific(Fraction(1, 3000))) == ("0.333", "3.33e-4")


def test_chances_are_exactly_what_was_written() -> None:
    assert chance("1e-4") == chance("0.01%") == Fraction(1, 10_000)
    for text, message in (
        ("often", "P = often is not a probability; write for example 1e-4 or 0.01%"),
        ("1.5", "P = 1.5 is not a probability between 0 and 1"),
        ("-0.1", "not a probability between 0 and 1"),
        ("101%", "not a probability between 0 and 1"),
        ("nan", "not a probability between 0 and 1"),
        ("1e-31", "too small or too exact"),
        ("0." + 40 * "3", "too small or too exact"),
    ):
        with pytest.raises(NoQuorum, match=message):
            chance(text)


def test_sizes_that_cannot_be_are_refused() -> None:
    for n, m, message in (
        (
            32,
            16,
            (
                "m = 16 of n = 32 coordinators are not a quorum: two such groups need not overlap;"
                " use 17 to 32"
            ),
        ),
        (32, 33, "m = 33 is more than the n = 32 coordinators; use 17 to 32"),
        (0, 1, "there are 1 to 500 coordinators, not n = 0"),
        (501, 500, "there are 1 to 500 coordinators, not n = 501"),
    ):
        with pytest.raises(NoQuorum, match=message):
            check_sizes(n, m)

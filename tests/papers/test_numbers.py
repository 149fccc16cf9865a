"""What the lecture notes compute and ask: the chance that restarts violate mutual exclusion, the
timeout, and growth with N.
"""

from fractions import Fraction
from math import comb, log

import pytest

from habemus.analysis.numbers.growth import Growth, lines
from habemus.analysis.numbers.ranges import SizeRange
from habemus.analysis.numbers.timeouts import cheapest, check, costs, of_law
from habemus.analysis.numbers.violation import (
    Experiment,
    ViolationQuery,
    batches,
    chance,
    contradicted,
    experiments,
    scientific,
    smallest_quorum,
)

SOURCE = ViolationQuery(32, 24, chance("0.0001"))
GRID = [(3, 2), (5, 3), (5, 4), (7, 4), (7, 5), (9, 6)]
CHANCES = ["0.01", "0.03", "0.1", "0.2", "0.3"]


def test_the_example_of_the_notes() -> None:
    """P = 0.0001, n = 32, m = 0.75 n: they say that P_v < 1e-40, and it is by far."""
    assert scientific(SOURCE.probability) == "7.35e-59"
    assert SOURCE.probability < Fraction(1, 10**40)
    by_the_formula = sum(
        comb(24, k) * Fraction(1, 10**4) ** k * Fraction(9_999, 10**4) ** (24 - k)
        for k in range(16, 33)
        if k <= 24
    )
    assert SOURCE.probability == by_the_formula
    first_term = comb(24, 16) * Fraction(1, 10**4) ** 16 * Fraction(9_999, 10**4) ** 8
    assert 0 < SOURCE.probability / first_term - 1 < Fraction(1, 10_000)


def test_the_whole_intersection_and_the_formula_differ_by_the_number_of_intersections() -> None:
    given = ViolationQuery(32, 24, SOURCE.p, "given").probability
    assert given == Fraction(1, 10**64)
    assert float(SOURCE.probability / given) == pytest.approx(comb(24, 16), rel=0.001)


def test_which_quorum_is_safe_enough() -> None:
    assert smallest_quorum(32, SOURCE.p, chance("1e-12")) == 18
    assert smallest_quorum(32, SOURCE.p, Fraction(1, 10**40)) == 22
    assert smallest_quorum(3, chance("0.5"), chance("1e-12")) is None


def inside(made: list[Experiment]) -> float:
    return sum(each.agrees() for each in made) / len(made)


def test_plain_runs_of_the_algorithm_agree_with_the_formula_over_a_grid() -> None:
    """The theory lies in the 95 % interval in at least 95 % of the cells."""
    cells = [ViolationQuery(n, m, chance(p)) for n, m in GRID for p in CHANCES]
    made = experiments(batches(cells, 120, "plain"), 1)
    assert all(each.is_plain and each.runs == 120 for each in made)
    assert sum(each.violations for each in made) > 400
    assert inside(made) >= 0.95
    assert not contradicted(made)


@pytest.mark.parametrize("case", ["worst", "given", "first"])
def test_weighted_runs_agree_where_plain_ones_would_see_nothing(case: str) -> None:
    cells = [
        ViolationQuery(n, m, chance(p), case)
        for n, m in ((5, 4), (7, 5), (7, 6))
        for p in ("1e-3", "1e-6")
    ]
    made = experiments(batches(cells, 100), 1)
    assert all(not each.is_plain and each.cell.probability * each.runs < 1 for each in made)
    assert all(0.25 < each.violations / each.runs < 0.85 for each in made)
    assert not contradicted(made)
    # The interval says how far it may be off, and that is little.
    assert all(each.variance < (each.estimate / 5) ** 2 for each in made)


def test_weighted_runs_reach_the_example_of_the_notes() -> None:
    (made,) = experiments(batches([SOURCE], 250), 1)
    low, high = made.interval()
    assert low <= SOURCE.probability <= high
    assert Fraction(1, 10**60) < low < high < Fraction(1, 10**58)


def test_plain_and_weighted_runs_agree_with_each_other() -> None:
    cells = [ViolationQuery(5, 3, chance("0.1"), case) for case in ("worst", "given")]
    for plain, weighted in zip(
        *(experiments(batches(cells, 300, how), 1) for how in ("plain", "weighted")), strict=True
    ):
        assert (
            plain.interval()[0] < weighted.interval()[1]
            and weighted.interval()[0] < plain.interval()[1]
        )


def test_the_timeout_for_memoryless_delays() -> None:
    """E T + C e^(-T/mean) is least at T = mean * ln(C / (E mean)); here 10 ms * ln 10."""
    sample = of_law("exp:10ms", 40_000)
    best = cheapest(sample, costs("100", "1"))
    assert best.timeout == pytest.approx(10_000 * log(10), rel=0.05)
    assert best.share == pytest.approx(0.1, rel=0.1)
    assert best.cost == pytest.approx(10 * log(10) + 10, rel=0.01)
    checked = check(sample, costs("100", "1"))
    assert checked is not None and checked.regret < 0.01


def test_the_answer_of_the_notes_changes_where_waiting_costs_as_much_as_mistakes() -> None:
    """C p < E: with E times the mean above C, it never pays to wait for a memoryless answer."""
    sample = of_law("exp:10ms", 10_000)
    assert cheapest(sample, costs("8", "1")).timeout < 2_000
    assert cheapest(sample, costs("1000", "1")).timeout > 40_000
    assert cheapest(of_law("7ms", 10), costs("7.001", "1")).timeout == 7_000
    assert cheapest(of_law("7ms", 10), costs("6.999", "1")).timeout == 0


def law_of(algorithm: str, low: int, high: int, repeats: int = 1) -> str:
    growth = Growth((algorithm,), SizeRange(low, high), points=7, repeats=repeats)
    return lines(growth, growth.measure(1))[0].best.law


@pytest.mark.parametrize(
    ("algorithm", "law"),
    [
        ("central", "1"),
        ("quorum", "1"),
        ("lamport", "n"),
        ("ricart-agrawala", "n"),
        ("maekawa", "sqrt n"),
        ("raymond", "log n"),
        ("ring-list", "n"),
        ("bully", "n^2"),
    ],
)
def test_messages_grow_as_the_notes_say(algorithm: str, law: str) -> None:
    assert law_of(algorithm, 4, 34) == law


def test_formulas_are_met_at_every_size() -> None:
    growth = Growth(("ricart-agrawala", "maekawa", "quorum"), SizeRange(2, 20), points=5)
    for line in lines(growth, growth.measure(1)):
        assert not line.furthest_from_formula

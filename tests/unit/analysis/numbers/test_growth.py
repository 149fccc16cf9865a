"""Growth: laws are recognised, errors are those of predictions, and the sizes are measured as the
formulas mean them.
"""

from math import log2, sqrt
from random import Random

import pytest

from habemus.analysis.numbers.growth import LAWS, Fit, Growth, fits, lines, terms
from habemus.analysis.numbers.ranges import SizeRange, loads, sizes
from habemus.runs.setup import Setup

SIZES = [4, 8, 12, 16, 24, 32, 48]
LINKS = [size * (size - 1) // 2 for size in SIZES]


@pytest.mark.parametrize("law", LAWS[1:])
def test_each_law_is_recognised(law: str) -> None:
    chosen = Random(law)
    exact = [3 * place - 2 for place in terms(law, SIZES, LINKS)]
    found = fits(SIZES, LINKS, exact)
    assert found[0].law == law
    assert (found[0].error, found[0].slope, found[0].intercept) == pytest.approx(
        (0, 3, -2), abs=1e-6
    )
    assert len(found) == len(LAWS) and all(fit.error > 0.001 for fit in found[1:])
    noisy = [value * (1 + chosen.uniform(-0.005, 0.005)) for value in exact]
    assert fits(SIZES, LINKS, noisy)[0].law == law
    assert 0 < fits(SIZES, LINKS, noisy)[0].error < 0.05


def test_a_constant_is_a_constant_and_noise_round_it_too() -> None:
    assert fits(SIZES, LINKS, [7] * 7) == [Fit("1", 0.0, 7, 0.0)]
    noisy = fits(SIZES, LINKS, [7, 7.1, 6.9, 7, 7.1, 6.9, 7])
    assert noisy[0].law == "1"  # a slope that explains nothing predicts worse than none


def test_the_error_is_that_of_predicting_what_was_left_out() -> None:
    found = {fit.law: fit for fit in fits([1, 2, 3], [1, 2, 3], [0, 3, 0])}
    # Without the first, the line through (2, 3) and (3, 0) says 6 at 1, and so on; the mean is 1.
    assert found["n"].error == pytest.approx(sqrt((36 + 9 + 36) / 3))
    assert found["1"].error == pytest.approx(sqrt((1.5**2 + 3**2 + 1.5**2) / 3))


def test_links_are_a_law_of_their_own_only_where_they_grow_otherwise_than_processes() -> None:
    values = [size * log2(size) for size in SIZES]
    ring = fits(SIZES, SIZES, values)
    assert ring[0].law == "n log n" and "m log n" not in [fit.law for fit in ring]
    assert "m log n" in [fit.law for fit in fits(SIZES, LINKS, values)]


def test_how_laws_are_written() -> None:
    assert str(Fit("n", 2, -2, 0)) == "2 n - 2"
    assert str(Fit("sqrt n", 5.88612, 1e-9, 0)) == "5.886 sqrt n"
    assert str(Fit("1", 0, 3, 0)) == "3"
    assert Fit("n", 2, 1, 1e-12).plain() == {
        "law": "n",
        "slope": 2.0,
        "intercept": 1.0,
        "error": 0.0,
        "text": "2 n + 1",
    }


def test_without_a_load_nobody_meets_anybody_and_the_formula_is_met() -> None:
    growth = Growth(("central", "ricart-agrawala"), sizes("2..6"))
    growth.check()
    assert growth.must_equal_formula
    assert {task.setup.workload for task in growth.tasks()} == {"in-turn"}
    found = {
        (line.algorithm, line.quantity.name): line for line in lines(growth, growth.measure(1))
    }
    assert str(found["ricart-agrawala", "messages_per_entry"].best) == "2 n - 2"
    assert str(found["central", "messages_per_entry"].best) == "3"
    for name in ("messages_per_entry", "client_delay"):
        assert found["ricart-agrawala", name].furthest_from_formula == 0
    assert ("central", "sync_delay") not in found  # nobody waited
    assert found["ricart-agrawala", "bytes_per_entry"].furthest_from_formula is None
    assert found["ricart-agrawala", "messages_per_entry"].fitted() == pytest.approx(
        [2, 4, 6, 8, 10]
    )
    assert found["ricart-agrawala", "messages_per_entry"].plain()["links"] == [1, 3, 6, 10, 15]


def test_with_a_load_they_meet() -> None:
    growth = Growth(("central",), sizes("2..6"), loads("2"), requests=5)
    assert not growth.must_equal_formula
    found = {line.quantity.name: line for line in lines(growth, growth.measure(1))}
    assert str(found["sync_delay"].best) == "2"
    assert not Growth(("central",), sizes("2..6"), delay="exp:1ms").must_equal_formula


def test_averages_over_arrangements() -> None:
    growth = Growth(("chang-roberts", "bully"), SizeRange(4, 7), repeats=4)
    setups = [task.setup for task in growth.tasks() if task.setup.n == 5]
    assert setups[1] == Setup("chang-roberts", 5, 1, ("arrangement=1",), workload="in-turn")
    assert setups[5] == Setup("bully", 5, 1, workload="in-turn")
    rows = growth.measure(1)
    assert [(row.algorithm, row.n) for row in rows][:3] == [
        ("chang-roberts", 4),
        ("bully", 4),
        ("chang-roberts", 5),
    ]
    single = [Growth(("chang-roberts",), SizeRange(5, 5), repeats=1).tasks()[0].setup, *setups[1:4]]
    from habemus.analysis.numbers.compare import ComparisonTask, row_of

    messages = [row_of(ComparisonTask(setup, None)).measured["messages"] or 0 for setup in single]
    assert len(set(messages)) > 1
    assert rows[2].measured["messages"] == sum(messages) / 4 == rows[2].formula["messages"]
    assert growth.links("chang-roberts", 5) == 5
    assert growth.links("bully", 5) == 10


@pytest.mark.parametrize(
    ("growth", "message"),
    [
        (Growth(("central",), sizes("5")), "a law needs at least 4 sizes"),
        (Growth(("central",), sizes("2..40"), points=3), "a law needs at least 4 sizes"),
        (Growth(("central",), sizes("2..9"), loads("0.1..2")), "only one thing can vary"),
        (Growth(("central", "bully"), sizes("2..9")), "only algorithms of one problem"),
        (Growth(("heartbeat",), sizes("2..9")), "failure detectors cannot be compared"),
        (Growth(("central",), sizes("2..9"), requests=0), "asks at least once"),
    ],
)
def test_what_cannot_be_measured_is_refused(growth: Growth, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        growth.check()

"""Intervals of confidence: known values, and that they cover the truth as often as they say."""

from math import comb

import pytest

from habemus.analysis.sweeps.intervals import clopper_pearson, deviations


@pytest.mark.parametrize(
    ("hits", "runs", "low", "high"),
    [
        (0, 10, 0.0, 0.308497),  # 1 - 0.025 ** (1/10)
        (10, 10, 0.691503, 1.0),
        (5, 100, 0.016432, 0.112835),
        (1, 1, 0.025, 1.0),
        (3, 100_000, 6.18676e-6, 8.76702e-5),
        (50_000, 100_000, 0.496896, 0.503104),
    ],
)
def test_known_values(hits: int, runs: int, low: float, high: float) -> None:
    assert clopper_pearson(hits, runs) == pytest.approx((low, high), rel=1e-5)


@pytest.mark.parametrize("runs", [1, 7, 30])
def test_the_truth_is_covered_at_least_as_often_as_it_says(runs: int) -> None:
    for level in (0.8, 0.95, 0.999):
        intervals = [clopper_pearson(hits, runs, level) for hits in range(runs + 1)]
        for chance in (0.01, 0.1, 0.25, 0.5, 0.9, 0.999):
            covered = sum(
                comb(runs, hits) * chance**hits * (1 - chance) ** (runs - hits)
                for hits, (low, high) in enumerate(intervals)
                if low <= chance <= high
            )
            assert covered >= level - 1e-12


def test_more_confidence_is_a_wider_interval() -> None:
    low, high = clopper_pearson(20, 100)
    lower, higher = clopper_pearson(20, 100, 0.999)
    assert lower < low < 0.2 < high < higher
    assert deviations() == pytest.approx(1.959964, rel=1e-6)
    assert deviations(0.99) > deviations()


def test_what_cannot_be_is_refused() -> None:
    for hits, runs in ((3, 2), (-1, 2), (0, 0)):
        with pytest.raises(ValueError, match="cannot be"):
            clopper_pearson(hits, runs)

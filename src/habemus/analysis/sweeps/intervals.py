"""Confidence intervals: how far the truth may lie from the results of a number of runs.

Only the standard library is used. A share gets the interval of Clopper and Pearson, which covers
the true chance at least as often as stated, however rare the event; a mean of weights gets that of
the normal distribution.

Source Clopper, Pearson: The use of confidence or fiducial limits illustrated in the case of the
binomial, Biometrika 26, 1934.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, lgamma, log, log1p
from statistics import NormalDist

LEVEL = 0.95


def clopper_pearson(hits: int, runs: int, level: float = LEVEL) -> tuple[float, float]:
    """Return the least and largest chance with which this number of hits is not too surprising."""
    if not 0 <= hits <= runs or runs < 1:
        raise ValueError(f"{hits} hits in {runs} runs cannot be")
    surprise = (1 - level) / 2
    low = 0.0 if hits == 0 else _where(lambda chance: _at_least(hits, runs, chance) < surprise)
    high = (
        1.0
        if hits == runs
        else _where(lambda chance: _at_least(runs - hits, runs, 1 - chance) >= surprise)
    )
    return low, high


def deviations(level: float = LEVEL) -> float:
    """Return the number of standard deviations to either side that the interval of a mean spans."""
    return NormalDist().inv_cdf((1 + level) / 2)


def _where(holds: Callable[[float], bool]) -> float:
    """Return the largest chance for which the condition holds."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return (low + high) / 2


def _at_least(hits: int, runs: int, chance: float) -> float:
    """Return the chance of at least so many hits."""
    if hits <= 0 or chance >= 1:
        return 1.0
    if chance <= 0:
        return 0.0
    if hits <= runs * chance:  # then the other tail is the small one
        return 1.0 - _at_least(runs - hits + 1, runs, 1 - chance)
    begin = (
        lgamma(runs + 1)
        - lgamma(hits + 1)
        - lgamma(runs - hits + 1)
        + hits * log(chance)
        + (runs - hits) * log1p(-chance)
    )
    term = total = (
        1.0  # relative to the first term, so that nothing is lost where all of them are tiny
    )
    for seen in range(hits, runs):
        term *= (runs - seen) / (seen + 1) * chance / (1 - chance)
        total += term
        if term < total * 1e-17:
            break
    return min(1.0, exp(begin + log(total)))

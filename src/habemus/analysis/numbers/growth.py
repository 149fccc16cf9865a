"""How costs grow with the number of participants: measured, fitted, and beside the formula.

A fit is a law `a * f(n) + b` by least squares, with f one of

    1, log n, sqrt n, n, n log n, n^2, m log n        m the number of links, log to base 2

Each law is judged by how well it predicts: every size is left out in turn and predicted from the
others.  The error is the root mean square of the differences, relative to the mean.  So a law with
more freedom is not better for that alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log2, sqrt
from typing import Any

from habemus.analysis.numbers.compare import (
    ELECTION_QUANTITIES,
    Comparison,
    ComparisonRow,
    ComparisonTask,
    Quantity,
    arranged,
)
from habemus.analysis.numbers.compare import MUTEX_QUANTITIES as ALL_MUTEX_QUANTITIES
from habemus.analysis.numbers.ranges import BadRange
from habemus.argument_names import argument
from habemus.catalog.problems import exact
from habemus.runs import notation
from habemus.runs.setup import Setup
from habemus.runs.simulate import system_of

LEAST_SIZES = 4
"""A law is judged by sizes that it has not seen; with fewer there would be nothing to see."""
NEGLIGIBLE = 1e-9
"""Errors below this are those of arithmetic."""

LAWS = ("1", "log n", "sqrt n", "n", "n log n", "n^2", "m log n")
"""Laws from slow to fast growth. Of laws that are equally good the first is taken."""

MUTEX_QUANTITIES = tuple(
    each
    for each in ALL_MUTEX_QUANTITIES
    if each.name in ("messages_per_entry", "bytes_per_entry", "client_delay", "sync_delay")
)


@dataclass(frozen=True)
class Growth(Comparison):
    """A comparison over sizes.  Unless a load is given, participants enter one after the other and
    never meet, as in the formulas.
    """

    def check(self) -> None:
        super().check()
        if self.loads is not None and self.loads.low < self.loads.high:
            raise BadRange(f"growth is over n; give one {argument('load')}, not a range")
        if len(self.sizes.spread(self.points)) < LEAST_SIZES:
            raise BadRange(
                f"a law needs at least {LEAST_SIZES} sizes; give a longer range to"
                f" {argument('n')}, such as 2..40"
            )

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        return ELECTION_QUANTITIES if self.is_election else MUTEX_QUANTITIES

    @property
    def must_equal_formula(self) -> bool:
        """True if measurements must equal the formula: without contention, and with messages that
        all take the same time.
        """
        law = notation.delay(self.delay)
        return self.loads is None and law.mean == law.longest

    def tasks(self) -> list[ComparisonTask]:
        if self.is_election or self.loads is not None:
            return super().tasks()
        return [
            self._task(self._setup(name, size, None), repeat, None)
            for size in self.sizes.spread(self.points)
            for name in self.algorithms
            for repeat in range(self.repeats)
        ]

    def links(self, algorithm: str, size: int) -> float:
        """Return the number of pairs of processes that are connected, on average over the
        arrangements.
        """
        total = 0
        for repeat in range(self.repeats):
            entry = self.entry(algorithm)
            system = system_of(arranged(Setup(algorithm, size), repeat, entry), entry)
            total += sum(map(len, system.topology.neighbours.values())) // 2
        return exact(total, self.repeats)


@dataclass(frozen=True)
class Fit:
    """One law and its error."""

    law: str
    slope: float
    intercept: float
    error: float  # of predictions, as a share of the mean

    def __str__(self) -> str:
        """Return the law as text, such as `2 n - 2`."""
        if self.law == "1":
            return _number(self.intercept)
        constant = _number(abs(self.intercept))
        rest = "" if constant == "0" else f" {'-' if self.intercept < 0 else '+'} {constant}"
        return f"{_number(self.slope)} {self.law}{rest}"

    def plain(self) -> dict[str, Any]:
        return {
            "law": self.law,
            "slope": _rounded(self.slope),
            "intercept": _rounded(self.intercept),
            "error": _rounded(self.error) if self.error > NEGLIGIBLE else 0.0,
            "text": str(self),
        }


def _rounded(value: float) -> float:
    return float(f"{value:.9g}")


def _number(value: float) -> str:
    return f"{0.0 if abs(value) < 1e-6 else value:.4g}"


@dataclass(frozen=True)
class Line:
    """One quantity of one algorithm over the sizes."""

    algorithm: str
    quantity: Quantity
    sizes: tuple[int, ...]
    links: tuple[float, ...]
    measured: tuple[float, ...]
    formula: tuple[float | None, ...]
    fits: tuple[Fit, ...]  # the best first

    @property
    def best(self) -> Fit:
        return self.fits[0]

    def fitted(self) -> list[float]:
        """Return the values of the best law at each size."""
        places = terms(self.best.law, self.sizes, self.links)
        return [self.best.slope * place + self.best.intercept for place in places]

    @property
    def furthest_from_formula(self) -> float | None:
        """Return the largest difference between measurement and formula, as a share of the formula;
        None if there is no formula.
        """
        pairs = [
            (mine, other) for mine, other in zip(self.measured, self.formula, strict=True) if other
        ]
        return max(abs(mine - other) / other for mine, other in pairs) if pairs else None

    def plain(self) -> dict[str, Any]:
        return {
            "algorithm": self.algorithm,
            "quantity": self.quantity.name,
            "n": list(self.sizes),
            "links": list(self.links),
            "measured": list(self.measured),
            "by_formula": list(self.formula),
            "furthest_from_formula": (
                None if self.furthest_from_formula is None else _rounded(self.furthest_from_formula)
            ),
            "fit": self.best.plain(),
            "fits": [fit.plain() for fit in self.fits],
        }


def lines(growth: Growth, rows: Sequence[ComparisonRow]) -> list[Line]:
    """Return a line for each algorithm and quantity that was measured at enough sizes, in the order
    of the algorithms.
    """
    found = []
    for name in growth.algorithms:
        mine = [row for row in rows if row.algorithm == name]
        links_of = {row.n: growth.links(name, row.n) for row in mine}
        for quantity in growth.quantities:
            pairs = [
                (row, value) for row in mine if (value := row.measured[quantity.name]) is not None
            ]
            if len(pairs) < LEAST_SIZES:
                continue
            sizes = tuple(row.n for row, _ in pairs)
            edges = tuple(links_of[size] for size in sizes)
            measured = tuple(value for _, value in pairs)
            formula = tuple(
                row.formula.get(quantity.formula) if quantity.formula else None for row, _ in pairs
            )
            found.append(
                Line(
                    name,
                    quantity,
                    sizes,
                    edges,
                    measured,
                    formula,
                    tuple(fits(sizes, edges, measured)),
                )
            )
    return found


def terms(law: str, sizes: Sequence[int], links: Sequence[float]) -> list[float]:
    """Return f at each size."""
    of: dict[str, Callable[[int, float], float]] = {
        "1": lambda n, _: 1.0,
        "log n": lambda n, _: log2(n),
        "sqrt n": lambda n, _: sqrt(n),
        "n": lambda n, _: float(n),
        "n log n": lambda n, _: n * log2(n),
        "n^2": lambda n, _: float(n * n),
        "m log n": lambda n, m: m * log2(n),
    }
    return [of[law](n, m) for n, m in zip(sizes, links, strict=True)]


def fits(sizes: Sequence[int], links: Sequence[float], measured: Sequence[float]) -> list[Fit]:
    """Return every law that these sizes can tell from the others, the best first."""
    if len(set(measured)) == 1:
        return [Fit("1", 0.0, measured[0], 0.0)]
    ratios = {round(m / n, 9) for n, m in zip(sizes, links, strict=True)}
    # On rings and the like there are as many links as processes, or a fixed number of times as
    # many: then m log n says nothing new.
    laws = [law for law in LAWS if law != "m log n" or len(ratios) > 1]
    found = [_fit(law, terms(law, sizes, links), measured) for law in laws]
    return sorted(found, key=lambda fit: (max(fit.error, NEGLIGIBLE), LAWS.index(fit.law)))


def _fit(law: str, places: Sequence[float], values: Sequence[float]) -> Fit:
    slope, intercept = _least_squares(places, values)
    squares = 0.0
    for left_out, (place, value) in enumerate(zip(places, values, strict=True)):
        others = [index for index in range(len(values)) if index != left_out]
        a, b = _least_squares(
            [places[index] for index in others], [values[index] for index in others]
        )
        squares += (a * place + b - value) ** 2
    mean = sum(map(abs, values)) / len(values)
    return Fit(law, slope, intercept, sqrt(squares / len(values)) / mean if mean else 0.0)


def _least_squares(places: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """Return the slope and the intercept; a law that does not vary has no slope."""
    count = len(places)
    middle, mean = sum(places) / count, sum(values) / count
    spread = sum((place - middle) ** 2 for place in places)
    if not spread:
        return 0.0, mean
    slope = (
        sum((place - middle) * (value - mean) for place, value in zip(places, values, strict=True))
        / spread
    )
    return slope, mean - slope * middle

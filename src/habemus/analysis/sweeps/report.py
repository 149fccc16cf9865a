"""Summary of the rows of a sweep: verdicts by property and by axis, costs, and the runs that fail.

Rows are read one after the other and only counted, so that the memory needed for a million runs is
that of the distinct values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from math import sqrt
from typing import NamedTuple

from habemus.analysis.sweeps.grid_files import BadResults
from habemus.analysis.sweeps.grid_rows import ERROR, GridRow
from habemus.catalog.entries import Entry, entries, problems
from habemus.catalog.problems import Problem
from habemus.core.properties import Property, Verdict

AXES = {"n": "participants", "load": "load", "delay": "delay", "fault": "fault"}
HOLDS, VIOLATED, UNDECIDED = (
    each.value for each in (Verdict.HOLDS, Verdict.VIOLATED, Verdict.UNDECIDED)
)
EXAMPLES = 3
"""Runs that are shown of each kind of failure of an algorithm; the rest are counted."""
KINDS = 6
"""Kinds of failure that are shown of each algorithm."""
MOST_VALUES = 5_000
"""Largest number of values of an axis; results that have more are not those of a grid."""


class ReportQuantity(NamedTuple):
    """A cost that is worth a picture."""

    name: str
    title: str
    formula: str | None = None  # the column that says what it should be


QUANTITIES: dict[str, tuple[ReportQuantity, ...]] = {
    "mutex": (
        ReportQuantity("messages_per_entry", "messages per entry", "messages_by_formula"),
        ReportQuantity("client_delay", "client delay, message times"),
        ReportQuantity("sync_delay", "sync delay, message times"),
        ReportQuantity("throughput", "entries per message time"),
    ),
    "election": (
        ReportQuantity("messages", "messages", "messages_by_formula"),
        ReportQuantity("turnaround", "turnaround, message times"),
        ReportQuantity("leader_changes", "changes of leader"),
    ),
    "detector": (
        ReportQuantity("messages", "messages"),
        ReportQuantity("detection_time", "detection time, microseconds"),
        ReportQuantity("mistakes", "mistakes"),
    ),
}


@dataclass
class Mean:
    """Mean of some numbers."""

    total: float = 0
    count: int = 0
    squares: float = 0

    def add(self, value: float) -> None:
        self.total += value
        self.squares += value * value
        self.count += 1

    @property
    def margin(self) -> float:
        """Half the width of the interval that has the true mean in 95 of 100 cases."""
        if self.count < 2:
            return 0.0
        spread = max(0.0, self.squares - self.total * self.total / self.count)
        return 1.96 * sqrt(spread / (self.count - 1) / self.count)

    @property
    def value(self) -> float | None:
        return self.total / self.count if self.count else None


@dataclass
class Failures:
    """The runs of an algorithm that fail in one way."""

    kind: str
    verdict: str
    count: int = 0
    examples: list[GridRow] = field(default_factory=list)

    def add(self, row: GridRow) -> None:
        self.count += 1
        # Different circumstances tell more than different seeds.
        if len(self.examples) < EXAMPLES and all(
            self._circumstances(row) != self._circumstances(each) for each in self.examples
        ):
            self.examples.append(row)

    @staticmethod
    def _circumstances(row: GridRow) -> tuple[str, str]:
        return row["fault"], row["delay"]


@dataclass
class Survey:
    """Summary that a report shows."""

    runs: int = 0
    algorithms: list[str] = field(
        default_factory=list
    )  # in the order of the rows, as everything else
    values: dict[str, list[str]] = field(default_factory=lambda: {axis: [] for axis in AXES})
    seeds: set[int] = field(default_factory=set)
    verdicts: Counter[tuple[str, str]] = field(default_factory=Counter)  # algorithm, verdict
    properties: Counter[tuple[str, str, str]] = field(
        default_factory=Counter
    )  # algorithm, property, verdict
    places: Counter[tuple[str, str, str, str]] = field(
        default_factory=Counter
    )  # algorithm, axis, value, verdict
    costs: dict[tuple[str, str, str, str], Mean] = field(
        default_factory=dict
    )  # algorithm, axis, value, column
    failures: dict[str, dict[str, Failures]] = field(default_factory=dict)  # by algorithm and kind

    def add(self, row: GridRow) -> None:
        name, verdict = row["algorithm"], row["verdict"]
        self.runs += 1
        if name not in self.failures:
            self.algorithms.append(name)
            self.failures[name] = {}
        self.seeds.add(row["seed"])
        self.verdicts[name, verdict] += 1
        for each in PROPERTIES:
            if row.get(each) is not None:
                self.properties[name, each, row[each]] += 1
        costs = _costs(row) if verdict == HOLDS else {}
        for axis, known in self.values.items():
            value = str(row[axis])
            if value not in known:
                known.append(value)
                if len(known) > MOST_VALUES:
                    raise BadResults(f"there are more than {MOST_VALUES:,} values of {axis}")
            self.places[name, axis, value, verdict] += 1
            for column, cost in costs.items():
                self.costs.setdefault((name, axis, value, column), Mean()).add(cost)
        if verdict != HOLDS:
            kind = _kind(row)
            self.failures[name].setdefault(kind, Failures(kind, verdict)).add(row)

    # Reading it.

    def total(self, verdict: str) -> int:
        return sum(count for (_, each), count in self.verdicts.items() if each == verdict)

    def varied(self) -> dict[str, list[str]]:
        """Return the axes that have several values, with the values: numbers by size, names in
        their first order.
        """
        return {axis: in_order(values) for axis, values in self.values.items() if len(values) > 1}

    def problems(self) -> dict[str, list[str]]:
        """Return the algorithms by the name of their problem; those that this version does not know
        under an empty name.
        """
        found: dict[str, list[str]] = {}
        for name in self.algorithms:
            entry = entry_of(name)
            found.setdefault(entry.problem.name if entry else "", []).append(name)
        return found

    def judged(self, algorithms: Iterable[str]) -> list[Property]:
        """Return the properties that have a verdict."""
        names = set(algorithms)
        seen = {each for (name, each, _) in self.properties if name in names}
        return [each for each in PROPERTIES.values() if each.name in seen]


PROPERTIES = {each.name: each for problem in problems() for each in problem.properties}


@cache
def entry_of(name: str) -> Entry | None:
    """Return the algorithm of the catalog; results of another version may have others."""
    return entries().get(name)


def problem_of(name: str) -> Problem | None:
    return next((problem for problem in problems() if problem.name == name), None)


def claims(algorithm: str, name: str) -> bool:
    """Return whether the card claims a property; a claim of ME2 covers both of its parts."""
    entry = entry_of(algorithm)
    return entry is not None and entry.claims(name)


def _counts(algorithm: str, name: str) -> bool:
    """Return whether a property decides the verdict."""
    entry = entry_of(algorithm)
    return entry is None or name in entry.problem.always_counted or entry.claims(name)


def _kind(row: GridRow) -> str:
    if row["verdict"] == ERROR:
        return ERROR
    names = [
        each
        for each in PROPERTIES
        if row.get(each) == row["verdict"] and _counts(row["algorithm"], each)
    ]
    return f"{', '.join(names)} {row['verdict']}".strip()


def _costs(row: GridRow) -> dict[str, float]:
    entry = entry_of(row["algorithm"])
    quantities = QUANTITIES[entry.problem.name] if entry else ()
    columns = [column for each in quantities for column in (each.name, each.formula) if column]
    return {column: row[column] for column in columns if row.get(column) is not None}


def in_order(values: list[str]) -> list[str]:
    """Return numbers by size, then names in their first order."""
    return sorted(values, key=lambda value: (number(value) is None, number(value) or 0.0))


def number(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def survey(rows: Iterable[GridRow]) -> Survey:
    found = Survey()
    for row in rows:
        found.add(row)
    if not found.runs:
        raise BadResults("there is no row")
    return found

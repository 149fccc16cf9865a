"""Compare algorithms from Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from habemus.analysis.numbers import ranges
from habemus.analysis.numbers.compare import Comparison, ComparisonRow, safe_mutexes
from habemus.argument_names import argument
from habemus.catalog.entries import Entry
from habemus.core.process import Process
from habemus.experiments.arguments import check_types
from habemus.experiments.results import table_html
from habemus.experiments.run import entry_for
from habemus.runs.setup import BadSetup, Setup


@dataclass(frozen=True, repr=False)
class ComparisonResult:
    """Costs of several algorithms under one workload, measured, with the formulas beside them."""

    _comparison: Comparison
    _rows: tuple[ComparisonRow, ...]

    def __repr__(self) -> str:
        return (
            f"<ComparisonResult of {', '.join(self._comparison.algorithms)}, {len(self._rows)}"
            " rows>"
        )

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row for each algorithm at each size and load, as `habemus compare --json` has it."""
        return [row.plain(self._comparison.quantities) for row in self._rows]

    def _repr_html_(self) -> str:
        quantities = self._comparison.quantities
        heads = ["algorithm", "n", "load", *(each.title for each in quantities)]
        rows: list[Sequence[object]] = [
            [
                row["algorithm"],
                row["n"],
                "" if row["load"] is None else row["load"],
                *("" if row[each.name] is None else row[each.name] for each in quantities),
            ]
            for row in self.rows
        ]
        return table_html(heads, rows)


def compare(
    *algorithms: str | type[Process],
    n: int | str = 5,
    load: float | str | None = None,
    points: int = 8,
    requests: int = 20,
    hold: int | str = Setup.hold,
    delay: int | str = Setup.delay,
    processing: int | str = Setup.processing,
    repeat: int = 1,
    seed: int = 0,
    jobs: int = 1,
) -> ComparisonResult:
    """Measure what an entry, or an election, costs, as `habemus compare` does.

    algorithms: names of the catalog or classes; by default all safe algorithms for mutual
        exclusion.
    n: the number of participants, or a range such as "2..20".
    load: the offered load, or a range; only one of `n` and `load` is a range.  The mean time before
        a request of a participant is hold * n / load.
    points: the number of points measured in a range.
    requests: the number of requests of each participant.
    hold: the time in the critical section.
    delay: the delay of messages, as in `habemus.simulate`.
    processing: the time that a process needs for each message.
    repeat: the number of runs for each row, with other seeds; the row is their mean.
    seed: the seed of all random draws.
    jobs: the number of worker processes; the numbers do not depend on it.

    >>> rows = compare("central", "ricart-agrawala", n=4, load=0.1).rows
    >>> rows[0]["messages_per_entry_by_formula"]
    3
    """
    check_types(compare, {key: each for key, each in locals().items() if key != "algorithms"})
    if jobs < 1:
        raise BadSetup(f"{argument('jobs')} is at least 1, not {jobs}")
    found = [entry_for(algorithm) for algorithm in algorithms]
    names = tuple(dict.fromkeys(entry.name for entry in found)) or safe_mutexes()
    loads = None if load is None else ranges.loads(str(load))
    comparison = Comparison(
        names,
        ranges.sizes(str(n)),
        loads,
        points,
        requests,
        seed,
        str(hold),
        str(delay),
        processing=str(processing),
        repeats=repeat,
        classes=_classes(algorithms, found),
    )
    comparison.check()
    return ComparisonResult(comparison, tuple(comparison.measure(jobs)))


def _classes(
    algorithms: Sequence[str | type[Process]], found: Sequence[Entry]
) -> tuple[Entry, ...]:
    """Return the entries of the algorithms that are classes; refuse two with one name."""
    by_name: dict[str, Entry] = {}
    for algorithm, entry in zip(algorithms, found, strict=True):
        if isinstance(algorithm, str):
            continue
        if by_name.setdefault(entry.name, entry).algorithm is not algorithm:
            raise BadSetup(f"two classes are named {entry.name}; give one of them another name")
    return tuple(by_name.values())

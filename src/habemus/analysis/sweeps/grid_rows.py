"""The row of each run of a grid: its parameters, its verdicts and its costs.

`rows_of` is the one function that makes runs, here and on every worker. It never raises: an error
is a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias, overload

from habemus.analysis.numbers.compare import mean_messages_of_voting
from habemus.analysis.sweeps.grid import Grid
from habemus.catalog.entries import find, problems
from habemus.core.properties import Verdict
from habemus.runs.setup import Setup
from habemus.runs.simulate import Report, execute

GridRow: TypeAlias = dict[str, Any]
ERROR = "error"
"""The verdict of a run that could not be made, or in which a handler raised an exception."""
VERDICTS = (
    *(each.value for each in (Verdict.HOLDS, Verdict.VIOLATED, Verdict.UNDECIDED)),
    ERROR,
)


class Column(NamedTuple):
    name: str
    kind: type  # int, float or str; any value may be missing


def _columns(kind: type, *names: str) -> list[Column]:
    return [Column(name, kind) for name in names]


AXES = (
    Column("number", int),
    Column("algorithm", str),
    Column("n", int),
    Column("load", str),
    Column("delay", str),
    Column("fault", str),
    Column("seed", int),
)
_TRAFFIC = _columns(int, "messages", "bytes")
COSTS: dict[str, list[Column]] = {
    "mutex": [
        Column("entries", int),
        *_TRAFFIC,
        *_columns(float, "messages_per_entry", "bytes_per_entry", "messages_by_formula"),
        Column("upkeep_messages", int),
        *_columns(float, "client_delay", "sync_delay", "throughput"),
        Column("largest_overtaking", int),
        Column("fairness", float),
    ],
    "election": [
        *_TRAFFIC,
        *_columns(float, "messages_by_formula", "turnaround"),
        *_columns(int, "elections", "leader_changes", "leader"),
    ],
    "detector": [
        *_TRAFFIC,
        Column("detections", int),
        Column("detection_time", float),
        *_columns(int, "longest_detection_time", "mistakes"),
        *_columns(float, "mistakes_per_hour", "mistake_duration"),
        Column("last_mistake", int),
    ],
}
ENDING = (
    *_columns(str, "ended"),
    *_columns(int, "time", "events"),
    *_columns(str, "digest", "why", "error", "command"),
)


def columns_of(algorithms: Iterable[str]) -> tuple[Column, ...]:
    """Return the columns of a grid: those of every problem that it has algorithms for."""
    wanted = {find(name).problem.name for name in algorithms}
    solved = [problem for problem in problems() if problem.name in wanted]
    properties = [Column(each.name, str) for problem in solved for each in problem.properties]
    costs = [column for problem in solved for column in COSTS[problem.name]]
    return tuple(dict.fromkeys([*AXES, Column("verdict", str), *properties, *costs, *ENDING]))


RunBatch: TypeAlias = list[dict[str, Any]]
"""Runs of a grid that are made together: plain values, so that they can be sent to any worker."""

AT_ONCE = 20
"""Largest number of runs in a batch: enough to be worth sending, few enough to be worth losing."""
LEAST_BATCHES = 64
"""Least number of batches: small grids are cut finer, so that all workers are busy to the end."""


class RunBatches(Sequence[RunBatch]):
    """The remaining runs, cut into batches on demand.

    Each batch takes runs from all over the grid, so that all take about as long and the remaining
    time can be estimated.
    """

    def __init__(self, grid: Grid, numbers: Sequence[int]) -> None:
        self._grid = grid
        self._numbers = numbers
        size = max(1, min(AT_ONCE, len(numbers) // LEAST_BATCHES))
        self._count = -(-len(numbers) // size)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> RunBatch: ...
    @overload
    def __getitem__(self, place: slice) -> list[RunBatch]: ...
    def __getitem__(self, place: int | slice) -> RunBatch | list[RunBatch]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(self._count))]
        if not 0 <= place < self._count:
            raise IndexError(place)
        points = (self._grid.point(number) for number in self._numbers[place :: self._count])
        return [
            {
                "number": each.number,
                "load": each.load,
                "fault": each.fault,
                "setup": each.setup.plain(),
            }
            for each in points
        ]

    def __iter__(self) -> Iterator[RunBatch]:
        return (self[place] for place in range(self._count))


def rows_of(batch: RunBatch) -> list[GridRow]:
    """Run a batch."""
    return [_row(**run) for run in batch]


def _row(number: int, load: str, fault: str, setup: Mapping[str, Any]) -> GridRow:
    described = Setup.from_plain(setup)
    row: GridRow = {column.name: None for column in columns_of([described.algorithm])}
    row |= {
        "number": number,
        "algorithm": described.algorithm,
        "n": described.n,
        "load": load,
        "delay": described.delay,
    }
    row |= {"fault": fault, "seed": described.seed, "command": described.command()}
    try:
        report = execute(described, keep=False)
    except Exception as error:
        return row | {
            "verdict": ERROR,
            "error": f"{type(error).__name__}: {' '.join(str(error).split())}",
        }
    return row | _outcome(report)


def _outcome(report: Report) -> GridRow:
    costs = {
        column.name: report.costs.get(column.name) for column in COSTS[report.entry.problem.name]
    }
    if "messages_by_formula" in costs:
        formula = report.costs["formula"]["messages"]
        costs["messages_by_formula"] = (
            _of_voting(report.entry.name, report.setup.n) if formula is None else formula
        )
    return {
        "verdict": report.verdict.value,
        **{finding.name: finding.verdict.value for finding in report.findings},
        **costs,
        "ended": report.ending.reason,
        "time": report.ending.time,
        "events": report.ending.delivered,
        "digest": report.digest,
        "why": None if report.verdict is Verdict.HOLDS else " ".join(report.why.split()),
    }


@cache
def _of_voting(algorithm: str, size: int) -> float | None:
    return mean_messages_of_voting(find(algorithm), size)

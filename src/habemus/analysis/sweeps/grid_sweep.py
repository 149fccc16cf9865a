"""The sweep of a grid: the same rows, whichever workers run it and however often it is interrupted.

A run is decided by its number, every row is appended to the journal when it is made, and the
results are written by number at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

from habemus.analysis.sweeps import grid_files
from habemus.analysis.sweeps.grid import Grid
from habemus.analysis.sweeps.grid_rows import (
    ERROR,
    VERDICTS,
    GridRow,
    RunBatches,
    columns_of,
    rows_of,
)
from habemus.analysis.sweeps.journal import SweepJournal, journal_of
from habemus.analysis.sweeps.workers import results
from habemus.core.properties import Verdict

FAILURES_KEPT = 100
"""Failures that are kept for each algorithm; the rest are counted."""

PATIENCE = 5
"""Number of times in a row that workers may die without a row being made; then the runs are the
cause.
"""


class WorkersDie(RuntimeError):
    """A worker died, or all of them. Its work can be given to others."""


class WorkersGone(RuntimeError):
    """No worker is left to make the runs."""


class BadOut(ValueError):
    """A path to which results cannot be written."""


Executor: TypeAlias = Callable[[RunBatches], Generator[list[GridRow], None, None]]
"""Function that makes runs: takes the batches, and yields the rows of each when they are finished,
in any order.
"""


def processes(jobs: int) -> Executor:
    """Return an executor with worker processes of this machine."""

    def executor(batches: RunBatches) -> Generator[list[GridRow], None, None]:
        try:
            for _, rows in results(rows_of, batches, jobs):
                yield rows
        except BrokenProcessPool:
            raise WorkersDie("a worker process died") from None

    return executor


@dataclass
class AlgorithmVerdicts:
    """Verdicts on the runs of one algorithm."""

    algorithm: str
    verdicts: Counter[str] = field(default_factory=Counter)  # how many runs have each
    failures: list[GridRow] = field(default_factory=list)  # the first of those that do not hold

    def add(self, row: GridRow) -> None:
        self.verdicts[row["verdict"]] += 1
        if row["verdict"] != Verdict.HOLDS.value and len(self.failures) < FAILURES_KEPT:
            self.failures.append(row)

    def plain(self) -> dict[str, Any]:
        shown = (
            "number",
            "n",
            "load",
            "delay",
            "fault",
            "seed",
            "verdict",
            "why",
            "error",
            "command",
        )
        return {
            "algorithm": self.algorithm,
            "runs": self.verdicts.total(),
            **{verdict: self.verdicts[verdict] for verdict in VERDICTS},
            "failures": [{name: row.get(name) for name in shown} for row in self.failures],
        }


@dataclass
class GridSweep:
    """A sweep of a grid and its results so far."""

    grid: Grid
    out: Path
    outcomes: dict[str, AlgorithmVerdicts] = field(init=False, default_factory=dict)
    resumed: int = field(init=False, default=0)  # rows that were there already
    damaged: int = field(init=False, default=0)  # rows that were there and could not be read
    made: int = field(init=False, default=0)
    broken_off: str = field(init=False, default="")  # why it ended early, if it did

    @property
    def journal(self) -> Path:
        return journal_of(self.out)

    def prepare(self, fresh: bool) -> None:
        """Raise an exception rather than overwrite existing files, unless a new start is
        asked for.
        """
        grid_files.check_out(self.out)
        if fresh:
            self.journal.unlink(missing_ok=True)
        elif self.out.exists() and not self.journal.exists():
            raise BadOut(
                f"{self.out} is there already; name another --out, or make all runs again with"
                " --fresh"
            )

    def run(self, executor: Executor, progress: Callable[[int, str], None] | None = None) -> None:
        """Make the missing runs and write the results. After an interrupt, the journal allows to
        continue.
        """
        head = {"version": version("habemus"), "runs": len(self.grid), "grid": self.grid.plain()}
        with SweepJournal(self.journal, head, len(self.grid)) as journal:
            self.resumed, self.damaged = len(journal), journal.damaged
            seen = Counter(row["verdict"] for row in journal.rows())
            try:
                self._make(journal, executor, seen, progress)
            except KeyboardInterrupt:
                self.broken_off = "interrupted"
            except WorkersGone as reason:
                self.broken_off = str(reason)
            self.made = len(journal)
            # By number again, so that the failures shown are the same however the runs were made.
            self.outcomes = {name: AlgorithmVerdicts(name) for name in self.grid.algorithms}
            for row in journal.rows():
                self.outcomes[row["algorithm"]].add(row)
            if not self.broken_off:
                grid_files.write(self.out, columns_of(self.grid.algorithms), journal.rows())
                journal.discard()

    def _make(
        self,
        journal: SweepJournal,
        executor: Executor,
        seen: Counter[str],
        progress: Callable[[int, str], None] | None,
    ) -> None:
        patience = PATIENCE
        while missing := journal.missing():
            try:
                with closing(executor(RunBatches(self.grid, missing))) as finished:
                    for rows in finished:
                        journal.add(rows)
                        patience = PATIENCE
                        seen.update(row["verdict"] for row in rows)
                        if progress is not None:
                            progress(len(journal), _told(len(journal), len(self.grid), seen))
            except WorkersDie as reason:
                patience -= 1
                if not patience:
                    raise WorkersGone(f"{reason}, {PATIENCE} times in a row") from None

    @property
    def verdict(self) -> Verdict:
        """Verdict on the sweep: undecided if it is unfinished, violated if any run was or could not
        be made.
        """
        verdicts = {verdict for outcome in self.outcomes.values() for verdict in outcome.verdicts}
        if self.broken_off:
            return Verdict.UNDECIDED
        if {Verdict.VIOLATED.value, ERROR} & verdicts:
            return Verdict.VIOLATED
        return Verdict.UNDECIDED if Verdict.UNDECIDED.value in verdicts else Verdict.HOLDS

    def plain(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict.value,
            "complete": not self.broken_off,
            "broken_off": self.broken_off or None,
            "runs_planned": len(self.grid),
            "runs_made": self.made,
            "runs_resumed": self.resumed,
            "out": str(self.journal if self.broken_off else self.out),
            "rows": [outcome.plain() for outcome in self.outcomes.values()],
        }


def _told(made: int, planned: int, seen: Counter[str]) -> str:
    failed = [
        f"{seen[verdict]:,} {word}"
        for verdict, word in (("violated", "violated"), (ERROR, "errors"))
        if seen[verdict]
    ]
    return ", ".join([f"{made:,} of {planned:,} runs", *failed])

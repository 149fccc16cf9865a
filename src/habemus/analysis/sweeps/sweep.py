"""Many runs, each by its own seed, and the violations of claims among them.

The number of workers does not change the result: a seed decides its run, and the tallies of parts
add up in any order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from habemus.analysis.sweeps.seeded_setups import SeededSetups
from habemus.analysis.sweeps.workers import results
from habemus.catalog.entries import Entry, find
from habemus.core.assumptions import Crashes
from habemus.core.process import MistakeInAlgorithm
from habemus.core.properties import Verdict
from habemus.runs.execution import Execution
from habemus.runs.setup import Setup
from habemus.runs.simulate import Report, execute

AT_ONCE = 20
"""Runs in one batch: enough to be worth sending, few enough to be worth waiting for."""

FAILURES_KEPT = 100
"""Failures that are kept for each algorithm; the rest are counted."""

BROKEN = "handlers"
"""The violation that is reported when a handler of the algorithm raises an exception."""


class Failure(NamedTuple):
    """A run in which a claim was violated, or stayed undecided."""

    seed: int
    properties: tuple[str, ...]
    why: str
    command: str

    def plain(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "properties": list(self.properties),
            "why": self.why,
            "command": self.command,
        }


@dataclass
class Tally:
    """Results of the runs of one algorithm."""

    algorithm: str
    runs: int = 0
    entries: int = 0
    with_crashes: int = 0
    with_cuts: int = 0
    violated: int = 0  # runs
    undecided: int = 0  # runs
    held: Counter[str] = field(
        default_factory=Counter
    )  # in how many runs each claimed property held
    unclaimed: Counter[str] = field(
        default_factory=Counter
    )  # in how many runs each other property was violated
    failures: list[Failure] = field(default_factory=list)
    open: list[Failure] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.runs += other.runs
        self.entries += other.entries
        self.with_crashes += other.with_crashes
        self.with_cuts += other.with_cuts
        self.violated += other.violated
        self.undecided += other.undecided
        self.held += other.held
        self.unclaimed += other.unclaimed
        self.failures = sorted([*self.failures, *other.failures])[:FAILURES_KEPT]
        self.open = sorted([*self.open, *other.open])[:FAILURES_KEPT]

    @property
    def never_held(self) -> list[str]:
        """Return the claims that no run showed: a sweep that met no case has shown nothing."""
        judged = {
            finding
            for finding in _judged(find(self.algorithm))
            if _claim(finding, find(self.algorithm))
        }
        return sorted(judged - set(self.held)) if self.runs else []

    @property
    def verdict(self) -> Verdict:
        if self.violated:
            return Verdict.VIOLATED
        return Verdict.UNDECIDED if self.undecided or self.never_held else Verdict.HOLDS

    def plain(self) -> dict[str, Any]:
        first = self.failures[0] if self.failures else None
        return {
            "algorithm": self.algorithm,
            "claims": list(find(self.algorithm).box.ensures),
            "unsafe": find(self.algorithm).unsafe is not None,
            "tolerates": find(self.algorithm).assumes.crashes.value,
            "verdict": self.verdict.value,
            "runs": self.runs,
            "entries": self.entries,
            "runs_with_crashes": self.with_crashes,
            "runs_with_cuts": self.with_cuts,
            "violated": self.violated,
            "undecided": self.undecided,
            "never_held": self.never_held,
            "violated_but_not_claimed": dict(sorted(self.unclaimed.items())),
            "first_failing_command": first.command if first else None,
            "failures": [failure.plain() for failure in self.failures],
            "open": [failure.plain() for failure in self.open],
        }


def _judged(entry: Entry) -> list[str]:
    """Return the properties on which the monitor gives a verdict whenever they are claimed; a bound
    (ME4) needs a number.
    """
    return [each.name for each in entry.problem.properties if each.name != "ME4"]


def _claim(finding: str, entry: Entry) -> bool:
    """Return whether a property must hold in a run of a sweep; a claim of ME2 covers both of its
    parts.
    """
    unpaused = entry.assumes.holds_without_pauses
    return entry.claims(finding) or finding in unpaused or finding.partition("-")[0] in unpaused


class SeedBatch(NamedTuple):
    """Some seeds of one algorithm."""

    algorithm: str
    setups: SeededSetups
    first: int
    size: int  # how many seeds


def tally_of(batch: SeedBatch) -> Tally:
    """Run a batch."""
    entry = find(batch.algorithm)
    tally = Tally(entry.name)
    for seed in range(batch.first, batch.first + batch.size):
        setup = batch.setups.setup(entry, seed)
        tally.runs += 1
        tally.with_crashes += any(kind == "crash" for kind, _ in setup.faults)
        tally.with_cuts += any(kind == "cut" for kind, _ in setup.faults)
        try:
            _note(tally, seed, setup, execute(setup, keep=False, entry=entry))
        except MistakeInAlgorithm as mistake:
            tally.violated += 1
            tally.failures.append(Failure(seed, (BROKEN,), str(mistake), setup.command()))
    return tally


def _note(tally: Tally, seed: int, setup: Setup, report: Report) -> None:
    tally.entries += report.costs.get("entries", 0)
    claimed = [finding for finding in report.findings if _claim(finding.name, report.entry)]
    for finding in report.findings:
        if finding.verdict is Verdict.HOLDS and finding in claimed:
            tally.held[finding.name] += 1
        elif finding.verdict is Verdict.VIOLATED and finding not in claimed:
            tally.unclaimed[finding.name] += 1
    violated = [finding for finding in claimed if finding.verdict is Verdict.VIOLATED]
    # A run that came to its end without showing a property, because no process entered for example,
    # leaves nothing to wait for.
    is_open = report.ending.cut_off and not violated
    open_ = [finding for finding in claimed if finding.verdict is Verdict.UNDECIDED and is_open]
    for wrong, failures in ((violated, tally.failures), (open_, tally.open)):
        if wrong:
            why = "; ".join(f"{finding.name}: {finding.why}" for finding in wrong)
            failures.append(
                Failure(seed, tuple(finding.name for finding in wrong), why, setup.command())
            )
    tally.violated += bool(violated)
    tally.undecided += bool(open_)


def _try_out(entry: Entry, setup: Setup) -> None:
    """Start a run and judge it, so that an algorithm that cannot start is refused at once.

    An error of a handler later on is a result: it has the seed that leads to it.
    """
    execution = Execution(setup, keep=False, entry=entry)
    execution.advance(0)
    execution.findings()
    execution.costs()


@dataclass
class Sweep:
    """Runs over seeds, and their results so far."""

    algorithms: tuple[str, ...]
    setups: SeededSetups
    seeds: int
    first: int = 0
    tallies: dict[str, Tally] = field(init=False)
    broken_off: str = field(default="", init=False)  # why it ended early, if it did

    def __post_init__(self) -> None:
        self.tallies = {name: Tally(name) for name in self.algorithms}

    @property
    def planned(self) -> int:
        return self.seeds * len(self.algorithms)

    @property
    def made(self) -> int:
        return sum(tally.runs for tally in self.tallies.values())

    @property
    def verdict(self) -> Verdict:
        """Verdict on the sweep: violated if any claim was, undecided also if the sweep is
        unfinished.
        """
        verdicts = {tally.verdict for tally in self.tallies.values()}
        if Verdict.VIOLATED in verdicts:
            return Verdict.VIOLATED
        return (
            Verdict.UNDECIDED if self.broken_off or Verdict.UNDECIDED in verdicts else Verdict.HOLDS
        )

    def batches(self) -> list[SeedBatch]:
        """Return the batches. All algorithms advance together, so that an interrupted sweep has
        covered them alike.
        """
        starts = range(self.first, self.first + self.seeds, AT_ONCE)
        end = self.first + self.seeds
        return [
            SeedBatch(name, self.setups, start, min(AT_ONCE, end - start))
            for start in starts
            for name in self.algorithms
        ]

    def run(self, jobs: int, progress: Callable[[int, str], None] | None = None) -> None:
        """Make the runs. An interrupt ends the sweep early; the results so far are kept."""
        for name in self.algorithms:
            self.setups.check(find(name))
            _try_out(find(name), self.setups.setup(find(name), self.first))
        try:
            for batch, tally in results(tally_of, self.batches(), jobs):
                self.tallies[batch.algorithm].add(tally)
                if progress is not None:
                    progress(
                        self.made,
                        f"{self.made:,} of {self.planned:,} runs, {self._failed()} violated",
                    )
        except KeyboardInterrupt:
            self.broken_off = "interrupted"
        except BrokenProcessPool:
            self.broken_off = "a worker process died"

    def _failed(self) -> int:
        return sum(tally.violated for tally in self.tallies.values())

    def plain(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict.value,
            "complete": not self.broken_off,
            "broken_off": self.broken_off or None,
            "runs_planned": self.planned,
            "runs_made": self.made,
            "seeds": {"first": self.first, "count": self.seeds},
            "sizes": list(self.setups.sizes),
            "delay": self.setups.delay,
            "crashes": self.setups.crashes,
            "rows": [tally.plain() for tally in self.tallies.values()],
        }


def without_crashes(algorithms: Iterable[str]) -> list[str]:
    """Return the algorithms that tolerate no crash, so that their runs have none."""
    return [name for name in algorithms if find(name).assumes.crashes is Crashes.NONE]


__all__ = ["BROKEN", "Failure", "SeedBatch", "Sweep", "Tally", "tally_of", "without_crashes"]

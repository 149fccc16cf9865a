"""One run, from its description to its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from habemus.catalog.entries import Entry
from habemus.core.process import ProcessId
from habemus.core.properties import Finding, Verdict, reasons, worst
from habemus.core.system import System
from habemus.problems.mutex_properties import ME3, ME4
from habemus.runs.execution import KEEP_LIMIT, Execution, faults_of
from habemus.runs.setup import OUTSIDE, Setup
from habemus.runs.systems import LINKS, system_of
from habemus.runtimes.sim.simulation import Ending
from habemus.traces import Trace


@dataclass
class Report:
    """The result of a run."""

    setup: Setup
    entry: Entry
    system: System
    ending: Ending
    findings: list[Finding]
    digest: str
    costs: dict[str, Any]
    trace: Trace | None
    awaits: dict[ProcessId, list[ProcessId]] = field(default_factory=dict)
    missed_faults: list[str] = field(default_factory=list)  # or interventions; with the reasons

    def __post_init__(self) -> None:
        unclaimed = [
            each.name
            for each in self.findings
            if each.verdict is Verdict.VIOLATED and each.name not in self.violated
        ]
        if unclaimed and self.trace is not None:
            self.trace = replace(self.trace, not_claimed=tuple(unclaimed))

    @property
    def counted(self) -> list[Finding]:
        """The findings that count for the verdict: safety and liveness always, an order only if the
        algorithm claims it, or the setup asks for it.
        """
        asked = [ME3.name] if self.setup.order == OUTSIDE else []
        asked += [ME4.name] if self.setup.overtaking is not None else []
        names = (*self.entry.problem.always_counted, *asked)
        # Acknowledgements of links create happened-before relations that the algorithm cannot
        # see.
        unseen = ME3.name if self.setup.over else None
        return [
            finding
            for finding in self.findings
            if finding.name in names or (finding.name != unseen and self.entry.claims(finding.name))
        ]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict that counts; a run that lacks one of its faults does not hold, because
        it has shown nothing of that fault.
        """
        found = worst(self.counted)
        return Verdict.UNDECIDED if found is Verdict.HOLDS and self.missed_faults else found

    @property
    def violated(self) -> list[str]:
        return [finding.name for finding in self.counted if finding.verdict is Verdict.VIOLATED]

    @property
    def why(self) -> str:
        """The reasons of the verdict: of the violations, else of the undecided properties and of
        the faults that did not strike.
        """
        missed = self.missed_faults if self.verdict is Verdict.UNDECIDED else []
        return "; ".join([*reasons(self.counted, self.verdict), *missed])

    def plain(self) -> dict[str, Any]:
        return {
            "run": self.setup.plain(),
            "command": self.setup.command(),
            "verdict": self.verdict.value,
            "properties": {finding.name: finding.verdict.value for finding in self.findings},
            "why": self.why,
            "reasons": {finding.name: finding.why for finding in self.findings},
            "missed_faults": self.missed_faults,
            "violated": self.violated,
            **self.costs,
            "ended": self.ending.reason,
            "time": self.ending.time,
            "events": self.ending.delivered,
            "digest": self.digest,
        }


def execute(
    setup: Setup,
    *,
    keep: bool = True,
    progress: Callable[[int, int], None] | None = None,
    entry: Entry | None = None,
) -> Report:
    """Execute a run.  With `keep`, the report has its trace, unless the run is too long for it."""
    execution = Execution(setup, keep=keep, entry=entry)
    execution.advance(progress=progress)
    findings = execution.findings()
    return Report(
        execution.setup,
        execution.entry,
        execution.system,
        execution.ending,
        findings,
        execution.digest,
        execution.costs(),
        execution.trace(findings) if keep else None,
        execution.awaits(),
        execution.missed(),
    )


def replayed(trace: Trace) -> Report:
    """Repeat the run of a saved trace."""
    return execute(Setup.from_plain(trace.run))


def is_counterexample(run: Mapping[str, Any]) -> bool:
    """Return whether a trace is the counterexample of a check."""
    return "check" in run


def is_live(run: Mapping[str, Any]) -> bool:
    """Return whether a trace was recorded by live nodes, and so cannot be repeated from a seed."""
    return run.get("live") is True


__all__ = [
    "KEEP_LIMIT",
    "LINKS",
    "Report",
    "execute",
    "faults_of",
    "is_counterexample",
    "is_live",
    "replayed",
    "system_of",
]

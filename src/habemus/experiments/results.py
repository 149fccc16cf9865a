"""Results of runs, checks and scenarios, as Python and notebooks show them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from habemus.core.properties import Verdict
from habemus.core.words import counted
from habemus.runs.check import CheckReport
from habemus.runs.simulate import Report
from habemus.scenarios import ScenarioOutcome
from habemus.traces import Trace

if TYPE_CHECKING:
    from habemus.proofs.proving import ProofReport

COLOURS = {
    Verdict.HOLDS: "#1b7837",
    Verdict.ALMOST_SURELY: "#1b7837",
    Verdict.VIOLATED: "#b2182b",
    Verdict.UNDECIDED: "#8a6d00",
}
"""Colours dark enough for text on white, and distinct for readers who cannot see red and green."""


class CannotSave(ValueError):
    """A result without a trace: the run was too long to keep, or the check found no violation."""


def table_html(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a plain HTML table; every cell is escaped."""
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


AnyReport = TypeVar("AnyReport", bound=Report | CheckReport)


class _Result(ABC, Generic[AnyReport]):
    """Base class of the results of runs, checks and scenarios."""

    def __init__(self, report: AnyReport) -> None:
        self._report: AnyReport = report

    @property
    @abstractmethod
    def command(self) -> str:
        """Command line that repeats the run."""

    @abstractmethod
    def _no_trace(self) -> str:
        """Say why there is no trace."""

    @abstractmethod
    def _facts(self) -> list[tuple[str, object]]: ...

    @property
    def verdict(self) -> Verdict:
        """The worst verdict among the properties that count."""
        return self._report.verdict

    @property
    def violated(self) -> list[str]:
        """Names of the violated properties that count for the verdict."""
        return self._report.violated

    @property
    def trace(self) -> Trace | None:
        """The events of the run, or the shortest counterexample; None if there is none to show."""
        return self._report.trace

    @property
    def plain(self) -> dict[str, Any]:
        """The result as the command prints it with `--json`."""
        return self._report.plain()

    @property
    def properties(self) -> dict[str, Verdict]:
        """The verdict of each property, by name."""
        return {finding.name: finding.verdict for finding in self._report.findings}

    @property
    def reasons(self) -> dict[str, str]:
        """Why each property has its verdict, in words."""
        return {finding.name: finding.why for finding in self._report.findings}

    @property
    def why(self) -> str:
        """The reasons of the verdict, of the properties that count, in one line."""
        return self._report.why

    def save(self, path: Path | str) -> None:
        """Save the trace, as `Trace.save` does; `ValueError` if there is none."""
        if self.trace is None:
            raise CannotSave(f"there is no trace to save into {path}: {self._no_trace()}")
        self.trace.save(path)

    @cached_property
    def _picture(self) -> str | None:
        return None if self.trace is None else self.trace._repr_svg_()

    def _repr_svg_(self) -> str | None:
        return self._picture

    def _repr_html_(self) -> str:
        """Verdict, properties, figures and diagram, for notebooks."""
        verdict = self.verdict
        head = f'<p style="color:{COLOURS[verdict]}"><b>{verdict.value}</b></p>'
        findings = [(each.name, each.verdict.value, each.why) for each in self._report.findings]
        diagram = self._repr_svg_()
        drawn = (
            diagram[diagram.index("<svg") :] if diagram else f"<p>{escape(self._no_trace())}</p>"
        )
        return (
            f"<div><p><code>{escape(self.command)}</code></p>{head}"
            f"{table_html(('property', 'verdict', 'reason'), findings)}"
            f"{table_html(('figure', 'value'), self._facts())}{drawn}</div>"
        )


class RunResult(_Result[Report]):
    """Result of a simulated run: verdicts, costs, digest and trace."""

    def __repr__(self) -> str:
        return f"<RunResult {self.verdict.value}: {self.command}>"

    @property
    def costs(self) -> dict[str, Any]:
        """Messages, bytes and delays, with the formulas beside them."""
        return self._report.costs

    @property
    def digest(self) -> str:
        """SHA-256 over the events: the same run has the same digest everywhere."""
        return self._report.digest

    @property
    def missed_faults(self) -> list[str]:
        """The faults that did not strike and the interventions that did not take place, each with
        the reason.  If there is one, a run without a violation is undecided.
        """
        return self._report.missed_faults

    @property
    def command(self) -> str:
        """The run as a command line."""
        return self._report.setup.command()

    def _no_trace(self) -> str:
        return f"the run has {self._report.ending.delivered:,} events, too many to draw"

    def _facts(self) -> list[tuple[str, object]]:
        return [
            (name.replace("_", " "), value)
            for name, value in self.costs.items()
            if name != "formula" and value is not None and not isinstance(value, dict)
        ]


class ScenarioResult(RunResult):
    """Result of a scenario, and whether it is the known outcome."""

    def __init__(self, outcome: ScenarioOutcome) -> None:
        super().__init__(outcome.report)
        self._outcome = outcome

    def __repr__(self) -> str:
        known = "as expected" if self.as_expected else f"expected {self.expected}"
        return f"<ScenarioResult {self._outcome.scenario.name}: {self._outcome.verdict}, {known}>"

    @property
    def expected(self) -> str:
        """The known outcome, in words."""
        return self._outcome.scenario.expected

    @property
    def as_expected(self) -> bool:
        """Whether exactly the expected properties are violated."""
        return self._outcome.as_expected


class CheckResult(_Result[CheckReport]):
    """Result of an exhaustive search: verdicts within a bound, and the counterexample if any."""

    def __repr__(self) -> str:
        return f"<CheckResult {self.verdict.value} in {self.states:,} states, {self.bound}>"

    @property
    def states(self) -> int:
        """Number of states visited."""
        return self._report.extent.states

    @property
    def exhaustive(self) -> bool:
        """Whether every state within the bound was visited."""
        return self._report.extent.complete

    @property
    def bound(self) -> str:
        """The bound of the search, in words."""
        check = self._report.check
        return f"{counted(check.n, 'participant')}, {check.description(self._report.entry)}"

    @property
    def command(self) -> str:
        """The check as a command line."""
        return self._report.check.command()

    def _no_trace(self) -> str:
        return "no violation was found, so there is no counterexample to draw"

    def _facts(self) -> list[tuple[str, object]]:
        return [
            ("states", f"{self.states:,}"),
            ("exhaustive", "yes" if self.exhaustive else f"no: {self._report.extent.stopped}"),
            ("bound", self.bound),
        ]


class ProofResult:
    """The result of a proof for every number of processes."""

    def __init__(self, report: ProofReport) -> None:
        self._report = report

    @property
    def verdict(self) -> Verdict:
        """The verdict: `HOLDS` if proved, `UNDECIDED` if the solver found no answer in time."""
        return self._report.verdict

    @property
    def why(self) -> str:
        """Why the property is not proved; empty if it is."""
        return self._report.why

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The axioms and constants that the proof takes for granted."""
        return tuple(self._report.assumptions)

    @property
    def trace(self) -> Trace | None:
        """The shortest run to a state in which a clause does not hold, or None."""
        return self._report.trace

    @property
    def case(self) -> tuple[str, ...]:
        """A state and a step after which a clause does not hold, in lines; empty if there is none
        to show.
        """
        return () if self._report.case is None else tuple(self._report.case.lines())

    @property
    def plain(self) -> dict[str, Any]:
        """The result as the command prints it with `--json`."""
        return self._report.plain()

    def __repr__(self) -> str:
        return f"<{self._title()}>"

    def _title(self) -> str:
        report = self._report
        about = f"{report.name}: {report.proof.ensures} for every number of processes"
        return f"{about}: {report.why or 'proved'}"

    def _repr_html_(self) -> str:
        lines = [*self.case, *(f"assumes {each}" for each in self.assumptions)]
        return f"<p>{escape(self._title())}</p><pre>{escape(chr(10).join(lines))}</pre>"

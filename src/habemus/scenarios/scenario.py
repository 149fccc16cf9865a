"""Scenarios: named runs with a known outcome.

A scenario is a setup and what must come of it.  It is data, so that it can be run by name, printed
as a command, drawn, and tested.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from habemus.runs.setup import Setup
from habemus.runs.simulate import Report, execute


class UnknownScenario(LookupError):
    """Unknown scenario; the message suggests the nearest name."""


@dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    story: str  # what happens and what to look at, in a few sentences
    setup: Setup
    violates: tuple[str, ...] = ()  # the properties that must be violated; all others must hold
    shows: str = ""  # the fault model of the guarantee cards for which it is evidence
    source: str = ""
    chapter: str = ""  # what the scenarios of its module are about

    @property
    def expected(self) -> str:
        return f"{', '.join(self.violates)} violated" if self.violates else "all hold"

    def run(self, progress: Callable[[int, int], None] | None = None) -> ScenarioOutcome:
        report = execute(self.setup, progress=progress)
        if report.trace is not None:
            report.trace = replace(report.trace, title=self.title)
        return ScenarioOutcome(self, report)


@dataclass(frozen=True)
class ScenarioOutcome:
    scenario: Scenario
    report: Report

    @property
    def verdict(self) -> str:
        if self.report.violated:
            return f"{', '.join(self.report.violated)} violated"
        return "all hold" if self.report.verdict.value == "holds" else self.report.verdict.value

    @property
    def as_expected(self) -> bool:
        """True if exactly the expected properties are violated. Where none is expected, none may be
        undecided either.
        """
        if self.scenario.violates:
            return set(self.report.violated) == set(self.scenario.violates)
        return self.report.verdict.value == "holds"

    def plain(self) -> dict[str, Any]:
        return {
            "scenario": self.scenario.name,
            "title": self.scenario.title,
            "expected": self.scenario.expected,
            "verdict": self.verdict,
            "violated": self.report.violated,
            "as_expected": self.as_expected,
            **{
                key: value
                for key, value in self.report.plain().items()
                if key not in ("verdict", "violated")
            },
        }

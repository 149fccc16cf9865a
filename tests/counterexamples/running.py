"""Planted bugs that runs must show: what the galleries of mutants share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pytest

from habemus.core.properties import Verdict
from habemus.runs.simulate import Report


def each_of(cases: Sequence[tuple[Any, ...]]) -> pytest.MarkDecorator:
    """Parametrize a test with mutants, their healthy algorithms, setups and what is caught."""
    names = ("mutant", "healthy", "setup", "caught")
    return pytest.mark.parametrize(names, cases, ids=[case[0].__name__ for case in cases])


def assert_caught(
    healthy: Iterable[Report], mutant: Iterable[Report], caught: Collection[str]
) -> None:
    """The runs of the mutant violate the properties, and those of the healthy algorithm do not."""
    for report in healthy:
        spoilt = [
            finding
            for finding in report.findings
            if finding.name in caught and finding.verdict is not Verdict.HOLDS
        ]
        assert spoilt == [], "the healthy algorithm must keep what the mutant breaks"
    shown = {
        finding.name
        for report in mutant
        for finding in report.findings
        if finding.verdict is not Verdict.HOLDS
    }
    assert shown >= set(caught), f"shown: {sorted(shown)}"

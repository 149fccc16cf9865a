"""What MyAlgorithm must keep; run it with pytest."""

from pathlib import Path

import pytest
from habemus.catalog.checks import Check, perform
from habemus.catalog.entries import find
from habemus.catalog.runs import execute
from habemus.catalog.setup import Setup
from habemus.core.properties import Verdict
from habemus.testing import CHECKS

MINE = find(f"{Path(__file__).with_name('my_file.py')}:MyAlgorithm")


@pytest.mark.parametrize("check", CHECKS)
def test_conformance(check: str) -> None:
    """What every algorithm must keep: determinism, purity, the claims of its docstring over many seeds, its costs, ..."""
    CHECKS[check](MINE)


@pytest.mark.parametrize("n", [2, 3])
def test_every_interleaving(n: int) -> None:
    report = perform(Check(MINE.name, n))
    assert report.verdict is Verdict.HOLDS, [finding.why for finding in report.counted]


def test_a_run() -> None:
    report = execute(Setup(MINE.name, 5, seed=7, delay="exp:1ms"))
    assert report.verdict is Verdict.HOLDS, report.why

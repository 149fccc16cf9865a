"""What MyAlgorithm must keep; run it with pytest."""

from pathlib import Path

import pytest
from habemus.catalog.entries import find
from habemus.catalog.runs import execute
from habemus.catalog.setup import Setup
from habemus.core.properties import Verdict
from habemus.testing import CHECKS

MINE = find(f"{Path(__file__).with_name('my_file.py')}:MyAlgorithm")


@pytest.mark.parametrize("check", CHECKS)
def test_conformance(check: str) -> None:
    """What every algorithm must keep: determinism, purity, the claims of its docstring over many seeds, ..."""
    CHECKS[check](MINE)


@pytest.mark.parametrize("seed", range(20))
def test_a_crash_is_seen(seed: int) -> None:
    crash = ("crash", "2@200ms")
    report = execute(Setup(MINE.name, 4, seed=seed, delay="500..1500", faults=(crash,)))
    assert report.verdict is Verdict.HOLDS, report.why
    assert report.costs["detections"] == 3

"""Tests of MyAlgorithm; run them with pytest."""

from pathlib import Path

import habemus
import pytest
from habemus.faults import Crash
from habemus.testing import CHECKS, entry_of

MINE = f"{Path(__file__).with_name('my_file.py')}:MyAlgorithm"


@pytest.mark.parametrize("check", CHECKS)
def test_conformance(check: str) -> None:
    """Check determinism, purity, the claims of the docstring over many seeds, ..."""
    CHECKS[check](entry_of(MINE))


@pytest.mark.parametrize("seed", range(20))
def test_a_crash_is_seen(seed: int) -> None:
    crash = Crash(2, 200_000)
    result = habemus.simulate(MINE, 4, seed=seed, delay="500..1500", faults=[crash])
    assert result.verdict is habemus.Verdict.HOLDS, result.why
    assert result.costs["detections"] == 3

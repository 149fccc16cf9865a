"""Tests of MyAlgorithm; run them with pytest."""

from pathlib import Path

import habemus
import pytest
from habemus.testing import CHECKS, entry_of

MINE = f"{Path(__file__).with_name('my_file.py')}:MyAlgorithm"


@pytest.mark.parametrize("check", CHECKS)
def test_conformance(check: str) -> None:
    """Check determinism, purity, the claims of the docstring over many seeds, its costs, ..."""
    CHECKS[check](entry_of(MINE))


@pytest.mark.parametrize("n", [2, 3])
def test_every_interleaving(n: int) -> None:
    result = habemus.check(MINE, n)
    assert result.verdict is habemus.Verdict.HOLDS, result.why


def test_a_run() -> None:
    result = habemus.simulate(MINE, n=5, seed=7, delay="exp:1ms")
    assert result.verdict is habemus.Verdict.HOLDS, result.why

"""Every algorithm of the catalog is held to the public conformance suite."""

import pytest

from habemus.catalog.entries import entries
from habemus.testing import CHECKS


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", entries())
def test_conformance(name: str, check: str) -> None:
    CHECKS[check](entries()[name])

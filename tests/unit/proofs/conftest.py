"""Fixtures of the proofs."""

import pytest


@pytest.fixture(autouse=True)
def _long_search(request: pytest.FixtureRequest, times: int) -> None:
    if request.node.get_closest_marker("long_search") and times < 10:
        pytest.skip("takes half a minute; --times 10 makes it")

"""Fixtures of the searches for planted bugs."""

import pytest


@pytest.fixture(autouse=True)
def _long_search(request: pytest.FixtureRequest, times: int) -> None:
    if request.node.get_closest_marker("long_search") and times < 10:
        pytest.skip("takes up to a minute; --times 10 makes it")


@pytest.fixture
def only_the_abstract_election(monkeypatch: pytest.MonkeyPatch) -> None:
    """A violation over the abstract election is enough here, since the healthy one has none."""
    monkeypatch.setattr("habemus.runs.check.GUIDED_LIMIT", 0)

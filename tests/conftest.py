"""`--times`: the tests that draw their runs by seeds make so many times as many of them.  `make
campaign` uses it.
"""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--times",
        type=int,
        default=1,
        help="make so many times as many runs in the tests that draw them by seeds",
    )


@pytest.fixture
def times(request: pytest.FixtureRequest) -> int:
    count = request.config.getoption("--times")
    assert isinstance(count, int)
    return count

"""What all tests share: the option `--times`, signals as in a terminal, patience of Hypothesis."""

import signal

import pytest
from hypothesis import HealthCheck, settings

# A machine that stalls is not a reason to fail.
settings.register_profile(
    "patient", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--times",
        type=int,
        default=1,
        help="make so many times as many runs in the tests that draw them by seeds (make campaign)",
    )


def pytest_configure() -> None:
    # A shell that starts a command in the background has it ignore SIGINT, nohup has it ignore
    # SIGHUP, and every process that a test starts inherits that: tests that send one would wait for
    # ever.
    for number, handler in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.fixture
def times(request: pytest.FixtureRequest) -> int:
    count = request.config.getoption("--times")
    assert isinstance(count, int)
    return count

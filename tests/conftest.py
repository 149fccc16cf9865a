"""What all tests share: the option `--times`, signals as in a terminal, patience of Hypothesis, and
what happens where a requirement is absent (`tests.requirements`).
"""

import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings
from tests.requirements import absent, joined, left_out

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


def pytest_configure(config: pytest.Config) -> None:
    wants_all = os.environ.get("CI") or os.environ.get("HABEMUS_TEST_ALL") == "1"
    if wants_all and not hasattr(config, "workerinput") and (names := absent("test")):
        raise pytest.UsageError(
            f"{joined(names)}: absent, and CI or HABEMUS_TEST_ALL=1 wants all tests;"
            " as root, `make test-deps` installs what they need"
        )
    # A shell that starts a command in the background has it ignore SIGINT, nohup has it ignore
    # SIGHUP, and every process that a test starts inherits that: tests that send one would wait for
    # ever.
    for number, handler in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """Say last what was left out."""
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        skipped = [report.longrepr[2] for report in reporter.stats.get("skipped", [])]
        line = left_out([each.removeprefix("Skipped: ") for each in skipped])
        if line is not None:
            reporter.write_line(line)


@pytest.fixture
def times(request: pytest.FixtureRequest) -> int:
    count = request.config.getoption("--times")
    assert isinstance(count, int)
    return count

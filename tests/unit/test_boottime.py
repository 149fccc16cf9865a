"""The clock that goes on while the machine sleeps."""

import importlib
import time
from collections.abc import Iterator

import pytest

from habemus import boottime


@pytest.fixture
def reloaded() -> Iterator[None]:
    """Load the module again afterwards, as it is on this system."""
    yield
    importlib.reload(boottime)


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no CLOCK_BOOTTIME")
@pytest.mark.usefixtures("reloaded")
def test_time_asleep_counts_where_the_system_counts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "clock_gettime", {time.CLOCK_BOOTTIME: 7.5}.__getitem__)
    monkeypatch.setattr(time, "clock_gettime_ns", {time.CLOCK_BOOTTIME: 7_500}.__getitem__)
    importlib.reload(boottime)
    monkeypatch.undo()
    assert (boottime.seconds(), boottime.nanoseconds()) == (7.5, 7_500)


@pytest.mark.usefixtures("reloaded")
def test_elsewhere_it_is_the_monotonic_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    importlib.reload(boottime)
    monkeypatch.undo()
    assert boottime.seconds is time.monotonic
    assert boottime.nanoseconds is time.monotonic_ns


def test_seconds_and_nanoseconds_are_one_clock() -> None:
    before, seconds, after = boottime.nanoseconds(), boottime.seconds(), boottime.nanoseconds()
    assert before // 1_000 - 1 <= seconds * 1_000_000 <= after // 1_000 + 1

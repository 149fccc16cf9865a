"""A plugin for Pyodide: what it cannot run is reported as skipped, never as passed."""

from __future__ import annotations

import errno
from collections.abc import Generator
from typing import Any

import pytest

LACKING = ("numpy", "msgspec", "multiprocessing", "_multiprocessing", "start new thread")


def _is_lacking(error: BaseException | None) -> bool:
    """Whether a test failed for want of processes, threads or a compiled package."""
    while error is not None:
        if isinstance(error, OSError) and error.errno == errno.ENOTSUP:
            return True
        kinds = (ImportError, NotImplementedError, RuntimeError, ValueError)
        if isinstance(error, kinds) and any(each in str(error) for each in LACKING):
            return True
        error = error.__cause__ or error.__context__
    return False


REASON = "Skipped: no processes, threads or compiled packages"


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, Any, pytest.CollectReport]:
    report = yield
    if report.failed and _is_lacking(report.call.excinfo.value):
        report.outcome, report.longrepr = "skipped", (str(collector.path), 0, REASON)
    return report  # type: ignore[no-any-return]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and call.excinfo is not None and _is_lacking(call.excinfo.value):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1] or 0, REASON)
    return report

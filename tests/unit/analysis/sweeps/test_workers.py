"""Workers that fail."""

import os

import pytest

from habemus.analysis.sweeps.workers import results


def _killed(task: int) -> int:
    os._exit(task)


def test_a_killed_worker_is_one_error_line() -> None:
    with pytest.raises(ChildProcessError, match=r"a worker process was killed, .* jobs"):
        list(results(_killed, [1, 2], jobs=2))

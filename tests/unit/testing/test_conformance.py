"""The suite names what it has found so that it can be repeated."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest

from habemus.algorithm import Mutex
from habemus.testing import check_mutex


class Careless(Mutex):
    """Mutual exclusion that lets all enter at once.

    Source   this test.
    Assumes  reliable links, in any order; no process crashes.
    Cost     nothing.
    Ensures  ME1.
    """

    def acquire(self) -> None:
        self.granted()

    def release(self) -> None:
        pass


def test_a_failed_check_has_a_command_that_repeats_it() -> None:
    with pytest.raises(AssertionError) as failed:
        check_mutex(Careless)
    found = re.search(r"claims: habemus (.*?): ME1 violated", str(failed.value))
    assert found is not None, failed.value
    command = [sys.executable, "-m", "habemus", *shlex.split(found[1]), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert '"ME1"' in done.stdout

"""The conformance suite refuses what it cannot judge, and its findings can be repeated."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from typing import Any

import pytest

from habemus.algorithm import Detector, Election, MistakeInPlan, Mutex
from habemus.testing import CHECKS, check_detector, check_election, check_mutex, entry_of


class NoCard(Mutex):
    """A lock that lets every process in at once, and says nothing about it."""

    def acquire(self) -> None:
        self.granted()

    def release(self) -> None:
        pass


class Claiming(NoCard):
    """A lock that lets every process in at once.

    Ensures: ME1.
    """


class ClaimingNothing(NoCard):
    """A lock that lets every process in at once.

    Ensures  nothing; it is a bad example.
    """


class NoElection(Election):
    """An election without a result."""

    def elect(self) -> None:
        pass


class NoDetector(Detector):
    """A detector that suspects no process."""


@pytest.mark.parametrize(
    ("algorithm", "example"),
    [
        (NoCard, "Ensures  ME1, ME2."),
        (NoElection, "Ensures  E1, E2."),
        (NoDetector, "Ensures  completeness, accuracy."),
    ],
)
def test_an_algorithm_that_claims_nothing_fails(algorithm: Any, example: str) -> None:
    with pytest.raises(AssertionError) as caught:
        CHECKS["claims"](entry_of(algorithm))
    assert f"the card of {algorithm.__name__} claims nothing" in str(caught.value)
    assert example in str(caught.value)


def test_a_claim_with_a_colon_is_checked() -> None:
    with pytest.raises(AssertionError, match=r"Claiming, claims: .* ME1 violated"):
        check_mutex(Claiming)


def test_an_algorithm_may_claim_nothing_on_purpose() -> None:
    CHECKS["claims"](entry_of(ClaimingNothing))


@pytest.mark.parametrize(
    ("check", "base"), [(check_election, "Election"), (check_detector, "Detector")]
)
def test_an_algorithm_for_another_problem_is_refused(check: Any, base: str) -> None:
    with pytest.raises(
        MistakeInPlan, match=f"^Claiming does not derive from {base}: check it with check_mutex$"
    ):
        check(Claiming)


@pytest.mark.parametrize("check", [check_mutex, check_election, check_detector])
def test_an_instance_is_refused(check: Any) -> None:
    with pytest.raises(MistakeInPlan) as caught:
        check(Claiming())
    assert str(caught.value) == "Claiming(...) is an instance: give the class, Claiming"


def test_a_failed_check_has_a_command_that_repeats_it() -> None:
    with pytest.raises(AssertionError) as failed:
        check_mutex(Claiming)
    found = re.search(r"claims: habemus (.*?): ME1 violated", str(failed.value))
    assert found is not None, failed.value
    command = [sys.executable, "-m", "habemus", *shlex.split(found[1]), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert '"ME1"' in done.stdout

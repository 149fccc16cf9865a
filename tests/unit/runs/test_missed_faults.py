"""Faults that do not strike are reported, and unknown names are refused."""

from collections.abc import Mapping
from typing import Any

import pytest

from habemus.core.process import MistakeInPlan
from habemus.core.properties import Verdict
from habemus.runs.names import numbered
from habemus.runs.setup import Setup
from habemus.runs.simulate import execute


def missed(*faults: tuple[str, str]) -> list[str]:
    return execute(Setup("central", 3, faults=faults), keep=False).missed_faults


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (("crash", "2@Granted#2"), "Granted happened 1 time at process 2"),
        (("crash", "2@1.Granted#9"), "Granted happened 1 time at process 1"),
        (("cut", "1-2@Granted#9"), "Granted happened 1 time at any process"),
        (("recover", "2@3ms"), "the process was not down"),
        (("heal", "all@3ms"), "the links were not cut"),
        (("crash", "2@9s"), "the run ended before"),
    ],
)
def test_a_fault_that_does_not_strike(fault: tuple[str, str], reason: str) -> None:
    kind, text = fault
    assert missed(fault) == [f"{kind} {text} did not strike: {reason}"]


@pytest.mark.parametrize(
    "given",
    [{"faults": (("crash", "2@Granted#9"),)}, {"then": ("60: 2 crashes",)}],
    ids=["fault", "intervention"],
)
def test_a_run_that_lacks_a_fault_is_undecided(given: Mapping[str, Any]) -> None:
    report = execute(Setup("ricart-agrawala", 3, **given), keep=False)
    assert {finding.verdict for finding in report.counted} == {Verdict.HOLDS}
    assert report.verdict is Verdict.UNDECIDED
    assert report.plain()["verdict"] == "undecided"
    assert report.why == report.missed_faults[0]
    assert not report.violated


def test_a_violation_counts_although_a_fault_did_not_strike() -> None:
    faults = (("crash", "2@Granted#1"), ("crash", "1@Granted#9"))
    report = execute(Setup("central", 3, seed=4, faults=faults), keep=False)
    assert report.missed_faults
    assert report.verdict is Verdict.VIOLATED
    assert "did not strike" not in report.why


def test_faults_that_strike() -> None:
    assert missed(("crash", "2@acquire#1"), ("recover", "2@50ms"), ("pause", "1@1ms+1ms")) == []
    assert missed(("cut", "1-2@0"), ("heal", "1-2@2ms"), ("skew", "1=+50")) == []


def test_the_second_crash_of_a_process_that_is_down() -> None:
    assert missed(("crash", "2@1ms"), ("crash", "2@2ms")) == [
        "crash 2@2ms did not strike: the process was down already"
    ]


def test_an_unknown_event_is_refused_with_the_nearest() -> None:
    with pytest.raises(MistakeInPlan, match="an event 'Grantd'; did you mean Granted"):
        missed(("crash", "2@Grantd#1"))
    with pytest.raises(MistakeInPlan, match=r"an event 'xyz'; there are .*Granted.*acquire"):
        missed(("crash", "2@xyz#1"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("c2@5ms", "12@5ms"),
        ("c2-c1@c1.Granted#1", "12-11@11.Granted#1"),
        ("c1,1|c2@5ms", "11,1|12@5ms"),
        ("c2=+50", "12=+50"),
        ("c2.votes=1", "12.votes=1"),
        ("2@5ms", "2@5ms"),
        ("c22@5ms", "c22@5ms"),
    ],
)
def test_labels_stand_for_numbers(text: str, expected: str) -> None:
    assert numbered(text, {11: "c1", 12: "c2", 3: "2"}) == expected


def test_a_run_with_labels_is_the_run_with_numbers() -> None:
    named = execute(
        Setup(
            "central",
            3,
            faults=(("crash", "coordinator@3ms"),),
            asks=("Bob@1ms",),
            labels=("2=Bob",),
        )
    )
    plain = execute(Setup("central", 3, faults=(("crash", "0@3ms"),), asks=("2@1ms",)))
    assert named.digest == plain.digest

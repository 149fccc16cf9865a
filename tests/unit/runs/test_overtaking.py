"""Bounded waiting (ME4) has a verdict if a bound is given, and then it counts."""

from habemus.core.properties import Verdict
from habemus.runs.setup import Setup
from habemus.runs.simulate import Report, execute


def judged(bound: int | None) -> Report:
    return execute(Setup("central", 5, workload="burst", requests=3, overtaking=bound))


def test_a_queue_bounds_waiting() -> None:
    assert judged(4).verdict is Verdict.HOLDS
    assert "ME4" in {finding.name for finding in judged(4).counted}
    report = judged(3)
    assert (report.verdict, report.violated) == (Verdict.VIOLATED, ["ME4"])
    assert "--overtaking 3" in report.setup.command()
    assert Setup.from_plain(report.setup.plain()) == report.setup


def test_without_a_bound_it_is_not_judged() -> None:
    assert "ME4" not in {finding.name for finding in judged(None).findings}

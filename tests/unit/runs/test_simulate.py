"""What a report tells its trace."""

from habemus.runs.setup import Setup
from habemus.runs.simulate import execute
from habemus.scenarios import scenarios
from habemus.traces.diagram import svg


def test_a_picture_does_not_mark_the_violation_of_a_property_that_is_not_claimed() -> None:
    report = execute(Setup("central", 2, asks=("1@1ms+2ms", "2@3ms+2ms"), order="outside"))
    assert report.trace is not None and not report.trace.not_claimed
    unclaimed = scenarios()["suzuki-kasami-three"].run().report
    assert unclaimed.trace is not None
    assert unclaimed.trace.not_claimed == ("ME3",)
    assert unclaimed.trace.violations == ()
    drawn = svg(unclaimed.trace)
    assert "violated, but not claimed: ME3" in drawn

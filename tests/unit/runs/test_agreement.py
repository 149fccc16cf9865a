"""Two judgements of one property that disagree end the command."""

from collections.abc import Sequence

import pytest

from habemus.cli.app import run
from habemus.core.model import ExternalEvent, Knowledge
from habemus.core.properties import Finding, Verdict
from habemus.problems.mutex_observer import MutexObserver
from habemus.runs.agreement import JudgementsDisagree, confirmed
from habemus.runs.check import Check, perform
from habemus.schedules.play import played
from habemus.schedules.schedule import Step


class Alarmist(MutexObserver):
    """Reports ME1 at every entry."""

    def sees(self, knowledge: Knowledge, seen: ExternalEvent) -> tuple[Knowledge, Sequence[str]]:
        knowledge, violated = super().sees(knowledge, seen)
        return knowledge, ["ME1"] if seen.name == "Granted" else violated


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("habemus.catalog.mutex.MutexObserver", Alarmist)


EXPECTED = (
    "ME1: the search finds it violated, but the monitor finds holds (1 entries, never two at once);"
    " judgements of one property disagree, which is a defect of habemus: report it with the command"
    " line"
)


@pytest.mark.usefixtures("planted")
def test_a_search_and_a_monitor_that_disagree_end_the_check() -> None:
    with pytest.raises(JudgementsDisagree) as raised:
        perform(Check("central", 2))
    assert str(raised.value) == EXPECTED


@pytest.mark.usefixtures("planted")
def test_the_command_ends_with_one_line_and_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "central", "-n", "2"]) == 2
    assert capsys.readouterr().err == f"habemus: {EXPECTED}\n"


@pytest.mark.usefixtures("planted")
def test_an_observer_and_a_monitor_that_disagree_end_the_play() -> None:
    steps = [Step("request", 1, what="acquire")]
    with pytest.raises(JudgementsDisagree, match="the observer finds it violated, but the monitor"):
        played(Check("ricart-agrawala", 1), steps)


def test_findings_that_agree_are_those_of_the_monitor() -> None:
    finding = Finding("ME1", Verdict.VIOLATED, "2 entered while 1 was inside")
    assert confirmed("ME1", "the search", [finding]) is finding
    with pytest.raises(JudgementsDisagree, match=r"ME3: .* the monitor does not judge it"):
        confirmed("ME3", "the search", [finding])

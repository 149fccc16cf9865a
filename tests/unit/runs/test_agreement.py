"""Two judgements of one property that disagree end the command."""

import pickle
from collections.abc import Sequence

import pytest

from habemus.cli import run
from habemus.core.model import ExternalEvent, Knowledge
from habemus.core.properties import Finding, Verdict
from habemus.problems.mutex_observer import MutexObserver
from habemus.runs.agreement import JudgementsDisagree, confirmed
from habemus.runs.check import Check, perform
from habemus.schedules.counterexamples import again
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
    "ME1: the search finds it violated, but the monitor finds holds (1 entry, never two at once);"
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


def test_equal_messages_with_different_pasts_are_told_apart() -> None:
    """The token arrives twice and is acknowledged twice, before and after a request.  Only the
    second acknowledgement makes that request happen before the one of its receiver.
    """
    check = Check(
        "token-ring-repair",
        2,
        faults=(("copy", 1),),
        timeouts=0,
        receipts=(("Token", 3),),
        timing="synchronous",
        order=True,
        every=True,
        search="breadth",
    )
    report = perform(check)
    finding = next(each for each in report.findings if each.name == "ME3")
    assert finding.verdict is Verdict.VIOLATED
    assert "the request of 2 at 2 ms happened before that of 1 at 5 ms" in finding.why
    assert again(report.traces["ME3"]).same


def test_a_disagreement_passes_from_a_worker_to_the_command() -> None:
    error = JudgementsDisagree("ME1", "one finds it violated", "the other does not")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)

"""The fold of E1 to E4 against brute force, and the monitor around it.

Brute force looks at the whole history of events for each verdict; the fold looks at its state.
"""

import pytest
from hypothesis import given
from tests.unit.problems.election_histories import (
    PROCESSES,
    SCOPES,
    Action,
    histories,
    settled,
    traced,
    violated,
    violated_at_rest,
)

from habemus.core.properties import Verdict
from habemus.problems.election_judgement import ElectionJudgement
from habemus.problems.election_monitor import ElectionMonitor


@pytest.mark.parametrize("scope", SCOPES)
@given(histories)
def test_the_monitor_agrees_with_brute_force(scope: str, history: list[Action]) -> None:
    """News may take as long as the run, so a take-over violates E1 only at its end."""
    monitor = ElectionMonitor(PROCESSES, scope, handover=len(history) + 1)
    expected: set[str] = set()
    for position, action in enumerate(history):
        monitor.observe(traced(position, action))
        expected |= violated(history[: position + 1], scope)
        assert monitor.settled == settled(history[: position + 1], scope)
    findings = monitor.findings("quiescent")
    found = {each.name for each in findings if each.verdict is Verdict.VIOLATED}
    assert found == expected | violated_at_rest(history, scope)


@pytest.mark.parametrize("scope", SCOPES)
@given(histories)
def test_a_judgement_goes_on_from_its_frozen_state(scope: str, history: list[Action]) -> None:
    judgement = ElectionJudgement(PROCESSES, scope)
    state = judgement.frozen()
    for action in history:
        thawed = ElectionJudgement.thawed(state, scope)
        results = []
        for each in (judgement, thawed):
            if action.kind == "name":
                results.append(each.name(action.process, action.leader, action.term))
            elif action.kind == "crash":
                each.crash(action.process)
            else:
                each.recover(action.process)
        assert len(set(results)) <= 1
        state = thawed.frozen()
        assert state == judgement.frozen()
        assert hash(state) == hash(judgement.frozen())


@pytest.mark.parametrize("fault", ["pause", "cut"])
def test_a_paused_or_isolated_leader_is_not_in_office(fault: str) -> None:
    judgement = ElectionJudgement(PROCESSES, "ever")
    for process in (3, 1, 2):
        result = judgement.name(process, 3, 0)
    assert result.is_settled
    if fault == "pause":
        judgement.pause(3)
    else:
        judgement.cut(1, 3)
    left = judgement.name(2, 2, 1)
    assert (left.left, left.was_in_office, left.taken_over) == (3, False, (3,))
    assert left.violated("ever") == []


@pytest.mark.parametrize(("term", "expected"), [(1, []), (2, ["E4"])])
def test_a_process_that_was_down_may_hear_late_of_a_former_leader(
    term: int, expected: list[str]
) -> None:
    """The leader of an earlier term is not a new one; another one of the same term would be."""
    judgement = ElectionJudgement(PROCESSES, "term")
    judgement.name(1, 1, 1)
    for process in (2, 1):
        judgement.name(process, 2, 2)
    assert judgement.crash(3)
    judgement.recover(3)
    assert judgement.name(3, 1, term).violated("term") == expected
    assert judgement.settled == (None if expected else 2)
    assert judgement.name(1, 1, 3).violated("term") == ([] if expected else ["E4"])

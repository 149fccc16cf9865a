"""The judgement of T1 to T3, in a search and in a run."""

import pytest

from habemus.core.events import Event
from habemus.core.model import ExternalEvent
from habemus.core.properties import Verdict
from habemus.problems.election import Leader
from habemus.problems.election_refinement import RefinementJudge, RefinementObserver

Step = tuple[int, int | None, int] | int
"""A process that names a leader of a term, or a process that crashes."""


def observed(*steps: Step) -> list[str]:
    """Return what the last step violates; those before it violate nothing."""
    observer = RefinementObserver()
    knowledge = observer.first()
    violated: list[str] = []
    for step in steps:
        assert not violated
        if isinstance(step, int):
            event = ExternalEvent("crash", step)
        else:
            process, leader, term = step
            event = ExternalEvent("indicate", process, "Leader", Leader(leader, term))
        before = hash(knowledge)
        after, names = observer.sees(knowledge, event)
        assert hash(knowledge) == before, "knowledge is a value"
        knowledge, violated = after, list(names)
    return violated


CASES: list[tuple[tuple[Step, ...], list[str]]] = [
    (((1, 1, 5), (2, 1, 5), (3, None, 5)), []),
    (((1, 1, 5), (2, 3, 5)), ["T1"]),
    (((1, 1, 5), (2, 3, 6)), []),
    (((1, 1, 5), (1, 1, 5)), []),  # it says again what it said
    (((1, 1, 5), (1, None, 5), (1, 1, 5)), ["T2"]),
    (((1, 1, 5), 1, (1, 1, 5)), ["T2"]),
    (((1, 1, 5), 2, (1, 1, 5)), []),
    (((1, 1, 5), 1, (1, 1, 6)), []),
    (((1, 1, 5), (1, 1, 6), (1, 1, 5)), ["T2", "T3"]),
    (((2, 1, 5), (2, 1, 6), (2, 1, 5)), ["T3"]),
    (((2, 1, 6), (3, 1, 5)), []),  # each process names its own terms in order
]


@pytest.mark.parametrize(("steps", "expected"), CASES)
def test_a_step_that_the_abstract_election_cannot_make_is_a_violation(
    steps: tuple[Step, ...], expected: list[str]
) -> None:
    assert observed(*steps) == expected


@pytest.mark.parametrize(("steps", "expected"), CASES)
def test_the_judge_of_runs_finds_what_the_observer_of_searches_finds(
    steps: tuple[Step, ...], expected: list[str]
) -> None:
    judge = RefinementJudge()
    for time, step in enumerate(steps):
        if isinstance(step, int):
            judge.observe(Event(time, step, "crash"))
        else:
            process, leader, term = step
            judge.observe(Event(time, process, "indicate", "Leader", Leader(leader, term)))
    findings = judge.findings("done", {})
    assert [each.name for each in findings] == ["T1", "T2", "T3"]
    broken = [each for each in findings if each.verdict is Verdict.VIOLATED]
    assert [each.name for each in broken] == expected
    assert all(each.time == len(steps) - 1 for each in broken)


def test_other_events_change_nothing_and_show_nothing() -> None:
    observer = RefinementObserver()
    event = ExternalEvent("request", 1, "elect")
    assert observer.sees(observer.first(), event) == (observer.first(), ())
    assert observer.shown(event) == []
    leader = ExternalEvent("indicate", 1, "Leader", Leader(1, 5))
    assert observer.shown(leader) == ["T1", "T2", "T3"]


def test_nothing_is_due_at_the_end() -> None:
    observer = RefinementObserver()
    leader = ExternalEvent("indicate", 1, "Leader", Leader(1, 5))
    knowledge, _ = observer.sees(observer.first(), leader)
    assert not observer.at_rest(knowledge) and not observer.unfulfilled(knowledge)
    assert observer.pending(knowledge) == observer.pending(observer.first())
    assert not observer.progress(leader) and not observer.about_the_end()

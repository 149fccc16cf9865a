"""The observer of elections in a search against brute force and by examples; its client."""

import pytest
from hypothesis import given
from tests.unit.problems.election_histories import (
    PROCESSES,
    SCOPES,
    Action,
    external,
    histories,
    named,
    settled,
    up,
    violated,
    violated_at_rest,
)

from habemus.core.model import ExternalEvent, Knowledge, PossibleRequest
from habemus.problems.election import Leader
from habemus.problems.election_observer import ElectionClientModel, ElectionObserver, ElectionScene


@pytest.mark.parametrize("scope", SCOPES)
@given(histories)
def test_the_observer_agrees_with_brute_force(scope: str, history: list[Action]) -> None:
    observer = ElectionObserver(PROCESSES, scope, called=True)
    knowledge = observer.first()
    for position, action in enumerate(history):
        so_far = history[: position + 1]
        knowledge, found = observer.sees(knowledge, external(action))
        assert set(found) == violated(so_far, scope)
        assert isinstance(knowledge, ElectionScene)
        assert knowledge.state.settled == settled(so_far, scope)
        assert dict(knowledge.state.named) == named(so_far)
        assert set(observer.at_rest(knowledge)) == violated_at_rest(so_far, scope)
        unfulfilled = observer.unfulfilled(knowledge)
        assert {process for _, process in unfulfilled} == up(so_far) - named(so_far).keys()


# Events.


def names(process: int, leader: int | None, term: int = 0) -> ExternalEvent:
    return ExternalEvent("indicate", process, "Leader", Leader(leader, term))


def elect(process: int) -> ExternalEvent:
    return ExternalEvent("request", process, "elect")


def crash(process: int) -> ExternalEvent:
    return ExternalEvent("crash", process)


def observed(observer: ElectionObserver, *events: ExternalEvent) -> Knowledge:
    knowledge = observer.first()
    for event in events:
        before = hash(knowledge)
        after, _ = observer.sees(knowledge, event)
        assert hash(knowledge) == before, "knowledge is a value"
        knowledge = after
    return knowledge


# Elections that have to be called.


def test_nothing_is_due_before_an_election_is_called() -> None:
    observer = ElectionObserver(PROCESSES, "ever", called=False)
    quiet = observed(observer)
    assert (observer.at_rest(quiet), observer.unfulfilled(quiet)) == ([], [])
    called = observed(observer, elect(2))
    assert observer.at_rest(called) == ["E2"]
    assert observer.unfulfilled(called) == [("E2", 1), ("E2", 2), ("E2", 3)]


def test_where_processes_begin_by_themselves_an_election_is_due_from_the_start() -> None:
    observer = ElectionObserver(PROCESSES, "ever", called=True)
    assert observer.at_rest(observed(observer)) == ["E2"]
    assert observer.unfulfilled(observed(observer)) == [("E2", 1), ("E2", 2), ("E2", 3)]


def test_a_crash_of_the_caller_loses_the_call() -> None:
    observer = ElectionObserver(PROCESSES, "ever", called=False)
    assert observer.at_rest(observed(observer, elect(2), crash(2))) == []
    assert observer.at_rest(observed(observer, elect(2), crash(3))) == ["E2"]
    for caller in (1, 2):
        assert observer.at_rest(observed(observer, elect(2), elect(1), crash(caller))) == ["E2"]


def test_a_crash_loses_no_election_that_processes_begin_by_themselves() -> None:
    observer = ElectionObserver(PROCESSES, "ever", called=True)
    down = (crash(1), crash(2), crash(3))
    knowledge = observed(observer, *down, ExternalEvent("recover", 3))
    assert observer.at_rest(knowledge) == ["E2"]
    assert observer.unfulfilled(knowledge) == [("E2", 3)]


def test_a_named_leader_is_judged_at_rest_even_if_the_call_is_lost() -> None:
    observer = ElectionObserver(PROCESSES, "ever", called=False)
    knowledge = observed(observer, elect(2), names(3, 2), crash(2))
    assert observer.at_rest(knowledge) == ["E2", "E3"]
    assert observer.unfulfilled(knowledge) == []


def test_a_process_that_recovers_has_to_name_a_leader_again() -> None:
    observer = ElectionObserver(PROCESSES, "ever", called=True)
    everybody = (names(3, 3), names(1, 3), names(2, 3))
    assert observer.at_rest(observed(observer, *everybody)) == []
    down = observed(observer, *everybody, crash(1))
    assert observer.unfulfilled(down) == []
    back = observed(observer, *everybody, crash(1), ExternalEvent("recover", 1))
    assert observer.unfulfilled(back) == [("E2", 1)]


# The rest of the protocol of observers.


def test_obligations_do_not_depend_on_who_won_earlier_terms() -> None:
    observer = ElectionObserver(PROCESSES, "term", called=True)
    end = (names(3, 3, 7), names(1, 3, 7), names(2, 3, 7))
    one, other = observed(observer, names(1, 1, 5), *end), observed(observer, *end)
    assert one != other
    assert observer.pending(one) == observer.pending(other)
    unsettled = observed(observer, names(3, 3, 7), names(1, 3, 7))
    assert observer.pending(other) != observer.pending(unsettled)
    for knowledge in (one, unsettled):
        pending = observer.pending(knowledge)
        assert observer.at_rest(pending) == observer.at_rest(knowledge)
        assert observer.unfulfilled(pending) == observer.unfulfilled(knowledge)


def test_the_call_is_part_of_what_obligations_depend_on() -> None:
    observer = ElectionObserver(PROCESSES, "ever", called=False)
    assert observer.unfulfilled(observer.pending(observed(observer, elect(2))))


@pytest.mark.parametrize(
    ("scope", "expected"),
    [("ever", ["E3"]), ("term", ["E3"]), ("eventually", ["E1", "E3", "E4"])],
)
def test_an_eventual_election_is_judged_by_its_end(scope: str, expected: list[str]) -> None:
    assert ElectionObserver(PROCESSES, scope, called=True).about_the_end() == expected


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (names(1, 3), ["E1", "E2", "E3", "E4"]),
        (names(1, None), []),
        (elect(1), []),
        (crash(1), []),
    ],
)
def test_only_a_named_leader_shows_anything(event: ExternalEvent, expected: list[str]) -> None:
    observer = ElectionObserver(PROCESSES, "ever", called=True)
    assert list(observer.shown(event)) == expected
    assert list(observer.progress(event)) == []


# The client.


def test_a_client_calls_so_many_elections_and_need_not() -> None:
    client = ElectionClientModel(2)
    state = client.first()
    for _ in range(2):
        [call] = client.choices(state)
        assert call == PossibleRequest("elect", voluntary=True)
        assert client.indicated(state, Leader(3)) == client.crashed(state) == state
        state = client.asked(state, call)
    assert client.choices(state) == []


def test_a_client_without_a_limit_stays_in_one_state() -> None:
    client = ElectionClientModel(None)
    [call] = client.choices(client.first())
    assert client.asked(client.first(), call) == client.first()

"""The observer of mutual exclusion in a search against brute force and by examples; its client."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from tests.unit.problems.mutex_histories import Access, Run, accesses, outcome, runs, valid, waiting

from habemus.core.model import ClientState, ExternalEvent, Knowledge, PossibleRequest
from habemus.problems.fencing import (
    GrantedWithToken,
    LockLostWithToken,
    ResumedWithToken,
    Token,
    WriteOutcome,
)
from habemus.problems.mutex import Granted
from habemus.problems.mutex_observer import (
    MutexClientModel,
    MutexObserver,
    MutexScene,
    Visit,
    VisitStage,
)

# Events.


def acquire(process: int, own: int = 0, before: int = 0) -> ExternalEvent:
    return ExternalEvent("request", process, "acquire", None, own, before)


def granted(process: int, token: Token | None = None) -> ExternalEvent:
    value = Granted() if token is None else GrantedWithToken(token)
    return ExternalEvent("indicate", process, "Granted", value)


def resumed(process: int, token: Token) -> ExternalEvent:
    return ExternalEvent("indicate", process, "Resumed", ResumedWithToken(token, token))


def lost(process: int, token: Token) -> ExternalEvent:
    return ExternalEvent("indicate", process, "LockLost", LockLostWithToken(token))


def asked(process: int, name: str) -> ExternalEvent:
    return ExternalEvent("request", process, name)


def write(process: int, token: Token) -> ExternalEvent:
    return ExternalEvent("request", process, "write", token)


def crash(process: int) -> ExternalEvent:
    return ExternalEvent("crash", process)


def observed(
    *events: ExternalEvent | None, observer: MutexObserver | None = None
) -> tuple[MutexScene, list[Sequence[str]]]:
    """Return the knowledge after these events, and what each of them violates."""
    observer = observer or MutexObserver()
    knowledge: Knowledge = observer.first()
    violated: list[Sequence[str]] = []
    for event in events:
        names: Sequence[str] = ()
        if event is not None:
            before = hash(knowledge)
            after, names = observer.sees(knowledge, event)
            assert hash(knowledge) == before, "knowledge is a value"
            knowledge = after
        violated.append(names)
    assert isinstance(knowledge, MutexScene)
    return knowledge, violated


def last_of(*events: ExternalEvent) -> Sequence[str]:
    """Return what the last of these events violates; those before it violate nothing."""
    *before, last = observed(*events)[1]
    assert not any(before)
    return last


# ME1, ME2 and ME3.


@given(runs)
def test_the_observer_agrees_with_brute_force(run: Run) -> None:
    knowledge, violated = observed(*run.external)
    assert ["ME1" in names for names in violated] == run.violations_of_me1()
    assert ["ME3" in names for names in violated] == run.violations_of_me3()
    observer, stuck = MutexObserver(), sorted(waiting(run.history))
    assert list(observer.at_rest(knowledge)) == ["ME2-deadlock"] * bool(stuck)
    assert list(observer.unfulfilled(knowledge)) == [
        (name, process) for process in stuck for name in ("ME2-deadlock", "ME2-starvation")
    ]


@pytest.mark.parametrize(
    "end", [asked(1, "release"), asked(1, "break_off"), lost(1, (1, 1)), crash(1)]
)
def test_another_process_may_enter_when_a_stay_has_ended(end: ExternalEvent) -> None:
    assert last_of(granted(1, (1, 1)), granted(2, (1, 2))) == ["ME1"]
    assert last_of(granted(1, (1, 1)), end, granted(2, (1, 2))) == []


def test_a_crash_withdraws_the_request_of_its_process_only() -> None:
    knowledge, _ = observed(acquire(1), acquire(2), crash(1))
    assert MutexObserver().unfulfilled(knowledge) == [("ME2-deadlock", 2), ("ME2-starvation", 2)]


def test_a_request_that_happened_before_another_is_served_before_it() -> None:
    requests = (acquire(1, own=1), acquire(2, own=2, before=1), acquire(3, own=4))
    assert last_of(*requests, granted(2)) == ["ME3"]
    assert last_of(*requests, granted(3)) == [], "no message ties it to the others"
    assert last_of(*requests, granted(1), asked(1, "release"), granted(2)) == []
    assert last_of(*requests, crash(1), granted(2)) == []


def test_where_applications_tell_each_other_every_request_happened_before_the_next() -> None:
    events = (acquire(1), acquire(2), granted(2))
    assert observed(*events, observer=MutexObserver(outside=True))[1][-1] == ["ME3"]
    assert observed(*events, observer=MutexObserver())[1][-1] == []
    in_order = (acquire(1), acquire(2), granted(1), asked(1, "release"), granted(2))
    assert not any(observed(*in_order, observer=MutexObserver(outside=True))[1])


def test_outside_order_ignores_what_messages_say() -> None:
    """The bits of the events say that 2 happened before 1; the order of the events counts."""
    events = (acquire(1, own=1, before=2), acquire(2, own=2, before=0), granted(1))
    assert not any(observed(*events, observer=MutexObserver(outside=True))[1])
    assert observed(*events)[1][-1] == ["ME3"]


# An application that moves.

ONE, TWO = (1, 1), (1, 2)


def test_an_application_that_moves_stays_inside_on_its_way() -> None:
    assert last_of(granted(1, ONE), asked(1, "move"), granted(2, TWO)) == ["ME1"]
    assert last_of(granted(1, ONE), asked(1, "move"), resumed(2, ONE)) == []
    assert last_of(granted(1, ONE), asked(1, "move"), resumed(2, ONE), granted(1, TWO)) == ["ME1"]


def test_an_application_does_not_go_on_while_another_is_inside() -> None:
    assert last_of(granted(1, ONE), resumed(2, ONE)) == ["ME1"]


def test_an_application_does_not_go_on_after_a_larger_token_was_granted() -> None:
    """The other one has left already, but they were inside together."""
    moved = (granted(1, ONE), asked(1, "move"), crash(1))
    between = (granted(3, TWO), asked(3, "release"))
    assert last_of(*moved, *between, resumed(2, ONE)) == ["ME1"]
    assert last_of(*moved, *between, resumed(2, TWO)) == []


def test_an_application_that_cannot_go_on_has_left() -> None:
    moved = (granted(1, ONE), asked(1, "move"), lost(2, ONE))
    assert last_of(*moved, granted(3, TWO)) == []


def test_an_application_that_moves_back_is_not_a_stale_writer() -> None:
    """It writes with the same token at every process."""
    there = (granted(1, ONE), write(1, ONE), asked(1, "move"), resumed(2, ONE), write(2, ONE))
    back = (asked(2, "move"), resumed(1, ONE), write(1, ONE))
    assert last_of(*there, *back) == []
    assert last_of(*there, write(1, ONE)) == ["FENCE"]


# FENCE and TOKEN.


@given(accesses.map(valid))
def test_writes_are_judged_as_by_brute_force(history: list[Access]) -> None:
    events = [
        granted(process, token) if kind == "grant" else write(process, token)
        for kind, process, token in history
    ]
    _, violated = observed(*events)
    for position, (kind, _, _) in enumerate(history):
        is_stale = kind == "write" and outcome(history, position) is WriteOutcome.STALE
        assert ("FENCE" in violated[position]) == is_stale


def test_a_second_entry_with_the_same_token_is_not_a_stale_writer() -> None:
    """It violates TOKEN, and FENCE only if the process writes without a second grant."""
    both = (granted(1, ONE), write(1, ONE), granted(2, ONE), write(2, ONE))
    assert observed(*both, write(1, ONE))[1][-1] == ["FENCE"]
    assert observed(*both, granted(1, ONE), write(1, ONE))[1][-1] == []


@pytest.mark.parametrize(
    ("token", "expected"), [((1, 3), []), ((2, 1), []), ((1, 2), ["TOKEN"]), ((1, 1), ["TOKEN"])]
)
def test_a_token_is_larger_than_those_granted_before_its_request(
    token: Token, expected: list[str]
) -> None:
    first = (acquire(1), granted(1, TWO), asked(1, "release"))
    assert last_of(*first, acquire(2), granted(2, token)) == expected


def test_a_token_may_be_smaller_than_one_granted_after_its_request() -> None:
    first = (acquire(2), acquire(1), granted(1, TWO), asked(1, "release"))
    assert last_of(*first, granted(2, ONE)) == []
    assert last_of(*first, granted(2, TWO)) == ["TOKEN"]


def test_a_crash_forgets_when_its_process_made_its_request() -> None:
    first = (granted(1, TWO), asked(1, "release"), acquire(2))
    assert last_of(*first, granted(2, ONE)) == ["TOKEN"]
    assert last_of(*first, crash(2), granted(2, ONE)) == []


def test_grants_without_tokens_say_nothing_about_tokens() -> None:
    knowledge, violated = observed(acquire(1), granted(1), asked(1, "release"), granted(1))
    assert not any(violated)
    assert (knowledge.writes, knowledge.tokens) == (MutexScene().writes, MutexScene().tokens)


# The rest of the protocol of observers.


@pytest.mark.parametrize("event", [asked(1, "line_up"), ExternalEvent("recover", 1)])
def test_other_events_change_nothing(event: ExternalEvent) -> None:
    before = (granted(1, ONE), acquire(2))
    assert observed(*before, event)[0] == observed(*before)[0]
    assert last_of(*before, event) == []


def test_obligations_depend_on_who_waits_and_not_on_tokens_and_writes() -> None:
    observer = MutexObserver()
    one, _ = observed(granted(1, ONE), write(1, ONE), acquire(2))
    other, _ = observed(granted(1, TWO), acquire(2))
    idle, _ = observed(granted(1, TWO))
    assert one != other
    assert observer.pending(one) == observer.pending(other) != observer.pending(idle)
    for knowledge in (one, idle):
        pending = observer.pending(knowledge)
        assert observer.at_rest(pending) == observer.at_rest(knowledge)
        assert observer.unfulfilled(pending) == observer.unfulfilled(knowledge)


ALL_OF_ME = ["ME1", "ME2-deadlock", "ME2-starvation", "ME3"]


@pytest.mark.parametrize(
    ("event", "shown", "progress"),
    [
        (granted(1), ALL_OF_ME, ["ME2-deadlock"]),
        (granted(1, ONE), [*ALL_OF_ME, "TOKEN"], ["ME2-deadlock"]),
        (write(1, ONE), ["FENCE"], []),
        (acquire(1), [], []),
        (asked(1, "release"), [], []),
        (resumed(1, ONE), [], []),
        (crash(1), [], []),
    ],
)
def test_an_event_shows_the_properties_that_are_about_it(
    event: ExternalEvent, shown: list[str], progress: list[str]
) -> None:
    assert list(MutexObserver().shown(event)) == shown
    assert list(MutexObserver().progress(event)) == progress


def test_no_property_is_about_the_end_alone() -> None:
    assert MutexObserver().about_the_end() == []


# The client.


def names(client: MutexClientModel, state: ClientState) -> list[str]:
    return [each.name for each in client.choices(state)]


def after(client: MutexClientModel, state: ClientState, name: str) -> ClientState:
    """Return the state of a client after it has made this request, which it may."""
    [asking] = [each for each in client.choices(state) if each.name == name]
    return client.asked(state, asking)


def test_a_client_requests_waits_leaves_and_enters_so_many_times() -> None:
    client = MutexClientModel(2)
    state = client.first()
    for _ in range(2):
        assert client.choices(state) == [
            PossibleRequest("acquire", voluntary=True, is_ordered=True)
        ]
        state = after(client, state, "acquire")
        assert client.choices(state) == []
        state = client.indicated(state, Granted())
        assert client.choices(state) == [PossibleRequest("release")], "it leaves eventually"
        state = after(client, state, "release")
    assert client.choices(state) == []


def test_a_client_without_a_limit_comes_into_the_same_state_again() -> None:
    client = MutexClientModel(None)
    state = client.indicated(after(client, client.first(), "acquire"), Granted())
    assert after(client, state, "release") == client.first()


def test_a_client_with_a_token_writes_on_entry_and_before_it_leaves() -> None:
    client = MutexClientModel(1)
    state = client.indicated(after(client, client.first(), "acquire"), GrantedWithToken(TWO))
    for _ in range(2):
        assert client.choices(state) == [PossibleRequest("write", TWO)]
        state = after(client, state, "write")
    assert names(client, state) == ["release"]


def test_a_client_that_goes_on_elsewhere_writes_once_more() -> None:
    client = MutexClientModel(1)
    state = client.indicated(client.first(), ResumedWithToken(TWO, ONE))
    assert client.choices(state) == [PossibleRequest("write", TWO)]
    assert names(client, after(client, state, "write")) == ["release"]


def test_a_client_moves_to_others_as_often_as_it_may() -> None:
    client = MutexClientModel(None, moves=1, others=(2, 3), ways=("move",))
    state = client.indicated(after(client, client.first(), "acquire"), Granted())
    assert client.choices(state) == [
        PossibleRequest("release"),
        PossibleRequest("move", (2,), voluntary=True),
        PossibleRequest("move", (3,), voluntary=True),
    ]
    gone = client.asked(state, PossibleRequest("move", (3,), voluntary=True))
    assert gone == Visit(None, VisitStage.OUTSIDE, moves=0)
    again = client.indicated(after(client, gone, "acquire"), Granted())
    assert names(client, again) == ["release"]
    assert after(client, state, "release") == client.first(), "to leave is not to move"


def test_the_next_request_of_a_client_that_lines_up_waits_once() -> None:
    client = MutexClientModel(2, lines_up=True)
    state = client.indicated(after(client, client.first(), "acquire"), Granted())
    assert names(client, state) == ["release", "line_up"]
    assert names(client, after(client, state, "line_up")) == ["release"]
    last = client.indicated(after(client, after(client, state, "release"), "acquire"), Granted())
    assert names(client, last) == ["release"], "there is no next request"


def test_a_crash_ends_a_stay_and_returns_no_request() -> None:
    client = MutexClientModel(2, moves=1)
    state = client.indicated(after(client, client.first(), "acquire"), GrantedWithToken(TWO))
    assert client.crashed(state) == Visit(1, moves=1)


def test_a_client_ignores_other_indications() -> None:
    client = MutexClientModel(1)
    state = after(client, client.first(), "acquire")
    assert client.indicated(state, LockLostWithToken(ONE)) == state


@pytest.mark.parametrize("name", ["release", "break_off"])
def test_the_observer_knows_what_ends_a_stay(name: str) -> None:
    events = [
        ExternalEvent("indicate", 1, "Granted", Granted()),
        ExternalEvent("request", 1, name),
        ExternalEvent("indicate", 2, "Granted", Granted()),
    ]
    assert not any(observed(*events)[1])
    assert list(last_of(events[0], events[2])) == ["ME1"]

"""The folds of ME1 to ME4, FENCE and TOKEN, and the monitors around them, against brute force.

Brute force looks at the whole history of events for each verdict; the folds look at their state.
"""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.problems.mutex_histories import (
    PROCESSES,
    Access,
    Change,
    Run,
    Token,
    accesses,
    changes,
    inside,
    outcome,
    processes,
    runs,
    tokens,
    valid,
    waiting,
)

from habemus.core.events import Event, note
from habemus.core.properties import Finding, Verdict
from habemus.problems import fencing
from habemus.problems.fencing import (
    AcceptedWrites,
    FencedWrites,
    FenceMonitor,
    WriteOrder,
    WriteOutcome,
)
from habemus.problems.mutex_judgement import MutexEntry, MutexJudgement, MutexState, Overtaking
from habemus.problems.mutex_monitor import MutexMonitor
from habemus.problems.tokens import IssuedTokens, TokenMonitor, TokenOrder

# ME1, ME2 and ME3.


def apply(judgement: MutexJudgement, kind: str, process: int) -> MutexEntry | None:
    match kind:
        case "request":
            judgement.request(process)
        case "entry":
            return judgement.entry(process)
        case "exit":
            judgement.release(process)
        case "crash":
            judgement.crash(process)
    return None


@given(changes)
def test_exclusion_and_waiting_are_those_of_the_history(history: list[Change]) -> None:
    judgement = MutexJudgement()
    for position, (kind, process) in enumerate(history):
        before = inside(history[:position])
        entry = apply(judgement, kind, process)
        assert kind != "entry" or entry == (tuple(sorted(before - {process})), ())
        assert judgement.inside == inside(history[: position + 1])
        assert judgement.deadlocked() == sorted(waiting(history[: position + 1]))


@given(changes)
def test_a_judgement_goes_on_from_its_frozen_state(history: list[Change]) -> None:
    judgement, state = MutexJudgement(), MutexState()
    for kind, process in history:
        thawed = MutexJudgement.thawed(state)
        assert apply(thawed, kind, process) == apply(judgement, kind, process)
        state = thawed.frozen()
        assert state == judgement.frozen()
        assert hash(state) == hash(judgement.frozen())


def monitored(events: Sequence[Event]) -> dict[str, Finding]:
    monitor = MutexMonitor(PROCESSES)
    for event in events:
        monitor.observe(event)
    return {finding.name: finding for finding in monitor.findings("quiescent")}


@given(runs)
def test_the_monitor_agrees_with_brute_force(run: Run) -> None:
    findings = monitored(run.events)
    for name, expected in (("ME1", run.violations_of_me1()), ("ME3", run.violations_of_me3())):
        assert (findings[name].verdict is Verdict.VIOLATED) == any(expected)
        if any(expected):
            assert findings[name].time == expected.index(True)
    is_stuck = bool(waiting(run.history))
    assert (findings["ME2-deadlock"].verdict is Verdict.VIOLATED) == is_stuck


def test_a_second_grant_to_the_process_inside_is_not_two_processes_inside() -> None:
    judgement = MutexJudgement()
    assert judgement.entry(1) == judgement.entry(1) == MutexEntry((), ())
    assert judgement.entry(2) == MutexEntry((1,), ())


# ME4.


def passed(history: Sequence[Change], process: int) -> int:
    """Return the number of entries since the request of a process, 0 if none is pending."""
    if process not in waiting(history):
        return 0
    request = max(place for place, each in enumerate(history) if each == ("request", process))
    return sum(kind == "entry" for kind, _ in history[request:])


@given(changes, st.integers(0, 3))
def test_overtaking_is_that_of_the_history(history: list[Change], bound: int) -> None:
    overtaking, monitor = Overtaking(bound), MutexMonitor(PROCESSES, bound=bound)
    counts: list[int] = []
    for position, (kind, process) in enumerate(history):
        before = history[:position]
        assert [overtaking.passed(each) for each in PROCESSES] == [
            passed(before, each) for each in PROCESSES
        ]
        if kind == "request":
            overtaking.request(process)
        elif kind == "crash" or (kind == "exit" and process not in inside(before)):
            overtaking.withdraw(process)
        elif kind == "entry":
            counts.append(passed(before, process))
            assert overtaking.entry(process) == counts[-1]
            assert overtaking.is_violated_by(counts[-1]) == (counts[-1] > bound)
        assert overtaking.largest == max(counts, default=0)
        assert overtaking.entries == len(counts)
    for event in Run([(kind, process, process) for kind, process in history]).events:
        monitor.observe(event)
    [finding] = [each for each in monitor.findings("quiescent") if each.name == "ME4"]
    assert monitor.overtaking == overtaking.largest
    assert (finding.verdict is Verdict.VIOLATED) == any(count > bound for count in counts)


def test_each_pending_request_is_counted_from_its_own_moment() -> None:
    overtaking = Overtaking(bound=1)
    overtaking.request(1)
    assert overtaking.entry(3) == 0, "without a request"
    overtaking.request(2)
    assert overtaking.entry(3) == 0
    assert (overtaking.passed(1), overtaking.passed(2)) == (2, 1)
    assert not overtaking.is_violated_by(overtaking.entry(2))
    assert overtaking.is_violated_by(overtaking.entry(1))
    assert overtaking.entry(2) == 0
    assert (overtaking.entries, overtaking.largest) == (5, 3)


def test_without_a_bound_overtaking_is_only_counted() -> None:
    overtaking = Overtaking()
    overtaking.request(1)
    assert [overtaking.entry(each) for each in (2, 3, 1)] == [0, 0, 2]
    assert not overtaking.is_violated_by(2)


def test_a_crash_ends_the_request() -> None:
    overtaking = Overtaking()
    overtaking.request(1)
    overtaking.entry(2)
    overtaking.withdraw(1)
    assert overtaking.entry(1) == overtaking.largest == 0


# FENCE.


@given(accesses.map(valid))
def test_fenced_writes_are_judged_as_by_brute_force(history: list[Access]) -> None:
    writes, state = FencedWrites(), AcceptedWrites()
    monitor = FenceMonitor()
    expected = []
    for position, (kind, process, token) in enumerate(history):
        thawed = FencedWrites.thawed(state)
        if kind == "grant":
            writes.grant(process, token)
            thawed.grant(process, token)
            granted = fencing.GrantedWithToken(token)
            monitor.observe(Event(position, process, "indicate", "Granted", granted))
        else:
            expected.append(outcome(history, position))
            assert writes.write(process, token) is thawed.write(process, token) is expected[-1]
            monitor.observe(Event(position, process, "request", "write", note(token)))
        state = thawed.frozen()
        assert state == writes.frozen()
    finding = monitor.finding()
    assert (finding is not None and finding.verdict is Verdict.VIOLATED) == (
        WriteOutcome.STALE in expected
    )
    assert monitor.refused == expected.count(WriteOutcome.REFUSED)


def test_an_application_that_goes_on_at_another_process_is_an_entry() -> None:
    monitor = FenceMonitor()
    token = (1, 1)
    for event in (
        Event(1_000, 1, "indicate", "Granted", fencing.GrantedWithToken(token)),
        Event(1_500, 1, "request", "write", note(token)),
        Event(2_000, 2, "indicate", "Resumed", fencing.ResumedWithToken(token, token)),
        Event(2_500, 2, "request", "write", note(token)),
        Event(3_000, 1, "request", "write", note(token)),
    ):
        monitor.observe(event)
    assert monitor.tokens == [token]
    finding = monitor.finding()
    assert finding is not None
    assert finding.why == (
        "at 3 ms the resource accepted a write of 1, which entered at 1 ms with token 1.1, after"
        " one of 2, which entered at 2 ms with token 1.1"
    )


def test_a_smaller_token_that_was_accepted_violates_fence() -> None:
    writes = WriteOrder[str]()
    assert [writes.accept("2", 6), writes.accept("1", 5)] == [False, True]
    assert writes.newest == 6
    assert writes.accept("2", 6), "1 has written since"
    assert not writes.accept("3", 7)


def test_without_tokens_the_order_of_the_writers_is_judged() -> None:
    writes = WriteOrder[str]()
    given = ("1", "1", "2", "2", "1", "3")
    assert [writes.accept(entry, None) for entry in given] == [False] * 4 + [True, False]


# TOKEN.

issues = st.lists(st.tuples(st.sampled_from(("request", "grant")), processes, tokens), max_size=15)


def is_not_larger(history: Sequence[Access], position: int) -> bool:
    """Return whether a token is not larger than one that was granted before its request."""
    kind, process, token = history[position]
    own = [each for each in range(position) if history[each][1] == process]
    if kind != "grant" or not own or history[own[-1]][0] != "request":
        return False
    earlier = [token for kind, _, token in history[: own[-1]] if kind == "grant"]
    return bool(earlier) and token <= max(earlier)


@given(issues)
def test_tokens_are_judged_as_by_brute_force(history: list[Access]) -> None:
    order, state, monitor = TokenOrder(), IssuedTokens(), TokenMonitor()
    is_found = is_repeated = False
    for position, (kind, process, token) in enumerate(history):
        issued = [token for kind, _, token in history[:position] if kind == "grant"]
        thawed = TokenOrder.thawed(state)
        if kind == "request":
            order.request(process)
            thawed.request(process)
            monitor.observe(Event(position, process, "request", "acquire"))
        else:
            is_newest = bool(issued) and token == max(issued)
            expected = is_newest or is_not_larger(history, position)
            assert order.grant(process, token) == thawed.grant(process, token) == expected
            is_found |= expected
            is_repeated |= token in issued
            granted = fencing.GrantedWithToken(token)
            monitor.observe(Event(position, process, "indicate", "Granted", granted))
        state = thawed.frozen()
        assert state == order.frozen()
    finding = monitor.finding()
    is_violated = finding is not None and finding.verdict is Verdict.VIOLATED
    assert is_violated or not (is_found or is_repeated)


@given(st.permutations([(1, count) for count in range(1, 5)]), st.data())
def test_fold_and_monitor_agree_on_tokens_that_differ(
    issued: list[Token], data: st.DataObject
) -> None:
    """Each process requests once and is granted once, in any order."""
    steps = data.draw(st.permutations([process for process in range(4) for _ in range(2)]))
    order, monitor = TokenOrder(), TokenMonitor()
    requested: set[int] = set()
    is_found = False
    for time, process in enumerate(steps):
        if process not in requested:
            requested.add(process)
            order.request(process)
            monitor.observe(Event(time, process, "request", "acquire"))
        else:
            is_found |= order.grant(process, issued[process])
            granted = fencing.GrantedWithToken(issued[process])
            monitor.observe(Event(time, process, "indicate", "Granted", granted))
    finding = monitor.finding()
    assert finding is not None
    assert (finding.verdict is Verdict.VIOLATED) == is_found

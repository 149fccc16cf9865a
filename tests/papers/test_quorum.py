"""What the lecture notes claim of quorums, and what the cards of the quorum mutexes claim, one test
each.
"""

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from random import Random

import pytest

from habemus.algorithms.mutex.maekawa_sanders import Failed, Inquire, Vote, Yield
from habemus.algorithms.mutex.maekawa_sanders import Release as StampedRelease
from habemus.algorithms.mutex.maekawa_sanders import Request as StampedRequest
from habemus.algorithms.mutex.quorum import (
    Grant,
    Quorum,
    QuorumDurable,
    QuorumRetry,
    Recovered,
    Release,
    Request,
)
from habemus.algorithms.mutex.quorum_yield import QuorumYield
from habemus.catalog.entries import find
from habemus.core import Message, MistakeInPlan, ProcessId
from habemus.core.node import Effect, PureNode, Send, SetTimer, Stack
from habemus.core.properties import Verdict
from habemus.problems.mutex import Mutex
from habemus.runs.setup import Setup
from habemus.runs.simulate import Report, execute
from habemus.scenarios import find as scenario

NAMES = ("quorum", "quorum-durable", "quorum-retry", "quorum-yield")
COORDINATORS = (101, 102, 103)
SEEDS = 300


def sent(effects: Sequence[Effect]) -> list[tuple[ProcessId, Message]]:
    return [(effect.to, effect.message) for effect in effects if isinstance(effect, Send)]


def node_of(algorithm: type[Mutex], me: ProcessId, size: int = 3, **options: int) -> PureNode:
    system = algorithm.system(size, **options)
    return PureNode(
        Stack(system.plans[me]), me, system.topology.neighbours[me], lambda choices: choices[0]
    )


def crash(node: PureNode) -> None:
    """Everything that is not durable is gone."""
    node.restore(node.stack.forget(node.capture()))


def verdicts(report: Report) -> dict[str, Verdict]:
    return {finding.name: finding.verdict for finding in report.findings}


# Costs.


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_costs_three_messages_per_coordinator_and_two_message_times(name: str) -> None:
    for size in range(2, 31):
        costs = execute(Setup(name, size, workload="in-turn"), keep=False).costs
        assert costs["messages_per_entry"] == costs["formula"]["messages"] == 9
        assert costs["client_delay"] == costs["formula"]["client_delay"] == 2
    for coordinators in (1, 2, 4, 5, 7):
        costs = execute(
            Setup(name, 4, options=(f"coordinators={coordinators}",), workload="in-turn"),
            keep=False,
        ).costs
        assert costs["messages_per_entry"] == costs["formula"]["messages"] == 3 * coordinators


@pytest.mark.parametrize("name", NAMES)
def test_with_the_participants_as_coordinators_a_message_to_oneself_costs_nothing(
    name: str,
) -> None:
    for size in range(2, 12):
        costs = execute(
            Setup(name, size, options=("coordinators=0",), workload="in-turn"), keep=False
        ).costs
        assert costs["messages_per_entry"] == costs["formula"]["messages"] == 3 * (size - 1)
        assert costs["client_delay"] == costs["formula"]["client_delay"] == 2


@pytest.mark.parametrize("name", NAMES)
def test_the_next_one_enters_two_message_times_later(name: str) -> None:
    assert execute(Setup(name, 2, asks=("1@1ms+9ms", "2@2ms")), keep=False).costs["sync_delay"] == 2


def test_in_a_crowd_the_earliest_enters_in_two_message_times_and_none_pays_more_than_twice() -> (
    None
):
    for size in range(2, 11):
        costs = execute(
            Setup("quorum-yield", size, workload="burst", hold="50ms"), keep=False
        ).costs
        assert costs["sync_delay"] == costs["formula"]["sync_delay"] == 2
        assert costs["messages_per_entry"] <= 18


# Which groups of coordinators are quorums.


def test_two_quorums_share_2m_minus_n_coordinators_at_least() -> None:
    for coordinators in range(1, 8):
        needed = coordinators // 2 + 1
        groups = list(combinations(range(coordinators), needed))
        assert (
            min(len({*one} & {*other}) for one in groups for other in groups)
            == 2 * needed - coordinators
            >= 1
        )
        plan = Quorum.system(2, coordinators=coordinators).plans[1]
        assert isinstance(plan, Quorum)
        assert (plan.needed, len(plan.voters)) == (needed, coordinators)


@pytest.mark.parametrize(("coordinators", "quorum"), [(3, 1), (4, 2), (3, 4), (7, 3), (0, 1)])
@pytest.mark.parametrize("algorithm", [Quorum, QuorumYield])
def test_half_is_no_quorum_and_more_than_all_neither(
    algorithm: type[Mutex], coordinators: int, quorum: int
) -> None:
    with pytest.raises(MistakeInPlan, match="more than half"):
        algorithm.system(3, coordinators=coordinators, quorum=quorum)


@pytest.mark.parametrize(
    "option", ["coordinators=-1", "coordinators=many", "quorum=-2", "quorum=[1]"]
)
def test_what_is_no_number_is_refused(option: str) -> None:
    with pytest.raises(MistakeInPlan, match="must be numbers"):
        execute(Setup("quorum", 3, options=(option,)))


def test_participants_are_numbered_from_one_and_coordinators_are_told_apart() -> None:
    system = Quorum.system(3)
    assert system.clients == (1, 2, 3)
    assert [system.label(process) for process in system.topology.processes] == [
        "1",
        "2",
        "3",
        "c1",
        "c2",
        "c3",
    ]
    assert sorted(Quorum.system(150).plans)[-3:] == [1001, 1002, 1003]


# The coordinator's rules.


def test_a_coordinator_grants_one_at_a_time_in_order_of_arrival() -> None:
    c1 = node_of(Quorum, 101)
    assert sent(c1.deliver(0, 2, Request(1))) == [(2, Grant(1))]
    assert sent(c1.deliver(0, 1, Request(1))) == []
    assert sent(c1.deliver(0, 3, Request(1))) == []
    assert sent(c1.deliver(0, 2, Release(1))) == [(1, Grant(1))]
    assert sent(c1.deliver(0, 1, Release(1))) == [(3, Grant(1))]


def test_a_release_of_one_who_waits_takes_it_out_of_the_queue_and_any_other_is_ignored() -> None:
    c1 = node_of(Quorum, 101)
    c1.deliver(0, 1, Request(1))
    c1.deliver(0, 2, Request(1))
    assert sent(c1.deliver(0, 2, Release(1))) == []
    assert sent(c1.deliver(0, 3, Release(7))) == []
    assert sent(c1.deliver(0, 1, Release(1))) == [], "nobody is left in the queue"
    assert sent(c1.deliver(0, 2, Request(2))) == [(2, Grant(2))]


@pytest.mark.parametrize("algorithm", [Quorum, QuorumDurable, QuorumRetry])
def test_messages_of_an_old_request_are_recognised(algorithm: type[Mutex]) -> None:
    c1 = node_of(algorithm, 101)
    c1.deliver(0, 1, Release(1))
    assert sent(c1.deliver(0, 1, Request(1))) == [], "its release has overtaken it"
    assert sent(c1.deliver(0, 1, Request(2))) == [(1, Grant(2))]
    assert sent(c1.deliver(0, 1, Request(2))) == [], "a copy"
    c1.deliver(0, 2, Request(1))
    assert sent(c1.deliver(0, 1, Release(1))) == [], "late, and not of the request that was granted"
    assert sent(c1.deliver(0, 1, Request(3))) == [(2, Grant(1))], (
        "whoever asks anew has ended what it asked before"
    )
    one = node_of(algorithm, 1)
    one.request("acquire")
    one.deliver(0, 101, Grant(1))
    one.deliver(0, 102, Grant(1))
    one.request("release")
    assert sent(one.request("acquire")) == [
        (coordinator, Request(2)) for coordinator in COORDINATORS
    ]
    one.deliver(0, 103, Grant(1))
    assert one.deliver(0, 101, Grant(2)) == [], "a grant of the old request does not count"
    assert one.deliver(0, 102, Grant(2)) != []


# The runs of the notes.


def test_the_run_that_succeeds_has_the_queues_of_the_notes() -> None:
    trace = scenario("quorum-success").run().report.trace
    assert trace is not None
    seen = {
        coordinator: [
            event.peer
            for event in trace.events
            if (event.kind, event.name, event.process) == ("receive", "Request", coordinator)
        ]
        for coordinator in COORDINATORS
    }
    assert seen == {101: [1, 2], 102: [1, 2], 103: [2, 1]}
    granted = [
        (event.process, event.peer)
        for event in trace.events
        if (event.kind, event.name) == ("send", "Grant")
    ]
    assert sorted(granted[:3]) == [(101, 1), (102, 1), (103, 2)]
    assert sorted(granted[3:]) == [(101, 2), (102, 2)]
    assert [event.process for event in trace.events if event.name == "Granted"] == [1, 2]


@pytest.mark.parametrize("size", [3, 7])
def test_a_coordinator_that_forgets_lets_a_second_one_in_and_one_that_stores_does_not(
    size: int,
) -> None:
    forgetting = scenario(f"quorum-amnesia-{size}").run()
    storing = scenario(f"quorum-durable-{size}").run()
    assert forgetting.report.violated == ["ME1"]
    shared = {3: "c2", 7: "c4"}[size]
    assert f"2 entered on Grant(1) from {shared}" in forgetting.report.why
    assert "while 1 was inside" in forgetting.report.why
    assert storing.report.verdict is Verdict.HOLDS
    assert storing.report.costs["entries"] == 2, "everybody is served"
    assert forgetting.scenario.setup.faults == storing.scenario.setup.faults


@pytest.mark.parametrize("name", ["quorum-split", "quorum-durable-split"])
def test_split_grants_are_explained_by_the_cycle(name: str) -> None:
    why = scenario(name).run().report.why
    assert "1 for c2 and c3, 2 for c1 and c3, 3 for c1 and c2" in why
    assert "cycle 1 -> c2 -> 2 -> c1 -> 1" in why


def test_the_earliest_enters_first_when_grants_are_given_back() -> None:
    trace = scenario("quorum-split-yield").run().report.trace
    assert trace is not None
    assert [event.process for event in trace.events if event.name == "Granted"] == [1, 2, 3]
    assert not [event for event in trace.events if event.kind == "timer"]


# Stable memory.


@pytest.mark.parametrize("algorithm", [QuorumDurable, QuorumRetry])
def test_a_coordinator_comes_back_with_its_grant_and_its_queue(algorithm: type[Mutex]) -> None:
    c1 = node_of(algorithm, 101)
    c1.deliver(0, 2, Request(4))
    c1.deliver(0, 3, Request(1))
    c1.deliver(0, 1, Request(9))
    crash(c1)
    back = c1.recover()
    assert sent(back) == [(2, Grant(4))]
    assert sent(c1.deliver(0, 3, Request(1))) == [], "it is in the queue"
    assert sent(c1.deliver(0, 2, Release(4))) == [(3, Grant(1))]
    assert sent(c1.deliver(0, 3, Release(1))) == [(1, Grant(9))]


def test_a_coordinator_without_stable_memory_comes_back_with_nothing() -> None:
    c1 = node_of(Quorum, 101)
    c1.deliver(0, 2, Request(4))
    crash(c1)
    assert c1.recover() == []
    assert sent(c1.deliver(0, 3, Request(1))) == [(3, Grant(1))]


def test_whoever_is_asked_again_says_what_it_wants() -> None:
    one = node_of(QuorumDurable, 1)
    assert sent(one.deliver(0, 101, Recovered())) == [], "it has never asked"
    one.request("acquire")
    assert sent(one.deliver(0, 101, Recovered())) == [(101, Request(1))]
    one.deliver(0, 102, Grant(1))
    one.deliver(0, 103, Grant(1))
    assert sent(one.deliver(0, 101, Recovered())) == [(101, Request(1))], "inside"
    one.request("release")
    assert sent(one.deliver(0, 101, Recovered())) == [(101, Release(1))]


@pytest.mark.parametrize(
    ("algorithm", "over"), [(QuorumDurable, Release(1)), (QuorumYield, StampedRelease(1))]
)
def test_a_participant_that_comes_back_gives_back_what_it_had_and_does_not_use_its_number_again(
    algorithm: type[Mutex], over: Message
) -> None:
    one = node_of(algorithm, 1)
    one.request("acquire")
    crash(one)
    assert sent(one.recover()) == [(coordinator, over) for coordinator in COORDINATORS]
    assert sent(one.request("acquire"))[0][1] in (Request(2), StampedRequest(2))


def test_whoever_gives_up_asks_anew_and_stops_its_timer_when_it_enters() -> None:
    report = scenario("quorum-split-retry").run().report
    assert report.trace is not None
    timers = [event for event in report.trace.events if event.kind == "timer"]
    assert timers, "somebody gave up"
    assert report.ending.reason == "done"
    one = node_of(QuorumRetry, 1)
    [*requests, timer] = one.request("acquire")
    assert len(requests) == 3
    assert isinstance(timer, SetTimer)
    assert sent(one.fire(0, timer.timer)) == [
        (coordinator, Request(2)) for coordinator in COORDINATORS
    ]
    one.deliver(0, 101, Grant(2))
    assert any(type(effect).__name__ == "CancelTimer" for effect in one.deliver(0, 102, Grant(2)))


def test_a_vote_that_is_sent_again_has_a_new_number_and_the_old_one_cannot_be_given_back() -> None:
    """Else a YIELD that was under way during the restart would free a vote that its sender has got
    again.
    """
    c1 = node_of(QuorumYield, 101)
    assert sent(c1.deliver(0, 2, StampedRequest(5))) == [(2, Vote(5, 6))]
    assert sent(c1.deliver(0, 1, StampedRequest(5))) == [(2, Inquire(6))]
    crash(c1)
    assert sent(c1.recover()) == [(2, Vote(5, 7)), (2, Inquire(7))]
    assert sent(c1.deliver(0, 2, Yield(6))) == []
    assert sent(c1.deliver(0, 2, Yield(7))) == [(1, Vote(5, 8))]


def test_a_vote_that_comes_after_its_successor_was_given_back_does_not_count() -> None:
    two = node_of(QuorumYield, 2)
    two.request("acquire")
    two.deliver(0, 102, Failed(1))
    two.deliver(0, 103, Failed(1))
    two.deliver(0, 101, Vote(1, 7))
    assert sent(two.deliver(0, 101, Inquire(7))) == [(101, Yield(7))]
    two.deliver(0, 101, Vote(1, 6))
    two.deliver(0, 102, Vote(1, 2))
    [part] = two.parts
    assert isinstance(part, QuorumYield)
    assert part.votes == {102}


def test_with_fewer_than_all_votes_needed_one_hopes_until_too_many_have_put_it_off() -> None:
    two = node_of(QuorumYield, 2)
    two.request("acquire")
    two.deliver(0, 101, Vote(1, 2))
    assert sent(two.deliver(0, 101, Inquire(2))) == []
    assert sent(two.deliver(0, 102, Failed(1))) == [], "c1 and c3 would be enough"
    assert sent(two.deliver(0, 103, Failed(1))) == [(101, Yield(2))]


# Many runs.


def restarts(seed: int, victims: Sequence[ProcessId]) -> tuple[tuple[str, str], ...]:
    """Some of the victims crash, between two steps or in the middle of one, and come back, at the
    latest in the end.
    """
    draw = Random(seed)
    faults: list[tuple[str, str]] = []
    for _ in range(3):
        victim = draw.choice(victims)
        moment = (
            f"{draw.randrange(500, 15_000)}us"
            if draw.randrange(2)
            else f"send#{draw.randrange(1, 12)}"
        )
        faults += [
            ("crash", f"{victim}@{moment}"),
            ("recover", f"{victim}@{draw.randrange(1_000, 25_000)}us"),
        ]
    return (
        *faults,
        *(
            ("recover", f"{victim}@{moment}ms")
            for victim in victims
            for moment in (30, 60, 120, 250)
        ),
    )


def sweep(
    name: str,
    promised: Sequence[str],
    *,
    sizes: Sequence[int] = (2, 3, 4),
    crashes: bool = False,
    seeds: int = SEEDS,
    options: tuple[str, ...] = (),
) -> None:
    """What is promised must hold in each of many runs, and entries must happen in most."""
    entered = 0
    for seed in range(seeds):
        setup = Setup(
            name,
            sizes[seed % len(sizes)],
            seed,
            options,
            workload="burst" if seed % 2 else "steady",
            requests=2,
            delay=("exp:1ms", "heavy:300us", "500..1500us")[seed % 3],
            duplicate="0.1" if seed % 5 == 0 else "0",
            faults=restarts(seed, COORDINATORS) if crashes else (),
            until="30s",
        )
        report = execute(setup, keep=False)
        found = verdicts(report)
        entered += report.costs["entries"] > 0
        for promise in promised:
            allowed = (
                {Verdict.HOLDS} if promise != "ME1" else {Verdict.HOLDS, Verdict.UNDECIDED}
            )  # Undecided: nobody entered.
            assert found[promise] in allowed, f"{setup.command()}: {report.why}"
    assert entered > seeds // 2


SERVED = ("ME1", "ME2-deadlock", "ME2-starvation")


@pytest.mark.parametrize(
    "run",
    [
        partial(sweep, "quorum", ("ME1",)),
        partial(sweep, "quorum", SERVED, sizes=(2,), seeds=100),
        partial(sweep, "quorum-retry", SERVED),
        partial(sweep, "quorum-yield", SERVED),
        partial(sweep, "quorum-yield", SERVED, seeds=100, options=("coordinators=4",)),
    ],
    ids=["quorum", "quorum of two", "quorum-retry", "quorum-yield", "quorum-yield with four"],
)
def test_over_many_seeds_what_is_claimed_holds(run: partial[None]) -> None:
    """Two participants cannot split three grants, so everybody is served even by the plain
    quorum.
    """
    run()


@pytest.mark.parametrize(
    "run",
    [
        partial(sweep, "quorum-durable", ("ME1",), crashes=True),
        partial(sweep, "quorum-durable", SERVED, sizes=(2,), seeds=100, crashes=True),
        partial(sweep, "quorum-retry", SERVED, crashes=True),
        partial(sweep, "quorum-yield", SERVED, crashes=True),
    ],
    ids=["quorum-durable", "quorum-durable of two", "quorum-retry", "quorum-yield"],
)
def test_over_many_seeds_with_restarts_of_coordinators_what_is_claimed_holds(
    run: partial[None],
) -> None:
    run()


def test_the_restarts_happen() -> None:
    for seed in range(12):
        trace = execute(
            Setup(
                "quorum-yield",
                3,
                seed,
                requests=2,
                delay="exp:1ms",
                faults=restarts(seed, COORDINATORS),
            )
        ).trace
        assert trace is not None
        kinds = {event.kind for event in trace.events}
        assert {"crash", "recover"} <= kinds


def test_over_many_seeds_with_restarts_of_everybody_nobody_is_let_in_twice() -> None:
    for name in ("quorum-durable", "quorum-retry", "quorum-yield"):
        for seed in range(SEEDS // 6):
            faults = restarts(seed, (1, 2, 3, *COORDINATORS))
            setup = Setup(
                name, 3, seed, requests=3, hold="4ms", delay="exp:1ms", faults=faults, until="30s"
            )
            report = execute(setup, keep=False)
            assert verdicts(report)["ME1"] is not Verdict.VIOLATED, (
                f"{setup.command()}: {report.why}"
            )
            assert (
                verdicts(report)["ME2-deadlock"] is not Verdict.VIOLATED or name == "quorum-durable"
            ), f"{setup.command()}: {report.why}"


def test_the_cards_claim_what_was_seen() -> None:
    assert {name: find(name).box.ensures for name in NAMES} == {
        "quorum": ("ME1",),
        "quorum-durable": ("ME1",),
        "quorum-retry": ("ME1",),
        "quorum-yield": ("ME1", "ME2"),
    }
    for name in NAMES:
        unsafe = find(name).unsafe
        if unsafe is not None:
            broken = scenario(unsafe)
            assert broken.setup.algorithm == name
            assert broken.violates

"""Interventions: for every algorithm, a fork keeps its past and a stepped run is the whole run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from habemus.catalog.entries import entries
from habemus.core.process import MistakeInPlan
from habemus.runs.commands import run_of
from habemus.runs.execution import Execution
from habemus.runs.interventions import parsed, what, written
from habemus.runs.parsing import BadNotation
from habemus.runs.setup import BadSetup, Setup
from habemus.runs.simulate import execute
from habemus.runtimes.sim.interventions import Deliver
from habemus.schedules.schedule import parsed as parsed_step

ALGORITHMS = sorted(entries())


def executed(setup: Setup, deliveries: int | None = None) -> Execution:
    execution = Execution(setup)
    execution.advance(deliveries)
    return execution


def small(name: str) -> Setup:
    return Setup(name, 3, seed=11, delay="500..1500", requests=2, until="600ms", events=400)


def lines(execution: Execution, count: int) -> list[str]:
    return [event.line() for event in execution.events[:count]]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_fork_shares_the_whole_prefix(name: str) -> None:
    setup = small(name)
    whole = executed(setup)
    total = whole.simulation.delivered
    assert total > 3
    for constant in (False, True):  # both ways of sending, which draw other random bits
        parent = whole if not constant else executed(replace(setup, delay="1ms"))
        for share, deed in ((1, "2 crashes"), (2, "cut 1|2,3"), (3, "luck 7"), (5, "heal all")):
            anchor = parent.simulation.delivered * share // 6
            fork = executed(replace(parent.setup, then=(f"{anchor}: {deed}",)))
            shared = sum(made <= anchor for made in parent.deliveries)
            assert lines(fork, shared) == lines(parent, shared), (deed, anchor)
            if deed.endswith("crashes"):
                assert fork.events[shared].kind == "crash"
                assert fork.events[shared].process == 2


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_stepped_run_is_the_whole_run(name: str) -> None:
    setup = replace(small(name), then=("5: 2 pauses for 3ms", "20: luck 3"))
    whole, stepped = executed(setup), Execution(setup)
    while stepped.advance(1) is None:
        assert stepped.simulation.recorder.delivered == stepped.simulation.delivered
    assert stepped.digest == whole.digest
    assert stepped.deliveries == whole.deliveries
    assert stepped.ending == whole.ending


@pytest.mark.parametrize("name", ALGORITHMS)
def test_any_pending_event_can_be_the_next(name: str) -> None:
    parent = executed(small(name), 4)
    shared = len(parent.events)
    choices = [each.choice() for each in parent.simulation.pending()]
    possible = [each for each in choices if each is not None]
    assert possible
    for choice in (possible[0], possible[-1]):
        then = f"{parent.simulation.delivered}: {written(choice)}"
        assert parsed(then)[1] == choice
        fork = executed(replace(parent.setup, then=(then,)), parent.simulation.delivered)
        assert fork.missed() == []
        assert lines(fork, shared) == lines(parent, shared)
        assert fork.simulation.delivered == parent.simulation.delivered + 1
        assert fork.events[shared].process == choice.process


RUN = "ricart-agrawala -n 3 --ask 1@1ms --ask 2@1ms"


def fork(*then: str, run: str = RUN) -> Execution:
    return executed(replace(run_of(run), then=then))


def kinds(execution: Execution, begin: int) -> list[tuple[str, int, str]]:
    return [(event.kind, event.process, event.name) for event in execution.events[begin:]]


def test_one_message_is_lost_duplicated_and_delayed() -> None:
    parent = executed(run_of(RUN), 2)
    begin, anchor = len(parent.events), parent.simulation.delivered
    assert [each.text for each in parent.simulation.pending()] == ["Request(1)"] * 4
    lost = fork(f"{anchor}: Request(1) from 1 to 3 is lost")
    assert kinds(lost, begin)[0] == ("lost", 3, "Request")
    assert not [each for each in lost.events if each.kind == "receive" and each.process == 3][1:]
    twice = fork(f"{anchor}: Request(1) from 1 to 3 is duplicated")
    assert kinds(twice, begin)[0] == ("duplicate", 1, "Request")
    received = [each for each in twice.events if each.kind == "receive" and each.process == 3]
    assert [each.peer for each in received].count(1) == 2
    late = fork(f"{anchor}: Request(1) from 1 to 3 is delayed by 7ms")
    [receipt] = [
        each for each in late.events if each.kind == "receive" and each[1:2] + each[5:6] == (3, 1)
    ]
    assert receipt.time == 2000 + 7000
    assert lost.missed() == twice.missed() == late.missed() == []


def test_an_ordinal_tells_equal_messages_apart() -> None:
    run = "quorum -n 2 --option coordinators=1 --duplicate 100% --delay 500..1500 --seed 2"
    parent = executed(run_of(run), 1)
    same = [each for each in parent.simulation.pending() if each.kind == "message"]
    assert [each.ordinal for each in same][:2] == [1, 2]
    first, second = same[0], same[1]
    assert (first.text, first.process, first.sender) == (second.text, second.process, second.sender)
    anchor = parent.simulation.delivered
    name = f"{first.text} from {first.sender} to {first.process} is lost"
    one, other = fork(f"{anchor}: {name}", run=run), fork(f"{anchor}: {name} #2", run=run)
    received = [
        next(
            each.time for each in run.events if each.kind == "receive" and each.peer == first.sender
        )
        for run in (one, other)
    ]
    assert received == [second.time, first.time]


def test_an_intervention_after_the_end_lets_the_run_go_on() -> None:
    whole = executed(run_of(RUN))
    assert whole.ended == "done"
    again = fork(f"{whole.simulation.delivered}: 2 crashes")
    assert lines(again, len(whole.events)) == lines(whole, len(whole.events))
    assert again.events[len(whole.events)].kind == "crash"
    assert again.missed() == []


def test_luck_gives_another_future() -> None:
    run = "central -n 3 --requests 3 --delay 500..1500"
    digests = {fork(f"10: luck {number}", run=run).digest for number in range(4)}
    assert len(digests) == 4
    assert fork("10: luck 1", run=run).digest in digests


@pytest.mark.parametrize(
    ("then", "why"),
    [
        ("900: 2 crashes", "the run ended after"),
        ("3: 2 recovers", "the process was not down"),
        ("3: 2 receives Reply(77) from 1", "no such message is under way"),
        ("3: 2 receives Request(1) from 1 #3", "only 1 such messages are under way"),
        ("3: 3 acquire", "has no such request to make"),
        ("3: 3 timer Retry", "has set no such timer"),
    ],
)
def test_an_intervention_that_took_no_place_is_reported(then: str, why: str) -> None:
    report = execute(replace(run_of(RUN), then=(then,)))
    [missed] = report.missed_faults
    assert missed.startswith(f"then {then!r} did not take place: ") and why in missed


def test_one_delivery_has_one_choice() -> None:
    both = fork("2: 3 receives Request(1) from 1", "2: 3 receives Request(1) from 2")
    assert both.ended == "done"
    assert "an earlier intervention made delivery 3" in both.missed()[0]
    assert fork("2: 3 receives Request(1) from 1", "3: 3 receives Request(1) from 2").missed() == []


def test_links_that_keep_the_order_keep_it() -> None:
    run = "lamport -n 2 --ask 1@1ms+0 --ask 2@1ms+0 --delay 5ms"
    ready = executed(run_of(run), 3)
    [behind] = [each for each in ready.simulation.pending() if each.obstacle]
    with pytest.raises(MistakeInPlan, match="an earlier message of the same link comes first"):
        ready.simulation.step(Deliver(behind.process, 2, behind.text))
    late = fork("3: Request(1) from 2 to 1 is delayed by 30ms", run=run)
    assert "links keep the order" in late.missed()[0]


TEXTS = (
    "2 receives Reply(8) from 1 at .links #2",
    "Reply(8) from 1 to 2 is lost",
    "Reply(8) from 1 to 2 is duplicated at .links",
    "Reply(8) from 1 to 2 is delayed by 5000 #3",
    "2 timer Retry(1) at .election",
    "2 acquire",
    "2 crashes",
    "2 recovers",
    "2 forgets",
    "2 is replaced",
    "2 pauses for 5000",
    "cut 1,2|3",
    "cut 1>2",
    "heal 1-2",
    "heal all",
    "slow 1>2=500..1500",
    "luck 5",
)


@pytest.mark.parametrize("text", TEXTS)
def test_the_notation_is_read_as_it_is_written(text: str) -> None:
    assert written(what(text)) == text
    setup = Setup("central", 3, then=(f"60: {text}",))
    assert run_of(setup.command()) == setup


@pytest.mark.parametrize("text", [each for each in TEXTS if "#" not in each][:9])
def test_the_words_are_those_of_schedules(text: str) -> None:
    if "duplicated" not in text:
        assert str(parsed_step(text)) == text


@pytest.mark.parametrize(
    "text", ["2 crashes", "x: 2 crashes", "5:", "5: dance", "5: 2", "-3: 2 crashes", "5: cut 1|"]
)
def test_bad_interventions_are_refused(text: str) -> None:
    with pytest.raises((BadSetup, BadNotation)):
        execute(Setup("central", 3, then=(text,)))


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("6: 2 xyz", "there are 2 acquire, 2 release, 2 write, 2 crashes, 2 recovers"),
        ("6: 2 crashs", "did you mean 2 crashes?"),
        ("6: 2 aquire", "did you mean 2 acquire?"),
    ],
)
def test_an_unknown_verb_is_refused_with_those_that_exist(text: str, hint: str) -> None:
    with pytest.raises(BadNotation, match="is not an intervention; ") as refused:
        execute(Setup("central", 3, then=(text,)))
    assert hint in str(refused.value)


def test_unknown_processes_are_refused() -> None:
    with pytest.raises(MistakeInPlan, match="there is no process 9"):
        execute(Setup("central", 3, then=("5: 9 crashes",)))


def test_labels_name_processes_in_interventions() -> None:
    report = execute(Setup("central", 2, then=("3: coordinator crashes", "2: cut coordinator|1,2")))
    assert report.setup.then == ("2: cut 0|1,2", "3: 0 crashes")
    assert report.missed_faults == []

"""A recorded trace goes on in the simulator: for every algorithm, from any event."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.lab import asking

from habemus.catalog.entries import entries
from habemus.core.events import Event
from habemus.core.properties import Verdict
from habemus.lab.session import Session
from habemus.runs.execution import Execution
from habemus.runs.past import Past
from habemus.runs.setup import Setup
from habemus.runs.simulate import execute
from habemus.runtimes.replay import Replay
from habemus.traces import Trace
from habemus.traces.file import written


def recorded(setup: Setup) -> Trace:
    trace = execute(setup).trace
    assert trace is not None
    return trace


def executed(setup: Setup, deliveries: int) -> Execution:
    run = Execution(setup)
    run.advance(deliveries)
    return run


@pytest.mark.parametrize(
    ("events", "inside", "waiting"),
    [
        (["1 request acquire", "2 request acquire", "1 indicate Granted"], (1,), (2,)),
        (["1 request acquire", "1 request release"], (), ()),
        (["1 indicate Granted", "1 indicate LockLost"], (), ()),
        (["1 indicate Granted", "1 request move", "2 indicate Resumed"], (2,), ()),
        (["1 indicate Granted", "1 request break_off", "2 request acquire"], (), (2,)),
        (["1 indicate Granted", "2 request acquire", "1 crash", "2 crash"], (), ()),
    ],
)
def test_applications_that_are_inside_and_that_wait(
    events: list[str], inside: tuple[int, ...], waiting: tuple[int, ...]
) -> None:
    made = tuple(
        Event(0, int(process), kind, "".join(name))
        for process, kind, *name in (each.split() for each in events)
    )
    found = Past({}, Execution(Setup("central", 3)).system, made).workload()
    assert (found.inside, found.waiting) == (inside, waiting)


def under_way(run: Execution) -> list[tuple[str, int, int | None, str, str]]:
    """The messages and timers that are still to come."""
    return sorted(
        (each.kind, each.process, each.sender, each.text, each.part)
        for each in run.simulation.pending()
        if each.kind in ("message", "timer")
    )


@pytest.mark.parametrize("name", sorted(entries()))
def test_the_processes_go_on_from_their_states(name: str) -> None:
    setup = Setup(
        name, 3, seed=5, requests=2, delay="500..1500", until="300ms", faults=(("crash", "1@9ms"),)
    )
    first = Execution(setup)
    first.advance(300)
    count = len(first.events)
    for share in (1, 3, 5):
        past = Past(setup.plain(), first.system, tuple(first.events)).up_to(count * share // 6)
        shared = len(past.events)
        run = Execution(
            replace(setup, faults=(), until=None, then=("2: 2 pauses for 3ms",)), past=past
        )
        run.advance(0)
        assert under_way(run) == under_way(executed(setup, first.deliveries[shared - 1]))
        run.advance(200)
        assert [event.line() for event in run.events[:shared]] == [
            event.line() for event in first.events[:shared]
        ]
        assert run.simulation.delivered > 0 or run.ended
        # The pure processes do all of it: states, messages and timers fit the past.
        steps = sum(1 for _ in Replay(run.system).states(run.events))
        assert steps >= sum(event.kind == "start" for event in run.events)
        numbers = [event.number for event in run.events if event.kind == "send"]
        assert len(numbers) == len(set(numbers))


def test_a_fork_of_a_live_trace_finishes_what_was_begun() -> None:
    trace = recorded(Setup("ricart-agrawala", 3, seed=7))
    live = replace(trace, run={"live": True, "algorithm": "ricart-agrawala", "n": 3}, findings=())
    session = Session()

    def ask(**message: Any) -> list[dict[str, Any]]:
        return asking.ask(session, **message)

    opened, events = ask(do="open", trace="".join(f"{line}\n" for line in written(live)))
    assert opened["playable"] and events["ended"] == "recorded"
    at = next(i for i, line in enumerate(events["lines"]) if line.get("name") == "Granted")
    branched, fork = ask(do="intervene", branch=0, at=at, what="luck 3")
    assert branched["shared"] == fork["from"] == at + 1
    lamps = {lamp["property"]: lamp["run"] for lamp in fork["lamps"]}
    assert (lamps["ME1"], lamps["ME2-deadlock"]) == ("holds", "holds")
    assert fork["ended"] == "done"
    assert next(line["name"] for line in fork["lines"] if line["e"] == "request") == "release"
    [pending] = ask(do="pending", branch=0, at=at)
    assert "release" in [each["text"] for each in pending["pending"]]
    holder = events["lines"][at]["p"]
    branched, fork = ask(do="intervene", branch=0, at=at, what=f"{holder} crashes")
    assert (fork["lines"][0]["e"], fork["lines"][0]["p"]) == ("crash", holder)
    again, _ = ask(do="intervene", branch=branched["branch"], at=at + 1, what="luck 4")
    assert again["shared"] == at + 2 and len(again["interventions"]) == 2
    before, _ = ask(do="intervene", branch=branched["branch"], at=at - 3, what="luck 4")
    assert before["shared"] <= at
    [state] = ask(do="state", branch=branched["branch"], event=at + 1)
    assert state["is"] == "state"


def test_a_process_that_is_down_can_recover() -> None:
    setup = Setup("quorum", 2, faults=(("crash", "101@5ms"),), asks=("1@1ms+9ms",))
    trace = recorded(setup)
    crash = next(i for i, event in enumerate(trace.events) if event.kind == "crash")
    past = Past({}, execute(setup).system, trace.events).up_to(crash)
    run = Execution(replace(setup, faults=(), then=("0: 101 recovers",)), past=past)
    run.advance()
    assert run.missed() == []
    assert run.events[crash + 1].kind == "recover"
    [me1] = [each for each in run.findings() if each.name == "ME1"]
    assert me1.verdict is not Verdict.VIOLATED


def test_a_process_that_has_not_started_starts() -> None:
    setup = Setup("bully", 3)
    trace = recorded(setup)
    past = Past({}, execute(setup).system, trace.events[:1])
    run = Execution(setup, past=past)
    run.advance()
    assert [event.process for event in run.events if event.kind == "start"] == [1, 2, 3]

"""The states that readers see are those of the processes, in every runtime."""

from __future__ import annotations

from dataclasses import replace

import pytest

from habemus.catalog.entries import entries, find
from habemus.runs.check import Check, perform
from habemus.runs.setup import Setup
from habemus.runs.simulate import execute
from habemus.runs.states import UnknownVariable, states_of
from habemus.scenarios import scenarios
from habemus.traces.diagram import svg
from habemus.traces.mermaid import mermaid
from habemus.traces.table import text
from habemus.traces.view import Selection


def test_a_deferred_reply_is_seen() -> None:
    report = scenarios()["ra-three"].run().report
    assert report.trace is not None
    states = states_of(report.trace, report.system, ["state", "deferred"])
    notes = states.notes(report.trace.events, range(len(report.trace.events)))
    assert "deferred {B}" in notes.values()
    assert "state HELD" in notes.values()
    assert "state RELEASED · deferred {}" in notes.values()


@pytest.mark.parametrize("name", entries())
def test_every_algorithm_names_variables_that_it_has(name: str) -> None:
    algorithm = find(name).algorithm
    assert set(algorithm.shows) <= set(algorithm.__state_names__)


def test_components_have_paths() -> None:
    report = execute(Setup("omega", 3, until="50ms"))
    assert report.trace is not None
    names = ["leader", "detector.suspected", "growth"]
    states = states_of(report.trace, report.system, names)
    assert states.names == tuple(names)
    with pytest.raises(UnknownVariable, match=r"show leder: .* did you mean leader\?"):
        states_of(report.trace, report.system, ["leder"])


def test_changes_are_those_of_all_variables() -> None:
    report = execute(Setup("central", 2))
    assert report.trace is not None
    states = states_of(report.trace, report.system, ["changes"])
    table = text(report.trace, states=states)
    said = [
        line.split("  ")[-1].strip() for line in table.splitlines() if "coordinator  gets" in line
    ]
    assert said == ["holder 2", "waiting [1]", "holder 1 · waiting []", "holder none"]


def test_a_step_that_is_hidden_is_told_with_the_next_one() -> None:
    report = execute(Setup("central", 2))
    assert report.trace is not None
    states = states_of(report.trace, report.system, ["holder"])
    shown = [
        index
        for index, event in enumerate(report.trace.events)
        if event.process == 0 and event.name not in ("Request", "Grant")
    ]
    assert list(states.notes(report.trace.events, shown).values()) == ["holder 1", "holder none"]


def test_a_counterexample_has_states() -> None:
    report = perform(Check("ra-majority-naive", 3))
    assert report.trace is not None
    states = states_of(report.trace, report.system, ["state"])
    assert "HELD" in {value for values in states.after.values() for value in values}


def test_a_trace_that_the_processes_do_not_follow_has_none() -> None:
    report = execute(Setup("central", 2))
    assert report.trace is not None
    events = tuple(
        event._replace(peer=3 - (event.peer or 0))
        if event.kind == "send" and not event.process
        else event
        for event in report.trace.events
    )
    with pytest.raises(ValueError, match=r"show needs the states, .*, process 0 on receive"):
        states_of(replace(report.trace, events=events), report.system, ["holder"])


def test_a_run_with_a_fault_at_an_event_has_states() -> None:
    """Its messages are recorded after the indications of their step."""
    report = scenarios()["ring-repair-slow"].run().report
    assert report.trace is not None
    states = states_of(report.trace, report.system, ["has_token"])
    assert ("yes",) in states.after.values()


def test_states_are_in_every_form() -> None:
    report = scenarios()["ra-three"].run().report
    assert report.trace is not None
    states = states_of(report.trace, report.system, ["default"])
    assert states.names == ("state", "clock", "stamp", "deferred")
    assert ">deferred {B}<" in svg(report.trace, states=states)
    assert "Note right of p1: clock 10 #183; deferred #123;B#125;" in mermaid(
        report.trace, states=states
    )
    table = text(report.trace, width=100, states=states)
    assert "state     clock  stamp  deferred" in table
    assert all(len(line) <= 100 for line in table.splitlines())
    window = text(report.trace, states=states, selection=Selection(end=2_000))
    assert len(window.splitlines()) < len(table.splitlines())

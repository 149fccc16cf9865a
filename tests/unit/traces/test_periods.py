"""How long a process waited, was inside, was down or stood still."""

from __future__ import annotations

import pytest

from habemus.core.events import Event
from habemus.traces import Trace
from habemus.traces.periods import DOWN, INSIDE, PAUSED, WAITING, Period, holders, periods


def event(process: int, kind: str, name: str = "", part: str = "") -> Event:
    return Event(0, process, kind, name, part=part)


def test_from_asking_to_entering_to_leaving() -> None:
    events = [
        event(1, "request", "acquire"),
        event(1, "indicate", "Granted"),
        event(1, "request", "release"),
    ]
    assert periods(events) == [Period(1, WAITING, 0, 1), Period(1, INSIDE, 1, 2)]


@pytest.mark.parametrize(
    ("kind", "name"),
    [("indicate", "LockLost"), ("request", "move"), ("request", "break_off")],
)
def test_an_application_can_lose_its_lock_or_go_on_elsewhere(kind: str, name: str) -> None:
    events = [
        event(1, "indicate", "Granted"),
        event(1, kind, name),
        event(2, "indicate", "Resumed"),
    ]
    assert periods(events) == [Period(1, INSIDE, 0, 1), Period(2, INSIDE, 2)]
    assert list(holders(events)) == [(1,), (), (2,)]


def test_a_crash_ends_whatever_the_process_was_doing() -> None:
    events = [
        *(event(1, "indicate", "Granted"), event(2, "request", "acquire"), event(3, "pause")),
        *(event(1, "crash"), event(2, "crash"), event(3, "crash"), event(1, "recover")),
    ]
    found = periods(events)
    assert found == [
        *(Period(1, INSIDE, 0, 3), Period(2, WAITING, 1, 4), Period(3, PAUSED, 2, 5)),
        *(Period(1, DOWN, 3, 6), Period(2, DOWN, 4), Period(3, DOWN, 5)),
    ]


def test_what_has_not_ended_lasts() -> None:
    assert periods([event(1, "request", "acquire"), event(2, "indicate", "Granted")]) == [
        Period(1, WAITING, 0),
        Period(2, INSIDE, 1),
    ]


def test_components_below_do_not_count() -> None:
    assert (
        periods([event(1, "indicate", "Granted", ".lock"), event(1, "request", "acquire", ".lock")])
        == []
    )


def test_other_requests_and_indications_do_not_count() -> None:
    assert periods([event(1, "request", "elect"), event(1, "indicate", "Leader")]) == []


def test_holders_are_those_inside_after_each_event(stories: dict[str, Trace]) -> None:
    trace = stories["violation"]
    seen = list(dict.fromkeys(holders(trace.events)))
    assert seen == [(), (1,), (1, 2), (2,)]
    assert list(holders([event(1, "indicate", "Granted"), event(1, "crash")])) == [(1,), ()]

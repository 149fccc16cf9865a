"""The calendar of a simulated run."""

from __future__ import annotations

import random

import pytest

from habemus.runtimes.sim.calendar import CONTROL, Calendar


@pytest.fixture
def calendar() -> Calendar:
    return Calendar(random.Random(1).getrandbits)


def test_an_instant_enters_the_heap_once(calendar: Calendar) -> None:
    calendar.enter(7, (1, 0, 0, "a"))
    calendar.enter(7, (0, 0, 0, "b"))
    calendar.enter(3, (0, 0, 0, "c"))
    assert sorted(calendar.instants) == [3, 7]
    assert [event[3] for event in calendar.buckets[7]] == ["a", "b"]


@pytest.mark.parametrize("after", [0, -5, 1])
def test_a_control_event_is_never_added_to_the_present_instant(
    calendar: Calendar, after: int
) -> None:
    calendar.now = 10
    number = calendar.schedule(after, "control")
    assert calendar.instants == [11]
    [(_, address, sequence, control)] = calendar.buckets[11]
    assert (address, sequence, control) == (CONTROL, number, "control")


def test_schedule_first_comes_before_every_drawn_tie(calendar: Calendar) -> None:
    calendar.schedule(5, "later")
    calendar.schedule_first(5, "first")
    assert sorted(calendar.buckets[5])[0][3] == "first"


def test_events_that_are_put_back_come_before_those_entered_meanwhile(calendar: Calendar) -> None:
    calendar.now = 4
    calendar.put_back([(9, 0, 0, "rest")])
    assert calendar.instants == [4]
    calendar.put_back([])
    assert calendar.instants == [4]


def test_a_draw_stays_within_its_range_and_reaches_both_ends(calendar: Calendar) -> None:
    assert {calendar.draw((2, 4)) for _ in range(100)} == {2, 3, 4}
    assert calendar.draw(9) == 9


def test_clear_starts_over(calendar: Calendar) -> None:
    first = calendar.schedule(5, "control")
    calendar.now = 5
    calendar.clear()
    assert (calendar.now, calendar.instants, dict(calendar.buckets)) == (0, [], {})
    assert calendar.schedule(5, "control") == first

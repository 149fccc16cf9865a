"""Where moments stand: causes above effects, nothing too near, no wait too long."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from habemus.core.events import Event
from habemus.traces import Trace
from habemus.traces.diagram.scale import LEAST, MESSAGE_HEIGHT, MOST, STEP, TICK_DISTANCE, Scale
from habemus.traces.flights import flights
from habemus.traces.network import KINDS_OF_CHANGE


def scale_of(trace: Trace) -> Scale:
    return Scale(trace.events, flights(trace.events))


def test_causes_stand_above_effects(story: Trace) -> None:
    scale = scale_of(story)
    for flight in flights(story.events):
        if flight.ended is not None and not flight.is_swallowed:
            assert flight.sent is not None
            assert scale.y(flight.sent) + LEAST <= scale.y(flight.ended)
    last: dict[int, float] = {}
    for index, event in enumerate(story.events):
        if event.kind not in (*KINDS_OF_CHANGE, "lost", "duplicate"):
            assert last.get(event.process, 0.0) <= scale.y(index)
            last[event.process] = scale.y(index)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 10**9),
            st.integers(1, 3),
            st.sampled_from(["timer", "send", "request", "cut"]),
        ),
        max_size=40,
    )
)
def test_moments_are_neither_too_near_nor_too_far_apart(steps: list[tuple[int, int, str]]) -> None:
    events = [
        Event(time, process, kind, "Tick", None, 1 + process % 3, None)
        for time, process, kind in sorted(steps)
    ]
    scale = Scale(events, flights(events))
    moments = sorted({event.time for event in events})
    for one, other in pairwise(moments):
        assert scale.at(one) + LEAST <= scale.at(other) + 0.01
        assert scale.at(one) <= scale.at((one + other) // 2) <= scale.at(other)
    rows = sorted({scale.y(index) for index in range(len(events))})
    for above, below in pairwise(rows):
        assert LEAST - 0.01 <= below - above <= MOST + 0.01
    for process in (1, 2, 3):
        own = [
            scale.y(index)
            for index, event in enumerate(events)
            if event.process == process and event.kind in ("timer", "request")
        ]
        assert all(below - above >= STEP - 0.01 for above, below in pairwise(own))


def test_distances_are_true_in_between() -> None:
    events = []
    for number, (sent, arrives) in enumerate([(0, 1_000), (2_000, 3_000), (3_500, 4_500)], start=1):
        events += [
            Event(sent, 1, "send", "Ping", None, 2, number),
            Event(arrives, 2, "receive", "Ping", None, 1, number),
        ]
    scale = Scale(events, flights(events))
    assert [scale.y(index) for index in range(6)] == [
        MESSAGE_HEIGHT * each / 1_000 for each in (0, 1_000, 2_000, 3_000, 3_500, 4_500)
    ]
    assert scale.gaps == []


def test_a_long_wait_is_a_break() -> None:
    events = [Event(time, 1, "timer", "Tick") for time in (0, 1_000, 2_000, 900_000, 901_000)]
    scale = Scale(events, [])
    [gap] = scale.gaps
    assert (gap.duration, gap.bottom - gap.top) == (898_000, MOST)
    assert (gap.top, gap.bottom) == (scale.y(2), scale.y(3))


def test_two_signs_never_lie_on_each_other() -> None:
    events = [
        Event(0, 1, "timer", "Tick"),
        Event(0, 1, "indicate", "Leader"),
        Event(0, 1, "indicate", "Suspected"),
        Event(0, 1, "send", "Ping", None, 2, 1),
        Event(0, 2, "indicate", "Leader"),
    ]
    scale = Scale(events, flights(events))
    assert scale.y(0) < scale.y(1) < scale.y(2) == scale.y(3)
    assert scale.y(4) == scale.y(0)


def test_an_effect_that_seems_to_come_before_its_cause_does_not() -> None:
    """Clocks of two machines differ, and the order of the events is right."""
    events = [
        Event(1_000, 1, "send", "Ping", None, 2, 1),
        Event(400, 2, "receive", "Ping", None, 1, 1),
        Event(500, 2, "timer", "Tick"),
    ]
    scale = Scale(events, flights(events))
    assert scale.y(0) < scale.y(1) < scale.y(2)


def test_ticks_are_round_and_apart(story: Trace) -> None:
    scale = scale_of(story)
    ticks = scale.ticks()
    assert len(ticks) >= 2
    for one, other in pairwise(ticks):
        assert other.y - one.y >= TICK_DISTANCE
        assert one.time < other.time
    for tick in ticks:
        digits = str(tick.time).rstrip("0")
        assert len(digits) <= 3, tick.time
        assert tick.y == scale.at(tick.time)


def test_the_roundest_ticks_come_first() -> None:
    events = [Event(time, 1, "timer", "Tick") for time in range(0, 10_001, 500)]
    assert [tick.time for tick in Scale(events, []).ticks()] == list(range(0, 10_001, 500))
    sparse = [Event(time, 1, "timer", "Tick") for time in (0, 10_000)]
    assert [tick.time for tick in Scale(sparse, []).ticks()] == [0, 10_000]


def test_an_axis_begins_at_zero_unless_the_clock_ran_long_before() -> None:
    assert Scale([Event(900, 1, "start"), Event(1_900, 1, "crash")], []).origin() == 0
    assert Scale([Event(90_000, 1, "start"), Event(91_000, 1, "crash")], []).origin() == 90_000

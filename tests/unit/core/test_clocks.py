"""Logical clocks, held against the happened-before relation worked out by hand."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from habemus.core import clocks
from habemus.core.clocks import VectorClock, tick, tick_past

relaxed = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


class Stamped(NamedTuple):
    process: int
    lamport: int
    vector: VectorClock
    causes: frozenset[int]  # the events that happened before this one, by their numbers


class Run:
    """A run of a few processes that stamps its events and, apart from that, remembers the causes of each."""

    def __init__(self, size: int) -> None:
        processes = range(1, size + 1)
        self.lamport = dict.fromkeys(processes, 0)
        self.vector = {process: VectorClock.zero(processes) for process in processes}
        self.known: dict[int, frozenset[int]] = {process: frozenset() for process in processes}
        self.under_way: list[tuple[int, Stamped, int]] = []
        self.events: list[Stamped] = []

    def _happened(self, process: int) -> Stamped:
        event = Stamped(process, self.lamport[process], self.vector[process], self.known[process])
        self.known[process] |= {len(self.events)}
        self.events.append(event)
        return event

    def local(self, process: int) -> Stamped:
        self.lamport[process] = tick(self.lamport[process])
        self.vector[process] = self.vector[process].tick(process)
        return self._happened(process)

    def send(self, process: int, to: int) -> None:
        event = self.local(process)
        self.under_way.append((to, event, len(self.events) - 1))

    def receive(self, which: int) -> None:
        if not self.under_way:
            return
        process, sent, number = self.under_way.pop(which % len(self.under_way))
        self.lamport[process] = tick_past(self.lamport[process], sent.lamport)
        self.vector[process] = self.vector[process].tick_past(process, sent.vector)
        self.known[process] |= sent.causes | {number}
        self._happened(process)


SIZE = 4
processes = st.integers(1, SIZE)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("local"), processes),
        st.tuples(st.just("send"), processes, processes),
        st.tuples(st.just("receive"), st.integers(0, 10)),
    ),
    max_size=30,
)


def run_of(taken: list[tuple[str, *tuple[int, ...]]]) -> list[Stamped]:
    run = Run(SIZE)
    for step, *arguments in taken:
        getattr(run, step)(*arguments)
    return run.events


@relaxed
@given(steps)
def test_a_cause_has_the_smaller_lamport_stamp(taken: list[tuple[str, *tuple[int, ...]]]) -> None:
    events = run_of(taken)
    for event in events:
        for cause in sorted(event.causes):
            assert events[cause].lamport < event.lamport


@relaxed
@given(steps)
def test_vector_clocks_are_the_happened_before_relation(taken: list[tuple[str, *tuple[int, ...]]]) -> None:
    events = run_of(taken)
    for (number, one), (_, other) in itertools.product(enumerate(events), repeat=2):
        assert one.vector.happened_before(other.vector) == (number in other.causes)
    for (first, one), (second, other) in itertools.combinations(enumerate(events), 2):
        assert one.vector.concurrent_with(other.vector) == (first not in other.causes and second not in one.causes)
        assert clocks.concurrent(one.vector.counts, other.vector.counts) == one.vector.concurrent_with(other.vector)


@relaxed
@given(steps)
def test_sorted_vector_clocks_never_put_an_effect_before_its_cause(taken: list[tuple[str, *tuple[int, ...]]]) -> None:
    in_order = sorted(event.vector for event in run_of(taken))
    for earlier, later in itertools.combinations(in_order, 2):
        assert not later.happened_before(earlier)


def test_the_worked_example_of_ricart_and_agrawala() -> None:
    a, b, c = 5, 3, 7
    a = request_of_a = tick(a)
    assert request_of_a == 6
    b = reply_of_b = tick_past(b, request_of_a)
    assert reply_of_b == 7
    c = reply_of_c = tick_past(c, request_of_a)
    assert reply_of_c == 8
    b = request_of_b = tick(b)
    assert request_of_b == 8
    assert tick_past(c, request_of_b) == 9
    for received in (reply_of_b, reply_of_c, request_of_b):
        a = tick_past(a, received)
    assert a == 10
    assert tick(a) == 11, "the release is stamped 11; a stamp of 9 would break the rule"


vectors = st.tuples(*[st.integers(0, 3)] * 3).map(lambda counts: VectorClock((1, 2, 3), counts))


@relaxed
@given(vectors, vectors, vectors)
def test_merge_is_a_least_upper_bound(one: VectorClock, other: VectorClock, third: VectorClock) -> None:
    merged = one.merge(other)
    assert merged == other.merge(one)
    assert merged.merge(third) == one.merge(other.merge(third))
    assert one.merge(one) == one
    for each in (one, other):
        assert each == merged or each.happened_before(merged)
    if all(each == third or each.happened_before(third) for each in (one, other)):
        assert merged == third or merged.happened_before(third)


@relaxed
@given(vectors, vectors)
def test_exactly_one_of_before_after_equal_and_concurrent(one: VectorClock, other: VectorClock) -> None:
    assert [one == other, one.happened_before(other), other.happened_before(one), one.concurrent_with(other)].count(True) == 1


def test_a_vector_clock_does_not_change() -> None:
    before = VectorClock.zero((7, 3))
    after = before.tick(3)
    assert (before[7], before[3]) == (0, 0)
    assert (after[7], after[3]) == (0, 1)
    assert after.counts == (0, 1), "counts stand in the given order of the processes"
    with pytest.raises(AttributeError, match="does not change"):
        before.counts = (1, 1)  # type: ignore[misc]  # the mistake under test
    assert hash(before.tick(3)) == hash(after)
    assert pickle.loads(pickle.dumps(after)) == after == copy.deepcopy(after)


def test_a_vector_clock_from_a_mapping_is_in_ascending_order() -> None:
    assert VectorClock.of({3: 5, 1: 2}) == VectorClock((1, 3), (2, 5)) == VectorClock.of({1: 2, 3: 5})


def test_bare_tuples_as_traces_carry_them() -> None:
    assert clocks.happened_before((1, 0), (1, 1))
    assert not clocks.happened_before((1, 1), (1, 1))
    assert not clocks.happened_before((2, 0), (1, 1))
    assert clocks.concurrent((2, 0), (1, 1))
    assert not clocks.concurrent((1, 1), (1, 1))


def test_what_cannot_be_compared_is_refused() -> None:
    clock = VectorClock.zero((1, 2))
    stranger = VectorClock.zero((2, 1))
    for compare in (clock.merge, clock.happened_before, clock.concurrent_with):
        with pytest.raises(ValueError, match="over different processes"):
            compare(stranger)
    for compare_bare in (clocks.happened_before, clocks.concurrent):
        with pytest.raises(ValueError, match="of 1 and of 2 processes"):
            compare_bare((1,), (1, 2))
    with pytest.raises(ValueError, match="process 3 is not in this vector clock; it has 1, 2"):
        clock.tick(3)
    with pytest.raises(ValueError, match="process 3 is not"):
        clock[3]
    with pytest.raises(ValueError, match="process 2 is named twice"):
        VectorClock.zero((2, 1, 2))
    with pytest.raises(ValueError, match="process 1 cannot have had -1 events"):
        VectorClock.of({1: -1})

"""Faults written in the notation are read as the same faults."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from habemus.faults import (
    Crash,
    Cut,
    Fault,
    Heal,
    Nth,
    Pause,
    Recover,
    Replace,
    Skew,
    Slow,
    between,
    both_ways,
    one_way,
)
from habemus.runs.fault_notation import all_written, written
from habemus.runs.notation import FAULT_PARSERS, BadNotation
from habemus.runtimes.sim.network import Exponential, HeavyTail, Uniform, UntilGst

processes = st.integers(0, 9)
names = st.sampled_from(["send", "Granted", "acquire"])
moments = st.integers(0, 10**9) | st.builds(Nth, names, st.integers(1, 99), st.none() | processes)
pairs = st.tuples(processes, processes).filter(lambda pair: pair[0] != pair[1])
links = pairs.map(lambda pair: one_way(*pair)) | pairs.map(lambda pair: both_ways(*pair))
partitions = st.permutations(range(6)).flatmap(
    lambda members: st.integers(1, 5).map(lambda k: between(members[:k], members[k:]))
)
uniform = st.integers(1, 99).map(lambda low: Uniform(low, low + 7))
delays = (
    uniform
    | st.builds(Exponential, st.integers(1, 99))
    | st.builds(HeavyTail, st.integers(1, 99))
    | st.builds(UntilGst, st.builds(HeavyTail, st.integers(1, 99)), uniform, st.integers(0, 99))
)
single = (
    st.builds(Crash, processes, moments)
    | st.builds(Recover, processes, moments, st.booleans())
    | st.builds(Replace, processes, st.integers(0, 10**9))
    | st.builds(Pause, processes, moments, st.integers(1, 10**6))
    | st.builds(Cut, links | partitions, moments)
    | st.builds(Heal, st.just(()) | links | partitions, moments)
    | st.builds(Slow, links, moments, delays)
    | st.builds(Skew, processes, st.integers(-900_000, 9_000_000))
)


@given(single)
def test_what_is_written_is_read_as_the_same_fault(fault: Fault) -> None:
    [(kind, text)] = written(fault)
    assert FAULT_PARSERS[kind](text) == fault


@given(st.lists(pairs, min_size=1, max_size=6, unique=True), moments)
def test_any_links_are_written_whole(some: list[tuple[int, int]], when: int | Nth) -> None:
    read = [FAULT_PARSERS[kind](text) for kind, text in written(Cut(tuple(some), when))]
    assert {link for fault in read for link in fault.links} == set(some)  # type: ignore[union-attr]


def test_texts_and_values_mix() -> None:
    assert all_written([Crash(2, 5_000), "recover 2@9ms", "--cut 1>2@5ms"]) == (
        ("crash", "2@5000"),
        ("recover", "2@9ms"),
        ("cut", "1>2@5ms"),
    )
    with pytest.raises(BadNotation, match="'crash'"):
        all_written(["crash"])

"""Voting sets: every pair meets, every process is in its own, and they are as small as promised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import chain, combinations, permutations
from math import isqrt
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from habemus.core import quorums
from habemus.core.quorums import (
    VotingSets,
    grid,
    majority,
    more_than_half,
    projective_plane,
    sizes_with_plane,
    weighted_majority,
)

relaxed = settings(derandomize=True)

ORDERS = (2, 3, 4, 5, 7, 8, 9, 11, 13, 16)
PLANES = tuple(order * order + order + 1 for order in ORDERS)
SIZES = range(1, 61)

ids = st.lists(st.integers(-1000, 1000), min_size=1, max_size=40, unique=True)


def assert_voting_sets(sets: Mapping[int, tuple[int, ...]], processes: list[int] | range) -> None:
    """The definition, without the help of `VotingSets.check`."""
    assert list(sets) == sorted(processes)
    for process, voters in sets.items():
        assert process in voters
        assert list(voters) == sorted(set(voters))
        assert set(voters) <= set(processes)
    for one, other in combinations(sets.values(), 2):
        assert set(one) & set(other)


# Majority.


@pytest.mark.parametrize("size", SIZES)
def test_majorities(size: int) -> None:
    sets = majority(size)
    assert_voting_sets(sets, range(1, size + 1))
    assert sets.check() is sets
    assert sets.is_regular
    assert sets.size == size // 2 + 1 == more_than_half(size)
    assert set(Counter(chain.from_iterable(sets.values())).values()) == {sets.size}, (
        "everybody votes equally often"
    )


def test_the_majorities_of_three_are_the_cycle_in_which_maekawa_deadlocks() -> None:
    assert majority(3) == {1: (1, 2), 2: (2, 3), 3: (1, 3)}


# Weights.

weights_of_some = st.dictionaries(st.integers(-50, 50), st.integers(1, 30), min_size=1, max_size=25)


@relaxed
@given(weights_of_some)
def test_weighted_majorities(weights: dict[int, int]) -> None:
    sets = weighted_majority(weights)
    assert_voting_sets(sets, sorted(weights))
    total = sum(weights.values())
    for process, voters in sets.items():
        weight = sum(weights[voter] for voter in voters)
        assert 2 * weight > total
        for spared in voters:
            assert spared == process or 2 * (weight - weights[spared]) <= total, (
                "nobody is asked in vain"
            )


@relaxed
@given(st.lists(st.integers(1, 9), min_size=1, max_size=7))
def test_weighted_majorities_ask_as_few_as_possible(given_weights: list[int]) -> None:
    weights = dict(enumerate(given_weights))
    total = sum(given_weights)
    for process, voters in weighted_majority(weights).items():
        others = [other for other in weights if other != process]
        fewest = next(
            count
            for count in range(len(weights))
            if any(
                2 * (weights[process] + sum(weights[each] for each in some)) > total
                for some in combinations(others, count)
            )
        )
        assert len(voters) == 1 + fewest


def test_one_process_with_more_than_half_of_the_weight_decides() -> None:
    assert weighted_majority({1: 1, 2: 5, 3: 1, 4: 1}) == {1: (1, 2), 2: (2,), 3: (2, 3), 4: (2, 4)}


def test_exactly_half_of_the_weight_is_not_enough() -> None:
    assert weighted_majority({1: 2, 2: 1, 3: 1}) == {1: (1, 2), 2: (1, 2), 3: (1, 3)}


@pytest.mark.parametrize(
    ("total", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (100, 51), (101, 51)]
)
def test_more_than_half(total: int, needed: int) -> None:
    assert more_than_half(total) == needed


# Grid.


@pytest.mark.parametrize("size", SIZES)
def test_grids(size: int) -> None:
    sets = grid(size)
    assert_voting_sets(sets, range(1, size + 1))
    sets.check()
    assert sets.size <= isqrt(4 * size - 1), "ceil(2 sqrt(N)) - 1"
    if isqrt(size) ** 2 == size:
        assert sets.is_regular
        assert sets.size == 2 * isqrt(size) - 1


@relaxed
@given(ids)
def test_grids_of_any_processes(processes: list[int]) -> None:
    assert_voting_sets(grid(processes), processes)
    assert grid(processes) == grid(sorted(processes)), (
        "the order in which processes are named does not matter"
    )


def test_the_grid_of_nine_is_rows_and_columns() -> None:
    assert grid(9)[5] == (2, 4, 5, 6, 8)
    assert grid(9)[1] == (1, 2, 3, 4, 7)


def test_a_short_last_row_still_meets_everybody() -> None:
    sets = grid(7)  # 1 2 3 / 4 5 6 / 7
    assert sets[7] == (1, 4, 7)
    assert sets[3] == (1, 2, 3, 6)
    assert not sets.is_regular
    assert sets.size == 5


# Projective planes.


@pytest.mark.parametrize("order", ORDERS)
def test_planes(order: int) -> None:
    size = order * order + order + 1
    sets = projective_plane(size)
    assert_voting_sets(sets, range(1, size + 1))
    sets.check()
    assert sets.is_regular
    assert sets.size == order + 1
    lines = [frozenset(voters) for voters in sets.values()]
    assert len(set(lines)) == size, "every process has a line of its own"
    assert all(len(one & other) == 1 for one, other in combinations(lines, 2)), (
        "two lines meet in exactly one point"
    )
    joined = Counter(pair for voters in sets.values() for pair in combinations(voters, 2))
    assert len(joined) == size * (size - 1) // 2, "two points are on exactly one line"
    assert set(joined.values()) == {1}
    assert set(Counter(chain.from_iterable(sets.values())).values()) == {order + 1}


@pytest.mark.parametrize("order", ORDERS)
def test_the_line_is_a_perfect_difference_set(order: int) -> None:
    size = order * order + order + 1
    line = quorums._difference_set(order)
    assert line[0] == 0
    assert sorted((one - other) % size for one, other in permutations(line, 2)) == list(
        range(1, size)
    )


@pytest.mark.parametrize(("prime", "degree"), [(2, 2), (2, 3), (3, 2), (2, 4), (5, 1), (13, 3)])
def test_a_generator_runs_through_the_whole_field(prime: int, degree: int) -> None:
    powers = quorums._powers_of_generator(prime, degree)
    assert len(set(powers)) == prime**degree - 1
    assert (0,) * degree not in powers
    assert all(0 <= coefficient < prime for element in powers for coefficient in element)


def test_the_fano_plane() -> None:
    assert projective_plane(7) == {
        1: (1, 2, 6),
        2: (2, 3, 7),
        3: (1, 3, 4),
        4: (2, 4, 5),
        5: (3, 5, 6),
        6: (4, 6, 7),
        7: (1, 5, 7),
    }


def test_a_plane_larger_than_those_that_are_listed() -> None:
    assert projective_plane(307).size == 18
    assert 307 in sizes_with_plane(307)


@relaxed
@given(st.lists(st.integers(-100, 100), min_size=13, max_size=13, unique=True))
def test_planes_of_any_processes(processes: list[int]) -> None:
    sets = projective_plane(processes)
    assert_voting_sets(sets, processes)
    assert sets == projective_plane(sorted(processes))


def test_sizes_with_plane() -> None:
    assert sizes_with_plane() == PLANES
    assert sizes_with_plane(57) == (7, 13, 21, 31, 57)
    assert sizes_with_plane(56) == (7, 13, 21, 31)
    assert sizes_with_plane(6) == sizes_with_plane(0) == sizes_with_plane(-5) == ()


@pytest.mark.parametrize("size", range(1, 320))
def test_a_plane_is_built_or_refused_as_listed(size: int) -> None:
    if size in sizes_with_plane(320):
        assert len(projective_plane(size)) == size
    else:
        with pytest.raises(ValueError, match=f"no projective plane of {size} points is known"):
            projective_plane(size)


@pytest.mark.parametrize(
    ("size", "nearest"),
    [
        (1, "7"),
        (3, "7"),
        (8, "7 or 13"),
        (43, "31 or 57"),
        (300, "273 or 307"),
        (1000, "993 or 1057"),
    ],
)
def test_the_nearest_planes_are_named(size: int, nearest: str) -> None:
    with pytest.raises(ValueError, match=rf"the nearest that is has {nearest}$"):
        projective_plane(size)


@pytest.mark.parametrize(
    ("number", "prime"),
    [
        (0, None),
        (1, None),
        (2, 2),
        (6, None),
        (8, 2),
        (9, 3),
        (10, None),
        (12, None),
        (121, 11),
        (128, 2),
        (143, None),
    ],
)
def test_prime_powers(number: int, prime: int | None) -> None:
    assert quorums._prime_of(number) == prime


# The type.


def test_voting_sets_are_a_mapping_of_sorted_tuples() -> None:
    sets = VotingSets({2: [3, 2], 1: {1, 3}, 3: (3,)})
    assert dict(sets) == {1: (1, 3), 2: (2, 3), 3: (3,)}
    assert list(sets) == [1, 2, 3]
    assert len(sets) == 3
    assert sets == VotingSets({1: [3, 1], 3: [3], 2: [2, 3]})
    assert hash(sets) == hash(VotingSets({1: [3, 1], 3: [3], 2: [2, 3]}))
    assert sets != VotingSets({1: [1], 2: [2, 3], 3: [3]})
    assert repr(sets) == "VotingSets({1: (1, 3), 2: (2, 3), 3: (3,)})"
    assert (sets.size, sets.is_regular) == (2, False)
    with pytest.raises(TypeError):
        sets[1] = (1,)  # type: ignore[index]  # the mistake under test
    with pytest.raises(KeyError):
        sets[4]


@pytest.mark.parametrize(
    ("sets", "reason"),
    [
        (
            {1: (1, 2), 2: (2,), 3: (3,)},
            r"the voting sets \{1, 2\} of 1 and \{3\} of 3 have no process in common",
        ),
        ({1: (2,), 2: (1, 2)}, r"process 1 is not in its own voting set \{2\}"),
        ({1: (1, 4), 2: (1, 2)}, "process 4 in the voting set of 1 has no voting set of its own"),
        ({1: ()}, r"process 1 is not in its own voting set \{\}"),
    ],
)
def test_check_says_what_is_wrong(sets: dict[int, tuple[int, ...]], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        VotingSets(sets).check()


@relaxed
@given(st.dictionaries(st.integers(1, 5), st.frozensets(st.integers(1, 5)), min_size=1))
def test_check_agrees_with_the_definition(sets: dict[int, frozenset[int]]) -> None:
    right = all(process in voters and voters <= sets.keys() for process, voters in sets.items())
    right = right and all(one & other for one, other in combinations(sets.values(), 2))
    try:
        VotingSets(sets).check()
    except ValueError as reason:
        assert not right
        assert "\n" not in str(reason)
    else:
        assert right


# Bad input.


@pytest.mark.parametrize("build", [majority, grid, projective_plane])
@pytest.mark.parametrize(
    ("processes", "reason"),
    [
        (0, "at least one process, not 0"),
        (-3, "at least one process, not -3"),
        ([], "at least one process, not 0"),
        ([1, 2, 1], "process 1 is named twice"),
    ],
)
def test_processes_that_cannot_be(
    build: Callable[[Any], VotingSets], processes: Any, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason) as raised:
        build(processes)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        ({}, "at least one process"),
        ({1: 1, 2: 0}, "the weight of process 2 is 0"),
        ({4: -2}, "the weight of process 4 is -2"),
    ],
)
def test_weights_that_cannot_be(weights: dict[int, int], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        weighted_majority(weights)


def test_no_voting_sets_at_all() -> None:
    with pytest.raises(ValueError, match="at least one process"):
        VotingSets({})


@pytest.mark.parametrize("build", [majority, grid, projective_plane])
def test_processes_may_come_from_anywhere(build: Callable[[Any], VotingSets]) -> None:
    assert (
        build(7)
        == build(range(1, 8))
        == build(reversed(range(1, 8)))
        == build({3, 1, 2, 7, 6, 5, 4})
    )

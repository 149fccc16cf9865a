"""Topologies and systems."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from habemus.core import MistakeInPlan, Process, System, Topology
from habemus.core.system import TOPOLOGIES, complete, grid, line, random_connected, ring, star, tree

relaxed = settings(derandomize=True)

SIZES = range(1, 41)
processes = st.lists(st.integers(0, 500), min_size=1, max_size=30, unique=True)


def degrees(topology: Topology) -> list[int]:
    return sorted(len(others) for others in topology.neighbours.values())


@pytest.mark.parametrize("name", sorted(TOPOLOGIES))
@pytest.mark.parametrize("size", SIZES)
def test_every_topology_is_connected_and_symmetrical(name: str, size: int) -> None:
    topology = TOPOLOGIES[name](range(1, size + 1))
    assert topology.name == name
    assert topology.processes == tuple(range(1, size + 1))
    assert topology.is_connected()
    for me, others in topology.neighbours.items():
        assert me not in others
        assert len(set(others)) == len(others)
        assert all(me in topology.neighbours[other] for other in others)
    assert len(set(topology.edges)) == len(topology.edges)
    assert all(one < other for one, other in topology.edges)
    assert 2 * len(topology.edges) == sum(degrees(topology))


@relaxed
@given(st.sampled_from(sorted(TOPOLOGIES)), processes)
def test_processes_keep_their_order_and_ids(name: str, some: list[int]) -> None:
    topology = TOPOLOGIES[name](iter(some))
    assert topology.processes == tuple(some)
    assert topology.is_connected()


@pytest.mark.parametrize("size", range(3, 41))
def test_degrees(size: int) -> None:
    everybody = range(1, size + 1)
    assert degrees(complete(everybody)) == [size - 1] * size
    assert degrees(ring(everybody)) == [2] * size
    assert degrees(line(everybody)) == [1, 1] + [2] * (size - 2)
    assert degrees(star(everybody)) == [1] * (size - 1) + [size - 1]
    assert max(degrees(grid(everybody))) <= 4
    assert max(degrees(tree(everybody))) <= 3
    for one_way in (line, star, tree):
        assert len(one_way(everybody).edges) == size - 1, "a tree: no edge can be spared"


def test_the_smallest() -> None:
    for make in TOPOLOGIES.values():
        assert make([5]).neighbours == {5: ()}
        assert make([5, 3]).neighbours == {5: (3,), 3: (5,)}


def test_a_ring_knows_its_direction() -> None:
    around = ring([4, 1, 3])
    assert around.neighbours == {4: (3, 1), 1: (4, 3), 3: (1, 4)}, "predecessor, then successor"


def test_a_star_has_its_first_process_in_the_centre() -> None:
    assert star([2, 1, 3]).neighbours == {2: (1, 3), 1: (2,), 3: (2,)}


def test_a_line_and_a_tree() -> None:
    assert line([1, 2, 3]).edges == [(1, 2), (2, 3)]
    assert tree(range(1, 8)).edges == [(1, 2), (1, 3), (2, 4), (2, 5), (3, 6), (3, 7)]


def test_a_grid_with_a_short_last_row() -> None:
    # 1 2 3
    # 4 5 6
    # 7 8
    assert grid(range(1, 9)).neighbours == {
        1: (2, 4),
        2: (1, 3, 5),
        3: (2, 6),
        4: (1, 5, 7),
        5: (2, 4, 6, 8),
        6: (3, 5),
        7: (4, 8),
        8: (5, 7),
    }
    assert degrees(grid(range(9))) == [2, 2, 2, 2, 3, 3, 3, 3, 4]


def test_a_random_topology_is_given_by_its_seed() -> None:
    everybody = range(12)
    assert random_connected(everybody, seed=3).edges == random_connected(everybody, seed=3).edges
    assert random_connected(everybody, seed=3).edges != random_connected(everybody, seed=4).edges


@pytest.mark.parametrize(("extra", "edges"), [(0, 9), (5, 14), (None, 19), (1000, 45)])
def test_a_random_topology_has_as_many_edges_as_wanted(extra: int | None, edges: int) -> None:
    for seed in range(10):
        topology = random_connected(range(10), seed=seed, extra=extra)
        assert len(topology.edges) == edges
        assert topology.is_connected()


def test_edges_given_one_by_one() -> None:
    topology = Topology.of_edges("bridge", [1, 2, 3, 4], [(4, 3), (1, 2), (2, 3), (3, 2)])
    assert topology.neighbours == {1: (2,), 2: (1, 3), 3: (2, 4), 4: (3,)}
    assert topology.edges == [(1, 2), (2, 3), (3, 4)]
    assert topology.is_connected()
    assert not Topology.of_edges("cut", [1, 2, 3], [(1, 2)]).is_connected()


def test_wrong_edges_are_refused() -> None:
    with pytest.raises(MistakeInPlan, match="edge 1-5: there is no process 5"):
        Topology.of_edges("wrong", [1, 2], [(1, 5)])
    with pytest.raises(MistakeInPlan, match="edge 6-1: there is no process 6"):
        Topology.of_edges("wrong", [1, 2], [(6, 1)])
    with pytest.raises(MistakeInPlan, match="edge 2-2 joins a process to itself"):
        Topology.of_edges("wrong", [1, 2], [(2, 2)])


# Systems.


def test_a_system() -> None:
    plan = Process()
    system = System({1: plan, 2: plan}, complete([1, 2]), clients=(2,), labels={2: "B"})
    assert [system.label(process) for process in (1, 2)] == ["1", "B"]
    with pytest.raises(AttributeError):
        system.clients = ()  # type: ignore[misc]  # the mistake under test


@pytest.mark.parametrize("planned", [[1], [1, 2, 3], []])
def test_every_process_needs_a_plan(planned: list[int]) -> None:
    with pytest.raises(
        MistakeInPlan, match="every process of the topology needs a plan, and only those"
    ):
        System(dict.fromkeys(planned, Process()), complete([1, 2]), clients=())


def test_a_client_must_take_part() -> None:
    with pytest.raises(MistakeInPlan, match="client 3 is not a process of the system"):
        System({1: Process()}, complete([1]), clients=(1, 3))


# Mistakes that are refused, and corners.


@pytest.mark.parametrize("name", sorted(TOPOLOGIES))
def test_a_topology_needs_a_process(name: str) -> None:
    with pytest.raises(MistakeInPlan):
        TOPOLOGIES[name]([])


@pytest.mark.parametrize("name", sorted(TOPOLOGIES))
def test_a_process_named_twice_is_refused(name: str) -> None:
    make: Callable[[Iterable[Any]], Topology] = TOPOLOGIES[name]
    with pytest.raises(MistakeInPlan, match="twice"):
        make([1, 2, 1])


@pytest.mark.parametrize("neighbours", [{1: (3,)}, {1: (1,)}, {1: (2, 2), 2: (1,)}])
def test_neighbours_that_cannot_be_are_refused(neighbours: dict[int, tuple[int, ...]]) -> None:
    with pytest.raises(MistakeInPlan):
        Topology("wrong", neighbours)


@pytest.mark.parametrize(
    ("neighbours", "why"),
    [
        ([(1, 2)], r"\[\(1, 2\)\] is not a dict; a topology has a name and the neighbours of each"),
        ({"1": ()}, "'1' is not a process; a topology has"),
        ({1: 2, 2: 1}, "the neighbours of 1 are 2, which is not a tuple; .* as in Topology"),
    ],
)
def test_neighbours_of_the_wrong_type_are_refused(neighbours: Any, why: str) -> None:
    with pytest.raises(MistakeInPlan, match=why):
        Topology("odd", neighbours)


def test_neighbours_may_be_lists() -> None:
    assert Topology("pair", {1: [2], 2: [1]}).neighbours == {1: (2,), 2: (1,)}


@pytest.mark.parametrize(
    ("plans", "topology", "clients", "why"),
    [
        (
            {1: Process()},
            {1: ()},
            (1,),
            r"the topology of a system is \{1: \(\)\}",
        ),
        ([Process()], complete([1]), (1,), r"the plans of a system are \[.*\]; give a dict"),
        (
            {1: Process},
            complete([1]),
            (1,),
            r"the plan of process 1 is .*; a plan is made by",
        ),
        ({1: Process()}, complete([1]), 1, "the clients of a system are 1; give a tuple"),
    ],
)
def test_parts_of_a_system_of_the_wrong_type_are_refused(
    plans: Any, topology: Any, clients: Any, why: str
) -> None:
    with pytest.raises(MistakeInPlan, match=why):
        System(plans, topology, clients)

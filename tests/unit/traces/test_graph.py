"""The picture of a network: well-formed, complete, legible, and the same every time."""

from itertools import combinations
from xml.etree import ElementTree

import pytest

from habemus.core.system import TOPOLOGIES
from habemus.traces.graph import (
    CLOSEST,
    LINKS,
    MOST_PROCESSES,
    ROLES,
    DrawnLink,
    GraphStage,
    graph,
    places,
)
from habemus.traces.trace import TooLargeToDraw

TRIANGLE = GraphStage(
    "First",
    "All <three> & more.",
    {1: "source", 2: "inner", 3: "sink"},
    [DrawnLink(1, 2, "yes"), DrawnLink(1, 3, "no"), DrawnLink(2, 3, "prune")],
    {2: "1", 3: "1"},
)


def texts(svg: str) -> list[str]:
    return [
        element.text or ""
        for element in ElementTree.fromstring(svg).iter()
        if element.tag.endswith("}text")
    ]


def test_everything_is_drawn_and_explained() -> None:
    drawn = graph(
        [TRIANGLE, TRIANGLE._replace(title="Second")],
        title="Three",
        label=lambda process: f"p{process}",
    )
    found = texts(drawn)
    for words in (
        "Three",
        "First",
        "Second",
        "All <three> & more.",
        "p1",
        "p2",
        "p3",
        "source",
        "sink",
        "no: turns round",
        "pruned",
    ):
        assert words in found
    assert "leader" not in found  # only signs in use are explained
    assert found.count("p1") == 2


def test_every_sign_can_be_drawn() -> None:
    roles = dict(enumerate(ROLES, start=1))
    links = [DrawnLink(1 + index % 7, 8, sign) for index, sign in enumerate(LINKS)]
    found = texts(graph([GraphStage("All", "", roles, links)]))
    assert {role.means for role in ROLES.values()} <= set(found)
    assert {line.means for line in LINKS.values()} <= set(found)


def test_a_picture_needs_a_stage_and_not_too_many_processes() -> None:
    with pytest.raises(ValueError, match="no stage"):
        graph([])
    with pytest.raises(TooLargeToDraw, match="41 processes"):
        graph([GraphStage("Large", "", dict.fromkeys(range(MOST_PROCESSES + 1), "inner"), [])])


def test_one_process_alone() -> None:
    assert "leader" in texts(graph([GraphStage("Alone", "", {1: "leader"}, [])]))


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("size", [2, 3, 9, 16])
def test_nobody_stands_on_another(topology: str, size: int) -> None:
    network = TOPOLOGIES[topology](range(1, size + 1))
    found = places(network.processes, network.edges)
    assert found == places(network.processes, network.edges)
    for (x1, y1), (x2, y2) in combinations(found.values(), 2):
        assert (x1 - x2) ** 2 + (y1 - y2) ** 2 > (CLOSEST * 8 // 10) ** 2


@pytest.mark.parametrize("topology", ["ring", "line", "star", "tree", "grid"])
def test_plain_shapes_have_no_crossings(topology: str) -> None:
    from habemus.traces.graph import _faults

    for size in (5, 9, 12, 16):
        network = TOPOLOGIES[topology](range(1, size + 1))
        assert _faults(places(network.processes, network.edges), network.edges) == 0


def test_a_network_in_parts_can_be_drawn() -> None:
    found = places([1, 2, 3, 4], [(1, 2), (3, 4)])
    assert len(set(found.values())) == 4

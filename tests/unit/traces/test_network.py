"""Changes of the network, named briefly."""

from __future__ import annotations

import pytest

from habemus.core.events import Event
from habemus.traces.network import changes, named

Links = list[tuple[int, int]]


def cut(links: Links, time: int = 0, kind: str = "cut") -> list[Event]:
    return [Event(time, one, kind, "", None, other) for one, other in links]


def both(*links: tuple[int, int]) -> Links:
    return [link for one, other in links for link in ((one, other), (other, one))]


@pytest.mark.parametrize(
    ("links", "name"),
    [
        ([(1, 2)], "cut 1>2"),
        ([(2, 1)], "cut 2>1"),
        (both((1, 2)), "cut 1-2"),
        (both((1, 2), (2, 3), (1, 4), (3, 4)), "cut 1 3 | 2 4"),
        (both((1, 2), (2, 3)), "cut 1-2, 2-3"),
        ([*both((1, 2)), (3, 1)], "cut 1-2, 3>1"),
        (both((1, 3), (1, 4), (2, 3), (2, 4)), "cut 1 2 | 3 4"),
        (both((1, 2), (1, 3), (1, 4)), "cut 1 | 2 3 4"),
        (both((1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)), "cut 1 | 2 | 3 | 4"),
        ([(1, 2), (1, 3), (1, 4), (2, 3), (2, 4)], "cut 5 links"),
    ],
)
def test_links_are_named_as_briefly_as_they_can_be(links: Links, name: str) -> None:
    [change] = changes(cut(links))
    assert named(change, (1, 2, 3, 4), str) == name


def test_changes_at_one_moment_belong_together_and_others_do_not() -> None:
    assert len(changes([*cut([(1, 2)]), *cut([(2, 1)], time=5)])) == 2
    events = [
        *cut([(1, 2), (2, 1)]),
        *cut([(1, 2)], kind="heal"),
        *cut([(1, 2)], time=5),
        Event(5, 1, "start"),
        *cut([(2, 1)], time=5),
    ]
    assert [(change.kind, change.first, change.last) for change in changes(events)] == [
        *(("cut", 0, 1), ("heal", 2, 2)),
        *(("cut", 3, 3), ("cut", 5, 5)),
    ]


def test_labels_are_used() -> None:
    [change] = changes(cut([(1, 2)]))
    assert named(change, (1, 2), {1: "A", 2: "B"}.__getitem__) == "cut A>B"

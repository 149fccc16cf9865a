"""One view of a cluster from the answers of several nodes, and the words for changes in it."""

import io
from datetime import UTC, datetime
from typing import Any

from rich.console import Console

from habemus.cli.commands.up import _tables
from habemus.operations.cluster_view import (
    LockView,
    NodeStatus,
    WaitingClient,
    changes,
    cluster_view,
)

NOW = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)


def status(node: int, leader: int | None = 1, term: int = 3, **more: Any) -> dict[str, Any]:
    everybody = {1, 2, 3}
    leaders = (
        []
        if leader is None
        else [{"service": "locks-election", "name": "all", "leader": leader, "term": term}]
    )
    return {
        "cluster": "office",
        "node": node,
        "pid": 100 + node,
        "address": f"127.0.0.1:740{node}",
        "reaches": sorted(everybody - {node}),
        "clients": 1,
        "services": {"locks": {"problem": "mutex"}, "locks-election": {"problem": "election"}},
        "leaders": leaders,
        "suspects": {},
        "locks": [],
        **more,
    }


def lock(
    holder: str | None = None,
    token: int | None = None,
    waiting: tuple[str, ...] = (),
    name: str = "printer",
) -> dict[str, Any]:
    held_ms = None if holder is None else 1_500
    return {
        "service": "locks",
        "name": name,
        "holder": holder,
        "token": token,
        "held_ms": held_ms,
        "waiting": list(waiting),
    }


def told(**statuses: dict[str, Any] | None) -> dict[int, NodeStatus]:
    return {
        int(name[1:]): NodeStatus("here", each, "" if each else "Connection refused")
        for name, each in statuses.items()
    }


def test_what_nodes_say_is_put_together() -> None:
    one = status(1, locks=[lock("a/1", 3 << 32 | 7, ("b/2",))])
    seen = cluster_view(
        told(n1=one, n2=status(2, locks=[lock(waiting=("c/3",))]), n3=status(3)), NOW
    )
    assert seen.locks == (
        LockView(
            "locks",
            "printer",
            "a/1",
            1,
            3 << 32 | 7,
            3,
            "2030-01-01T11:59:58.500+00:00",
            1_500,
            (WaitingClient("b/2", 1), WaitingClient("c/3", 2)),
        ),
    )
    assert (seen.is_well, seen.is_ready) == (True, True)
    assert (seen.plain()["leader"], seen.plain()["term"]) == (1, 3)


def test_a_lock_that_changes_hands_meanwhile_has_the_newer_holder() -> None:
    seen = cluster_view(
        told(
            n1=status(1, locks=[lock("new/1", 9)]),
            n2=status(2, locks=[lock("old/2", 8)]),
            n3=status(3),
        ),
        NOW,
    )
    assert (seen.locks[0].holder, seen.locks[0].node) == ("new/1", 1)


def test_a_cluster_is_ready_when_all_know_each_other_and_the_leader() -> None:
    everybody = {"n1": status(1), "n2": status(2), "n3": status(3)}
    assert cluster_view(told(**everybody)).is_ready
    assert not cluster_view(told(**everybody | {"n2": None})).is_well
    unled = cluster_view(
        told(**{name: {**each, "leaders": []} for name, each in everybody.items()})
    )
    assert not unled.is_well
    assert cluster_view(
        told(**everybody | {"n3": status(3, leader=None)})
    ).is_well  # somebody leads, but not everybody knows
    for other in (status(3, leader=None), status(3, leader=2, term=2), status(3, reaches=[1])):
        assert not cluster_view(told(**everybody | {"n3": other})).is_ready


def test_a_node_that_does_not_take_part_is_trouble() -> None:
    seen = cluster_view(told(n1=status(1), n2=status(2, member=False), n3=status(3)))
    assert not seen.is_well
    assert list(seen.troubles()) == [
        "node 2 does not take part yet: every other node has to meet it once"
    ]


def test_without_an_election_nobody_has_to_lead() -> None:
    plain: dict[str, Any] = {"services": {"locks": {"problem": "mutex"}}, "leaders": []}
    assert cluster_view(
        told(n1=status(1, **plain), n2=status(2, **plain), n3=status(3, **plain))
    ).is_ready


def test_changes_in_words() -> None:
    before = cluster_view(told(n1=status(1), n2=status(2), n3=None), NOW)
    assert list(changes(None, before)) == [
        "node 1 is up at here",
        "node 2 is up at here",
        "node 1 leads, term 3",
    ]
    assert list(changes(before, before)) == []
    held = cluster_view(
        told(
            n1=None,
            n2=status(2, 2, 4, reaches=[3], locks=[lock("a/1", 5, ("b/2",))]),
            n3=status(3, 2, 4),
        ),
        NOW,
    )
    assert list(changes(before, held)) == [
        "node 1 is down: Connection refused",
        "node 2 reaches 3",
        "node 3 is up at here",
        "node 2 leads, term 4",
        "printer: held by a/1 at node 2, token 5; waiting: b/2 at node 2",
    ]
    free = cluster_view(
        told(n1=None, n2=status(2, 2, 4, reaches=[3], suspects={"d": [1]}), n3=status(3, 2, 4)), NOW
    )
    assert list(changes(held, free)) == ["node 2 suspects 1", "printer: free"]


def test_names_are_plain_text_in_the_tables_of_up() -> None:
    """A lock named `[/x]` was markup that nothing opened, and ended `habemus up` with its
    cluster.
    """
    hostile = lock("[bold]me", 1, ("[/y]",), name="[/x]")
    seen = cluster_view(told(n1=status(1, locks=[hostile])), NOW)
    written = io.StringIO()
    Console(file=written, width=120).print(_tables(seen, "[/folder]"))
    for name in ("[/x]", "[bold]me", "[/y]", "[/folder]"):
        assert name in written.getvalue()


def test_a_leader_that_is_down_asks_for_an_election() -> None:
    """Elections of nodes may wait for a call; those of locks need none."""
    elected = [{"service": "elections", "name": "all", "leader": 1, "term": 0}]
    services = {"elections": {"problem": "election"}}
    down = cluster_view(
        told(
            n1=None,
            n2=status(2, leaders=elected, services=services, reaches=[3]),
            n3=status(3, leaders=elected, services=services, reaches=[2]),
        ),
        NOW,
    )
    assert list(down.troubles()) == [
        "node 1 leads all and is down; call an election: habemus elect all"
    ]
    assert down.elections[0].agreed
    of_locks = cluster_view(
        told(n1=None, n2=status(2, 1, reaches=[3]), n3=status(3, 1, reaches=[2])), NOW
    )
    assert list(of_locks.troubles()) == []

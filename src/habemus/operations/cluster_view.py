"""What goes on in a cluster, put together from what its nodes say.

Every node knows its own clients only.  What they say was true at slightly different moments, so a
lock that changes hands meanwhile may seem to have two holders: then it is the one with the larger
token.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple


class NodeStatus(NamedTuple):
    """What one node said, or why it did not."""

    address: str
    status: dict[str, Any] | None = None
    why: str = ""


@dataclass(frozen=True)
class NodeView:
    node: int
    address: str
    up: bool
    why: str  # it is not
    pid: int | None
    clients: int
    reaches: tuple[int, ...]
    leader: int | None  # as it thinks
    term: int | None
    suspects: tuple[int, ...]
    compiled: bool = False  # whether it runs the compiled modules; an older one does not say
    configuration: str = ""  # a digest
    differs: bool = False  # whether most other nodes have another configuration


@dataclass(frozen=True)
class WaitingClient:
    client: str
    node: int


@dataclass(frozen=True)
class LockView:
    service: str
    name: str
    holder: str | None = None
    node: int | None = None
    token: int | None = None
    term: int | None = None  # in which it was granted
    since: str | None = None
    held_ms: int | None = None
    waiting: tuple[WaitingClient, ...] = ()


@dataclass(frozen=True)
class ElectionView:
    """Of one election: the leader of the highest term that a node knows of, and whether all nodes
    that are up agree.
    """

    service: str
    name: str
    leader: int | None
    term: int
    agreed: bool


@dataclass(frozen=True)
class ClusterView:
    cluster: str
    nodes: tuple[NodeView, ...]
    elections: tuple[ElectionView, ...]
    locks: tuple[LockView, ...]

    @property
    def election(self) -> ElectionView | None:
        """The one by which the cluster itself is led, if it is."""
        return self.elections[0] if self.elections else None

    @property
    def is_well(self) -> bool:
        """Whether every node is up, reaches the others and has the same configuration; and where
        one should lead, one does.
        """
        all_up = all(node.up for node in self.nodes)
        return (
            all_up
            and not any(self.troubles())
            and all(each.leader is not None for each in self.elections)
        )

    def troubles(self) -> Iterator[str]:
        """What is wrong with nodes that are up."""
        up = [node.node for node in self.nodes if node.up]
        for node in self.nodes:
            if node.differs:
                yield f"node {node.node} has another configuration than the others"
            missed = [other for other in up if node.up and other not in (node.node, *node.reaches)]
            if missed:
                others = (
                    f"neither of nodes {listed(tuple(missed))}"
                    if len(missed) > 1
                    else f"not node {missed[0]}"
                )
                whom = others if node.reaches else "nobody"
                yield f"node {node.node} reaches {whom}"

    @property
    def is_ready(self) -> bool:
        """And all nodes agree on who leads."""
        return self.is_well and all(each.agreed for each in self.elections)

    def plain(self) -> dict[str, Any]:
        election = self.election
        leader, term = (None, None) if election is None else (election.leader, election.term)
        rest = {key: value for key, value in asdict(self).items() if key != "cluster"}
        return {
            "cluster": self.cluster,
            "leader": leader,
            "term": term,
            "troubles": list(self.troubles()),
            **rest,
        }


def picture(told: Mapping[int, NodeStatus], now: datetime | None = None) -> ClusterView:
    now = now or datetime.now(UTC)
    statuses = {node: each.status for node, each in sorted(told.items()) if each.status is not None}
    elections = tuple(_elections(statuses))
    said = [status.get("configuration", "") for status in statuses.values()]
    usual = max(said, key=said.count, default="")
    nodes = tuple(_node(node, each, elections, usual) for node, each in sorted(told.items()))
    cluster = next((status["cluster"] for status in statuses.values()), "")
    return ClusterView(cluster, nodes, elections, tuple(_locks(statuses, now)))


def _node(node: int, told: NodeStatus, elections: tuple[ElectionView, ...], usual: str) -> NodeView:
    status = told.status
    if status is None:
        return NodeView(node, told.address, False, told.why, None, 0, (), None, None, ())
    shared = {(each["service"], each["name"]): each for each in status["leaders"]}
    own = shared.get((elections[0].service, elections[0].name), {}) if elections else {}
    suspects = sorted({peer for each in status["suspects"].values() for peer in each})
    return NodeView(
        node,
        told.address,
        up=True,
        why="",
        pid=status["pid"],
        clients=status["clients"],
        reaches=tuple(status["reaches"]),
        leader=own.get("leader"),
        term=own.get("term"),
        suspects=tuple(suspects),
        compiled=status.get("compiled", False),
        configuration=status.get("configuration", ""),
        differs=status.get("configuration", "") != usual,
    )


def _elections(statuses: Mapping[int, dict[str, Any]]) -> Iterator[ElectionView]:
    """Those that the locks depend on come first, and are there even if nobody has been elected yet."""
    views: dict[tuple[str, str], list[tuple[int, int | None]]] = {}
    for status in statuses.values():
        for service in status["services"]:
            if f"{service}-election" in status["services"]:
                views.setdefault((f"{service}-election", "all"), [])
    for status in statuses.values():
        for each in status["leaders"]:
            views.setdefault((each["service"], each["name"]), []).append(
                (each["term"], each["leader"])
            )
    for (service, name), view in views.items():
        known = [(term, leader) for term, leader in view if leader is not None]
        term, leader = max(known, default=(0, None))
        yield ElectionView(
            service,
            name,
            leader,
            term,
            len(view) == len(statuses) and set(view) == {(term, leader)},
        )


def _locks(statuses: Mapping[int, dict[str, Any]], now: datetime) -> Iterator[LockView]:
    standing: dict[tuple[str, str], list[tuple[int, dict[str, Any]]]] = {}
    for node, status in statuses.items():
        for lock in status["locks"]:
            standing.setdefault((lock["service"], lock["name"]), []).append((node, lock))
    for (service, name), said in sorted(standing.items()):
        waiting = tuple(
            WaitingClient(client, node) for node, lock in said for client in lock["waiting"]
        )
        held = [
            (lock["token"] or 0, node, lock) for node, lock in said if lock["holder"] is not None
        ]
        if not held:
            yield LockView(service, name, waiting=waiting)
            continue
        _, node, lock = max(held, key=lambda each: each[:2])
        token: int | None = lock["token"]
        since = (now - timedelta(milliseconds=lock["held_ms"])).isoformat(timespec="milliseconds")
        term = None if token is None else token >> 32
        yield LockView(
            service, name, lock["holder"], node, token, term, since, lock["held_ms"], waiting
        )


def shown_name(lock: LockView) -> str:
    return lock.name if lock.service == "locks" else f"{lock.service}/{lock.name}"


def shown_time(held_ms: int) -> str:
    seconds = held_ms / 1_000
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3_600 else f"{seconds / 3_600:.1f} h"


def listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers)) or "nobody"


# What has happened between two pictures, in words.


def changes(before: ClusterView | None, after: ClusterView) -> Iterator[str]:
    old = {each.node: each for each in before.nodes} if before else {}
    for node in after.nodes:
        yield from _changes_of_node(old.get(node.node), node)
    led = (
        {(each.service, each.name): (each.leader, each.term) for each in before.elections}
        if before
        else {}
    )
    for election in after.elections:
        key = (election.service, election.name)
        if led.get(key, (None, 0)) != (election.leader, election.term):
            told = (
                "nobody leads"
                if election.leader is None
                else f"node {election.leader} leads, term {election.term}"
            )
            yield (
                told
                if key == _key(after.election)
                else f"{election.service}/{election.name}: {told}"
            )
    was = {(each.service, each.name): each for each in before.locks} if before else {}
    now = {(each.service, each.name): each for each in after.locks}
    for lock_key in sorted({*was, *now}):
        past, present = (
            was.get(lock_key, LockView(*lock_key)),
            now.get(lock_key, LockView(*lock_key)),
        )
        if _standing(past) != _standing(present):
            yield f"{shown_name(present)}: {_in_words(present)}"


def _changes_of_node(before: NodeView | None, after: NodeView) -> Iterator[str]:
    if after.up and not (before and before.up):
        yield f"node {after.node} is up at {after.address}"
    elif not after.up and before and before.up:
        yield f"node {after.node} is down: {after.why}"
    if after.up and before and before.up and before.reaches != after.reaches:
        yield f"node {after.node} reaches {listed(after.reaches)}"
    if after.suspects != (before.suspects if before else ()):
        yield f"node {after.node} suspects {listed(after.suspects)}"


def _key(election: ElectionView | None) -> tuple[str, str] | None:
    return None if election is None else (election.service, election.name)


def _standing(lock: LockView) -> tuple[object, ...]:
    return lock.holder, lock.node, lock.token, lock.waiting


def _in_words(lock: LockView) -> str:
    token = f", token {lock.token}" if lock.token is not None else ""
    held = "free" if lock.holder is None else f"held by {lock.holder} at node {lock.node}{token}"
    waits = ", ".join(f"{each.client} at node {each.node}" for each in lock.waiting)
    return f"{held}; waiting: {waits}" if waits else held

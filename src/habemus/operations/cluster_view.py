"""The state of a cluster, joined from the statuses of its nodes.

Each node knows its own clients only.  The statuses were true at slightly different moments, so a
lock that changes hands meanwhile may seem to have two holders; the one with the larger token is
shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from typing import Any, NamedTuple

from habemus.fencing.tokens import token_text


class NodeStatus(NamedTuple):
    """The status of one node, or the reason why there is none."""

    address: str
    status: dict[str, Any] | None = None
    why: str = ""
    is_refused: bool = False  # the node answers, and refuses to show it


@dataclass(frozen=True)
class NodeView:
    """A node, as `habemus status` shows it."""

    node: int
    address: str
    up: bool
    why: str  # the reason why it is not up
    pid: int | None
    clients: int
    reaches: tuple[int, ...]
    leader: int | None  # as far as this node knows
    term: int | None
    suspects: tuple[int, ...]
    compiled: bool = False  # whether it runs the compiled modules; older nodes do not report it
    configuration: str = ""  # a digest
    differs: bool = False  # whether most other nodes have another configuration
    version: str = ""
    member: bool = True  # whether it takes part: not while the other nodes do not know its memory
    unsettled: tuple[str, ...] = ()  # why locks may be lost if another node fails now


@dataclass(frozen=True)
class WaitingClient:
    """A client that waits for a lock."""

    client: str
    node: int
    waited_ms: int | None = field(default=None, compare=False)  # older nodes do not report it


@dataclass(frozen=True)
class LockView:
    """A lock, as `habemus status` shows it."""

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
    """An election: the leader of the highest term that a node knows, and whether all nodes that are
    up agree.
    """

    service: str
    name: str
    leader: int | None
    term: int  # 0: the election has no terms
    agreed: bool
    is_of_nodes: bool = True  # not the election that a service of locks has for itself


@dataclass(frozen=True)
class MembersSummary:
    """The processes that vote and record, in a cluster whose members change."""

    version: int
    members: tuple[int, ...]
    learners: tuple[int, ...]

    def __str__(self) -> str:
        learners = f"; learners: {listed(self.learners)}" if self.learners else ""
        return f"members: {listed(self.members)}{learners} (configuration {self.version})"


@dataclass(frozen=True)
class ClusterView:
    """A cluster, as `habemus status` shows it."""

    cluster: str
    nodes: tuple[NodeView, ...]
    elections: tuple[ElectionView, ...]
    locks: tuple[LockView, ...]
    members: MembersSummary | None = None  # None: they are fixed

    @property
    def election(self) -> ElectionView | None:
        """The election of the cluster's own leader, if its algorithm has one."""
        return self.elections[0] if self.elections else None

    @property
    def is_well(self) -> bool:
        """Whether every node is up, reaches the others and has the same configuration, every
        election has a leader, and no lock would be lost with one more node.
        """
        all_up = all(node.up for node in self.nodes)
        return (
            all_up
            and not any(self.troubles())
            and all(each.leader is not None for each in self.elections)
        )

    def troubles(self) -> Iterator[str]:
        """Yield what is wrong with nodes that are up."""
        up = [node.node for node in self.nodes if node.up]
        for node in self.nodes:
            if node.differs:
                yield f"node {node.node} has a different configuration than the others"
            if not node.member:
                yield (
                    f"node {node.node} does not take part yet: every other node has to meet it once"
                )
            yield from (f"{why}; do not restart another node" for why in node.unsettled)
            missed = [other for other in up if node.up and other not in (node.node, *node.reaches)]
            if missed:
                others = f"node{'s' if len(missed) > 1 else ''} {listed(tuple(missed))}"
                yield f"node {node.node} does not reach {others if node.reaches else 'any node'}"
        for election in self.elections:
            if election.is_of_nodes and election.leader is not None and election.leader not in up:
                yield (
                    f"node {election.leader} leads {election.name} and is down; call an election:"
                    f" habemus elect {election.name}"
                )

    def different_versions(self) -> str:
        """Return the versions of the nodes that are up; empty if they have the same."""
        up = [node for node in self.nodes if node.up]
        if len({node.version for node in up}) < 2:
            return ""
        each = ", ".join(f"node {node.node} {node.version}" for node in up)
        return f"different versions: {each}; finish the upgrade"

    @property
    def is_ready(self) -> bool:
        """Whether all is well and all nodes agree on the leaders."""
        return self.is_well and all(each.agreed for each in self.elections)

    def plain(self) -> dict[str, Any]:
        """Return the view as `habemus status --json` prints it."""
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


def cluster_view(answers: Mapping[int, NodeStatus], now: datetime | None = None) -> ClusterView:
    """Join the statuses of nodes."""
    now = now or datetime.now(UTC)
    nodes = sorted(answers.items())
    statuses = {node: each.status for node, each in nodes if each.status is not None}
    elections = tuple(_elections(statuses))
    digests = [status.get("configuration", "") for status in statuses.values()]
    usual = max(digests, key=digests.count, default="")
    views = tuple(_node(node, each, elections, usual) for node, each in nodes)
    cluster = next((status["cluster"] for status in statuses.values()), "")
    return ClusterView(
        cluster, views, elections, tuple(_locks(statuses, now)), _members(statuses.values())
    )


def _members(statuses: Iterable[dict[str, Any]]) -> MembersSummary | None:
    """Return the newest members that a node knows."""
    found = [each["members"] for each in statuses if each.get("members")]
    newest = max(found, key=lambda each: (each["version"], each["term"]), default=None)
    if newest is None or not newest["members"]:
        return None
    return MembersSummary(newest["version"], tuple(newest["members"]), tuple(newest["learners"]))


def _node(
    node: int, answer: NodeStatus, elections: tuple[ElectionView, ...], usual: str
) -> NodeView:
    status = answer.status
    if status is None:
        return NodeView(node, answer.address, False, answer.why, None, 0, (), None, None, ())
    shared = {(each["service"], each["name"]): each for each in status["leaders"]}
    own = shared.get((elections[0].service, elections[0].name), {}) if elections else {}
    suspects = sorted({peer for each in status["suspects"].values() for peer in each})
    return NodeView(
        node,
        answer.address,
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
        version=status.get("version", ""),
        member=status.get("member", True),
        unsettled=tuple(status.get("unsettled", ())),
    )


def _elections(statuses: Mapping[int, dict[str, Any]]) -> Iterator[ElectionView]:
    """Yield elections.  Those of locks come first, even before a leader is elected."""
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
            is_of_nodes=not _is_inner(service, statuses),
        )


def _is_inner(service: str, statuses: Mapping[int, dict[str, Any]]) -> bool:
    """Return whether an election belongs to a service of locks."""
    of = service.removesuffix("-election")
    return of != service and any(of in status["services"] for status in statuses.values())


def _locks(statuses: Mapping[int, dict[str, Any]], now: datetime) -> Iterator[LockView]:
    reports: dict[tuple[str, str], list[tuple[int, dict[str, Any]]]] = {}
    for node, status in statuses.items():
        for lock in status["locks"]:
            reports.setdefault((lock["service"], lock["name"]), []).append((node, lock))
    for (service, name), found in sorted(reports.items()):
        waiting = tuple(
            WaitingClient(client, node, waited_ms)
            for node, lock in found
            for client, waited_ms in zip_longest(lock["waiting"], lock.get("waited_ms", ()))
        )
        held = [
            (lock["token"] or 0, node, lock) for node, lock in found if lock["holder"] is not None
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


def longest_wait_ms(lock: LockView) -> int:
    """Return the age of the oldest request that waits for a lock; 0 if none does."""
    return max((each.waited_ms or 0 for each in lock.waiting), default=0)


def shown_name(lock: LockView) -> str:
    """Return the name of a lock, with its service if that is not the default."""
    return lock.name if lock.service == "locks" else f"{lock.service}/{lock.name}"


def shown_time(held_ms: int) -> str:
    """Return a duration in a readable unit."""
    seconds = held_ms / 1_000
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3_600 else f"{seconds / 3_600:.1f} h"


def in_term(term: int) -> str:
    """Return the term as a phrase; nothing for an election without terms."""
    return f", term {term}" if term else ""


def listed(numbers: tuple[int, ...]) -> str:
    """Return numbers separated by commas."""
    return ", ".join(map(str, numbers)) or "none"


# Changes between two views, in words.


def changes(before: ClusterView | None, after: ClusterView) -> Iterator[str]:
    """Yield a sentence for each change."""
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
            words = (
                "no leader"
                if election.leader is None
                else f"node {election.leader} leads{in_term(election.term)}"
            )
            is_main = key == _key(after.election)
            yield words if is_main else f"{election.service}/{election.name}: {words}"
    was = {(each.service, each.name): each for each in before.locks} if before else {}
    now = {(each.service, each.name): each for each in after.locks}
    for lock_key in sorted({*was, *now}):
        past, present = (
            was.get(lock_key, LockView(*lock_key)),
            now.get(lock_key, LockView(*lock_key)),
        )
        if _holders(past) != _holders(present):
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


def _holders(lock: LockView) -> tuple[object, ...]:
    return lock.holder, lock.node, lock.token, lock.waiting


def _in_words(lock: LockView) -> str:
    token = f", token {token_text(lock.token)}" if lock.token is not None else ""
    held = "free" if lock.holder is None else f"held by {lock.holder} at node {lock.node}{token}"
    waits = ", ".join(f"{each.client} at node {each.node}" for each in lock.waiting)
    return f"{held}; waiting: {waits}" if waits else held

"""The members of a cluster while it runs: which nodes there are, and how they change.

Where the members of an election change (`Service.grows`), the configuration that its processes
store is the only source of truth.  It names the members, and it has the *book*: the address of
every node, member or not, and the memory of each node that was added.  A node applies each
configuration that its election indicates:

- it dials the nodes that are new in the book, and accepts them;
- it closes the connections with nodes that are not in the book any more, and refuses them;
- it knows each node by the memory that the book names, and what it has queued for another node of
  the same number is lost;
- its processes get the nodes of the book as peers, between two of their steps.

Before the first change the book is empty, and the nodes are those of the `cluster.toml`.

A node that has missed changes may know none of the nodes that there are now.  They dial it, and it
learns from each of them the memory and address by which to know it, if that node has stored a newer
configuration (`peers.handshake`).  So it can vote for one of them, or hear of a leader, and then
stores the configuration.  It never sends to a node with another memory that has not stored a newer
configuration: that node may not know yet in which terms its predecessor has voted.

A change is made of steps, each of which is a new configuration: *introduce* a node (it is in the
book, and follows), *add* it to the members, *remove* it from them, *forget* it (it is not in the
book any more).  The leader makes a step only when the one before it is stored by a majority and
confirmed, so an operator repeats them until the cluster is as it should be (`operations.members`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from habemus.core.process import ProcessId
from habemus.core.values import Indication
from habemus.problems.election import Election, Leader, Location, Members
from habemus.runtimes.live.cluster_file import MOST_NODES, Address, BadConfig, parsed_address
from habemus.runtimes.live.hosting.instance import Instance
from habemus.runtimes.live.monitoring.logs import details
from habemus.runtimes.live.peers.membership import Membership
from habemus.runtimes.live.peers.network import PeerNetwork
from habemus.runtimes.live.storage.log import IDENTITY_SIZE, StableMemory

if TYPE_CHECKING:
    from habemus.runtimes.live.hosting.node import Node

log = logging.getLogger("habemus.live")

STEPS = ("introduce", "add", "remove", "forget")


class ClusterMembers:
    """The nodes of the cluster, as one of them knows them.

    instances: all instances of the node; representatives: those that stand for the idle ones.
    """

    def __init__(
        self,
        node: Node,
        instances: Mapping[tuple[int, str], Instance],
        representatives: Mapping[int, Instance],
    ) -> None:
        self._node = node
        self._instances = instances
        self._representatives = representatives
        settings = node.settings
        self.peers: dict[int, Address] = dict(settings.peers)
        """Addresses of the other nodes."""
        everybody = range(1, MOST_NODES + 1)
        self.accepted: set[int] = set(everybody if settings.joins else settings.peers) - {node.me}
        """Nodes whose connections are accepted; any, before a new node knows the others."""
        self._latest: Members | None = None
        self._led_in = 0  # term of the last leader that this node has followed since it started
        self._network: PeerNetwork
        self._membership: Membership
        feeds = [each.feed for each in node.services if each.feed is not None]
        self._sources = [(feed.service, feed.instance) for feed in feeds]

    def begin(self, network: PeerNetwork, membership: Membership) -> None:
        """Apply configurations to these from now on."""
        self._network, self._membership = network, membership

    # What the election indicates.

    def note(self, process: ProcessId, indication: Indication) -> None:
        """Apply the configuration if the election has indicated one."""
        if isinstance(indication, Leader) and indication.process is not None:
            self._led_in = indication.term
        if isinstance(indication, Members) and process == self._node.me and indication.members:
            self._latest = indication
            log.info(
                "members are %s (configuration %d)",
                _listed(indication.members),
                indication.version,
                extra=details(
                    "members", members=list(indication.members), version=indication.version
                ),
            )
            if indication.book:
                self._apply({each.process: each for each in indication.book})

    def _apply(self, book: Mapping[int, Location]) -> None:
        me, mine = self._node.me, book.get(self._node.me)
        assert self._latest is not None
        if mine is None:
            self._announce()  # so that clients know where to take their locks
            self._leave(self._latest.version)
            return
        if mine.memory and mine.memory != self._membership.identity.hex():
            self._node.leave(
                f"node {me} has been replaced by one with another memory", is_orderly=False
            )
            return
        for peer in [each for each in self.peers if each not in book]:
            log.info("node %d is not in the cluster any more", peer)
            del self.peers[peer]
            self._network.drop(peer)
        for peer, place in sorted(book.items()):
            if peer != me:
                self._apply_place(peer, place)
        self.accepted.clear()
        self.accepted.update(self.peers)
        self._replug()
        self._announce()

    def _announce(self) -> None:
        told = self.told()
        if told is not None:
            self._node.announce(*told)

    def told(self) -> tuple[int, dict[str, str]] | None:
        """Return the version of the configuration and the addresses of all nodes, for clients; None
        if the members have never changed.
        """
        latest = self._latest
        if latest is None or not latest.book:
            return None
        return latest.version, {str(each.process): each.address for each in latest.book}

    def _leave(self, version: int) -> None:
        self._node.leave(
            f"node {self._node.me} was removed from the cluster (configuration {version})",
            is_orderly=bool(self._led_in),
        )

    # In handshakes.

    def age(self) -> tuple[int, int]:
        """Return term and version of the configuration that is stored; zeros if there is none.

        A node follows a leader after it has stored the configuration that this leader wrote anew in
        its term, so the election need not indicate that again.
        """
        if self._latest is None or self.fixed():
            return 0, 0
        return max(self._latest.term, self._led_in), self._latest.version

    def address(self) -> str:
        """Return the address of this node in the book; empty if it is in none."""
        book = () if self._latest is None else self._latest.book
        return next((each.address for each in book if each.process == self._node.me), "")

    def excludes(self, node: int) -> bool:
        latest = self._latest
        if latest is None or not latest.book:
            return False
        return all(each.process != node for each in latest.book)

    def hear_exclusion(self, peer: int, age: tuple[int, int]) -> None:
        """Leave if the configuration of the peer is newer: a node is struck from the book only
        after its removal is stored by a majority, and is not added with the same memory again.
        """
        if age > self.age():
            self._leave(age[1])

    def has_learned(self, peer: int, age: tuple[int, int], memory: bytes, address: str) -> bool:
        """Know a peer by the memory and address that it shows, if its configuration is newer than
        the one of this node: it was added while this node was out of reach.  Return whether it is.

        A peer without an address is in no book, so it was not added.
        """
        is_peer = 1 <= peer <= MOST_NODES and peer != self._node.me
        is_possible = is_peer and memory and parsed_address(address) and not self.fixed()
        if not is_possible or age <= self.age() or self._membership.was_replaced(peer):
            return False
        log.info(
            "node %d has a newer configuration (%d); it is known to this node now", peer, age[1]
        )
        self._apply_place(peer, Location(peer, address, memory.hex()))
        self.accepted.update(self.peers)
        self._replug()
        return True

    def _apply_place(self, peer: int, place: Location) -> None:
        is_other = place.memory and self._membership.agree_on(peer, bytes.fromhex(place.memory))
        if is_other:
            self._network.drop(peer)  # with all that is queued for the node that it replaces
        address = parsed_address(place.address)
        if address is None:
            log.error("node %d has the address %r, which is none", peer, place.address)
        elif is_other or self.peers.get(peer) != address:
            self.peers[peer] = address
            self._network.dial(peer, address)

    def _replug(self) -> None:
        """Give the processes of this node the nodes of the cluster as peers."""
        peers = tuple(sorted(self.peers))
        for instance in (*self._instances.values(), *self._representatives.values()):
            if instance.service.grows:
                instance.replug(peers)

    # Counting.

    def majority_error(self, reached: Sequence[int]) -> str:
        """Return that this node does not reach a majority of the members; empty if it does."""
        me = self._node.me
        members = self._latest.members if self._latest else (me, *self.peers)
        up = [each for each in members if each == me or each in reached]
        if 2 * len(up) > len(members):
            return ""
        others = [each for each in members if each != me]
        count = len([each for each in others if each in reached])
        return f"node {me} reaches {count} of {len(others)} peers: no majority"

    # The file.

    def check_file(self, memory: StableMemory | None) -> None:
        """Refuse a file whose nodes were edited since the last start, and are not those that are
        stored.  A node that was down during a change gets the file from `habemus member`.
        """
        settings, latest = self._node.settings, self._latest
        if memory is None or settings.joins or self._node.removal or self.fixed():
            return
        listed = {settings.node: settings.address or settings.bind, **settings.peers}
        shown = {number: str(address) for number, address in sorted(listed.items())}
        content = ",".join(f"{number}={address}" for number, address in shown.items()).encode()
        is_written = latest is not None and (settings.written_version or -1) >= latest.version
        if latest is not None and memory.started_with != content and not is_written:
            stored = {each.process: each.address for each in latest.book} or {
                each: shown.get(each, "") for each in latest.members
            }
            mistakes = list(_differences(shown, stored))
            if mistakes:
                raise BadConfig(
                    f"[nodes] of the cluster.toml was edited ({mistakes[0][0]}), and the cluster"
                    f" has nodes {_listed(stored)}: undo that, and run `habemus member"
                    f" {mistakes[0][1]}`, which edits the file"
                )
        memory.start_with(content)

    # For operators.

    def fixed(self) -> str:
        """Return why the members of this cluster cannot change; empty if they can."""
        node = self._node
        # locks before the elections under them
        for service in sorted(node.services, key=lambda each: each.feed is None):
            if not service.grows and node.settings.record is None:
                algorithm = getattr(next(iter(service.system.plans.values())), "name", "")
                return f"service {service.name} ({algorithm}) has fixed members; " + (
                    f'write algorithm = "{service.growing}" in [services.{service.name}] of the'
                    " cluster.toml of each node, and restart the nodes one by one"
                    if service.growing
                    else "choose an algorithm whose name ends with -members for a new cluster"
                )
        if node.settings.record is not None:
            return "a cluster that records its events has fixed members; start it without record"
        if node.settings.folder is None:
            return 'a cluster with memory = "none" has fixed members'
        if len(self._sources) != 1:
            return f"a cluster with {len(self._sources)} services of locks has fixed members"
        return ""

    def plain(self) -> dict[str, Any] | None:
        """Return the members and the book as plain values; None if the members are fixed."""
        if self.fixed():
            return None
        latest, node = self._latest, self._node
        leader, term = node.leader_of(*self._sources[0])
        members = list(latest.members) if latest else self._first_members()
        book = {each.process: each for each in self._book()}
        return {
            "version": latest.version if latest else 0,
            "term": term,
            "leader": leader,
            "members": members,
            "learners": [each for each in book if each not in members],
            "nodes": {
                str(number): {"address": place.address, "memory": self._memory_of(place)}
                for number, place in sorted(book.items())
            },
            "may_change": self._election().may_change(),
            "memory": self._membership.identity.hex(),
        }

    def _first_members(self) -> list[int]:
        return [] if self._node.settings.joins else sorted((self._node.me, *self.peers))

    def _memory_of(self, place: Location) -> str:
        if place.process == self._node.me:
            return self._membership.identity.hex()
        return self._membership.known(place.process).hex() or place.memory

    def _book(self) -> tuple[Location, ...]:
        """Return the book; before the first change it has the nodes of the file."""
        if self._latest is not None and self._latest.book:
            return self._latest.book
        settings, me = self._node.settings, self._node.me
        if settings.joins:
            return ()
        own = Location(me, str(settings.address or settings.bind))
        others = [Location(peer, str(address)) for peer, address in self.peers.items()]
        return tuple(sorted((own, *others)))

    def _election(self) -> Election:
        process = self._node.participant(*self._sources[0])
        return cast(Election, process.pure.parts[0])

    def change(self, step: str, number: int, address: str, memory: str) -> bool:
        """Make one step of a change.  Return whether the leader, this node, could begin it; raise
        `ValueError` if it must not.
        """
        reason = self.fixed() or _mistake_in(step, number, address, memory)
        if reason:
            raise ValueError(reason)
        leader, _ = self._node.leader_of(*self._sources[0])
        if leader != self._node.me:
            who = "no node" if leader is None else f"node {leader}"
            raise ValueError(f"node {self._node.me} does not lead; {who} does")
        if not self._election().may_change():
            return False
        request, arguments = self._request(step, number, Location(number, address, memory))
        process = self._node.participant(*self._sources[0])
        self._node.make_request_of(process, request, arguments)
        return True

    def _request(self, step: str, number: int, place: Location) -> tuple[str, tuple[Any, ...]]:
        """Return the request to the election that makes the step."""
        book = {each.process: each for each in self._book()}
        members = self._latest.members if self._latest else tuple(self._first_members())
        if step == "introduce":
            same = [each for each in book.values() if each.address == place.address]
            if any(each.process != number for each in same):
                raise ValueError(f"node {same[0].process} has the address {place.address} already")
            if number in members and place.memory != self._memory_of(book[number]):
                raise ValueError(f"node {number} is a member with another memory; remove it first")
            book[number] = place
            return "rewrite", (tuple(sorted(book.values())),)
        if number not in book:
            raise ValueError(f"no node {number}; the cluster has nodes {_listed(book)}")
        if step == "forget":
            if number in members:
                raise ValueError(f"node {number} is a member; remove it first")
            del book[number]
            return "rewrite", (tuple(sorted(book.values())),)
        if step == "remove" and members == (number,):
            raise ValueError(f"node {number} is the last member; stop the cluster instead")
        return step, (number,)


def _mistake_in(step: str, number: int, address: str, memory: str) -> str:
    """Return what is wrong with a step that a client asks for; empty if it is well formed."""
    if step not in STEPS:
        return f"no step {step!r}; there are {', '.join(STEPS)}"
    if not 1 <= number <= MOST_NODES:
        return f"node {number}: number nodes from 1 to {MOST_NODES}"
    if step == "introduce":
        if parsed_address(address) is None:
            return f'{address!r} is not an address; write "10.0.0.4:7400"'
        try:
            is_identity = len(bytes.fromhex(memory)) == IDENTITY_SIZE
        except ValueError:
            is_identity = False
        if not is_identity:
            return f"{memory!r} is not the identity of a stable memory"
    return ""


def _differences(file: Mapping[int, str], stored: Mapping[int, str]) -> Iterator[tuple[str, str]]:
    """Yield in which nodes a file differs from what is stored, each with the command to use."""
    for number, address in file.items():
        if number not in stored:
            yield f"node {number} is new", f"add {number} {address}"
        elif stored[number] != address:
            yield f"node {number} has another address", f"replace {number} {address}"
    for number in stored:
        if number not in file:
            yield f"node {number} is missing", f"remove {number}"


def _listed(numbers: Mapping[int, Any] | Sequence[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))

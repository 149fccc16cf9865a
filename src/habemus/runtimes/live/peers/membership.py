"""Membership: nodes know each other by their stable memories, and notice one that was lost.

A node that has forgotten its votes and recorded grants must not vote and record as if there had
been none.  With an empty disk it cannot know that itself, but the other nodes can.  Each stable
memory has a random *identity*, which nodes exchange in the handshake.  Each node stores the
identity of every other one before the first message, and from then on refuses that node with any
other identity.

*A new node* takes part when every other node has accepted its identity once.  So all nodes of a
cluster have to be up together when it begins.  A majority is not enough: the missing node may be
the one that remembers.  A node that has met all others stores that, and later starts alone.

*A node that replaces one whose memory is lost* takes part by a decision of the operator
(`--replace`).  It shows that in the handshake; every other node then stores the new identity,
closes the connections of the old one, and refuses that for ever.  When all have, it asks each of
them for the durable variables of all its processes, and derives its own (`Process.on_replaced`).
Only then it takes part.  Why that is enough:

1. What the lost node sent reached a node before that node accepted the new identity, or never will.
2. So whatever the lost node contributed to (a vote, a recorded grant) is known to the node that
   asked for it, which had stored its own part before it asked: a candidate its term, a coordinator
   the loan.  All of them are queried, and answer later.
3. The new node begins with the newest of all answers.  In a term that any of them knows it does not
   vote, and it knows every loan that any of them knows.  A term or grant that only the lost node
   knew cannot have had a majority, and no message in transit refers to it.

This needs all other nodes at once, with their memories.  If two nodes have lost theirs, neither can
be replaced, and the cluster has to begin anew.

*Where members change* (`hosting.members`), a node that lost its memory is removed, and a new one of
the same number is added.  The configuration that the members store names the memory of each node
that was added.  From then on this node knows it by that memory and by no other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec

from habemus.core.node import PureNode, Stack
from habemus.core.process import ProcessId
from habemus.core.replacement import is_replaceable, replace_memory
from habemus.runtimes.live.hosting.instance import Instance
from habemus.runtimes.live.hosting.service import Service
from habemus.runtimes.live.peers.codec import Refused
from habemus.runtimes.live.peers.frames import StatePageFrame, StateQueryFrame
from habemus.runtimes.live.storage.batches import Entry
from habemus.runtimes.live.storage.log import COST, REPLACES, StableMemory, StorageFailed

log = logging.getLogger("habemus.live")

IDLE = ""
"""Name of the instance that stands for all idle ones of a service (`hosting.idle`)."""
PAGE_ENTRIES = 500
PAGE_BYTES = 256 << 10
BEFORE_ALL = (-1, "")


class Membership:
    """The memories of other nodes that one node knows, and whether it takes part itself."""

    def __init__(
        self,
        memory: StableMemory | None,
        node: int,
        peers: Collection[int],
        failed: Callable[[StorageFailed], None],
    ) -> None:
        self._memory = memory
        self._node = node
        self._failed = failed
        self.missing = set(peers)  # peers that have not accepted this node since it started
        self.is_complete = memory is None or not memory.joins

    # In handshakes.

    @property
    def identity(self) -> bytes:
        return b"" if self._memory is None else self._memory.identity

    @property
    def replaces(self) -> bool:
        return self._memory is not None and self._memory.joins == REPLACES

    def known(self, peer: int) -> bytes:
        """Identity of the memory by which this node knows another one; empty if it has none."""
        found = None if self._memory is None else self._memory.known.get(peer)
        return b"" if found is None else found.identity

    def objection(self, peer: int, identity: bytes, replaces: bool) -> str:
        """Return why the peer is not the node that this node knows; empty if it may be."""
        if bool(identity) != bool(self.identity):
            return (
                f"node {peer} has {'a' if identity else 'no'} stable memory, and node {self._node}"
                f" has {'none' if identity else 'one'}"
            )
        known = self.known(peer)
        if not known or known == identity or replaces:
            return ""
        return (
            f"node {peer} has another memory ({identity.hex()[:8]}) than the one that node"
            f" {self._node} knows it by ({known.hex()[:8]}); if that is lost for good, start node"
            f" {peer} with `habemus node --replace`"
        )

    def meet(self, peer: int, identity: bytes) -> None:
        """Store the identity of the peer, before any message is exchanged."""
        if self._memory is not None:
            if self.known(peer) not in (b"", identity):
                log.warning("node %d was replaced: its memory is now %s", peer, identity.hex()[:8])
            try:
                self._memory.learn(peer, identity)
            except StorageFailed as reason:
                self._failed(reason)

    def agree_on(self, peer: int, identity: bytes) -> bool:
        """Know a peer by the memory that the members have agreed on.  Return whether that is news.
        A node that was replaced since stays replaced.
        """
        memory = self._memory
        if memory is None or memory.agreed.get(peer) == identity:
            return False
        try:
            memory.agree_on(peer, identity)
        except StorageFailed as reason:
            self._failed(reason)
        return True

    def was_replaced(self, peer: int) -> bool:
        """Return whether an operator has replaced the peer by `--replace`, since members agreed."""
        found = None if self._memory is None else self._memory.known.get(peer)
        if found is None or self._memory is None or found.lives == 1:
            return False
        return self._memory.agreed.get(peer) != found.identity

    def accepted_by(self, peer: int) -> None:
        self.missing.discard(peer)

    def disowned_by(self, peer: int, known: bytes) -> None:
        """Stop this node: the peer has proved that it knows another memory of it."""
        assert self._memory is not None
        reason = (
            f"node {peer} knows node {self._node} by another memory ({known.hex()[:8]}) than this"
            f" one ({self.identity.hex()[:8]}): "
        )
        reason += (
            f"node {self._node} has lost its memory; {COST}"
            if self._memory.joins
            else f"node {self._node} has been replaced"
        )
        self._failed(StorageFailed(reason))

    # For nodes that replace another.

    def page_after(
        self, peer: int, asked: StateQueryFrame, instances: dict[tuple[int, str], Instance]
    ) -> StatePageFrame:
        """Return one page of the durable state of this node, after the instance in the query."""
        found = None if self._memory is None else self._memory.known.get(peer)
        lives = 1 if found is None else found.lives
        entries: list[tuple[int, str, int, bytes]] = []
        size = 0
        after = _page_order((asked.service, asked.instance))
        later = (key for key in instances if _page_order(key) > after)
        for key in sorted(later, key=_page_order):
            if size > PAGE_BYTES or len(entries) >= PAGE_ENTRIES:
                return StatePageFrame(
                    asked.service, asked.instance, self.is_complete, lives, entries, is_last=False
                )
            for local_process in instances[key].processes.values():
                if local_process.keeps:
                    stored = msgspec.msgpack.encode(
                        local_process.stable.plain(local_process.pure.parts)
                    )
                    entries.append((*key, local_process.me, stored))
                    size += len(stored) + len(key[1])
        return StatePageFrame(
            asked.service, asked.instance, self.is_complete, lives, entries, is_last=True
        )


def _page_order(key: tuple[int, str]) -> tuple[int, bool, str]:
    """Put the idle instances of a service last: one that was in use, and is not any more when its
    turn has come, is among them then.
    """
    service, name = key
    return service, name == IDLE, name


class StateRecovery:
    """The durable state of the other nodes, collected page by page by a node that replaces one."""

    def __init__(
        self,
        node: int,
        peers: Collection[int],
        services: Sequence[Service],
    ) -> None:
        self._node = node
        self._services = services
        self._after = dict.fromkeys(peers, BEFORE_ALL)  # peers with more pages
        self._life = 1
        self._stored: dict[tuple[int, str], dict[ProcessId, bytes]] = {}
        self._not_members: set[int] = set()

    def questions(self) -> list[tuple[int, StateQueryFrame]]:
        return [(peer, StateQueryFrame(*after)) for peer, after in self._after.items()]

    @property
    def is_complete(self) -> bool:
        return not self._after

    def take(self, peer: int, page: StatePageFrame) -> StateQueryFrame | Refused | None:
        """Add a page.  Return the query for the next one, if any."""
        for service, _, process, _ in page.entries:
            if (
                not 0 <= service < len(self._services)
                or self._services[service].home.get(process) != peer
            ):
                return Refused(
                    f"state of process {process} of service {service}, which does not run on node"
                    f" {peer}"
                )
        if self._after.get(peer) != (page.service, page.instance):
            return None  # duplicate
        if not page.is_member:
            if peer not in self._not_members:
                self._not_members.add(peer)
                log.warning(
                    "node %d does not take part itself: node %d cannot recover from it; if both"
                    " have lost their memory, the cluster has to begin anew",
                    peer,
                    self._node,
                )
            return None
        self._life = max(self._life, page.lives)
        for service, name, process, stored in page.entries:
            self._stored.setdefault((service, name), {})[process] = stored
        if page.is_last:
            del self._after[peer]
            return None
        self._after[peer] = page.entries[-1][:2]
        return StateQueryFrame(*self._after[peer])

    def entries(self) -> list[Entry]:
        """Return the entries to begin with; raise `ValueError` if the received state is invalid."""
        found: list[Entry] = []
        for (index, name), stored in sorted(self._stored.items()):
            service = self._services[index]
            idle = self._stored.get((index, IDLE), {})  # of the nodes that do not use the instance
            for me in service.at(self._node):
                if service.stacks[me].durable:
                    others = [
                        self._restored(service, process, each)
                        for process, each in sorted((idle | stored).items())
                    ]
                    mine = _replaced(service, me, others, self._life)
                    found.append(
                        (
                            f"{service.name}/{me}/{name}",
                            msgspec.msgpack.encode(service.stable[me].plain(mine.parts)),
                        )
                    )
        return found

    def _restored(self, service: Service, process: ProcessId, stored: bytes) -> PureNode:
        made = _made(service, process)
        plain: Any = msgspec.msgpack.decode(stored)
        made.restore(service.stable[process].state(plain))
        return made


def irreplaceable(services: Sequence[Service], node: int) -> str:
    """Return the first service that cannot replace a lost memory; empty if all can."""
    for service in services:
        for me in service.at(node):
            stack = service.stacks[me]
            if not is_replaceable(stack):
                return service.name
            if stack.durable and any(other is not stack for other in service.stacks.values()):
                return service.name
    return ""


def _made(service: Service, process: ProcessId) -> PureNode:
    stack: Stack = service.stacks[process]
    return PureNode(
        stack, process, service.system.topology.neighbours[process], lambda options: options[0]
    )


def _replaced(service: Service, me: ProcessId, others: list[PureNode], life: int) -> PureNode:
    made = _made(service, me)
    replace_memory(made, others, life)
    return made

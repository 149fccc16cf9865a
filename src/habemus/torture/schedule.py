"""The schedule of faults, drawn from a seed: kind, victims, time and duration.

Faults come in rounds.  For each round a few nodes are chosen, fewer than half, and only they and
their links are hit, so that a majority of the others is up and connected, whatever else happens.
At the end of a round all faults are healed.  The next round begins after a grant; the time until
that grant is measured.

Three kinds spare no majority: `kill-majority`, `kill-all` and `power-all`.  A round has at most one
of them, and then no other fault ends or pauses a node in that round.  The memory of at most one
node is damaged in a round.  The members change at most once in a round, whatever else is hit
meanwhile.

After every few rounds there is a rest that is longer than a lease, so that what clients see can be
judged in a time without faults (`habemus.torture.judge`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import NamedTuple

from habemus.core.quorums import more_than_half

KINDS = {
    "kill-node": "kill -9 of a node, which is started again after a while",
    "stop-node": (
        "SIGTERM of a node, which ends in order, and resigns if it leads; it is started again after"
        " a while"
    ),
    "kill-majority": "kill -9 of more than half of the nodes at once; they are started again",
    "kill-all": "kill -9 of all nodes at once; they are started again",
    "power-node": (
        "kill -9 of a node, which loses what it has not synced, as when its machine crashes; it is"
        " started again"
    ),
    "power-all": "the same of all nodes at once",
    "kill-client": "kill -9 of a client; another one takes its place",
    "pause-node": "SIGSTOP of a node, SIGCONT after a while",
    "pause-client": (
        "SIGSTOP of a client, mostly of the one that is inside, and mostly for longer than its"
        " lease"
    ),
    "cut": (
        "nothing passes between two nodes, or between one and all others; bytes under way wait, or"
        " are lost"
    ),
    "cut-one-way": "the same in one direction only",
    "cut-client": (
        "nothing passes between a client and all nodes, mostly for longer than its lease; bytes"
        " under way wait, or are lost"
    ),
    "close-client": (
        "the connections of a client that lives on are closed: at both ends, or only at its nodes,"
        " which the client does not hear for a while"
    ),
    "delay": "what passes between some nodes is late",
    "drop": "connections between some nodes break again and again, and what is under way is lost",
    "disk-full": (
        "the disk of a node is full in the middle of a write: the node has to stop, and is started"
        " again with space"
    ),
    "disk-cut": "while a node is down, its memory loses its end; the operator replaces the node",
    "disk-garble": (
        "while a node is down, bits of its memory flip, or a part of it becomes zeros; the operator"
        " replaces the node"
    ),
    "disk-lost": "while a node is down, its memory is removed; the operator replaces the node",
    "member-swap": "a new node is added to the members, then one of the others is removed",
    "member-replace": (
        "kill -9 of a node, whose memory is removed; a new node of the same number takes its place"
    ),
}
GROUPS = {
    "kill": ("kill-node", "kill-client"),
    "kill-all": ("kill-majority", "kill-all"),
    "power": ("power-node", "power-all"),
    "pause": ("pause-node", "pause-client"),
    "cut": ("cut", "cut-one-way", "cut-client"),
    "disk": ("disk-full", "disk-cut", "disk-garble", "disk-lost"),
    "member": ("member-swap", "member-replace"),
}
"""The kinds that one word stands for."""
MASS_KILLS = ("kill-majority", "kill-all")
POWER_KINDS = ("power-node", "power-all")
MASS_KINDS = (*MASS_KILLS, "power-all")
DAMAGE_KINDS = ("disk-cut", "disk-garble", "disk-lost")
MEMBER_KINDS = ("member-swap", "member-replace")
NODE_ENDS = (
    *("kill-node", "stop-node", *MASS_KILLS, *POWER_KINDS, "disk-full"),
    *(*DAMAGE_KINDS, *MEMBER_KINDS),
)
PROCESS_KINDS = (*NODE_ENDS, "pause-node")
NETWORK_KINDS = ("cut-client", "close-client")
"""Faults of the connections of a client by the network."""
CLIENT_KINDS = ("kill-client", "pause-client", *NETWORK_KINDS)
OF_THE_CLUSTER = tuple(kind for kind in KINDS if kind not in CLIENT_KINDS)
"""Faults that hit nodes or the links between them."""
OUT_OF_HEARING = ("pause-client", "cut-client")
"""Faults during which a client does not hear that its lock is lost."""
ROUND_S = 1.0
"""Time in which the faults of a round begin."""
MOST_FAULTS = 5
"""Most faults in one round."""
AT_LEADER = 0.6
"""Fraction of rounds that hit the leader, if there is one."""
CALM_S = (0.2, 0.8)
"""Rest between a healing and the next round."""
LONG_CALMS = 0.25
"""Fraction of rounds with a long rest."""
LONG_CALM_S = (0.8, 1.6)
"""Length of a long rest, after the last lease of the round has expired."""
CURRENT_HOLDER = 0
FEWEST_REPLACING = 3
"""Fewest nodes if memories are damaged: a majority must keep theirs."""

Link = tuple[int, int]
"""Sender and receiver."""


class PlannedFault(NamedTuple):
    kind: str
    after: float  # the round began, in seconds
    lasts: float
    nodes: tuple[int, ...] = ()
    client: int = CURRENT_HOLDER
    links: tuple[Link, ...] = ()
    is_silent: bool = False  # the connections stay, and nothing comes through
    member: int = 0  # the node that is removed from the members, and is not hit before

    @property
    def whom(self) -> str:
        if self.member:
            return f"node {self.member}"
        if self.kind in PROCESS_KINDS:
            return f"node{'s' * (len(self.nodes) > 1)} {', '.join(map(str, self.nodes))}"
        if self.kind in CLIENT_KINDS:
            return f"client {self.client}" if self.client else "the current holder"
        return " ".join(f"{sender}>{receiver}" for sender, receiver in self.links)


class Round(NamedTuple):
    faults: list[PlannedFault]
    # the faults of this node are swapped with those of the leader; 0: no swap
    leader: int
    calm_s: float = 0.0  # rest after the round

    def aimed(self, leader: int | None) -> list[PlannedFault]:
        """Return the faults, with the leader in the place of `self.leader`."""
        if leader is None or not self.leader:
            return self.faults
        other = {self.leader: leader, leader: self.leader}
        return [renumbered(fault, other) for fault in self.faults]


def renumbered(fault: PlannedFault, other: Mapping[int, int]) -> PlannedFault:
    """Return the fault with other nodes in the place of some."""
    return fault._replace(
        nodes=tuple(other.get(node, node) for node in fault.nodes),
        links=tuple(
            (other.get(sender, sender), other.get(receiver, receiver))
            for sender, receiver in fault.links
        ),
        member=other.get(fault.member, fault.member),
    )


class Size(NamedTuple):
    nodes: int
    clients: int
    lease_s: float  # 0: there are none
    kinds: tuple[str, ...]
    spares_waking: bool = False
    """No client is paused or cut off while nodes are killed, and no connection of a client breaks.
    A lock ends with the node by which it was acquired; a client without a lease hears of that when
    its connection closes.  When a connection breaks, the node releases the lock at once, and the
    client hears of that at its next check."""

    @property
    def aftermath_s(self) -> float:
        """Time after a fault until all leases granted before have expired."""
        return outlasting(self.lease_s)


def outlasting(lease_s: float) -> float:
    """Return a time longer than a lease by any clock that is at most 10 % slow."""
    return 1.1 * lease_s


def is_by_network(client: int) -> bool:
    """Return whether a client uses the network: every other one does.  The rest use local sockets,
    which cannot be cut.
    """
    return client % 2 == 1


def is_asynchronous(client: int) -> bool:
    """Return whether a client is a task of an event loop: one of each two by the network, and one
    of each two by local sockets.
    """
    return (client - 1) // 2 % 2 == 1


def rounds(size: Size, seed: int) -> Iterator[Round]:
    """Yield rounds without end; the same rounds for the same seed."""
    draw = Random(seed)
    bag: list[str] = []  # each kind has its turn before any of them comes again
    while True:
        most = max(1, (size.nodes - 1) // 2)
        weak = sorted(draw.sample(range(1, size.nodes + 1), draw.randint(1, most)))
        faults = _RoundDraft(size, weak, draw).faults(bag)
        leader = draw.choice(weak) if draw.random() < AT_LEADER else 0
        # A full disk is met by a write only, and the leader stores each loan.
        full = (fault.nodes[0] for fault in faults if fault.kind == "disk-full")
        leader = next(full, leader)
        is_long = draw.random() < LONG_CALMS
        calm_s = draw.uniform(*LONG_CALM_S) + size.aftermath_s if is_long else draw.uniform(*CALM_S)
        yield Round(faults, leader, calm_s)


class _RoundDraft:
    """A round while it is being drawn, and the victims that are left."""

    def __init__(self, size: Size, weak: list[int], draw: Random) -> None:
        self._size = size
        self._weak = weak
        self._draw = draw
        self._still_up = list(weak)
        self._clients = list(range(1, size.clients + 1))
        self._found: list[PlannedFault] = []
        self._unwanted: tuple[str, ...] = ()
        kinds = set(size.kinds)
        if size.spares_waking and kinds & set(OUT_OF_HEARING) and kinds & set(NODE_ENDS):
            self._unwanted = draw.choice((OUT_OF_HEARING, NODE_ENDS))

    def faults(self, bag: list[str]) -> list[PlannedFault]:
        kinds = self._size.kinds
        for _ in range(self._draw.randint(2, MOST_FAULTS)):
            if not bag:
                bag += self._draw.sample(kinds, len(kinds))
            kind = next((each for each in bag if self._fits(each)), None)
            if kind is not None:
                bag.remove(kind)
                self._found.append(self._fault(kind, self._draw.uniform(0, ROUND_S)))
        return sorted(self._found, key=lambda fault: fault.after)

    def _fits(self, kind: str) -> bool:
        """Return whether this round has a victim left for the kind."""
        if kind in self._unwanted:
            return False
        if kind in MASS_KINDS:
            return self._still_up == self._weak
        for kinds in (DAMAGE_KINDS, MEMBER_KINDS):
            if kind in kinds and any(fault.kind in kinds for fault in self._found):
                return False
        if kind == "member-swap":
            return True
        if kind in PROCESS_KINDS:
            return bool(self._still_up)
        if kind in CLIENT_KINDS:
            return bool(self._reachable(kind))
        return self._size.nodes > 1

    def _reachable(self, kind: str) -> list[int]:
        return [each for each in self._clients if kind not in NETWORK_KINDS or is_by_network(each)]

    def _fault(self, kind: str, after: float) -> PlannedFault:
        draw, size = self._draw, self._size
        if kind == "member-swap":
            return PlannedFault(kind, after, 0.0, member=draw.randint(1, size.nodes))
        if kind in MASS_KINDS:
            self._still_up = []
            return PlannedFault(kind, after, draw.uniform(0.1, 1.2), nodes=self._many(kind))
        if kind in PROCESS_KINDS:
            node = self._still_up.pop(draw.randrange(len(self._still_up)))
            return PlannedFault(kind, after, draw.uniform(0.1, 1.2), nodes=(node,))
        if kind in CLIENT_KINDS:
            client = draw.choice(self._reachable(kind))
            self._clients.remove(client)
            client = CURRENT_HOLDER if draw.random() < 0.7 else client
            outlasts = size.lease_s and draw.random() < 0.7
            lasts = size.lease_s * draw.uniform(1.05, 1.5) if outlasts else draw.uniform(0.2, 1.0)
            is_silent = size.spares_waking or draw.random() < 0.5
            return PlannedFault(kind, after, lasts, client=client, is_silent=is_silent)
        links = _links(kind, draw.choice(self._weak), list(range(1, size.nodes + 1)), draw)
        return PlannedFault(
            kind, after, draw.uniform(0.2, 1.5), links=links, is_silent=draw.random() < 0.5
        )

    def _many(self, kind: str) -> tuple[int, ...]:
        """Return all nodes, or more than half of them."""
        everybody = range(1, self._size.nodes + 1)
        if kind != "kill-majority":
            return tuple(everybody)
        return tuple(sorted(self._draw.sample(everybody, more_than_half(self._size.nodes))))


def _links(kind: str, node: int, nodes: list[int], draw: Random) -> tuple[Link, ...]:
    """Return the links to hit: between a node and another one, or all others."""
    others = [each for each in nodes if each != node]
    if draw.random() < 0.5:
        others = [draw.choice(others)]
    away = tuple((node, other) for other in others)
    back = tuple((other, node) for other in others)
    return draw.choice((away, back)) if kind == "cut-one-way" else away + back

"""Which fault, whom, when and for how long: drawn from a seed.

Faults come in rounds.  For each round a few nodes are chosen, fewer than half, and only they and their links are hit, so that a
majority of the others is up and connected, whatever else happens.  At the end of a round everything is healed, and the next
begins when somebody has been let in: how long that takes is one of the things to be measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

KINDS = {
    "kill-node": "kill -9 of a node, which is started again after a while",
    "kill-client": "kill -9 of a client; another one takes its place",
    "pause-node": "SIGSTOP of a node, SIGCONT after a while",
    "pause-client": "SIGSTOP of a client, mostly of the one that is inside, and mostly for longer than its lease",
    "cut": "nothing passes between two nodes, or between one and all others; bytes under way wait, or are lost",
    "cut-one-way": "the same in one direction only",
    "cut-client": "nothing passes between a client and all nodes, mostly for longer than its lease; bytes under way wait, or are lost",
    "delay": "what passes between some nodes is late",
    "drop": "connections between some nodes break again and again, and what is under way is lost",
    "disk": "the disk of a node is full in the middle of a write: the node has to stop, and is started again with space",
}
GROUPS = {"kill": ("kill-node", "kill-client"), "pause": ("pause-node", "pause-client"), "cut": ("cut", "cut-one-way", "cut-client")}
"""What one word stands for."""
NODE_ENDS = ("kill-node", "disk")
PROCESS_KINDS = (*NODE_ENDS, "pause-node")
CLIENT_KINDS = ("kill-client", "pause-client", "cut-client")
OUT_OF_HEARING = ("pause-client", "cut-client")
"""Meanwhile a client does not hear that its lock is lost."""
ROUND_S = 1.0
"""Within which the faults of a round begin."""
MOST_FAULTS = 5
"""In one round."""
AT_LEADER = 0.6
"""In so many rounds the leader is one of those that are hit, where there is a leader."""
WHOEVER_IS_INSIDE = 0

Link = tuple[int, int]
"""From one node to another."""


class Fault(NamedTuple):
    kind: str
    after: float  # the round began, in seconds
    lasts: float
    node: int = 0
    client: int = WHOEVER_IS_INSIDE
    links: tuple[Link, ...] = ()
    is_silent: bool = False  # the connections stay, and nothing comes through

    @property
    def whom(self) -> str:
        if self.kind in PROCESS_KINDS:
            return f"node {self.node}"
        if self.kind in CLIENT_KINDS:
            return f"client {self.client}" if self.client else "whoever is inside"
        return " ".join(f"{sender}>{receiver}" for sender, receiver in self.links)


class Round(NamedTuple):
    faults: list[Fault]
    leader: int  # the faults of this node are to be those of whoever leads, and the other way round; 0: it is what it is

    def aimed(self, leader: int | None) -> list[Fault]:
        """The faults, with the leader in that place."""
        if leader is None or not self.leader:
            return self.faults
        other = {self.leader: leader, leader: self.leader}
        return [
            fault._replace(
                node=other.get(fault.node, fault.node),
                links=tuple((other.get(sender, sender), other.get(receiver, receiver)) for sender, receiver in fault.links),
            )
            for fault in self.faults
        ]


class Size(NamedTuple):
    nodes: int
    clients: int
    lease_s: float  # 0: there are none
    kinds: tuple[str, ...]
    spares_waking: bool = False
    """No client stands still or is cut off while nodes are killed.  A lock belongs to the node by which it was acquired, and ends with it;
    a client without a lease hears of that when the connection closes, but not meanwhile.  And no connection of a client breaks: then
    its node lets go of the lock at once, and the client hears of that when it next looks."""


def is_by_network(client: int) -> bool:
    """Every other client reaches the nodes by the network, and the others by local sockets, which nobody can cut."""
    return client % 2 == 1


def rounds(size: Size, seed: int) -> Iterator[Round]:
    """One after another, for ever; the same for the same seed."""
    draw = Random(seed)
    bag: list[str] = []  # each kind has its turn before any of them comes again
    while True:
        weak = sorted(draw.sample(range(1, size.nodes + 1), draw.randint(1, max(1, (size.nodes - 1) // 2))))
        yield Round(_round(size, weak, draw, bag), draw.choice(weak) if draw.random() < AT_LEADER else 0)


def _round(size: Size, weak: list[int], draw: Random, bag: list[str]) -> list[Fault]:
    unwanted: tuple[str, ...] = ()
    if size.spares_waking and not (set(OUT_OF_HEARING).isdisjoint(size.kinds) or set(NODE_ENDS).isdisjoint(size.kinds)):
        unwanted = draw.choice((OUT_OF_HEARING, NODE_ENDS))
    still_up = list(weak)
    clients = list(range(1, size.clients + 1))
    found: list[Fault] = []
    for _ in range(draw.randint(2, MOST_FAULTS)):
        if not bag:
            bag += draw.sample(size.kinds, len(size.kinds))
        kind = next((each for each in bag if _fits(each, unwanted, still_up, clients, size)), None)
        if kind is None:
            continue
        bag.remove(kind)
        after = draw.uniform(0, ROUND_S)
        if kind in PROCESS_KINDS:
            node = still_up.pop(draw.randrange(len(still_up)))
            found.append(Fault(kind, after, draw.uniform(0.1, 1.2), node=node))
        elif kind in CLIENT_KINDS:
            client = draw.choice([each for each in clients if kind != "cut-client" or is_by_network(each)])
            clients.remove(client)
            is_targeted = draw.random() < 0.7
            lasts = size.lease_s * draw.uniform(1.05, 1.5) if size.lease_s and draw.random() < 0.7 else draw.uniform(0.2, 1.0)
            is_silent = size.spares_waking or draw.random() < 0.5
            found.append(Fault(kind, after, lasts, client=WHOEVER_IS_INSIDE if is_targeted else client, is_silent=is_silent))
        else:
            links = _links(kind, draw.choice(weak), list(range(1, size.nodes + 1)), draw)
            found.append(Fault(kind, after, draw.uniform(0.2, 1.5), links=links, is_silent=draw.random() < 0.5))
    return sorted(found, key=lambda fault: fault.after)


def _fits(kind: str, unwanted: tuple[str, ...], still_up: list[int], clients: list[int], size: Size) -> bool:
    """Whether there is somebody left to whom it can be done in this round."""
    if kind in PROCESS_KINDS:
        return bool(still_up) and kind not in unwanted
    if kind in CLIENT_KINDS:
        return kind not in unwanted and any(kind != "cut-client" or is_by_network(each) for each in clients)
    return size.nodes > 1


def _links(kind: str, node: int, nodes: list[int], draw: Random) -> tuple[Link, ...]:
    """Those to be hit: of one node to another one, or to all."""
    others = [each for each in nodes if each != node]
    if draw.random() < 0.5:
        others = [draw.choice(others)]
    away = tuple((node, other) for other in others)
    back = tuple((other, node) for other in others)
    return draw.choice((away, back)) if kind == "cut-one-way" else away + back

"""Election in any connected network: Yo-Yo.

Every link is given a direction, from the smaller id to the larger, so that the smallest ids around
are sources.  Then, stage by stage, the ids of the sources go down (Yo): every process passes on the
smallest that has come.  And votes go up (-Yo): a process votes yes on the links by which the
smallest came and no on the others, and a no turns its link round, so that a source that has lost is
none in the next stage.  Links and processes that can no longer make a difference are pruned.  The
end is a source without links: the smallest id.  It is announced along the tree of the links by
which the others left.

Source   Santoro: Design and Analysis of Distributed Algorithms, 2007, 3.8.3; lecture notes on
         coordination.
Assumes  reliable links, in any order; no process crashes; a connected network.  If links may be cut
         from the start, `patience` must be longer than the way to a neighbour and back; and a
         network that is cut in two elects two (yo-yo-cut).
Cost     on m links: 2m messages to exchange ids, at most 2m in each of at most 1 + 1.44 log2 n
         stages (a stage has at least as many sources as the next two together), and n-1 to
         announce.
Ensures  E1, E2, E3, E4.
Differs  The notes leave out the pruning and so never end.  Here a process with nothing below it
         that gets one value only leaves the game, in the same stage as those below it; and of
         several links that bring the same value all but one are pruned.  A pruned link carries no
         vote: were it a no, the process above might be left without a link that leads to it, and be
         a source again for a stage.  The notes let a process vote yes as soon as one vote from
         below is yes; Santoro wants all, else a source that has lost may go on for another stage. A
         process that did not call is woken by the first message.  With `patience`, a neighbour that
         is silent for so long is taken for cut off; without, all wait for it.  An election
         is held once, since no process crashes.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from habemus.algorithms.election.ring import Order, arranged
from habemus.core import (
    Const,
    Message,
    MistakeInPlan,
    ProcessId,
    Span,
    System,
    Timer,
    Topology,
    upon,
    whenever,
)
from habemus.core.system import TOPOLOGIES, random_connected
from habemus.problems.election import Election, Leader


class Id(Message):
    process: ProcessId


class Yo(Message):
    """The smallest id that has come down to the sender."""

    smallest: ProcessId


class Answer(IntEnum):
    YES = 0
    NO = 1  # and from now on the link runs the other way
    PRUNE = 2  # another link brought the same
    LEAVE = 3  # the sender leaves the game: its last link


YES, NO, PRUNE, LEAVE = Answer


class Vote(Message):
    """-Yo: what becomes of the link, and of the value that came down on it."""

    answer: Answer


class Elected(Message):
    process: ProcessId


class Silent(Timer):
    """A neighbour that has not sent its id by now is unreachable."""


class YoYo(Election):
    name = "yo-yo"
    shows = ("stage", "leader")
    largest = 100_000

    topology: Const[str] = "random"
    edges: Const[
        tuple[tuple[ProcessId, ProcessId], ...]
    ] = ()  # instead of the topology: the links, one by one
    order: Const[Order] = "random"  # of the ids on the topology
    arrangement: Const[int] = 0  # another one is another random order, and another random topology
    patience: Const[Span | None] = None

    awake: bool = False
    plays: bool = True  # still in the game
    unknown: set[ProcessId] = set()  # neighbours whose ids have not come yet
    incoming: set[ProcessId] = set()  # neighbours with a link from them to here
    outgoing: set[ProcessId] = set()  # neighbours with a link from here to them
    heard: dict[ProcessId, ProcessId] = {}  # values that have come, until their stage begins here
    stage: int = 0
    is_down: bool = False  # in this stage the smallest has been passed on, and votes are awaited
    brought: dict[ProcessId, ProcessId] = {}  # in this stage, by which neighbour
    awaited: set[ProcessId] = set()  # whose votes are missing
    unanimous: bool = True  # no vote was no
    children: list[ProcessId] = []  # who left the game by a link to here
    leader: ProcessId | None = None

    # Setting up: exchange ids, and direct the links.

    def elect(self) -> None:
        self.wake()

    def wake(self) -> None:
        if not self.awake:
            self.awake = True
            self.unknown = set(self.peers)
            self.broadcast(Id(self.me))
            if self.patience is not None:
                self.set_timer(Silent(), after=self.patience)

    @upon(Id)
    def direct_link(self, sender: ProcessId, id: Id) -> None:
        self.wake()
        if sender in self.unknown:
            self.unknown.discard(sender)
            if id.process < self.me:
                self.incoming.add(sender)
            else:
                self.outgoing.add(sender)
        if not self.unknown:
            self.cancel_timer(Silent())

    @upon(Silent)
    def give_up_the_silent(self, _: Silent) -> None:
        self.unknown.clear()

    def is_between_stages(self) -> bool:
        return (
            self.awake
            and not self.unknown
            and self.plays
            and not self.is_down
            and self.leader is None
        )

    # Yo: the smallest values go down.

    @upon(Yo)
    def hear(self, sender: ProcessId, yo: Yo) -> None:
        # It may come early, from a neighbour below that has voted no and is a stage ahead.
        self.heard[sender] = yo.smallest

    def has_heard_all_above(self) -> bool:
        return (
            self.is_between_stages()
            and bool(self.incoming or self.outgoing)
            and self.incoming <= self.heard.keys()
        )

    @whenever(has_heard_all_above)
    def pass_smallest_down(self) -> None:
        self.is_down = True
        self.stage += 1
        self.brought = {each: self.heard.pop(each) for each in sorted(self.incoming)}
        self.awaited = set(self.outgoing)
        self.unanimous = True
        for each in sorted(self.outgoing):
            self.send(Yo(self.smallest()), to=each)

    def smallest(self) -> ProcessId:
        return min(self.brought.values(), default=self.me)

    # -Yo: the votes come up.

    @upon(Vote)
    def count_vote(self, sender: ProcessId, vote: Vote) -> None:
        self.awaited.discard(sender)
        if vote.answer != YES:
            self.outgoing.discard(sender)
        if vote.answer == NO:
            self.incoming.add(sender)
            self.unanimous = False
        elif vote.answer == LEAVE:
            self.children.append(sender)

    def has_all_votes(self) -> bool:
        return self.is_down and not self.awaited

    @whenever(has_all_votes)
    def vote(self) -> None:
        self.is_down = False
        leaves = self.is_useless()
        seen: set[ProcessId] = set()
        for each in sorted(self.brought):
            value = self.brought[each]
            if value in seen:
                self.answer(PRUNE, each)
            elif leaves:
                self.answer(LEAVE, each)
            else:
                self.answer(YES if self.unanimous and value == self.smallest() else NO, each)
            seen.add(value)
        if leaves:
            self.plays = False

    def is_useless(self) -> bool:
        """Return whether nothing is left below, and only one value came from above."""
        return (
            not self.outgoing
            and self.incoming == self.brought.keys()
            and len(set(self.brought.values())) == 1
        )

    def answer(self, answer: Answer, neighbour: ProcessId) -> None:
        self.send(Vote(answer), to=neighbour)
        if answer != YES:
            self.incoming.discard(neighbour)
        if answer == NO:
            self.outgoing.add(neighbour)

    # The end.

    def is_alone(self) -> bool:
        return self.is_between_stages() and not self.incoming and not self.outgoing

    @whenever(is_alone)
    def win(self) -> None:
        self.announce(self.me)

    @upon(Elected)
    def follow(self, sender: ProcessId, elected: Elected) -> None:
        self.announce(elected.process)

    def announce(self, leader: ProcessId) -> None:
        self.leader = leader
        self.indicate(Leader(leader))
        for child in self.children:
            self.send(Elected(leader), to=child)

    # What the catalog needs to know.

    def awaits(self) -> Sequence[ProcessId]:
        return sorted(self.unknown or self.awaited or self.incoming - self.heard.keys())

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        """Return participants 1 to N on the links of the plan."""
        plan = cls(**options)
        everybody = range(1, size + 1)
        return System(dict.fromkeys(everybody, plan), plan.network(size), tuple(everybody))

    def network(self, size: int) -> Topology:
        if self.edges:
            return self.given_network(size)
        if self.topology not in TOPOLOGIES:
            raise MistakeInPlan(
                f"there is no topology {self.topology!r}; there are {', '.join(TOPOLOGIES)}"
            )
        ids = arranged(size, self.order, self.arrangement)
        return (
            random_connected(ids, self.arrangement)
            if self.topology == "random"
            else TOPOLOGIES[self.topology](ids)
        )

    def given_network(self, size: int) -> Topology:
        topology = Topology.of_edges("edges", range(1, size + 1), self.edges)
        if not topology.is_connected():
            raise MistakeInPlan(
                "these edges do not connect all processes; to see a network in two parts, cut links"
                " of a connected one"
            )
        return topology

"""Election in an anonymous ring by chance: Itai and Rodeh.

Identical processes cannot elect one of them by any rule, but they can draw lots.  Each candidate
draws an id and sends it round; smaller ones drop out.  If several have drawn the largest, each of
them sees it on its own token when that returns, and they draw again.  The ring's size must be
known: only by counting hops does a process recognise its own token.

Source   Itai, Rodeh: Symmetry breaking in distributed networks, Information and Computation 88(1),
         1990; in the form of Fokkink, Pang: Variations on Itai-Rodeh leader election for anonymous
         rings, J. UCS 12(8), 2006.
Assumes  reliable links, in any order; no process crashes; all know the number of processes.
Cost     O(n log n) messages on average, and n to announce; without bound in the worst case.
Ensures  E1, E2, E3, E4; E2 with probability 1, since no two draw the same for ever.
Differs  A process that did not call before the first token came only relays.  The announcement
         carries the name of the elected, for the application; no rule looks at it.  An election is
         held once, since no process crashes.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from habemus.algorithms.election.ring import Ring
from habemus.core import Const, Message, ProcessId, System, upon
from habemus.problems.election import ElectionCosts, Leader


class Token(Message):
    round: int
    id: int
    hops: int
    alone: bool  # no other process of the same round and id has seen it


class Habemus(Message):
    leader: ProcessId
    hops: int


class Standing(IntEnum):
    ASLEEP = 0
    ACTIVE = 1
    PASSIVE = 2
    LEADER = 3


ASLEEP, ACTIVE, PASSIVE, LEADER = Standing


class ItaiRodeh(Ring):
    name = "itai-rodeh"
    shows = ("standing", "round", "id")

    n: Const[int]  # how many there are in the ring
    standing: Standing = ASLEEP
    round: int = 0
    id: int = 0  # drawn for this round

    def elect(self) -> None:
        if self.standing == ASLEEP:
            self.draw()

    def draw(self) -> None:
        self.standing = ACTIVE
        self.round += 1
        self.id = self.choose(range(1, self.n + 1))
        self.send(Token(self.round, self.id, hops=1, alone=True), to=self.right)

    @upon(Token)
    def compare(self, sender: ProcessId, token: Token) -> None:
        mine, its = (self.round, self.id), (token.round, token.id)
        if self.standing in (ASLEEP, PASSIVE):
            self.relay(token)
        elif self.standing == ACTIVE and token.hops == self.n:
            self.win_or_draw_again(token)
        elif self.standing == ACTIVE and its >= mine:
            self.relay(token)

    def relay(self, token: Token) -> None:
        is_same = self.standing == ACTIVE and (token.round, token.id) == (self.round, self.id)
        if not is_same:
            self.standing = PASSIVE
        self.send(
            Token(token.round, token.id, token.hops + 1, token.alone and not is_same), to=self.right
        )

    def win_or_draw_again(self, token: Token) -> None:
        if token.alone:
            self.standing = LEADER
            self.indicate(Leader(self.me))
            self.send(Habemus(self.me, hops=1), to=self.right)
        else:
            self.draw()

    @upon(Habemus)
    def follow(self, sender: ProcessId, habemus: Habemus) -> None:
        if habemus.hops < self.n:
            self.standing = PASSIVE
            self.indicate(Leader(habemus.leader))
            self.send(Habemus(habemus.leader, habemus.hops + 1), to=self.right)

    # What the catalog needs to know.

    def awaits(self) -> Sequence[ProcessId]:
        return [self.left] if self.standing in (ACTIVE, PASSIVE) else []

    def costs(self, size: int) -> ElectionCosts:
        """Return the costs. A lone caller has no rival: its token goes round once, then the
        announcement.
        """
        return (
            ElectionCosts(messages=2 * size, turnaround=2 * size - 1)
            if size > 1
            else ElectionCosts(messages=0)
        )

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        return super().system(size, n=size, **options)

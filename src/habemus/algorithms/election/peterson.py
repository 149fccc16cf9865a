"""Election in a one-way ring in O(n log n): Peterson, and Dolev, Klawe and Rodeh.

In a one-way ring no process can ask its neighbour on the right.  So each active process learns the
ids of the nearest two active ones on its left and plays the part of the nearer: if the nearer's id
is larger than the farther's and its own, it goes on in its name; if not, it goes passive and only
relays.  Every phase at least halves the number of active ones.  One that gets its own id back is
alone, and has the largest.

Source   Peterson: An O(n log n) unidirectional algorithm for the circular extrema problem, ACM
         TOPLAS 4(4), 1982; Dolev, Klawe, Rodeh: An O(n log n) unidirectional distributed algorithm
         for extrema finding in a circle, J. Algorithms 3, 1982.
Assumes  reliable links that keep the order: without it, ids of one phase are taken for those of
         another; no process crashes.
Cost     2n messages in each of at most floor(log2 n) phases, n in the last one, and n to announce.
Ensures  E1, E2, E3, E4.
Differs  The form is that of Dolev, Klawe and Rodeh; Peterson's passes the larger of two ids on as
         the second.  The process that is left alone is seldom the process whose id it has, so it
         announces that one.  A process that did not call is woken by the first message and takes
         part.  An election is held once, since no process crashes.
"""

from collections.abc import Sequence
from enum import IntEnum

from habemus.algorithms.election.ring import RingOfIds
from habemus.core import Message, ProcessId, upon
from habemus.core.assumptions import Assumptions
from habemus.problems.election import Leader


class First(Message):
    """The id in whose name the sender goes on."""

    process: ProcessId


class Second(Message):
    """The id that the sender got as First."""

    process: ProcessId


class Elected(Message):
    process: ProcessId


class Standing(IntEnum):
    ASLEEP = 0
    ACTIVE = 1
    PASSIVE = 2


ASLEEP, ACTIVE, PASSIVE = Standing


class Peterson(RingOfIds):
    name = "peterson"
    shows = ("standing", "carried")
    assumes = Assumptions(fifo=True)

    standing: Standing = ASLEEP
    carried: ProcessId = 0  # in whose name this process goes on
    nearest: ProcessId = (
        0  # the id of the nearest active process on the left, once it has come in this phase
    )
    leader: ProcessId | None = None

    def elect(self) -> None:
        if self.standing == ASLEEP:
            self.carry(self.me)

    def carry(self, process: ProcessId) -> None:
        self.standing = ACTIVE
        self.carried = process
        self.send(First(process), to=self.right)

    @upon(First)
    def learn_nearest(self, sender: ProcessId, first: First) -> None:
        if self.standing == ASLEEP:
            self.carry(self.me)
        if self.standing == PASSIVE:
            self.send(first, to=self.right)
        elif first.process == self.carried:
            self.announce()
        else:
            self.nearest = first.process
            self.send(Second(first.process), to=self.right)

    @upon(Second)
    def compare(self, sender: ProcessId, second: Second) -> None:
        if self.standing == PASSIVE:
            self.send(second, to=self.right)
        elif self.nearest > max(self.carried, second.process):
            self.carry(self.nearest)
        else:
            self.standing = PASSIVE

    def announce(self) -> None:
        self.leader = self.carried
        self.indicate(Leader(self.carried))
        self.send(Elected(self.carried), to=self.right)

    @upon(Elected)
    def follow(self, sender: ProcessId, elected: Elected) -> None:
        if self.leader is None:  # else it has returned to the process that announced it
            self.leader = elected.process
            self.indicate(Leader(elected.process))
            self.send(elected, to=self.right)

    # What the catalog needs to know.

    def awaits(self) -> Sequence[ProcessId]:
        return [self.left] if self.standing != ASLEEP and self.leader is None else []

"""Election in a two-way ring in rounds: Franklin.

In each round every active process sends its id both ways, as far as to the next active one, and
compares it with the two that come.  A process that is smaller than a neighbour goes passive and
from then on only relays; so every round at least halves the number of active ones.  The last one
gets its own id from both sides.

Source   Franklin: On an improved algorithm for decentralized extrema finding in circular
         configurations of processors, CACM 25(5), 1982; lecture notes on coordination.
Assumes  reliable links, in any order; no process crashes.
Cost     2n messages in each round (one each way on every link), at most floor(log2 n) + 1 rounds,
         and n to announce.
Ensures  E1, E2, E3, E4.
Differs  A neighbour may be a round ahead.  The ids are therefore tagged with their round, and what
         comes early waits; links need not keep the order.  A process that did not call is woken by
         the first message and takes part; the winner announces itself; the notes leave out both.
         They call the same two values by two pairs of names, and send a negative id that nothing
         uses: that message is left out.  They count 4n messages in the first phase and 8n x n/2 in
         the second; by their own count of 8 for each of at most n/2 active processes it is 4n.  An
         election is held once, since no process crashes.
"""

from collections.abc import Sequence
from enum import IntEnum

from habemus.algorithms.election.ring import RingOfIds
from habemus.core import Message, ProcessId, upon, whenever
from habemus.problems.election import Leader


class Nominee(Message):
    process: ProcessId
    round: int
    # in a ring of two, both neighbours are the same process: the direction tells the sides apart
    rightwards: bool


class Elected(Message):
    process: ProcessId


class Standing(IntEnum):
    ASLEEP = 0
    ACTIVE = 1
    PASSIVE = 2
    LEADER = 3


ASLEEP, ACTIVE, PASSIVE, LEADER = Standing


class Franklin(RingOfIds):
    name = "franklin"
    shows = ("standing", "round")

    standing: Standing = ASLEEP
    round: int = 0
    heard: dict[bool, ProcessId] = {}  # in this round, by direction of travel
    early: list[Nominee] = []  # of the next round

    def elect(self) -> None:
        if self.standing == ASLEEP:
            self.compete()

    def compete(self) -> None:
        self.standing = ACTIVE
        self.round += 1
        self.send(Nominee(self.me, self.round, True), to=self.right)
        self.send(Nominee(self.me, self.round, False), to=self.left)

    @upon(Nominee)
    def wake_and_take(self, sender: ProcessId, nominee: Nominee) -> None:
        if self.standing == ASLEEP:
            self.compete()
        self.take(nominee)

    def take(self, nominee: Nominee) -> None:
        if self.standing == PASSIVE:
            self.send(nominee, to=self.right if nominee.rightwards else self.left)
        elif nominee.round > self.round:
            self.early.append(nominee)
        else:
            self.heard[nominee.rightwards] = nominee.process

    def has_heard_both(self) -> bool:
        return len(self.heard) == 2

    @whenever(has_heard_both)
    def compare(self) -> None:
        largest = max(self.heard.values())
        self.heard = {}
        if largest < self.me:
            self.compete()
        elif largest > self.me:
            self.standing = PASSIVE
        else:
            self.win()
        early, self.early = self.early, []
        for nominee in early:
            self.take(nominee)

    def win(self) -> None:
        self.standing = LEADER
        self.indicate(Leader(self.me))
        self.send(Elected(self.me), to=self.right)

    @upon(Elected)
    def follow(self, sender: ProcessId, elected: Elected) -> None:
        if elected.process != self.me:
            self.indicate(Leader(elected.process))
            self.send(elected, to=self.right)

    # What the catalog needs to know.

    def awaits(self) -> Sequence[ProcessId]:
        if self.standing != ACTIVE:
            return [self.left] if self.standing == PASSIVE else []
        return [
            side
            for rightwards, side in ((True, self.left), (False, self.right))
            if rightwards not in self.heard
        ]

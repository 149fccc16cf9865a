"""Election in a ring of identical processes, which have no ids to tell them apart.

A candidate asks for votes.  When its request has come round it is elected and says so, and when
that has come round too it takes office.  But a process cannot know whose message comes to it: of
two candidates, each takes the other's request for its own, and both take office.  No deterministic
algorithm does better, because identical processes that see the same do the same.

Source   Lecture notes on coordination, first algorithm on rings; the impossibility: Angluin: Local
         and global properties in networks of processors, STOC 1980.
Assumes  reliable links, in any order; no process crashes.  For a single leader: a single candidate.
Cost     2n messages, however many candidates there are; a few more where messages overtake each
         other.
Ensures  E2; with a single candidate E1, E3 and E4 as well.
Differs  What the notes leave open: a candidate that hears of another's election stands back and
         passes the news on, else no process would take office; and an election is held once, since
         no process crashes.  The announcement carries the name of the elected, for the application;
         no rule looks at it.
Unsafe   ring-anonymous-two
"""

from enum import IntEnum

from habemus.algorithms.election.ring import Ring
from habemus.core import Message, ProcessId, upon
from habemus.problems.election import ElectionCosts, Leader


class Vote(Message):
    """Vote for me."""


class Habemus(Message):
    """We have a leader."""

    leader: ProcessId


class Standing(IntEnum):
    FOLLOWER = 0
    CANDIDATE = 1
    ELECTED = 2
    IN_OFFICE = 3


FOLLOWER, CANDIDATE, ELECTED, IN_OFFICE = Standing


class RingAnonymous(Ring):
    name = "ring-anonymous"

    standing: Standing = FOLLOWER
    has_leader: bool = False

    def elect(self) -> None:
        if self.standing == FOLLOWER and not self.has_leader:
            self.standing = CANDIDATE
            self.send(Vote(), to=self.right)

    @upon(Vote)
    def pass_on_or_win(self, sender: ProcessId, vote: Vote) -> None:
        if self.standing == FOLLOWER:
            self.send(vote, to=self.right)
        elif self.standing == CANDIDATE:
            self.standing = ELECTED
            self.send(Habemus(self.me), to=self.right)

    @upon(Habemus)
    def follow_or_take_office(self, sender: ProcessId, habemus: Habemus) -> None:
        if self.standing == ELECTED:
            self.standing = IN_OFFICE
            self.know(self.me)
        elif self.standing != IN_OFFICE:
            self.standing = FOLLOWER
            self.know(habemus.leader)
            self.send(habemus, to=self.right)

    def know(self, leader: ProcessId) -> None:
        self.has_leader = True
        self.indicate(Leader(leader))

    # What the catalog needs to know.

    def costs(self, size: int) -> ElectionCosts:
        return (
            ElectionCosts(messages=2 * size, turnaround=2 * size)
            if size > 1
            else ElectionCosts(messages=0)
        )

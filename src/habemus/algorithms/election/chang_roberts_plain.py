"""Chang and Roberts as one short listing has it: larger ids pass, smaller ones are dropped, and
that is all.

A process whose id returns has won.  If only a small process calls, a larger one drops its id and
puts nothing in its place: the election never ends.  And the winner does not announce itself.

Source   Lecture notes on coordination, the listing of Chang and Roberts.
Assumes  reliable links, in any order; no process crashes; the largest process is among those that
         call.
Cost     as chang-roberts: n*H_n messages on average if all call at once, n(n+1)/2 if the ids
         decrease in the direction of travel.
Ensures  E1; not E2 (a lone caller that is not the largest gets no answer, and no process but the
         winner learns the outcome).
Differs  Nothing is added to the listing, unless `announce` is set: then the winner sends its id
         round once more, n messages, as an exercise of the notes asks for.
Unsafe   chang-roberts-lone
"""

from collections.abc import Sequence

from habemus.algorithms.election.ring import RingOfIds
from habemus.core import Const, Message, ProcessId, upon
from habemus.problems.election import Leader


class Candidate(Message):
    process: ProcessId


class Elected(Message):
    process: ProcessId


class ChangRobertsPlain(RingOfIds):
    name = "chang-roberts-plain"
    callers = "all"

    announce: Const[bool] = False
    waits: bool = False  # the own id is under way, as far as this process knows

    def elect(self) -> None:
        self.waits = True
        self.send(Candidate(self.me), to=self.right)

    @upon(Candidate)
    def compare(self, sender: ProcessId, candidate: Candidate) -> None:
        if candidate.process == self.me:
            self.win()
        elif candidate.process > self.me:
            self.send(candidate, to=self.right)

    def win(self) -> None:
        self.waits = False
        self.indicate(Leader(self.me))
        if self.announce:
            self.send(Elected(self.me), to=self.right)

    @upon(Elected)
    def follow(self, sender: ProcessId, elected: Elected) -> None:
        if elected.process != self.me:
            self.waits = False
            self.indicate(Leader(elected.process))
            self.send(elected, to=self.right)

    # What the catalog needs to know.

    def awaits(self) -> Sequence[ProcessId]:
        return [self.left] if self.waits else []

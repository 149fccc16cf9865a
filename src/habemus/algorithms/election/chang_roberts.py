"""Election in a one-way ring: Chang and Roberts.

A candidate's id travels round the ring.  Larger processes do not let it pass and send their own
instead, unless they have done so already; so only the largest id returns to its owner, which then
announces itself.

Source   Chang, Roberts: An improved algorithm for decentralized extrema-finding in circular
         configurations of processes, CACM 22(5), 1979; Coulouris et al., Distributed Systems, 5th
         ed., 15.3; lecture notes with participant flags.
Assumes  reliable links, in any order; no process crashes.
Cost     if all call at once n*H_n messages on average over all orders of the ids, and n(n+1)/2 if
         they decrease in the direction of travel; a lone caller causes at most 2n-1.  Then n to
         announce.
Ensures  E1, E2, E3, E4.
Differs  A process that passes an id on becomes a participant too, as in Coulouris; the notes leave
         it out. An election may be called again.  On links that do not keep the order, one that is
         called while the last is still being announced may come to nothing: by then the leader is
         known.
"""

from collections.abc import Sequence

from habemus.algorithms.election.ring import RingOfIds
from habemus.core import Message, ProcessId, upon
from habemus.problems.election import ElectionCosts, Leader


class Candidate(Message):
    process: ProcessId


class Elected(Message):
    process: ProcessId


class ChangRoberts(RingOfIds):
    name = "chang-roberts"
    shows = ("participant",)

    participant: bool = False  # an id at least as large as the own was passed on from here

    def elect(self) -> None:
        if not self.participant:
            self.stand()

    def stand(self) -> None:
        self.participant = True
        self.send(Candidate(self.me), to=self.right)

    @upon(Candidate)
    def compare(self, sender: ProcessId, candidate: Candidate) -> None:
        if candidate.process > self.me:
            self.participant = True
            self.send(candidate, to=self.right)
        elif candidate.process == self.me:
            self.win()
        elif not self.participant:
            self.stand()

    def win(self) -> None:
        self.participant = False
        self.indicate(Leader(self.me))
        self.send(Elected(self.me), to=self.right)

    @upon(Elected)
    def follow(self, sender: ProcessId, elected: Elected) -> None:
        if elected.process != self.me:
            self.participant = False
            self.indicate(Leader(elected.process))
            self.send(elected, to=self.right)

    # What the catalog needs to know.

    def awaits(self) -> Sequence[ProcessId]:
        return [self.left] if self.participant else []

    def costs(self, size: int) -> ElectionCosts:
        """Return the costs: ever larger ids go from 1, who calls, as far as to N; then N's own goes
        round, then the announcement.
        """
        if size == 1:
            return ElectionCosts(messages=0)
        around = list(self.around(size))
        distance = (around.index(size) - around.index(1)) % size
        return ElectionCosts(messages=distance + 2 * size, turnaround=distance + 2 * size - 1)

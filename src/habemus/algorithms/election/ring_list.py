"""Election in a ring by collecting all ids.

The caller sends a list round; every process adds its id.  When the list is back its sender chooses
the smallest id in it and sends the choice round.

Source   Lecture notes on coordination, second algorithm on rings; after Le Lann: Distributed
         systems: towards a formal approach, IFIP Congress 1977.
Assumes  reliable links, in any order; no process crashes.
Cost     2n messages for each process that calls, so up to 2n^2; a message carries up to n ids.
Ensures  E1, E2, E3, E4.
Differs  The notes end with the choice, of which only the caller would know: here it is announced,
         which is the second half of the messages.
"""

from collections.abc import Sequence

from habemus.algorithms.election.ring import RingOfIds
from habemus.core import Message, ProcessId, upon
from habemus.problems.election import ElectionCosts, Leader


class Collect(Message):
    ids: tuple[ProcessId, ...]


class Chosen(Message):
    leader: ProcessId
    by: ProcessId


class RingList(RingOfIds):
    name = "ring-list"
    largest = 3_000  # the list alone takes n^2/2 ids on its way

    collecting: bool = False  # a list of this process is under way

    def elect(self) -> None:
        if not self.collecting:
            self.collecting = True
            self.send(Collect((self.me,)), to=self.right)

    @upon(Collect)
    def add_or_choose(self, sender: ProcessId, collect: Collect) -> None:
        if self.me not in collect.ids:
            self.send(Collect((*collect.ids, self.me)), to=self.right)
        else:
            self.collecting = False
            leader = min(collect.ids)
            self.indicate(Leader(leader))
            self.send(Chosen(leader, by=self.me), to=self.right)

    @upon(Chosen)
    def follow(self, sender: ProcessId, chosen: Chosen) -> None:
        if chosen.by != self.me:
            self.indicate(Leader(chosen.leader))
            self.send(chosen, to=self.right)

    # What the catalog needs to know.

    def awaits(self) -> Sequence[ProcessId]:
        return [self.left] if self.collecting else []

    def costs(self, size: int) -> ElectionCosts:
        return (
            ElectionCosts(messages=2 * size, turnaround=2 * size - 1)
            if size > 1
            else ElectionCosts(messages=0)
        )

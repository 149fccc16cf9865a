"""Ricart and Agrawala with the replies of a majority only.

It is tempting not to wait for the slowest: any two majorities have a member in common, so one
process could refuse. But none does.  A reply means "I do not mind", not "you and no other process":
a process that wants nothing replies to two requesters, and each of them then has a majority.

Source   Lecture notes on Ricart-Agrawala, optimisation 1.
Assumes  reliable links, in any order; no process crashes.  That is not enough for ME1.
Cost     2(N-1) messages per entry: request and reply; 3(N-1) with release notices.
Ensures  ME2; not ME1 (two requesters both get a majority).
Differs  From its safe form, `ra-majority`, in which a reply is a vote that binds until it is
         released. A reply that comes after the entry counts for the next request, if there is one
         by then.
Unsafe   ra-majority-naive
"""

from habemus.algorithms.mutex.ricart_agrawala import WANTED, RicartAgrawala
from habemus.core import whenever
from habemus.problems.mutex import MutexCosts


class RicartAgrawalaMajorityNaive(RicartAgrawala):
    name = "ra-majority-naive"

    def has_a_majority(self) -> bool:
        everybody = len(self.peers) + 1
        return self.state == WANTED and 2 * (everybody - len(self.missing)) > everybody

    @whenever(has_a_majority)
    def enter(self) -> None:
        super().enter()

    # What the catalog needs to know.

    def costs(self, size: int) -> MutexCosts:
        return (
            super().costs(size)._replace(sync_delay=None)
        )  # no process waits for the one inside to leave

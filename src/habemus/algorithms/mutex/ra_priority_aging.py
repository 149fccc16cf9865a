"""Ricart and Agrawala with priorities that wear off: the less urgent are served later, but they are
served.

A lower priority is a handicap in logical time: the request is placed so many ticks later than its
stamp. Clocks tick with every request and every message, so the more often others enter, the later
are their stamps, and after a handicap's worth of ticks new requests of the most urgent come after
it.  No process looks at a real clock, and no request changes its place while it waits.

Source   Lecture notes on Ricart-Agrawala, optimisation 2, with aging as in schedulers of operating
         systems.
Assumes  reliable links that keep the order (FIFO), so that a request does not overtake a reply; no
         process crashes.  All have the same handicap.
Cost     2(N-1) messages per entry: request and reply; 2 more for every reply that is void and asked
         for again.
Ensures  ME1, ME2; entry in order of the handicapped stamps (no ME3).
Differs  The notes have fixed priorities, under which the less urgent starve: see ra-priority.
"""

from habemus.algorithms.mutex.ra_priority import RicartAgrawalaPriority
from habemus.core import Const, ProcessId


class RicartAgrawalaPriorityAging(RicartAgrawalaPriority):
    name = "ra-priority-aging"

    handicap: Const[int] = 100  # ticks for each step of priority

    def place(self, priority: int, stamp: int, process: ProcessId) -> tuple[int, ...]:
        return (stamp + priority * self.handicap, process)

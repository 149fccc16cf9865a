"""Failure detection with a timeout for each process, estimated from its own arrival times.

The next heartbeat is expected where the average of the last ones puts it, and must not come later
than that by more than a margin.  A fast process is so detected fast, whatever the slow ones do.

Source   Chen, Toueg, Aguilera: On the quality of service of failure detectors, IEEE Trans.
         Computers 51(5), 2002 (NFD-E).
Assumes  links that lose few messages; partial synchrony.  Crashes, and recoveries with stable
         memory for one number.
Cost     n-1 messages per process and period: n(n-1) in all.
Ensures  completeness, accuracy; both in the end, the margin being wider than what delays differ by
         then.
Differs  Times are whole ticks of an own timer, as a process here has no clock.  The margin of the
         paper is fixed and chosen for a wanted rate of mistakes; here it also grows by `step` with
         each mistake about that process, because an unknown bound cannot be chosen beforehand
         (`step=0` is the paper's).  It stops at `longest`.  The first heartbeat is waited for four
         periods long.
"""

from habemus.algorithms.detectors.arrivals import Arrivals
from habemus.core import Const, ProcessId


class Adaptive(Arrivals):
    name = "adaptive"
    shows = ("suspected",)

    margin: Const[int] = 3  # ticks
    step: Const[int] = 1
    longest: Const[int] = 10_000
    margins: dict[ProcessId, int] = {}  # how much wider they are by now

    def note_arrival(self, sender: ProcessId, number: int) -> None:
        # Each arrival, less what its number accounts for, tells when number 0 would have come.
        self.keep(sender, self.now - number * self.period)
        kept = self.arrivals[sender]
        expected = -(-sum(kept) // len(kept)) + (number + 1) * self.period
        self.deadlines[sender] = expected + self.margin + self.margins.get(sender, 0)

    def note_mistake(self, sender: ProcessId) -> None:
        self.margins[sender] = min(self.margins.get(sender, 0) + self.step, self.longest)

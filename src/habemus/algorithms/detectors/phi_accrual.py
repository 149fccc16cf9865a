"""Failure detection by accrual: a level of suspicion that rises with the silence.

From the last intervals between heartbeats, taken as normally distributed, follows how unlikely it
is that the next one comes still later.  Level 1 means a chance of a tenth, level 2 of a hundredth,
and so on.  A process that reaches the threshold is suspected.

Source   Hayashibara, Defago, Yared, Katayama: The phi accrual failure detector, SRDS 2004.
Assumes  links that lose few messages; delays that differ, from some moment on, by less than the
         threshold allows for. Crashes, and recoveries with stable memory for one number.
Cost     n-1 messages per process and period: n(n-1) in all.
Ensures  completeness, accuracy; the accuracy as long as the delays fit the last intervals: a rare
         long one is a mistake.
Differs  Whole levels and whole ticks, no logarithm and no floats: a table says how many deviations
         of silence make each level.  Times are ticks of an own timer, as a process here has no
         clock.  The deviation is at least `least_deviation`, as in later implementations, since
         equal intervals would make any delay a failure.  The first heartbeat is waited for four
         periods long.
"""

from bisect import bisect_right
from itertools import pairwise
from math import isqrt

from habemus.algorithms.detectors.arrivals import Arrivals
from habemus.core import Const, ProcessId

DEVIATIONS = (
    1282,
    2326,
    3090,
    3719,
    4265,
    4753,
    5199,
    5612,
    5998,
    6361,
    6706,
    7034,
    7349,
    7651,
    7941,
    8222,
)
"""Thousandths of a standard deviation beyond the mean: the chance to lie still further out is
10**-1, 10**-2, ... 10**-16.
"""


class PhiAccrual(Arrivals):
    name = "phi-accrual"
    shows = ("suspected",)

    threshold: Const[int] = 8
    least_deviation: Const[int] = 2  # ticks

    def level(self, mean: int, deviation: int, silence: int) -> int:
        """Return the suspicion after so long a silence; all three in thousandths of a tick."""
        beyond = max(0, silence - mean) * 1_000 // deviation
        return bisect_right(DEVIATIONS, beyond)

    def spread(self, intervals: tuple[int, ...]) -> tuple[int, int]:
        """Return the mean and the deviation of the intervals, in thousandths of a tick."""
        if not intervals:
            return 1_000 * self.period, 1_000 * max(self.least_deviation, self.period // 2)
        total, count = sum(intervals), len(intervals)
        variance = (
            count * sum(each * each for each in intervals) - total * total
        )  # times count squared
        return 1_000 * total // count, max(
            1_000 * self.least_deviation, isqrt(1_000_000 * variance) // count
        )

    def note_arrival(self, sender: ProcessId, number: int) -> None:
        self.keep(sender, self.now)
        kept = self.arrivals[sender]
        mean, deviation = self.spread(tuple(later - earlier for earlier, later in pairwise(kept)))
        silence = self.period
        while self.level(mean, deviation, 1_000 * silence) < self.threshold:
            silence += 1
        self.deadlines[sender] = self.now + silence

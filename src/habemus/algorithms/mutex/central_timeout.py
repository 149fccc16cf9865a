"""Mutual exclusion by a central coordinator that takes a grant back after a while.

If the holder does not release in time, the coordinator believes it dead and admits the next one.
That is right when the holder has crashed, and lets a second process in when it was only slow: no
timeout can tell the two apart.

Source   Lecture notes on coordination, the section on failures.
Assumes  reliable links; a bound on the time inside and under way, which an asynchronous system does
         not give.
Cost     3 messages per entry, as without the timeout.
Ensures  ME2; not ME1 (a slow holder is taken for a dead one).
Unsafe   central-holder-slow
"""

from habemus.algorithms.mutex.central import Central, Grant, Release
from habemus.core import Const, ProcessId, Span, Timer, upon
from habemus.core.assumptions import Assumptions, Timing


class Overdue(Timer):
    holder: ProcessId
    grant: int


class CentralTimeout(Central):
    name = "central-timeout"
    assumes = Assumptions(timing=Timing.SYNCHRONOUS)

    timeout: Const[Span] = 10_000
    grants: int = 0  # counted, so that each grant has a timer of its own

    def admit_next(self) -> None:
        self.holder = self.waiting.pop(0)
        self.grants += 1
        self.send(Grant(), to=self.holder)
        self.set_timer(Overdue(self.holder, self.grants), after=self.timeout)

    def vacate(self, sender: ProcessId, release: Release) -> None:
        if sender == self.holder:
            self.cancel_timer(Overdue(sender, self.grants))
        super().vacate(sender, release)

    @upon(Overdue)
    def take_back(self, overdue: Overdue) -> None:
        self.holder = None

"""Failure detection by asking: an eventually perfect detector with one interval for all.

In each interval every peer is tested.  A process that has not answered by its end is suspected.  An
answer from a suspected process shows a mistake: it is restored, and from now on the interval is
longer.

Source   Chandra, Toueg: Unreliable failure detectors for reliable distributed systems, JACM 43(2),
         1996; lecture notes on leader election, algorithm 5.1 (pull).
Assumes  reliable links; partial synchrony: from some unknown moment on delays are bounded. Crashes.
Cost     2(n-1) messages per process and interval: 2n(n-1) in all.
Ensures  completeness, accuracy; both in the end, the interval being longer than any round trip by
         then.
Differs  The listing enlarges a Timeout that it never reads; here the interval itself grows, as its
         text says.  A process does not test itself.  The interval stops at `longest`, far beyond
         any use: the notes let it grow for ever and call that impractical themselves, as one slow
         process makes the detection of all others slow.  The first interval suspects no process,
         because the first tests go out at its beginning, and not at its end as in the listing.
"""

from habemus.core import Const, Message, ProcessId, Timer, upon
from habemus.core.assumptions import Assumptions, Crashes, Timing
from habemus.problems.detector import Detector, Restored, Suspected


class Probe(Message):
    pass


class Answer(Message):
    pass


class Interval(Timer):
    pass


class EventuallyPerfect(Detector):
    name = "eventually-perfect"
    shows = ("suspected", "growth")
    assumes = Assumptions(crashes=Crashes.STOP, timing=Timing.PARTIALLY_SYNCHRONOUS)

    period: Const[int] = 20_000  # the first interval
    step: Const[int] = 10_000  # by which a mistake makes it longer
    longest: Const[int] = 60_000_000
    growth: int = 0  # how much longer it is by now
    answered: set[ProcessId] = set()  # in this interval
    suspected: set[ProcessId] = set()

    def on_start(self) -> None:
        self.probe_all()

    def probe_all(self) -> None:
        self.answered.clear()
        self.broadcast(Probe())
        self.set_timer(Interval(), after=min(self.period + self.growth, self.longest))

    @upon(Probe)
    def answer(self, sender: ProcessId, _: Probe) -> None:
        self.send(Answer(), to=sender)

    @upon(Answer)
    def note_answer(self, sender: ProcessId, _: Answer) -> None:
        self.answered.add(sender)

    @upon(Interval)
    def judge_all(self, _: Interval) -> None:
        if self.answered & self.suspected:
            self.growth = min(self.growth + self.step, self.longest)
        for peer in self.peers:
            if peer not in self.answered and peer not in self.suspected:
                self.suspected.add(peer)
                self.indicate(Suspected(peer))
            elif peer in self.answered and peer in self.suspected:
                self.suspected.discard(peer)
                self.indicate(Restored(peer))
        self.probe_all()

"""Failure detection by heartbeats: every process sends a sign of life now and then.

A process that has not been heard of for the time allowed to it is suspected.  When it is heard of
again that was a mistake: it is restored and allowed more time.

Source   Aguilera, Chen, Toueg: Heartbeat, a timeout-free failure detector, WDAG 1997 (the push
         style); lecture notes on leader election, chapter 5.
Assumes  reliable links, or fair ones with a timeout of several periods; partial synchrony. Crashes.
Cost     n-1 messages per process and period: n(n-1) in all.
Ensures  completeness, accuracy; both in the end, the time allowed being longer than a period and
         the bound by then.
Differs  Half the messages of the pull style, and a timeout for each peer of its own.  The time
         allowed stops at `longest`, far beyond any use, so that the state is finite.  With `step=0`
         this is the plain fixed timeout, which is accurate only if the bound was known beforehand.
"""

from habemus.core import Const, Message, ProcessId, Span, Timer, upon
from habemus.core.assumptions import Assumptions, Crashes, Timing
from habemus.problems.detector import Detector, Restored, Suspected


class Alive(Message):
    pass


class Beat(Timer):
    pass


class Silence(Timer):
    of: ProcessId


class Heartbeat(Detector):
    name = "heartbeat"
    shows = ("suspected", "mistakes")
    assumes = Assumptions(crashes=Crashes.STOP, timing=Timing.PARTIALLY_SYNCHRONOUS)

    period: Const[Span] = 20_000
    timeout: Const[int] = 40_000  # allowed at first
    step: Const[int] = 10_000  # allowed more after each mistake
    longest: Const[int] = 60_000_000
    mistakes: dict[ProcessId, int] = {}
    suspected: set[ProcessId] = set()

    def on_start(self) -> None:
        for peer in self.peers:
            self.wait_for(peer)
        self.beat(Beat())

    @upon(Beat)
    def beat(self, _: Beat) -> None:
        self.broadcast(Alive())
        self.set_timer(Beat(), after=self.period)

    def wait_for(self, peer: ProcessId) -> None:
        allowed = self.timeout + self.step * self.mistakes.get(peer, 0)
        self.set_timer(Silence(peer), after=min(allowed, self.longest))

    @upon(Silence)
    def suspect(self, silence: Silence) -> None:
        self.suspected.add(silence.of)
        self.indicate(Suspected(silence.of))

    @upon(Alive)
    def hear(self, sender: ProcessId, _: Alive) -> None:
        if sender in self.suspected:
            self.suspected.discard(sender)
            self.mistakes[sender] = min(self.mistakes.get(sender, 0) + 1, self.longest)
            self.indicate(Restored(sender))
        self.wait_for(sender)

"""Election among processes that crash and recover: the one with the fewest lives leads.

Each process counts its incarnations in stable memory and sends the number with its heartbeats.  At
the end of each interval it takes, of all that it heard of meanwhile and itself, the one with the
fewest incarnations, then the smallest id.  A process that keeps restarting therefore loses to one
that stays up.

Source   Lecture notes on leader election, algorithm 5.3; after Martin, Larrea, Jimenez:
         Implementing the Omega failure detector in the crash-recovery failure model, JCSS 75(3),
         2009.
Assumes  reliable links between processes that are up; partial synchrony; stable memory for one
         number; at least one process stays up from some moment on.
Cost     n-1 messages per process and interval: n(n-1) in all.
Ensures  E1, E2, E3, E4; all in the end, when the intervals are long enough and the stable processes
         have fewer incarnations.
Differs  The listing's rule for a heartbeat only replaces an entry of the set of candidates, which
         starts empty, so that no process would ever be elected: here a first heartbeat adds its
         sender. It starts no timer on recovery; here it does.  Every process counts itself as a
         candidate without a message.  The interval grows by `step` up to `longest`.  A call of the
         application changes nothing.  A process that recovers starts with the first interval again,
         and if it hears of no other process in it, takes itself for the leader for that long.
"""

from habemus.core import Const, Durable, Message, ProcessId, Timer, upon
from habemus.core.assumptions import Assumptions, Crashes, Timing
from habemus.problems.election import Election, Leader


class Heartbeat(Message):
    incarnation: int


class Interval(Timer):
    pass


class OmegaRecovery(Election):
    name = "omega-recovery"
    shows = ("incarnation", "leader")
    scope = "eventually"
    callers = "none"
    duration = 2_000_000
    assumes = Assumptions(
        crashes=Crashes.ANY, timing=Timing.PARTIALLY_SYNCHRONOUS, stable_memory=True
    )

    period: Const[int] = 20_000  # the first interval
    step: Const[int] = 10_000  # by which a change of leader makes it longer
    longest: Const[int] = 60_000_000
    incarnation: Durable[int] = 0
    growth: int = 0
    candidates: dict[ProcessId, int] = {}  # heard of in this interval, with their incarnations
    leader: ProcessId | None = None

    def on_start(self) -> None:
        self.incarnation += 1
        self.begin_interval()

    def elect(self) -> None:
        """Do nothing: the heartbeats suffice."""

    def begin_interval(self) -> None:
        self.candidates = {self.me: self.incarnation}
        self.broadcast(Heartbeat(self.incarnation))
        self.set_timer(Interval(), after=min(self.period + self.growth, self.longest))

    @upon(Heartbeat)
    def add_candidate(self, sender: ProcessId, heartbeat: Heartbeat) -> None:
        self.candidates[sender] = max(self.candidates.get(sender, 0), heartbeat.incarnation)

    @upon(Interval)
    def choose_leader(self, _: Interval) -> None:
        first = min(
            sorted(self.candidates), key=lambda candidate: (self.candidates[candidate], candidate)
        )
        if first != self.leader:
            self.leader = first
            self.growth = min(self.growth + self.step, self.longest)
            self.indicate(Leader(first))
        self.begin_interval()

"""Failure detection by heartbeats and a fixed timeout.

Each process sends heartbeats.  A process whose heartbeats do not arrive in time is suspected until
the next one arrives.

Source   your own.
Assumes  reliable links; a bound: messages take less than the timeout without the period.  Crashes.
Cost     n-1 messages per process and period.
Ensures  completeness, accuracy; accuracy only for as long as messages are fast enough.
"""

from habemus.algorithm import (
    Assumptions,
    Const,
    Crashes,
    Detector,
    Message,
    ProcessId,
    Restored,
    Suspected,
    Timer,
    Timing,
    upon,
)


class Alive(Message):
    pass


class Beat(Timer):
    pass


class Silence(Timer):
    of: ProcessId


class MyDetector(Detector):
    assumes = Assumptions(crashes=Crashes.STOP, timing=Timing.SYNCHRONOUS)

    period: Const[int] = 20_000  # microseconds; a run can set it with -o period=10ms
    timeout: Const[int] = 60_000
    suspected: set[ProcessId] = set()

    def on_start(self) -> None:
        for peer in self.peers:
            self.set_timer(Silence(peer), after=self.timeout)
        self.beat(Beat())

    @upon(Beat)
    def beat(self, _: Beat) -> None:
        self.broadcast(Alive())
        self.set_timer(Beat(), after=self.period)

    @upon(Silence)
    def suspect(self, silence: Silence) -> None:
        self.suspected.add(silence.of)
        self.indicate(Suspected(silence.of))

    @upon(Alive)
    def hear(self, sender: ProcessId, _: Alive) -> None:
        # This replaces the timer that was set.
        self.set_timer(Silence(sender), after=self.timeout)
        if sender in self.suspected:
            self.suspected.discard(sender)
            self.indicate(Restored(sender))

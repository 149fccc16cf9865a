"""Heartbeats whose arrival times are kept: what the adaptive detectors have in common.

A process has no clock that it could read, so it counts ticks of a timer of its own: arrival times
are whole ticks since its start.  A heartbeat carries its number and the life of its sender, counted
in stable memory, because numbers begin anew after a restart.
"""

from abc import abstractmethod

from habemus.core import Const, Durable, Message, ProcessId, Timer, upon
from habemus.core.assumptions import Assumptions, Crashes, Links, Timing
from habemus.problems.detector import Detector, Restored, Suspected


class Alive(Message):
    life: int
    number: int


class Tick(Timer):
    pass


class Arrivals(Detector):
    """Detector that sends a heartbeat every so many ticks, and leaves to its subclasses how long to
    wait for those of the others.
    """

    assumes = Assumptions(
        links=Links.MOSTLY_RELIABLE,
        crashes=Crashes.ANY,
        timing=Timing.PARTIALLY_SYNCHRONOUS,
        stable_memory=True,
    )
    tick: Const[int] = 4_000  # microseconds
    period: Const[int] = 5  # ticks from one heartbeat to the next
    window: Const[int] = 20  # how many arrivals of each peer are kept
    life: Durable[int] = 0
    now: int = 0  # in ticks
    lives: dict[ProcessId, int] = {}  # of the others, as far as heard
    numbers: dict[ProcessId, int] = {}  # the largest that has come
    arrivals: dict[ProcessId, tuple[int, ...]] = {}  # the last ones, in ticks
    deadlines: dict[ProcessId, int] = {}  # at this tick the silence has lasted too long
    suspected: set[ProcessId] = set()

    @abstractmethod
    def note_arrival(self, sender: ProcessId, number: int) -> None:
        """Record the arrival, and set the next deadline from the recorded ones."""

    def note_mistake(self, sender: ProcessId) -> None:
        """Handle a wrong suspicion: the process is up, in the same life."""

    def keep(self, sender: ProcessId, arrival: int) -> None:
        self.arrivals[sender] = (*self.arrivals.get(sender, ()), arrival)[-self.window :]

    def on_start(self) -> None:
        self.life += 1
        for peer in self.peers:
            self.deadlines[peer] = 4 * self.period
        self.beat()

    def beat(self) -> None:
        if self.now % self.period == 0:
            self.broadcast(Alive(self.life, self.now // self.period))
        self.set_timer(Tick(), after=self.tick)

    @upon(Tick)
    def count_tick(self, _: Tick) -> None:
        self.now += 1
        for peer in self.peers:
            if peer not in self.suspected and self.now >= self.deadlines[peer]:
                self.suspected.add(peer)
                self.indicate(Suspected(peer))
        self.beat()

    @upon(Alive)
    def hear(self, sender: ProcessId, alive: Alive) -> None:
        known = self.lives.get(sender, 0)
        if alive.life < known or (alive.life == known and alive.number <= self.numbers[sender]):
            return  # overtaken by a later one, which carried more
        is_new_life = alive.life > known
        if is_new_life:
            self.lives[sender] = alive.life
            self.arrivals[sender] = ()
        self.numbers[sender] = alive.number
        if sender in self.suspected:
            self.suspected.discard(sender)
            if not is_new_life:
                self.note_mistake(sender)
            self.indicate(Restored(sender))
        self.note_arrival(sender, alive.number)

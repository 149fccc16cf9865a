"""The parts of a small simulated run, put together by hand: no `Simulation`, no workload of a
problem.  Every message takes 10 microseconds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from heapq import heappop
from typing import Any, Self

from habemus.core import (
    Durable,
    Indication,
    Message,
    Process,
    ProcessId,
    System,
    Timer,
    request,
    upon,
)
from habemus.core.application import Workload
from habemus.core.events import Event
from habemus.core.node import Stack
from habemus.core.system import complete
from habemus.runtimes.sim.application import Application
from habemus.runtimes.sim.calendar import CONTROL, Calendar, Queued
from habemus.runtimes.sim.faults import Fault
from habemus.runtimes.sim.injection import FaultInjector, Resume, Strike
from habemus.runtimes.sim.interventions import Intervening, Intervention
from habemus.runtimes.sim.network import Network, Uniform
from habemus.runtimes.sim.processing import Arrive, Handled, ProcessingQueues
from habemus.runtimes.sim.recorder import RunRecorder
from habemus.runtimes.sim.sending import MessageTransport
from habemus.runtimes.sim.stepping import Fire, Stepper

DELAY = 10
"""Time that a message takes."""


class Word(Message):
    value: int


class Bell(Timer):
    number: int = 1


class Heard(Indication):
    value: int


class Noting(Process):
    """Says a word and sets a bell when its application asks; remembers what it heard."""

    heard: list[int] = []
    bells: list[int] = []
    recoveries: int = 0
    kept: Durable[int] = 0  # the last word that it heard
    life: Durable[int] = 1

    @request
    def say(self, value: int) -> None:
        self.broadcast(Word(value))

    @request
    def mutter(self, value: int) -> None:
        self.send(Word(value), to=self.me)

    @request
    def set_bell(self, after: int, number: int = 1) -> None:
        self.set_timer(Bell(number), after=after)

    @request
    def stop_bell(self) -> None:
        self.cancel_timer(Bell())

    @upon(Word)
    def hear(self, _: ProcessId, word: Word) -> None:
        self.heard.append(word.value)
        self.kept = word.value
        self.indicate(Heard(word.value))

    @upon(Bell)
    def ring(self, bell: Bell) -> None:
        self.bells.append(bell.number)

    def on_recover(self) -> None:
        self.recoveries += 1

    def on_replaced(self, others: Sequence[Self], life: int) -> None:
        assert not any(other.heard for other in others), "volatile variables are not stored"
        self.kept = max(other.kept for other in others)
        self.life = life


class Parts:
    """A calendar and all that is around it, for processes 1, 2, ... that run `Noting`."""

    def __init__(
        self,
        *faults: Fault,
        size: int = 2,
        fifo: bool = False,
        processing: int = 0,
        workload: Workload | None = None,
        interventions: Sequence[tuple[int, Intervention]] = (),
        seed: int = 5,
    ) -> None:
        plans: dict[ProcessId, Process] = dict.fromkeys(range(1, size + 1), Noting())
        system = System(plans, complete(plans), tuple(plans))
        network = Network(Uniform(DELAY, DELAY), fifo=fifo)
        self.source = random.Random(seed)
        self.calendar = Calendar(self.source.getrandbits)
        self.log: list[Any] = []
        self.queues = ProcessingQueues(self.calendar, 1, processing, records=True)
        self.transport = MessageTransport(
            self.calendar,
            network,
            faults,
            1,
            self.log,
            records=True,
            enter=self.queues.enter if processing else None,
            is_changed_later=True,
        )
        self.application = Application(workload, tuple(plans), self.calendar, network)
        stacks = {me: Stack(plan) for me, plan in plans.items()}
        self.stepper = Stepper(system, stacks, self.transport, self.application, {}, records=True)
        self.queues.stepper = self.stepper
        self.injector = FaultInjector(
            faults,
            self.stepper,
            self.transport,
            self.application,
            records_messages=True,
            queues=self.queues if processing else None,
        )
        self.intervening = Intervening(
            interventions,
            self.stepper,
            self.transport,
            self.application,
            self.injector,
            [""],
            fifo=fifo,
        )
        self.stepper.spawn(self.injector.witness if self.injector.watches else None)
        controls: dict[type, Callable[..., None]] = {
            Fire: self.stepper.fire,
            tuple: self.stepper.ask,
            Strike: self.injector.strike,
            Resume: self.injector.resume,
            Arrive: self.queues.arrive,
            Handled: self.queues.finish,
        }
        self.stepper.targets[CONTROL] = (controls, None)
        self.injector.schedule()
        self.recorder = RunRecorder(tuple(plans), [""], clocks=False)
        self.taken = 0
        self.events: list[Event] = []

    def ask(self, process: ProcessId, name: str, *arguments: Any) -> None:
        """Make a request now."""
        life = self.application.lives[process]
        self.stepper.ask(None, 0, (process, name, arguments, life))

    def take(self, event: Queued) -> None:
        """Process one pending event."""
        self.taken += 1
        self.log.append(event)
        _, address, sender, message = event
        table, part = self.stepper.targets[address]
        table[type(message)](part, sender, message)

    def run(self, until: int) -> list[Event]:
        """Process all events up to this time, and return those recorded since the last call."""
        calendar = self.calendar
        while calendar.instants and calendar.instants[0] <= until:
            calendar.move_to(heappop(calendar.instants))
            self.log.append(calendar.now)
            for event in sorted(calendar.buckets.pop(calendar.now)):
                self.take(event)
        calendar.move_to(until)
        self.log.append(until)
        recorded = list(self.recorder.events(self.log))
        self.log.clear()
        assert self.recorder.delivered == self.taken
        self.events += recorded
        return recorded

    def process(self, process: ProcessId) -> Noting:
        [part] = self.stepper.processes[process]
        assert isinstance(part, Noting)
        return part

    def heard(self, process: ProcessId) -> list[int]:
        return self.process(process).heard


def summary(events: Sequence[Event], *kinds: str) -> list[tuple[int, int, str]]:
    """Return time, process and kind of the events of these kinds."""
    return [(each.time, each.process, each.kind) for each in events if each.kind in kinds]


def words(events: Sequence[Event], kind: str) -> list[tuple[int, int]]:
    """Return time and value of the words that were sent, received or lost."""
    return [
        (each.time, each.fields()["value"])
        for each in events
        if each.kind == kind and each.name == "Word"
    ]

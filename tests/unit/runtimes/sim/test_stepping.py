"""The stepper of a simulated run: handlers, timers and requests of its processes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from habemus.core import Indication, Message, Process, ProcessId, Timer, request, upon, whenever
from habemus.core.events import Event
from habemus.core.mistakes import MistakeInAlgorithm
from habemus.core.node import Stack
from habemus.core.system import System, complete
from habemus.runtimes.sim.application import Application
from habemus.runtimes.sim.calendar import CONTROL, Calendar
from habemus.runtimes.sim.network import Network
from habemus.runtimes.sim.sending import MessageTransport
from habemus.runtimes.sim.stepping import Fire, Stepper


class Poke(Message):
    pass


class Nap(Timer):
    pass


class Unhandled(Timer):
    pass


class Full(Indication):
    pass


class Counting(Process):
    """Counts pokes, and indicates and forgets them as soon as there are two."""

    pokes: int = 0
    naps: int = 0

    @request
    def sleep(self, time: int) -> None:
        self.set_timer(Nap(), after=time)

    @request
    def wake(self) -> None:
        self.cancel_timer(Nap())

    @request
    def err(self) -> None:
        self.set_timer(Unhandled(), after=1)

    @upon(Poke)
    def count(self, _: ProcessId, __: Poke) -> None:
        self.pokes += 1

    @upon(Nap)
    def nap(self, _: Nap) -> None:
        self.naps += 1

    def has_two(self) -> bool:
        return self.pokes == 2

    @whenever(has_two)
    def empty(self) -> None:
        self.pokes = 0
        self.indicate(Full())


@pytest.fixture
def stepper() -> Stepper:
    system = System(dict.fromkeys((1, 2), Counting()), complete((1, 2)), (1, 2))
    stacks = {me: Stack(plan) for me, plan in system.plans.items()}
    network = Network()
    calendar = Calendar(random.Random(5).getrandbits)
    transport = MessageTransport(calendar, network, (), 1, [], records=True)
    application = Application(None, (1, 2), calendar, network)
    made = Stepper(system, stacks, transport, application, {}, records=True)
    made.spawn(None)
    return made


def ask(stepper: Stepper, name: str, *arguments: Any, life: int | None = 0) -> None:
    stepper.ask(None, 0, (1, name, arguments, life))


def pending_timers(stepper: Stepper) -> list[tuple[int, Fire]]:
    events = [event for events in stepper.calendar.buckets.values() for event in events]
    return [(number, control) for _, address, number, control in events if address == CONTROL]


def counted(stepper: Stepper) -> tuple[int, int]:
    [process] = stepper.processes[1]
    assert isinstance(process, Counting)
    return process.pokes, process.naps


def deliver(stepper: Stepper, message: Message) -> None:
    table, process = stepper.targets[stepper.address(1, 0)]
    table[type(message)](process, 2, message)


def test_rules_are_applied_after_the_handler(stepper: Stepper) -> None:
    deliver(stepper, Poke())
    assert counted(stepper) == (1, 0)
    deliver(stepper, Poke())
    assert counted(stepper) == (0, 0)
    [indicated] = [each for each in stepper.log if isinstance(each, Event)]
    assert (indicated.process, indicated.kind, indicated.name) == (1, "indicate", "Full")


def test_a_timer_that_is_set_again_expires_once_at_the_later_time(stepper: Stepper) -> None:
    ask(stepper, "sleep", 10)
    ask(stepper, "sleep", 20)
    (early, first), (late, second) = pending_timers(stepper)
    stepper.fire(None, early, first)
    assert counted(stepper) == (0, 0)
    stepper.fire(None, late, second)
    stepper.fire(None, late, second)
    assert counted(stepper) == (0, 1)


def test_a_timer_that_is_cancelled_does_not_expire(stepper: Stepper) -> None:
    ask(stepper, "sleep", 10)
    ask(stepper, "wake")
    [(number, control)] = pending_timers(stepper)
    stepper.fire(None, number, control)
    assert counted(stepper) == (0, 0)


def test_a_timer_without_a_handler_is_a_mistake(stepper: Stepper) -> None:
    ask(stepper, "err")
    [(number, control)] = pending_timers(stepper)
    with pytest.raises(MistakeInAlgorithm, match="has no @upon for it"):
        stepper.fire(None, number, control)


def test_requests_of_a_process_that_is_down_or_was_are_dropped(stepper: Stepper) -> None:
    ask(stepper, "sleep", 10, life=1)  # made in a life that has not begun or is over
    stepper.down[1] = ()
    ask(stepper, "sleep", 10)
    assert not stepper.timers and not stepper.log


def test_requests_and_timers_of_a_paused_process_wait(stepper: Stepper) -> None:
    ask(stepper, "sleep", 10)
    [(number, control)] = pending_timers(stepper)
    stepper.paused[1] = []
    stepper.fire(None, number, control)
    ask(stepper, "wake")
    assert counted(stepper) == (0, 0)
    assert [control for _, _, control in stepper.paused[1]] == [control, (1, "wake", (), 0)]

"""The discrete-event simulator.

A run is determined by the arguments of `Simulation`: the same ones give the same events.

`Calendar` keeps the pending events, `MessageTransport` decides which messages arrive and when,
`Stepper` runs the handlers, `FaultInjector` injects the faults, `Application` passes on the
requests of the workload, `ProcessingQueues` keeps messages waiting for busy processes.
`Simulation` ties them together and has the loop.  A feature that a run does not use costs it
nothing: see sending.py and stepping.py.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from heapq import heappop
from typing import Any

from habemus.core.application import Workload
from habemus.core.events import Event
from habemus.core.node import Stack
from habemus.core.process import MistakeInAlgorithm, MistakeInPlan, Process, ProcessId
from habemus.core.replacement import is_replaceable
from habemus.core.system import System
from habemus.core.words import did_you_mean
from habemus.runtimes.sim.application import Application, AskIf, Stop
from habemus.runtimes.sim.calendar import CONTROL, Calendar, Queued
from habemus.runtimes.sim.faults import Cut, Fault, Nth, Replace, Skew, Slow, processes_of
from habemus.runtimes.sim.injection import FaultInjector, Resume, Strike
from habemus.runtimes.sim.interventions import (
    Choice,
    Intervening,
    Intervention,
    Pending,
    processes_named,
)
from habemus.runtimes.sim.network import Network
from habemus.runtimes.sim.processing import Arrive, Handled, ProcessingQueues
from habemus.runtimes.sim.recorder import RunRecorder
from habemus.runtimes.sim.sending import MessageTransport
from habemus.runtimes.sim.situation import Situation
from habemus.runtimes.sim.stepping import Fire, Stepper

CHUNK = 50_000
"""Events between two calls of the observers and of the progress bar."""


@dataclass(frozen=True)
class Ending:
    """The reason why a run ended, and its totals.

    `quiescent`: no event is pending.  `done`: the workload is finished, though processes still
    exchange messages.  `time`, `events`: the run was cut off, so what has not happened yet may
    still happen.
    """

    reason: str
    time: int
    delivered: int
    sent: int

    @property
    def cut_off(self) -> bool:
        return self.reason in ("time", "events")


class _Stopped(Exception):
    pass


class _RareCollections:
    """Lets the garbage collector run rarely: messages in flight are not garbage, and examining them
    again and again halves the speed.
    """

    def __enter__(self) -> None:
        self._before = gc.get_threshold()
        gc.set_threshold(200_000, 50, 50)

    def __exit__(self, *_: object) -> None:
        gc.set_threshold(*self._before)


class Record(IntEnum):
    """Level of detail at which a run is recorded.  Each level costs some speed."""

    NOTHING = 0
    REQUESTS = 1  # what the application, the timers and the faults do
    MESSAGES = 2  # and every message
    CLOCKS = 3  # and the vector clocks, computed when the record is read


class Simulation:
    """One run of a system, which can be interrupted, continued and reset."""

    def __init__(
        self,
        system: System,
        *,
        workload: Workload | None = None,
        network: Network | None = None,
        faults: Sequence[Fault] = (),
        seed: int = 0,
        record: Record = Record.MESSAGES,
        guarded: bool = False,
        processing: int = 0,
        interventions: Sequence[tuple[int, Intervention]] = (),
        situation: Situation | None = None,
    ) -> None:
        """Assemble a run.

        processing: the time that a process needs for a message.
        interventions: each with the number of deliveries after which it takes place.
        situation: where the run begins, instead of at the start of its processes.
        """
        self.system = system
        self.network = network or Network()
        self.workload = workload
        self.faults = tuple(faults)
        self.record = record
        self._processing = processing
        self._guarded = guarded  # refuse wrong effects and types at the step that has them
        _check_faults(self.faults, system)
        self._situation = situation
        self.interventions = tuple(interventions)
        _check_interventions(self.interventions, system)
        self.log: list[Any] = []
        self.observers: list[Callable[[Event], None]] = []
        self.before_intervention: Callable[[], None] | None = None
        """Called before each intervention, when the observers have seen all events before it."""
        self._seed = seed
        self._random = random.Random(seed)
        self._begun = False
        self._run_number = 0
        self._reason: str | None = None  # why the run ended, if it has
        self._delivered = 0
        stacks = _stacks_of(system)
        self._paths = [
            part.path for part in max(stacks.values(), key=lambda stack: len(stack.parts)).parts
        ]
        self.recorder = self._new_recorder()
        self._assemble(stacks)

    def _assemble(self, stacks: dict[ProcessId, Stack]) -> None:
        ports, requests = len(self._paths), self.record >= Record.REQUESTS
        messages = self.record >= Record.MESSAGES
        self._calendar = Calendar(self._random.getrandbits)
        self._queues = (
            ProcessingQueues(self._calendar, ports, self._processing, records=messages)
            if self._processing
            else None
        )
        self._transport = MessageTransport(
            self._calendar,
            self.network,
            self.faults,
            ports,
            self.log,
            records=messages,
            enter=None if self._queues is None else self._queues.enter,
            is_changed_later=self._situation is not None
            or any(isinstance(each, Cut | Slow) for _, each in self.interventions),
        )
        self._application = Application(self.workload, tuple(stacks), self._calendar, self.network)
        skews = {
            fault.process: fault.millionths for fault in self.faults if isinstance(fault, Skew)
        }
        self._stepper = Stepper(
            self.system,
            stacks,
            self._transport,
            self._application,
            skews,
            records=requests,
            guarded=self._guarded,
        )
        self._injector = FaultInjector(
            self.faults,
            self._stepper,
            self._transport,
            self._application,
            records_messages=messages,
            queues=self._queues,
        )
        self._intervening = Intervening(
            self.interventions,
            self._stepper,
            self._transport,
            self._application,
            self._injector,
            self._paths,
            fifo=self.network.fifo,
        )
        self._stepper.spawn(self._injector.witness if self._injector.watches else None)
        self.processes: dict[ProcessId, list[Process]] = self._stepper.processes
        controls: dict[type, Callable[..., None]] = {
            Fire: self._stepper.fire,
            tuple: self._stepper.ask,
            AskIf: self._stepper.ask_if,
            Strike: self._injector.strike,
            Resume: self._injector.resume,
            Stop: self._stop,
        }
        if self._queues is not None:
            self._queues.stepper = self._stepper
            controls |= {Arrive: self._queues.arrive, Handled: self._queues.finish}
        self._stepper.targets[CONTROL] = (controls, None)
        # Computed once for all resets, which have to be fast.
        self._initial_targets = dict(self._stepper.targets)
        self._initial_states = [
            (type(process).__restore__, process, part.initial)
            for me, stack in stacks.items()
            for part, process in zip(stack.parts, self.processes[me], strict=True)
        ]

    def _new_recorder(self) -> RunRecorder:
        return RunRecorder(
            self.system.topology.processes, self._paths, self.record == Record.CLOCKS
        )

    def missed_faults(self) -> list[tuple[Fault, str]]:
        """Return the faults that have not struck so far, each with the reason."""
        return self._injector.missed()

    def missed_interventions(self) -> list[tuple[Intervention, str]]:
        """Return the interventions that have not taken place so far, each with the reason."""
        return self._intervening.missed(self._delivered)

    def pending(self) -> list[Pending]:
        """Return the events that are still to come, in the order in which they will come."""
        return self._intervening.pending()

    def step(self, choice: Choice | None = None) -> str | None:
        """Process one event, by choice not the next one; return why the run ended, if it has.

        Raises `MistakeInPlan` if the chosen event cannot come now.
        """
        if choice is None:
            return self.advance(1)
        failure = self._intervening.apply(choice, self._deliver_first, self._reseed)
        if failure:
            raise MistakeInPlan(failure)
        return self.advance(0)

    def _deliver_first(self, moment: int, event: Queued) -> None:
        """Process a pending event now, before all others."""
        calendar = self._calendar
        calendar.remove(moment, event)
        others = list(calendar.buckets.get(calendar.now, []))
        for other in others:  # of the present instant
            calendar.remove(calendar.now, other)
        calendar.enter(calendar.now, event)
        try:
            self._advance(1)
        finally:
            calendar.put_back(others)

    def _reseed(self, number: int) -> None:
        self._random.seed(f"{self._seed} {self._delivered} {number}")

    @property
    def delivered(self) -> int:
        """Number of events processed so far: messages, timers, requests and faults."""
        return self._delivered

    def is_up(self, process: ProcessId) -> bool:
        return process not in self._stepper.down

    def reset(self, seed: int) -> None:
        """Start over with another seed, as a new simulation would, but much faster."""
        super(random.Random, self._random).seed(seed)  # the same for an integer, and faster
        self._seed = seed
        self._begun = False
        self._reason = None
        self._delivered = 0
        self.log.clear()
        if self._transport.records:
            self.recorder = self._new_recorder()
        self._calendar.clear()
        self._transport.reset()
        self._application.reset()
        self._stepper.clear()
        self._injector.clear()
        self._intervening.clear()
        if self._queues is not None:
            self._queues.clear()
        if self.faults or self.interventions:
            self._stepper.targets.update(self._initial_targets)
        for restore, process, initial in self._initial_states:
            restore(process, initial)

    def run(
        self,
        until: int | None = None,
        events: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Ending:
        """Run to the end, or to a time or a number of events; call it again to continue.

        `progress` is called now and then with the virtual time and the number of events so far.
        """
        with _RareCollections():
            self.begin(until)
            return self.ending(self._advance_by(events, progress) or "events")

    def begin(self, until: int | None = None) -> None:
        """Start the processes, unless they are started, and plan the end of the run.

        `advance` continues from there.  Its calls together are the same run as one call of `run`.
        """
        self._run_number += 1
        self._reason = None
        if not self._begun:
            self._begun = True
            self._begin()
        if until is not None:
            self._calendar.schedule(until - self._calendar.now, Stop("time", self._run_number))

    def advance(
        self, events: int | None = None, progress: Callable[[int, int], None] | None = None
    ) -> str | None:
        """Process up to so many events; return why the run ended, or None if it has not."""
        with _RareCollections():
            return self._advance_by(events, progress)

    def ending(self, reason: str) -> Ending:
        """Return the totals of the run so far."""
        return Ending(reason, self._calendar.now, self._delivered, self._transport.sent)

    def _advance_by(
        self, events: int | None, progress: Callable[[int, int], None] | None
    ) -> str | None:
        if self._reason is None:
            self._reason = self._advance_to_end(events, progress)
        self._drain_to_observers()
        return self._reason

    def _advance_to_end(
        self, events: int | None, progress: Callable[[int, int], None] | None
    ) -> str | None:
        last = None if events is None else self._delivered + events
        intervening = self._intervening
        while True:
            if intervening.next is not None:
                self._intervene()
            left = CHUNK if last is None else min(CHUNK, last - self._delivered)
            if intervening.next is not None:
                left = min(left, intervening.next - self._delivered)
            if left <= 0:
                return None
            try:
                if not self._advance(left) and intervening.next != self._delivered:
                    return "quiescent"
            except _Stopped as stopped:
                reason = str(stopped)
                if not self._goes_on_after(reason):
                    is_over = reason == "time" and not self._calendar.instants
                    return "quiescent" if is_over else reason
            self._drain_to_observers()
            if progress is not None:
                progress(self._calendar.now, self._delivered)

    def _intervene(self) -> None:
        intervening = self._intervening
        while intervening.next is not None and intervening.next <= self._delivered:
            self._drain_to_observers()
            if self.before_intervention is not None:
                self.before_intervention()
            intervening.apply_next(self._delivered, self._deliver_first, self._reseed)

    def _goes_on_after(self, reason: str) -> bool:
        """Return whether an intervention lets a run go on that has come to its end."""
        if self._intervening.next != self._delivered:
            return False
        self._intervene()
        if reason == "done":
            self._application.continue_after_stop()
        return reason == "done" and bool(self._calendar.instants)

    def _begin(self) -> None:
        if self._situation is not None:
            self._begin_in(self._situation)
            return
        self._injector.schedule()
        self._start(self._stepper.stacks)
        self._application.begin(self.system.clients)

    def _start(self, processes: Iterable[ProcessId]) -> None:
        for process in processes:
            if self._stepper.records:
                self.log.append(Event(self._calendar.now, process, "start"))
            self._stepper.begin(process, "on_start")

    def _begin_in(self, situation: Situation) -> None:
        calendar, stepper, recorder = self._calendar, self._stepper, self.recorder
        calendar.move_to(situation.time)
        if self._transport.records:
            self.log.append(situation.time)
        recorder.continue_from(situation.last_number, situation.down, situation.clocks)
        for process, state in situation.states.items():
            for part, values in zip(self.processes[process], state, strict=True):
                type(part).__restore__(part, values)
            if process in situation.down:
                self._injector.put_down(process, state)
        for number, sender, to, port, message, clock in situation.messages:
            event = self._transport.resend(sender, to, stepper.address(to, port), message)
            recorder.adopt(event, number, clock)
        for process, port, timer, after in situation.timers:
            address = stepper.address(process, port)
            due = calendar.draw(after)
            stepper.timers[address, timer] = calendar.schedule(due, Fire(address, timer))
        self._start(situation.unstarted)
        self._application.begin(self.system.clients)

    def _stop(self, _: None, __: int, control: Stop) -> None:
        if control.run not in (None, self._run_number):
            return  # of an earlier call, which ended for another reason
        if control.reason == "done" and self._application.keeps_going(
            recoveries_are_due=self._injector.recoveries_are_due()
        ):
            return
        raise _Stopped(control.reason)

    def _advance(self, budget: int) -> bool:
        """Process up to so many events and return whether any are left."""
        calendar, targets = self._calendar, self._stepper.targets
        instants, take, put_back = calendar.instants, calendar.buckets.pop, calendar.put_back
        messages, log, type_of = self._transport.records, self.log.append, type
        message: Any = None
        sender = address = CONTROL
        left = budget
        upcoming: Iterator[Queued] = iter(())  # of the present instant
        try:
            while instants and left > 0:
                calendar.now = now = heappop(instants)
                calendar.outgoing = None
                events = take(now)
                count = len(events)
                if messages:
                    log(now)
                if count == 1:  # nothing to sort: nearly always so when delays are drawn
                    left -= 1
                    if messages:
                        log(events[0])
                    [(_, address, sender, message)] = events
                    table, process = targets[address]
                    table[type_of(message)](process, sender, message)
                    continue
                events.sort()
                if count > left:
                    put_back(events[left:])
                    del events[left:]
                    count = left
                left -= count
                upcoming = iter(events)
                if messages:
                    for event in upcoming:
                        log(event)
                        _, address, sender, message = event
                        table, process = targets[address]
                        table[type_of(message)](process, sender, message)
                else:
                    for _, address, sender, message in upcoming:
                        table, process = targets[address]
                        table[type_of(message)](process, sender, message)
            return bool(instants)
        except (_Stopped, MistakeInAlgorithm, MistakeInPlan):
            raise
        except (Exception, SystemExit) as error:
            where = _explain(error, targets, address, sender, message, calendar.now)
            raise MistakeInAlgorithm(where) from error
        finally:
            rest = list(upcoming)  # empty, unless the run was stopped in the middle of an instant
            put_back(rest)
            self._delivered += budget - left - len(rest)

    def drained(self) -> Iterator[Event]:
        """Return the events since the last call, and empty the raw log."""
        log, self.log[:] = list(self.log), []
        return self.recorder.events(log)

    def _drain_to_observers(self) -> None:
        if self.observers:
            for event in self.drained():
                for observe in self.observers:
                    observe(event)


def _check_faults(faults: Sequence[Fault], system: System) -> None:
    for fault in faults:
        for process in processes_of(fault):
            if process not in system.plans:
                raise MistakeInPlan(f"there is no process {process}; there are {_range_of(system)}")
        if isinstance(fault, Replace) and not is_replaceable(Stack(system.plans[fault.process])):
            raise MistakeInPlan(
                f"process {fault.process} cannot be replaced: its algorithm does not define"
                " on_replaced, which derives a lost memory from the others"
            )
    moments = [fault.when for fault in faults if not isinstance(fault, Skew)]
    watched = {when.kind for when in moments if isinstance(when, Nth)}
    unknown = sorted(watched - _event_names(system)) if watched else []
    if unknown:
        hint = did_you_mean(unknown[0], sorted(_event_names(system)))
        raise MistakeInPlan(f"no process has an event {unknown[0]!r}; {hint}")


def _check_interventions(interventions: Sequence[tuple[int, Intervention]], system: System) -> None:
    for _, intervention in interventions:
        for process in processes_named(intervention):
            if process not in system.plans:
                raise MistakeInPlan(f"there is no process {process}; there are {_range_of(system)}")
        if isinstance(intervention, Replace | Skew):
            _check_faults([intervention], system)


def _event_names(system: System) -> set[str]:
    """Return the names of events that a fault can wait for."""
    names = {"send", "receive", "timer", "request", "indicate"}
    stacks = _stacks_of(system).values()
    for kind in {type(part.plan): None for stack in stacks for part in stack.parts}:
        behaviour = kind.__behaviour__
        names |= {*behaviour.values, *behaviour.requests}
        names |= {indication.__name__ for indication in kind.indications}
    return names


def _stacks_of(system: System) -> dict[ProcessId, Stack]:
    """Return the stacks of a system, computed once for all its runs."""
    stacks: dict[ProcessId, Stack] | None = getattr(system, "_stacks", None)
    if stacks is None:
        of_plan: dict[int, Stack] = {}
        stacks = {}
        for process, plan in system.plans.items():
            if id(plan) not in of_plan:
                of_plan[id(plan)] = Stack(plan)
            stacks[process] = of_plan[id(plan)]
        object.__setattr__(system, "_stacks", stacks)
    return stacks


def _range_of(system: System) -> str:
    processes = sorted(system.plans)
    if len(processes) > 8:
        return f"{processes[0]} to {processes[-1]}"
    return ", ".join(map(str, processes))


def _explain(
    error: BaseException,
    targets: dict[int, Any],
    address: int,
    sender: ProcessId,
    message: Any,
    now: int,
) -> str:
    table, process = targets.get(address, ({}, None))
    if isinstance(error, KeyError) and address != CONTROL:
        if process is None:
            return (
                f"at {now}, process {sender} sent {message!r} to a process that does not exist"
                f" (address {address})"
            )
        if type(message) not in table:
            return (
                f"{type(process).__name__} has no @upon({type(message).__name__}) and got"
                f" {message!r} from {sender}"
            )
    if process is not None:
        where = f"process {process.me}, on {message!r} from {sender}"
    elif isinstance(message, Fire):
        where = f"on {message.timer!r}"
    elif type(message) is tuple:
        where = f"process {message[0]}, on {message[1]}"
    else:
        where = f"on {message!r}"
    return f"{type(error).__name__}: {error} (at {now / 1000:g} ms, {where})"

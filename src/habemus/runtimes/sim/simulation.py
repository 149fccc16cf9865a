"""The discrete-event simulator.

A run is (system, workload, network, faults, seed) and nothing else: the same five give the same events.

The inner loop takes a tuple from a queue and calls one function from one table; whatever is not needed in a
run costs it nothing.  So there is no test for crashed processes (the table of a crashed process drops what
it gets), none for timers and faults (they are events for an address of their own), and the functions that
processes send with are made for the features of this run.  All share the variables of `_wire`, which is
therefore one long function; read it from its end.
"""

from __future__ import annotations

import gc
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import repeat
from typing import Any, NamedTuple

from habemus.core.application import Workload
from habemus.core.events import Event, note
from habemus.core.node import Stack, State, settle_together
from habemus.core.process import MistakeInAlgorithm, MistakeInPlan, Process, ProcessId, Span
from habemus.core.system import System
from habemus.core.values import Indication, Message, Timer
from habemus.runtimes.sim.faults import Crash, Cut, Fault, Heal, Nth, Pause, Recover, Skew, Slow, processes_of
from habemus.runtimes.sim.network import MILLION, Network, Sampler, Uniform
from habemus.runtimes.sim.queues import Calendar, Pop, Push, Queued, calendar_pop, calendar_push
from habemus.runtimes.sim.recorder import Again, Lost, Recorder, Twice

CONTROL = -1
"""The address of what is not a message: timers, requests of the application, faults."""

TIE_BITS = (1 << 20) - 1
CALENDAR_FROM = 100
"""From so many processes on, the calendar is faster than the heap."""

CHUNK = 50_000
"""Events between two looks at the clock, the progress bar and the log."""


@dataclass(frozen=True)
class Ending:
    """How a run ended.

    `quiescent`: nothing can happen any more.  `done`: the workload is finished, though processes still talk.
    `time`, `events`: the run was cut off, so what has not happened yet may still happen.
    """

    reason: str
    time: int
    delivered: int
    sent: int

    @property
    def cut_off(self) -> bool:
        return self.reason in ("time", "events")


class _Fire(NamedTuple):
    address: int
    timer: Timer


class _Ask(NamedTuple):
    process: ProcessId
    request: str
    arguments: tuple[Any, ...]


class _Strike(NamedTuple):
    fault: Fault


class _Resume(NamedTuple):
    process: ProcessId


class _Stop(NamedTuple):
    reason: str


class _Stopped(Exception):
    pass


class Simulation:
    """One run.  `messages` records every message, and not only what the application and the faults do."""

    def __init__(
        self,
        system: System,
        *,
        workload: Workload | None = None,
        network: Network | None = None,
        faults: Sequence[Fault] = (),
        seed: int = 0,
        messages: bool = False,
        clocks: bool = False,
        calendar: bool | None = None,
    ) -> None:
        self.system = system
        self.network = network or Network()
        self.workload = workload
        self.faults = tuple(faults)
        self.messages = messages or clocks
        for fault in self.faults:
            for process in processes_of(fault):
                if process not in system.plans:
                    raise MistakeInPlan(f"there is no process {process}; there are {_range_of(system)}")
        self.log: list[Any] = []
        self.observers: list[Callable[[Event], None]] = []
        self.processes: dict[ProcessId, list[Process]] = {}
        self._random = random.Random(seed)
        self._calendar = len(system.plans) >= CALENDAR_FROM if calendar is None else calendar
        stacks = _stacks_of(system)
        self._ports = max(len(stack.parts) for stack in stacks.values())
        paths = max(stacks.values(), key=lambda stack: len(stack.parts)).parts
        self._recorder = Recorder(system.topology.processes, [part.path for part in paths], CONTROL, clocks)
        self._wire(stacks)

    def run(self, until: int | None = None, events: int | None = None, progress: Callable[[int, int], None] | None = None) -> Ending:
        """Runs to its end, or to a time or a number of events; may be called again to go on.

        `progress` is told the virtual time and the events so far, now and then.
        """
        before = gc.get_threshold()
        gc.set_threshold(200_000, 50, 50)  # what is in flight is not garbage, and looking through it costs half the speed
        try:
            return self._run(until, events, progress)
        finally:
            gc.set_threshold(*before)

    def drained(self) -> Iterator[Event]:
        """The events since the last call.  The raw log is emptied."""
        log, self.log[:] = list(self.log), []
        return self._recorder.events(log)

    def _drain_to_observers(self) -> None:
        if self.observers:
            for event in self.drained():
                for observe in self.observers:
                    observe(event)
        elif not self.messages and len(self.log) > CHUNK:
            self.log.clear()  # nobody looks; do not let it grow

    def _wire(self, stacks: dict[ProcessId, Stack]) -> None:  # noqa: C901, PLR0915
        # The variables of the run.
        system, network, workload, ports = self.system, self.network, self.workload, self._ports
        bits = self._random.getrandbits
        log = self.log.append
        messages = self.messages
        queue: Any = Calendar() if self._calendar else []
        queue_push: Push = calendar_push if self._calendar else heappush  # type: ignore[assignment]
        pop: Pop = calendar_pop if self._calendar else heappop
        now = 0
        delivered = 0
        sent = 0
        sequence = 0
        stopping = False
        targets: dict[int, tuple[dict[type, Callable[..., None]], Any]] = {}
        tables: dict[int, dict[type, Callable[..., None]]] = {}  # those of the processes when they are up
        timers: dict[tuple[int, Timer], int] = {}
        settles: dict[ProcessId, Callable[[], None]] = {}
        stored: dict[ProcessId, State] = {}  # what crashed processes come back with
        paused: dict[ProcessId, list[tuple[int, int, Any]]] = {}
        cuts: set[tuple[ProcessId, ProcessId]] = set()
        samplers: dict[tuple[ProcessId, ProcessId], Sampler] = {link: delay.sampler(bits) for link, delay in network.links.items()}
        last_arrival: dict[tuple[ProcessId, int], int] = {}
        skews = {fault.process: fault.millionths for fault in self.faults if isinstance(fault, Skew)}
        watched = [fault for fault in self.faults if not isinstance(fault, Skew) and isinstance(fault.when, Nth)]
        seen: Counter[tuple[ProcessId, str]] = Counter()
        outboxes: dict[ProcessId, list[tuple[int, ProcessId, Message]]] = {}

        def push_and_log(queue: Any, event: Queued) -> None:
            log(event)
            queue_push(queue, event)

        push = push_and_log if messages else queue_push

        # Delays and draws.

        def drawn(span: Span) -> int:
            if isinstance(span, int):
                return span
            low, high = span
            return low + (bits(32) * (high - low + 1) >> 32)

        def schedule(after: int, control: Any) -> int:
            nonlocal sequence
            sequence += 1
            # At least one instant later: nothing is ever added to the instant that is being worked on.
            queue_push(queue, (now + max(1, after), bits(32) & TIE_BITS, CONTROL, sequence, control))
            return sequence

        # Sending.  `transmit` can do everything; plain networks get shorter functions below.

        default_sampler = network.delay.sampler(bits)
        fifo, loss, duplication = network.fifo, network.loss, network.duplication

        def transmit(sender: ProcessId, to: ProcessId, address: int, message: Message) -> None:
            nonlocal sent
            if sender == to:
                push(queue, (now + 1, bits(32) & TIE_BITS, address, sender, message))
                return
            sent += 1
            if (sender, to) in cuts or (loss and bits(32) * MILLION >> 32 < loss):
                if messages:
                    log(Lost(now, sender, address, message))
                return
            sampler = samplers.get((sender, to), default_sampler) if samplers else default_sampler
            arrival = now + sampler(now)
            if fifo:
                link = (sender, address)
                arrival = last_arrival[link] = max(arrival, last_arrival.get(link, 0) + 1)
            event = (arrival, bits(32) & TIE_BITS, address, sender, message)
            push(queue, event)
            if duplication and bits(32) * MILLION >> 32 < duplication:
                copy = (now + sampler(now), bits(32) & TIE_BITS, address, sender, message)
                queue_push(queue, copy)
                if messages:
                    log(Twice(event, copy))

        uniform = network.delay if isinstance(network.delay, Uniform) else Uniform()
        low, span = uniform.low, uniform.high - uniform.low + 1
        reshaping = any(isinstance(fault, Cut | Slow) for fault in self.faults)
        is_plain = network.is_plain and not reshaping and not watched

        def give_sending(process: Process, port: int) -> None:
            me, peers = process.me, process.peers

            def send(message: Message, *, to: ProcessId) -> None:
                nonlocal sent
                draw = bits(32)
                if to == me:
                    push(queue, (now + 1, draw & TIE_BITS, to * ports + port, me, message))
                    return
                sent += 1
                push(queue, (now + low + (draw * span >> 32), draw & TIE_BITS, to * ports + port, me, message))

            def send_alone(message: Message, *, to: ProcessId) -> None:
                nonlocal sent
                draw = bits(32)
                if to == me:
                    push(queue, (now + 1, draw & TIE_BITS, to, me, message))
                    return
                sent += 1
                push(queue, (now + low + (draw * span >> 32), draw & TIE_BITS, to, me, message))

            def broadcast(message: Message) -> None:
                nonlocal sent
                sent += len(peers)
                for to in peers:
                    draw = bits(32)
                    push(queue, (now + low + (draw * span >> 32), draw & TIE_BITS, to * ports + port, me, message))

            def send_with_care(message: Message, *, to: ProcessId) -> None:
                transmit(me, to, to * ports + port, message)

            def broadcast_with_care(message: Message) -> None:
                for to in peers:
                    transmit(me, to, to * ports + port, message)

            def post(message: Message, *, to: ProcessId) -> None:
                outboxes.setdefault(me, []).append((port, to, message))

            def post_to_all(message: Message) -> None:
                outboxes.setdefault(me, []).extend((port, to, message) for to in peers)

            links = process.links

            def send_over_links(message: Message, *, to: ProcessId) -> None:
                links.transmit(message, to=to)  # type: ignore[union-attr]  # a Link, which a runtime does not know

            def broadcast_over_links(message: Message) -> None:
                for to in peers:
                    send_over_links(message, to=to)

            if links is not None:
                process.send, process.broadcast = send_over_links, broadcast_over_links
            elif watched:
                process.send, process.broadcast = post, post_to_all
            elif is_plain:
                process.send, process.broadcast = (send if ports > 1 else send_alone), broadcast
            else:
                process.send, process.broadcast = send_with_care, broadcast_with_care

        # The other effects.

        def give_effects(process: Process, port: int, above: int | None, raised: deque[tuple[int, Indication]], path: str) -> None:
            me = process.me
            address = me * ports + port
            skew = MILLION + skews.get(me, 0)

            def set_timer(timer: Timer, *, after: Span) -> None:
                timers[address, timer] = schedule(drawn(after) * skew // MILLION, _Fire(address, timer))

            def cancel_timer(timer: Timer) -> None:
                timers.pop((address, timer), None)

            def choose(options: Sequence[Any]) -> Any:
                value = options[bits(32) * len(options) >> 32]
                log(Event(now, me, "choose", "", note(value), None, None, path))
                return value

            def indicate_up(indication: Indication) -> None:
                raised.append((port, indication))

            def indicate_to_application(indication: Indication) -> None:
                log(Event(now, me, "indicate", type(indication).__name__, indication))
                if workload is not None:
                    workload.indicated(me, indication, drive)
                if watched:
                    witnessed(me, "indicate", type(indication).__name__)

            process.set_timer, process.cancel_timer, process.choose = set_timer, cancel_timer, choose
            process.indicate = indicate_to_application if above is None else indicate_up

        # Steps.

        def after_step(me: ProcessId, *names: str) -> None:
            """Lets the messages of a step go, one by one, as far as the faults that wait for them allow."""
            outbox = outboxes.pop(me, [])
            for port, to, message in outbox:
                if to != me:
                    witnessed(me, "send", type(message).__name__)
                    if me in stored:
                        return
                transmit(me, to, to * ports + port, message)
            if names:
                witnessed(me, *names)

        def handled(me: ProcessId, handler: Callable[..., None], alone: bool) -> Callable[..., None]:
            """The handler of a message or timer as this run needs it."""
            settle = settles.get(me)
            if alone and not watched:
                return handler

            def step(process: Process, *event: Any) -> None:
                handler(process, *event)
                if settle is not None:
                    settle()
                if watched:
                    after_step(me, "receive" if len(event) == 2 else "timer", type(event[-1]).__name__)

            return step

        def perform(me: ProcessId, method: str, *arguments: Any) -> None:
            """A request, a start or a recovery, on all parts or on the one on top."""
            processes = self.processes[me]
            if method in ("on_start", "on_recover"):
                for process in reversed(processes):  # components first: the part above may call them when it starts
                    getattr(process, method)()
            elif me in settles:
                getattr(processes[0], method)(*arguments)
            else:
                type(processes[0]).__behaviour__.requests[method](processes[0], *arguments)
            if me in settles:
                settles[me]()
            elif method in ("on_start", "on_recover"):
                type(processes[0]).__behaviour__.settle(processes[0])
            if watched:
                after_step(me)

        # Events for the address CONTROL.

        def hold_if_paused(process: ProcessId, number: int, control: Any) -> bool:
            if process in paused:
                paused[process].append((CONTROL, number, control))
                return True
            return False

        def fire(_: None, number: int, control: _Fire) -> None:
            process = control.address // ports
            if timers.get(control) != number or hold_if_paused(process, number, control):
                return
            del timers[control]
            log(Event(now, process, "timer", type(control.timer).__name__, control.timer, None, None, paths[control.address % ports]))
            table, part = targets[control.address]
            handler = table.get(type(control.timer))
            if handler is None:
                raise MistakeInAlgorithm(f"{type(part).__name__} set the timer {control.timer!r} and has no @upon for it")
            handler(part, control.timer)

        def ask(_: None, number: int, control: _Ask) -> None:
            process = control.process
            if process in stored or hold_if_paused(process, number, control):
                return
            log(Event(now, process, "request", control.request, note(control.arguments) if control.arguments else None))
            perform(process, control.request, *control.arguments)
            if process not in stored and workload is not None:
                workload.asked(process, control.request, drive)
            if watched:
                witnessed(process, "request", control.request)
            stop_if_done()

        def stop(_: None, __: int, control: _Stop) -> None:
            raise _Stopped(control.reason)

        def resume(_: None, __: int, control: _Resume) -> None:
            process = control.process
            if process not in paused:
                return
            waiting = paused.pop(process)
            log(Event(now, process, "resume"))
            for port in range(len(self.processes[process])):
                address = process * ports + port
                targets[address] = (tables[address], self.processes[process][port])
            for order, (address, sender, message) in enumerate(waiting):
                event = (now + 1, order, address, sender, message)
                queue_push(queue, event)
                if messages and address != CONTROL:
                    log(Again(event))

        # Faults.

        def strike(_: None, __: int, control: _Strike) -> None:
            inflict(control.fault)

        def inflict(fault: Fault) -> None:
            match fault:
                case Crash(process):
                    crash(process)
                case Recover(process, _, amnesia):
                    recover(process, amnesia)
                case Pause(process, _, duration):
                    pause(process, duration)
                case Cut(links):
                    cuts.update(links)
                    for one, other in links:
                        log(Event(now, one, "cut", "", None, other))
                case Heal(links):
                    healed = sorted(cuts) if not links else [link for link in links if link in cuts]
                    cuts.difference_update(healed)
                    for one, other in healed:
                        log(Event(now, one, "heal", "", None, other))
                case Slow(links, _, delay):
                    samplers.update((link, delay.sampler(bits)) for link in links)
                    for one, other in links:
                        log(Event(now, one, "slow", "", note(delay.mean), other))

        def witnessed(process: ProcessId, *names: str) -> None:
            """Counts an event for the faults that wait for the k-th of its kind."""
            for name in names:
                seen[process, name] += 1
                for fault in watched:
                    when = fault.when  # type: ignore[union-attr]  # a Skew has no time and is not watched
                    assert isinstance(when, Nth)
                    watched_process = when.process if when.process is not None else getattr(fault, "process", process)
                    if when.kind == name and watched_process == process and when.count == seen[process, name]:
                        inflict(fault)

        def crash(process: ProcessId) -> None:
            if process in stored:
                return
            processes = self.processes[process]
            stored[process] = stacks[process].forget(tuple(type(part).__capture__(part) for part in processes))
            paused.pop(process, None)
            outboxes.pop(process, None)
            for port, part in enumerate(processes):
                targets[process * ports + port] = (_DROP, part)
            for key in [key for key in timers if key[0] // ports == process]:
                del timers[key]
            log(Event(now, process, "crash"))
            if workload is not None:
                workload.crashed(process)
                stop_if_done()

        def recover(process: ProcessId, amnesia: bool) -> None:
            if process not in stored:
                return
            state = stored.pop(process)
            for port, (part, values) in enumerate(zip(self.processes[process], stacks[process].initial if amnesia else state, strict=True)):
                type(part).__restore__(part, values)
                targets[process * ports + port] = (tables[process * ports + port], part)
            log(Event(now, process, "recover", "", note("amnesia") if amnesia else None))
            perform(process, "on_recover")
            if workload is not None:
                workload.recovered(process, drive)

        def pause(process: ProcessId, duration: int) -> None:
            if process in paused or process in stored:
                return
            backlog = paused[process] = []
            for port, part in enumerate(self.processes[process]):
                targets[process * ports + port] = (_Hold(process * ports + port, backlog), part)
            log(Event(now, process, "pause"))
            schedule(duration, _Resume(process))

        def stop_if_done() -> None:
            nonlocal stopping
            if workload is not None and not stopping and workload.is_done():
                stopping = True
                schedule(10 * max(network.delay.longest, 1), _Stop("done"))  # let the last messages arrive

        # The application.

        class _Drive:
            @property
            def now(self) -> int:
                return now

            def ask(self, process: ProcessId, request: str, *arguments: Any, after: Span) -> None:
                schedule(drawn(after), _Ask(process, request, arguments))

        drive = _Drive()

        # The processes.

        paths = self._recorder.paths
        for me, stack in stacks.items():
            processes = self.processes[me] = stack.spawn(me, system.topology.neighbours[me])
            raised: deque[tuple[int, Indication]] = deque()
            alone = len(processes) == 1
            if not alone:
                settles[me] = settle_together(stack, processes, raised)
            for part, process in zip(stack.parts, processes, strict=True):
                give_sending(process, part.port)
                give_effects(process, part.port, part.above, raised, part.path)
                behaviour = type(process).__behaviour__
                handlers = behaviour.settled if alone else behaviour.upon
                table = {kind: handled(me, handler, alone) for (kind, of), handler in handlers.items() if of is None}
                address = me * ports + part.port
                tables[address] = table
                targets[address] = (table, process)
        targets[CONTROL] = ({_Fire: fire, _Ask: ask, _Strike: strike, _Resume: resume, _Stop: stop}, None)

        def begin() -> None:
            for fault in self.faults:
                if not isinstance(fault, Skew) and isinstance(fault.when, int):
                    schedule(fault.when, _Strike(fault))
            for me in stacks:
                log(Event(now, me, "start"))
                perform(me, "on_start")
            if workload is not None:
                workload.begin(system.clients, drive)
                stop_if_done()

        def advance(budget: int) -> bool:
            """Works on so many events; says whether any are left."""
            nonlocal now, delivered
            count = 0
            message: Any = None
            sender = CONTROL
            address = CONTROL
            try:
                if messages:
                    for count in repeat(None, budget):  # type: ignore[assignment]
                        if not queue:
                            return False
                        event = pop(queue)
                        log(event)
                        now, _, address, sender, message = event
                        table, process = targets[address]
                        delivered += 1
                        table[message.__class__](process, sender, message)
                else:
                    for count in repeat(None, budget):  # type: ignore[assignment]
                        if not queue:
                            return False
                        now, _, address, sender, message = pop(queue)
                        table, process = targets[address]
                        delivered += 1
                        table[message.__class__](process, sender, message)
            except (_Stopped, MistakeInAlgorithm, MistakeInPlan):
                raise
            except Exception as error:
                raise MistakeInAlgorithm(_explain(error, targets, address, sender, message, now)) from error
            return True

        def run(until: int | None, events: int | None, progress: Callable[[int, int], None] | None) -> Ending:
            if not self._begun:
                self._begun = True
                begin()
            if until is not None:
                schedule(until - now, _Stop("time"))
            reason = "events"
            left = events
            try:
                while left is None or left > 0:
                    budget = CHUNK if left is None else min(CHUNK, left)
                    if not advance(budget):
                        reason = "quiescent"
                        break
                    left = None if left is None else left - budget
                    self._drain_to_observers()
                    if progress is not None:
                        progress(now, delivered)
            except _Stopped as stopped:
                reason = str(stopped)
            self._drain_to_observers()
            return Ending(reason, now, delivered, sent)

        self._run = run
        self.is_up = lambda process: process not in stored

    _begun = False
    _run: Callable[[int | None, int | None, Callable[[int, int], None] | None], Ending]
    is_up: Callable[[ProcessId], bool]


class _Drop(dict[type, Callable[..., None]]):
    """The table of a crashed process: whatever comes is lost."""

    def __missing__(self, kind: type) -> Callable[..., None]:
        return lambda *_: None


_DROP = _Drop()


class _Hold(dict[type, Callable[..., None]]):
    """The table of a paused process: whatever comes waits."""

    def __init__(self, address: int, backlog: list[tuple[int, int, Any]]) -> None:
        super().__init__()
        self._keep = lambda _, sender, message: backlog.append((address, sender, message))

    def __missing__(self, kind: type) -> Callable[..., None]:
        return self._keep


def _stacks_of(system: System) -> dict[ProcessId, Stack]:
    """The stacks of a system, worked out once for all its runs."""
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
    return f"{processes[0]} to {processes[-1]}" if len(processes) > 8 else ", ".join(map(str, processes))


def _explain(error: Exception, targets: dict[int, Any], address: int, sender: ProcessId, message: Any, now: int) -> str:
    table, process = targets.get(address, ({}, None))
    if isinstance(error, KeyError) and address != CONTROL:
        if process is None:
            return f"at {now}, process {sender} sent {message!r} to a process that does not exist (address {address})"
        if type(message) not in table:
            return f"{type(process).__name__} has no @upon({type(message).__name__}) and got {message!r} from {sender}"
    where = f"process {process.me}, on {message!r} from {sender}" if process is not None else f"on {message!r}"
    return f"at {now}, {where}: {type(error).__name__}: {error}"

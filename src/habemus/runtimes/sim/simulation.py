"""The discrete-event simulator.

A run is (system, workload, network, faults, seed) and nothing else: the same five give the same events.

The inner loop takes the next tuple and calls one function from one table; whatever is not needed in a run
costs it nothing.  So there is no test for crashed processes (the table of a crashed process drops what it
gets), none for timers and faults (they are events for an address of their own), and the functions that
processes send with are made for the features of this run.  All share the variables of `_wire`, which is
therefore one long function; read it from its end.

What is under way lies in a calendar: a list of tuples for each instant, unsorted until its time has come, and a
heap of the instants.  Messages are many and instants are few, so this is faster than a heap of messages.  The
order within an instant is that of the tuples, so it depends on the seed and never on who came first.
"""

from __future__ import annotations

import gc
import random
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from heapq import heappop, heappush
from typing import Any, NamedTuple, TypeAlias

from habemus.core.application import Workload
from habemus.core.events import Event, note
from habemus.core.node import Stack, State, settle_together
from habemus.core.process import MistakeInAlgorithm, MistakeInPlan, Process, ProcessId, Span
from habemus.core.system import System
from habemus.core.values import Indication, Message, Timer
from habemus.runtimes.sim.faults import Crash, Cut, Fault, Heal, Nth, Pause, Recover, Skew, Slow, processes_of
from habemus.runtimes.sim.network import MILLION, Network, Sampler, Uniform
from habemus.runtimes.sim.recorder import Again, Lost, Queued, Recorder, Twice

CONTROL = -1
"""The address of what is not a message: timers, requests of the application, faults."""

TIE = 30
"""Random bits that order one instant: as many as make a small integer, of which comparisons are fast."""

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


_Ask: TypeAlias = tuple[ProcessId, str, tuple[Any, ...], int | None]
"""Process, request, arguments, and in which of its lives (None: any).  By far the most frequent of these, so a plain tuple."""


class _Strike(NamedTuple):
    fault: Fault


class _Resume(NamedTuple):
    process: ProcessId


class _Stop(NamedTuple):
    reason: str
    run: int | None = None  # the call of run() that it belongs to; None: any


class _Stopped(Exception):
    pass


class _Drive:
    """What the workload of a run can do."""

    __slots__ = ("_clock", "ask")

    def __init__(self, clock: Callable[[], int], ask: Callable[..., None]) -> None:
        self._clock = clock
        self.ask = ask

    @property
    def now(self) -> int:
        return self._clock()


class Record(IntEnum):
    """How much of a run is recorded.  Each level costs some speed."""

    NOTHING = 0
    REQUESTS = 1  # what the application, the timers and the faults do
    MESSAGES = 2  # and every message
    CLOCKS = 3  # and the vector clocks, worked out when the record is read


class Simulation:
    """One run."""

    def __init__(
        self,
        system: System,
        *,
        workload: Workload | None = None,
        network: Network | None = None,
        faults: Sequence[Fault] = (),
        seed: int = 0,
        record: Record = Record.MESSAGES,
    ) -> None:
        self.system = system
        self.network = network or Network()
        self.workload = workload
        self.faults = tuple(faults)
        self.record = record
        for fault in self.faults:
            for process in processes_of(fault):
                if process not in system.plans:
                    raise MistakeInPlan(f"there is no process {process}; there are {_range_of(system)}")
        self.log: list[Any] = []
        self.observers: list[Callable[[Event], None]] = []
        self.processes: dict[ProcessId, list[Process]] = {}
        self._random = random.Random(seed)
        stacks = _stacks_of(system)
        largest = max(stacks.values(), key=lambda stack: len(stack.parts))
        self._ports = len(largest.parts)
        self._paths = [part.path for part in largest.parts]
        self._recorder = self._new_recorder()
        self._begun = False
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

    def _new_recorder(self) -> Recorder:
        return Recorder(self.system.topology.processes, self._paths, CONTROL, self.record == Record.CLOCKS)

    def reset(self, seed: int) -> None:
        """Starts over with another seed: the same run as that of a new simulation, without building one."""
        self._reset(seed)

    def drained(self) -> Iterator[Event]:
        """The events since the last call.  The raw log is emptied."""
        log, self.log[:] = list(self.log), []
        return self._recorder.events(log)

    def _drain_to_observers(self) -> None:
        if self.observers:
            for event in self.drained():
                for observe in self.observers:
                    observe(event)

    def _wire(self, stacks: dict[ProcessId, Stack]) -> None:
        # The variables of the run.
        system, network, workload, ports = self.system, self.network, self.workload, self._ports
        faults = self.faults
        asked, indicated_to, is_done = (workload.asked, workload.indicated, workload.is_done) if workload is not None else _NOBODY
        bits = self._random.getrandbits
        log: Callable[[Any], None] = self.log.append
        log_all = self.log.extend
        messages = self.record >= Record.MESSAGES
        requests = self.record >= Record.REQUESTS
        calendar: defaultdict[int, list[Queued]] = defaultdict(list)
        take = calendar.pop
        instants: list[int] = []  # a heap of those that are in the calendar
        now = 0
        delivered = 0
        sent = 0
        sequence = 0
        run_number = 0
        begun = False  # the workload has asked its first questions
        stopping = False
        targets: dict[int, tuple[dict[type, Callable[..., None]], Any]] = {}
        tables: dict[int, dict[type, Callable[..., None]]] = {}  # those of the processes when they are up
        timers: dict[tuple[int, Timer], int] = {}
        settles: dict[ProcessId, Callable[[], None]] = {}
        stored: dict[ProcessId, State] = {}  # what crashed processes come back with
        lives = dict.fromkeys(stacks, 0)  # how often each process has crashed
        paused: dict[ProcessId, list[tuple[int, int, Any]]] = {}
        cuts: set[tuple[ProcessId, ProcessId]] = set()
        samplers: dict[tuple[ProcessId, ProcessId], Sampler] = {link: delay.sampler(bits) for link, delay in network.links.items()}
        last_arrival: dict[tuple[ProcessId, int], int] = {}
        orders: list[dict[int, int]] = []  # the same for each sender that needs no more than that
        skews = {fault.process: fault.millionths for fault in self.faults if isinstance(fault, Skew)}
        watched = [fault for fault in self.faults if not isinstance(fault, Skew) and isinstance(fault.when, Nth)]
        seen: Counter[tuple[ProcessId, str]] = Counter()
        outboxes: dict[ProcessId, list[tuple[int, ProcessId, Message]]] = {}  # messages of the step that is going on
        indicated: dict[ProcessId, list[str]] = {}  # its indications to the application

        def enqueue(arrival: int, event: Queued) -> None:
            """Enters an event in the calendar.  What runs for each message does these three lines itself."""
            events = calendar[arrival]
            if not events:
                heappush(instants, arrival)
            events.append(event)

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
            arrival = now + (after if after > 0 else 1)
            events = calendar[arrival]
            if not events:
                heappush(instants, arrival)
            events.append((bits(TIE), CONTROL, sequence, control))
            return sequence

        # Sending.  `transmit` can do everything; networks on which nothing goes wrong get shorter functions below.

        default_sampler = network.delay.sampler(bits)
        fifo, loss, duplication = network.fifo, network.loss, network.duplication

        def transmit(sender: ProcessId, to: ProcessId, address: int, message: Message) -> None:
            nonlocal sent
            if sender == to:
                send_to_itself(address, sender, message)
                return
            sent += 1
            if (cuts and (sender, to) in cuts) or (loss and bits(32) * MILLION >> 32 < loss):
                if messages:
                    log(Lost(now, sender, address, message))
                return
            sampler = samplers.get((sender, to), default_sampler) if samplers else default_sampler
            arrival = arrival_of(sampler, (sender, address))
            event = (bits(TIE), address, sender, message)
            enqueue(arrival, event)
            if messages:
                log(event)
            if duplication and bits(32) * MILLION >> 32 < duplication:
                copy = (bits(TIE), address, sender, message)
                enqueue(arrival_of(sampler, (sender, address)), copy)
                if messages:
                    log(Twice(event, copy))

        def arrival_of(sampler: Sampler, link: tuple[ProcessId, int]) -> int:
            arrival = now + sampler(now)
            if fifo:
                arrival = last_arrival[link] = max(arrival, last_arrival.get(link, 0) + 1)
            return arrival

        def send_to_itself(address: int, sender: ProcessId, message: Message) -> None:
            event = (bits(TIE), address, sender, message)
            sampler = samplers.get((sender, sender))  # nobody has one, unless a schedule dictates when everything comes
            enqueue(now + (1 if sampler is None else sampler(now)), event)
            if messages:
                log(event)

        reshaping = any(isinstance(fault, Cut | Slow) for fault in self.faults)
        is_steady = network.is_steady and not reshaping and not watched
        law = network.delay
        constant = law.low if isinstance(law, Uniform) and law.low == law.high and not fifo else None

        # With one delay for all, what is sent in one instant arrives in one instant, whose list is looked up only once.
        outgoing: list[Queued] = []
        outgoing_since: int | None = None

        def open_outgoing() -> None:
            nonlocal outgoing, outgoing_since
            outgoing_since = now
            arrival = now + constant  # type: ignore[operator]  # not None where this function is used
            outgoing = calendar[arrival]
            if not outgoing:
                heappush(instants, arrival)

        def give_sending(process: Process, port: int) -> None:
            me, peers = process.me, process.peers
            arrivals: dict[int, int] = {}  # the last one on each link, where links keep the order

            def send_in_constant_time(message: Message, *, to: ProcessId) -> None:
                nonlocal sent
                if to == me:
                    send_to_itself(to, me, message)
                    return
                sent += 1
                event = (bits(TIE), to, me, message)
                if now is not outgoing_since:
                    open_outgoing()
                outgoing.append(event)
                if messages:
                    log(event)

            def broadcast_in_constant_time(message: Message) -> None:
                nonlocal sent
                if not peers:
                    return
                sent += len(peers)
                if now is not outgoing_since:
                    open_outgoing()
                copies = [(bits(TIE), to, me, message) for to in peers]
                outgoing.extend(copies)
                if messages:
                    log_all(copies)

            def send(message: Message, *, to: ProcessId) -> None:
                nonlocal sent
                address = to * ports + port
                if to == me:
                    send_to_itself(address, me, message)
                    return
                sent += 1
                arrival = now + default_sampler(now)
                if fifo:
                    last = arrivals.get(to, 0)
                    if arrival <= last:
                        arrival = last + 1
                    arrivals[to] = arrival
                event = (bits(TIE), address, me, message)
                if arrival in calendar:
                    calendar[arrival].append(event)
                else:  # with drawn delays nearly every message has an instant of its own
                    calendar[arrival] = [event]
                    heappush(instants, arrival)
                if messages:
                    log(event)

            def broadcast(message: Message) -> None:
                nonlocal sent
                sent += len(peers)
                for to in peers:  # as in send, without a call for each
                    arrival = now + default_sampler(now)
                    if fifo:
                        last = arrivals.get(to, 0)
                        if arrival <= last:
                            arrival = last + 1
                        arrivals[to] = arrival
                    event = (bits(TIE), to * ports + port, me, message)
                    if arrival in calendar:
                        calendar[arrival].append(event)
                    else:
                        calendar[arrival] = [event]
                        heappush(instants, arrival)
                    if messages:
                        log(event)

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
            elif is_steady and constant is not None and ports == 1:
                process.send, process.broadcast = send_in_constant_time, broadcast_in_constant_time
            elif is_steady:
                process.send, process.broadcast = send, broadcast
                orders.append(arrivals)
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
                if requests:
                    log(Event(now, me, "choose", "", note(value), None, None, path))
                return value

            def indicate_up(indication: Indication) -> None:
                raised.append((port, indication))

            def indicate_to_application(indication: Indication) -> None:
                if requests:
                    log(Event(now, me, "indicate", type(indication).__name__, indication))
                indicated_to(me, indication, drive)
                if watched:
                    indicated.setdefault(me, []).append(type(indication).__name__)

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
            for name in indicated.pop(me, []):
                witnessed(me, "indicate", name)

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
            if timers.get(control) != number or (paused and hold_if_paused(process, number, control)):
                return
            del timers[control]
            if requests:
                log(Event(now, process, "timer", type(control.timer).__name__, control.timer, None, None, paths[control.address % ports]))
            table, part = targets[control.address]
            handler = table.get(type(control.timer))
            if handler is None:
                raise MistakeInAlgorithm(f"{type(part).__name__} set the timer {control.timer!r} and has no @upon for it")
            handler(part, control.timer)

        def ask(_: None, number: int, control: _Ask) -> None:
            process, name, arguments, life = control
            if faults and (
                process in stored or life not in (None, lives[process]) or (paused and hold_if_paused(process, number, control))
            ):
                return
            if requests:
                log(Event(now, process, "request", name, note(arguments) if arguments else None))
            if watched or process in settles:
                perform(process, name, *arguments)
            else:
                part, request = requesting[process]
                request[name](part, *arguments) if arguments else request[name](part)
            if process not in stored:
                asked(process, name, drive)
                if not stopping and is_done():
                    wind_up()
            if watched:
                witnessed(process, "request", name)

        def recoveries_ahead() -> bool:
            due = [
                fault.process for fault in self.faults if isinstance(fault, Recover) and isinstance(fault.when, int) and fault.when >= now
            ]
            return any(process in stored for process in due)

        def stop(_: None, __: int, control: _Stop) -> None:
            nonlocal stopping
            if control.run not in (None, run_number):
                return  # of an earlier call, which ended for another reason
            if control.reason == "done" and workload is not None and (not workload.is_done() or recoveries_ahead()):
                stopping = False  # somebody has recovered and goes on asking, or will
                return
            raise _Stopped(control.reason)

        def resume(_: None, __: int, control: _Resume) -> None:
            process = control.process
            if process not in paused:
                return
            waiting = paused.pop(process)
            if requests:
                log(Event(now, process, "resume"))
            for port in range(len(self.processes[process])):
                address = process * ports + port
                targets[address] = (tables[address], self.processes[process][port])
            # In order and before anything else that comes at this instant, so that links that keep the order still do.
            for address, sender, message in waiting:
                if process in stored:
                    return
                if messages and address != CONTROL:
                    event = (0, address, sender, message)
                    log(Again(event))
                    log(event)
                table, part = targets[address]
                table[type(message)](part, sender, message)

        # Faults.

        def strike(_: None, __: int, control: _Strike) -> None:
            inflict(control.fault)

        def note_change(one: ProcessId, kind: str, value: Any, other: ProcessId) -> None:
            if requests:
                log(Event(now, one, kind, "", value, other))

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
                        note_change(one, "cut", None, other)
                case Heal(links):
                    healed = sorted(cuts) if not links else [link for link in links if link in cuts]
                    cuts.difference_update(healed)
                    for one, other in healed:
                        note_change(one, "heal", None, other)
                case Slow(links, _, delay):
                    samplers.update((link, delay.sampler(bits)) for link in links)
                    for one, other in links:
                        note_change(one, "slow", note(delay.mean), other)

        def witnessed(process: ProcessId, *names: str) -> None:
            """Counts an event for the faults that wait for the k-th of its kind."""
            for name in names:
                seen[process, name] += 1
                for fault in watched:
                    when = fault.when
                    assert isinstance(when, Nth)
                    watched_process = when.process if when.process is not None else getattr(fault, "process", process)
                    if when.kind == name and watched_process == process and when.count == seen[process, name]:
                        inflict(fault)

        def crash(process: ProcessId) -> None:
            if process in stored:
                return
            processes = self.processes[process]
            lives[process] += 1
            stored[process] = stacks[process].forget(tuple(type(part).__capture__(part) for part in processes))
            paused.pop(process, None)
            outboxes.pop(process, None)
            indicated.pop(process, None)
            for port, part in enumerate(processes):
                targets[process * ports + port] = (_DROP, part)
            for key in [key for key in timers if key[0] // ports == process]:
                del timers[key]
            if requests:
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
            if requests:
                log(Event(now, process, "recover", "", note("amnesia") if amnesia else None))
            perform(process, "on_recover")
            if workload is not None:
                workload.recovered(process, drive)
                stop_if_done()

        def pause(process: ProcessId, duration: int) -> None:
            nonlocal sequence
            if process in paused or process in stored:
                return
            backlog = paused[process] = []
            for port, part in enumerate(self.processes[process]):
                targets[process * ports + port] = (_Hold(process * ports + port, backlog), part)
            if requests:
                log(Event(now, process, "pause"))
            sequence += 1
            enqueue(now + max(1, duration), (-1, CONTROL, sequence, _Resume(process)))  # first of its instant

        def stop_if_done() -> None:
            if begun and not stopping and is_done():
                wind_up()

        def wind_up() -> None:
            nonlocal stopping
            stopping = True
            schedule(10 * max(network.delay.longest, 1), _Stop("done"))  # let the last messages arrive

        # The application.

        def ask_later(process: ProcessId, request: str, *arguments: Any, after: Span, lasting: bool = False) -> None:
            schedule(after if after.__class__ is int else drawn(after), (process, request, arguments, None if lasting else lives[process]))

        drive = _Drive(lambda: now, ask_later)

        # The processes.

        paths = self._paths
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
        requesting = {me: (parts[0], type(parts[0]).__behaviour__.requests) for me, parts in self.processes.items()}
        targets[CONTROL] = ({_Fire: fire, tuple: ask, _Strike: strike, _Resume: resume, _Stop: stop}, None)

        def begin() -> None:
            nonlocal begun
            for fault in self.faults:
                if not isinstance(fault, Skew) and isinstance(fault.when, int):
                    schedule(fault.when, _Strike(fault))
            for me in stacks:
                if requests:
                    log(Event(now, me, "start"))
                perform(me, "on_start")
            if workload is not None:
                workload.begin(system.clients, drive)
                begun = True
                stop_if_done()

        def advance(budget: int) -> bool:
            """Works on so many events; says whether any are left."""
            nonlocal now, delivered
            message: Any = None
            sender = address = CONTROL
            left = budget
            upcoming: Iterator[Queued] = iter(())  # of the present instant
            try:
                while instants and left > 0:
                    now = heappop(instants)
                    events = take(now)
                    count = len(events)
                    if messages:
                        log(now)
                    if count == 1:  # nothing to order and nothing to put back: nearly always so when delays are drawn
                        left -= 1
                        event = events[0]
                        if messages:
                            log(event)
                        _, address, sender, message = event
                        table, process = targets[address]
                        table[message.__class__](process, sender, message)
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
                            table[message.__class__](process, sender, message)
                    else:
                        for _, address, sender, message in upcoming:
                            table, process = targets[address]
                            table[message.__class__](process, sender, message)
                return bool(instants)
            except (_Stopped, MistakeInAlgorithm, MistakeInPlan):
                raise
            except Exception as error:
                raise MistakeInAlgorithm(_explain(error, targets, address, sender, message, now)) from error
            finally:
                rest = list(upcoming)  # empty, unless the run was stopped in the middle of an instant
                put_back(rest)
                delivered += budget - left - len(rest)

        def put_back(events: list[Queued]) -> None:
            if events:
                calendar[now] = events + calendar[now]
                heappush(instants, now)

        def run(until: int | None, events: int | None, progress: Callable[[int, int], None] | None) -> Ending:
            nonlocal run_number
            run_number += 1
            if not self._begun:
                self._begun = True
                begin()
            if until is not None:
                schedule(until - now, _Stop("time", run_number))
            reason = "events"
            left = events
            try:
                while left is None or left > 0:
                    before = delivered
                    if not advance(CHUNK if left is None else min(CHUNK, left)):
                        reason = "quiescent"
                        break
                    left = None if left is None else left - (delivered - before)
                    self._drain_to_observers()
                    if progress is not None:
                        progress(now, delivered)
            except _Stopped as stopped:
                reason = "quiescent" if str(stopped) == "time" and not instants else str(stopped)
            self._drain_to_observers()
            return Ending(reason, now, delivered, sent)

        # What a reset needs, worked out once: there may be thousands of runs.
        volatiles: list[Any] = [calendar, instants, timers, stored, paused, cuts, last_arrival, seen, outboxes, indicated, *orders]
        at_first = [
            (type(process).__restore__, process, part.initial)
            for me, stack in stacks.items()
            for part, process in zip(stack.parts, self.processes[me], strict=True)
        ]
        at_their_places = dict(targets)

        def reset(seed: int) -> None:
            nonlocal now, delivered, sent, sequence, stopping, begun, outgoing_since
            outgoing_since = None
            now = delivered = sent = sequence = 0
            stopping = begun = False
            super(random.Random, self._random).seed(seed)  # the same for an integer, and faster
            self._begun = False
            self.log.clear()
            if messages:
                self._recorder = self._new_recorder()
            for volatile in volatiles:
                volatile.clear()
            for restore, process, initial in at_first:
                restore(process, initial)
            if faults:
                lives.update(dict.fromkeys(stacks, 0))
                targets.update(at_their_places)
                samplers.clear()
                samplers.update((link, delay.sampler(bits)) for link, delay in network.links.items())

        self._run = run
        self._reset = reset
        self.is_up = lambda process: process not in stored

    _reset: Callable[[int], None]
    _run: Callable[[int | None, int | None, Callable[[int, int], None] | None], Ending]
    is_up: Callable[[ProcessId], bool]


_NOBODY: tuple[Callable[..., None], Callable[..., None], Callable[[], bool]] = (lambda *_: None, lambda *_: None, lambda: False)
"""What a workload does when there is none."""


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

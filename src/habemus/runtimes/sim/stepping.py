"""Steps of the processes: their handlers, effects, timers and requests.

The loop of a run looks an address up in `Stepper.targets` and calls one function from one table.
It does not test whether a process is up: the table of a crashed process drops every event, that of
a paused one keeps it.  Timers and requests are events for the address CONTROL.

If a fault waits for the k-th event of a process, messages leave it through an outbox, one by one,
so that a crash can strike in the middle of a step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from habemus.core.events import Event, note
from habemus.core.mistakes import Constants, check_variables, guard_effects
from habemus.core.node import Part, Stack, State, settle_together
from habemus.core.process import MistakeInAlgorithm, Process, ProcessId, Span
from habemus.core.system import System
from habemus.core.values import Indication, Message, Timer
from habemus.runtimes.sim.application import Application, Ask, AskIf
from habemus.runtimes.sim.calendar import CONTROL, Calendar
from habemus.runtimes.sim.network import MILLION
from habemus.runtimes.sim.sending import MessageTransport, Senders, senders_over_links

HandlerTable: TypeAlias = dict[type, Callable[..., None]]
"""Handlers of a process by the type of message or timer."""

RequestTable: TypeAlias = dict[str, Callable[..., None]]
"""Handlers of a process by the name of the request."""

Raised: TypeAlias = deque[tuple[int, Indication]]
"""Indications for the part above, each with the port of the part that raised it."""

Witness: TypeAlias = Callable[..., None]
"""Counts events of a process by name, for the faults that wait for the k-th."""


class Fire(NamedTuple):
    """Control: a timer that expires, unless it was cancelled or set again."""

    address: int
    timer: Timer


class Stepper:
    """The processes of a run and what they do upon events."""

    ask: Callable[[None, int, Ask], None]
    """Make a request of the application, unless its process has crashed in the meantime."""

    def __init__(
        self,
        system: System,
        stacks: dict[ProcessId, Stack],
        transport: MessageTransport,
        application: Application,
        skews: Mapping[ProcessId, int],
        *,
        records: bool,
        guarded: bool = False,
    ) -> None:
        self.stacks = stacks
        self.processes: dict[ProcessId, list[Process]] = {}
        self.targets: dict[int, tuple[HandlerTable, Any]] = {}
        self.tables: dict[int, HandlerTable] = {}  # handlers of the processes while they are up
        self.timers: dict[tuple[int, Timer], int] = {}  # sequence number of the event that counts
        self.down: dict[ProcessId, State] = {}  # the state that a crashed process recovers with
        self.paused: dict[ProcessId, list[tuple[int, int, Any]]] = {}  # events that wait for each
        self.calendar: Calendar = transport.calendar
        self.log: list[Any] = transport.log
        self.records = records  # whether requests, timers and indications are recorded
        self._guarded = guarded
        self._system = system
        self._transport = transport
        self._application = application
        self._skews = skews
        self._witness: Witness | None = None
        self._constants: dict[ProcessId, list[Constants]] = {}
        self._settles: dict[ProcessId, Callable[[], None]] = {}
        self._outboxes: dict[ProcessId, list[tuple[int, ProcessId, Message]]] = {}
        self._indicated: dict[ProcessId, list[str]] = {}  # to the application, in this step
        self._requests: dict[ProcessId, tuple[Process, RequestTable]] = {}
        self._paths = [part.path for part in max(stacks.values(), key=lambda s: len(s.parts)).parts]

    def spawn(self, witness: Witness | None) -> None:
        """Make the processes and give them their effects."""
        self._witness = witness
        plain: dict[type[Process], HandlerTable] = {}
        give_effects = self._effects()
        for me, stack in self.stacks.items():
            processes = stack.spawn(me, self._system.topology.neighbours[me])
            self.processes[me] = processes
            self._constants[me] = list(map(Constants, processes)) if self._guarded else []
            raised: Raised = deque()
            is_alone = len(processes) == 1
            if not is_alone:
                self._settles[me] = settle_together(stack, processes, raised)
            for part, process in zip(stack.parts, processes, strict=True):
                process.send, process.broadcast = self._senders(process, part.port)
                give_effects(process, part, raised)
                if self._guarded:
                    guard_effects(process, self.stacks)
                self.tables[self.address(me, part.port)] = self._handlers(process, plain)
            self.attach(me)
            self._requests[me] = (processes[0], self._request_table(processes[0]))
        self.ask = self._asker()

    def _handlers(self, process: Process, plain: dict[type[Process], HandlerTable]) -> HandlerTable:
        """Make the table of a process.  Processes whose handlers run as they are share one."""
        me, kind, behaviour = process.me, type(process), type(process).__behaviour__
        is_plain = self._is_plain(me)
        if is_plain and kind in plain:
            return plain[kind]
        handlers = behaviour.upon if me in self._settles else behaviour.settled
        table = {
            event: self._step(me, handler, behaviour.upon[event, of])
            for (event, of), handler in handlers.items()
            if of is None
        }
        if is_plain:
            plain[kind] = table
        return table

    def _request_table(self, process: Process) -> RequestTable:
        requests = type(process).__behaviour__.requests
        if self._is_plain(process.me):
            return requests
        is_alone = process.me not in self._settles
        table = {}
        for name, followed_by_rules in requests.items():
            written = getattr(type(process), name)
            handler = followed_by_rules if is_alone else written
            table[name] = self._step(process.me, handler, written, is_request=True)
        return table

    def _is_plain(self, process: ProcessId) -> bool:
        """Return whether the handlers of a process run as they are, with nothing after them."""
        return process not in self._settles and self._witness is None and not self._guarded

    def address(self, process: ProcessId, port: int) -> int:
        return process * self._transport.ports + port

    def attach(self, process: ProcessId) -> None:
        """Let the process handle what is addressed to it."""
        for port, part in enumerate(self.processes[process]):
            address = self.address(process, port)
            self.targets[address] = (self.tables[address], part)

    def clear(self) -> None:
        """Forget the run so far, except for the states of the processes."""
        for volatile in (self.timers, self.down, self.paused, self._outboxes, self._indicated):
            volatile.clear()

    # Effects.

    def _senders(self, process: Process, port: int) -> Senders:
        if process.links is not None:
            return senders_over_links(process)
        if self._witness is not None:
            return self._senders_to_outbox(process, port)
        return self._transport.senders(process, port)

    def _senders_to_outbox(self, process: Process, port: int) -> Senders:
        me, peers, outboxes = process.me, process.peers, self._outboxes

        def send(message: Message, *, to: ProcessId) -> None:
            outboxes.setdefault(me, []).append((port, to, message))

        def broadcast(message: Message) -> None:
            outboxes.setdefault(me, []).extend((port, to, message) for to in peers)

        return send, broadcast

    def _effects(self) -> Callable[[Process, Part, Raised], None]:
        """Return a function that gives a process its effects, except those of sending."""
        calendar, timers, log, records = self.calendar, self.timers, self.log.append, self.records
        bits, draw, schedule = calendar.bits, calendar.draw, calendar.schedule
        workload, application = self._application.workload, self._application
        indicated = None if self._witness is None else self._indicated

        def give(process: Process, part: Part, raised: Raised) -> None:
            me, port, path = process.me, part.port, part.path
            address, skew = self.address(me, port), MILLION + self._skews.get(me, 0)

            def set_timer(timer: Timer, *, after: Span) -> None:
                delay = draw(after) * skew // MILLION
                timers[address, timer] = schedule(delay, Fire(address, timer))

            def cancel_timer(timer: Timer) -> None:
                timers.pop((address, timer), None)

            def choose(options: Sequence[Any]) -> Any:
                value = options[bits(32) * len(options) >> 32]
                if records:
                    log(Event(calendar.now, me, "choose", "", note(value), None, None, path))
                return value

            def indicate_up(indication: Indication) -> None:
                raised.append((port, indication))

            def indicate_to_application(indication: Indication) -> None:
                if records:
                    name = type(indication).__name__
                    log(Event(calendar.now, me, "indicate", name, indication))
                if workload is not None:
                    workload.indicated(me, indication, application)
                if indicated is not None:
                    indicated.setdefault(me, []).append(type(indication).__name__)

            process.set_timer, process.cancel_timer = set_timer, cancel_timer
            process.choose = choose
            process.indicate = indicate_to_application if part.above is None else indicate_up

        return give

    # Steps.

    def _step(
        self,
        me: ProcessId,
        handler: Callable[..., None],
        written: Callable[..., None],
        *,
        is_request: bool = False,
    ) -> Callable[..., None]:
        """Make the function that handles a message, a timer or a request in this run.

        written: the handler as its author wrote it, without the rules that follow.
        """
        if self._is_plain(me):
            return handler
        settle, witness = self._settles.get(me), self._witness
        guarded, parts, constants = self._guarded, self.processes[me], self._constants[me]

        def step(process: Process, *event: Any) -> None:
            handler(process, *event)
            if settle is not None:
                settle()
            if guarded:
                _check_all(parts, constants, written)
            if witness is not None and is_request:  # which `ask` reports
                self._after_step(me, witness)
            elif witness is not None:
                kind = "receive" if len(event) == 2 else "timer"
                self._after_step(me, witness, kind, type(event[-1]).__name__)

        return step

    def begin(self, me: ProcessId, method: str) -> None:
        """Start or recover a process: call `on_start` or `on_recover` of all its parts."""
        processes = self.processes[me]
        for process in reversed(processes):  # components first: the part above may call them
            getattr(process, method)()
        if me in self._settles:
            self._settles[me]()
        else:
            type(processes[0]).__behaviour__.settle(processes[0])
        if self._guarded:
            _check_all(processes, self._constants[me], getattr(type(processes[0]), method))
        if self._witness is not None:
            self._after_step(me, self._witness)

    def _after_step(self, me: ProcessId, witness: Witness, *names: str) -> None:
        """Send the messages of a step one by one, as far as the faults that wait for them allow."""
        for port, to, message in self._outboxes.pop(me, []):
            if to != me:
                witness(me, "send", type(message).__name__)
                if me in self.down:
                    return
            self._transport.transmit(me, to, self.address(to, port), message)
        if names:
            witness(me, *names)
        for name in self._indicated.pop(me, []):
            witness(me, "indicate", name)

    def abandon_step(self, process: ProcessId) -> None:
        """Drop what a step that a crash cuts short has not sent or reported yet."""
        self._outboxes.pop(process, None)
        self._indicated.pop(process, None)

    # Events for the address CONTROL.

    def _is_held(self, process: ProcessId, number: int, control: Any) -> bool:
        """Keep an event for later if its process is paused."""
        if process in self.paused:
            self.paused[process].append((CONTROL, number, control))
            return True
        return False

    def fire(self, _: None, number: int, control: Fire) -> None:
        """Handle a timer, unless it was cancelled or set again."""
        address, timer = control
        process, port = divmod(address, self._transport.ports)
        if self.timers.get(control) != number:
            return
        if self.paused and self._is_held(process, number, control):
            return
        del self.timers[control]
        if self.records:
            name, path = type(timer).__name__, self._paths[port]
            self.log.append(
                Event(self.calendar.now, process, "timer", name, timer, None, None, path)
            )
        table, part = self.targets[address]
        handler = table.get(type(timer))
        if handler is None:
            raise MistakeInAlgorithm(
                f"{type(part).__name__} set the timer {timer!r} and has no @upon for it"
            )
        handler(part, timer)

    def ask_if(self, _: None, number: int, control: AskIf) -> None:
        """Make a request if its condition holds."""
        if self.paused and self._is_held(control.ask[0], number, control):
            return
        if control.is_due():
            self.ask(None, number, control.ask)

    def _asker(self) -> Callable[[None, int, Ask], None]:
        """Make the function `ask`.  It runs often, so what it needs is bound once."""
        application, workload = self._application, self._application.workload
        down, paused, lives, is_held = self.down, self.paused, application.lives, self._is_held
        calendar, log, records, witness = self.calendar, self.log, self.records, self._witness
        all_requests = self._requests

        def ask(_: None, number: int, control: Ask) -> None:
            process, name, arguments, life = control
            if (down and process in down) or (life != lives[process] and life is not None):
                return
            if paused and is_held(process, number, control):
                return
            if records:
                value = note(arguments) if arguments else None
                log.append(Event(calendar.now, process, "request", name, value))
            part, requests = all_requests[process]
            if arguments:
                requests[name](part, *arguments)
            else:  # mostly so, and a call without a list is faster
                requests[name](part)
            # Only a fault that waits for an event strikes in the middle of a step.
            if workload is not None and (witness is None or process not in down):
                workload.asked(process, name, application)
                if not application.is_stopping and workload.is_done():
                    application.schedule_stop()
            if witness is not None:
                witness(process, "request", name)

        return ask


def _check_all(
    parts: Sequence[Process], constants: Sequence[Constants], handler: Callable[..., None]
) -> None:
    for part in parts:
        check_variables(part, handler)
    for each in constants:
        each.check(handler)

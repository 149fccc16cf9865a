"""Fault injection: crashes, recoveries, pauses, cuts and slow links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from habemus.core.events import Event, note
from habemus.core.node import PureNode, State
from habemus.core.process import ProcessId
from habemus.core.replacement import replace_memory
from habemus.core.stable import Stable
from habemus.core.words import counted
from habemus.runtimes.sim.application import Application
from habemus.runtimes.sim.calendar import CONTROL, Queued
from habemus.runtimes.sim.faults import (
    Crash,
    Cut,
    Fault,
    Heal,
    Nth,
    Pause,
    Recover,
    Replace,
    Skew,
    Slow,
)
from habemus.runtimes.sim.processing import ProcessingQueues, message_in
from habemus.runtimes.sim.recorder import Dropped, Requeued
from habemus.runtimes.sim.sending import MessageTransport
from habemus.runtimes.sim.stepping import HandlerTable, Stepper


class Strike(NamedTuple):
    """Control: a fault strikes."""

    fault: Fault


class Resume(NamedTuple):
    """Control: the pause of a process is over."""

    process: ProcessId
    backlog: list[tuple[int, int, Any]]  # of that pause: a crash may have ended it


class FaultInjector:
    """The faults of a run: those at a time, and those at the k-th event of a process."""

    def __init__(
        self,
        faults: Sequence[Fault],
        stepper: Stepper,
        transport: MessageTransport,
        application: Application,
        *,
        records_messages: bool,
        queues: ProcessingQueues | None = None,
    ) -> None:
        timed = [fault for fault in faults if not isinstance(fault, Skew)]
        self._timed = [fault for fault in timed if isinstance(fault.when, int)]
        self._watched = [(fault, fault.when) for fault in timed if isinstance(fault.when, Nth)]
        self._seen: Counter[tuple[ProcessId, str]] = Counter()
        self._lives: Counter[ProcessId] = Counter()  # how often each process was replaced
        self._came: set[int] = set()  # ids of the faults whose moment came
        self._struck: set[int] = set()  # of those, the ones that changed anything
        self._stepper = stepper
        self._calendar = stepper.calendar
        self._transport = transport
        self._application = application
        self._records_messages = records_messages
        self._queues = queues

    @property
    def watches(self) -> bool:
        """Whether a fault waits for the k-th event of a process."""
        return bool(self._watched)

    def schedule(self) -> None:
        for fault in self._timed:
            assert isinstance(fault.when, int)
            if isinstance(fault, Replace):
                self._calendar.schedule_last(fault.when, Strike(fault))
            else:
                self._calendar.schedule(fault.when, Strike(fault))

    def clear(self) -> None:
        for memory in (self._seen, self._lives, self._came, self._struck):
            memory.clear()

    def missed(self) -> list[tuple[Fault, str]]:
        """Return the faults that have not struck so far, each with the reason."""
        watched = [fault for fault, _ in self._watched]
        return [
            (fault, self._reason(fault))
            for fault in (*self._timed, *watched)
            if id(fault) not in self._struck
        ]

    def _reason(self, fault: Fault) -> str:
        if id(fault) in self._came:
            return _NO_EFFECT[type(fault)]
        when = fault.when if not isinstance(fault, Skew) else 0
        if isinstance(when, int):
            return "the run ended before"
        watched = getattr(fault, "process", None) if when.process is None else when.process
        counts = [
            count
            for (process, name), count in self._seen.items()
            if name == when.kind and watched in (None, process)
        ]
        times = max(counts, default=0)
        who = "any process" if watched is None else f"process {watched}"
        return f"{when.kind} happened {counted(times, 'time')} at {who}"

    def recoveries_are_due(self) -> bool:
        return any(
            isinstance(fault, Recover | Replace)
            and isinstance(fault.when, int)
            and fault.when >= self._calendar.now
            and fault.process in self._stepper.down
            for fault in self._timed
        )

    def witness(self, process: ProcessId, *names: str) -> None:
        """Count an event under each of its names, and inflict the faults that wait for it."""
        for name in names:
            self._seen[process, name] += 1
            for fault, when in self._watched:
                watched = when.process
                if watched is None:
                    watched = getattr(fault, "process", process)
                if (when.kind, watched) == (name, process) and when.count == self._seen[
                    process, name
                ]:
                    self.inflict(fault)

    def strike(self, _: None, __: int, control: Strike) -> None:
        self.inflict(control.fault)

    def inflict(self, fault: Fault) -> None:
        """Inflict a fault now."""
        self._came.add(id(fault))
        if self._inflict(fault):
            self._struck.add(id(fault))

    def inflict_now(self, fault: Fault) -> str:
        """Inflict a fault that was not planned; return why it changed nothing, or nothing."""
        return "" if self._inflict(fault) else _NO_EFFECT[type(fault)]

    def _inflict(self, fault: Fault) -> bool:
        """Return whether the fault changed anything."""
        match fault:
            case Crash(process):
                return self._crash(process)
            case Recover(process, _, amnesia):
                return self._recover(process, amnesia)
            case Replace(process):
                return self._replace(process)
            case Pause(process, _, duration):
                return self._pause(process, duration)
            case Cut(links):
                is_new = not self._transport.cuts.issuperset(links)
                self._transport.cuts.update(links)
                for link in links:
                    self._note_link(link, "cut")
                return is_new
            case Heal(links):
                cuts = self._transport.cuts
                healed = sorted(cuts) if not links else [link for link in links if link in cuts]
                cuts.difference_update(healed)
                for link in healed:
                    self._note_link(link, "heal")
                return bool(healed)
            case Slow(links, _, delay):
                for link in links:
                    self._transport.samplers[link] = delay.sampler(self._calendar.bits)
                    self._note_link(link, "slow", note(delay.mean))
                return bool(links)
            case Skew():
                return True

    def _note(self, process: ProcessId, kind: str, value: Any = None) -> None:
        if self._stepper.records:
            self._stepper.log.append(Event(self._calendar.now, process, kind, "", value))

    def _note_link(self, link: tuple[ProcessId, ProcessId], kind: str, value: Any = None) -> None:
        if self._stepper.records:
            one, other = link
            self._stepper.log.append(Event(self._calendar.now, one, kind, "", value, other))

    def _crash(self, process: ProcessId) -> bool:
        stepper = self._stepper
        if process in stepper.down:
            return False
        parts = stepper.processes[process]
        captured = tuple(type(part).__capture__(part) for part in parts)
        stepper.down[process] = stepper.stacks[process].forget(captured)
        held = stepper.paused.pop(process, [])
        stepper.abandon_step(process)
        addresses = [stepper.address(process, port) for port in range(len(parts))]
        for address, part in zip(addresses, parts, strict=True):
            stepper.targets[address] = (_DROP, part)
        for key in [key for key in stepper.timers if key[0] in addresses]:
            del stepper.timers[key]
        if self._queues is not None:
            self._record_as_lost(self._queues.crashed(process))
        self._note(process, "crash")
        for each in held:
            self._record_taken(*each)
        self._application.crashed(process)
        return True

    def put_down(self, process: ProcessId, state: State) -> None:
        """Let a process be down from the beginning; `state` is what it recovers with."""
        stepper = self._stepper
        stepper.down[process] = state
        for port, part in enumerate(stepper.processes[process]):
            stepper.targets[stepper.address(process, port)] = (_DROP, part)

    def _recover(self, process: ProcessId, amnesia: bool) -> bool:
        stepper = self._stepper
        if process not in stepper.down:
            return False
        remembered = stepper.down.pop(process)
        state = stepper.stacks[process].initial if amnesia else remembered
        self._resurrect(process, state, note("amnesia") if amnesia else None)
        return True

    def _resurrect(self, process: ProcessId, state: State, how: Any) -> None:
        stepper = self._stepper
        for part, values in zip(stepper.processes[process], state, strict=True):
            type(part).__restore__(part, values)
        stepper.attach(process)
        self._note(process, "recover", how)
        stepper.begin(process, "on_recover")
        self._application.recovered(process)

    def _replace(self, process: ProcessId) -> bool:
        """Let a process recover whose memory is lost, with what all others know."""
        stepper = self._stepper
        others = [each for each in stepper.processes if each != process]
        is_cut = any(process in link for link in self._transport.cuts)
        if not others or is_cut or stepper.down.keys() != {process} or stepper.paused:
            return False
        self._drop_messages_from(process)
        self._lives[process] += 1
        life = 1 + self._lives[process]
        replaced = self._made(process)
        replace_memory(replaced, [self._remembered(each) for each in others], life)
        del stepper.down[process]
        stored = Stable(stepper.stacks[process]).plain(replaced.parts)
        self._resurrect(process, replaced.capture(), {**note("replaced"), "stored": stored})
        return True

    def _remembered(self, process: ProcessId) -> PureNode:
        """Return a copy of a process that has its durable variables and nothing else."""
        parts = self._stepper.processes[process]
        captured = tuple(type(part).__capture__(part) for part in parts)
        copy = self._made(process)
        copy.restore(self._stepper.stacks[process].forget(captured))
        return copy

    def _made(self, process: ProcessId) -> PureNode:
        stepper = self._stepper
        peers = stepper.processes[process][0].peers
        return PureNode(stepper.stacks[process], process, peers, lambda options: options[0])

    def _drop_messages_from(self, process: ProcessId) -> None:
        """Lose what the former life has sent: the others close its connections first."""
        for moment in sorted(self._calendar.buckets):
            for event in list(self._calendar.buckets[moment]):
                message = message_in(event)
                if message and message[2] == process:
                    self._calendar.remove(moment, event)
                    self._record_as_lost([message])

    def _record_as_lost(self, messages: Sequence[Queued]) -> None:
        if self._records_messages:
            self._stepper.log.extend(map(Dropped, messages))

    def _pause(self, process: ProcessId, duration: int) -> bool:
        stepper = self._stepper
        if process in stepper.paused or process in stepper.down:
            return False
        backlog = stepper.paused[process] = []
        for port, part in enumerate(stepper.processes[process]):
            address = stepper.address(process, port)
            stepper.targets[address] = (_Hold(address, backlog), part)
        self._note(process, "pause")
        self._calendar.schedule_first(duration, Resume(process, backlog))
        return True

    def ends_pause(self, control: Resume) -> bool:
        """Return whether the pause still lasts: a crash ends it, and another one may follow."""
        return self._stepper.paused.get(control.process) is control.backlog

    def resume(self, _: None, __: int, control: Resume) -> None:
        stepper, process = self._stepper, control.process
        if not self.ends_pause(control):
            return
        waiting = stepper.paused.pop(process)
        self._note(process, "resume")
        stepper.attach(process)
        # In order and before anything else of this instant, so that FIFO links stay FIFO.
        for address, sender, message in waiting:
            self._record_taken(address, sender, message)
            if process not in stepper.down:
                table, part = stepper.targets[address]
                table[type(message)](part, sender, message)

    def _record_taken(self, address: int, sender: ProcessId, message: Any) -> None:
        """Record the end of the wait of an event: it is received or, by a crashed process, lost."""
        if self._records_messages and address != CONTROL:
            event = (0, address, sender, message)
            self._stepper.log.append(Requeued(event))
            self._stepper.log.append(event)


_NO_EFFECT: dict[type, str] = {
    Crash: "the process was down already",
    Recover: "the process was not down",
    Replace: "the process was not down, or not all others were up and connected with it",
    Pause: "the process was down or paused already",
    Cut: "the links were cut already",
    Heal: "the links were not cut",
}
"""Why a fault whose moment came changed nothing."""


class _Drop(HandlerTable):
    """The handler table of a crashed process, which drops every event."""

    def __missing__(self, kind: type) -> Callable[..., None]:
        return lambda *_: None


_DROP = _Drop()


class _Hold(HandlerTable):
    """The handler table of a paused process, which keeps every event for later."""

    def __init__(self, address: int, backlog: list[tuple[int, int, Any]]) -> None:
        super().__init__()
        self._keep = lambda _, sender, message: backlog.append((address, sender, message))

    def __missing__(self, kind: type) -> Callable[..., None]:
        return self._keep

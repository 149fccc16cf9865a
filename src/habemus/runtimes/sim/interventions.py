"""Interventions: what is done to a run by hand, after a given number of deliveries.

An intervention keeps everything before it exactly as it was: it draws nothing from the random
source of the run, except for `Luck`, which gives the run another one from here on.  So a run and
its fork share their past.

Messages, timers and requests are named by the text that schedules and pictures have for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from habemus.core.events import notation_of
from habemus.core.process import ProcessId
from habemus.core.shapes import plain_of
from habemus.runtimes.sim.application import Application, AskIf
from habemus.runtimes.sim.calendar import CONTROL, TIE, Calendar, Queued
from habemus.runtimes.sim.faults import Crash, Cut, Fault, Heal, Pause, Recover, Replace, Slow
from habemus.runtimes.sim.injection import FaultInjector, Resume, Strike
from habemus.runtimes.sim.processing import Arrive, message_in
from habemus.runtimes.sim.recorder import Dropped, Twice
from habemus.runtimes.sim.sending import MessageTransport
from habemus.runtimes.sim.stepping import Fire, Stepper


@dataclass(frozen=True)
class _UnderWay:
    """A message that is under way."""

    process: ProcessId
    sender: ProcessId
    message: str
    part: str = ""
    ordinal: int = 1  # of several equal ones, in the order in which they would arrive


class Deliver(_UnderWay):
    """Deliver a message that is under way, now."""


@dataclass(frozen=True)
class Expire:
    """Let a timer expire now."""

    process: ProcessId
    timer: str
    part: str = ""


@dataclass(frozen=True)
class MakeRequest:
    """Let the application make a request now that it would make later."""

    process: ProcessId
    request: str


class Lose(_UnderWay):
    """Lose a message that is under way."""


class Duplicate(_UnderWay):
    """Let a message that is under way arrive twice, the copy right after it."""


@dataclass(frozen=True)
class Postpone:
    """Let a message that is under way arrive later."""

    process: ProcessId
    sender: ProcessId
    message: str
    by: int
    part: str = ""
    ordinal: int = 1


@dataclass(frozen=True)
class Luck:
    """Give the run other random numbers from here on."""

    number: int


Choice: TypeAlias = Deliver | Expire | MakeRequest
"""An intervention that makes one of the pending events the next one."""

Intervention: TypeAlias = Choice | Lose | Duplicate | Postpone | Luck | Fault


class Pending(NamedTuple):
    """An event that is still to come."""

    kind: str  # message, timer, request, fault
    time: int  # when it comes, unless something intervenes
    process: ProcessId
    sender: ProcessId | None
    text: str
    part: str
    ordinal: int
    obstacle: str  # why it cannot be the next event; empty if it can
    event: Queued

    def choice(self) -> Choice | None:
        """Return the intervention that makes it the next event, if there is one."""
        if self.obstacle or self.kind == "fault":
            return None
        if self.kind == "timer":
            return Expire(self.process, self.text, self.part)
        if self.kind == "request":
            return MakeRequest(self.process, self.text)
        assert self.sender is not None
        return Deliver(self.process, self.sender, self.text, self.part, self.ordinal)


class Intervening:
    """The interventions of a run: applies them and knows which had no effect."""

    def __init__(
        self,
        planned: Sequence[tuple[int, Intervention]],
        stepper: Stepper,
        transport: MessageTransport,
        application: Application,
        injector: FaultInjector,
        paths: Sequence[str],
        *,
        fifo: bool,
    ) -> None:
        self._planned = sorted(planned, key=lambda each: each[0])
        self._stepper = stepper
        self._calendar: Calendar = stepper.calendar
        self._transport = transport
        self._application = application
        self._injector = injector
        self._paths = paths
        self._fifo = fifo
        self.done = 0  # interventions whose moment came
        self.failures: dict[int, str] = {}  # position among the planned ones -> reason

    @property
    def next(self) -> int | None:
        """Number of deliveries before the next intervention; None if there is none."""
        return self._planned[self.done][0] if self.done < len(self._planned) else None

    def clear(self) -> None:
        self.done = 0
        self.failures.clear()

    def apply_next(
        self,
        delivered: int,
        deliver_first: Callable[[int, Queued], None],
        reseed: Callable[[int], None],
    ) -> None:
        """Make the next intervention, whose moment has come."""
        position = self.done
        self.done += 1
        anchor, intervention = self._planned[position]
        if anchor < delivered:  # one with the same anchor has made a delivery
            failure = f"an earlier intervention made delivery {delivered}"
        else:
            failure = self.apply(intervention, deliver_first, reseed)
        if failure:
            self.failures[position] = failure

    def missed(self, delivered: int) -> list[tuple[Intervention, str]]:
        """Return the interventions that have not taken place so far, each with the reason."""
        late = f"the run ended after {delivered} deliveries"
        return [
            (intervention, self.failures.get(position, late))
            for position, (_, intervention) in enumerate(self._planned)
            if position >= self.done or position in self.failures
        ]

    def apply(
        self,
        intervention: Intervention,
        deliver_first: Callable[[int, Queued], None],
        reseed: Callable[[int], None],
    ) -> str:
        """Intervene now; return the reason why it cannot be done, or nothing."""
        match intervention:
            case Luck(number):
                reseed(number)
                return ""
            case Crash() | Recover() | Replace() | Pause() | Cut() | Heal() | Slow():
                return self._injector.inflict_now(intervention)
            case Deliver() | Expire() | MakeRequest():
                found, failure = self._found(intervention)
                if found is not None:
                    deliver_first(found.time, found.event)
                return failure
            case Lose() | Duplicate() | Postpone():
                return self._change(intervention)
        return "it cannot be done by hand"

    def _change(self, intervention: Lose | Duplicate | Postpone) -> str:
        found, failure = self._found(intervention)
        if found is None:
            return failure
        message = message_in(found.event)
        assert message is not None
        if isinstance(intervention, Lose):
            self._remove(found)
            if self._transport.records:
                self._stepper.log.append(Dropped(message))
        elif isinstance(intervention, Duplicate):
            copy = (1 << TIE, *message[1:])  # the last one of its instant
            self._calendar.enter(found.time, self._entering(found.event, copy))
            if self._transport.records:
                self._stepper.log.append(Twice(message, copy))
        elif self._fifo:
            return "links keep the order of messages; slow the link instead"
        else:
            self._remove(found)
            self._calendar.enter(found.time + intervention.by, found.event)
        return ""

    def _entering(self, like: Queued, message: Queued) -> Queued:
        """Return a message as a pending event of the same kind as another one."""
        if like[1] != CONTROL:
            return message
        self._calendar.sequence += 1
        return (1 << TIE, CONTROL, self._calendar.sequence, Arrive(message))

    def _remove(self, pending: Pending) -> None:
        self._calendar.remove(pending.time, pending.event)

    def _found(self, wanted: Choice | Lose | Duplicate | Postpone) -> tuple[Pending | None, str]:
        """Return the pending event that an intervention names, or the reason why there is none."""
        is_choice = isinstance(wanted, Choice)
        like = [each for each in self.pending() if _is_named_by(each, wanted)]
        ordinal = getattr(wanted, "ordinal", 1)
        if len(like) >= ordinal:
            found = like[ordinal - 1]
            return (None, found.obstacle) if is_choice and found.obstacle else (found, "")
        if isinstance(wanted, Expire):
            return None, f"process {wanted.process} has set no such timer"
        if isinstance(wanted, MakeRequest):
            return None, f"the application of {wanted.process} has no such request to make"
        count = f"only {len(like)} such messages are" if like else "no such message is"
        return None, f"{count} under way"

    # Pending events.

    def pending(self) -> list[Pending]:
        """Return the events that are still to come, in their order."""
        found: list[Pending] = []
        ordinals: Counter[tuple[Any, ...]] = Counter()
        links: set[tuple[ProcessId, int]] = set()
        for moment in sorted(self._calendar.buckets):
            for event in sorted(self._calendar.buckets[moment], key=lambda each: each[:3]):
                each = self._pending_event(moment, event, links)
                if each is not None:
                    key = (each.kind, each.process, each.sender, each.part, each.text)
                    ordinals[key] += 1
                    found.append(each._replace(ordinal=ordinals[key]))
        return found

    def _pending_event(
        self, moment: int, event: Queued, links: set[tuple[ProcessId, int]]
    ) -> Pending | None:
        message = message_in(event)
        if message is not None:
            _, address, sender, value = message
            process, port = divmod(address, len(self._paths))
            obstacle = self._obstacle(process)
            if self._fifo and (sender, address) in links:
                obstacle = "an earlier message of the same link comes first"
            links.add((sender, address))
            text = notation_of(type(value).__name__, value)
            path = self._paths[port]
            return Pending("message", moment, process, sender, text, path, 1, obstacle, event)
        control = event[3]
        if isinstance(control, Fire):
            return self._pending_timer(moment, event, control)
        if isinstance(control, AskIf):
            if not control.is_due():
                return None
            control = control.ask
        if type(control) is tuple:
            process, name, arguments, life = control
            if process in self._stepper.down or life not in (
                None,
                self._application.lives[process],
            ):
                return None
            text = notation_of(name, {str(i): plain_of(each) for i, each in enumerate(arguments)})
            obstacle = self._obstacle(process)
            return Pending("request", moment, process, None, text, "", 1, obstacle, event)
        if isinstance(control, Resume) and not self._injector.ends_pause(control):
            return None  # a crash ended it
        if isinstance(control, Strike | Resume):
            process = getattr(getattr(control, "fault", control), "process", -1)
            text = type(getattr(control, "fault", control)).__name__.lower()
            obstacle = "it comes at its time"
            return Pending("fault", moment, process, None, text, "", 1, obstacle, event)
        return None

    def _pending_timer(self, moment: int, event: Queued, control: Fire) -> Pending | None:
        if self._stepper.timers.get(control) != event[2]:
            return None  # it was cancelled or set again
        process, port = divmod(control.address, len(self._paths))
        text = notation_of(type(control.timer).__name__, control.timer)
        obstacle = self._obstacle(process)
        path = self._paths[port]
        return Pending("timer", moment, process, None, text, path, 1, obstacle, event)

    def _obstacle(self, process: ProcessId) -> str:
        if process in self._stepper.down:
            return f"process {process} is down"
        return f"process {process} is paused" if process in self._stepper.paused else ""


def _is_named_by(pending: Pending, wanted: Choice | Lose | Duplicate | Postpone) -> bool:
    if isinstance(wanted, Expire):
        return (pending.kind, pending.process, pending.text, pending.part) == (
            "timer",
            wanted.process,
            wanted.timer,
            wanted.part,
        )
    if isinstance(wanted, MakeRequest):
        return (pending.kind, pending.process, pending.text) == (
            "request",
            wanted.process,
            wanted.request,
        )
    return (
        pending.kind,
        pending.process,
        pending.sender,
        pending.text,
        pending.part,
    ) == ("message", wanted.process, wanted.sender, wanted.message, wanted.part)


def processes_named(intervention: Intervention) -> list[ProcessId]:
    """Return the processes that an intervention names, so that unknown ones can be refused."""
    if isinstance(intervention, Luck):
        return []
    if isinstance(intervention, Cut | Heal | Slow):
        return [process for link in intervention.links for process in link]
    named = [intervention.process]
    sender = getattr(intervention, "sender", None)
    return named if sender is None else [*named, sender]

"""Play of a schedule by the bare processes of an algorithm, and the judgement of it.

The events are those of the checker's counterexample, with the same numbers, times and vector
clocks, if the algorithm is unchanged.  If a step of the schedule is no longer possible, the play
ends there: the algorithm has *diverged* from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from habemus.catalog.entries import Entry, find
from habemus.core.events import Event, notation_of, note
from habemus.core.mistakes import awaited_by
from habemus.core.model import ExternalEvent, PossibleRequest
from habemus.core.node import (
    Broadcast,
    CancelTimer,
    Chosen,
    Effect,
    Indicate,
    PureNode,
    Send,
    SetTimer,
    Stack,
)
from habemus.core.process import MistakeInAlgorithm, ProcessId
from habemus.core.properties import Finding
from habemus.core.shapes import plain_of
from habemus.core.values import Message, Timer
from habemus.runs.agreement import confirmed
from habemus.runs.author_errors import attribute_to_algorithm
from habemus.runs.check import Check
from habemus.runtimes.checker.counterexample import STEP_US
from habemus.runtimes.sim.network import Network
from habemus.schedules.schedule import Step, asked, drawn

REQUESTS_EACH = 8
"""Bits for the requests of one process, where causality is tracked."""
MOST_CHOICES = 50
"""Sequences of random values with which one step is listed."""


@dataclass(frozen=True)
class Played:
    """The result of playing a schedule.

    events: the events of the run.
    violated: the violated properties, each with the reason.
    steps: the number of steps that were possible.
    diverged: the step that was not possible, and why; empty if all were.
    at_rest: whether no process has to act after the last step.
    """

    events: tuple[Event, ...]
    violated: Mapping[str, str]
    steps: int
    diverged: str = ""
    at_rest: bool = False


class Diverged(Exception):
    """The algorithm, as it is now, cannot make a step."""


class ChoiceNeeded(Diverged):
    """A step draws a value, and nothing tells which."""

    def __init__(self, options: Sequence[Any]) -> None:
        super().__init__("something is drawn that the schedule does not say")
        self.options = options


class Parcel(NamedTuple):
    number: int
    sender: ProcessId
    to: ProcessId
    port: int
    message: Message
    known: int  # the requests that happened before it was sent


def played(
    check: Check, steps: Sequence[Step], *, loop: int | None = None, entry: Entry | None = None
) -> Played:
    """Play the steps.  With `loop`, the steps after so many are one round of an endless loop."""
    entry = check.judged(entry or find(check.algorithm))
    stage = Stage(check, entry)
    starts, following = (
        [step for step in steps if (step.kind == "start") is is_start] for is_start in (True, False)
    )
    diverged = ""
    made = 0
    round_: _LoopRound | None = None
    with attribute_to_algorithm():
        try:
            stage.start(starts)
            for step in following:
                if made == loop:
                    round_ = _LoopRound(stage)
                stage.make(step)
                made += 1
                if round_ is not None:
                    round_.look()
        except Diverged as reason:
            diverged = (
                f"step {made + 1}, {following[made]}: {reason}"
                if stage.started
                else f"the start: {reason}"
            )
    at_rest = not diverged and stage.is_at_rest()
    wrong = [*stage.wrong, *(stage.observer.at_rest(stage.knowledge) if at_rest else ())]
    judged = stage.judged("quiescent" if at_rest else "events")
    violated = {name: confirmed(name, "the observer", judged).why for name in wrong}
    if round_ is not None and not diverged:
        violated |= round_.violated()
    return Played(tuple(stage.events), violated, made, diverged, at_rest)


@dataclass
class Stage:
    """All processes, the messages in transit, and the observer."""

    check: Check
    entry: Entry
    events: list[Event] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)  # the violated properties
    recent: list[ExternalEvent] = field(default_factory=list)  # of the last step
    started: bool = False
    _now: int = 0
    _number: int = 0
    _script: list[str] = field(default_factory=list)  # the choices of the present step

    def __post_init__(self) -> None:
        self.system = self.check.system(self.entry)
        self.bound = self.check.bound(self.entry)
        self.uses, self.observer = self.check.model(self.entry, self.system)
        self.knowledge = self.observer.first()
        processes = list(self.system.plans)
        self.nodes = {
            me: PureNode(Stack(plan), me, self.system.topology.neighbours[me], self._choose)
            for me, plan in self.system.plans.items()
        }
        self.up = set(processes)
        self.timers: dict[ProcessId, set[tuple[int, Timer]]] = {me: set() for me in processes}
        self.under_way: list[Parcel] = []
        self.visits = {me: self.uses[me].first() for me in self.system.clients}
        self.known = dict.fromkeys(processes, 0)
        self.requests = dict.fromkeys(processes, 0)
        self._places = {me: place for place, me in enumerate(processes)}
        self._clocks = {me: [0] * len(processes) for me in processes}
        self._stamps: dict[int, list[int]] = {}

    # Steps.

    def start(self, steps: Sequence[Step]) -> None:
        choices = {step.process: step.choices for step in steps}
        for me, node in self.nodes.items():
            self._tell(Event(0, me, "start"))
            self._script = list(choices.get(me, ()))
            self._carry_out(me, node.start(), None)
        self.started = True

    def make(self, step: Step) -> None:
        self._now += STEP_US
        self.recent = []
        if step.kind == "pass":
            return
        me = step.process
        if me not in self.nodes:
            raise Diverged(f"there is no process {me}")
        if (me in self.up) == (
            step.kind in ("vanish", "recover", "amnesia")
        ) and step.kind != "lose":
            raise Diverged(f"{me} is {'up' if me in self.up else 'down'}")
        self._script = list(step.choices)
        effects = self._begin(step, me)()
        if self._script:
            raise Diverged(f"{me} does not choose any more")
        self._carry_out(me, effects, step.torn)
        if step.torn is not None or step.kind == "crash":
            self._crash(me)

    def _begin(self, step: Step, me: ProcessId) -> Callable[[], list[Effect]]:
        """Record the beginning of a step; return the function that makes it."""
        node = self.nodes[me]
        match step.kind:
            case "request":
                asking = self._asking(step)
                self._request(me, asking)
                return lambda: node.request(asking.name, *asking.arguments)
            case "receive" | "copy" | "lose" | "vanish":
                parcel = self._parcel(step)
                if step.kind != "copy":
                    self.under_way.remove(parcel)
                if not self._move(step.kind, parcel):
                    return list
                return lambda: node.deliver(parcel.port, parcel.sender, parcel.message)
            case "timer":
                port, timer = self._timer(step)
                self.timers[me].discard((port, timer))
                self._tell(
                    Event(
                        self._now,
                        me,
                        "timer",
                        type(timer).__name__,
                        timer,
                        part=self._path(me, port),
                    )
                )
                return lambda: node.fire(port, timer)
            case "recover" | "amnesia":
                return self._return(me, step.kind == "amnesia")
        return list

    # Possible steps.

    def possible(self) -> list[Step]:
        """Return the steps that can come next, without faults; random ones with each choice."""
        found: dict[Step, None] = {}
        for me in self.nodes:
            is_up = me in self.up
            for parcel in self._arriving(me):
                text = notation_of(type(parcel.message).__name__, parcel.message)
                kind = "receive" if is_up else "vanish"
                part = self._path(me, parcel.port)
                found[Step(kind, me, text, parcel.sender, part)] = None
            if not is_up:
                continue
            if me in self.visits:
                for asking in self.uses[me].choices(self.visits[me]):
                    text = asked(asking.name, plain_of(tuple(asking.arguments)))
                    found[Step("request", me, text)] = None
            for port, timer in sorted(self.timers[me]):
                text = notation_of(type(timer).__name__, timer)
                found[Step("timer", me, text, part=self._path(me, port))] = None
        return [each for step in found for each in self._with_choices(step)]

    def _with_choices(self, step: Step) -> list[Step]:
        """Return the step once for each sequence of values that it can draw."""
        node = self.nodes[step.process]
        before = node.capture()
        pending: list[tuple[str, ...]] = [()]
        found: list[Step] = []
        while pending and len(found) < MOST_CHOICES:
            choices = pending.pop(0)
            self._script = list(choices)
            try:
                self._tried(step)
                found.append(step._replace(choices=choices))
            except ChoiceNeeded as needed:
                pending += [(*choices, drawn(plain_of(option))) for option in needed.options]
            finally:
                node.restore(before)
        return found

    def _tried(self, step: Step) -> None:
        """Let a process make a step without consequences."""
        node = self.nodes[step.process]
        match step.kind:
            case "request":
                asking = self._asking(step)
                node.request(asking.name, *asking.arguments)
            case "receive":
                parcel = self._parcel(step)
                node.deliver(parcel.port, parcel.sender, parcel.message)
            case "timer":
                node.fire(*self._timer(step))

    def _arriving(self, process: ProcessId) -> list[Parcel]:
        """Return the messages of which one can arrive next at a process."""
        first_of: set[ProcessId] = set()
        found = []
        for parcel in self.under_way:
            if parcel.to == process and not (self.bound.fifo and parcel.sender in first_of):
                first_of.add(parcel.sender)
                found.append(parcel)
        return found

    def _asking(self, step: Step) -> PossibleRequest:
        possible = (
            self.uses[step.process].choices(self.visits[step.process])
            if step.process in self.visits
            else []
        )
        for asking in possible:
            if asked(asking.name, plain_of(tuple(asking.arguments))) == step.what:
                return asking
        raise Diverged(
            "its application"
            f" {_may(asked(each.name, plain_of(tuple(each.arguments))) for each in possible)}"
        )

    def _request(self, me: ProcessId, asking: PossibleRequest) -> None:
        name, arguments = asking.name, asking.arguments
        self._tell(Event(self._now, me, "request", name, note(arguments) if arguments else None))
        self.visits[me] = self.uses[me].asked(self.visits[me], asking)
        own = before = 0
        if self.bound.order and asking.is_ordered:
            own, before = (
                1 << (self._places[me] * REQUESTS_EACH + self.requests[me]),
                self.known[me],
            )
            self.known[me] |= own
            self.requests[me] += 1
        self._see(ExternalEvent("request", me, name, arguments or None, own, before))

    def _parcel(self, step: Step) -> Parcel:
        possible = self._arriving(step.process)
        equal = [
            parcel
            for parcel in possible
            if (parcel.sender, self._path(parcel.to, parcel.port)) == (step.peer, step.part)
            and notation_of(type(parcel.message).__name__, parcel.message) == step.what
        ]
        if equal:
            return equal[min(step.nth, len(equal)) - 1]
        coming = [
            f"{notation_of(type(each.message).__name__, each.message)} from {each.sender}"
            for each in possible
        ]
        raise Diverged(
            f"no such message is under way to it, only {', '.join(coming)}"
            if coming
            else "nothing is under way to it"
        )

    def _move(self, kind: str, parcel: Parcel) -> bool:
        """Record the fate of a message; return whether it is received."""
        number, sender, to, port, message, known = parcel
        event = Event(
            self._now,
            to,
            "lost",
            type(message).__name__,
            message,
            sender,
            number,
            self._path(to, port),
        )
        if kind == "lose":
            self.events.append(event._replace(process=sender, peer=to))
        elif kind == "vanish":
            self.events.append(event)
        if kind == "copy":
            self.events.append(event._replace(kind="duplicate", process=sender, peer=to))
        if kind in ("lose", "vanish"):
            return False
        self.known[to] |= known
        self._clocks[to][:] = map(max, self._clocks[to], self._stamps[number])
        self._tell(event._replace(kind="receive"))
        return True

    def _timer(self, step: Step) -> tuple[int, Timer]:
        for port, timer in sorted(self.timers[step.process]):
            if (self._path(step.process, port), notation_of(type(timer).__name__, timer)) == (
                step.part,
                step.what,
            ):
                return port, timer
        set_now = sorted(
            notation_of(type(timer).__name__, timer) for _, timer in self.timers[step.process]
        )
        raise Diverged(
            f"no such timer is set, only {', '.join(set_now)}" if set_now else "no timer is set"
        )

    def _return(self, me: ProcessId, amnesia: bool) -> Callable[[], list[Effect]]:
        node = self.nodes[me]
        self.up.add(me)
        self._tell(Event(self._now, me, "recover", value=note("amnesia") if amnesia else None))
        self._see(ExternalEvent("recover", me))
        if amnesia:
            node.restore(node.stack.initial)
        return node.recover

    def _crash(self, me: ProcessId) -> None:
        node = self.nodes[me]
        node.restore(node.stack.forget(node.capture()))
        self.up.discard(me)
        self.timers[me].clear()
        if me in self.visits:
            self.visits[me] = self.uses[me].crashed(self.visits[me])
        self._tell(Event(self._now, me, "crash"))
        self._see(ExternalEvent("crash", me))

    def _choose(self, options: Sequence[Any]) -> Any:
        if not self._script:
            raise ChoiceNeeded(options)
        wanted = self._script.pop(0)
        for option in options:
            if drawn(plain_of(option)) == wanted:
                return option
        raise Diverged(f"{wanted} cannot be drawn any more")

    # Effects.

    def _carry_out(self, me: ProcessId, effects: Sequence[Effect], torn: int | None) -> None:
        for effect in effects:
            match effect:
                case Send(port, to, message):
                    torn = self._send(me, to, port, message, torn)
                case Broadcast(port, message):
                    for peer in self.system.topology.neighbours[me]:
                        torn = self._send(me, peer, port, message, torn)
                case SetTimer(port, timer, _):
                    self.timers[me].add((port, timer))
                case CancelTimer(port, timer):
                    self.timers[me].discard((port, timer))
                case Chosen(port, value):
                    self._tell(
                        Event(self._now, me, "choose", value=note(value), part=self._path(me, port))
                    )
                case Indicate(indication) if torn is None:
                    self._tell(
                        Event(self._now, me, "indicate", type(indication).__name__, indication)
                    )
                    if me in self.visits:
                        self.visits[me] = self.uses[me].indicated(self.visits[me], indication)
                    self._see(ExternalEvent("indicate", me, type(indication).__name__, indication))

    def _send(
        self, me: ProcessId, to: ProcessId, port: int, message: Message, torn: int | None
    ) -> int | None:
        """Send, unless the crash comes first; return how many messages may still be sent."""
        if torn == 0 and to != me:
            return 0
        if to not in self.nodes:
            raise MistakeInAlgorithm(
                f"{me} sends {message!r} to process {to}, which does not exist"
            )
        self._number += 1
        self._tell(
            Event(
                self._now,
                me,
                "send",
                type(message).__name__,
                message,
                to,
                self._number,
                self._path(me, port),
            )
        )
        self._stamps[self._number] = list(self._clocks[me])
        parcel = Parcel(self._number, me, to, port, message, self.known[me])
        if not (self.bound.merging and any(each[1:] == parcel[1:] for each in self.under_way)):
            self.under_way.append(parcel)
        return torn if torn is None or to == me else torn - 1

    def _tell(self, event: Event) -> None:
        clock = self._clocks[event.process]
        clock[self._places[event.process]] += 1
        self.events.append(event._replace(clock=tuple(clock)))

    def _see(self, seen: ExternalEvent) -> None:
        self.recent.append(seen)
        self.knowledge, names = self.observer.sees(self.knowledge, seen)
        self.wrong += names

    def _path(self, me: ProcessId, port: int) -> str:
        return self.nodes[me].stack.parts[port].path

    # The outcome.

    def is_at_rest(self) -> bool:
        """Return whether no process has to act any more."""
        reachable = set(self.nodes) if self.bound.can_return else self.up
        obliged = [
            me
            for me in self.visits
            if me in self.up
            and any(not each.voluntary for each in self.uses[me].choices(self.visits[me]))
        ]
        return not (
            obliged
            or any(self.timers.values())
            or any(parcel.to in reachable for parcel in self.under_way)
        )

    def state(self) -> Hashable:
        """Return the global state, on which all further steps depend."""
        links: dict[tuple[ProcessId, ProcessId], list[tuple[int, Message, int]]] = {}
        for parcel in self.under_way:
            links.setdefault((parcel.sender, parcel.to), []).append(
                (parcel.port, parcel.message, parcel.known)
            )
        inboxes = [
            (link, tuple(each) if self.bound.fifo else frozenset(Counter(each).items()))
            for link, each in sorted(links.items())
        ]
        timers = tuple(frozenset(each) for each in self.timers.values())
        nodes = tuple(node.capture() for node in self.nodes.values())
        return (
            nodes,
            tuple(inboxes),
            timers,
            frozenset(self.up),
            tuple(self.visits.values()),
            self.knowledge,
        )

    def judged(self, ending: str) -> Sequence[Finding]:
        """Return the findings of the monitors of the problem."""
        judge = self.entry.problem.judge(self.check.setup(), self.system, Network())
        for event in self.events:
            judge.observe(event)
        awaits = {me: awaited_by(node.parts[0]) for me, node in self.nodes.items() if me in self.up}
        return judge.findings(ending, awaits)


def _may(possible: Any) -> str:
    names = " or ".join(possible)
    return f"can only {names} now" if names else "asks for nothing now"


class _LoopRound:
    """One round of a loop: its first state, and the obligations that stayed unfulfilled."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.first = stage.state()
        self.unfulfilled = set(stage.observer.unfulfilled(stage.knowledge))

    def look(self) -> None:
        self.unfulfilled &= set(self.stage.observer.unfulfilled(self.stage.knowledge))
        progress = {
            name for seen in self.stage.recent for name in self.stage.observer.progress(seen)
        }
        self.unfulfilled = {
            (name, process) for name, process in self.unfulfilled if name not in progress
        }

    def violated(self) -> dict[str, str]:
        """Return the properties that the endless loop violates; none if its state has changed."""
        if self.stage.state() != self.first:
            return {}
        label = self.stage.system.label
        why = (
            "still loops: everything is as it was when the loop began, and {} never gets what it"
            " waits for"
        )
        return {
            name: why.format(label(process))
            for name, process in sorted(self.unfulfilled, reverse=True)
        }


__all__ = ["Diverged", "Played", "Stage", "played"]

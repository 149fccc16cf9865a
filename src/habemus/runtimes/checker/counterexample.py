"""Counterexamples as events, in the format of a recorded run, so that the same monitors judge them.

A search has no time.  Each step takes one millisecond, so that diagrams show the order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, Protocol

from habemus.core.events import Event, note
from habemus.core.mistakes import awaited_by
from habemus.core.node import Broadcast, Chosen, Effect, Indicate, PureNode, Send
from habemus.core.process import ProcessId
from habemus.core.system import System
from habemus.runtimes.checker.process_model import Bound, Label, PendingMessage, ProcessModel
from habemus.runtimes.checker.search import GlobalStep, Search

STEP_US = 1_000


class Story(NamedTuple):
    events: tuple[Event, ...]
    steps: int
    loop: int | None  # the time at which the infinite loop begins
    awaits: Mapping[ProcessId, Sequence[ProcessId]]  # at the end, of those that are up


class Graph(Protocol):
    """The states and steps of a search."""

    @property
    def models(self) -> list[ProcessModel]: ...

    @property
    def system(self) -> System: ...

    @property
    def bound(self) -> Bound: ...

    def unpacked(self, state: int) -> list[int]: ...

    def steps(self, state: int) -> Iterator[GlobalStep]: ...


class Continuation(NamedTuple):
    """The path of a run in another graph, where it goes on from the end of its path so far."""

    graph: Graph
    path: Sequence[int]


def step_between(search: Graph, state: int, target: int) -> GlobalStep:
    """Return the first step, in the order of the search, from one state to another."""
    for step in search.steps(state):
        if step.target == target:
            return step
    raise LookupError("no step leads from the one state to the other")


def story(
    search: Search,
    path: Sequence[int],
    loop: Sequence[int] = (),
    then: Continuation | None = None,
) -> Story:
    """Return the events along a path and its continuation, and then once round a loop.

    The loop begins and ends with the last state before it.
    """
    writer = _EventWriter(search, search)
    writer.start(path[0])
    last: Graph = search
    steps = 0
    for graph, states in ((search, path), *([then] if then else [])):
        writer.go_on_in(graph)
        last = graph
        for state, target in pairwise(states):
            writer.step(state, step_between(graph, state, target))
        steps += len(states) - 1
    at = STEP_US * (steps + 1) if loop else None
    for state, target in pairwise(loop):
        writer.step(state, step_between(last, state, target))
    steps += max(0, len(loop) - 1)
    end = loop[-1] if loop else (then.path if then else path)[-1]
    return Story(tuple(writer.events), steps, at, awaits(last, end))


def awaits(search: Graph, state: int) -> dict[ProcessId, list[ProcessId]]:
    """Return the processes for which each process that is up waits."""
    found: dict[ProcessId, list[ProcessId]] = {}
    for model, number in zip(search.models, search.unpacked(state), strict=False):
        if model.is_up(number):
            node = PureNode(model.stack, model.process, model.peers, lambda options: options[0])
            node.restore(model.state_of(number))
            found[model.process] = awaited_by(node.parts[0])
    return found


@dataclass
class _EventWriter:
    search: Search
    graph: Graph  # the one that the steps are of
    events: list[Event] = field(default_factory=list)
    _now: int = 0
    _number: int = 0
    # Number, receiver, message.
    _under_way: list[tuple[int, ProcessId, PendingMessage]] = field(default_factory=list)
    _clocks: dict[ProcessId, list[int]] = field(default_factory=dict)
    _stamps: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._clocks = {
            process: [0] * len(self.search.models)
            for process in self.search.system.topology.processes
        }

    def start(self, state: int) -> None:
        for place, (model, label) in enumerate(
            zip(self.search.models, self.search.start_labels(state), strict=True)
        ):
            self._tell(Event(0, model.process, "start"))
            self._carry_out(place, model.effects(None, label), None, 0)

    def go_on_in(self, graph: Graph) -> None:
        """Take the following steps from this graph."""
        self.graph = graph
        if not graph.bound.order:  # its messages do not carry which requests happened before them
            self._under_way = [
                (number, to, pending._replace(known=0)) for number, to, pending in self._under_way
            ]

    def step(self, state: int, step: GlobalStep) -> None:
        self._now += STEP_US
        if step.place < 0:
            return  # time passes, and no process moves
        model = self.graph.models[step.place]
        component = self.graph.unpacked(state)[step.place]
        label = step.label
        self._begin(model, label)
        known = model.known_of(self.graph.unpacked(step.target)[step.place])
        self._carry_out(step.place, model.effects(component, label), label.torn, known)
        if label.torn is not None:
            self._tell(Event(self._now, model.process, "crash"))

    def _begin(self, model: ProcessModel, label: Label) -> None:
        process, what = model.process, label.what
        match label.kind:
            case "request":
                self._tell(
                    Event(
                        self._now,
                        process,
                        "request",
                        what.name,
                        note(what.arguments) if what.arguments else None,
                    )
                )
            case "receive" | "copy" | "lose" | "vanish":
                number = self._taken(process, what, stays=label.kind == "copy")
                message = what.message
                event = Event(
                    self._now,
                    process,
                    "lost",
                    type(message).__name__,
                    message,
                    what.sender,
                    number,
                    model.paths()[what.port],
                )
                if label.kind == "lose":
                    self.events.append(event._replace(process=what.sender, peer=process))
                elif label.kind == "vanish":
                    self.events.append(event)
                else:
                    if label.kind == "copy":
                        self.events.append(
                            event._replace(kind="duplicate", process=what.sender, peer=process)
                        )
                    self._clocks[process][:] = map(max, self._clocks[process], self._stamps[number])
                    self._tell(event._replace(kind="receive"))
            case "timer":
                self._tell(
                    Event(
                        self._now,
                        process,
                        "timer",
                        type(what.timer).__name__,
                        what.timer,
                        part=model.paths()[what.port],
                    )
                )
            case "crash":
                self._tell(Event(self._now, process, "crash"))
            case "recover":
                self._tell(Event(self._now, process, "recover"))
            case "amnesia":
                self._tell(Event(self._now, process, "recover", value=note("amnesia")))

    def _carry_out(
        self, place: int, effects: Sequence[Effect], torn: int | None, known: int
    ) -> None:
        """Record the effects of a step.  `known`: the requests that happened before them."""
        model = self.graph.models[place]
        process, paths = model.process, model.paths()
        for effect in effects:
            match effect:
                case Send(port, to, message):
                    pending = PendingMessage(process, port, message, known)
                    torn = self._send(process, to, pending, paths[port], torn)
                case Broadcast(port, message):
                    for peer in model.peers:
                        pending = PendingMessage(process, port, message, known)
                        torn = self._send(process, peer, pending, paths[port], torn)
                case Chosen(port, value):
                    self._tell(
                        Event(self._now, process, "choose", value=note(value), part=paths[port])
                    )
                case Indicate(indication) if torn is None:
                    self._tell(
                        Event(self._now, process, "indicate", type(indication).__name__, indication)
                    )

    def _send(
        self,
        process: ProcessId,
        to: ProcessId,
        pending: PendingMessage,
        part: str,
        torn: int | None,
    ) -> int | None:
        """Record a send, unless the step is torn before it; return how many sends are left."""
        if torn == 0 and to != process:
            return 0
        self._number += 1
        message = pending.message
        self._tell(
            Event(
                self._now, process, "send", type(message).__name__, message, to, self._number, part
            )
        )
        self._stamps[self._number] = list(self._clocks[process])
        if not (self.search.bound.merging and self._find(to, pending) is not None):
            self._under_way.append((self._number, to, pending))
        return torn if torn is None or to == process else torn - 1

    def _find(self, process: ProcessId, pending: PendingMessage) -> int | None:
        for position, (_, to, each) in enumerate(self._under_way):
            if to == process and each == pending:
                return position
        return None

    def _taken(self, process: ProcessId, pending: PendingMessage, stays: bool) -> int:
        position = self._find(process, pending)
        assert position is not None, "a message is taken that was never sent"
        number = self._under_way[position][0]
        if not stays:
            del self._under_way[position]
        return number

    def _tell(self, event: Event) -> None:
        clock = self._clocks[event.process]
        clock[self.search.models[self._place(event.process)].places[event.process]] += 1
        self.events.append(event._replace(clock=tuple(clock)))

    def _place(self, process: ProcessId) -> int:
        return self.search.models[0].places[process]

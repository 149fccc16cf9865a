"""Replay: feed a recorded run to the pure processes, and compare their effects with the record.

A handler is a function of (state, event), so the same events must lead the same processes to the
same messages and indications, in whichever runtime the trace was recorded.  A difference means that
a handler depends on something else, that a runtime changed the meaning of the algorithm, or that
the trace was changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from habemus.core.events import Event
from habemus.core.node import Broadcast, Effect, Indicate, PureNode, Send, Stack, State
from habemus.core.process import ProcessId
from habemus.core.shapes import plain_of
from habemus.core.stable import Stable
from habemus.core.system import System
from habemus.core.values import Message, Timer, Value, canonical, from_plain, to_plain


class Divergence(AssertionError):
    """The pure process did not do what the trace contains."""


class Replay:
    """All nodes of a system, driven by a trace."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.observer: Callable[[Event, Sequence[Effect]], None] | None = None
        """Called with each step and its effects, in the order of the trace."""
        self._stacks = {process: Stack(plan) for process, plan in system.plans.items()}
        self._choices: dict[ProcessId, list[Any]] = {process: [] for process in system.plans}
        self.nodes = {process: self._node(process) for process in system.plans}
        self._ports = {
            part.path: part.port for stack in self._stacks.values() for part in stack.parts
        }

    def _node(self, process: ProcessId) -> PureNode:
        choices = self._choices[process]

        def choose(options: Sequence[Any]) -> Any:
            if not choices:
                raise Divergence(f"process {process} makes a choice that the trace does not have")
            chosen = choices.pop(0)
            for option in options:
                if plain_of(option) == chosen:
                    return option
            raise Divergence(f"process {process} chose {chosen!r}, which is not among the options")

        return PureNode(
            self._stacks[process], process, self.system.topology.neighbours[process], choose
        )

    def states(self, events: Iterable[Event]) -> Iterator[tuple[Event, State]]:
        """Yield each step of the trace with the state of its node after it.

        Raises `Divergence` where trace and processes differ.
        """
        for event, following, is_torn in _with_own_effects(list(events)):
            effects = self.step(event, following)
            if effects is None:
                continue
            if self.observer is not None:
                self.observer(event, effects)
            done = [text for effect in effects for text in self._described(event.process, effect)]
            recorded = [_recorded(each) for each in following if each.kind in ("send", "indicate")]
            if not _agree(done, recorded, is_torn=is_torn):
                step = (
                    f"at {event.time}, process {event.process} on {event.kind} {event.described()}"
                )
                raise Divergence(f"{step}: did {done}, the trace has {recorded}")
            yield event, self.nodes[event.process].capture()

    def step(self, event: Event, following: Sequence[Event]) -> list[Effect] | None:
        """Make the step that begins with an event; `following` has its random choices.

        Return its effects, or None if no step begins with such an event.
        """
        process = event.process
        node = self.nodes.get(process)
        if node is None:
            return None
        self._choices[process][:] = [
            each.fields()["value"] for each in following if each.kind == "choose"
        ]
        port = self._ports[event.part]
        match event.kind:
            case "start":
                return node.start()
            case "receive":
                assert event.peer is not None
                message = self.value(process, event)
                assert isinstance(message, Message)
                return node.deliver(port, event.peer, message)
            case "timer":
                timer = self.value(process, event)
                assert isinstance(timer, Timer)
                return node.fire(port, timer)
            case "request":
                return node.request(event.name, *event.fields().get("value", ()))
            case "recover":
                node.restore(self._left_after_crash(process, event.fields()))
                return node.recover()
        return None

    def _left_after_crash(self, process: ProcessId, said: Mapping[str, Any]) -> State:
        """Return the state in which a process recovers.

        A live node records the values that it found on its disk, because its last step may have
        been stored and never recorded.
        """
        stack = self._stacks[process]
        if said.get("value") == "amnesia":
            return stack.initial
        if "stored" in said:
            return Stable(stack).state(said["stored"])
        return stack.forget(self.nodes[process].capture())

    def port(self, path: str) -> int:
        """Return the port of a component."""
        return self._ports[path]

    def value(self, process: ProcessId, event: Event) -> Value:
        """Return the message or timer of an event, as the process handles it."""
        if isinstance(event.value, Value):
            return event.value
        return from_plain(
            {event.name: dict(event.fields())},
            self._stacks[process].known_at(self._ports[event.part]),
        )

    def _described(self, process: ProcessId, effect: Effect) -> list[str]:
        paths = [part.path for part in self._stacks[process].parts]
        if isinstance(effect, Send):
            return [_sent(effect.message, effect.to, paths[effect.port])]
        if isinstance(effect, Broadcast):
            peers = self.system.topology.neighbours[process]
            return [_sent(effect.message, peer, paths[effect.port]) for peer in peers]
        if isinstance(effect, Indicate):
            return [f"indicate {canonical(to_plain(effect.indication))}"]
        return []


def _agree(done: list[str], recorded: list[str], *, is_torn: bool) -> bool:
    """Return whether the messages are the same in order, and the indications.

    Messages that wait for the end of their step, so that a crash can hit in the middle of it, are
    recorded after the indications of the step.
    """
    for kind in ("send ", "indicate "):
        did = [effect for effect in done if effect.startswith(kind)]
        was = [effect for effect in recorded if effect.startswith(kind)]
        if (did[: len(was)] if is_torn else did) != was:
            return False
    return True


def _sent(message: Message, to: ProcessId, path: str) -> str:
    return f"send {canonical(to_plain(message))} to {to} {path}"


def _recorded(event: Event) -> str:
    """Describe a recorded effect in the same words as one of a process."""
    shown = canonical({event.name: dict(event.fields())})
    return (
        f"send {shown} to {event.peer} {event.part}"
        if event.kind == "send"
        else f"indicate {shown}"
    )


_STEPS = ("start", "receive", "timer", "request", "recover")


def _with_own_effects(events: Sequence[Event]) -> Iterator[tuple[Event, list[Event], bool]]:
    """Yield each event that begins a step, with its effects and whether a crash cut it short.

    The effects are the events that the process recorded before its next step.
    """
    open_steps: dict[ProcessId, int] = {}
    order: list[tuple[Event, list[Event], bool]] = []
    for event in events:
        if event.kind in _STEPS:
            open_steps[event.process] = len(order)
            order.append((event, [], False))
        elif event.kind in ("send", "indicate", "choose") and event.process in open_steps:
            order[open_steps[event.process]][1].append(event)
        elif event.kind == "crash" and event.process in open_steps:
            position = open_steps.pop(event.process)
            began, effects, _ = order[position]
            order[position] = (began, effects, began.time == event.time)
    yield from order

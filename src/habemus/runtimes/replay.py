"""Feeds a recorded run to the pure processes again, and compares what they do with what was recorded.

A handler is a function of (state, event), so whoever recorded a trace, the same events must lead the same
processes to the same messages and indications.  A difference means that a handler depends on something else, that a runtime
changed the algorithm's meaning, or that the trace was changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from habemus.core.events import Event
from habemus.core.node import Broadcast, Effect, Indicate, Node, Send, Stack, State
from habemus.core.process import ProcessId
from habemus.core.shapes import plain_of
from habemus.core.system import System
from habemus.core.values import Message, Timer, Value, from_plain


class Divergence(AssertionError):
    """The pure process did something else than the trace says."""


class Replay:
    """All nodes of a system, driven by a trace.  `states` gives every node's state after each of its steps."""

    def __init__(self, system: System) -> None:
        self.system = system
        self._stacks = {process: Stack(plan) for process, plan in system.plans.items()}
        self._choices: dict[ProcessId, list[Any]] = {process: [] for process in system.plans}
        self.nodes = {process: self._node(process) for process in system.plans}
        self._expected: dict[ProcessId, list[str]] = {process: [] for process in system.plans}
        self._ports = {part.path: part.port for stack in self._stacks.values() for part in stack.parts}

    def _node(self, process: ProcessId) -> Node:
        choices = self._choices[process]

        def choose(options: Sequence[Any]) -> Any:
            if not choices:
                raise Divergence(f"process {process} makes a choice that the trace does not have")
            chosen = choices.pop(0)
            for option in options:
                if plain_of(option) == chosen:
                    return option
            raise Divergence(f"process {process} chose {chosen!r}, which is not among the options")

        return Node(self._stacks[process], process, self.system.topology.neighbours[process], choose)

    def states(self, events: Iterable[Event]) -> Iterator[tuple[Event, State]]:
        """Runs through the trace; raises `Divergence` where it and the processes differ."""
        for event, following in _with_own_effects(list(events)):
            effects = self._step(event, following)
            if effects is None:
                continue
            done = [text for effect in effects for text in self._described(event.process, effect)]
            recorded = [_recorded(each) for each in following if each.kind in ("send", "indicate")]
            if done != recorded:
                step = f"at {event.time}, process {event.process} on {event.kind} {event.described()}"
                raise Divergence(f"{step}: did {done}, the trace has {recorded}")
            yield event, self.nodes[event.process].capture()

    def _step(self, event: Event, following: Sequence[Event]) -> list[Effect] | None:
        process = event.process
        node = self.nodes.get(process)
        if node is None:
            return None
        self._choices[process][:] = [each.fields()["value"] for each in following if each.kind == "choose"]
        port = self._ports[event.part]
        match event.kind:
            case "start":
                return node.start()
            case "receive":
                assert event.peer is not None
                message = self._value(process, event)
                assert isinstance(message, Message)
                return node.deliver(port, event.peer, message)
            case "timer":
                timer = self._value(process, event)
                assert isinstance(timer, Timer)
                return node.fire(port, timer)
            case "request":
                return node.request(event.name, *event.fields().get("value", ()))
            case "recover":
                stack = self._stacks[process]
                node.restore(stack.initial if event.fields().get("value") == "amnesia" else stack.forget(node.capture()))
                return node.recover()
        return None

    def _value(self, process: ProcessId, event: Event) -> Value:
        if isinstance(event.value, Value):
            return event.value
        return from_plain({event.name: dict(event.fields())}, self._stacks[process].known_at(self._ports[event.part]))

    def _described(self, process: ProcessId, effect: Effect) -> list[str]:
        paths = [part.path for part in self._stacks[process].parts]
        if isinstance(effect, Send):
            return [f"send {effect.message!r} to {effect.to} {paths[effect.port]}"]
        if isinstance(effect, Broadcast):
            peers = self.system.topology.neighbours[process]
            return [f"send {effect.message!r} to {peer} {paths[effect.port]}" for peer in peers]
        if isinstance(effect, Indicate):
            return [f"indicate {effect.indication!r}"]
        return []


def _recorded(event: Event) -> str:
    shown = repr(event.value) if isinstance(event.value, Value) else _rebuilt(event.name, event.fields())
    if event.kind == "send":
        return f"send {shown} to {event.peer} {event.part}"
    return f"indicate {shown}"


def _rebuilt(name: str, fields: Mapping[str, Any]) -> str:
    return f"{name}({', '.join(f'{field}={value!r}' for field, value in fields.items())})"


_STEPS = ("start", "receive", "timer", "request", "recover")


def _with_own_effects(events: Sequence[Event]) -> Iterator[tuple[Event, list[Event]]]:
    """Each event that begins a step, with the effects that its process recorded before its next step."""
    open_steps: dict[ProcessId, tuple[Event, list[Event]]] = {}
    order: list[tuple[Event, list[Event]]] = []
    for event in events:
        if event.kind in _STEPS:
            step: tuple[Event, list[Event]] = (event, [])
            open_steps[event.process] = step
            order.append(step)
        elif event.kind in ("send", "indicate", "choose") and event.process in open_steps:
            open_steps[event.process][1].append(event)
        elif event.kind == "crash":
            open_steps.pop(event.process, None)
    yield from order

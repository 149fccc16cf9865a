"""Views of a branch for readers: columns of events, states, causes, lines, cards, graphs."""

from __future__ import annotations

import inspect
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any

from habemus.catalog.entries import Entry
from habemus.core.events import KINDS, Event, described_value
from habemus.core.node import (
    Broadcast,
    CancelTimer,
    Chosen,
    Effect,
    Indicate,
    Send,
    SetTimer,
    Stack,
    State,
)
from habemus.core.process import ProcessId
from habemus.core.shapes import plain_of
from habemus.core.system import System
from habemus.core.values import Value, canonical
from habemus.lab.branches import Branch, LabError
from habemus.runs.states import DEFAULT, known_names, names_of, place_of, value_at
from habemus.runtimes.replay import Divergence, Replay

STEPS = frozenset(("start", "receive", "timer", "request", "recover"))
"""Kinds of events with which a step of a process begins."""


def columns(events: Sequence[Event]) -> dict[str, Any]:
    """Return events column by column, as `docs/lab-protocol.md` describes them.

    Many events carry equal values, so each value is listed once, with its text.
    """
    places: dict[tuple[str, str, str], int] = {}
    known: dict[tuple[int, str, str], int] = {}  # the copies of a message are one object
    told: list[list[Any]] = []
    what: list[int] = []
    for event in events:
        key = (id(event.value), event.name, event.part)
        place = known.get(key)
        if place is None:
            fields = dict(event.fields())
            text = described_value(event.name, fields) if event.name else ""
            same = (event.name, event.part, canonical(fields))
            place = places.get(same)
            if place is None:
                place = places[same] = len(told)
                told.append([event.name, text, fields or None, event.part])
            known[key] = place
        what.append(place)
    return {
        "t": [event.time for event in events],
        "p": [event.process for event in events],
        "e": [_KIND[event.kind] for event in events],
        "peer": [event.peer for event in events],
        "id": [event.number for event in events],
        "what": what,
        "whats": told,
    }


_KIND = {kind: position for position, kind in enumerate(KINDS)}


class StateHistory:
    """The states of the processes of a branch after each step.

    The events are fed to the pure processes; those that are new since the last question, only.
    """

    def __init__(self, branch: Branch) -> None:
        self._branch = branch
        self._replay = Replay(branch.system)
        self.stacks = {me: Stack(plan) for me, plan in branch.system.plans.items()}
        self.names = known_names(list(self.stacks.values()))
        self._places = {
            me: [(name, place_of(stack, name)) for name in self.names]
            for me, stack in self.stacks.items()
        }
        self._read = 0
        self._steps: dict[ProcessId, list[int]] = {me: [] for me in self.stacks}
        self._states: dict[ProcessId, list[State]] = {me: [] for me in self.stacks}

    def _update(self) -> None:
        events = self._branch.events[self._read :]
        begin, self._read = self._read, self._read + len(events)
        crashes = [index for index, event in enumerate(events) if event.kind == "crash"]
        steps = [index for index, event in enumerate(events) if event.kind in STEPS]
        try:
            for index, (event, state) in zip(steps, self._replay.states(events), strict=False):
                self._steps[event.process].append(begin + index)
                self._states[event.process].append(state)
        except Divergence as reason:
            raise LabError(f"the processes do not do what the trace has: {reason}") from None
        for index in crashes:
            self._forget(events[index].process, begin + index)

    def _forget(self, process: ProcessId, index: int) -> None:
        """Note the loss of what a crash leaves behind."""
        steps, states = self._steps[process], self._states[process]
        position = bisect_left(steps, index)
        last = states[position - 1] if position else self.stacks[process].initial
        steps.insert(position, index)
        states.insert(position, self.stacks[process].forget(last))

    def begin_of(self, index: int) -> int | None:
        """Return the index of the event that begins the step to which an event belongs."""
        self._update()
        steps = self._steps[self._branch.events[index].process]
        position = bisect_right(steps, index)
        return steps[position - 1] if position else None

    def before(self, process: ProcessId, index: int) -> State:
        """Return the state of a process before the event."""
        self._update()
        position = bisect_left(self._steps[process], index)
        return self._states[process][position - 1] if position else self.stacks[process].initial

    def after(self, process: ProcessId, index: int) -> State:
        """Return the state of a process after the step that begins with the event."""
        return self.before(process, index + 1)

    def described(self, process: ProcessId, state: State) -> dict[str, str]:
        """Return the variables of a process as texts, without those that it does not have."""
        labels = labels_of(self._branch.system)
        return {
            name: value_at(place, state, labels)
            for name, place in self._places[process]
            if place is not None
        }

    def changes(self, wanted: Sequence[str]) -> list[dict[str, Any]]:
        """Return where the values of variables change along the branch."""
        self._update()
        names = names_of(list(self.stacks.values()), wanted or (DEFAULT,))
        labels = labels_of(self._branch.system)
        found: list[dict[str, Any]] = []
        for me, stack in self.stacks.items():
            places = [(name, place_of(stack, name)) for name in names]
            last: dict[str, str] = {}
            for index, state in zip(self._steps[me], self._states[me], strict=True):
                for name, place in places:
                    text = value_at(place, state, labels)
                    if place is not None and last.get(name) != text:
                        last[name] = text
                        found.append(
                            {"event": index, "process": me, "variable": name, "text": text}
                        )
        return sorted(found, key=lambda each: each["event"])

    def step_again(self, index: int) -> tuple[list[Effect], list[dict[str, Any]]]:
        """Make the step of an event again; return its effects, and the functions it executed."""
        event = self._branch.events[index]
        if event.kind not in STEPS:
            return [], []
        before = self.before(event.process, index)
        replay = Replay(self._branch.system)
        replay.nodes[event.process].restore(before)
        if event.kind == "recover":  # replay forgets what a crash loses; it was forgotten before
            replay.nodes[event.process].restore(before)
        files = files_of(self.stacks[event.process])
        with _Tracing(files) as tracing:
            effects = replay.step(event, self._choices_after(index))
        return effects or [], tracing.blocks()

    def _choices_after(self, index: int) -> list[Event]:
        events = self._branch.events
        found = []
        for event in events[index + 1 :]:
            if event.process == events[index].process:
                if event.kind in STEPS:
                    break
                if event.kind == "choose":
                    found.append(event)
        return found


def labels_of(system: System) -> dict[ProcessId, str]:
    return {process: system.label(process) for process in system.topology.processes}


# Executed lines.


def files_of(stack: Stack) -> frozenset[str]:
    """Return the files of an algorithm, its ancestors and its components, as code names them."""
    found: dict[str, None] = {}
    for part in stack.parts:
        for kind in type(part.plan).__mro__:
            module = sys.modules.get(kind.__module__)
            file = getattr(module, "__file__", None)
            if file and not kind.__module__.startswith(("habemus.core.", "abc", "builtins")):
                found[file] = None
    return frozenset(found)


class _Tracing:
    """Collects which lines of some files are executed, in the order of the functions."""

    def __init__(self, files: frozenset[str]) -> None:
        self._files = files
        self._executed: dict[CodeType, dict[int, None]] = {}
        self._former: Any = None

    def __enter__(self) -> _Tracing:
        self._former = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._former)

    def _called(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        if frame.f_code.co_filename not in self._files:
            return None
        lines = self._executed.setdefault(frame.f_code, {})

        def line(frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
            if event == "line":
                lines[frame.f_lineno] = None
            return line

        return line

    def blocks(self) -> list[dict[str, Any]]:
        """Return each function that was executed: its source and the executed lines."""
        found: list[dict[str, Any]] = []
        for code, executed in self._executed.items():
            if code.co_name.startswith("<"):  # part of the function around it
                for block in found:
                    if (
                        block["file"] == _short(code.co_filename)
                        and block["first"] <= code.co_firstlineno < block["first"] + block["length"]
                    ):
                        block["executed"] = sorted({*block["executed"], *executed})
                continue
            try:
                source, first = inspect.getsourcelines(code)
            except OSError:  # the file is gone or was never there
                continue
            found.append(
                {
                    "file": _short(code.co_filename),
                    "handler": code.co_name,
                    "first": first,
                    "length": len(source),
                    "source": [text.rstrip("\n") for text in source],
                    "executed": sorted(executed),
                }
            )
        return found


def _short(file: str) -> str:
    """Return the path of a file of this package without the folder that it is installed in."""
    _, found, rest = file.replace("\\", "/").rpartition("/habemus/")
    return f"habemus/{rest}" if found else file


def described_effect(effect: Effect, labels: Mapping[ProcessId, str]) -> str:
    """Return an effect in words."""
    match effect:
        case Send(_, to, message):
            return f"send {_value(message)} to {labels.get(to, to)}"
        case Broadcast(_, message):
            return f"broadcast {_value(message)}"
        case SetTimer(_, timer, after):
            span = f"{after[0]}..{after[1]}" if isinstance(after, tuple) else f"{after}"
            return f"set timer {_value(timer)} after {span} us"
        case CancelTimer(_, timer):
            return f"cancel timer {_value(timer)}"
        case Chosen(_, value):
            return f"choose {plain_of(value)}"
        case Indicate(indication):
            return f"indicate {_value(indication)}"


def _value(value: Value) -> str:
    event = Event(0, 0, "", type(value).__name__, value)
    return described_value(event.name, event.fields())


# Causes.


def cone(events: Sequence[Event], index: int) -> tuple[list[int], list[int]]:
    """Return the indices of the events that happened before an event, and of those after it."""
    sent = {event.number: at for at, event in enumerate(events) if event.kind == "send"}
    causes: list[tuple[int | None, int | None]] = []  # on its own process, and the sending
    last: dict[ProcessId, int] = {}
    for at, event in enumerate(events):
        is_end = event.kind in ("receive", "lost", "duplicate")
        sending = sent.get(event.number) if is_end else None
        own = None if event.kind in ("lost", "duplicate", *NETWORK) else last.get(event.process)
        causes.append((own, sending))
        if event.kind not in ("lost", "duplicate", *NETWORK):
            last[event.process] = at
    past = {index}
    for at in range(index, -1, -1):
        if at in past:
            past.update(cause for cause in causes[at] if cause is not None)
    future = {index}
    for at in range(index + 1, len(events)):
        if any(cause in future for cause in causes[at] if cause is not None):
            future.add(at)
    return sorted(past - {index}), sorted(future - {index})


NETWORK = ("cut", "heal", "slow")


# Cards and graphs.


def graph_of(system: System) -> dict[str, Any]:
    """Return the links between the processes, and the voting sets if there are any."""
    topology = system.topology
    plans = system.plans.items()
    sets = {str(me): list(plan.voters) for me, plan in plans if hasattr(plan, "voters")}
    return {
        "kind": "voting" if sets else topology.name,
        "nodes": list(topology.processes),
        "edges": [list(edge) for edge in topology.edges] if len(topology.processes) <= 500 else [],
        "sets": sets,
    }


def card_of(entry: Entry) -> dict[str, Any]:
    """Return the guarantee card of an algorithm; a user's algorithm has no cells."""
    from habemus.analysis.cards.table import cards

    card = cards().get(entry.name)
    sections = entry.box.sections
    return {
        "name": entry.name,
        "title": entry.box.title,
        "problem": entry.problem.title,
        "idea": entry.box.idea,
        "claims": list(entry.box.ensures),
        "ensures": sections.get("Ensures", ""),
        "cost": sections.get("Cost", ""),
        "assumes": sections.get("Assumes", ""),
        "unsafe": entry.unsafe,
        "cells": [] if card is None else card.rows(),
    }


def cells_of(entry: Entry, model: str, name: str) -> list[dict[str, Any]]:
    """Return the cells of the guarantee card for a fault model and a property."""
    from habemus.analysis.cards.table import cards

    card = cards().get(entry.name)
    if card is None:
        return []
    return [
        card.row(place, cell)
        for place, cell in card.cells.items()
        if place[1] == model and place[2] in (name, name.partition("-")[0])
    ]


def card_in_words(entry: Entry, models: Sequence[str], name: str) -> str:
    """Return what the guarantee card says of a property under the faults of a run."""
    said = []
    for model in models:
        for row in cells_of(entry, model, name):
            timing = "" if row["timing"] == "any" else f", {row['timing']}"
            faults = "no faults" if model == "none" else model
            evidence = f" ({row['evidence']})" if row["evidence"] else ""
            said.append(f"{faults}{timing}: {row['verdict']}{evidence}")
    return "; ".join(said)

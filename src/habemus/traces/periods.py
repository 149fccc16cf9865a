"""Periods in which a process waited, was inside, was down or was paused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from habemus.core.events import Event
from habemus.core.mutex_events import mutex_change
from habemus.core.process import ProcessId

WAITING, INSIDE, DOWN, PAUSED = "waiting", "inside", "down", "paused"


class Period(NamedTuple):
    process: ProcessId
    kind: str
    first: int  # index of the event with which it begins
    last: int | None = (
        None  # index of the event with which it ends; None if it lasts to the end of the trace
    )


def asks(event: Event) -> bool:
    return mutex_change(event) == "request"


def enters(event: Event) -> bool:
    return mutex_change(event) in ("entry", "resume")


def leaves(event: Event) -> bool:
    """Whether the event ends a stay inside: a release, an indication that the lock is lost, or a
    request by which the application goes on at another process.
    """
    return mutex_change(event) in ("exit", "loss", "move", "break_off")


def _begun(event: Event) -> str | None:
    """Return the kind of period that begins with an event."""
    if asks(event):
        return WAITING
    if enters(event):
        return INSIDE
    return {"crash": DOWN, "pause": PAUSED}.get(event.kind)


def _ended(event: Event) -> tuple[str, ...]:
    """Return the kinds of period that end with an event; a crash ends all others."""
    if enters(event):
        return (WAITING,)
    if leaves(event):
        return (INSIDE, WAITING)
    return {"crash": (WAITING, INSIDE, PAUSED), "resume": (PAUSED,), "recover": (DOWN,)}.get(
        event.kind, ()
    )


def periods(events: Sequence[Event]) -> list[Period]:
    """Return all periods of a trace, in the order of their beginnings."""
    under_way: dict[tuple[ProcessId, str], int] = {}
    found: list[Period] = []
    for index, event in enumerate(events):
        for kind in _ended(event):
            position = under_way.pop((event.process, kind), None)
            if position is not None:
                found[position] = found[position]._replace(last=index)
        begun = _begun(event)
        if begun is not None and (event.process, begun) not in under_way:
            under_way[event.process, begun] = len(found)
            found.append(Period(event.process, begun, index))
    return found


def holders(events: Iterable[Event]) -> Iterable[tuple[ProcessId, ...]]:
    """Yield the processes that are inside after each event, in the order of entry."""
    inside: dict[ProcessId, None] = {}
    for event in events:
        if enters(event):
            inside[event.process] = None
        elif leaves(event) or event.kind == "crash":
            inside.pop(event.process, None)
        yield tuple(inside)

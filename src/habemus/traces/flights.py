"""Flights: the way of each message from its sending to its receipt or loss."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from habemus.core.events import Event
from habemus.core.process import ProcessId


class Flight(NamedTuple):
    sender: ProcessId
    receiver: ProcessId
    sent: int | None  # index of the event `send`; None if the trace begins later
    ended: int | None = (
        None  # index of the event `receive` or `lost`; None if it is in flight at the end
    )
    is_lost: bool = False
    is_swallowed: bool = False  # lost on its way, and not at a process that was down
    is_copy: bool = False  # the second copy of a message that was duplicated


def flights(events: Sequence[Event]) -> list[Flight]:
    """Return all flights of a trace, in the order of their first events."""
    found: list[Flight] = []
    under_way: dict[int, deque[int]] = {}  # number of the message -> flights that have not ended
    for index, event in enumerate(events):
        peer = event.process if event.peer is None else event.peer
        if event.kind == "send":
            if event.number is not None:
                under_way.setdefault(event.number, deque()).append(len(found))
            found.append(Flight(event.process, peer, index))
        elif event.kind == "duplicate" and event.number is not None:
            copies = under_way.setdefault(event.number, deque())
            sent = found[copies[0]].sent if copies else None
            copies.append(len(found))
            found.append(Flight(event.process, peer, sent, is_copy=True))
        elif event.kind in ("receive", "lost"):
            is_lost = event.kind == "lost"
            waiting = under_way.get(event.number) if event.number is not None else None
            if waiting:
                position = waiting.popleft()
                flight = found[position]
                is_swallowed = is_lost and event.process == flight.sender != flight.receiver
                found[position] = flight._replace(
                    ended=index, is_lost=is_lost, is_swallowed=is_swallowed
                )
            else:
                found.append(Flight(peer, event.process, None, index, is_lost))
    return found

"""Pending events of a simulated run, by the instant at which they happen.

Messages are many and instants are few.  So the calendar is a list of events for each instant,
sorted only when the instant is reached, and a heap of the instants: faster than a heap of messages.
Events of one instant are ordered by random ties, never by insertion.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from heapq import heapify, heappush
from typing import Any, TypeAlias

from habemus.core.process import ProcessId, Span

CONTROL = -1
"""Address of events that are not messages: timers, requests of the application, faults."""

TIE = 30
"""Random bits that order one instant: as many as fit a small integer, which compares fast."""

Queued: TypeAlias = tuple[int, int, ProcessId, Any]
"""A pending event: tie, address, sender, message.

For the address CONTROL, the sender is a sequence number and the message is a control value.
"""


class Calendar:
    """The pending events and the current time."""

    __slots__ = ("bits", "buckets", "instants", "now", "outgoing", "sequence")

    def __init__(self, bits: Callable[[int], int]) -> None:
        self.bits = bits
        self.buckets: defaultdict[int, list[Queued]] = defaultdict(list)
        self.instants: list[int] = []  # heap of the keys of `buckets`
        self.now = 0
        self.outgoing: list[Queued] | None = None
        """Events of the instant at which what is sent now arrives, if all messages take equally
        long: looked up once per instant, None before that.
        """
        self.sequence = 0

    def move_to(self, moment: int) -> None:
        """Set the current time.  The loop of a run repeats these lines, to save a call."""
        self.now = moment
        self.outgoing = None

    def enter(self, arrival: int, event: Queued) -> None:
        """Add an event.  The senders of messages repeat these lines, to save a call per message."""
        events = self.buckets[arrival]
        if not events:
            heappush(self.instants, arrival)
        events.append(event)

    def schedule(self, after: int, control: Any) -> int:
        """Add a control event and return its sequence number."""
        self.sequence = number = self.sequence + 1
        # At least one instant later: no event is ever added to the instant being processed.
        arrival = self.now + (after if after > 0 else 1)
        events = self.buckets[arrival]
        if not events:
            heappush(self.instants, arrival)
        events.append((self.bits(TIE), CONTROL, number, control))
        return number

    def schedule_first(self, after: int, control: Any) -> None:
        """Add a control event that comes before everything else of its instant."""
        self.sequence += 1
        self.enter(self.now + max(1, after), (-1, CONTROL, self.sequence, control))

    def schedule_last(self, after: int, control: Any) -> None:
        """Add a control event that comes after everything else of its instant."""
        self.sequence += 1
        self.enter(self.now + max(1, after), (1 << TIE, CONTROL, self.sequence, control))

    def put_back(self, events: list[Queued]) -> None:
        """Put back events of the current instant that were taken but not processed."""
        if events:
            self.buckets[self.now] = events + self.buckets[self.now]
            heappush(self.instants, self.now)

    def remove(self, moment: int, event: Queued) -> None:
        """Remove a pending event, and its instant if nothing is left of it."""
        events = self.buckets[moment]
        events[:] = [each for each in events if each is not event]
        if not events:
            self.outgoing = None  # which may be the list that is removed
            del self.buckets[moment]
            self.instants.remove(moment)
            heapify(self.instants)

    def draw(self, span: Span) -> int:
        """Draw a duration from a range; return a plain number unchanged."""
        if isinstance(span, int):
            return span
        low, high = span
        return low + (self.bits(32) * (high - low + 1) >> 32)

    def clear(self) -> None:
        self.buckets.clear()
        self.instants.clear()
        self.now = self.sequence = 0
        self.outgoing = None

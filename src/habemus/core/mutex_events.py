"""Meaning of events for mutual exclusion: which event is a request, an entry or an exit.

Monitors, observers of searches, diagrams and tables of runs read events by this one table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from habemus.core.events import Event

MutexChange: TypeAlias = Literal[
    "request",
    "entry",
    "exit",
    "loss",  # of the lock, or of the application in transit, which cannot go on
    "move",  # the application goes on at another process, and is inside all the time
    "break_off",  # it has left without a release, and may go on at another process
    "resume",  # it goes on
    "crash",
    "term",  # the tokens of a term are used up
]

CHANGES: Mapping[tuple[str, str], MutexChange] = {
    ("request", "acquire"): "request",
    ("indicate", "Granted"): "entry",
    ("request", "release"): "exit",
    ("indicate", "LockLost"): "loss",
    ("request", "move"): "move",
    ("request", "break_off"): "break_off",
    ("indicate", "Resumed"): "resume",
    ("indicate", "TermUsedUp"): "term",
    ("crash", ""): "crash",
}
"""Meaning of an event of the topmost part, by its kind and name."""


def mutex_change(event: Event) -> MutexChange | None:
    """Return the meaning of an event; None for other events, and for those of components."""
    return None if event.part else CHANGES.get((event.kind, event.name))

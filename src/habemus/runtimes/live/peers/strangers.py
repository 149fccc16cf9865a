"""Connections that have not shown yet who they are.

There are only so many of them.  If one more comes, the oldest has to go: so connections that stay
silent keep neither peers nor clients out, and who takes part in good order has shown who it is long
before its turn to go has come.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Protocol

from habemus.runtimes.live.log_limits import Complaints

MOST_STRANGERS = 256


class Stranger(Protocol):
    def abort(self) -> None: ...


class Strangers:
    def __init__(self, counts: Counter[str], complaints: Complaints) -> None:
        self._counts = counts
        self._complaints = complaints
        self._waiting: OrderedDict[Stranger, None] = OrderedDict()  # the oldest first

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, stranger: Stranger) -> None:
        if len(self._waiting) >= MOST_STRANGERS:
            oldest = self._waiting.popitem(last=False)[0]
            self._counts["turned away"] += 1
            self._complaints.warn(
                "%d connections have not shown who they are: the oldest is closed", MOST_STRANGERS
            )
            oldest.abort()
        self._waiting[stranger] = None

    def remove(self, stranger: Stranger) -> None:
        """It has shown who it is, or has gone."""
        self._waiting.pop(stranger, None)

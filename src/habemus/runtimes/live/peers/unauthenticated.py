"""Connections that have not shown yet who they are.

There are only so many of them.  If one more comes, the oldest has to go: so connections that stay
silent keep neither peers nor clients out, and who takes part in good order has shown who it is long
before its turn to go has come.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Protocol

from habemus.runtimes.live.log_limits import RateLimitedLog

MOST_UNAUTHENTICATED = 256


class Abortable(Protocol):
    def abort(self) -> None: ...


class UnauthenticatedConnections:
    def __init__(self, counts: Counter[str], limited_log: RateLimitedLog) -> None:
        self._counts = counts
        self._limited_log = limited_log
        self._waiting: OrderedDict[Abortable, None] = OrderedDict()  # the oldest first

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, connection: Abortable) -> None:
        if len(self._waiting) >= MOST_UNAUTHENTICATED:
            oldest = self._waiting.popitem(last=False)[0]
            self._counts["turned away"] += 1
            self._limited_log.warning(
                "%d connections have not shown who they are: the oldest is closed",
                MOST_UNAUTHENTICATED,
            )
            oldest.abort()
        self._waiting[connection] = None

    def remove(self, connection: Abortable) -> None:
        """It has shown who it is, or has gone."""
        self._waiting.pop(connection, None)

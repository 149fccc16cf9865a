"""Connections that are not authenticated yet.

Their number is bounded.  When one more arrives, the oldest is closed: so silent connections block
neither peers nor clients, which authenticate long before they are the oldest.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Protocol

from habemus.runtimes.live.log_limits import RateLimitedLog

MOST_UNAUTHENTICATED = 256


class Abortable(Protocol):
    """A connection of any kind."""

    def abort(self) -> None: ...


class UnauthenticatedConnections:
    """The unauthenticated connections of one node, oldest first."""

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
                "%d unauthenticated connections, the limit: closed the oldest",
                MOST_UNAUTHENTICATED,
            )
            oldest.abort()
        self._waiting[connection] = None

    def remove(self, connection: Abortable) -> None:
        """Drop a connection that is authenticated or closed."""
        self._waiting.pop(connection, None)

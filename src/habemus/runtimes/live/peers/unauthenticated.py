"""Connections that are not authenticated yet.

Their number is bounded.  When one more arrives, the oldest is closed: so silent connections block
neither peers nor clients, which authenticate long before they are the oldest.  Connections in their
TLS handshake count, and all of them together leave most of the descriptors of the process free.
"""

from __future__ import annotations

import resource
from collections import Counter, OrderedDict
from typing import Protocol

from habemus.runtimes.live.log_limits import RateLimitedLog

MOST_UNAUTHENTICATED = 256
DESCRIPTORS_SHARE = 4
"""They may use one of so many descriptors that the process may have."""


class Abortable(Protocol):
    """A connection of any kind."""

    def abort(self) -> None: ...


class UnauthenticatedConnections:
    """The unauthenticated connections of one node, oldest first."""

    def __init__(self, counts: Counter[str], limited_log: RateLimitedLog) -> None:
        self._counts = counts
        self._limited_log = limited_log
        self._waiting: OrderedDict[Abortable, None] = OrderedDict()  # the oldest first
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._limit = (
            MOST_UNAUTHENTICATED
            if descriptors == resource.RLIM_INFINITY
            else min(MOST_UNAUTHENTICATED, descriptors // DESCRIPTORS_SHARE)
        )

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, connection: Abortable) -> None:
        if len(self._waiting) >= self._limit:
            oldest = self._waiting.popitem(last=False)[0]
            self._counts["turned away"] += 1
            self._limited_log.warning(
                "%d unauthenticated connections, the limit: closed the oldest",
                self._limit,
            )
            oldest.abort()
        self._waiting[connection] = None

    def remove(self, connection: Abortable) -> None:
        """Drop a connection that is authenticated or closed."""
        self._waiting.pop(connection, None)

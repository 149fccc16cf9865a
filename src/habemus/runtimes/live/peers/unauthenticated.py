"""Connections that are not authenticated yet.

Their number is bounded.  When one more arrives, the oldest is closed: so silent connections block
neither peers nor clients, which authenticate long before they are the oldest.  Connections in their
TLS handshake count.  All of them together leave most of the descriptors of the process free, and so
do clients, for the connections with peers and for files.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Protocol

from habemus.runtimes.live.log_limits import RateLimitedLog
from habemus.runtimes.live.sockets import share_of_descriptors

MOST_UNAUTHENTICATED = 256
DESCRIPTORS_SHARE = 4
"""They may use one of so many of the descriptors that the process may have."""


class Abortable(Protocol):
    """A connection of any kind."""

    def abort(self) -> None: ...


class UnauthenticatedConnections:
    """The unauthenticated connections at one address of a node, oldest first.

    most, share: how many there may be, and which share of the descriptors at most.
    """

    def __init__(
        self,
        counts: Counter[str],
        limited_log: RateLimitedLog,
        most: int | None = None,
        share: int = DESCRIPTORS_SHARE,
    ) -> None:
        self._counts = counts
        self._limited_log = limited_log
        self._waiting: OrderedDict[Abortable, None] = OrderedDict()  # the oldest first
        self._limit = min(
            MOST_UNAUTHENTICATED if most is None else most, share_of_descriptors(share)
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

"""How long a client looks for a node that grants its request, and in which order.

If a node ends, hangs or has no majority, the client asks another node, until the timeout of the
request is over.  A request without a timeout waits for a cluster that has answered before; a
cluster that never has is an error at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from habemus import boottime
from habemus.client.address import NodeAddress
from habemus.client.errors import HabemusError, LockTimeout, RefusedByNode, Unreachable
from habemus.client.protocol import AcquireRequest
from habemus.runtimes.live.clients.protocol import TRY_MS

TRY_SECONDS = TRY_MS / 1_000
"""The shortest timeout: a node has to ask the other nodes."""
FIRST_PAUSE = 0.02
"""Seconds between the second and the third attempt; each further pause is twice as long."""
LONGEST_PAUSE = 0.5


class Attempts:
    """The attempts to have one request granted, each at another node."""

    _pause = 0.0
    _reason: HabemusError | str = ""
    _timeout: float | None = None
    _deadline: float | None = None

    def __init__(
        self,
        timeout: float | None,
        request: AcquireRequest | None = None,
        names_holder: bool = True,
        *,
        shortest: float = TRY_SECONDS,
        deadline: float | None = None,
    ) -> None:
        self._request = request
        self.names_holder = names_holder
        """Whether to ask who holds the lock when the timeout is over, for the message."""
        if timeout is not None:
            self._timeout = timeout
            if deadline is None:
                deadline = boottime.seconds() + max(timeout, shortest)
            self._deadline = deadline

    def left(self) -> float | None:
        """Seconds until the timeout, at least `TRY_SECONDS`: a slow connection alone must not make
        a request fail.
        """
        deadline = self._deadline
        return None if deadline is None else max(TRY_SECONDS, deadline - boottime.seconds())

    def asked(self) -> float | None:
        """Return the timeout to send with the request: the seconds that are left, which may be 0.
        The node grants a free lock all the same.
        """
        left, timeout = self.left(), self._timeout
        if left is None or timeout is None or left > TRY_SECONDS:
            return left
        return min(timeout, left)

    def failed(self, reason: HabemusError | str, *, is_known: bool = True) -> None:
        """Note why an attempt failed.

        Raise the reason if the request has no timeout and the cluster has never answered.
        """
        if self._timeout is None and not is_known and isinstance(reason, HabemusError):
            raise reason
        self._reason = reason

    def refused(self, word: str, why: str) -> None:
        """Note that a node refused the request; raise if no other node will grant it."""
        if word != "unavailable":
            raise RefusedByNode(why)
        self.failed(why)

    def pause(self) -> float:
        """Seconds to wait before the next attempt, none before the first; raise if the timeout is
        over.
        """
        left = None if self._deadline is None else self._deadline - boottime.seconds()
        if left is not None and left <= 0:
            raise self.timed_out()
        pause, self._pause = self._pause, min(LONGEST_PAUSE, 2 * self._pause or FIRST_PAUSE)
        return pause if left is None else min(pause, left)

    def timed_out(self, news: list[Any] | None = None) -> HabemusError:
        """Return the error of a request whose timeout is over.

        news: the answer to the question who holds the lock.
        """
        if isinstance(self._reason, Unreachable):
            return self._reason
        if self._timeout is None:
            return RefusedByNode("the node has timed out a request that has no timeout")
        why = f": {self._reason}" if self._reason else ""
        assert self._request is not None
        return LockTimeout(self._request.timed_out(self._timeout, news) + why)


def in_order(
    given: Sequence[NodeAddress], told: Sequence[NodeAddress], left: Mapping[NodeAddress, float]
) -> list[NodeAddress]:
    """Return the nodes in the order in which to try them: those that the client was given, then
    those that nodes have named.

    Local sockets come before addresses, and each kind in random order, so that clients spread over
    the nodes.  Nodes that the client has left come last, the latest of them at the end.
    """
    others = [node for node in told if node not in given]
    return sorted(
        (*given, *others),
        key=lambda node: (left.get(node, 0.0), node in others, not node.path, os.urandom(4)),
    )

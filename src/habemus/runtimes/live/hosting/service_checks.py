"""Periodic checks whether the services of a node can grant locks.

A service without a leader, or without a majority of its nodes, is closed, so that clients use other
nodes.  It is reopened later.

A node that was killed and restarted grants locks soon, but another failure could still cost clients
the locks that they hold: `unsettled` says until when.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from habemus.runtimes.live.clients.lock_queues import LockQueues
from habemus.runtimes.live.hosting.instance import LocalProcess
from habemus.runtimes.live.hosting.observations import Observations
from habemus.runtimes.live.hosting.service import Feed
from habemus.runtimes.live.hosting.timers import Timers

if TYPE_CHECKING:
    from habemus.runtimes.live.hosting.node import Node

CHECK_SERVICES_US = 500_000
"""How often a node checks its services."""
FAILED_CHECKS = 4
"""Failed checks in a row after which clients are sent to other nodes."""


class ServiceChecks:
    """The checks of one node."""

    def __init__(
        self, node: Node, observations: Observations, lock_queues: LockQueues, timers: Timers
    ) -> None:
        self._node = node
        self._observations = observations
        self._lock_queues = lock_queues
        self._timers = timers
        self._failed: Counter[str] = Counter()  # consecutive failed checks of each service
        self.is_over = False

    def schedule(self) -> None:
        self._timers.set(CHECK_SERVICES_US, self._check)

    def _check(self) -> None:
        self.schedule()
        if self.is_over:
            return
        for service in self._node.services:
            if service.feed is None:
                # only services under a shared election are known to need a leader and a majority
                continue
            why = self._impediment(service.feed)
            self._failed[service.name] = self._failed[service.name] + 1 if why else 0
            if not why:
                self._lock_queues.reopen(service.name)
            elif self._failed[service.name] >= FAILED_CHECKS:
                self._lock_queues.close(service.name, why)

    def impediments(self) -> list[str]:
        """Return why locks cannot be granted here now; nothing if they can."""
        feeds = (service.feed for service in self._node.services)
        reasons = (self._impediment(feed) for feed in feeds if feed is not None)
        return list(dict.fromkeys(reason for reason in reasons if reason))

    def unsettled(self) -> list[str]:
        """Return why clients may lose locks if another node fails now; nothing if none would be
        lost.
        """
        me = self._node.me
        own = [
            instance.processes[me]
            for instance in self._node.instances()
            if me in instance.processes and instance.failed is None
        ]
        waiting = sum(process.deferred_requests is not None for process in own)
        inquiring = sum(_is_inquiring(process) for process in own)
        arriving = self._lock_queues.claims()
        reasons = {
            f"node {me} was killed, and does not take part in {_locks(waiting)} yet: leases of its"
            " former clients have to expire first": waiting,
            f"node {me} coordinates, and has not heard from a majority yet who holds"
            f" {_locks(inquiring)}": inquiring,
            f"clients of another node are taking {_locks(arriving)} to node {me}": arriving,
        }
        return [reason for reason, count in reasons.items() if count]

    def _impediment(self, feed: Feed) -> str:
        """Return why no lock can be granted here; empty if locks can."""
        node = self._node
        if not node.is_member:
            return f"node {node.me} does not take part yet" if node.is_late_to_join else ""
        why = node.members.majority_error(node.reaches())
        if why:
            return why
        leader = self._observations.leader(feed.service, feed.instance)
        return f"node {node.me} knows no leader" if leader is None else ""


def _is_inquiring(process: LocalProcess) -> bool:
    """Return whether the process coordinates, and does not know yet what is lent."""
    part = process.pure.parts[0]
    return getattr(part, "coordinator", None) == process.me and not getattr(part, "settled", True)


def _locks(count: int) -> str:
    return f"{count} lock{'' if count == 1 else 's'}"

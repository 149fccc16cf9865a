"""How a node with new stable memory joins: when every other node knows the identity of that memory,
and, if it replaces a lost one, has sent its state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from habemus.runtimes.live.hosting.timers import Timers
from habemus.runtimes.live.peers.codec import Refused
from habemus.runtimes.live.peers.frames import StatePageFrame, StateQueryFrame
from habemus.runtimes.live.peers.membership import Membership, StateRecovery
from habemus.runtimes.live.storage.log import StableMemory, StorageFailed

if TYPE_CHECKING:
    from habemus.runtimes.live.hosting.node import Node

log = logging.getLogger("habemus.live")

JOIN_US = 50_000
RECALL_US = 500_000
"""Time after which an unanswered state query is repeated."""
JOIN_PATIENCE_US = 10_000_000
"""Time after which a node that does not take part logs why, and sends clients to other nodes."""


class Joining:
    """The attempts of a node to take part.

    fail, take_part: called when the node has to stop, and when it may begin.
    """

    def __init__(
        self,
        node: Node,
        memory: StableMemory,
        membership: Membership,
        timers: Timers,
        fail: Callable[[StorageFailed], None],
        take_part: Callable[[], None],
    ) -> None:
        self._node = node
        self._memory = memory
        self._membership = membership
        self._timers = timers
        self._fail = fail
        self._take_part = take_part
        self.recovery: StateRecovery | None = None
        """The state that is collected from the other nodes, if the memory was lost."""
        self.is_late = False
        """Whether the reason of the delay was logged."""

    def attempt(self, waited_us: int = 0) -> None:
        """Take part if that is possible now; else try again soon."""
        node, membership = self._node, self._membership
        if membership.is_complete or node.failure.done():
            return
        if waited_us >= JOIN_PATIENCE_US:
            waited_us = 0
            self.is_late = True
            who = ", ".join(map(str, sorted(membership.missing))) or "others"
            log.warning(
                "node %d does not take part yet: its memory is new and not known to node %s; start"
                " the missing nodes",
                node.me,
                who,
            )
        self._timers.set(JOIN_US, partial(self.attempt, waited_us + JOIN_US))
        if membership.missing or (membership.replaces and not self._has_recovered(waited_us)):
            return
        try:
            self._memory.join([] if self.recovery is None else self.recovery.entries())
        except (StorageFailed, ValueError) as reason:
            self._fail(
                reason
                if isinstance(reason, StorageFailed)
                else StorageFailed(
                    f"invalid state received from other nodes: {reason}; run the release of this"
                    " node on all of them, then replace it"
                )
            )
            return
        membership.is_complete = True
        self.recovery = None
        log.info("node %d takes part", node.me)
        self._take_part()

    def _has_recovered(self, waited_us: int) -> bool:
        node = self._node
        if self.recovery is None:
            self.recovery = StateRecovery(node.me, node.peers, node.services)
        if waited_us % RECALL_US == 0:
            for peer, question in self.recovery.questions():
                node.send(peer, question)
        return self.recovery.is_complete

    def take(self, peer: int, page: StatePageFrame) -> Refused | None:
        """Take in a page of the state of a peer, and ask for the next one."""
        further = None if self.recovery is None else self.recovery.take(peer, page)
        if isinstance(further, StateQueryFrame):
            self._node.send(peer, further)
        return further if isinstance(further, Refused) else None

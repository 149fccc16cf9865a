"""Claims of clients that take a lock from one node to another.

The node of a claim asks the others for the stay (`tickets`).  The node that has it decides: it lets
the stay go, and names the token of its loan, or it answers that the stay is over.  If that node
does not answer, a valid ticket suffices, but may be that of a stay that is over, as the crashed
node alone has known.  So a claim that no node has confirmed is granted *on trust*: no other client
gets the lock before every stay by the former loan has ended, and the claim of a later stay by that
loan takes the lock over (`LockQueues.let_go`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from habemus.runtimes.live.clients.tickets import KEY_BYTES, Tickets, node_of
from habemus.runtimes.live.hosting.timers import Alarm, Timers
from habemus.runtimes.live.peers.codec import Refused
from habemus.runtimes.live.peers.frames import StayAnswerFrame, StayQueryFrame, TicketKeyFrame

if TYPE_CHECKING:
    from habemus.runtimes.live.clients.lock_queues import ClientRequest, Host, LockQueues

ANSWER_US = 200_000
"""How long a claim waits for the answers of other nodes; less if a lease is short."""
ANSWER_SHARE = 10
"""The same, as a share of the lease."""

UNKNOWN, GONE, HERE = 0, 1, 2
"""Answers: nothing is known of the stay; it is over; it was here, and may be claimed."""
NO_TICKET = "the ticket is not that of this lock and token"


class StayAnswer(NamedTuple):
    """Knowledge of a node about a stay.

    token: of the loan to claim.
    held_us: for how long no other client may get the lock.
    """

    verdict: int = UNKNOWN
    token: int = 0
    held_us: int = 0


@dataclass(eq=False)
class PendingClaim:
    """A claim that waits for the answers of other nodes."""

    request: ClientRequest
    name: str
    token: int
    shown: int
    ticket: str
    unanswered: set[int] = field(default_factory=set)
    is_gone: bool = False  # as the node that has granted it says
    patience: Alarm | None = None


class Claims:
    """The claims at one node, and its answers to those at others."""

    def __init__(self, node: Host, lock_queues: LockQueues, timers: Timers) -> None:
        self._node = node
        self._lock_queues = lock_queues
        self._timers = timers
        self.tickets = Tickets(node.me)
        self._pending: dict[int, PendingClaim] = {}
        self._last = 0

    def begin(self, request: ClientRequest, name: str, token: int, shown: int, ticket: str) -> None:
        """Find out whether a stay is on, and claim its loan if it is."""
        queues = self._lock_queues
        answer = queues.let_go(request.service, name, token, ticket, request)
        if answer.verdict != UNKNOWN:
            if answer.verdict == GONE:
                queues.refuse_claim(request)
            return
        claim = PendingClaim(request, name, token, shown, ticket, set(self._node.reaches()))
        if not claim.unanswered:
            self._decide(claim)
            return
        self._last += 1
        self._pending[self._last] = claim
        lease_us = queues.lease_us(request.service) or 0
        claim.patience = self._timers.set(
            min(ANSWER_US, lease_us // ANSWER_SHARE), partial(self._end_patience, self._last)
        )
        index = self._node.service_index(request.service)
        for peer in sorted(claim.unanswered):
            self._node.send(peer, StayQueryFrame(index, name, self._last, token, ticket))

    def _end_patience(self, id: int) -> None:
        self._decide(self._pending.pop(id))

    def _decide(self, claim: PendingClaim) -> None:
        """Decide about a stay that no other node has."""
        queues, request = self._lock_queues, claim.request
        if claim.is_gone:
            queues.refuse_claim(request)
            return
        stay = (request.service, claim.name, claim.token)
        is_valid = self.tickets.is_valid(claim.ticket, *stay)
        if is_valid:
            on_trust = StayAnswer(HERE, claim.token, queues.outlasting_us(request.service))
            self._go_on(claim, on_trust)
        elif is_valid is None and node_of(claim.ticket):
            why = f"node {self._node.me} cannot check the ticket of lock {claim.name!r}"
            queues.refuse_claim(request, "unavailable", why)
        else:
            queues.refuse_claim(request, "lost", NO_TICKET)

    def _go_on(self, claim: PendingClaim, answer: StayAnswer) -> None:
        origin = (node_of(claim.ticket), claim.token)
        self._lock_queues.claim_loan(claim.request, claim.name, claim.shown, answer, origin)

    # Between nodes.

    def connected(self, peer: int) -> None:
        """Tell a peer by which key it can check the tickets of this node."""
        self._node.send(peer, TicketKeyFrame(0, "", self.tickets.key))

    def learn(self, peer: int, frame: TicketKeyFrame) -> Refused | None:
        """Take in the key of a peer."""
        if len(frame.key) != KEY_BYTES:
            return Refused(f"a key of tickets with {len(frame.key)} bytes")
        self.tickets.learn(peer, frame.key)
        return None

    def hear(self, peer: int, service: str, frame: StayQueryFrame | StayAnswerFrame) -> None:
        """Answer a peer, or take in its answer."""
        if isinstance(frame, StayQueryFrame):
            answer = StayAnswer()
            if service in self._lock_queues.movable:
                stay = (service, frame.instance, frame.token)
                answer = self._lock_queues.let_go(*stay, frame.ticket)
            self._node.send(peer, StayAnswerFrame(frame.service, frame.instance, frame.id, *answer))
            return
        claim = self._pending.get(frame.id)
        if claim is None or peer not in claim.unanswered:
            return
        claim.unanswered.discard(peer)
        if frame.verdict == GONE and peer == node_of(claim.ticket):
            claim.is_gone = True  # there; it may have been claimed at another node since
        if frame.verdict != HERE and claim.unanswered:
            return
        del self._pending[frame.id]
        self._timers.cancel(claim.patience)
        if frame.verdict == HERE:
            self._go_on(claim, StayAnswer(HERE, frame.token, max(0, frame.held_us)))
        else:
            self._decide(claim)

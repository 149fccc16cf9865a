"""The session of a client with a node: its connections and its leases.

The *keeper* of the process (`habemus.client.keeper`) sends heartbeats for everything that the
session holds or waits for, and receives losses.

`habemus.client.protocol` says what the lines mean and when a lease expires.
"""

from __future__ import annotations

import atexit
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from time import sleep
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakSet

from habemus import boottime
from habemus.client.address import ClusterAddress, NodeAddress, told_nodes
from habemus.client.connection import ConnectionClosed, NodeConnection
from habemus.client.credentials import Credentials
from habemus.client.errors import (
    HabemusError,
    ProtocolError,
    RefusedByNode,
    Unreachable,
)
from habemus.client.keeper import keeper
from habemus.client.lease import Lease
from habemus.client.protocol import (
    CLAIM_ELSEWHERE,
    CLOSED,
    EXPIRED,
    MOVE_PAUSE_US,
    NO_TOKEN,
    TOO_LATE,
    AcquireRequest,
    LeaseEvent,
    LeaseLost,
    LeaseState,
    LeaseUnknown,
    LeaseWanted,
    NodeLeaves,
    RequestRefused,
    SessionProtocol,
    can_move,
    encode_line,
    learn_nodes,
    lease_ms_in,
    release_line,
)
from habemus.runtimes.live.clients.protocol import GOODBYE

if TYPE_CHECKING:
    from habemus.client.heartbeats import HeartbeatConnection
    from habemus.client.lines import Lines

BEATS = 10
"""Heartbeats in the time of a lease."""
HASTE_BEATS = 5
"""A lease that is granted with fewer heartbeats left is renewed at once."""
IDLE_CONNECTIONS = 32
MovingLease: TypeAlias = tuple[Lease, int | None]
"""A lease on its way to another node, and the milliseconds that its client has asked for."""
EXIT_SECONDS = 1.0
"""How long all sessions together may connect to say goodbye when the process ends."""
CLAIM_SECONDS = 0.2
"""How often to check whether leases on their way have expired or were released."""


class NodeSession:
    """The session of one client process with a node.

    A connection that breaks does not end it: the node keeps what it has lent, and the keeper
    connects again.  The session ends when it is closed, which tells the node so, or when the node
    does not know it any more.
    """

    def __init__(
        self,
        first: NodeConnection | Lines,
        cluster: ClusterAddress,
        credentials: Credentials,
        label: str,
    ) -> None:
        """Begin with the first connection to a node."""
        self.label = label
        self.credentials = credentials
        self.address: NodeAddress = first.address
        self._is_at_socket = cluster.is_one_socket
        self.welcome = first.welcome
        self._offered_ms = {
            service: lease_ms_in(first.welcome, service) for service in first.welcome["services"]
        }
        self.key: str = first.welcome["session"]
        self.node: int = first.welcome["node"]
        self.protocol = SessionProtocol(BEATS, self._offered_ms)
        self.is_open = True  # whether requests can be made here
        self.over = ""  # the reason why the session has ended
        self.leaving = ""  # the reason why nothing more is requested here
        self.left: Callable[[], None] = lambda: None  # wakes requests that no thread waits for
        self.successor: Callable[[NodeSession], NodeSession] | None = None
        """Opens a session with another node, for leases that move."""
        self._carrier: NodeConnection | None = None  # of leases that came from another node
        self.has_to_move = ""  # the reason why leases have to go to another node
        self._is_moving = False  # what the node still lends is claimed at other nodes
        self.unsaid: list[bytes] = []  # lines that may not have arrived: connections have ended
        self._repeated = (0, 0)  # when the last heartbeat was sent, and how many of them with it
        self.was_cut = False  # a connection has ended while the node was up, or may have been
        self._idle: list[NodeConnection] = [first] if isinstance(first, NodeConnection) else []
        # The connections on which the leases of blocking clients were granted.
        self._connections: dict[int, NodeConnection] = {}
        # Waiting requests by id, with the connection on which a thread waits, if one does.
        self._waiting: dict[int, NodeConnection | None] = {}
        self.keeping: HeartbeatConnection | None = None
        self.is_hurried = False  # heartbeats are needed at once
        self.send_soon: Callable[[bytes], bool] | None = None
        """Sends a line on the connection of an event loop, from any thread; returns whether it is
        open.
        """
        self.heard_us = 0  # when the node was heard last, on any connection
        self._is_awake = False  # the keeper looks after this session
        self._oldest = 0  # the request or lease that was the oldest when the keeper looked last
        self._oldest_since = 0.0
        _SESSIONS.add(self)

    # Connections.

    def connection(self) -> NodeConnection:
        """Return a connection that no thread uses; `ConnectionClosed` if the session is over."""
        try:
            return self._idle.pop()
        except IndexError:
            pass
        try:
            return NodeConnection(self.address, self.credentials, self.label, self.key)
        except (RefusedByNode, Unreachable) as reason:
            raise ConnectionClosed(str(reason)) from None

    def put_back(self, connection: NodeConnection) -> None:
        """Keep a connection for the next request."""
        if len(self._idle) >= IDLE_CONNECTIONS:
            connection.close()
            return
        self._idle.append(connection)
        if self.over:  # checked last: the thread that ended the session may have closed the others
            self._close_idle()

    def leave(self, why: str) -> None:
        """Request nothing more here.  Waiting requests move to another node; leases stay until they
        are released or lost.
        """
        if self.is_open:
            self.leaving = why
            self.is_open = False
            for id, connection in list(self._waiting.items()):
                # Whichever thread takes it out decides: this one, or the one that was granted it.
                if connection is not None and self._waiting.pop(id, None) is not None:
                    connection.close(release_line(id))
            self.left()
            self._wake_keeper()  # which ends the session when nothing is left of it

    def lose_node(self, why: str) -> None:
        """Leave a node to which a connection has ended.  Leases stay until the keeper knows whether
        the node is up: then it renews them, takes them to another node, or loses them.
        """
        self.was_cut = True
        if not self.over and (self._waiting or self._held()):
            self.leave(why)
            self.hurry()
        else:
            self.close(why)

    def can_move(self) -> bool:
        """Return whether there are leases, or may be soon, and other nodes to which the keeper can
        take them.
        """
        return (
            self.successor is not None
            and not self._stays_at_socket()
            and not self.over
            and (
                bool(self._waiting)  # looked at first, as in `_keep`
                or any(can_move(self.welcome, each.service) for each in self._held())
            )
        )

    def close(self, why: str = CLOSED) -> None:
        """End the session and lose its leases."""
        is_owed = not self.over and self._may_be_lent()
        self._end(why)
        for lease in self._held():
            lease._lose(why)
        if not self._close_connections(GOODBYE) and is_owed:
            self.unsaid.append(GOODBYE)
            self.hurry()

    def say_goodbye(self, within: float) -> None:
        """End the session because the process ends: no other thread may run any more.

        within: how long to connect, if no connection is left that can carry the goodbye.
        """
        if not self.over:
            is_owed = self._may_be_lent()
            self._end(CLOSED)
            self.send_soon = None
            if not self._close_connections(GOODBYE) and is_owed:
                self.unsaid.append(GOODBYE)
        if self.unsaid and within > 0:
            with suppress(OSError, HabemusError):
                made = NodeConnection(self.address, self.credentials, self.label, self.key, within)
                made.close(b"".join(self.unsaid))

    def _may_be_lent(self) -> bool:
        """Return whether the node may lend something to this session."""
        return self.was_cut or self._is_in_use()

    def _is_in_use(self) -> bool:
        # In this order: a request that is granted is a lease before it stops waiting.
        return bool(self._waiting or self.protocol.leases or self.unsaid)

    def _end(self, why: str) -> None:
        self.over = self.over or why
        self.is_open = False

    def _close_connections(self, last: bytes) -> bool:
        """Close all connections after a last line; return whether that has reached one which is
        known to be up.
        """
        is_sent = self.send_soon is not None and bool(last) and self.send_soon(last)
        for connection in self._used_connections():
            is_sent = connection.close(last) or is_sent
        is_sent = self._close_idle(last) or is_sent
        return is_sent and not self.was_cut

    def _used_connections(self) -> list[NodeConnection | HeartbeatConnection]:
        used: list[NodeConnection | HeartbeatConnection | None] = [
            self.keeping,
            self._carrier,
            *list(self._waiting.values()),
            *list(self._connections.values()),
        ]
        return [connection for connection in used if connection is not None]

    def _close_idle(self, last: bytes = b"") -> bool:
        is_sent = False
        with suppress(IndexError):
            while True:
                is_sent = self._idle.pop().close(last) or is_sent
        return is_sent

    # Requests.

    def request(self, request: AcquireRequest, timeout: float | None) -> tuple[int, bytes]:
        """Begin a request; return its id and the line to send."""
        timeout_ms = None if timeout is None else round(timeout * 1_000)
        return self.protocol.request(request, timeout_ms, boottime.nanoseconds() // 1_000)

    def begin_waiting(self, id: int, connection: NodeConnection | None = None) -> None:
        """Send heartbeats for a request; `ConnectionClosed` if the session has ended."""
        self._waiting[id] = connection
        if not self.is_open:  # the thread that ended the session may not have seen this request
            raise ConnectionClosed(self.over or self.leaving)
        if not self._is_awake:
            self._wake_keeper()

    def end_waiting(self, id: int) -> None:
        """Send no more heartbeats for a request."""
        self._waiting.pop(id, None)

    # Leases.

    def receive_answer(
        self, line: list[Any], connection: NodeConnection | None = None
    ) -> Lease | RequestRefused:
        """End the wait for an answer and return what it means; `ProtocolError` if it is none.

        A lease that arrives after it has expired, or after its connection was closed, is lost at
        once.  `connection` is that of a blocking client, on which the lease is released later.
        """
        now_us = self.heard_us = boottime.nanoseconds() // 1_000
        state = None
        try:
            if line[0] == "granted":
                state = self.protocol.receive_grant(line, now_us)
            if state is not None:
                lease = state.holder = Lease(self, state)
                if connection is not None:
                    self._connections[state.id] = connection
        finally:
            # Not before the lease is held: the keeper closes a session that has neither.
            is_left = self._waiting.pop(line[1], None) is None and connection is not None
        if state is None:
            return self._receive_refusal(line, now_us)
        if is_left or self.over:
            lease._lose(self.over or self.leaving)
        elif state.until_us is not None:
            left_us = state.until_us - now_us
            if left_us < HASTE_BEATS * self.protocol.beat_us:
                self._hasten(lease, left_us)
        return lease

    def _receive_refusal(self, line: list[Any], now_us: int) -> RequestRefused:
        for event in self.protocol.receive(line, now_us):
            if isinstance(event, RequestRefused):
                return event
        if line[0] != "refused":
            raise ProtocolError(f"{self.address} answers a request by {str(line[0])[:20]!r}")
        return RequestRefused(*line[1:])  # the node refuses everything on this connection

    def told(self) -> tuple[NodeAddress, ...]:
        """Return the nodes to which the client may go from this one, as the node has named them."""
        return () if self._stays_at_socket() else told_nodes(self.welcome)

    def _stays_at_socket(self) -> bool:
        """Return whether the client was given one local socket only, and its node is a member."""
        return self._is_at_socket and not self.welcome.get("configuration")

    def learn_from(self, told: dict[str, Any]) -> None:
        """Note which nodes there are, as the welcome of a connection of this session tells."""
        learn_nodes(self.welcome, told.get("configuration", 0), told["nodes"])

    def receive_news(self, line: list[Any]) -> None:
        """Take in a line that answers no request of this connection."""
        if line[0] == "nodes":
            learn_nodes(self.welcome, line[2], line[3])
            return
        self.heard_us = boottime.microseconds()
        if line[0] == "alive":
            at, count = self._repeated
            if line[1] == at:
                self._repeated = (0, 0)
                del self.unsaid[:count]
            if self._is_moving:
                return  # the node does not list leases any more that have left it
        for event in self.protocol.receive(line, self.heard_us):
            if isinstance(event, NodeLeaves):
                self.has_to_move = event.why
                self.hurry()
            else:
                self._apply(event)

    def _hasten(self, lease: Lease, left_us: int) -> None:
        """Renew a lease at once that has little time left; lose it if it has expired before its
        grant arrived: this process was suspended while it waited.
        """
        if left_us <= 0:
            lease._lose(TOO_LATE)
        else:
            self._beat_soon()

    def _beat_soon(self) -> None:
        """Send a heartbeat for a lease that may expire before the next one is due: its request has
        waited, and the lease counts from the last line that the node had received before.
        """
        if not self._send_beside(self.heartbeat()):
            self.hurry()

    def _apply(self, event: LeaseEvent) -> None:
        if isinstance(event, LeaseUnknown):
            self._tell_node(release_line(event.id))  # its release may have been lost
            return
        state = self.protocol.leases.get(event.id)
        lease: Lease | None = None if state is None else state.holder
        if lease is None:
            return
        if isinstance(event, LeaseLost):
            lease._lose(event.why)
        elif isinstance(event, LeaseWanted) and lease._on_wanted is not None:
            lease._on_wanted()

    def forget(self, lease: Lease) -> None:
        """Drop a lease that is lost, and release it: the node may not know that yet, and would lend
        the lock to this client for as long as it hears of it.
        """
        state = lease._state
        line = self.protocol.end(state)
        if line is None:
            return
        connection = self._connections.pop(state.id, None)
        if connection is not None:
            connection.close(line)
        self._tell_node(line)

    def _tell_node(self, line: bytes) -> None:
        """Send a line to the node beside the requests.  If no connection for that is open, or it
        may have ended, the keeper sends the line with its next heartbeat.

        A lease that has left the node is not released there: another client would get it by the
        same grant.
        """
        if self._is_moving:
            return
        if (not self._send_beside(line) or self.was_cut) and not self.over:
            self.unsaid.append(line)
            self.hurry()

    def _send_beside(self, line: bytes) -> bool:
        """Send a line on the connection for heartbeats, or that of the event loop; return whether
        one of them is open.
        """
        if self.keeping is not None and self.keeping.send(line):
            return True
        return self.send_soon is not None and self.send_soon(line)

    def _held(self) -> list[Lease]:
        """Return the leases that are held here."""
        states = list(self.protocol.leases.values())
        return [each.holder for each in states if each.holder is not None]

    def send_release(self, lease: Lease, to: str | None = None) -> None:
        """Send the release of a lease that has ended on its connection, which is free then.  There
        is no answer.

        to: label of the client to which the lock is transferred.
        """
        state = lease._state
        line = self.protocol.end(state, to)
        if line is None:
            return  # it arrives at another node just now, where `_continue` sees that it has ended
        connection = self._connections.pop(state.id, None)
        if connection is None:
            # It came from another node, is about to go there, or the session has ended in between.
            self._say_on_carrier(line)
            return
        if connection.in_use.locked():
            # Let a thread finish that looks for news.  The next one finds that the connection is
            # not that of the lease any more.
            with connection.in_use:
                pass
        try:
            connection.send(line)
        except OSError:
            connection.close()
            self.was_cut = True
            self._tell_node(line)
        else:
            if self.was_cut:
                self._tell_node(line)  # this connection may have ended, too
            self.put_back(connection)

    def note_write(self, service: str, name: str, token: int) -> None:
        """Record at the node that the resource was written."""
        with suppress(OSError):  # the record may be lost with its node; the write was done
            connection = self.connection()
            connection.say("wrote", service, name, token)
            self.put_back(connection)

    def shows_waiters(self, service: str) -> bool:
        """Return whether holders of locks of this service learn that other clients wait."""
        return bool(self.welcome["services"].get(service, {}).get("sees_waiters", True))

    def look(self, lease: Lease) -> None:
        """Take in what the node has sent on the connection of a lease, without waiting."""
        connection = self._connections.get(lease._state.id)
        if connection is None or not connection.has_news():
            return
        try:
            with connection.in_use:
                is_its_own = self._connections.get(lease._id) is connection
                lines = connection.heard() if is_its_own else []
            for line in lines:
                self.receive_news(line)
        except OSError as reason:
            if self._connections.get(lease._id) is not connection:
                return  # the lease is on its way to another node
            if self._outlives_connections(lease):
                self.was_cut = True
                self._connections.pop(lease._id, None)
                connection.close()
                self.hurry()
            else:
                lease._lose(str(reason))

    def _outlives_connections(self, lease: Lease) -> bool:
        """Return whether the node keeps a lock for this client while no connection is open."""
        if lease._state.until_us is None:  # not for long, and its end could not be known here
            return False
        return not self.welcome.get("release_on_disconnect") or self.can_move()

    # Leases that move.

    def move(self, why: str, *, is_planned: bool) -> None:
        """Take all leases to other nodes, until they are there, lost or expired.

        is_planned: the node is up, and keeps the locks for this client.
        """
        self.leave(why)
        self._is_moving = True
        left: NodeSession = self
        moving: list[MovingLease] = []
        departed: set[int] = set()
        pause = 0.0
        while True:
            moving += self._depart(departed, why, is_planned=is_planned)
            moving = [each for each in moving if _is_to_be_claimed(each[0])]
            if not moving and self.over:
                break
            if not moving:
                # A grant that arrives from now on is void, and requested elsewhere.  Those before
                # it move.
                self.over = why
                continue
            sleep(pause)
            pause = MOVE_PAUSE_US / 1_000_000
            try:
                assert self.successor is not None
                left = self.successor(left)
                moving = left.take_on(moving)
                left.leave(f"a session for leases that came from node {self.node}")
            except (OSError, HabemusError):
                continue
        self.close(why)

    def _depart(self, departed: set[int], why: str, *, is_planned: bool) -> list[MovingLease]:
        """Let leases leave this node, those too that were granted in the meantime; return them."""
        moving = []
        for state in list(self.protocol.leases.values()):
            id, lease = state.id, state.holder
            if id in departed or lease is None:
                continue
            departed.add(id)
            connection = self._connections.pop(id, None)
            if not can_move(self.welcome, lease.service):
                lease._lose(why)
            else:
                if is_planned:
                    self._tell_to_move(id, connection)
                moving.append((lease, self.protocol.own_lease_ms(id, None)))
            if connection is not None:
                connection.close()
        return moving

    def _tell_to_move(self, id: int, connection: NodeConnection | None) -> None:
        """Tell the node that a lock is taken to another one, not given up."""
        line = encode_line("move", id)
        with suppress(OSError, HabemusError):
            if (known := connection or self.keeping) is not None:
                known.send(line)
            else:
                made = self.connection()
                made.send(line)
                self.put_back(made)

    def take_on(self, moving: list[MovingLease]) -> list[MovingLease]:
        """Claim leases that were granted by another node; return those to try elsewhere.

        All of them are on one connection.
        """
        claims: dict[int, MovingLease] = {}
        lines = []
        for lease, own_ms in moving:
            lease_ms = self._offered_ms.get(lease.service) if own_ms is None else own_ms
            begun = self.protocol.claim(
                lease._state,
                lease.token,
                lease_ms,
                boottime.microseconds(),
                keep=lease._on_wanted is not None,
            )
            if begun is None:
                lease._lose(NO_TOKEN)
            else:
                claims[begun[0]] = (lease, own_ms)
                lines.append(begun[1])
        if not claims:
            return []
        carrier = self._carrier = self.connection()
        carrier.send(b"".join(lines))
        first = next(iter(claims))
        self.begin_waiting(first, carrier)
        refused = []
        try:
            while wanted := [id for id, each in claims.items() if _is_to_be_claimed(each[0])]:
                for id in set(claims) - set(wanted):
                    del claims[id]
                    self._give_up(id)
                refused += self._receive_claim(carrier, claims)
        except (OSError, HabemusError):
            # Without a goodbye: that would release what is claimed at another node next.
            self._end(f"node {self.node} has failed")
            self._close_connections(b"")
            for lease in self._held():
                lease._lose(self.over)
        finally:
            self.end_waiting(first)
        for id in claims:
            self._give_up(id)
        return refused + [each for each in claims.values() if _is_to_be_claimed(each[0])]

    def _receive_claim(
        self, carrier: NodeConnection, claims: dict[int, MovingLease]
    ) -> list[MovingLease]:
        """Take in an answer to a claim; return the lease that has to be claimed elsewhere."""
        try:
            line = carrier.hear(
                min((CLAIM_SECONDS, *(each.remaining for each, _ in claims.values() if each.held)))
            )
        except TimeoutError:
            return []
        if line[0] not in ("granted", "refused") or line[1] not in claims:
            self.receive_news(line)
            return []
        lease, own_ms = claims.pop(line[1])
        if line[0] == "granted":
            state = self.protocol.receive_grant(line, boottime.microseconds())
            if state is not None:
                self._continue(lease, state)
            return []
        self.protocol.forget(line[1])
        if line[2] in CLAIM_ELSEWHERE:
            return [(lease, own_ms)]
        lease._lose(line[3])
        return []

    def _give_up(self, id: int) -> None:
        """End a claim that was not answered in time."""
        self.protocol.forget(id)
        self._say_on_carrier(release_line(id))

    def _continue(self, lease: Lease, state: LeaseState) -> None:
        """Hold a lease from now on that began at another node."""
        if lease._has_expired():
            lease._lose(EXPIRED)
        former, former_id = lease._session, lease._id
        state.holder = lease
        lease._state, lease._session = state, self
        if isinstance(former, NodeSession):
            former.protocol.forget(former_id)
        if lease._why:  # released or lost on its way
            self.protocol.forget(state.id)
            self._say_on_carrier(release_line(state.id))

    def _say_on_carrier(self, line: bytes) -> None:
        carrier = self._carrier
        if carrier is None:
            self._tell_node(line)
            return
        with suppress(OSError), carrier.in_use:
            carrier.send(line)

    # The keeper.

    def _wake_keeper(self) -> None:
        self._is_awake = True
        keeper().add(self)

    def hurry(self) -> None:
        """Have the keeper send heartbeats at once."""
        self.is_hurried = True
        keeper().add(self)
        keeper().hurry()

    def is_due(self) -> bool:
        """Return whether heartbeats are needed: since something is held, or waits, for a beat."""
        # In this order: a request that is granted is a lease before it stops waiting.
        oldest = min((*list(self._waiting)[:1], *list(self.protocol.leases)[:1]), default=0)
        now = boottime.seconds()
        if oldest != self._oldest:
            self._oldest, self._oldest_since = oldest, now
        is_old = oldest > 0 and now - self._oldest_since >= self.beat
        return is_old or self.is_hurried or bool(self.unsaid)

    def has_to_renew(self) -> bool:
        """Return whether something is held, waits or may not have arrived; end a session that was
        left if not.
        """
        if self.over:
            return bool(self.unsaid)
        if not self._is_in_use():
            self._is_awake = False
            if not self._is_in_use():
                if self.leaving:
                    self.close(self.leaving)
                return bool(self.unsaid)
            self._is_awake = True  # a request came in between
        return True

    def heartbeat(self) -> bytes:
        """Return a heartbeat, after the lines that may not have arrived."""
        at, count = boottime.microseconds(), len(self.unsaid)
        self._repeated = (at, count)
        return b"".join(self.unsaid[:count]) + encode_line("alive", at)

    def lose_unleased(self, why: str) -> None:
        """Lose the locks without a lease: the node gives them up soon after a connection ended."""
        for lease in self._held():
            if lease._state.until_us is None:
                lease._lose(why)

    @property
    def beat(self) -> float:
        """Seconds between two heartbeats."""
        return self.protocol.beat_us / 1_000_000

    @property
    def silence(self) -> float:
        """Seconds without an answer after which the node is left."""
        return self.protocol.silence_us / 1_000_000

    def patience(self, longest: float) -> float:
        """Return how long to wait: at most until the next lease expires."""
        expiry_us = self.protocol.next_expiry_us()
        if expiry_us is None:
            return longest
        return max(0.001, min(longest, (expiry_us - boottime.microseconds()) / 1_000_000))

    def drop_lost(self) -> None:
        """Lose the leases that have expired."""
        for event in self.protocol.expired(boottime.microseconds()):
            self._apply(event)

    def abandon(self) -> None:
        """Give up connections and leases in the child of a fork: they belong to the parent."""
        self.over = "it belongs to the process that forked"
        self.is_open = False
        self.unsaid.clear()
        for lease in self._held():
            lease._end()
        for connection in [*self._used_connections(), *self._idle]:
            connection.abandon()
        self._connections.clear()  # another thread of the parent may have been using one
        self._idle.clear()


def _is_to_be_claimed(lease: Lease) -> bool:
    """Return whether a lease that has left its node has to be claimed at another one; lose it if it
    has expired.

    One that was released on its way is claimed too, and released there: else the cluster keeps the
    lock for its client until the lease has expired.
    """
    if lease._has_expired():
        lease._lose(EXPIRED)
        return False
    return not lease._why or lease.released


_SESSIONS: WeakSet[NodeSession] = WeakSet()


def _abandon_all() -> None:
    for session in list(_SESSIONS):
        session.abandon()


def _say_goodbye() -> None:
    end = boottime.seconds() + EXIT_SECONDS
    for session in list(_SESSIONS):
        session.say_goodbye(end - boottime.seconds())


atexit.register(_say_goodbye)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)


def own_label() -> str:
    """Return the name that others see of a client that was given none: its host and process."""
    return f"{socket.gethostname()}/{os.getpid()}"

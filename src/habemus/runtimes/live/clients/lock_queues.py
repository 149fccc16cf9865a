"""The queues in which the clients of a node wait for locks.

A node takes part in every lock once, however many clients it has.  Their requests queue here.  When
the algorithm grants the lock to the node's own process, the first request in the queue gets it.
When that client releases, the process releases too, and acquires again if more requests wait.  So
every grant to a client is a grant of the algorithm, with a token of its own, and the algorithm
decides how long the clients of one node may go before those of another.

A *request* comes from one client.  It may name several locks and is satisfied by one of them.  The
request owns the lock, not the client: two tasks of one program make two requests, and one of them
waits.  A request ends when it is released, when it times out, when its connection closes while it
waits, or when the lock is lost; whichever comes first, and only once.

A request that is granted holds a *lease*.  It expires when the node has received nothing from the
session of its client for the lease time that the client asked for.  Where the grants of the
algorithm expire themselves, the lease is never longer than the grant.

The end of a connection says nothing about the client: something between the two may have closed it.
So what was granted stays lent, to the *session*.  The client may join its session again, claim the
lock at another node, or say goodbye; else its lease expires.  A lock without a lease stays lent for
`CUT_OFF_US` after the last connection of the session.  `end` is for the end of the process itself.
"""

from __future__ import annotations

import os
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, cast

from habemus.core.process import ProcessId
from habemus.core.values import Indication
from habemus.problems.election import Election
from habemus.problems.fencing import (
    GrantedWithToken,
    LockLostWithToken,
    ResumedWithToken,
    Token,
)
from habemus.problems.mutex import Granted, Mutex
from habemus.runtimes.live.clients.claims import GONE, HERE, Claims, StayAnswer
from habemus.runtimes.live.clients.protocol import CLIENT_SHUTDOWN_GRACE_US, TRY_MS
from habemus.runtimes.live.clients.tickets import node_of
from habemus.runtimes.live.clients.window import NARROWEST, PATIENCE_US, WIDEST, RequestWindow
from habemus.runtimes.live.hosting.failures import NodeStopped
from habemus.runtimes.live.hosting.instance import Listener, LocalProcess
from habemus.runtimes.live.hosting.service import Service
from habemus.runtimes.live.hosting.slices import TimeSlicer
from habemus.runtimes.live.hosting.timers import Alarm, Timers
from habemus.runtimes.live.monitoring.meter import Meter
from habemus.runtimes.live.peers.codec import check_name
from habemus.runtimes.live.peers.frames import Frame

TRANSFER_US = 2_000_000
"""How long a lock stays reserved for the client to which it was transferred."""
MOST_REQUESTS: Final = 100_000
"""Requests that wait or hold at one node."""
MOST_LOCKS_PER_CLIENT: Final = 10_000
"""Locks that one client may wait for or hold.  A request for one of several locks counts for all of
them.
"""

MOST_ACTIVE: Final = 1_000
"""Locks that the algorithm requests or keeps for one client of a node at a time.  Each costs the
coordinator a few messages a second.  Further requests wait here, in order.
"""
LOOK_US = PATIENCE_US // 4
"""Time between two looks for room in the window of a client."""

SHORT_STAY_US = 10_000
"""A client that held the lock for longer is not followed by another one of its node, if clients of
other nodes wait: a hand-over between nodes takes less than that.
"""

TRY_US: Final = TRY_MS * 1_000
MOST_LOSSES = 1_000
"""Losses of a client that has sent no heartbeat yet, or was cut off."""
MOST_TRIED = 16
"""Locks of one request about which other nodes are asked when its timeout is over."""
CUT_OFF_US = 2 * CLIENT_SHUTDOWN_GRACE_US
"""How long a lock without a lease stays lent after the last connection of its client has closed: as
long as a node that restarts waits for such clients.
"""

Origin: TypeAlias = tuple[int, int]
"""The node and the token of the stay by which a lock was claimed."""
NOWHERE: Final = (0, 0)

OVERTAKEN = "the lock was released or granted to another client before it was claimed here"
STATUS_PIECE = 1_000
"""Waiting clients that a status lists in one piece of work."""


def number_of(token: Token) -> int:
    """Return the token as one number with the same order, which a resource can compare."""
    term, count = token
    return term << 32 | count


def token_of(number: int) -> Token:
    """Return the token that `number_of` made one number of."""
    return number >> 32, number & 0xFFFFFFFF


def _nothing(*_: object) -> None:
    pass


class LockStatus(NamedTuple):
    """Holder and waiters of a lock, counting only the clients of one node."""

    holder: str | None = None  # label of the client
    token: int | None = None
    waiting: int = 0


class LineSender(Protocol):
    """A connection to a client, which sends one line."""

    def send(self, *line: object) -> None: ...


class Host(Protocol):
    """The part of `Node` that lock queues use; tests replace it by a scripted one."""

    @property
    def me(self) -> int: ...

    @property
    def services(self) -> tuple[Service, ...]: ...

    def participant(self, service: str, name: str) -> LocalProcess: ...

    def make_request_of(
        self,
        process: LocalProcess,
        request: str,
        arguments: tuple[Any, ...] = (),
        on_done: Callable[[], None] | None = None,
    ) -> None: ...

    def make_request(
        self,
        service: str,
        name: str,
        request: str,
        *arguments: Any,
        on_done: Callable[[], None] | None = None,
    ) -> None: ...

    def subscribe(self, service: str, name: str, listener: Listener) -> Callable[[], None]: ...

    def left_us(self, process: LocalProcess) -> int | None: ...

    def is_late(self, process: LocalProcess) -> bool: ...

    def is_recorded(self, service: str, name: str) -> bool: ...

    def reaches(self) -> list[int]: ...

    def send(self, peer: int, frame: Frame) -> None: ...

    def service_index(self, service: str) -> int: ...


@dataclass(eq=False)
class ClientSession:
    """The connections, requests and leases of one client process."""

    key: str
    label: str
    who: tuple[str, ...] = ()  # names by which rules know the client
    # its connections, and the requests made on each
    connections: dict[LineSender, set[ClientRequest]] = field(default_factory=dict)
    requests: dict[int, ClientRequest] = field(default_factory=dict)
    holding: dict[int, ClientRequest] = field(default_factory=dict)  # requests that were granted
    # requests, and the names of their locks that are not requested yet
    postponed: deque[tuple[ClientRequest, tuple[str, ...]]] = field(default_factory=deque)
    window: RequestWindow = field(default_factory=RequestWindow)
    asked: int = 0  # locks that the algorithm requests for it
    is_starting: bool = False  # requests that were postponed
    next_look: Alarm | None = None  # for room in the window
    locks: int = 0  # locks that it waits for or holds
    watches: int = 0
    at: int = 0  # latest time on the client's clock that was received
    heard_us: int = 0  # when it was received, on the clock of this node
    expiry: Alarm | None = None  # checks its leases
    heartbeat_connection: LineSender | None = None  # where its last heartbeat arrived
    losses: dict[int, str] = field(default_factory=dict)  # to be told there, with the reasons
    cut_off_us: int = 0  # when its last connection closed
    ended: Callable[[], None] = _nothing

    def room(self, now_us: int, wanted: int) -> int:
        """Return how many locks may be requested for it now.

        wanted: by one request.  If that needs one of several, and nothing else is under way, many
            are requested at once: some are held, perhaps.
        """
        room = self.window.room(now_us)
        if wanted > 1 and room == self.window.size:
            room = max(room, WIDEST)
        return min(room, MOST_ACTIVE - self.asked - len(self.holding))


class ClientRequest:
    """A request of a client for one of several locks, from its arrival to its release.

    keeps: the client caches the lease, and gives it back when another waits.
    """

    def __init__(  # not that of a dataclass, which is never compiled
        self,
        session: ClientSession,
        connection: LineSender,
        id: int,
        service: str,
        names: tuple[str, ...],
        lease_us: int | None,
        keeps: bool,
    ) -> None:
        self.session = session
        self.connection = connection
        self.id = id
        self.service = service
        self.names = names
        self.lease_us = lease_us
        self.keeps = keeps
        self.is_wanted_sent = False  # the client was notified that another waits
        self.queued_locks: list[LocalLock] = []  # where it waits
        self.is_over = False
        self.is_released = False  # by its client
        self.held_lock: LocalLock | None = None
        self.token: int | None = None
        self.origin = NOWHERE  # of a lock that was claimed
        self.since_us = session.heard_us  # when it arrived, then when it was granted
        self.time_out: Alarm | None = None  # while it waits
        self.is_due = False  # its short timeout is over; it ends when all its locks are held
        self.held_elsewhere: set[str] = set()  # the names of those that other nodes' clients hold

    @property
    def is_waiting(self) -> bool:
        return self.held_lock is None and not self.is_over


@dataclass(eq=False)
class LocalLock:
    """A lock as the clients of this node see it: the queue and the holder among them."""

    service: str
    name: str
    process: LocalProcess  # the participant of this node
    ticket_of: Callable[[int], str] | None = None  # where clients can take the lock along
    queue: OrderedDict[ClientRequest, None] = field(default_factory=OrderedDict)
    holder: ClientRequest | None = None
    claim: ClientRequest | None = None  # of a client that held the lock at another node
    claimed: int | None = None  # the token by which the participant claims the lock
    claimed_from: Origin = NOWHERE  # of that claim
    claimed_held_us: int = 0  # for how long no other client may get the lock by it
    departed: ClientRequest | None = None  # the last one that left for another node
    held_until_us: int = 0  # no other client may get the lock before
    held_back: Alarm | None = None  # released, but no other client may get it yet
    released: ClientRequest | None = None  # the one that has released it, while it is held back
    is_requested: bool = False  # the participant was asked to acquire
    asked_for: ClientSession | None = None  # whose request the participant has passed on
    is_used: bool = True  # since the last sweep
    # requests that were withdrawn, whose grants may still wait for an fsync
    withdrawing: int = 0
    reserved_for: str = ""  # label of the client to which it was transferred
    reservation_end: Alarm | None = None
    unsubscribe: Callable[[], None] = _nothing  # from the indications of the instance

    @property
    def key(self) -> tuple[str, str]:
        return self.service, self.name

    def leave_instance(self) -> None:
        """End the subscription; it refers to this lock, and would keep it alive (`garbage`)."""
        self.unsubscribe()
        self.unsubscribe = _nothing


class LockQueues:
    """The sessions, requests and leases of all clients of one node."""

    def __init__(self, node: Host, timers: Timers, slices: TimeSlicer) -> None:
        self._node = node
        self._me = node.me
        self._timers = timers
        self._slices = slices
        self._local_locks: dict[tuple[str, str], LocalLock] = {}
        self._sessions: dict[str, ClientSession] = {}
        self._requests = 0
        self._closed: dict[str, str] = {}  # services that are unavailable here, and why
        self._kinds: dict[str, type[Any]] = {
            each.name: type(next(iter(each.system.plans.values()))) for each in node.services
        }
        self._locks = [name for name, kind in self._kinds.items() if issubclass(kind, Mutex)]
        self._leases_us: dict[str, int | None] = {
            each.name: getattr(next(iter(each.system.plans.values())), "lease", 0) or None
            for each in node.services
        }
        # services whose algorithm says when a grant expires
        self._expiring = frozenset(
            name for name in self._locks if self._kinds[name].runs_out is not Mutex.runs_out
        )
        # services whose locks a client can take to another node
        self.movable = frozenset(
            each.name for each in node.services if _can_move(next(iter(each.system.plans.values())))
        )
        # services whose locks serve a few more clients of a node while others wait
        self._taking_turns = frozenset(
            each.name
            for each in node.services
            if getattr(next(iter(each.system.plans.values())), "turns", 0)
        )
        self._leaving = ""  # the reason why clients are asked to move
        self.releases_on_disconnect = False  # whether the end of a connection releases its locks
        self.stay_claims = Claims(node, self, timers)
        self.changed: Callable[[str, str], None] = _nothing
        self.transferred: Callable[[str, str, str], None] = _nothing
        self.asked_about: Callable[[str, str], None] = _nothing
        self.lost: Callable[[ClientRequest, str, str], None] = _nothing  # with cause and reason
        self.meter: Meter | None = None

    # Sessions.

    def join(
        self, connection: LineSender, label: str, key: str | None, who: tuple[str, ...] = ()
    ) -> ClientSession | None:
        """Return a new session, or the one with this key; None if that has ended, or belongs to a
        client that is known by other names.
        """
        if key is None:
            key = os.urandom(16).hex()
            self._sessions[key] = ClientSession(key, label, who)
        session = self._sessions.get(key)
        if session is None or session.who != who:
            return None
        session.connections[connection] = set()
        return session

    def leave(self, connection: LineSender, session: ClientSession) -> None:
        """End the requests that wait on a connection that has closed.  What was granted there stays
        lent to the session.
        """
        requests = session.connections.pop(connection)
        if session.heartbeat_connection is connection:
            session.heartbeat_connection = None
        if not session.connections:
            self._timers.cancel(session.next_look)
            session.postponed.clear()
            self._cut_off(session)
        ending = sorted(requests, key=lambda request: request.id)
        if not self.releases_on_disconnect:
            ending = [request for request in ending if request.held_lock is None]
        self._slices.run(session, self._end_all(ending))

    def _cut_off(self, session: ClientSession) -> None:
        """Keep a session without connections for as long as it has requests."""
        session.cut_off_us = self._timers.now_us()
        self._drop_if_over(session)
        for request in session.holding.values():
            until_us = self._lent_until_us(request)
            if until_us is not None:
                self._schedule_expiry(session, until_us)

    def _drop_if_over(self, session: ClientSession) -> None:
        if not (session.connections or session.requests):
            self._sessions.pop(session.key, None)
            self._timers.cancel(session.expiry)
            session.ended()

    def end(self, session: ClientSession) -> None:
        """End all requests of a session, after a goodbye or the end of the client's process."""
        requests = list(session.requests.values())
        self._slices.run(session, self._end_all(requests, is_abrupt=False))

    def _end_all(self, requests: list[ClientRequest], *, is_abrupt: bool = True) -> Iterator[None]:
        for request in requests:
            self._end(request, is_abrupt=is_abrupt)
            yield

    def hear(self, session: ClientSession, at: int) -> None:
        if at >= session.at:
            session.at, session.heard_us = at, self._timers.turn_us()

    def alive(self, connection: LineSender, session: ClientSession, at: int) -> None:
        self.hear(session, at)
        session.heartbeat_connection = connection
        if session.losses:  # before the answer, which shows them without a reason
            for id, why in session.losses.items():
                connection.send("lost", id, why)
            session.losses.clear()
        held = [
            (request, request.held_lock)
            for request in session.holding.values()
            if request.held_lock is not None
        ]
        connection.send(
            "alive",
            at,
            [(request.id, _in_ms(self._lease_left_us(request, lock))) for request, lock in held],
        )
        for request, _ in held:
            if request.is_wanted_sent:
                connection.send("wanted", request.id)  # the first may have been lost
        if self._leaving and held:
            connection.send("leave", 0, self._leaving)

    # Requests.

    def request(
        self,
        connection: LineSender,
        session: ClientSession,
        id: int,
        service: str,
        names: list[str],
        timeout_us: int | None,
        lease_us: int | None,
        at: int,
        keeps: bool = False,
    ) -> None:
        self.hear(session, at)
        if service not in self._locks:
            connection.send(
                "refused",
                id,
                "unknown",
                f"no service {service!r} with locks; this cluster has"
                f" {', '.join(self._locks) or 'none'}",
            )
            return
        if id in session.requests:
            connection.send(
                "refused",
                id,
                "bad_request",
                f"request id {id} is in use; use each id once per session",
            )
            return
        if service in self._closed:
            connection.send("refused", id, "unavailable", self._closed[service])
            return
        wanted = (names[0],) if len(names) == 1 else tuple(dict.fromkeys(names))
        refusal = self._refusal(session, service, wanted, lease_us)
        if refusal is not None:
            connection.send("refused", id, *refusal)
            return
        request = session.requests[id] = ClientRequest(
            session, connection, id, service, wanted, lease_us, keeps
        )
        session.connections[connection].add(request)
        session.locks += len(wanted)
        self._requests += 1
        if timeout_us is not None:
            longest_us = max(timeout_us, TRY_US)
            request.time_out = self._timers.set(longest_us, partial(self._time_out, request))
        if (
            session.postponed
            or session.asked >= NARROWEST
            or len(session.holding) >= MOST_ACTIVE - NARROWEST
            or len(wanted) > NARROWEST
        ) and self._has_to_wait(session, service, wanted):
            session.postponed.append((request, wanted))
            self._start_postponed(session)
        elif len(wanted) == 1:
            self._queue_at(request, wanted[0])
        else:
            self._slices.run(session, self._queue_at_all(request, wanted))
        if timeout_us is not None and timeout_us < TRY_US and request.is_waiting:
            if timeout_us == 0:
                self._be_due(request)
            else:
                self._timers.set(timeout_us, partial(self._be_due, request))

    def _has_to_wait(self, session: ClientSession, service: str, names: tuple[str, ...]) -> bool:
        """Return whether a request waits until fewer locks are requested for its client."""
        if not session.postponed and len(names) <= session.room(self._timers.turn_us(), len(names)):
            return False
        return not all(self._is_active(service, name) for name in names)

    def _is_active(self, service: str, name: str) -> bool:
        """Return whether the participant requests a lock, or has it: one more client that waits for
        it costs no message.
        """
        lock = self._local_locks.get((service, name))
        return lock is not None and (lock.is_requested or lock.holder is not None)

    def _start_postponed(self, session: ClientSession) -> None:
        """Request as many of the postponed locks as may be requested."""
        if not session.is_starting:  # because of a request that was granted at once
            session.is_starting = True
            self._slices.run(session, self._starts(session))

    def _starts(self, session: ClientSession) -> Iterator[None]:
        try:
            while session.postponed:
                request, names = session.postponed[0]
                room = session.room(self._timers.now_us(), len(names))
                if room <= 0:
                    break
                session.postponed.popleft()
                if len(names) > room and request.is_waiting:
                    session.postponed.appendleft((request, names[room:]))
                yield from self._queue_at_all(request, names[:room])
        finally:
            session.is_starting = False
        if session.postponed and (session.next_look is None or not session.next_look.is_set):
            # The client may release a lock, and what is under way may remain unanswered.
            session.next_look = self._timers.set(LOOK_US, partial(self._start_postponed, session))

    def _pass_on(self, lock: LocalLock) -> None:
        """Note that the participant requests the lock for the first in the queue."""
        session = next(iter(lock.queue)).session
        lock.asked_for = session
        session.asked += 1
        session.window.send(lock, self._timers.turn_us())

    def _end_asking(self, lock: LocalLock, *, is_answered: bool) -> None:
        """Note that the participant does not request the lock any more."""
        session, lock.asked_for = lock.asked_for, None
        if session is None:
            return
        session.asked -= 1
        if is_answered:
            session.window.answer(lock, self._timers.turn_us())
        else:
            session.window.withdraw(lock)
        if session.postponed:
            self._start_postponed(session)

    def _refusal(
        self, session: ClientSession, service: str, names: tuple[str, ...], lease_us: int | None
    ) -> tuple[str, str] | None:
        """Return why the request is refused, as a code and a sentence; None if it is not."""
        if not names:
            return "bad_request", "request names no lock; name at least one"
        longest_us = self._leases_us[service]
        if lease_us is not None and longest_us is not None and lease_us > longest_us:
            return (
                "bad_request",
                f"lease of {lease_us / 1e6:g} s is longer than that of service {service!r}"
                f" ({longest_us / 1e6:g} s); ask for a shorter one, or configure a longer one at"
                " the nodes",
            )
        if self._requests >= MOST_REQUESTS:
            return (
                "full",
                f"this node has {self._requests} requests, its limit; use another node",
            )
        if session.locks + len(names) > MOST_LOCKS_PER_CLIENT:
            has = (
                f"this client waits for or holds {session.locks} locks and requests {len(names)}"
                " more"
            )
            return "full", f"{has}; the limit for one client is {MOST_LOCKS_PER_CLIENT}"
        try:
            for name in names:
                check_name(name)
        except ValueError as reason:
            return "bad_request", str(reason)
        return None

    def _queue_at_all(self, request: ClientRequest, names: tuple[str, ...]) -> Iterator[None]:
        """Enter one queue after another, until one of the locks is granted."""
        for name in names:
            if not request.is_waiting:
                return
            self._queue_at(request, name)
            yield

    def _queue_at(self, request: ClientRequest, name: str) -> None:
        try:
            lock = self._local_locks.get((request.service, name)) or self._new_lock(
                request.service, name
            )
        except RuntimeError as reason:  # instance limit reached, instance failed, or node stopping
            word = "unavailable" if isinstance(reason, NodeStopped) else "full"
            request.connection.send("refused", request.id, word, str(reason))
            self._end(request)
            return
        request.queued_locks.append(lock)
        lock.queue[request] = None
        lock.is_used = True
        self._request_if_needed(lock)
        holder = lock.holder
        if holder is not None and holder.keeps and holder is not request:
            self._send_wanted(holder)

    def release(self, session: ClientSession, id: int) -> None:
        request = session.requests.get(id)
        if request is not None:
            self._end(request, is_abrupt=False)

    # Clients that move.

    def claim(
        self,
        connection: LineSender,
        session: ClientSession,
        id: int,
        service: str,
        name: str,
        token: int,
        shown: int,
        lease_us: int | None,
        at: int,
        keeps: bool,
        ticket: str,
    ) -> None:
        """Let a client go on with a lock that it holds at another node, by the token and the ticket
        of the grant there.
        """
        self.hear(session, at)
        if service not in self.movable:
            refusal = ("unknown", f"no service {service!r} whose locks can be moved between nodes")
            connection.send("refused", id, *refusal)
        elif id in session.requests:
            why = f"request id {id} is in use; use each id once per session"
            connection.send("refused", id, "bad_request", why)
        elif service in self._closed:
            connection.send("refused", id, "unavailable", self._closed[service])
        elif (found := self._refusal(session, service, (name,), lease_us)) is not None:
            connection.send("refused", id, *found)
        else:
            request = ClientRequest(session, connection, id, service, (name,), lease_us, keeps)
            session.requests[id] = request
            session.connections[connection].add(request)
            session.locks += 1
            self._requests += 1
            self.stay_claims.begin(request, name, token, shown, ticket)

    def refuse_claim(
        self, request: ClientRequest, word: str = "lost", why: str = OVERTAKEN
    ) -> None:
        if not request.is_over:
            request.connection.send("refused", request.id, word, why)
            self._forget(request)

    def claim_loan(
        self, request: ClientRequest, name: str, shown: int, stay: StayAnswer, origin: Origin
    ) -> None:
        """Claim the loan by which a client holds a lock.  If the client has released the lock in
        the meantime, claim it to release it.
        """
        if request.is_over and not request.is_released:
            return
        try:
            lock = self._local_locks.get((request.service, name)) or self._new_lock(
                request.service, name
            )
        except RuntimeError as reason:  # instance limit reached, instance failed, or node stopping
            self.refuse_claim(request, "unavailable", str(reason))
            return
        if lock.process.deferred_requests is not None or lock.claimed is not None:
            why = f"node {self._me} cannot take over lock {name!r} yet"
            self.refuse_claim(request, "unavailable", why)
            return
        if lock.holder is not None:
            self.refuse_claim(request)
            return
        lock.claimed, lock.claimed_from, lock.claimed_held_us = stay.token, origin, stay.held_us
        if not request.is_over:
            request.token = stay.token
            request.queued_locks = [lock]
            lock.claim = request
        lock.is_used = True
        self._make_request(lock, "claim", arguments=(*token_of(stay.token), *token_of(shown)))

    def let_go(
        self,
        service: str,
        name: str,
        token: int,
        ticket: str,
        claim: ClientRequest | None = None,
    ) -> StayAnswer:
        """Let a stay go to another node if it is on here.  Return what is known of it.

        claim: a claim at this node, which goes on with the stay here.
        """
        origin = node_of(ticket), token
        is_valid = self.stay_claims.tickets.is_valid(ticket, service, name, token)
        if not is_valid:
            return StayAnswer()
        lock = self._local_locks.get((service, name))
        is_own = self.stay_claims.tickets.is_own(ticket, service, name, token)
        over = StayAnswer(GONE) if is_own else StayAnswer()
        if lock is None:
            return over
        is_moving = lock.departed is not None and self._is_moving(lock)
        released = None if lock.held_back is None else lock.released
        stay = lock.holder or released or (lock.departed if is_moving else None)
        if stay is None or stay.token is None or not self._is_by(stay, origin):
            return over
        if stay is released and stay.origin[1] == token:
            return StayAnswer(GONE)
        answer = StayAnswer(HERE, stay.token, max(0, lock.held_until_us - self._timers.now_us()))
        if claim is not None and stay is lock.departed:
            self.refuse_claim(claim, "unavailable", f"lock {name!r} is leaving node {self._me}")
        elif stay is not lock.departed:
            self._hand_over(lock, stay, origin, claim)
        return answer

    def _is_by(self, stay: ClientRequest, origin: Origin) -> bool:
        """Return whether a stay is the one that began there, or an earlier one by the same loan,
        which was claimed on trust: then it has been over before.
        """
        node, token = origin
        if node == self._me:
            return stay.token == token
        return stay.origin[0] == node and stay.origin[1] <= token

    def _hand_over(
        self, lock: LocalLock, stay: ClientRequest, origin: Origin, claim: ClientRequest | None
    ) -> None:
        """Let a stay go to another node, or on with a claim at this one."""
        self._timers.cancel(lock.held_back)
        lock.held_back = lock.released = None
        if lock.holder is not None:
            if stay.origin[1] < origin[1] and origin[0] != self._me:
                self._lose(stay, "failed", OVERTAKEN)
            else:
                self._forget(stay)
            lock.holder = None
        if claim is None:
            lock.departed = stay
            self.changed(lock.service, lock.name)
            self._make_request(lock, "move", arguments=(0,))
            self._request_if_needed(lock)
        else:
            claim.origin = origin
            claim.queued_locks = [lock]
            self._hold(lock, claim, stay.token)

    def _end_claim(self, lock: LocalLock, *, is_abrupt: bool) -> None:
        """End a claim that is not answered yet.

        A client that releases the lock does not need it any more: then it is released when the
        claim is granted.  Else it would stay lent to the node that the client has left, until the
        lease has expired.  A client that is gone may claim it elsewhere: its claim is withdrawn.
        """
        lock.claim = None
        if is_abrupt:
            lock.claimed = None
            lock.withdrawing += 1
            self._make_request(lock, "release", lambda: self._withdrawn(lock))

    def _refuse_claim(self, lock: LocalLock) -> None:
        request, lock.claim, lock.claimed = lock.claim, None, None
        if request is not None:
            self.refuse_claim(request)

    def move(self, session: ClientSession, id: int) -> None:
        """Let a client take its lock to another node.  No other one gets it here by this grant."""
        request = session.requests.get(id)
        if request is None or request.held_lock is None or request.service not in self.movable:
            return
        self._hand_over(request.held_lock, request, NOWHERE, None)

    def ask_to_move(self, why: str) -> None:
        """Ask all clients that hold a lock to take it to another node."""
        self._leaving = why
        for session in list(self._sessions.values()):
            if any(each.service in self.movable for each in session.holding.values()):
                for connection in list(session.connections):
                    connection.send("leave", 0, why)

    @staticmethod
    def _is_moving(lock: LocalLock) -> bool:
        return bool(getattr(lock.process.pure.parts[0], "moving", False))

    def transfer(self, session: ClientSession, id: int, label: str) -> None:
        """Release the lock and reserve it for the client with this label for `TRANSFER_US`."""
        request = session.requests.get(id)
        if request is None or request.held_lock is None:
            return
        lock = request.held_lock
        self.reserve(lock.service, lock.name, label)
        self.transferred(lock.service, lock.name, label)
        self._end(request, is_abrupt=False)

    def reserve(self, service: str, name: str, label: str) -> None:
        lock = self._local_locks.get((service, name))
        if lock is not None:
            lock.reserved_for = label
            self._timers.cancel(lock.reservation_end)
            lock.reservation_end = self._timers.set(
                TRANSFER_US, partial(self._end_reservation, lock)
            )

    def _end_reservation(self, lock: LocalLock) -> None:
        lock.reserved_for = ""
        self._request_if_needed(lock)

    def force(self, service: str, name: str) -> dict[str, Any]:
        """Take a lock from the client of this node that holds it; otherwise make the algorithm
        reclaim it from its holder.
        """
        if service not in self._locks:
            return {"taken": None, "reclaims": False}
        lock = self._local_locks.get((service, name))
        if lock is not None and lock.holder is not None:
            holder = lock.holder
            self._lose(holder, "forced", "released by an operator (habemus release --force)")
            self.changed(service, name)
            self._make_request(lock, "release")
            self._return_unused(lock)  # another node may make the coordinator reclaim it
            self._request_if_needed(lock)
            return {"taken": holder.session.label, "reclaims": True}
        if lock is not None and lock.held_back is not None:
            self._end_holding_back(lock)
        reclaims = "reclaim" in self._kinds[service].__behaviour__.requests
        if reclaims:
            self._node.make_request(service, name, "reclaim")
        return {"taken": None, "reclaims": reclaims}

    def note_write(self, service: str, name: str, token: int) -> None:
        """Record that a client has written to the resource, as an event of the local process."""
        if service in self._locks and self._node.is_recorded(service, name):
            self._node.make_request(service, name, "write", *token_of(token))

    def _be_due(self, request: ClientRequest) -> None:
        """Refuse a request whose short timeout is over, as soon as all its locks are known to be
        held; ask the other nodes.
        """
        if not request.is_waiting:
            return
        request.is_due = True
        if not self._refuse_if_held(request) and len(request.queued_locks) <= MOST_TRIED:
            for lock in request.queued_locks:
                if not self._is_held(lock):
                    self.asked_about(lock.service, lock.name)

    def _refuse_if_held(self, request: ClientRequest) -> bool:
        if len(request.queued_locks) < len(request.names):
            return False
        for lock in request.queued_locks:
            if not (self._is_held(lock) or lock.name in request.held_elsewhere):
                return False
        self._time_out(request)
        return True

    @staticmethod
    def _is_held(lock: LocalLock) -> bool:
        """Return whether a client of this node holds the lock, and does not only keep it."""
        return lock.holder is not None and not lock.holder.keeps

    def note_held(self, service: str, name: str) -> None:
        """Take in that a client of another node holds a lock."""
        lock = self._local_locks.get((service, name))
        if lock is None:
            return
        for request in [each for each in lock.queue if each.is_due]:
            request.held_elsewhere.add(name)
            self._refuse_if_held(request)

    def is_held(self, service: str, name: str) -> bool:
        """Return whether a client of this node holds a lock, and does not only keep it."""
        lock = self._local_locks.get((service, name))
        return lock is not None and self._is_held(lock)

    def _time_out(self, request: ClientRequest) -> None:
        name = request.names[0] + (", ..." if len(request.names) > 1 else "")
        why = f"timed out waiting for lock {name!r}"
        request.connection.send("refused", request.id, "timeout", why)
        self._end(request)

    def close(self, service: str, why: str) -> None:
        """Refuse waiting and new requests, so that clients use another node.  Holders stay."""
        self._closed[service] = why
        self._slices.run(self, self._refuse_all(service, why))

    def _refuse_all(self, service: str, why: str) -> Iterator[None]:
        for session in list(self._sessions.values()):
            for request in list(session.requests.values()):
                if service not in self._closed:
                    return
                if request.is_waiting and request.service == service:  # ending one may end others
                    request.connection.send("refused", request.id, "unavailable", why)
                    self._end(request)
                elif request.held_lock is not None and request.keeps:
                    self._send_wanted(request)  # a cached lease would never be given back
                yield

        for lock in list(self._local_locks.values()):
            if lock.service == service and lock.holder is None:
                self._return_unused(lock)

    def reopen(self, service: str) -> None:
        self._closed.pop(service, None)

    def _end(self, request: ClientRequest, *, is_abrupt: bool = True) -> None:
        """End the request: leave the queues, or release the lock that it holds."""
        if request.is_over:
            return  # the failure of its instance has ended it already
        request.is_released = not is_abrupt
        self._forget(request)
        if request.time_out is not None:
            self._timers.cancel(request.time_out)
        lock = request.held_lock
        if lock is not None:
            if lock.queue and not is_abrupt:
                self._line_up(lock, request)
            lock.holder = None
            lock.released = request if lock.held_until_us else None
            self._leave(lock, is_abrupt=is_abrupt)
        elif request.queued_locks and request.queued_locks[0].claim is request:
            self._end_claim(request.queued_locks[0], is_abrupt=is_abrupt)
        else:
            self._slices.run(request.session, self._stop_waiting(request, request.queued_locks))

    def _line_up(self, lock: LocalLock, leaving: ClientRequest) -> None:
        """Let the next client of this node have the lock before those of other nodes, if the
        algorithm allows one more.
        """
        if (
            lock.service in self._taking_turns
            and not lock.reserved_for
            and self._timers.turn_us() - leaving.since_us <= SHORT_STAY_US
            and cast(Mutex, lock.process.pure.parts[0]).is_wanted()
        ):
            self._make_request(lock, "line_up")

    def _forget(self, request: ClientRequest) -> None:
        session = request.session
        request.is_over = True
        if self.meter is not None and request.held_lock is not None:
            self.meter.ended(request.service, self._timers.now_us() - request.since_us)
        del session.requests[request.id]
        session.holding.pop(request.id, None)
        session.locks -= len(request.names)
        on_connection = session.connections.get(request.connection)
        if on_connection is not None:
            on_connection.discard(request)
        self._requests -= 1
        if not session.connections:
            self._drop_if_over(session)

    def _stop_waiting(
        self, request: ClientRequest, queued_locks: list[LocalLock]
    ) -> Iterator[None]:
        """Leave the queues.  A grant that comes meanwhile skips this request (`_next`)."""
        for lock in queued_locks:
            if request in lock.queue:
                del lock.queue[request]
                if not lock.queue:
                    self._withdraw(lock)
            yield

    # Locks.

    def _new_lock(self, service: str, name: str) -> LocalLock:
        lock = LocalLock(service, name, self._node.participant(service, name))
        if service in self.movable:
            lock.ticket_of = self.stay_claims.tickets.maker(service, name)
        lock.unsubscribe = self._node.subscribe(service, name, partial(self._on_indication, lock))
        self._local_locks[service, name] = lock
        return lock

    def sweep(self) -> Iterator[None]:
        """Give back and drop locks that were not used since the last call: most are used again
        soon.
        """
        for lock in list(self._local_locks.values()):
            # a lock on its way to another node, too: a node that shuts down waits for it
            moves = lock.claimed is not None or self._is_moving(lock) or lock.held_back is not None
            if lock.queue or lock.is_requested or lock.holder or lock.withdrawing or moves:
                lock.is_used = True
            elif lock.is_used:
                lock.is_used = False
            elif not lock.reserved_for:
                self._return_unused(lock)
                if self._local_locks.get(lock.key) is lock:
                    del self._local_locks[lock.key]
                self._timers.cancel(lock.reservation_end)
                lock.leave_instance()
            yield

    def _request_if_needed(self, lock: LocalLock) -> None:
        """Make the participant acquire the lock, if requests wait and none holds it."""
        if lock.queue and not lock.is_requested and lock.holder is None and lock.held_back is None:
            lock.is_requested = True
            if self._node.is_late(lock.process) and self._node.left_us(lock.process) == 0:
                # The lock stayed with this node by a lease that has expired, and the timer is late.
                self._return_unused(lock)
            self._make_request(lock, "acquire")
            if lock.is_requested and lock.queue:  # it was not granted at once
                self._pass_on(lock)

    def _return_unused(self, lock: LocalLock) -> None:
        """Make the participant give back a lock that stayed with it, unless a client holds it."""
        if "return_unused" in self._kinds[lock.service].__behaviour__.requests:
            self._make_request(lock, "return_unused")

    def _make_request(
        self,
        lock: LocalLock,
        operation: str,
        on_done: Callable[[], None] | None = None,
        arguments: tuple[Any, ...] = (),
    ) -> None:
        try:
            self._node.make_request_of(lock.process, operation, arguments, on_done)
        except RuntimeError as reason:  # instance failed or node stopping
            self.give_up(lock.service, lock.name, str(reason))

    def give_up(self, service: str, name: str, why: str) -> None:
        """End all requests for the lock of an instance that has failed."""
        lock = self._local_locks.pop((service, name), None)
        if lock is None:
            return
        lock.leave_instance()
        self._end_asking(lock, is_answered=False)
        self._timers.cancel(lock.held_back)
        lock.held_back = None
        if lock.holder is not None:
            self._lose(lock.holder, "failed", why)
        self._refuse_claim(lock)
        while lock.queue:
            request = lock.queue.popitem(last=False)[0]
            if request.is_waiting:
                request.connection.send("refused", request.id, "stopped", why)
                self._end(request)

    def _withdraw(self, lock: LocalLock) -> None:
        """Withdraw the participant's request when the queue is empty.  Where the algorithm cannot
        withdraw, the grant is released when it comes.
        """
        if (
            lock.is_requested
            and lock.holder is None
            and lock.claimed is None
            and self._kinds[lock.service].withdraws
        ):
            lock.is_requested = False
            lock.withdrawing += 1
            self._make_request(lock, "release", lambda: self._withdrawn(lock))
            self._end_asking(lock, is_answered=False)
        self._request_if_needed(lock)

    @staticmethod
    def _withdrawn(lock: LocalLock) -> None:
        """Count the withdrawal as done: indications before the release have been delivered."""
        lock.withdrawing -= 1

    def _leave(self, lock: LocalLock, *, is_abrupt: bool = False) -> None:
        """Release a lock.

        is_abrupt: the client did not release it, and may claim it at another node; so no other
            client gets it here by the same grant.
        """
        self.changed(lock.service, lock.name)
        held_us = lock.held_until_us - self._timers.turn_us() if lock.held_until_us else 0
        if held_us > 0:
            lock.held_back = self._timers.set(held_us, partial(self._end_holding_back, lock))
            return
        if is_abrupt and lock.service in self.movable:
            self._make_request(lock, "break_off", arguments=(0,))
        else:
            self._make_request(lock, "release")
        if lock.service in self._closed:
            self._return_unused(lock)
        self._request_if_needed(lock)

    def _end_holding_back(self, lock: LocalLock) -> None:
        """Give a lock on that was claimed on trust: all stays by the former loan have ended."""
        self._timers.cancel(lock.held_back)
        lock.held_back = lock.released = None
        lock.held_until_us = 0
        self._leave(lock)

    def _on_indication(self, lock: LocalLock, process: ProcessId, indication: Indication) -> None:
        if process != self._me:
            return
        if isinstance(indication, GrantedWithToken):  # the most frequent one first
            self._grant(lock, number_of(indication.token))
        elif isinstance(indication, Granted):
            self._grant(lock, None)
        elif isinstance(indication, LockLostWithToken):
            holder = lock.holder
            if lock.claimed == number_of(indication.token):
                self._refuse_claim(lock)
            elif lock.held_back is not None:  # the loan of this node has ended, and was not renewed
                self._timers.cancel(lock.held_back)
                lock.held_back = lock.released = None
                self._request_if_needed(lock)
            elif holder is not None and holder.token == number_of(indication.token):
                self._lose(
                    holder,
                    "not_renewed",
                    "lease expired: the node could not renew it with the coordinator",
                )
                self.changed(lock.service, lock.name)
                self._request_if_needed(lock)
        elif isinstance(indication, ResumedWithToken):
            request, lock.claim, lock.claimed = lock.claim, None, None
            lock.held_until_us = self._timers.now_us() + lock.claimed_held_us
            if request is not None:
                request.origin = lock.claimed_from
                self._hold(lock, request, number_of(indication.loan))
            elif not lock.withdrawing:
                self._leave(lock)  # the client that has claimed it has left, or released it

    def _grant(self, lock: LocalLock, token: int | None) -> None:
        """Give the grant of the participant to the first request in the queue.  Ignore a grant that
        was withdrawn meanwhile.
        """
        if not lock.is_requested or lock.withdrawing:
            return
        lock.is_requested = False
        request = self._next(lock)
        if request is None:
            self._make_request(lock, "release")
            self._end_asking(lock, is_answered=True)
            if not lock.reserved_for:
                self._request_if_needed(lock)
            return
        lock.reserved_for = ""
        lock.held_until_us = 0
        if self.meter is not None:
            self.meter.granted(lock.service, self._timers.now_us() - request.since_us)
        self._hold(lock, request, token)
        if lock.asked_for is not None:
            self._end_asking(lock, is_answered=True)

    def _hold(self, lock: LocalLock, request: ClientRequest, token: int | None) -> None:
        """Give the lock to a client."""
        lock.holder = request
        request.held_lock, request.token, request.since_us = lock, token, self._timers.turn_us()
        request.session.holding[request.id] = request
        if len(request.names) > 1:
            self._keep_one(request, lock)
        if request.time_out is not None:
            self._timers.cancel(request.time_out)
        if request.lease_us is not None:
            self._schedule_expiry(request.session, request.since_us + request.lease_us)
        left_ms = _in_ms(self._lease_left_us(request, lock))
        granted = ("granted", request.id, token, left_ms, request.session.at, lock.name)
        if lock.ticket_of is not None and token is not None:
            request.connection.send(*granted, lock.ticket_of(token))
        else:
            request.connection.send(*granted)
        if request.keeps:
            self._watch_for_waiters(request, lock)
        self.changed(lock.service, lock.name)

    def _watch_for_waiters(self, request: ClientRequest, lock: LocalLock) -> None:
        def look() -> None:
            if lock.holder is not request:
                instance.after_delivery = None
            elif lock.queue or mutex.is_wanted():
                self._send_wanted(request)

        instance = lock.process.instance
        mutex = cast(Mutex, lock.process.pure.parts[0])
        instance.after_delivery = look
        look()

    @staticmethod
    def _send_wanted(holder: ClientRequest) -> None:
        if not holder.is_wanted_sent:
            holder.is_wanted_sent = True
            (holder.session.heartbeat_connection or holder.connection).send("wanted", holder.id)

    @staticmethod
    def _next(lock: LocalLock) -> ClientRequest | None:
        """Remove and return the request that is granted next."""
        label = lock.reserved_for
        if label:
            found = next(
                (
                    request
                    for request in lock.queue
                    if request.session.label == label and request.is_waiting
                ),
                None,
            )
            if found is not None:
                del lock.queue[found]
            return found
        while lock.queue:
            request = lock.queue.popitem(last=False)[0]
            if request.is_waiting:
                return request
        return None

    def _keep_one(self, request: ClientRequest, lock: LocalLock) -> None:
        """Keep the granted lock of a request for several, and leave the queues of the others."""
        others = [each for each in request.queued_locks if each is not lock]
        request.session.locks -= len(request.names) - 1
        request.names, request.queued_locks = (lock.name,), [lock]
        self._slices.run(request.session, self._stop_waiting(request, others))

    # Leases.

    def _lease_left_us(self, request: ClientRequest, lock: LocalLock) -> int | None:
        """Time until the lease expires if it is not renewed; None if it does not expire."""
        lease = request.lease_us
        left = self._node.left_us(lock.process) if lock.service in self._expiring else None
        if left is None or lease is None:
            return lease if left is None else left
        return min(left, lease)

    def _schedule_expiry(self, session: ClientSession, until_us: int) -> None:
        """Schedule one check for all leases of the session: a client that acquires and releases in
        a loop costs one timer per lease time.
        """
        expiry = session.expiry
        if expiry is None or not expiry.is_set or until_us < expiry.deadline:
            self._timers.cancel(expiry)
            session.expiry = self._timers.set(
                max(0, until_us - self._timers.now_us()), partial(self._expire_leases, session)
            )

    def _lent_until_us(self, request: ClientRequest) -> int | None:
        """Return when a lease ends if nothing more is received from its client; None if never."""
        session = request.session
        if request.lease_us is not None:
            return max(session.heard_us, request.since_us) + request.lease_us
        if session.connections:
            return None
        return session.cut_off_us + (self._leases_us[request.service] or CUT_OFF_US)

    def _expire_leases(self, session: ClientSession) -> None:
        """End the leases of a session from which nothing was received for their lease time."""
        now = self._timers.now_us()
        for request in list(session.holding.values()):
            lock, until_us = request.held_lock, self._lent_until_us(request)
            if lock is None or until_us is None or request.is_over:
                continue
            if until_us <= now:
                why = "the connection of the client has ended, and it has not returned"
                if request.lease_us is not None:
                    why = f"no heartbeat from the client for {request.lease_us / 1e6:g} s"
                self._lose(request, "no_heartbeat", f"lease expired: {why}")
                self._leave(lock, is_abrupt=True)
            else:
                self._schedule_expiry(session, until_us)

    def _lose(self, request: ClientRequest, cause: str, why: str) -> None:
        """End a lease, and notify its client."""
        lock = request.held_lock
        assert lock is not None
        lock.holder = None
        lock.released = request if lock.held_until_us else None
        self._forget(request)
        self.lost(request, cause, why)
        session = request.session
        if session.heartbeat_connection is None and len(session.losses) < MOST_LOSSES:
            session.losses[request.id] = why
        for connection in {request.connection, session.heartbeat_connection} - {None}:
            # None of them is None.
            connection.send("lost", request.id, why)  # type: ignore[union-attr]

    # Status.

    def status_of(self, service: str, name: str) -> LockStatus:
        lock = self._local_locks.get((service, name))
        if lock is None:
            return LockStatus()
        holder = lock.holder
        return (
            LockStatus(waiting=len(lock.queue))
            if holder is None
            else LockStatus(holder.session.label, holder.token, len(lock.queue))
        )

    def has_holders(self) -> bool:
        """Return whether a client holds a lock: here, or on its way to this node or another one."""
        return any(
            lock.holder is not None
            or lock.claimed is not None
            or lock.held_back is not None
            or self._is_moving(lock)
            for lock in self._local_locks.values()
        )

    def is_left(self) -> bool:
        """Return whether no client holds a lock here."""
        return not any(lock.holder is not None for lock in self._local_locks.values())

    def is_unused(self) -> bool:
        """Return whether no client holds a lock and no request of this node is pending."""
        return not any(
            lock.holder is not None
            or lock.is_requested
            or lock.withdrawing
            or lock.held_back is not None
            or lock.claimed is not None
            or self._is_moving(lock)
            for lock in self._local_locks.values()
        )

    def claims(self) -> int:
        """Return how many locks clients are taking to this node."""
        return sum(lock.claimed is not None for lock in self._local_locks.values())

    @property
    def locks(self) -> list[str]:
        """Names of the services that have locks."""
        return self._locks

    def table(self) -> Iterator[dict[str, Any] | None]:
        """Yield holder and waiters of each lock in use, for `habemus status`, and None after other
        small pieces of work.  Locks may change meanwhile.
        """
        for lock in list(self._local_locks.values()):
            if lock.holder is None and not lock.queue:
                yield None
                continue
            waiting: list[str] = []
            waited_ms: list[int] = []
            now_us = self._timers.now_us()
            for count, request in enumerate(list(lock.queue), 1):
                waiting.append(request.session.label)
                waited_ms.append((now_us - request.since_us) // 1_000)
                if count % STATUS_PIECE == 0:
                    yield None
            holder = lock.holder
            yield {
                "service": lock.service,
                "name": lock.name,
                "holder": None if holder is None else holder.session.label,
                "token": None if holder is None else holder.token,
                "held_ms": (
                    None if holder is None else (self._timers.now_us() - holder.since_us) // 1_000
                ),
                "waiting": waiting,
                "waited_ms": waited_ms,
            }

    def queue_lengths(self) -> Iterator[tuple[str, int, int]]:
        """Yield the service of each lock, its waiting requests, and the age of the oldest in us."""
        for lock in list(self._local_locks.values()):
            first = next(iter(lock.queue), None)
            waited_us = 0 if first is None else self._timers.now_us() - first.since_us
            yield lock.service, len(lock.queue), waited_us

    def sessions(self) -> int:
        return len(self._sessions)

    def clients(self) -> int:
        """Return how many sessions use locks.  Those that ask for statuses only are observers, such
        as `habemus top`.
        """
        return sum(each.at > 0 or each.watches > 0 for each in self._sessions.values())

    def outlasting_us(self, service: str) -> int:
        """Time after which all stays by a loan have ended that is not renewed any more, by a clock
        that is slower by at most a tenth.
        """
        lease_us = self._leases_us[service] or 0
        return lease_us + lease_us // 10

    def lease_us(self, service: str) -> int | None:
        """Longest lease of a service; None if its grants do not expire."""
        return self._leases_us.get(service)

    def kind(self, service: str) -> str:
        kind = self._kinds.get(service, object)
        return (
            "mutex"
            if issubclass(kind, Mutex)
            else "election"
            if issubclass(kind, Election)
            else "other"
        )


def _can_move(plan: object) -> bool:
    """Return whether clients can take the locks of an algorithm to another node, within a lease."""
    return (
        isinstance(plan, Mutex)
        and plan.can_move
        and bool(getattr(plan, "lease", 0))
        and getattr(plan, "recording", "") == "majority"
    )


def _in_ms(time_us: int | None) -> int | None:
    return None if time_us is None else time_us // 1_000

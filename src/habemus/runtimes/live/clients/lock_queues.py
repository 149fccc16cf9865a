"""The lock_queues of a node: where its clients queue for locks.

A node takes part in every lock once, however many clients it has.  They queue here, and when the
node's own process is let in, the first of them is.  When that one leaves, the process leaves too,
and asks again if there are others: so the clients of one node have no advantage over those of
another, and every stay has a grant, and a token, of its own.

A *request* is one wish of one client.  It may name several locks and is content with one of them.
Who owns a lock is a request, not a client: two tasks of one program have two requests, and one of them
waits.  A request ends when it is released, when the connection on which it was made closes, when its
time is over, or when the lock is lost; whichever comes first, and only once.

A client that stands still loses its locks, if it gave them a lease: nothing was heard of its
session for that long.  Where grants of the algorithm run out themselves, a client is told how long
its grant is good for, and nobody's lease is longer.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol, cast

from habemus.core.process import ProcessId
from habemus.core.values import Indication
from habemus.problems.election import Election
from habemus.problems.fencing import Granted as GrantedWithToken
from habemus.problems.fencing import LockLost, Token
from habemus.problems.mutex import Granted, Mutex
from habemus.runtimes.live.hosting.failures import NodeStopped
from habemus.runtimes.live.hosting.instance import Listener, LocalProcess
from habemus.runtimes.live.hosting.service import Service
from habemus.runtimes.live.hosting.slices import TimeSlicer
from habemus.runtimes.live.hosting.timers import Alarm, Timers
from habemus.runtimes.live.peers.codec import check_name

TRANSFER_US = 2_000_000
"""How long others stand back for the one to whom a lock was transferred."""
MOST_REQUESTS = 100_000
"""Claims that wait or hold at one node."""
MOST_LOCKS_PER_CLIENT = 10_000
"""Locks that one client may wait for or hold.  A request on one of several locks counts for all of
them.
"""


def number_of(token: Token) -> int:
    """A token as one number, which grows as tokens do: a resource has only to compare."""
    term, count = token
    return term << 32 | count


def _nothing(*_: object) -> None:
    pass


class LockStatus(NamedTuple):
    """How a lock stands, as far as one node can tell."""

    holder: str | None = None  # the label of its client that holds it
    token: int | None = None
    waiting: int = 0  # how many of its clients wait


class LineSender(Protocol):
    """A connection of a client."""

    def send(self, *line: object) -> None: ...


class Host(Protocol):
    """What a lock_queues needs of the node that it stands on; a test gives one that keeps to a script."""

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
        told: Callable[[], None] | None = None,
    ) -> None: ...

    def ask(
        self,
        service: str,
        name: str,
        request: str,
        *arguments: Any,
        told: Callable[[], None] | None = None,
    ) -> None: ...

    def subscribe(self, service: str, name: str, listener: Listener) -> Callable[[], None]: ...

    def left_us(self, process: LocalProcess) -> int | None: ...

    def is_recorded(self, service: str, name: str) -> bool: ...


@dataclass(eq=False)
class ClientSession:
    """What one client process has."""

    key: str
    label: str
    connections: dict[LineSender, set[ClientRequest]] = field(
        default_factory=dict
    )  # its connections, and what was claimed on each
    requests: dict[int, ClientRequest] = field(default_factory=dict)
    holding: dict[int, ClientRequest] = field(
        default_factory=dict
    )  # those of them that hold a lock
    locks: int = 0  # for which it waits or which it holds
    watches: int = 0
    at: int = 0  # the last time on its clock that was heard
    heard_us: int = 0  # and when that was, on ours
    expiry: Alarm | None = None  # looks whether that was too long ago
    heartbeat_connection: LineSender | None = (
        None  # the connection that says that it is alive, if that is one of its own
    )


@dataclass(eq=False)
class ClientRequest:
    session: ClientSession
    connection: LineSender
    id: int
    service: str
    names: tuple[str, ...]
    lease_us: int | None
    # its client has perhaps left already, and wants to know if somebody else would like to have it
    keeps: bool = False
    is_wanted_sent: bool = False  # that somebody would
    queued_locks: list[LocalLock] = field(default_factory=list)  # where it waits
    is_over: bool = False
    held_lock: LocalLock | None = None
    token: int | None = None
    since_us: int = 0
    time_out: Alarm | None = None  # ends it while it waits

    @property
    def is_waiting(self) -> bool:
        return self.held_lock is None and not self.is_over


@dataclass(eq=False)
class LocalLock:
    """One lock, as far as the clients of this node are concerned."""

    service: str
    name: str
    process: LocalProcess  # the participant of this node
    queue: OrderedDict[ClientRequest, None] = field(default_factory=OrderedDict)
    holder: ClientRequest | None = None
    is_requested: bool = False
    # requests that were taken back, and whose grant may still be on its way from stable memory
    withdrawing: int = 0
    reserved_for: str = ""  # the client that is to be next
    reservation_end: Alarm | None = None  # when that has been long enough
    unsubscribe: Callable[[], None] = _nothing  # stops listening to the instance

    @property
    def key(self) -> tuple[str, str]:
        return self.service, self.name


class LockQueues:
    def __init__(self, node: Host, timers: Timers, slices: TimeSlicer) -> None:
        self._node = node
        self._me = node.me
        self._timers = timers
        self._slices = slices
        self._local_locks: dict[tuple[str, str], LocalLock] = {}
        self._sessions: dict[str, ClientSession] = {}
        self._requests = 0
        self._closed: dict[str, str] = {}  # services that cannot be had here for now, and why
        self._kinds: dict[str, type[Any]] = {
            each.name: type(next(iter(each.system.plans.values()))) for each in node.services
        }
        self._locks = [name for name, kind in self._kinds.items() if issubclass(kind, Mutex)]
        self.changed: Callable[[str, str], None] = _nothing
        self.transferred: Callable[[str, str, str], None] = _nothing

    # Sessions.

    def join(self, connection: LineSender, label: str, key: str | None) -> ClientSession | None:
        """A new session, or one that there is already; None if that is over."""
        if key is None:
            key = os.urandom(16).hex()
            self._sessions[key] = ClientSession(key, label)
        session = self._sessions.get(key)
        if session is not None:
            session.connections[connection] = set()
        return session

    def leave(self, connection: LineSender, session: ClientSession) -> None:
        """The connection has closed, and whatever was claimed on it is over."""
        requests = session.connections.pop(connection)
        if session.heartbeat_connection is connection:
            session.heartbeat_connection = None
        if not session.connections:
            del self._sessions[session.key]
            self._timers.cancel(session.expiry)
        self._slices.run(session, self._end_all(sorted(requests, key=lambda request: request.id)))

    def _end_all(self, requests: list[ClientRequest]) -> Iterator[None]:
        for request in requests:
            self._end(request)
            yield

    def hear(self, session: ClientSession, at: int) -> None:
        if at >= session.at:
            session.at, session.heard_us = at, self._timers.now_us()

    def alive(self, connection: LineSender, session: ClientSession, at: int) -> None:
        self.hear(session, at)
        session.heartbeat_connection = connection
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
                connection.send("wanted", request.id)  # it may have been said where nobody listens

    # Claims.

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
                f"there is no service {service} with locks; there are"
                f" {', '.join(self._locks) or 'none'}",
            )
            return
        if id in session.requests:
            connection.send("refused", id, "bad_request", f"the id {id} is in use")
            return
        if service in self._closed:
            connection.send("refused", id, "unavailable", self._closed[service])
            return
        wanted = tuple(dict.fromkeys(names))
        refusal = self._refusal(session, wanted)
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
            request.time_out = self._timers.set(timeout_us, partial(self._time_out, request))
        if len(wanted) == 1:
            self._queue_at(request, wanted[0])
        else:
            self._slices.run(session, self._queue_at_all(request))

    def _refusal(self, session: ClientSession, names: tuple[str, ...]) -> tuple[str, str] | None:
        """Why nobody can wait for these locks now: a word and a sentence."""
        if not names:
            return "bad_request", "a request names at least one lock"
        if self._requests >= MOST_REQUESTS:
            return (
                "full",
                f"{self._requests} requests wait or hold at this node, as many as it may have",
            )
        if session.locks + len(names) > MOST_LOCKS_PER_CLIENT:
            has = (
                f"this client waits for or holds {session.locks} locks and asks for {len(names)}"
                " more"
            )
            return "full", f"{has}; one client may have {MOST_LOCKS_PER_CLIENT}"
        try:
            for name in names:
                check_name(name)
        except ValueError as reason:
            return "bad_request", str(reason)
        return None

    def _queue_at_all(self, request: ClientRequest) -> Iterator[None]:
        """Wait for one lock after the other, until one of them is granted."""
        for name in request.names:
            if not request.is_waiting:
                return
            self._queue_at(request, name)
            yield

    def _queue_at(self, request: ClientRequest, name: str) -> None:
        try:
            lock = self._local_locks.get((request.service, name)) or self._new_lock(
                request.service, name
            )
        except RuntimeError as reason:  # too many instances, or one that failed, or the node ends
            word = "unavailable" if isinstance(reason, NodeStopped) else "full"
            request.connection.send("refused", request.id, word, str(reason))
            self._end(request)
            return
        request.queued_locks.append(lock)
        lock.queue[request] = None
        self._request_if_needed(lock)
        holder = lock.holder
        if holder is not None and holder.keeps and holder is not request:
            self._send_wanted(holder)

    def release(self, session: ClientSession, id: int) -> None:
        request = session.requests.get(id)
        if request is not None:
            self._end(request)

    def transfer(self, session: ClientSession, id: int, label: str) -> None:
        """The holder leaves, and the others stand back for a while, so that the client it names can
        be next.
        """
        request = session.requests.get(id)
        if request is None or request.held_lock is None:
            return
        lock = request.held_lock
        self.reserve(lock.service, lock.name, label)
        self.transferred(lock.service, lock.name, label)
        self._end(request)

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
        """Takes a lock from the client of this node that holds it; else tells the algorithm that
        whoever holds it is gone.
        """
        if service not in self._locks:
            return {"taken": None, "reclaims": False}
        lock = self._local_locks.get((service, name))
        if lock is not None and lock.holder is not None:
            holder = lock.holder
            self._lose(holder, "an operator has released it")
            self._leave(lock)
            return {"taken": holder.session.label, "reclaims": True}
        reclaims = "reclaim" in self._kinds[service].__behaviour__.requests
        if reclaims:
            self._node.ask(service, name, "reclaim")
        return {"taken": None, "reclaims": reclaims}

    def note_write(self, service: str, name: str, token: int) -> None:
        """A client has written to the resource: an event of the local participant, for whoever
        judges its record.
        """
        if service in self._locks and self._node.is_recorded(service, name):
            self._node.ask(service, name, "write", token >> 32, token & 0xFFFFFFFF)

    def _time_out(self, request: ClientRequest) -> None:
        request.connection.send("refused", request.id, "timeout", "not in time")
        self._end(request)

    def close(self, service: str, why: str) -> None:
        """Send the clients that wait, and all that ask from now on, to another node; holders stay."""
        self._closed[service] = why
        for session in list(self._sessions.values()):
            for request in list(session.requests.values()):
                if (
                    request.is_waiting and request.service == service
                ):  # the end of one may end others
                    request.connection.send("refused", request.id, "unavailable", why)
                    self._end(request)
                elif request.held_lock is not None and request.keeps:
                    self._send_wanted(
                        request
                    )  # its client may not use it, and would keep it for ever

    def reopen(self, service: str) -> None:
        self._closed.pop(service, None)

    def _end(self, request: ClientRequest) -> None:
        """The request is over: nobody waits for it, and what it held is free."""
        if request.is_over:
            return  # the end of another request has ended it: its instance has failed
        self._forget(request)
        if request.time_out is not None:
            self._timers.cancel(request.time_out)
        lock = request.held_lock
        if lock is not None:
            lock.holder = None
            self._leave(lock)
        else:
            self._slices.run(request.session, self._stop_waiting(request, request.queued_locks))

    def _forget(self, request: ClientRequest) -> None:
        session = request.session
        request.is_over = True
        del session.requests[request.id]
        session.holding.pop(request.id, None)
        session.locks -= len(request.names)
        on_connection = session.connections.get(request.connection)
        if on_connection is not None:
            on_connection.discard(request)
        self._requests -= 1

    def _stop_waiting(
        self, request: ClientRequest, queued_locks: list[LocalLock]
    ) -> Iterator[None]:
        """Leave the queues; whoever is let in meanwhile passes over a request that is over or has
        another lock (`_next`).
        """
        for lock in queued_locks:
            if request in lock.queue:
                del lock.queue[request]
                if not lock.queue:
                    self._withdraw(lock)
            yield

    # Places.

    def _new_lock(self, service: str, name: str) -> LocalLock:
        lock = LocalLock(service, name, self._node.participant(service, name))
        lock.unsubscribe = self._node.subscribe(service, name, partial(self._on_indication, lock))
        self._local_locks[service, name] = lock
        return lock

    def sweep(self) -> None:
        """Forgets the places that nobody uses; not at once, because most are used again."""
        for lock in list(self._local_locks.values()):
            if not (lock.queue or lock.is_requested or lock.holder or lock.withdrawing):
                del self._local_locks[lock.key]
                self._timers.cancel(lock.reservation_end)
                lock.unsubscribe()

    def _request_if_needed(self, lock: LocalLock) -> None:
        """Asks, if somebody waits."""
        if lock.queue and not lock.is_requested and lock.holder is None:
            lock.is_requested = True
            self._make_request(lock, "acquire")

    def _make_request(
        self, lock: LocalLock, operation: str, on_done: Callable[[], None] | None = None
    ) -> None:
        try:
            self._node.make_request_of(lock.process, operation, (), on_done)
        except RuntimeError as reason:  # the instance has failed, or the node ends
            self.give_up(lock.service, lock.name, str(reason))

    def give_up(self, service: str, name: str, why: str) -> None:
        """The instance does nothing any more, and those who hold or await the lock had better know."""
        lock = self._local_locks.pop((service, name), None)
        if lock is None:
            return
        lock.unsubscribe()
        if lock.holder is not None:
            self._lose(lock.holder, why)
        while lock.queue:
            request = lock.queue.popitem(last=False)[0]
            if request.is_waiting:
                request.connection.send("refused", request.id, "stopped", why)
                self._end(request)

    def _withdraw(self, lock: LocalLock) -> None:
        """Nobody waits here any more.  Where the algorithm cannot take a request back, it is let in
        first, and leaves at once.
        """
        if lock.is_requested and lock.holder is None and self._kinds[lock.service].withdraws:
            lock.is_requested = False
            lock.withdrawing += 1
            self._make_request(lock, "release", lambda: self._withdrawn(lock))
        self._request_if_needed(lock)

    @staticmethod
    def _withdrawn(lock: LocalLock) -> None:
        """What the process said before the release has been heard by now: it is told in order."""
        lock.withdrawing -= 1

    def _leave(self, lock: LocalLock) -> None:
        self.changed(lock.service, lock.name)
        self._make_request(lock, "release")
        self._request_if_needed(lock)

    def _on_indication(self, lock: LocalLock, process: ProcessId, said: Indication) -> None:
        if process != self._me:
            return
        if isinstance(said, LockLost):
            holder = lock.holder
            if holder is not None and holder.token == number_of(said.token):
                self._lose(holder, "its lease could not be renewed in time")
                self.changed(lock.service, lock.name)
                self._request_if_needed(lock)
        elif isinstance(said, Granted) and lock.is_requested and not lock.withdrawing:
            lock.is_requested = False
            self._grant(lock, number_of(said.token) if isinstance(said, GrantedWithToken) else None)

    def _grant(self, lock: LocalLock, token: int | None) -> None:
        """The process has been let in, and the first who waits is."""
        request = self._next(lock)
        if request is None:
            self._make_request(lock, "release")
            if not lock.reserved_for:
                self._request_if_needed(lock)
            return
        lock.holder, lock.reserved_for = request, ""
        request.held_lock, request.token, request.since_us = lock, token, self._timers.now_us()
        request.session.holding[request.id] = request
        if len(request.names) > 1:
            self._keep_one(request, lock)
        if request.time_out is not None:
            self._timers.cancel(request.time_out)
        if request.lease_us is not None:
            self._schedule_expiry(request.session, request.since_us + request.lease_us)
        request.connection.send(
            "granted",
            request.id,
            token,
            _in_ms(self._lease_left_us(request, lock)),
            request.session.at,
            lock.name,
        )
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
        """Take the next request from the queue."""
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
        """Count the one lock that a request on several has got, and stop waiting for the others."""
        others = [each for each in request.queued_locks if each is not lock]
        request.session.locks -= len(request.names) - 1
        request.names, request.queued_locks = (lock.name,), [lock]
        self._slices.run(request.session, self._stop_waiting(request, others))

    # Leases.

    def _lease_left_us(self, request: ClientRequest, lock: LocalLock) -> int | None:
        """How long a request is good for, if nothing is heard any more."""
        left, lease = self._node.left_us(lock.process), request.lease_us
        if left is None or lease is None:
            return lease if left is None else left
        return min(left, lease)

    def _schedule_expiry(self, session: ClientSession, until_us: int) -> None:
        """One look at a session serves all that it holds: who takes and leaves a lock again and
        again is looked at once in a lease.
        """
        expiry = session.expiry
        if expiry is None or not expiry.is_set or until_us < expiry.deadline:
            self._timers.cancel(expiry)
            session.expiry = self._timers.set(
                max(0, until_us - self._timers.now_us()), partial(self._expire_leases, session)
            )

    def _expire_leases(self, session: ClientSession) -> None:
        """Takes from a session what it holds by leases that have run out: nothing was heard of it
        for that long.
        """
        now = self._timers.now_us()
        for request in list(session.holding.values()):
            lock = request.held_lock
            if lock is None or request.lease_us is None or request.is_over:
                continue
            until_us = max(session.heard_us, request.since_us) + request.lease_us
            if until_us <= now:
                self._lose(request, "nothing was heard of its client for the time of its lease")
                self._leave(lock)
            else:
                self._schedule_expiry(session, until_us)

    def _lose(self, request: ClientRequest, why: str) -> None:
        """The holder has lost the lock, and is told so."""
        assert request.held_lock is not None
        request.held_lock.holder = None
        self._forget(request)
        for connection in {request.connection, request.session.heartbeat_connection} - {None}:
            connection.send("lost", request.id, why)  # type: ignore[union-attr]  # none of them is None

    # Telling.

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
        return any(lock.holder is not None for lock in self._local_locks.values())

    def is_unused(self) -> bool:
        """Whether no client holds a lock, and no request of this node is on its way."""
        return not any(
            lock.holder is not None or lock.is_requested or lock.withdrawing
            for lock in self._local_locks.values()
        )

    @property
    def locks(self) -> list[str]:
        """Services that clients of this node can take locks of."""
        return self._locks

    def table(self) -> Iterator[dict[str, Any]]:
        """Who holds and who waits, for whoever asks."""
        for (service, name), lock in sorted(self._local_locks.items()):
            holder = lock.holder
            if holder is None and not lock.queue:
                continue
            yield {
                "service": service,
                "name": name,
                "holder": None if holder is None else holder.session.label,
                "token": None if holder is None else holder.token,
                "held_ms": (
                    None if holder is None else (self._timers.now_us() - holder.since_us) // 1_000
                ),
                "waiting": [request.session.label for request in lock.queue],
            }

    def kind(self, service: str) -> str:
        kind = self._kinds.get(service, object)
        return (
            "mutex"
            if issubclass(kind, Mutex)
            else "election"
            if issubclass(kind, Election)
            else "other"
        )


def _in_ms(time_us: int | None) -> int | None:
    return None if time_us is None else time_us // 1_000

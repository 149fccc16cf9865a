"""The blocking client.

    with habemus.connect() as cluster:
        with cluster.lock("printer", timeout=5) as lease:
            print_with(lease.token)

Every lock that is held has a connection of its own, taken from a few that are kept open: to acquire
is one line out and one line in on a bare socket, to release is one line out.  So threads do not
wait for each other, and a thread that is interrupted in the middle closes its connection, which
takes back whatever it may have asked for.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from time import sleep
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from habemus import boottime
from habemus.client.address import NodeAddress, cluster_address
from habemus.client.attempts import TRY_SECONDS, Attempts
from habemus.client.connection import ANSWER_SECONDS, ConnectionClosed, NodeConnection
from habemus.client.credentials import Credentials
from habemus.client.errors import (
    HabemusError,
    LockLost,
    LockTimeout,
    NodeTimeout,
    RefusedByNode,
    Unreachable,
)
from habemus.client.lease import Lease
from habemus.client.protocol import encode
from habemus.client.session import NodeSession, now_us, own_label
from habemus.runtimes.live.clients.protocol import (
    ELECTIONS,
    LINE_LIMIT,
    LOCKS,
    lock_name,
    semaphore_names,
)

if TYPE_CHECKING:
    from habemus.client.asynchronous import AsyncCluster

GRACE_SECONDS = 0.25
"""How much longer than the node the client itself waits before it gives up."""
MOST_SECONDS = 10**8
NUMBERS_LIMIT = 200
"""Bytes of a request beside its names."""


class LockState(NamedTuple):
    """Who holds a lock, or leads, as far as the onlooker's node knows."""

    holder: str | None
    node: int | None
    token: int | None
    waiting: int

    @classmethod
    def of(cls, told: dict[str, Any]) -> Self:
        """From what a node says.  In a service of elections nodes lead, and the term is the token."""
        if "leader" in told:
            leader = told["leader"]
            return cls(None if leader is None else f"node {leader}", leader, told.get("term"), 0)
        return cls(told.get("holder"), told.get("node"), told.get("token"), told.get("waiting", 0))


class AcquireRequest:
    """What is asked for: one of some locks, by which service, for how long.  Common to the blocking
    and the asynchronous client.
    """

    def __init__(
        self, service: str, names: Sequence[str], lease: float | None, *, keeps: bool = False
    ) -> None:
        self.service = service
        self.names = list(names)
        self.lease = checked_lease(lease)
        self.keeps = keeps
        self.shown = names[0] if len(names) == 1 else f"one of {names[0]} .. {names[-1]}"
        self._before = b""
        self._after = b""
        self._lease_ms: int | None = None
        self._session: NodeSession | None = None

    def line(self, session: NodeSession, id: int, timeout_ms: int | None) -> bytes:
        if self._session is not session:  # most of the line is always the same
            self._session = session
            self._lease_ms = session.lease_ms(self.service, self.lease)
            self._before = f",{encode(self.service)},{encode(self.names)},".encode()
            self._after = f",{encode(self._lease_ms)},".encode()
            if len(self._before) > LINE_LIMIT - NUMBERS_LIMIT:
                raise ValueError(
                    f"{len(self.names)} names of {len(self._before):,} bytes together are too much"
                    " for one request"
                )
        timeout = b"null" if timeout_ms is None else b"%d" % timeout_ms
        return b'["request",%d%s%s%s%d%s]\n' % (
            id,
            self._before,
            timeout,
            self._after,
            now_us(),
            b",true" if self.keeps else b"",
        )

    @property
    def lease_ms(self) -> int | None:
        return self._lease_ms

    def take_refusal(self, session: NodeSession, attempts: Attempts, line: list[Any]) -> None:
        """Leave the node if another one may grant the request; raise if none will."""
        _, _, word, why = line
        if word == "timeout":
            raise attempts.timed_out(self.shown)
        if word != "unavailable":
            raise RefusedByNode(why)
        attempts.failed(why)
        session.leave(why)


def checked_timeout(timeout: float | None) -> float | None:
    """Return a time to wait, which is a number of seconds; None waits for ever."""
    if timeout is not None and not (_is_number(timeout) and timeout < MOST_SECONDS):
        raise ValueError(
            f"timeout={timeout!r}: give a number of seconds, less than {MOST_SECONDS:,}, or None to"
            " wait for ever"
        )
    return timeout


def checked_lease(lease: float | None) -> float | None:
    """Return the length of a lease, which is a number of seconds; None is that of the cluster."""
    if lease is not None and not (_is_number(lease) and 0 < lease < MOST_SECONDS):
        raise ValueError(
            f"lease={lease!r}: give a number of seconds, more than 0 and less than"
            f" {MOST_SECONDS:,}, or None"
        )
    return lease


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def opened(
    named: str | None,
    given: Credentials,
    label: str,
    left: Mapping[NodeAddress, float] | None = None,
    within: float | None = None,
) -> NodeSession:
    where = cluster_address(named)
    return NodeSession(where, given.at(where), label, left, within)


class LeftNodes:
    """The nodes that a client has left, and what it may still hold there."""

    def __init__(self) -> None:
        self.addresses: dict[NodeAddress, float] = {}  # and when
        self.is_known = False  # whether any node has ever answered
        self._sessions: list[NodeSession] = []

    def add(self, session: NodeSession) -> None:
        self.addresses[session.place] = boottime.seconds()
        self._sessions = [each for each in (*self._sessions, session) if not each.over]

    def close(self) -> None:
        for session in self._sessions:
            session.close()


class Cluster:
    """A cluster, as one of its clients sees it.  May be used by several threads."""

    def __init__(
        self, named: str | None, credentials: Credentials, label: str | None = None
    ) -> None:
        self._named = named
        self._credentials = credentials
        self._label = label
        self._session: NodeSession | None = None
        self._left = LeftNodes()
        self._opening = threading.Lock()
        self._own: dict[
            tuple[int, str, tuple[str, ...]], _Own
        ] = {}  # what threads hold and may take again

    @property
    def label(self) -> str:
        """What others see of this client."""
        return self._label or own_label()

    def __enter__(self) -> Self:
        self._connected()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> AsyncCluster:
        from habemus.client.asynchronous import AsyncCluster

        self._asynchronous = AsyncCluster(self._named, self._credentials, self._label)
        return await self._asynchronous.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._asynchronous.close()

    def close(self) -> None:
        """Releases everything."""
        session, self._session = (
            self._session,
            None,
        )  # first: a thread that waits in it may open the next one at once
        if session is not None:
            session.close()
        self._left.close()

    def _connected(self, within: float | None = None) -> NodeSession:
        """With a node that answers; another one if the one before has gone or was left."""
        session = self._session
        if session is not None and session.is_open:
            return session
        if not self._opening.acquire(timeout=-1 if within is None else within):
            raise NodeTimeout("no node has answered in time")
        try:
            session = self._session
            if session is None or not session.is_open:
                if session is not None:
                    self._left.add(session)
                self._session = session = opened(
                    self._named, self._credentials, self.label, self._left.addresses, within
                )
                self._left.is_known = True
            return session
        finally:
            self._opening.release()

    # Locks.

    def lock(
        self,
        name: str,
        timeout: float | None = None,
        lease: float | None = None,
        *,
        reentrant: bool = False,
        keep: bool = False,
        on_lost: Callable[[Lease], None] | None = None,
        service: str = LOCKS,
    ) -> Lock | KeptLock:
        """A lock, to be taken by `with` or `acquire()`.

        timeout: seconds to wait, also for a node that answers; for ever if it is not given, and then a cluster that has never answered is
            an error at once.  0 takes the lock if it is free: up to a quarter of a second, because the other nodes are asked.
        lease: seconds after which a client of which nothing is heard loses the lock, where that is less than the cluster's own.
        reentrant: the thread that has it may take it again; without, that waits like everybody else.
        keep: this process keeps the lock when it releases it, and takes it again for nothing, until somebody else asks for it.  Its token
            stays the same as long.  Only where those who hold a lock hear of those who wait: `ricart-agrawala`, `roucairol-carvalho`.
        on_lost: called once if the lock is lost, from whichever thread notices it first.

        The end of `with` raises `LockLost` if the lock was lost inside, whether by its lease, its
        connection, its node or an operator.
        """
        if keep:
            if reentrant:
                raise ValueError(
                    "a lock that is kept cannot be taken twice: keep or reentrant, not both"
                )
            return KeptLock(
                self,
                AcquireRequest(service, [lock_name(name)], lease, keeps=True),
                timeout,
                on_lost,
            )
        return Lock(
            self, AcquireRequest(service, [lock_name(name)], lease), timeout, reentrant, on_lost
        )

    def try_lock(
        self,
        name: str,
        lease: float | None = None,
        *,
        on_lost: Callable[[Lease], None] | None = None,
        service: str = LOCKS,
    ) -> HeldLock | None:
        """The lock if it is free now, else None; to be used by `with` or released."""
        try:
            return HeldLock(
                self,
                self._acquire(
                    AcquireRequest(service, [lock_name(name)], lease), TRY_SECONDS, on_lost
                ),
            )
        except LockTimeout:
            return None

    def semaphore(
        self,
        name: str,
        size: int,
        timeout: float | None = None,
        lease: float | None = None,
        *,
        on_lost: Callable[[Lease], None] | None = None,
        service: str = LOCKS,
    ) -> Lock:
        """One of so many places, each of which is a lock.

        The size belongs to the name: clients that give another size use another semaphore.
        """
        return Lock(
            self,
            AcquireRequest(service, semaphore_names(name, size), lease),
            timeout,
            False,
            on_lost,
        )

    @contextmanager
    def acquire_all(
        self,
        names: Sequence[str],
        timeout: float | None = None,
        lease: float | None = None,
        *,
        on_lost: Callable[[Lease], None] | None = None,
        service: str = LOCKS,
    ) -> Iterator[list[Lease]]:
        """All of these, in the order of their names, so that two who want the same ones cannot wait
        for each other.
        """
        timeout = checked_timeout(timeout)
        deadline = None if timeout is None else boottime.seconds() + timeout
        with ExitStack() as stack:
            leases = []
            for name in sorted(set(names)):
                left = None if deadline is None else max(0.0, deadline - boottime.seconds())
                leases.append(
                    stack.enter_context(
                        self.lock(name, left, lease, on_lost=on_lost, service=service)
                    )
                )
            yield leases

    def election(self, name: str, *, service: str = LOCKS) -> LeaderElection:
        return LeaderElection(self, name, service)

    def _acquire(
        self,
        request: AcquireRequest,
        timeout: float | None,
        on_lost: Callable[[Lease], None] | None = None,
    ) -> Lease:
        """Wait until one of the locks is granted; move on if a node ends, hangs or has no majority."""
        attempts = Attempts(timeout)
        while True:
            try:
                session = self._connected(attempts.left())
            except Unreachable as reason:
                attempts.failed(reason, is_known=self._left.is_known)
            else:
                lease = self._acquire_at(session, request, attempts)
                if lease is not None:
                    if on_lost is not None:
                        lease.on_lost(on_lost)
                    return lease
            sleep(attempts.pause(request.shown))

    def _acquire_at(
        self, session: NodeSession, request: AcquireRequest, attempts: Attempts
    ) -> Lease | None:
        """None if the node has gone, was left, or granted the lock too late for it to be worth
        anything.
        """
        try:
            connection = session.connection()
        except ConnectionClosed as reason:
            session.close(f"node {session.node} has gone: {reason}")
            return None
        id, left = next(session.ids), attempts.left()
        try:
            connection.send(
                request.line(session, id, None if left is None else round(left * 1_000))
            )
            session.begin_waiting(id, request.lease_ms, connection)
            try:
                line = _answer(connection, id, None if left is None else left + GRACE_SECONDS)
            finally:
                session.end_waiting(id)
        except BaseException as reason:  # an interrupt, too: closing takes back what was asked for
            connection.close()
            if isinstance(reason, TimeoutError):
                why = f"node {session.node} does not answer"
                attempts.failed(why)
                session.leave(why)
                raise attempts.timed_out(request.shown) from None
            if not isinstance(reason, OSError) or isinstance(reason, HabemusError):
                raise
            if session.is_open:
                session.close(
                    f"node {session.node} has gone: {reason}"
                )  # the next one may be there
            return None
        if line[0] == "granted":
            lease = session.granted(request.service, line, connection)
            return None if lease.lost else lease
        if line[1] is None:
            connection.close()  # the node has had enough of it
        else:
            session.put_back(connection)
        request.take_refusal(session, attempts, line)
        return None

    def _release(self, lease: Lease, to: str | None = None) -> None:
        """Release the lock, unless it turns out to be lost: then `on_lost` is called, and
        `lease.lost` says so.
        """
        lease._is_lost_now()
        last = (
            b'["release",%d]\n' % lease._id
            if to is None
            else f'["transfer",{lease._id},{encode(to)}]\n'.encode()
        )
        lease._session.release(lease, last)

    # Looking.

    def watch(self, name: str, *, service: str = LOCKS) -> Iterator[LockState]:
        """Who holds a lock, now and whenever that changes; for ever."""
        for told in self._news(service, name):
            yield LockState.of(told)

    def _news(self, service: str, name: str) -> Iterator[dict[str, Any]]:
        attempts = Attempts(None)
        while True:
            connection = None
            try:
                session = self._connected()
                connection = NodeConnection(
                    session.place, session.credentials, session.label
                )  # of its own: it has nothing to do with any lock
                id = next(session.ids)
                session.begin_waiting(id, None, connection)  # so that a node that hangs is left
                try:
                    connection.say("watch", id, service, name)
                    while True:
                        line = connection.hear()
                        if line[0] == "refused":
                            raise RefusedByNode(line[3])
                        if line[0] == "news":
                            attempts = Attempts(None)
                            yield line[2]
                finally:
                    session.end_waiting(id)
            except Unreachable as reason:
                attempts.failed(reason, is_known=self._left.is_known)
            except OSError as reason:
                if session.is_open:
                    session.close(f"node {session.node} has gone: {reason}")
            finally:
                if connection is not None:
                    connection.close()
            sleep(attempts.pause(name))

    def status(self) -> dict[str, Any]:
        """What goes on at the node that this client talks to."""
        return self._ask("status")

    def force(self, name: str, *, service: str = LOCKS) -> dict[str, Any]:
        """For operators: whoever holds the lock at this node loses it."""
        return self._ask("force", service, name)

    def _ask(self, word: str, *rest: str) -> dict[str, Any]:
        session = self._connected()
        connection = session.connection()
        id = next(session.ids)
        try:
            connection.say(word, id, *rest)
            line = _answer(connection, id, ANSWER_SECONDS)
        except OSError as reason:
            connection.close()
            raise Unreachable(f"node {session.node} does not answer: {reason}") from None
        session.put_back(connection)
        if line[0] == "refused":
            raise RefusedByNode(line[3])
        answer: dict[str, Any] = line[2]
        return answer


def _answer(connection: NodeConnection, id: int, timeout: float | None) -> list[Any]:
    """The line that answers the request of this id; what is left over from earlier ones is not of
    interest any more.
    """
    while True:
        line = connection.hear(timeout)
        if line[1] == id or (line[0] == "refused" and line[1] is None):
            return line


class HeldLock:
    """A lease to be used by `with`; released once, at the end."""

    def __init__(self, cluster: Cluster, lease: Lease) -> None:
        self.lease = lease
        self._cluster = cluster

    def __enter__(self) -> Lease:
        return self.lease

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
        if self.lease.lost and kind is None:
            raise lost_inside(self.lease)

    def release(self) -> None:
        self._cluster._release(self.lease)


class _Own(NamedTuple):
    lease: Lease
    depth: int


class Lock:
    """A request, which can be granted many times; each `acquire` is one, and gives a lease of its own."""

    def __init__(
        self,
        cluster: Cluster,
        request: AcquireRequest,
        timeout: float | None,
        reentrant: bool,
        on_lost: Callable[[Lease], None] | None,
    ) -> None:
        self._cluster = cluster
        self._request = request
        self._timeout = checked_timeout(timeout)
        self._reentrant = reentrant
        self._on_lost = on_lost
        self._entered: dict[int, list[Lease]] = {}  # by thread: in a semaphore several are inside

    def acquire(self) -> Lease:
        """Waits for the lock.  `release` it, or use `with`."""
        if not self._reentrant:
            return self._cluster._acquire(self._request, self._timeout, self._on_lost)
        own, key = self._cluster._own, self._key()
        found = own.get(key)
        if found is not None and found.lease.held:
            own[key] = _Own(found.lease, found.depth + 1)
            return found.lease
        lease = self._cluster._acquire(self._request, self._timeout, self._on_lost)
        own[key] = _Own(lease, 1)
        return lease

    def release(self, lease: Lease) -> None:
        if self._reentrant:
            own, key = self._cluster._own, self._key()
            found = own.get(key)
            if found is not None and found.lease is lease and found.depth > 1:
                own[key] = _Own(lease, found.depth - 1)
                return
            own.pop(key, None)
        self._cluster._release(lease)

    def _key(self) -> tuple[int, str, tuple[str, ...]]:
        return threading.get_ident(), self._request.service, tuple(self._request.names)

    def __enter__(self) -> Lease:
        lease = self.acquire()
        self._entered.setdefault(threading.get_ident(), []).append(lease)
        return lease

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        me = threading.get_ident()
        lease = self._entered[me].pop()
        if not self._entered[me]:
            del self._entered[me]
        self.release(lease)
        if lease.lost and kind is None:
            raise lost_inside(lease)


class KeptLock:
    """A lock that stays with this process when it is released, until somebody else asks for it.

    As Roucairol and Carvalho keep a permission: whoever is alone in wanting something need not ask
    again.
    """

    def __init__(
        self,
        cluster: Cluster,
        request: AcquireRequest,
        timeout: float | None,
        on_lost: Callable[[Lease], None] | None,
    ) -> None:
        self._cluster = cluster
        self._request = request
        self._timeout = checked_timeout(timeout)
        self._on_lost = on_lost
        self._guard = threading.Lock()
        self._lease: Lease | None = None  # what is kept, or in use
        self._is_used = False
        self._is_wanted = False  # by somebody else
        self._entered: dict[
            int,
            Lease,
            # by thread: several may be inside, each with a grant of its own, one after the other
        ] = {}

    def acquire(self) -> Lease:
        with self._guard:
            lease = self._lease
            if lease is not None and lease.held and not (self._is_used or self._is_wanted):
                self._is_used = True
                return lease
        lease = self._cluster._acquire(self._request, self._timeout, self._on_lost)
        if (
            not lease._session.welcome["services"]
            .get(self._request.service, {})
            .get("sees_waiters", True)
        ):
            self._cluster._release(lease)
            raise RefusedByNode(
                f"the algorithm of {self._request.service} does not tell a holder that others wait,"
                " so nothing can be kept"
            )
        with self._guard:
            if self._lease is None or not self._lease.held:
                self._lease, self._is_used, self._is_wanted = lease, True, False
                lease._on_wanted = self._hear_wish
                lease._session.hurry()
        return lease

    def release(self, lease: Lease) -> None:
        lease._is_lost_now()
        with self._guard:
            if lease is self._lease:
                self._is_used = False
                if not self._is_wanted and lease.held:
                    return
                self._lease = None
        self._cluster._release(lease)

    def _hear_wish(self) -> None:
        with self._guard:
            self._is_wanted = True
            lease = self._lease
            if self._is_used or lease is None:
                return
            self._lease = None
        self._cluster._release(lease)

    def __enter__(self) -> Lease:
        lease = self._entered[threading.get_ident()] = self.acquire()
        return lease

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        lease = self._entered.pop(threading.get_ident())
        self.release(lease)
        if lease.lost and kind is None:
            raise lost_inside(lease)


def lost_inside(lease: Lease) -> LockLost:
    """Whatever was done inside may have been done beside somebody else: that must not go by in
    silence.
    """
    return LockLost(f"{lease.name} was lost before it was released")


class LeaderElection:
    """Who leads.  To lead is to hold a lock; its token is the term, and grows with every new
    leader.
    """

    def __init__(self, cluster: Cluster, name: str, service: str) -> None:
        self.name = name
        self._cluster = cluster
        self._service = service
        self._lease: Lease | None = None

    def lead(
        self,
        timeout: float | None = None,
        lease: float | None = None,
        *,
        on_lost: Callable[[Lease], None] | None = None,
    ) -> Term:
        """A term of office, to be taken by `with` or `begin()`; waits until nobody else leads."""
        return Term(
            self,
            Lock(
                self._cluster,
                AcquireRequest(self._service, [ELECTIONS + self.name], lease),
                timeout,
                False,
                on_lost,
            ),
        )

    def resign(self) -> None:
        """Ends the term that was begun here."""
        lease, self._lease = self._lease, None
        if lease is not None:
            self._cluster._release(lease)

    def transfer(self, to: str) -> None:
        """Resigns in favour of the client with this label, for whom the others stand back for a
        moment; if it waits, it leads next.
        """
        lease, self._lease = self._lease, None
        if lease is None:
            raise LockLost(f"this client does not lead {self.name}")
        self._cluster._release(lease, to)

    def leader(self) -> LockState | None:
        """Who leads now, as far as the node knows; None if nobody does."""
        for standing in self.observe():
            return standing if standing.holder is not None else None
        return None

    def observe(self) -> Iterator[LockState]:
        """Who leads, now and whenever that changes; for ever."""
        return self._cluster.watch(ELECTIONS + self.name, service=self._service)

    def begun(self, lease: Lease) -> None:
        self._lease = lease

    def ended(self, lease: Lease) -> None:
        """That term, and none that another thread has begun since."""
        if self._lease is lease:
            self._lease = None
        self._cluster._release(lease)


class Term:
    """A term of office; see `LeaderElection.lead`."""

    def __init__(self, election: LeaderElection, lock: Lock) -> None:
        self._election = election
        self._lock = lock
        self._lease: Lease

    def begin(self) -> Lease:
        """Waits until this client leads; to be ended by `LeaderElection.resign` or `transfer`."""
        self._lease = self._lock.acquire()
        self._election.begun(self._lease)
        return self._lease

    def __enter__(self) -> Lease:
        return self.begin()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._election.ended(self._lease)
        if self._lease.lost and kind is None:
            raise lost_inside(self._lease)


def round_trips(cluster: Cluster, count: int, pause: float = 0.001) -> Iterator[int]:
    """Measure `count` times how many microseconds the node of the cluster takes to answer."""
    session = cluster._connected()
    connection = session.connection()
    try:
        for _ in range(count):
            sent = now_us()
            connection.say("alive", sent)
            _answer(connection, sent, ANSWER_SECONDS)
            yield now_us() - sent
            sleep(pause)
    except BaseException as reason:  # also if the caller stops early
        connection.close()
        if isinstance(reason, OSError):
            raise Unreachable(f"node {session.node} does not answer: {reason}") from None
        raise
    session.put_back(connection)


def connect(
    cluster: str | None = None,
    *,
    name: str | None = None,
    secret: bytes | None = None,
    ca: str | None = None,
    certificate: str | None = None,
    key: str | None = None,
    secret_file: str | None = None,
) -> Cluster:
    """Return a client of a cluster, to be used by `with` or `async with`, or closed by `close`.

    cluster: addresses of nodes, a socket, a cluster.toml or the folder of `habemus up`.  The
        default is HABEMUS_CLUSTER, then the cluster that `habemus up` started.
    name: the name of this client that others see.  The default is its host and process.
    secret or secret_file, ca, certificate, key: credentials, if the cluster requires them.  The
        defaults are HABEMUS_SECRET_FILE, HABEMUS_CA, HABEMUS_CERTIFICATE and HABEMUS_KEY.
    """
    return Cluster(cluster, Credentials.given(secret, ca, certificate, key, secret_file), name)

"""The blocking client.

    with habemus.connect() as cluster:
        with cluster.lock("printer", timeout=5) as lease:
            print_with(lease.token)

A `Cluster` is the same for every system that grants the locks (`habemus.client.backend`).
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Self, TypeVar, overload

from habemus import boottime
from habemus.client.backend import Backend, LockState
from habemus.client.credentials import Credentials
from habemus.client.engines import is_engine, without_password
from habemus.client.errors import (
    LockLost,
    LockNotHeld,
    LockTimeout,
    RefusedByNode,
)
from habemus.client.lease import KeptLease, Lease, LeaseUse, ReentrantLeases
from habemus.client.node_backend import NodeBackend
from habemus.client.protocol import EXPIRED, AcquireRequest, LeadRequest, SemaphoreRequest
from habemus.client.session import own_label
from habemus.client.tracing import TRACE, spans_of
from habemus.runtimes.live.clients.protocol import (
    ELECTIONS,
    LABEL_LIMIT,
    LOCKS,
    PERMITS,
    checked_name,
    lock_name,
)

if TYPE_CHECKING:
    from habemus.client.asynchronous import AsyncCluster, AsyncLock
    from habemus.client.barrier import Barrier
    from habemus.client.read_write import ReadWriteLock

MOST_SECONDS = 10**8
UNSET: Any = object()
"""Default of arguments for which None has a meaning."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def backend_of(named: str | None, credentials: Credentials, label: str | None) -> Backend:
    """Return the backend of the named cluster; `ValueError` if no engine has the scheme."""
    url = os.environ.get("HABEMUS_CLUSTER") if named is None else named
    if url is not None and is_engine(url):
        from habemus.client.engines.engine_backend import EngineBackend

        return EngineBackend(url, credentials, label)
    return NodeBackend(named, credentials, label)


def lock_request(
    service: str, name: str, lease: float | None, *, keep: bool = False
) -> AcquireRequest:
    """Return a request for a lock; raise `ValueError` if its name or lease is not valid."""
    return AcquireRequest(service, lock_name(name), checked_lease(lease), keep=keep)


def semaphore_request(
    service: str, name: str, size: int | None, lease: float | None
) -> SemaphoreRequest:
    """Return a request for a place; raise `ValueError` if the size or the lease is not valid."""
    if size is not None:
        _check_size(size)
    return SemaphoreRequest(service, checked_name(name), size, checked_lease(lease))


def permits_gate(
    service: str, name: str, count: int, size: int, lease: float | None
) -> AcquireRequest:
    """Return the request for the lock of the client that collects places; `ValueError` if there are
    too few.
    """
    _check_size(size)
    given: object = count
    if not (isinstance(given, int) and _is_number(given) and 1 <= given <= size):
        raise ValueError(f"count={count!r}: semaphore {name!r} has {size} places; give 1 to {size}")
    return AcquireRequest(service, PERMITS + checked_name(name), checked_lease(lease))


def _check_size(size: object) -> None:
    if not (isinstance(size, int) and _is_number(size) and size >= 1):
        raise ValueError(f"semaphore size is {size!r}; it must be a whole number, at least 1")


def checked_timeout(timeout: float | None) -> float | None:
    """Return the timeout if it is a valid number of seconds or None."""
    if timeout is not None and not (_is_number(timeout) and 0 <= timeout < MOST_SECONDS):
        raise ValueError(
            f"timeout={timeout!r}: give a number of seconds, from 0 to {MOST_SECONDS:,}, or None to"
            " wait for ever"
        )
    return timeout


def checked_listener(
    on_lost: Callable[[Lease], None] | None,
) -> Callable[[Lease], None] | None:
    """Return the listener if it can be called, or None."""
    given: object = on_lost
    if given is not None and not callable(given):
        raise ValueError(f"on_lost={on_lost!r}: give a function that takes the lease, or None")
    return on_lost


def checked_names(names: Sequence[str]) -> list[str]:
    """Return the names of several locks, in the order in which to acquire them."""
    if isinstance(names, str):
        raise TypeError(f"{names!r} is one name: give a list of names, such as [{names!r}]")
    given: object = names
    if not isinstance(given, Iterable):
        raise TypeError(f"{names!r} is not a list of names: give one, such as ['ink', 'paper']")
    return sorted({lock_name(each) for each in names})


def checked_label(argument: str, label: str | None) -> str | None:
    """Return the label of a client if nodes accept it, or None."""
    given: object = label
    if given is not None and not (
        isinstance(given, str) and len(given) <= LABEL_LIMIT and given.isprintable()
    ):
        raise ValueError(
            f"{argument}={label!r}: give a text of at most {LABEL_LIMIT} printable characters"
        )
    return label


def asked_timeout(blocking: bool, timeout: float | None) -> float | None:
    """Return the timeout that the arguments of `acquire` mean."""
    given: object = blocking
    if not isinstance(given, bool):
        raise TypeError(f"blocking={blocking!r}: give True or False; a time is timeout={blocking}")
    if not blocking:
        if timeout is not UNSET:
            raise ValueError("timeout= has no meaning with blocking=False: leave one of them out")
        return 0.0
    return checked_timeout(timeout)


def checked_lease(lease: float | None) -> float | None:
    """Return the lease if it is a valid number of seconds or None."""
    if lease is not None and not (_is_number(lease) and 0 < lease < MOST_SECONDS):
        raise ValueError(
            f"lease={lease!r}: give a number of seconds, more than 0 and less than"
            f" {MOST_SECONDS:,}, or None"
        )
    return lease


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


class Cluster:
    """A client of a cluster, which `habemus.connect` returns.  Several threads may use it.

    `with` connects at once, and closes the client at the end.  If no node can be reached yet, the
    first request tries again, within its timeout.  Without `with`, the first request connects, and
    `close` has to be called.
    """

    def __init__(
        self, named: str | None, credentials: Credentials, label: str | None = None
    ) -> None:
        self._named = named
        self._credentials = credentials
        self._label = label
        self._backend = backend_of(named, credentials, label)
        self._reentrant = ReentrantLeases()

    @property
    def label(self) -> str:
        """The name of this client that others see."""
        return self._label or own_label()

    def __repr__(self) -> str:
        return f"<Cluster {without_password(self._named or 'by default')}, as {self.label}>"

    def __enter__(self) -> Self:
        self._backend.connect()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> AsyncCluster:
        self._asynchronous = self._asynchronous_copy()
        return await self._asynchronous.__aenter__()

    def _asynchronous_copy(self) -> AsyncCluster:
        """Return a client of the same cluster for the event loop that runs now."""
        trio = sys.modules.get("trio")
        if trio is not None and trio.lowlevel.in_trio_task():
            from habemus.client.trio_client import TrioCluster

            return TrioCluster(self._named, self._credentials, self._label)
        from habemus.client.asynchronous import AsyncCluster

        return AsyncCluster(self._named, self._credentials, self._label)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._asynchronous.close()

    def close(self) -> None:
        """Release all locks and close all connections.  A later request connects again."""
        self._backend.close()

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
    ) -> Lock:
        """Return a lock, to be taken by `with` or `acquire()`, or to decorate a function.

        name: the name of the lock; clients that give the same name exclude each other.
        timeout: seconds to wait for the lock, and for a node that answers.  None waits for ever,
            but raises at once if the cluster has never answered.  0 returns as soon as the node
            knows that the lock is held, and within 0.25 s if no node answers that it is.
        lease: seconds after which a silent client loses the lock, at most the lease of the cluster.
        reentrant: whether the thread that holds the lock may take it again.
        keep: whether this process keeps the lock when it is released, and takes it again at no
            cost, until another client asks for it.  The token stays the same meanwhile.  Works only
            with algorithms that show waiting clients to the holder, such as the default one and
            `ricart-agrawala`.
        on_lost: called once if the lock is lost, from the thread that notices it first.
        service: the service of the cluster that grants the lock; a cluster can have several, each
            with an algorithm of its own.

        The end of `with` raises `LockLost` if the lock was lost inside: because the lease expired,
        the connection or the node ended, or an operator released it.
        """
        if keep:
            if reentrant:
                raise ValueError("keep and reentrant exclude each other: use one of them")
            request = lock_request(service, name, lease, keep=True)
            return KeptLock(self, request, timeout, on_lost)
        return Lock(self, lock_request(service, name, lease), timeout, reentrant, on_lost)

    def try_lock(
        self,
        name: str,
        lease: float | None = None,
        *,
        on_lost: Callable[[Lease], None] | None = None,
        service: str = LOCKS,
    ) -> HeldLock | None:
        """Take the lock if it is free now, else return None.  Use `with`, or release it.

        name, lease, on_lost, service: as in `Cluster.lock`.
        """
        request = lock_request(service, name, lease)
        listener = checked_listener(on_lost)
        try:
            return HeldLock(self, self._acquire(request, 0.0, listener, names_holder=False))
        except LockTimeout:
            return None

    def semaphore(
        self,
        name: str,
        size: int | None = None,
        timeout: float | None = None,
        lease: float | None = None,
        *,
        on_lost: Callable[[Lease], None] | None = None,
        service: str = LOCKS,
    ) -> Lock:
        """Return a semaphore that the cluster declares, to be taken by `with` or `acquire()`.

        Each place is a lock.  How many places there are is part of the configuration of the cluster
        (`[semaphores]` in cluster.toml), the same at all nodes.

        name: the name of the semaphore.
        size: the number of places that this client expects; with another one, and for a semaphore
            that is not declared, `acquire()` raises `RefusedByNode`.
        timeout, lease, on_lost, service: as in `Cluster.lock`.
        """
        request = semaphore_request(service, name, size, lease)
        return Lock(self, request, timeout, False, on_lost)

    @contextmanager
    def permits(
        self,
        name: str,
        count: int,
        size: int,
        timeout: float | None = None,
        lease: float | None = None,
        *,
        on_lost: Callable[[Lease], None] | None = None,
        service: str = LOCKS,
    ) -> Iterator[list[Lease]]:
        """Acquire several places of a semaphore at once, all or none.

            with cluster.permits("connections", 2, size=5) as leases: ...

        One client at a time collects places, so two that want several cannot wait for each other.
        A client that has a place already should not ask for more in this way: it may wait for
        itself.

        name: the name of the semaphore.
        count: the number of places to acquire.
        size: the number of places that the cluster declares; `ValueError` if it is less than
            `count`, `RefusedByNode` if the cluster has another one.
        timeout: seconds to wait for all of them together; None waits for ever.
        lease, on_lost, service: as in `Cluster.lock`.
        """
        gate = permits_gate(service, name, count, size, lease)
        timeout = checked_timeout(timeout)
        deadline = boottime.Deadline(timeout)
        with ExitStack() as stack:
            with Lock(self, gate, timeout, False, None):
                leases = []
                for _ in range(count):
                    place = self.semaphore(
                        name, size, deadline.left(), lease, on_lost=on_lost, service=service
                    )
                    leases.append(stack.enter_context(place))
            yield leases

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
        """Acquire several locks, in the order of their names: two clients cannot deadlock.

            with cluster.acquire_all(["stock", "orders"]) as leases: ...

        names: the names of the locks; the leases are in alphabetical order, one for each name.
        timeout: seconds to wait for all of them together; None waits for ever.
        lease, on_lost, service: as in `Cluster.lock`.
        """
        timeout = checked_timeout(timeout)
        deadline = boottime.Deadline(timeout)
        with ExitStack() as stack:
            yield [
                stack.enter_context(
                    self.lock(name, deadline.left(), lease, on_lost=on_lost, service=service)
                )
                for name in checked_names(names)
            ]

    def read_write_lock(
        self,
        name: str,
        timeout: float | None = None,
        lease: float | None = None,
        *,
        service: str = LOCKS,
    ) -> ReadWriteLock:
        """Return a lock that many readers, or one writer, may hold.

        timeout: seconds to wait, for readers and writers that give none; None waits for ever.
        name, lease, service: as in `Cluster.lock`.
        """
        from habemus.client.read_write import ReadWriteLock

        return ReadWriteLock(self, name, timeout, lease, service)

    def barrier(
        self, name: str, parties: int, lease: float | None = None, *, service: str = LOCKS
    ) -> Barrier:
        """Return a barrier, at which so many parties wait for each other.

        name: the name of the barrier.
        parties: how many; the same number at all parties, at most 64.
        lease: seconds after which a silent party breaks the barrier, at most that of the cluster.
        service: as in `Cluster.lock`.
        """
        from habemus.client.barrier import Barrier

        return Barrier(self._asynchronous_copy, name, parties, lease, service)

    def election(self, name: str, *, service: str = LOCKS) -> LeaderElection:
        """Return the election of this name, to lead or to observe.

        service: as in `Cluster.lock`.
        """
        return LeaderElection(self, checked_name(name), service)

    def _acquire(
        self,
        request: AcquireRequest,
        timeout: float | None,
        on_lost: Callable[[Lease], None] | None = None,
        names_holder: bool = True,
    ) -> Lease:
        spans = spans_of(request) if TRACE in sys.modules else None
        if spans is None:
            lease = self._backend.acquire(request, timeout, names_holder)
        else:
            with spans:
                lease = self._backend.acquire(request, timeout, names_holder)
                spans.hold(lease)
        if on_lost is not None:
            lease.on_lost(on_lost)
        return lease

    def _release(self, lease: Lease, to: str | None = None) -> None:
        """Release the lock.  If it turns out to be lost, call `on_lost` and set `lease.lost`."""
        self._backend.release(lease, to)

    # Looking.

    def watch(self, name: str, *, service: str = LOCKS) -> Iterator[LockState]:
        """Yield the holder of a lock, now and after each change, for ever.

        name, service: as in `Cluster.lock`.
        """
        return self._backend.watch(service, checked_name(name))

    def _state(self, request: AcquireRequest) -> LockState:
        """Return the holder of a lock, as far as the node knows."""
        with closing(self._backend.watch(request.service, request.name)) as states:
            return next(states)

    def status(self) -> dict[str, Any]:
        """Return the status of the node that this client is connected to."""
        return self._backend.status()

    def force(self, name: str, *, service: str = LOCKS) -> dict[str, Any]:
        """Take a lock away from its holder, at whichever node; for operators.

        Return who held it (`taken`; None if no client did) and whether the algorithm was asked to
        reclaim it (`reclaims`).  The holder may still believe that it holds the lock.

        name, service: as in `Cluster.lock`.
        """
        return self._backend.force(service, checked_name(name))


class HeldLock:
    """A lock that `Cluster.try_lock` has taken: use it by `with`, or call `release`."""

    def __init__(self, cluster: Cluster, lease: Lease) -> None:
        self.lease = lease
        """The lease, which `with` gives."""
        self._cluster = cluster

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.lease!r}>"

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
        """Release the lock."""
        self._cluster._release(self.lease)


class Lock:
    """A lock that can be acquired any number of times; each time is a new lease.

    `Cluster.lock` and `Cluster.semaphore` return it.  Use it by `with`, by `acquire` and `release`,
    or as a decorator.  Threads may share the object: they exclude each other, and each releases
    its own lease.

        lock = cluster.lock("report", lease=10)
        if lock.acquire(timeout=5):
            try:
                ...
            finally:
                lock.release()

        @cluster.lock("report")
        def report() -> None: ...
    """

    def __init__(
        self,
        cluster: Cluster,
        request: AcquireRequest,
        timeout: float | None,
        reentrant: bool,
        on_lost: Callable[[Lease], None] | None,
    ) -> None:
        self._cluster = cluster
        self._backend = cluster._backend
        self._request = request
        self._timeout = checked_timeout(timeout)
        self._reentrant = reentrant
        self._on_lost = checked_listener(on_lost)
        self._is_simple = not reentrant and on_lost is None
        self._entered: dict[int, list[Lease]] = {}  # by `with`, for each thread
        self._acquired: OwnLeases | None = None  # by `acquire`

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._request.shown}>"

    @overload
    def acquire(self, blocking: Literal[True] = True) -> Lease: ...

    @overload
    def acquire(self, blocking: bool = True, timeout: float | None = None) -> Lease | None: ...

    def acquire(self, blocking: bool = True, timeout: float | None = UNSET) -> Lease | None:
        """Wait for the lock and return the lease, which is true in a condition.

        Without arguments it waits as long as the `timeout` of `Cluster.lock` says, and raises
        `LockTimeout` then, as `with` does.  With `blocking=False` or a `timeout` it returns None
        if the lock was not granted.

        blocking: whether to wait if the lock is not free.
        timeout: seconds to wait; None waits for ever.
        """
        if blocking is True and timeout is UNSET:
            lease = self._take(self._timeout)
        else:
            found = self._take_if(blocking, timeout)
            if found is None:
                return None
            lease = found
        own = self._acquired
        if own is None:
            own = self._acquired = OwnLeases()
        owner = lease._owner = own.leases
        owner.append(lease)
        return lease

    def release(self, lease: Lease | None = None) -> None:
        """Release the lock.

        Raise `LockLost` if the lock was lost before.

        lease: the lease to release; any thread may release it.  The default is that of the last
            `acquire` of this thread through this object: raise `LockNotHeld` if there is none.
        """
        if lease is not None:
            owner = lease._owner
            if owner is not None:
                try:  # noqa: SIM105  # `suppress` takes longer
                    owner.remove(lease)  # once: a reentrant one is there as often as it was taken
                except ValueError:  # it was released before
                    pass
            self._give_back(lease)
            if lease.lost:
                raise lost_inside(lease)
            return
        last = self._acquired.last() if self._acquired is not None else None
        if last is None:
            is_entered = threading.get_ident() in self._entered
            raise not_held(self._request.shown, "thread", "with" if is_entered else "")
        self.release(last)

    @property
    def lease(self) -> Lease | None:
        """The lease that this thread holds through this object, the latest if there are several;
        None if it has none.
        """
        own = self._acquired.last() if self._acquired is not None else None
        if own is None:
            entered = self._entered.get(threading.get_ident())
            own = next((each for each in reversed(entered or []) if not each.released), None)
        return own

    def owned(self) -> bool:
        """Return whether this thread holds the lock through this object, and has not lost it."""
        lease = self.lease
        return lease is not None and not lease._is_lost_now()

    def locked(self) -> bool:
        """Return whether a client holds the lock, this one or another, as far as the node knows.

        For a semaphore, return whether all places are held; this takes a place for a moment.
        """
        if isinstance(self._request, SemaphoreRequest):
            found = self._take_if(False, UNSET)
            if found is not None:
                self._give_back(found)
            return found is None
        return self._cluster._state(self._request).holder is not None

    @overload
    def __call__(
        self, function: Callable[Parameters, Coroutine[Any, Any, Result]]
    ) -> Callable[Parameters, Coroutine[Any, Any, Result]]: ...

    @overload
    def __call__(self, function: Callable[Parameters, Result]) -> Callable[Parameters, Result]: ...

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, to be executed with the lock held.

        A coroutine function opens a connection of its own for each call; in an event loop,
        `AsyncCluster.lock` does without.
        """
        from habemus.client.decorators import locked_coroutine, locked_function

        return locked_coroutine(self, function) or locked_function(self, function)

    def _asynchronous(self, cluster: AsyncCluster) -> AsyncLock:
        from habemus.client.asynchronous import AsyncLock

        return AsyncLock(cluster, self._request, self._timeout, False, self._on_lost)

    def _take(self, timeout: float | None) -> Lease:
        if self._is_simple and TRACE not in sys.modules:
            return self._backend.acquire(self._request, timeout)
        if not self._reentrant:
            return self._cluster._acquire(self._request, timeout, self._on_lost)
        own, key = self._cluster._reentrant, self._key()
        lease = own.again(key)
        if lease is None:
            lease = self._cluster._acquire(self._request, timeout, self._on_lost)
            own.add(key, lease)
        return lease

    def _take_if(self, blocking: bool, timeout: float | None) -> Lease | None:
        try:
            return self._take(asked_timeout(blocking, timeout))
        except LockTimeout:
            return None

    def _give_back(self, lease: Lease) -> None:
        if not self._reentrant or self._cluster._reentrant.is_last(self._key(), lease):
            self._backend.release(lease)

    def _key(self) -> tuple[int, str, str]:
        return threading.get_ident(), self._request.service, self._request.shown

    def __enter__(self) -> Lease:
        lease = self._take(self._timeout)
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
        self._give_back(lease)
        if lease.lost and kind is None:
            raise lost_inside(lease)


class OwnLeases(threading.local):
    """The leases that each thread has acquired and not released."""

    def __init__(self) -> None:
        self.leases: list[Lease] = []

    def last(self) -> Lease | None:
        """Return the last one that is not released; another thread may have released some."""
        held = [each for each in self.leases if not each.released]
        self.leases[:] = held
        return held[-1] if held else None


class KeptLock(Lock):
    """A lock that stays with this process when it is released; see `KeptLease`."""

    def __init__(
        self,
        cluster: Cluster,
        request: AcquireRequest,
        timeout: float | None,
        on_lost: Callable[[Lease], None] | None,
    ) -> None:
        super().__init__(cluster, request, timeout, False, on_lost)
        self._guard = threading.Lock()
        self._kept = KeptLease()

    def _take(self, timeout: float | None) -> Lease:
        """Take the kept lock, or wait for it."""
        with self._guard:
            use: Lease | None = self._kept.take()
        if use is None:
            use = self._new_use(self._cluster._acquire(self._request, timeout))
        if self._on_lost is not None:
            use.on_lost(self._on_lost)
        return use

    def _new_use(self, lease: Lease) -> Lease:
        """Keep a lease that was granted, and begin to use it."""
        if not shows_waiters(lease):
            self._cluster._release(lease)
            raise no_waiters_shown(lease)
        with self._guard:
            use = self._kept.adopt(lease)
            if use is None:
                return lease
            lease._on_wanted = self._hear_wanted
        lease.on_lost(self._kept.hear_lost)
        lease._session.hurry()
        return use

    def _give_back(self, lease: Lease) -> None:
        """End the use of the lock; keep it unless another client waits for it."""
        if not isinstance(lease, LeaseUse):  # it is not kept
            self._cluster._release(lease)
            return
        if lease._open:
            lease._kept._look()
        if lease._finish():
            with self._guard:
                ended = self._kept.give_back(lease)
            if ended is not None:
                self._cluster._release(ended)

    def _hear_wanted(self) -> None:
        with self._guard:
            lease = self._kept.want()
        if lease is not None:
            self._cluster._release(lease)


def shows_waiters(lease: Lease) -> bool:
    """Return whether the algorithm of a lock shows waiting clients to the holder."""
    return lease._session.shows_waiters(lease.service)


def no_waiters_shown(lease: Lease) -> RefusedByNode:
    """Return the error of a lock that cannot be kept."""
    return RefusedByNode(
        f"keep=True does not work with service {lease.service}: it does not tell a holder that"
        " others wait; use a cluster with elected-coordinator-leased, or leave keep out"
    )


def lost_inside(lease: Lease) -> LockLost:
    """Return the error of a `with` during which the lock was lost."""
    return LockLost(f"{lease._shown} was lost before it was released: {lease._why or EXPIRED}")


def not_held(shown: str, owner: str, entered: str) -> LockNotHeld:
    """Return the error of a release without a lease.

    owner: a thread or a task.
    entered: the statement by which the owner holds the lock, if it does.
    """
    if entered:
        return LockNotHeld(
            f"{shown} is held by `{entered}`, which releases it at its end: end that block, or give"
            " its lease to release it now"
        )
    return LockNotHeld(
        f"{shown} is not held by this {owner} through this object: acquire it first, or give the"
        " lease that another one acquired"
    )


def not_leading(name: str) -> LockNotHeld:
    """Return the error of a resignation without a term."""
    return LockNotHeld(
        f"election {name!r} is not led through this object: begin a term first, by lead()"
    )


class LeaderElection:
    """An election: to lead is to hold a lock.  Its token is the term, larger for each leader.

        election = cluster.election("scheduler")
        with election.lead() as lease:
            ...  # this client leads, in the term lease.token

    `Cluster.election` returns it.
    """

    def __init__(self, cluster: Cluster, name: str, service: str) -> None:
        self.name = name
        """The name of the election."""
        self._cluster = cluster
        self._service = service
        self._lease: Lease | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def lead(
        self,
        timeout: float | None = None,
        lease: float | None = None,
        *,
        on_lost: Callable[[Lease], None] | None = None,
    ) -> Term:
        """Return a term of office, to be taken by `with` or `begin()`, which wait for it.

        timeout, lease, on_lost: as in `Cluster.lock`; a term that is lost is over.
        """
        return Term(
            self,
            Lock(
                self._cluster,
                LeadRequest(self._service, self.name, checked_lease(lease)),
                timeout,
                False,
                on_lost,
            ),
        )

    def resign(self) -> None:
        """End the term that was begun by this object.

        Raise `LockNotHeld` if there is none, and `LockLost` if it was lost before.
        """
        self._give_up(None)

    def transfer(self, to: str) -> None:
        """Resign in favour of the client with this label; it leads next if it is waiting.

        to: the label of the client; see `Cluster.label`.
        """
        self._give_up(checked_label("to", to))

    def _give_up(self, to: str | None) -> None:
        lease = self._lease
        if lease is None:
            raise not_leading(self.name)
        self._cluster._release(lease, to)  # which an engine may refuse
        if self._lease is lease:
            self._lease = None
        if lease.lost:
            raise lost_inside(lease)

    def leader(self) -> LockState | None:
        """Return the leader, as far as the node knows; None if there is none."""
        standing = self._cluster._state(LeadRequest(self._service, self.name))
        return standing if standing.holder is not None else None

    def observe(self) -> Iterator[LockState]:
        """Yield the leader, now and after each change, for ever."""
        return self._cluster.watch(ELECTIONS + self.name, service=self._service)

    def _begin(self, lease: Lease) -> None:
        self._lease = lease

    def _end(self, lease: Lease) -> None:
        """End this term, but none that another thread has begun since."""
        if self._lease is lease:
            self._lease = None
        self._cluster._release(lease)


class Term:
    """A term of office, which `LeaderElection.lead` returns.

    The end of `with` ends it, and raises `LockLost` if the term was lost inside.
    """

    def __init__(self, election: LeaderElection, lock: Lock) -> None:
        self._election = election
        self._lock = lock
        self._lease: Lease

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._lock._request.shown}>"

    def begin(self) -> Lease:
        """Wait until this client leads, and return the lease.

        End the term by `LeaderElection.resign` or `LeaderElection.transfer`.
        """
        self._lease = self._lock.acquire()
        self._election._begin(self._lease)
        return self._lease

    def __enter__(self) -> Lease:
        return self.begin()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._election._end(self._lease)
        if self._lease.lost and kind is None:
            raise lost_inside(self._lease)


def connect(
    cluster: str | os.PathLike[str] | None = None,
    *,
    name: str | None = None,
    secret: bytes | None = None,
    ca: str | None = None,
    certificate: str | None = None,
    key: str | None = None,
    secret_file: str | None = None,
) -> Cluster:
    """Return a client of a cluster, to be used by `with` or `async with`, or closed by `close`.

        with habemus.connect("127.0.0.1:7400") as cluster: ...          # a Cluster

        async with habemus.connect("127.0.0.1:7400") as cluster: ...    # an AsyncCluster

    cluster: addresses of nodes, a socket, a cluster.toml or the folder of `habemus up`; or "local",
        or the URL of an engine.  The default is HABEMUS_CLUSTER, then the cluster that `habemus up`
        started.
    name: the name of this client that others see.  The default is its host and process.
    secret or secret_file, ca, certificate, key: credentials, if the cluster requires them.  The
        defaults are HABEMUS_SECRET_FILE, HABEMUS_CA, HABEMUS_CERTIFICATE and HABEMUS_KEY.
    """
    given: object = cluster
    if not (given is None or isinstance(given, str | os.PathLike)):
        raise ValueError(
            f'{cluster!r} is not the address of a cluster: write for example "127.0.0.1:7400"'
        )
    named = None if cluster is None else os.fspath(cluster)
    label = checked_label("name", name)
    return Cluster(named, Credentials.given(secret, ca, certificate, key, secret_file), label)

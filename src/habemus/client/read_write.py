"""Read-write locks: many readers, or one writer.

They are built of plain locks, so every backend has them.  One lock is the gate, sixteen are places.

- A reader waits for the gate, takes any place, and opens the gate again.  It holds the place.
- A writer waits for the gate, keeps it, and waits for all places.  It holds the gate and them.

A writer holds every place and a reader one, so they exclude each other as long as locks do.  Both
queue up at the gate, in order, and no reader passes while a writer waits there: neither starves.

The token of both is that of the gate, so the tokens of readers and writers are in one order.  A
reader looks at the gate once more when it has its place: if the lease of the gate was lost while it
waited, a writer with a larger token may have come before it, and it starts again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from os import urandom
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from habemus import boottime
from habemus.client.asynchronous import AsyncLock
from habemus.client.blocking import Lock, checked_lease, checked_timeout
from habemus.client.errors import LockTimeout
from habemus.client.protocol import AcquireRequest, AnyRequest
from habemus.runtimes.live.clients.protocol import READ_WRITE_LOCKS, lock_name

if TYPE_CHECKING:
    from habemus.client.asynchronous import AsyncCluster
    from habemus.client.blocking import Cluster
    from habemus.client.lease import Lease

READERS = 16
"""Places of readers.  All clients of a lock must have the same number, so it is not an option."""


class Parts(NamedTuple):
    """The locks of a read-write lock."""

    gate: AcquireRequest
    places: list[AcquireRequest]
    any_place: AnyRequest


def parts_of(service: str, name: str, lease: float | None, mode: str) -> Parts:
    """Return the locks; mode: read or write, for messages."""
    lock_name(name)
    shown = f"{mode} lock {name!r}"
    names = [f"{READ_WRITE_LOCKS}{name}/{place}" for place in range(1, READERS + 1)]
    first = urandom(1)[0] % READERS  # so that clients do not all try the same place first
    around = (*names[first:], *names[:first])
    seconds = checked_lease(lease)
    gate = AcquireRequest(service, f"{READ_WRITE_LOCKS}{name}/gate", seconds)
    places = [AcquireRequest(service, each, seconds) for each in names]
    for request in (gate, *places):
        request.shown = shown
    return Parts(gate, places, AnyRequest(service, shown, around, seconds))


Steps = Generator[AcquireRequest, "Lease", tuple["Lease", list["Lease"]]]
"""Yields the locks to acquire one after another; returns the lease of the user, and the leases that
end with it.
"""


def read_steps(parts: Parts, release: Callable[[Lease], None]) -> Steps:
    """Acquire the lock for a reader."""
    while True:
        gate = yield parts.gate
        try:
            place = yield parts.any_place
        except BaseException:
            release(gate)
            raise
        was_lost = gate._is_lost_now()
        release(gate)
        if not was_lost:
            place.token = gate.token
            return place, []
        release(place)


def write_steps(parts: Parts, release: Callable[[Lease], None]) -> Steps:
    """Acquire the lock for a writer."""
    held: list[Lease] = []
    try:
        for request in (parts.gate, *parts.places):
            lease = yield request
            held.append(lease)
    except BaseException:
        for lease in held:
            release(lease)
        raise
    gate, *places = held
    for place in places:
        place.on_lost(lambda lost: gate._lose(f"{lost.name} was lost"))
    return gate, places


class Acquisition:
    """The acquisition of one side of a read-write lock, without I/O: which lock to acquire next."""

    def __init__(self, side: Side, release: Callable[[Lease], None], timeout: float | None) -> None:
        self._shown = side.parts.any_place.shown
        self._timeout = timeout
        self.left = boottime.Deadline(timeout).left
        self._steps = side.steps(side.parts, release)
        self.request = next(self._steps)
        self.ending: list[Lease] = []  # the leases that end with that of the user

    def fail(self, reason: BaseException) -> None:
        """Release what was acquired, and raise the reason."""
        if isinstance(reason, LockTimeout):
            reason = LockTimeout(f"timed out after {self._timeout:g} s waiting for {self._shown}")
        self._steps.throw(reason)

    def go_on(self, lease: Lease) -> Lease | None:
        """Return the lease of the user when all locks are acquired, None before."""
        try:
            self.request = self._steps.send(lease)
        except StopIteration as done:
            held: Lease
            held, self.ending = done.value
            return held
        return None


class Side(NamedTuple):
    """One side of a read-write lock: that of readers, or that of writers."""

    parts: Parts
    steps: Callable[[Parts, Callable[[Lease], None]], Steps]


class EndingLeases:
    """The leases that end with those that users hold."""

    def __init__(self, release: Callable[[Lease], None]) -> None:
        self._release = release
        self._ending: dict[Lease, list[Lease]] = {}

    def add(self, lease: Lease, ending: list[Lease]) -> None:
        self._ending[lease] = ending

    def release(self, lease: Lease) -> None:
        """Release the lease of a user, after those that end with it."""
        for each in self._ending.pop(lease, []):
            self._release(each)
        self._release(lease)


class OneSide:
    """A side of a read-write lock; the class that follows is the lock of threads or of tasks."""

    _on_lost: Callable[[Lease], None] | None

    def __init__(
        self,
        cluster: Cluster | AsyncCluster,
        side: Side,
        timeout: float | None,
        on_lost: Callable[[Lease], None] | None,
    ) -> None:
        super().__init__(  # type: ignore[call-arg]
            cluster, side.parts.any_place, timeout, False, on_lost
        )
        self._side = side
        self._ending = EndingLeases(cluster._release)

    def _hold(self, lease: Lease, acquisition: Acquisition) -> Lease:
        self._ending.add(lease, acquisition.ending)
        if self._on_lost is not None:
            lease.on_lost(self._on_lost)
        return lease

    def _give_back(self, lease: Lease) -> None:
        self._ending.release(lease)


class SharedLock(OneSide, Lock):
    """A side of a read-write lock, for threads."""

    def _take(self, timeout: float | None) -> Lease:
        acquisition = Acquisition(self._side, self._cluster._release, timeout)
        held: Lease | None = None
        while held is None:
            try:
                lease = self._cluster._acquire(
                    acquisition.request, acquisition.left(), names_holder=False
                )
            except BaseException as reason:
                acquisition.fail(reason)
                raise  # the line above has raised it
            held = acquisition.go_on(lease)
        return self._hold(held, acquisition)

    def _asynchronous(self, cluster: AsyncCluster) -> AsyncLock:
        return AsyncSharedLock(cluster, self._side, self._timeout, self._on_lost)

    def locked(self) -> bool:
        """Return whether a client would have to wait now; it is tried for a moment."""
        found = self._take_if(True, 0.0)
        if found is not None:
            self._give_back(found)
        return found is None


class AsyncSharedLock(OneSide, AsyncLock):
    """A side of a read-write lock, for tasks."""

    async def _take(self, timeout: float | None) -> Lease:
        acquisition = Acquisition(self._side, self._cluster._release, timeout)
        held: Lease | None = None
        while held is None:
            try:
                lease = await self._cluster._acquire(
                    acquisition.request, acquisition.left(), names_holder=False
                )
            except BaseException as reason:
                acquisition.fail(reason)
                raise  # the line above has raised it
            held = acquisition.go_on(lease)
        return self._hold(held, acquisition)

    async def locked(self) -> bool:
        """Return whether a client would have to wait now; it is tried for a moment."""
        found = await self._take_if(True, 0.0)
        if found is not None:
            self._give_back(found)
        return found is None


AnyCluster = TypeVar("AnyCluster")


class TwoSides(Generic[AnyCluster]):
    """The sides of a read-write lock of a blocking or an asynchronous client."""

    def __init__(
        self,
        cluster: AnyCluster,
        name: str,
        timeout: float | None,
        lease: float | None,
        service: str,
    ) -> None:
        self.name = name
        """The name of the lock."""
        self._cluster = cluster
        self._timeout = checked_timeout(timeout)
        self._readers = Side(parts_of(service, name, lease, "read"), read_steps)
        self._writers = Side(parts_of(service, name, lease, "write"), write_steps)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def _seconds(self, timeout: float | None) -> float | None:
        return self._timeout if timeout is None else timeout


class ReadWriteLock(TwoSides["Cluster"]):
    """A lock that many readers, or one writer, may hold; see `Cluster.read_write_lock`.

        config = cluster.read_write_lock("config")
        with config.read():
            ...
        with config.write(timeout=5) as lease:
            write_with(lease.token)

    A writer and a reader never hold it at the same time, nor two writers, with the promises that
    plain locks of the same backend make.  Requests are served in order, so that writers wait only
    for readers who came before them.  The tokens of readers and writers are in one order: a
    resource that checks them refuses a writer, or a reader, that was overtaken by a writer.

    Up to 16 readers hold it at a time; more wait, and no writer passes them.  A read is two
    requests to the cluster, a write seventeen: use it where reads are long or many.  It is not
    re-entrant: a client that holds it and asks again may wait for ever.
    """

    def read(
        self, timeout: float | None = None, *, on_lost: Callable[[Lease], None] | None = None
    ) -> Lock:
        """Return the side of readers: a `Lock`, for `with`, `acquire` or a decorator.

        timeout: seconds to wait; the default is that of the read-write lock.
        on_lost: as in `Cluster.lock`.
        """
        return SharedLock(self._cluster, self._readers, self._seconds(timeout), on_lost)

    def write(
        self, timeout: float | None = None, *, on_lost: Callable[[Lease], None] | None = None
    ) -> Lock:
        """Return the side of writers: a `Lock`, for `with`, `acquire` or a decorator.

        timeout: seconds to wait; the default is that of the read-write lock.
        on_lost: as in `Cluster.lock`.
        """
        return SharedLock(self._cluster, self._writers, self._seconds(timeout), on_lost)


class AsyncReadWriteLock(TwoSides["AsyncCluster"]):
    """A lock that many readers, or one writer, may hold.

        config = cluster.read_write_lock("config")
        async with config.read():
            ...

    `AsyncCluster.read_write_lock` returns it.  Its promises are those of `ReadWriteLock`.
    """

    def read(
        self, timeout: float | None = None, *, on_lost: Callable[[Lease], None] | None = None
    ) -> AsyncLock:
        """Return the side of readers: an `AsyncLock`.

        timeout: seconds to wait; the default is that of the read-write lock.
        on_lost: as in `Cluster.lock`.
        """
        return AsyncSharedLock(self._cluster, self._readers, self._seconds(timeout), on_lost)

    def write(
        self, timeout: float | None = None, *, on_lost: Callable[[Lease], None] | None = None
    ) -> AsyncLock:
        """Return the side of writers: an `AsyncLock`.

        timeout: seconds to wait; the default is that of the read-write lock.
        on_lost: as in `Cluster.lock`.
        """
        return AsyncSharedLock(self._cluster, self._writers, self._seconds(timeout), on_lost)

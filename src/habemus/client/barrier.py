"""Barriers: parties wait for each other.

A barrier is built of plain locks and watches, so every backend has it.

- To join, a party takes one of as many *seats* as there are parties, and keeps it.  The name of the
  client that holds it, which others see, is new for each join.
- Each party sees the *members*: the names in the order of the seats.  It shows itself to them by
  locks whose holder has a name that ends with a digest of them.  So a party that sees other members
  is never mistaken for a member.
- Until the first wait is over the members may change.  A party shows itself to them at once if all
  seats are taken, and else when they have not changed for a moment.  So parties that wait for
  others know of each other, and mass arrivals cost nothing.
- To wait for the k-th time, a party takes the lock "arrived" of its seat, and waits until it has
  seen a newer holder than last time of all locks "arrived".  Then it takes its lock "passed".

There are two locks "arrived" of each seat, for odd and even k.  A party holds the one until it has
passed the next wait: then all parties have seen it.

Watches may be late, so nothing depends on a lock that is seen to be free, except that the barrier
breaks: if a member that was seen to arrive does not have its seat any more, it has died or given
up.  A party that leaves regularly stays until it has seen all others pass.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from hashlib import sha256
from os import urandom
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from habemus.client.asynchronous import AsyncCluster
from habemus.client.blocking import checked_lease, checked_timeout
from habemus.client.errors import HabemusError
from habemus.client.protocol import AcquireRequest, AnyRequest
from habemus.runtimes.live.clients.protocol import BARRIERS, lock_name

if TYPE_CHECKING:
    from habemus.client.backend import LockState
    from habemus.client.lease import Lease

MOST_PARTIES = 64
LABEL_LIMIT = 60
"""Characters of the label of a client that its parties keep."""
SETTLE_SECONDS = 0.2
"""How long the members of a first wait have not changed when a party shows itself to them."""
LEAVE_SECONDS = 5.0
"""How long a party that leaves waits for the others to pass."""

Result = TypeVar("Result")


class BarrierBroken(HabemusError, threading.BrokenBarrierError):
    """A party of a barrier does not come any more: it has died, given up or lost its place."""


class Member:
    """One party from joining to leaving, for the tasks of one event loop."""

    def __init__(
        self,
        made: Callable[[str], AsyncCluster],
        label: str,
        name: str,
        parties: int,
        lease: float | None,
        service: str,
    ) -> None:
        self._made = made
        self._label = f"{label[:LABEL_LIMIT]} {urandom(4).hex()}"
        self._name = name
        self._parties = parties
        self._lease = lease
        self._service = service
        self._seats = made(self._label)
        self._arrivals: AsyncCluster | None = None  # the client that shows itself to members
        self._held: dict[str, Lease] = {}
        self._seen: dict[str, LockState] = {}
        self._last: dict[str, int] = {}  # the token of the last arrival that was counted
        self._members: list[str | None] = []
        self._settled_at = 0.0  # when the members have not changed for a moment
        self._arrived: dict[int, str] = {}  # members that were seen to arrive, by their seats
        self._change = asyncio.Event()
        self._watches: list[asyncio.Task[None]] = []
        self._round = 0
        self.seat = 0
        self.why = ""
        """The reason why the barrier is broken."""

    # Locks.

    def _lock(self, seat: int, kind: str = "") -> str:
        return f"{BARRIERS}{self._name}/{seat}{kind and '/' + kind}"

    def _others(self) -> list[int]:
        return [seat for seat in range(1, self._parties + 1) if seat != self.seat]

    async def join(self) -> None:
        """Take a seat."""
        await self._seats.__aenter__()
        seats = tuple(self._lock(seat) for seat in range(1, self._parties + 1))
        request = AnyRequest(self._service, f"barrier {self._name!r}", seats, self._lease)
        seat = await self._seats._acquire(request, None)
        self.seat = seats.index(seat.name) + 1
        self._hold("seat", seat)
        kinds = ("", "arrived-0", "arrived-1")
        self._watch([self._lock(other, kind) for other in self._others() for kind in kinds])

    def _hold(self, what: str, lease: Lease) -> None:
        loop = asyncio.get_running_loop()
        self._held[what] = lease

        def tell(_: Lease) -> None:
            with suppress(RuntimeError):  # the loop may have closed
                loop.call_soon_threadsafe(self._change.set)

        lease.on_lost(tell)

    async def _show(self, what: str) -> None:
        assert self._arrivals is not None
        request = AcquireRequest(self._service, self._lock(self.seat, what), self._lease)
        self._hold(what, await self._arrivals._acquire(request, None))

    def _hide(self, what: str) -> None:
        lease = self._held.pop(what, None)
        if lease is not None and self._arrivals is not None:
            self._arrivals._release(lease)

    def _watch(self, names: list[str]) -> None:
        async def follow(name: str) -> None:
            async for state in self._seats._backend.watch(self._service, name):
                self._seen[name] = state
                self._change.set()

        self._watches += [asyncio.ensure_future(follow(name)) for name in names]

    # Waiting.

    async def wait(self, timeout: float | None) -> int:
        """Wait until all parties wait; raise `BarrierBroken` if one does not come any more."""
        self._check()
        try:
            async with asyncio.timeout(timeout):
                if not self.seat:
                    await self.join()
                await self._gather()
        except TimeoutError:
            self._break(f"timed out after {timeout:g} s; {self._missing()}")
        except BaseException:
            self._break("this party gave up")
            await self.abandon()
            raise
        if self.why:
            await self.abandon()
        self._check()
        return self.seat - 1

    def _missing(self) -> str:
        """Say for whom this party waits."""
        if not self.seat:
            return f"{self._parties} others have not left yet"
        arrived = f"arrived-{self._round % 2}"
        missing = sum(
            self._came(seat, arrived) is None if self._round else self._holder(seat) is None
            for seat in self._others()
        )
        return f"{missing} of {self._parties} did not come"

    def _check(self) -> None:
        if self.why:
            raise BarrierBroken(self.why)

    async def _gather(self) -> None:
        """Wait until all members have arrived, or the barrier is broken."""
        arrived = f"arrived-{self._round % 2}"
        if self._round:
            await self._show(arrived)
        while not self._is_broken():
            self._change.clear()
            if not self._round:
                await self._meet()
            if self._arrivals is not None and self._have_all_arrived(arrived):
                await self._show(f"passed-{self._round % 2}")
                self._round += 1
                for kind in ("arrived", "passed"):
                    self._hide(f"{kind}-{self._round % 2}")
                return
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._settled_at if self._arrivals is None else None):
                    await self._change.wait()

    async def _meet(self) -> None:
        """Take in the members, and show this party to them: at once if they are complete, else when
        they have not changed for a moment.
        """
        now = asyncio.get_running_loop().time()
        members = [
            self._label if seat == self.seat else self._holder(seat)
            for seat in range(1, self._parties + 1)
        ]
        if members != self._members:
            self._members = members
            self._settled_at = now + SETTLE_SECONDS
            for what in [what for what in self._held if what != "seat"]:
                del self._held[what]
            arrivals, self._arrivals = self._arrivals, None
            if arrivals is not None:
                await arrivals.close()
        if self._arrivals is None and (None not in members or now >= self._settled_at):
            self._arrivals = self._made(self._sign(self.seat))
            await self._arrivals.__aenter__()
            await self._show("arrived-0")

    def _holder(self, seat: int) -> str | None:
        state = self._seen.get(self._lock(seat))
        return None if state is None else state.holder

    def _sign(self, seat: int) -> str:
        """Return the name of a member that shows itself to these members."""
        digest = sha256("\n".join(map(str, self._members)).encode()).hexdigest()[:16]
        return f"{self._members[seat - 1]} {digest}"

    def _shows(self, seat: int, what: str) -> int | None:
        """Return the token of a lock that a member holds to show itself."""
        state = self._seen.get(self._lock(seat, what))
        return state.token if state is not None and state.holder == self._sign(seat) else None

    def _came(self, seat: int, arrived: str) -> int | None:
        """Return the token by which a member shows that it has come to this wait."""
        token = self._shows(seat, arrived)
        is_new = token is not None and token > self._last.get(self._lock(seat, arrived), 0)
        return token if is_new else None

    def _have_all_arrived(self, arrived: str) -> bool:
        found: dict[str, int] = {}
        for seat in self._others():
            token = self._came(seat, arrived)
            if token is not None:
                found[self._lock(seat, arrived)] = token
                self._arrived[seat] = str(self._members[seat - 1])
        if len(found) < self._parties - 1:
            return False
        self._last.update(found)
        return True

    def _is_broken(self) -> bool:
        for seat, member in self._arrived.items():
            if self._holder(seat) != member:
                self._break(f"party {member} has died or given up")
        for what, lease in self._held.items():
            if lease._is_lost_now():
                self._break(f"this party has lost the lock {lease.name} ({what})")
        return bool(self.why)

    def _break(self, why: str) -> None:
        self.why = self.why or f"barrier {self._name!r} is broken: {why}"

    # Leaving.

    async def leave(self) -> None:
        """Leave after the last wait: let all members pass first."""
        if self._round and not self.why:
            passed = f"passed-{(self._round - 1) % 2}"
            self._watch([self._lock(other, passed) for other in self._others()])
            with suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_SECONDS):
                    while not all(self._is_done(seat, passed) for seat in self._others()):
                        self._change.clear()
                        await self._change.wait()
        await self.abandon()

    def _is_done(self, seat: int, passed: str) -> bool:
        is_there = self._holder(seat) == self._members[seat - 1]
        return not is_there or self._shows(seat, passed) is not None

    async def abandon(self) -> None:
        """Leave at once; this breaks the barrier for members that wait."""
        self.why = self.why or f"this party has left barrier {self._name!r}"
        for task in self._watches:
            task.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        self._watches.clear()
        for client in (self._arrivals, self._seats):
            if client is not None:
                with suppress(HabemusError):
                    await client.close()


def checked_parties(name: str, parties: int) -> str:
    """Return the name of a barrier; `ValueError` if it, or the number of parties, is not valid."""
    if type(parties) is not int or not 1 <= parties <= MOST_PARTIES:
        raise ValueError(f"parties={parties!r}: give a whole number from 1 to {MOST_PARTIES}")
    return lock_name(name)


class AsyncBarrier:
    """A barrier for tasks: parties in different processes wait for each other.

        await cluster.barrier("start", parties=4).wait(timeout=60)    # once

        async with cluster.barrier("phase", parties=4) as barrier:    # again and again
            await barrier.wait()

    `AsyncCluster.barrier` returns it.  Its promises are those of `Barrier`.
    """

    def __init__(
        self, cluster: AsyncCluster, name: str, parties: int, lease: float | None, service: str
    ) -> None:
        self.name = checked_parties(name, parties)
        """The name of the barrier."""
        self.parties = parties
        """How many parties wait for each other."""
        self._cluster = cluster
        self._lease = checked_lease(lease)
        self._service = service
        self._member: Member | None = None

    def _new_member(self) -> Member:
        return Member(
            self._cluster._with_label,
            self._cluster.label,
            self.name,
            self.parties,
            self._lease,
            self._service,
        )

    async def wait(self, timeout: float | None = None) -> int:
        """Wait until all parties wait, and return a number from 0 to parties - 1, another for each.

        timeout: as in `Barrier.wait`.
        """
        seconds = checked_timeout(timeout)
        if self._member is not None:
            return await self._member.wait(seconds)
        member = self._new_member()
        place = await member.wait(seconds)
        await member.leave()
        return place

    @property
    def broken(self) -> bool:
        """Whether this party cannot wait any more."""
        return self._member is not None and bool(self._member.why)

    async def abort(self) -> None:
        """Break the barrier for all parties that wait."""
        if self._member is not None:
            await self._member.abandon()

    async def __aenter__(self) -> Self:
        self._member = self._new_member()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        member, self._member = self._member, None
        if member is not None:
            await (member.leave() if kind is None else member.abandon())


class Barrier:
    """A barrier: parties in different processes wait for each other.

        cluster.barrier("start", parties=4).wait(timeout=60)    # once

        with cluster.barrier("phase", parties=4) as barrier:    # again and again
            for phase in range(10):
                work(phase)
                barrier.wait()

    No party passes a wait before all have come to it.  If a party dies, gives up after its timeout,
    leaves the `with` by an exception, or is cut off, the others that wait raise `BarrierBroken`
    within its lease.  A party that dies in the first moments of a gathering may only have left its
    place to another.  If one dies at the moment at which all have come, some may pass and others
    raise.

    More than `parties` callers form a queue for the next gathering.  A program uses one object for
    each of its parties, in one thread at a time.
    """

    def __init__(
        self,
        made: Callable[[], AsyncCluster],
        name: str,
        parties: int,
        lease: float | None,
        service: str,
    ) -> None:
        self.name = checked_parties(name, parties)
        """The name of the barrier."""
        self.parties = parties
        """How many parties wait for each other."""
        self._made = made
        self._rest = (checked_lease(lease), service)
        self._thread: LoopThread | None = None
        self._barrier: AsyncBarrier | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until all parties wait, and return a number from 0 to parties - 1, another for each.

        Inside `with`, the party stays a member, and can wait again.  Outside, it joins for this one
        time.

        timeout: seconds; when they are over, the barrier is broken for all parties that wait.
        """
        seconds = checked_timeout(timeout)
        if self._thread is not None and self._barrier is not None:
            return self._thread.run(self._barrier.wait(seconds))
        thread = LoopThread("habemus-barrier")
        try:
            return thread.run(self._new().wait(seconds))
        finally:
            thread.close()

    def _new(self) -> AsyncBarrier:
        return AsyncBarrier(self._made(), self.name, self.parties, *self._rest)

    @property
    def broken(self) -> bool:
        """Whether this party cannot wait any more."""
        return self._barrier is not None and self._barrier.broken

    def abort(self) -> None:
        """Break the barrier for all parties that wait."""
        if self._thread is not None and self._barrier is not None:
            self._thread.run(self._barrier.abort())

    def __enter__(self) -> Self:
        self._thread = LoopThread("habemus-barrier")
        self._barrier = self._new()
        self._thread.run(self._barrier.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        thread, barrier = self._thread, self._barrier
        assert thread is not None and barrier is not None
        try:
            thread.run(barrier.__aexit__(kind, error, trace))
        finally:
            self._thread = self._barrier = None
            thread.close()


class LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Return the result; an interrupt of this thread cancels the work."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        async def end() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self.run(end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

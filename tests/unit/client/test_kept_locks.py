"""Locks with `keep=True`: each use has a lease of its own, which ends with its release."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio
from tests.unit.client.conftest import WELCOME, FakeNode, line

import habemus
from habemus import Lease, LockLost

SERVICES = {"locks": {"problem": "mutex", "algorithm": "x", "lease_ms": None, "sees_waiters": True}}


class OneLock:
    """A node that grants one lock once, until it is released."""

    def __init__(self) -> None:
        self.holder = 0
        self.releases = 0

    def answer(self, said: list[Any]) -> bytes:
        if said[0] == "hello":
            return line("welcome", {**WELCOME, "services": SERVICES})
        if said[0] == "release" and said[1] == self.holder:
            self.holder = 0
            self.releases += 1
        if said[0] == "request" and self.holder:
            return line("refused", said[1], "timeout", "it is held")
        if said[0] == "request":
            self.holder = said[1]
            return line("granted", said[1], 7, None, said[6], said[3][0])
        if said[0] == "watch":
            return line("news", said[1], {"holder": "me"})
        return b""


@pytest.fixture
def node() -> OneLock:
    return OneLock()


@pytest.fixture
def place(node: OneLock, fake_node: Callable[..., FakeNode]) -> Iterator[str]:
    yield fake_node(node.answer).place


Run = Callable[[Callable[[], Any]], Any]
LOOPS = pytest.mark.parametrize(
    "run", [lambda main: asyncio.run(main()), trio.run], ids=["asyncio", "trio"]
)


def is_released(lease: Lease) -> bool:
    return lease.released and not lease.held and not lease.lost and lease.remaining == 0


def lose(cluster: Any) -> None:
    """End the session, as when the connection to the node is lost."""
    cluster._backend._session.close("the node is down")


def test_a_second_release_does_not_end_the_use_of_another_thread(node: OneLock, place: str) -> None:
    with habemus.connect(place) as cluster:
        lock = cluster.lock("kept", keep=True)
        first = lock.acquire()
        lock.release(first)
        second = lock.acquire()
        lock.release(first)
        assert lock.acquire(timeout=0) is None
        assert second.held and not first.held and first.released
        lock.release(second)
        assert node.releases == 0
        with lock as third:
            assert third.token == second.token == first.token


@LOOPS
def test_a_second_release_does_not_end_the_use_of_another_task(run: Run, place: str) -> None:
    async def main() -> None:
        async with habemus.connect(place) as cluster:
            lock = cluster.lock("kept", keep=True)
            first = await lock.acquire()
            lock.release(first)
            second = await lock.acquire()
            lock.release(first)
            assert await lock.acquire(timeout=0) is None
            assert second.held and not first.held and first.released

    run(main)


def test_a_use_by_with_is_over_at_its_end(place: str) -> None:
    with habemus.connect(place) as cluster:
        lock = cluster.lock("kept", keep=True)
        with lock as lease:
            assert lease.held and lock.owned()
            lease.check()
        assert is_released(lease) and lock.lease is None
        with pytest.raises(LockLost, match="lock 'kept' is not held any more: it was released"):
            lease.check()


@LOOPS
def test_a_use_by_async_with_is_over_at_its_end(run: Run, place: str) -> None:
    async def main() -> None:
        async with habemus.connect(place) as cluster:
            lock = cluster.lock("kept", keep=True)
            async with lock as lease:
                assert lease.held and await lock.owned()
            assert is_released(lease) and lock.lease is None

    run(main)


def test_a_loss_is_reported_to_the_use_in_progress(place: str) -> None:
    lost: list[Lease] = []
    with habemus.connect(place) as cluster:
        lock = cluster.lock("kept", keep=True, on_lost=lost.append)
        with lock:
            pass
        with pytest.raises(LockLost), lock as lease:
            lose(cluster)
            assert lost == [lease] and lease.lost and not lease.released
        with pytest.raises(LockLost):
            lock.release(lease)
        assert lease.lost and lost == [lease]


def test_a_loss_after_the_release_is_reported_to_no_use(place: str) -> None:
    lost: list[Lease] = []
    with habemus.connect(place) as cluster:
        with cluster.lock("kept", keep=True, on_lost=lost.append) as lease:
            lease.on_lost(lost.append)
        lose(cluster)
        assert not lost and lease.released


def test_an_asynchronous_loss_after_the_release_is_reported_to_no_use(place: str) -> None:
    lost: list[Lease] = []

    async def run() -> None:
        async with habemus.connect(place) as cluster:
            async with cluster.lock("kept", keep=True, on_lost=lost.append) as lease:
                pass
            lose(cluster)
            assert not lost and lease.released

    asyncio.run(run())


def test_a_lost_lock_is_requested_again(node: OneLock, place: str) -> None:
    with habemus.connect(place) as cluster:
        lock = cluster.lock("kept", keep=True)
        lost = lock.acquire()
        lose(cluster)
        node.holder = 0
        again = lock.acquire()
        with pytest.raises(LockLost):
            lock.release(lost)
        assert lost.lost and again.held and lock.acquire(timeout=0) is None


def test_another_lock_object_releases_a_use_once_and_for_good(node: OneLock, place: str) -> None:
    """The kept lock must not hand out a lease that the node does not know any more."""
    with habemus.connect(place) as cluster:
        kept, plain = cluster.lock("kept", keep=True), cluster.lock("kept")
        first = kept.acquire()
        plain.release(first)
        second = kept.acquire()
        plain.release(first)
        assert second.held and first.released
        kept.release(second)
        plain.release(second)
        third = kept.acquire()
        assert third.held
        assert node.releases == 1

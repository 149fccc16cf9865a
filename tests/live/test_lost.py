"""A lock that is lost inside a `with` block never ends in silence, however short the block is."""

from __future__ import annotations

import asyncio
import select
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import Any

import pytest
import uvloop
from tests.backends import async_nodes_of, session_of
from tests.live.conftest import PATIENCE, until
from tests.live.forwarder import Forwarder
from tests.live.nodes import SOON, Nodes

import habemus
from habemus import Cluster, Lease, LockLost
from habemus.client.asynchronous import AsyncCluster

NAME = "printer"

Listener = Callable[[Lease], None]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    made = Nodes(tmp_path_factory.mktemp("nodes"), size=1)
    with habemus.connect(made.socket(1)) as first, first.lock(NAME, PATIENCE):
        pass  # a coordinator is elected: whoever only tries does not wait for that
    yield made
    made.close()


@pytest.fixture
def forwarder(nodes: Nodes) -> Iterator[Forwarder]:
    made = Forwarder(nodes.address(1))
    yield made
    made.close()


def lock(cluster: Cluster, on_lost: Listener) -> AbstractContextManager[Any]:
    return cluster.lock(NAME, PATIENCE, on_lost=on_lost)


def try_lock(cluster: Cluster, on_lost: Listener) -> AbstractContextManager[Any]:
    held = cluster.try_lock(NAME, on_lost=on_lost)
    assert held is not None
    return held


def semaphore(cluster: Cluster, on_lost: Listener) -> AbstractContextManager[Any]:
    return cluster.semaphore(NAME, 1, PATIENCE, on_lost=on_lost)


@contextmanager
def acquire_all(cluster: Cluster, on_lost: Listener) -> Iterator[Lease]:
    with cluster.acquire_all([NAME], PATIENCE, on_lost=on_lost) as leases:
        yield leases[0]


def lead(cluster: Cluster, on_lost: Listener) -> AbstractContextManager[Any]:
    return cluster.election(NAME).lead(PATIENCE, on_lost=on_lost)


def arrives(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(PATIENCE * 1_000))


@pytest.mark.parametrize("enter", [lock, try_lock, semaphore, acquire_all, lead])
def test_the_end_of_with_looks_at_its_connection(
    nodes: Nodes,
    forwarder: Forwarder,
    enter: Callable[[Cluster, Listener], AbstractContextManager[Any]],
) -> None:
    told: list[Lease] = []
    with habemus.connect(forwarder.address) as mine, habemus.connect(nodes.socket(1)) as operator:
        with (
            pytest.raises(LockLost, match="lost before it was released"),
            enter(mine, told.append) as lease,
        ):
            assert operator.force(lease.name)["taken"]
            assert arrives(session_of(lease)._connections[lease._id].fileno())
        assert told == [lease]
        assert lease.lost
        with operator.lock(NAME, PATIENCE):
            pass


def free_soon(cluster: Cluster, name: str) -> bool:
    """Wait until no client has a lock, and return whether that took less than a lease."""
    began = time.monotonic()
    until(
        lambda: name not in {each["name"] for each in cluster.status()["locks"] if each["holder"]}
    )
    return time.monotonic() - began < SOON


@pytest.mark.parametrize("enter", [lock, try_lock, semaphore, acquire_all, lead])
def test_a_client_that_is_cut_off_keeps_its_lock_until_it_releases_it(
    nodes: Nodes,
    forwarder: Forwarder,
    enter: Callable[[Cluster, Listener], AbstractContextManager[Any]],
) -> None:
    told: list[Lease] = []
    with habemus.connect(forwarder.address) as mine, habemus.connect(nodes.socket(1)) as operator:
        with enter(mine, told.append) as lease:
            forwarder.cut()
            session = session_of(lease)
            assert arrives(session._connections[lease._id].fileno())
            lease.check()
            until(lambda: session.keeping is not None)
        assert told == [] and lease.released
        assert free_soon(operator, lease.name)


def test_a_release_that_is_lost_with_its_connection_is_repeated(
    nodes: Nodes, forwarder: Forwarder
) -> None:
    with habemus.connect(forwarder.address) as mine, habemus.connect(nodes.socket(1)) as other:
        with mine.lock(NAME, PATIENCE) as lease:
            forwarder.cut()
            assert arrives(session_of(lease)._connections[lease._id].fileno())
        assert free_soon(other, NAME)


def test_a_release_by_hand_tells_of_a_lost_lock(nodes: Nodes) -> None:
    told: list[Lease] = []
    with habemus.connect(nodes.socket(1)) as mine:
        lock = mine.lock(NAME, PATIENCE, on_lost=told.append)
        lease = lock.acquire()
        mine.force(NAME)
        assert arrives(session_of(lease)._connections[lease._id].fileno())
        with pytest.raises(LockLost, match="released by an operator"):
            lock.release(lease)
        assert lease.lost
        assert told == [lease]


def test_an_asynchronous_release_by_hand_tells_of_a_lost_lock(nodes: Nodes) -> None:
    async def run(operator: Cluster) -> None:
        async with habemus.connect(nodes.socket(1)) as mine:
            assert isinstance(mine, AsyncCluster)
            lock = mine.lock(NAME, PATIENCE)
            lease = await lock.acquire()
            assert lease is not None
            operator.force(NAME)
            while not lease.lost:
                await asyncio.sleep(0.001)
            with pytest.raises(LockLost, match="released by an operator"):
                lock.release(lease)

    with habemus.connect(nodes.socket(1)) as operator:
        asyncio.run(run(operator))


def test_the_error_of_the_block_is_not_hidden(nodes: Nodes) -> None:
    told: list[Lease] = []
    with habemus.connect(nodes.socket(1)) as mine:
        with pytest.raises(ZeroDivisionError), lock(mine, told.append) as lease:
            mine.force(NAME)
            assert arrives(session_of(lease)._connections[lease._id].fileno())
            raise ZeroDivisionError
        assert told == [lease]


def async_lock(cluster: AsyncCluster, on_lost: Listener) -> AbstractAsyncContextManager[Any]:
    return cluster.lock(NAME, PATIENCE, on_lost=on_lost)


@asynccontextmanager
async def async_try_lock(cluster: AsyncCluster, on_lost: Listener) -> AsyncIterator[Lease]:
    held = None
    async with asyncio.timeout(PATIENCE):
        while held is None:  # a release may be on its way on another connection
            held = await cluster.try_lock(NAME, on_lost=on_lost)
    async with held as lease:
        yield lease


def async_semaphore(cluster: AsyncCluster, on_lost: Listener) -> AbstractAsyncContextManager[Any]:
    return cluster.semaphore(NAME, 1, PATIENCE, on_lost=on_lost)


@asynccontextmanager
async def async_acquire_all(cluster: AsyncCluster, on_lost: Listener) -> AsyncIterator[Lease]:
    async with cluster.acquire_all([NAME], PATIENCE, on_lost=on_lost) as leases:
        yield leases[0]


def async_lead(cluster: AsyncCluster, on_lost: Listener) -> AbstractAsyncContextManager[Any]:
    return cluster.election(NAME).lead(PATIENCE, on_lost=on_lost)


ASYNC = [async_lock, async_try_lock, async_semaphore, async_acquire_all, async_lead]


LOOPS = pytest.mark.parametrize(
    ("enter", "loop"), [*((enter, "asyncio") for enter in ASYNC), (async_lock, "uvloop")]
)


def descriptor_of(mine: AsyncCluster, lease: Lease) -> int:
    lines = async_nodes_of(mine)._lines[session_of(lease)]
    number: int = lines.transport.get_extra_info("socket").fileno()
    return number


@LOOPS
def test_the_end_of_async_with_looks_at_its_connection(
    nodes: Nodes,
    forwarder: Forwarder,
    enter: Callable[[AsyncCluster, Listener], AbstractAsyncContextManager[Any]],
    loop: str,
) -> None:
    """Also where the block has not let the event loop read since."""
    told: list[Lease] = []

    async def run(operator: Cluster) -> None:
        async with habemus.connect(forwarder.address) as mine:
            assert isinstance(mine, AsyncCluster)
            with pytest.raises(LockLost, match="lost before it was released"):
                async with enter(mine, told.append) as lease:
                    assert operator.force(lease.name)["taken"]
                    assert arrives(descriptor_of(mine, lease))
            assert told == [lease]
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0
            await asyncio.sleep(0)  # no cancellation is left over

    with habemus.connect(nodes.socket(1)) as operator:
        (asyncio.run if loop == "asyncio" else uvloop.run)(run(operator))


@LOOPS
@pytest.mark.parametrize("has_noticed", [False, True])
def test_an_asynchronous_client_that_is_cut_off_keeps_its_lock_until_it_releases_it(
    nodes: Nodes,
    forwarder: Forwarder,
    enter: Callable[[AsyncCluster, Listener], AbstractAsyncContextManager[Any]],
    loop: str,
    has_noticed: bool,
) -> None:
    told: list[Lease] = []

    async def run() -> None:
        async with habemus.connect(forwarder.address) as mine:
            assert isinstance(mine, AsyncCluster)
            async with enter(mine, told.append) as lease:
                forwarder.cut()
                assert arrives(descriptor_of(mine, lease))
                while has_noticed and not session_of(lease).was_cut:
                    await asyncio.sleep(0.001)
                lease.check()
            assert told == [] and lease.released
            # and not when its lease has expired
            async with asyncio.timeout(SOON), enter(mine, told.append) as next_one:
                assert next_one.token is not None and lease.token is not None
                assert next_one.token > lease.token

    (asyncio.run if loop == "asyncio" else uvloop.run)(run())


ENDINGS = {
    "cut off": """
cluster = habemus.connect(sys.argv[1])
lease = cluster.lock(sys.argv[2]).acquire()
print(flush=True)
sys.stdin.readline()
while lease._session.keeping is None:
    lease.check()
    time.sleep(0.001)
""",
    "asynchronous": """
async def run():
    cluster = await habemus.connect(sys.argv[1]).__aenter__()
    await cluster.lock(sys.argv[2]).acquire()

asyncio.run(run())
print(flush=True)
sys.stdin.readline()
""",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_process_that_ends_without_a_connection_for_its_goodbye_releases_at_once(
    nodes: Nodes, forwarder: Forwarder, ending: str
) -> None:
    program = f"import asyncio, sys, time, habemus\n{ENDINGS[ending]}"
    running = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", program, forwarder.address, NAME],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == b"\n"
    with habemus.connect(nodes.socket(1)) as operator:
        assert operator.try_lock(NAME) is None
        forwarder.cut()
        running.communicate(b"\n", timeout=PATIENCE)
        assert running.returncode == 0
        assert free_soon(operator, NAME)


@pytest.mark.parametrize("others", [0, 1])
def test_an_asynchronous_release_that_is_lost_with_its_connection_is_repeated(
    nodes: Nodes, forwarder: Forwarder, others: int
) -> None:
    """Also by a client that holds nothing any more."""

    async def run(operator: Cluster) -> None:
        async with habemus.connect(forwarder.address) as mine:
            assert isinstance(mine, AsyncCluster)
            for number in range(others):
                await mine.lock(f"{NAME}-{number}", PATIENCE).acquire()
            lock = mine.lock(NAME, PATIENCE)
            lease = await lock.acquire()
            assert lease is not None
            forwarder.cut()
            assert arrives(descriptor_of(mine, lease))
            lock.release(lease)
            assert await asyncio.to_thread(free_soon, operator, NAME)

    with habemus.connect(nodes.socket(1)) as operator:
        asyncio.run(run(operator))


def test_remaining_is_what_is_left_of_the_lease(nodes: Nodes) -> None:
    with habemus.connect(nodes.socket(1)) as mine:
        lease = mine.lock(NAME, PATIENCE).acquire()
        assert 0 < lease.remaining <= 30
        mine.force(NAME)
        assert arrives(session_of(lease)._connections[lease._id].fileno())
        with pytest.raises(LockLost, match="operator"):
            lease.check()
        assert lease.remaining == 0

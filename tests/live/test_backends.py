"""Conformance of everything that grants locks: the same tests for all backends.

`make test` runs them on our own cluster, local, PostgreSQL and Redis; `make test-engines` on etcd
and ZooKeeper as well.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path

import pytest
from tests.live.conftest import PATIENCE, until
from tests.live.engines import FORKING, SYSTEMS, System, client, proxies

import habemus
from habemus.client.asynchronous import AsyncCluster
from habemus.client.blocking import Cluster
from habemus.client.engines.engine import Wait, WaitOver
from habemus.client.engines.engine_backend import EngineBackend
from habemus.supervise.process_tree import children
from habemus.torture.links import ProxyLink

CHOSEN = os.environ.get("HABEMUS_TEST_BACKENDS", "own,local,postgresql,redis").split(",")


@pytest.fixture(scope="module", params=CHOSEN)
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    with tempfile.TemporaryDirectory(prefix="habemus-", ignore_cleanup_errors=True) as folder:
        made = SYSTEMS[request.param](Path(folder))
        yield made
        made.stop()


@pytest.fixture
def cluster(system: System) -> Iterator[Cluster]:
    with habemus.connect(system.url, name="one") as made:
        yield made


@pytest.fixture
def other(system: System) -> Iterator[Cluster]:
    with habemus.connect(system.url, name="two") as made:
        yield made


class Waiter(threading.Thread):
    """A thread that acquires a lock, and notes in which order."""

    def __init__(self, cluster: Cluster, name: str, order: list[str], label: str) -> None:
        super().__init__(daemon=True)
        self.cluster, self.lock, self.order, self.label = cluster, name, order, label
        self.start()

    def run(self) -> None:
        with self.cluster.lock(self.lock):
            self.order.append(self.label)


def has_waiting(cluster: Cluster, name: str, count: int) -> bool:
    return next(iter(cluster.watch(name))).waiting == count


def test_one_holder_at_a_time_and_tokens_grow(cluster: Cluster, other: Cluster) -> None:
    tokens: list[int] = []
    for each in (cluster, other, cluster, other):
        with each.lock("growing") as lease:
            assert lease.held
            assert lease.name == "growing"
            lease.check()
            assert other.try_lock("growing") is None
            assert lease.token is not None
            tokens.append(lease.token)
        assert not lease.held
    assert tokens == sorted(set(tokens)), "larger for each holder"


def test_timeouts(cluster: Cluster, other: Cluster) -> None:
    with cluster.lock("timed"):
        for timeout in (0, 0.3):
            with pytest.raises(habemus.LockTimeout, match=r"lock 'timed'.* \(held by one"):
                other.lock("timed", timeout=timeout).acquire()

    def is_granted() -> bool:
        with suppress(habemus.LockTimeout), other.lock("timed", timeout=0):
            return True
        return False

    until(is_granted)  # the release is not awaited: a try may arrive before it


def test_threads_exclude_each_other_and_wait_in_order(cluster: Cluster, other: Cluster) -> None:
    order: list[str] = []
    with cluster.lock("queue"):
        threads = []
        for count, label in enumerate("abc"):
            threads.append(Waiter((cluster, other)[count % 2], "queue", order, label))
            until(partial(has_waiting, cluster, "queue", count + 1))
        assert not order
    for thread in threads:
        thread.join(PATIENCE)
    assert order == ["a", "b", "c"]


def test_a_newcomer_does_not_overtake_a_client_that_waits(cluster: Cluster, other: Cluster) -> None:
    """The holder asks again at once, before the client that waits is awake."""
    for _ in range(5):
        order: list[str] = []
        with cluster.lock("orderly"):
            thread = Waiter(other, "orderly", order, "waited")
            until(partial(has_waiting, cluster, "orderly", 1))
        with cluster.lock("orderly"):
            order.append("newcomer")
        thread.join(PATIENCE)
        assert order == ["waited", "newcomer"]


def test_a_request_that_timed_out_does_not_stand_in_the_way(
    cluster: Cluster, other: Cluster
) -> None:
    order: list[str] = []

    def leave() -> None:
        with pytest.raises(habemus.LockTimeout):
            other.lock("left", 1).acquire()

    with cluster.lock("left"):
        leaver = threading.Thread(target=leave)
        leaver.start()
        until(lambda: has_waiting(cluster, "left", 1))
        thread = Waiter(other, "left", order, "behind")
        leaver.join(PATIENCE)
        assert not order
    thread.join(PATIENCE)
    assert order == ["behind"]


def test_a_client_whose_connection_breaks_while_it_waits_is_granted_the_lock(
    system: System, cluster: Cluster, other: Cluster
) -> None:
    order: list[str] = []
    link = ProxyLink(0)
    with system.through(link, "broken") as behind_proxy, cluster.lock("broken") as lease:
        first = Waiter(behind_proxy, "broken", order, "first")
        until(partial(has_waiting, cluster, "broken", 1))
        second = Waiter(other, "broken", order, "second")
        until(partial(has_waiting, cluster, "broken", 2))
        broken = set(link.connections)
        assert broken
        proxies().call_soon_threadsafe(link.hold)
        if system.keeps_places:  # break it while an answer is awaited
            until(lambda: any(each.near.waiting for each in broken))
        proxies().call_soon_threadsafe(link.break_off)
        proxies().call_soon_threadsafe(link.let_go)
        # Then it waits again, behind the proxy or at the address that the node has named.
        until(lambda: not link.connections & broken)
        until(partial(has_waiting, cluster, "broken", 2))
        lease.check()
        assert not order
        cluster.lock("broken").release(lease)
        for thread in (first, second):
            thread.join(PATIENCE)
    proxies().call_soon_threadsafe(link.close)
    assert sorted(order) == ["first", "second"]
    if system.keeps_places:
        assert order == ["first", "second"]


def test_a_client_that_lost_the_lock_while_it_waited_does_not_enter(
    system: System, cluster: Cluster, other: Cluster
) -> None:
    """It is paused until the lock was granted to it, and its lease has expired."""
    if system.is_local:
        pytest.skip("a local lock has no lease: a client that is paused keeps its place")
    with cluster.lock("slept"):
        process = client(system.url, "slept")
        until(partial(has_waiting, cluster, "slept", 1))
        process.send_signal(signal.SIGSTOP)
    assert process.stdout is not None
    try:
        with other.lock("slept", timeout=PATIENCE) as lease:
            process.send_signal(signal.SIGCONT)
            until(partial(has_waiting, cluster, "slept", 1))
            assert select.select([process.stdout], [], [], 0)[0] == []
            lease.check()
        assert lease.token is not None
        assert int(process.stdout.readline()) > lease.token
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_two_tasks_and_a_cancellation_in_the_middle(system: System) -> None:
    async def scenario() -> None:
        async with habemus.connect(system.url) as cluster:
            lock = cluster.lock("tasks")
            async with lock as first:
                cancelled = asyncio.ensure_future(lock.acquire())
                await asyncio.sleep(0.2)
                behind = asyncio.ensure_future(cluster.lock("tasks").acquire())
                await asyncio.sleep(0.2)
                assert not cancelled.done() and not behind.done()
                cancelled.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await cancelled
                assert not behind.done()
            second = await asyncio.wait_for(behind, PATIENCE)
            assert first.token is not None and second.token is not None
            assert second.token > first.token
            lock.release(second)
            async with asyncio.timeout(PATIENCE), cluster.lock("tasks"):
                pass

    asyncio.run(scenario())


def test_many_tasks_that_wait_need_few_threads(system: System) -> None:
    async def take(cluster: AsyncCluster, number: int, order: list[int]) -> None:
        async with cluster.lock("crowded"):
            order.append(number)

    async def scenario() -> None:
        order: list[int] = []
        async with habemus.connect(system.url) as cluster:
            before = threading.active_count()
            async with cluster.lock("crowded"):
                tasks = [asyncio.create_task(take(cluster, each, order)) for each in range(200)]
                await asyncio.sleep(0.5)
                assert threading.active_count() - before <= 10
                with pytest.raises(habemus.LockTimeout, match="held by"):
                    await cluster.lock("crowded", timeout=0.2).acquire()
                assert not order
                tasks.pop(7).cancel()
            await asyncio.gather(*tasks)
        assert order == [each for each in range(200) if each != 7]

    asyncio.run(scenario())


@pytest.mark.parametrize("is_held_by_itself", [False, True])
def test_tasks_that_wait_when_the_client_is_closed_end(
    system: System, cluster: Cluster, is_held_by_itself: bool
) -> None:
    async def scenario() -> None:
        async with habemus.connect(system.url) as closing:
            if is_held_by_itself:
                await closing.lock("closed").acquire()
            waits = (None, None, 1_000)
            tasks = [asyncio.create_task(closing.lock("closed", each).acquire()) for each in waits]
            watching = asyncio.create_task(watch(closing))
            await asyncio.to_thread(until, lambda: cluster.try_lock("closed") is None)
            await asyncio.to_thread(until, lambda: not has_waiting(cluster, "closed", 0))
            assert not any(task.done() for task in (*tasks, watching))
        async with asyncio.timeout(PATIENCE):
            ends = await asyncio.gather(*tasks, watching, return_exceptions=True)
        assert [type(end) for end in ends] == [habemus.Unreachable] * 4
        assert {str(end) for end in ends} == {"the client has closed its connection"}

    async def watch(closing: AsyncCluster) -> None:
        async for _ in closing.watch("closed"):
            pass

    if is_held_by_itself:
        asyncio.run(scenario())
    else:
        with cluster.lock("closed"):
            asyncio.run(scenario())
            assert has_waiting(cluster, "closed", 0)
    with cluster.lock("closed", timeout=PATIENCE):
        pass


def test_a_task_that_is_cancelled_inside_releases(system: System, cluster: Cluster) -> None:
    async def hold(inside: asyncio.Event) -> None:
        async with habemus.connect(system.url) as mine, mine.lock("inside"):
            inside.set()
            await asyncio.sleep(1_000)

    async def scenario() -> None:
        inside = asyncio.Event()
        task = asyncio.ensure_future(hold(inside))
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    with cluster.lock("inside", timeout=PATIENCE):
        pass


def test_loss_while_holding(system: System, cluster: Cluster, other: Cluster) -> None:
    lost = threading.Event()
    with (
        pytest.raises(habemus.LockLost),
        cluster.lock("taken", on_lost=lambda _: lost.set()) as lease,
    ):
        system.take_away(other, "taken")
        assert lost.wait(PATIENCE)
        assert lease.lost and not lease.held
        with pytest.raises(habemus.LockLost):
            lease.check()
        with other.lock("taken", timeout=PATIENCE) as after:
            assert after.token is not None and lease.token is not None


def test_a_task_that_loses_its_lock_is_cancelled(system: System, other: Cluster) -> None:
    async def scenario() -> None:
        async with habemus.connect(system.url) as cluster:
            with pytest.raises(habemus.LockLost):
                async with cluster.lock("taken-task"):
                    await asyncio.to_thread(system.take_away, other, "taken-task")
                    await asyncio.sleep(PATIENCE)
                    pytest.fail("the task was not cancelled")

    asyncio.run(scenario())


def test_the_child_of_a_fork_does_not_have_the_lock(cluster: Cluster, other: Cluster) -> None:
    with cluster.lock("forked") as lease:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                if not lease.held and cluster.try_lock("forked") is None:
                    code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        lease.check()
        assert other.try_lock("forked") is None
    with other.lock("forked", timeout=PATIENCE):
        pass


def test_a_child_does_not_keep_the_lock_of_its_parent(system: System, cluster: Cluster) -> None:
    parent = client(system.url, "orphaned", FORKING)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    try:
        with cluster.lock("orphaned", timeout=PATIENCE):
            assert not is_dead(child)
    finally:
        os.kill(child, signal.SIGKILL)


def test_reentrant_locks(cluster: Cluster, other: Cluster) -> None:
    with cluster.lock("again", reentrant=True) as outer:
        with cluster.lock("again", reentrant=True) as inner:
            assert inner.token == outer.token
        assert other.try_lock("again") is None
    with other.lock("again", timeout=PATIENCE):
        pass


def test_places_of_a_semaphore(cluster: Cluster, other: Cluster) -> None:
    with cluster.semaphore("places", 2) as first, other.semaphore("places", 2) as second:
        assert {first.name, second.name} == {"semaphore/places/1", "semaphore/places/2"}
        with pytest.raises(habemus.LockTimeout):
            cluster.semaphore("places", 2, timeout=0.3).acquire()
        waiting = threading.Thread(target=lambda: cluster.semaphore("places", 2).acquire())
        waiting.start()
    waiting.join(PATIENCE)
    assert not waiting.is_alive()
    with pytest.raises(habemus.RefusedByNode):
        other.semaphore("places", 3).acquire()
    with pytest.raises(habemus.RefusedByNode):
        other.semaphore("unheard-of").acquire()


def test_several_locks(cluster: Cluster, other: Cluster) -> None:
    with cluster.acquire_all(["b-all", "a-all"]) as leases:
        assert [lease.name for lease in leases] == ["a-all", "b-all"]
        with pytest.raises(habemus.LockTimeout), other.acquire_all(["a-all", "b-all"], timeout=0.3):
            pass
    with other.acquire_all(["b-all", "a-all"], timeout=PATIENCE):
        pass


def test_an_election_passes_to_the_next(cluster: Cluster, other: Cluster) -> None:
    led: list[habemus.Lease] = []
    election = cluster.election("boss")
    term = election.lead().begin()
    follower = threading.Thread(target=lambda: led.append(other.election("boss").lead().begin()))
    follower.start()
    leader = other.election("boss").leader()
    assert leader is not None and leader.holder == "one" and leader.token == term.token
    assert not led
    election.resign()
    follower.join(PATIENCE)
    assert led[0].token is not None and term.token is not None
    assert led[0].token > term.token
    leader = cluster.election("boss").leader()
    assert leader is not None and leader.holder == "two"
    other._release(led[0])


def test_watch_shows_every_holder(cluster: Cluster, other: Cluster) -> None:
    states = other.watch("watched")
    assert next(states).holder is None
    with cluster.lock("watched") as lease:
        held = next(state for state in states if state.holder)  # not one that waits
        assert (held.holder, held.token) == ("one", lease.token)
    assert next(states).holder is None


def test_the_lock_of_a_process_that_is_killed_is_free(system: System, cluster: Cluster) -> None:
    process = client(system.url, "killed")
    assert process.stdout is not None
    token = int(process.stdout.readline())
    assert cluster.try_lock("killed") is None
    process.kill()
    process.wait()
    process.stdout.close()
    with cluster.lock("killed", timeout=PATIENCE) as lease:
        assert lease.token is not None and lease.token > token


def test_lock_objects(cluster: Cluster, other: Cluster) -> None:
    lock, theirs = cluster.lock("object"), other.lock("object", timeout=0)
    assert [lock.locked(), lock.owned(), lock.lease] == [False, False, None]
    lease = lock.acquire(timeout=PATIENCE)
    assert lease and lock.lease is lease
    assert lock.locked() and lock.owned() and theirs.locked() and not theirs.owned()
    assert theirs.acquire(blocking=False) is None
    assert theirs.acquire(timeout=0.1) is None
    with pytest.raises(habemus.LockTimeout):
        theirs.acquire()
    with pytest.raises(habemus.LockNotHeld, match="lock 'object' is not held by this thread"):
        theirs.release()
    lock.release()
    with pytest.raises(habemus.LockNotHeld):
        lock.release()
    with lock as lease:
        assert lock.lease is lease and lock.owned()
        with pytest.raises(habemus.LockNotHeld, match="'object' is held by `with`, which releases"):
            lock.release()
    assert not lock.locked()


def test_each_thread_releases_its_own_lease(cluster: Cluster, other: Cluster) -> None:
    lock = cluster.lock("own-lease")
    lease = lock.acquire()
    told: list[object] = []

    def release() -> None:
        told.append(lock.owned())
        with pytest.raises(habemus.LockNotHeld):
            lock.release()
        assert other.try_lock("own-lease") is None
        lock.release(lease)  # one that it is given

    thread = threading.Thread(target=release)
    thread.start()
    thread.join(PATIENCE)
    assert told == [False]
    with other.lock("own-lease", timeout=PATIENCE):
        assert not lock.owned()
        with pytest.raises(habemus.LockNotHeld):
            lock.release()


def test_the_release_of_a_lost_lock_says_so(
    system: System, cluster: Cluster, other: Cluster
) -> None:
    lock = cluster.lock("lost-object")
    lease = lock.acquire()
    system.take_away(other, "lost-object")
    until(lambda: lease.lost)
    assert not lock.owned()
    with pytest.raises(habemus.LockLost):
        lock.release()
    with pytest.raises(habemus.LockNotHeld):
        lock.release()


def test_locks_decorate_functions(system: System, cluster: Cluster, other: Cluster) -> None:
    @cluster.lock("decorated")
    def is_free(by: Cluster) -> bool:
        """Try the lock."""
        return by.try_lock("decorated") is not None

    @cluster.lock("decorated", timeout=PATIENCE)
    async def is_free_later(by: Cluster) -> bool:
        return await asyncio.to_thread(by.try_lock, "decorated") is not None

    assert is_free.__doc__ == "Try the lock."
    assert not is_free(other)
    assert not asyncio.run(is_free_later(other))
    assert is_free.__wrapped__(other)  # type: ignore[attr-defined]


def test_asynchronous_lock_objects(system: System, other: Cluster) -> None:
    async def scenario() -> None:
        async with habemus.connect(system.url) as cluster:
            lock = cluster.lock("async-object")
            assert not await lock.locked() and not await lock.owned()
            lease = await lock.acquire(timeout=PATIENCE)
            assert lease and lock.lease is lease and await lock.owned() and await lock.locked()
            assert await lock.acquire(blocking=False) is None

            async def release() -> None:
                assert not await lock.owned()
                with pytest.raises(habemus.LockNotHeld, match="by this task"):
                    lock.release()

            await asyncio.create_task(release())
            lock.release()
            with pytest.raises(habemus.LockNotHeld):
                lock.release()

            async with lock:
                with pytest.raises(habemus.LockNotHeld, match="is held by `async with`, which rel"):
                    lock.release()

            @lock
            async def is_free() -> bool:
                assert lock.lease is not None
                return await asyncio.to_thread(other.try_lock, "async-object") is not None

            assert not await is_free()
            assert lock.lease is None

    asyncio.run(scenario())


def test_readers_share_and_writers_exclude(cluster: Cluster, other: Cluster) -> None:
    mine, theirs = cluster.read_write_lock("rw"), other.read_write_lock("rw", timeout=PATIENCE)
    with mine.read() as first, theirs.read() as second:
        assert first.held and second.held
        with pytest.raises(habemus.LockTimeout, match="waiting for write lock 'rw'"):
            theirs.write(timeout=0.1).acquire()
    with mine.write() as lease:
        assert first.token is not None and second.token is not None and lease.token is not None
        assert first.token < second.token < lease.token, "one order for readers and writers"
        for lock in (theirs.read(), theirs.write()):
            assert lock.acquire(timeout=0.1) is None
    with theirs.read() as after:
        assert after.token is not None and after.token > lease.token


def test_a_writer_that_waits_is_not_overtaken_by_readers(cluster: Cluster, other: Cluster) -> None:
    mine, theirs = cluster.read_write_lock("gate"), other.read_write_lock("gate")
    order: list[str] = []

    def enter(lock: habemus.Lock, label: str) -> None:
        with lock:
            order.append(label)

    reading = mine.read()
    reading.acquire()
    writer = threading.Thread(target=enter, args=(theirs.write(), "writer"))
    writer.start()
    until(lambda: has_waiting(cluster, "rwlock/gate/1", 1) or reader_blocks(mine))
    reader = threading.Thread(target=enter, args=(mine.read(), "reader"))
    reader.start()
    until(partial(has_waiting, cluster, "rwlock/gate/gate", 1))
    assert not order
    reading.release()
    for thread in (writer, reader):
        thread.join(PATIENCE)
    assert order == ["writer", "reader"]


def reader_blocks(lock: habemus.ReadWriteLock) -> bool:
    return lock.read().locked()


def test_a_writer_that_loses_a_place_has_lost_the_lock(
    system: System, cluster: Cluster, other: Cluster
) -> None:
    with (
        pytest.raises(habemus.LockLost),
        cluster.read_write_lock("robbed").write() as lease,
    ):
        name = "rwlock/robbed/7"
        system.take_away(other, name.replace("/", "%2F") if system.is_local else name)
        until(lambda: lease.lost)
    with other.read_write_lock("robbed").write(timeout=PATIENCE):
        pass


def test_tasks_read_and_write(system: System, other: Cluster) -> None:
    async def scenario() -> None:
        async with habemus.connect(system.url) as cluster:
            lock = cluster.read_write_lock("rw-tasks")
            async with lock.read() as first, lock.read() as second:
                waiting = asyncio.ensure_future(lock.write().acquire())
                newest = max(first.token or 0, second.token or 0)
                async with aclosing(
                    cluster._backend.watch("locks", "rwlock/rw-tasks/gate")
                ) as gate:
                    async for state in gate:
                        if state.holder is not None and (state.token or 0) > newest:
                            break  # the writer has the gate, and waits for the readers
                assert not waiting.done()
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            async with lock.write(timeout=PATIENCE) as lease:
                assert lease.token is not None
                theirs = other.read_write_lock("rw-tasks").read()
                assert await asyncio.to_thread(theirs.acquire, timeout=0.1) is None

    asyncio.run(scenario())


def test_a_request_that_is_withdrawn_when_it_is_granted_leaves_nothing(
    system: System, cluster: Cluster, other: Cluster
) -> None:
    if not isinstance(cluster._backend, EngineBackend):
        pytest.skip("only the requests to engines run in threads")
    engine = cluster._backend.engine
    wait = Wait(None, is_plain=False)
    wait.withdraw()
    with suppress(WaitOver):
        engine.release(engine.acquire("locks/withdrawn", "one", None, wait))
    with other.lock("withdrawn", timeout=0):
        pass


def habemus_command(system: System, *words: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "HABEMUS_CLUSTER": system.url}
    return subprocess.Popen(
        [sys.executable, "-m", "habemus", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )


def output(system: System, *words: str) -> tuple[int, str]:
    process = habemus_command(system, *words)
    said, _ = process.communicate(timeout=PATIENCE)
    return process.returncode, said


def test_commands(system: System, cluster: Cluster) -> None:
    code, said = output(system, "lock", "command", "--", "sh", "-c", "echo $HABEMUS_TOKEN; exit 3")
    assert (code, said.strip().isdecimal()) == (3, True)
    code, said = output(system, "lead", "command", "--", "sh", "-c", "echo $HABEMUS_TERM")
    assert (code, said.strip().replace(".", "").isdecimal()) == (0, True)
    with cluster.lock("command") as lease:
        assert lease.token is not None and lease.token > 0
        assert output(system, "lock", "command", "--try", "--", "true")[0] == 124
        code, said = output(system, "watch", "command", "--changes", "1")
        assert code == 0 and "held by one" in said
        code, said = output(system, "status", "command", "--json")
        assert code == 0 and json.loads(said)["locks"][0]["holder"] == "one"
    assert output(system, "release", "command", "--force")[0] == 1


def test_the_command_release_takes_a_lock_away(system: System, cluster: Cluster) -> None:
    lock = cluster.lock("forced")
    lease = lock.acquire()
    code, said = output(system, "release", "forced", "--force")
    if system.is_local:  # the kernel takes no lock away from a process that runs
        assert code == 2 and str(os.getpid()) in said and "\n" not in said.strip()
        lock.release()
    else:
        assert code == 0 and "one" in said, said
        until(lambda: lease.lost)
    with cluster.lock("forced", timeout=PATIENCE):
        pass


def test_a_command_ends_with_its_lock(system: System, other: Cluster) -> None:
    process = habemus_command(system, "lock", "ended", "--", "sh", "-c", "echo in; exec sleep 999")
    assert process.stdout is not None
    assert process.stdout.readline() == "in\n"
    until(lambda: len(children(process.pid)) == 2)
    if system.commands_notice:
        system.take_away(other, "ended")
        assert process.wait(PATIENCE) == 123
    else:
        process.terminate()
        assert process.wait(PATIENCE) == 128 + signal.SIGTERM
    process.stdout.close()


def test_a_command_is_dead_before_another_client_has_its_lock(
    system: System, cluster: Cluster
) -> None:
    words = ("lock", "guarded", "--lease", "3", "--", "sh", "-c", "echo $$; exec sleep 99")
    process = habemus_command(system, *words)
    assert process.stdout is not None
    command = int(process.stdout.readline())
    until(lambda: len(children(process.pid)) == 2)  # the command and its guard
    process.kill()
    process.wait()
    process.stdout.close()
    with cluster.lock("guarded", timeout=PATIENCE):
        assert is_dead(command)


def is_dead(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


def test_the_example(system: System) -> None:
    example = Path(__file__).parents[2] / "examples" / "any_engine.py"
    done = subprocess.run(
        [sys.executable, str(example), system.url], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "holding report with token" in done.stdout


def test_no_server(system: System) -> None:
    with habemus.connect(system.unreachable()) as cluster:
        for timeout in (None, 0.3):
            began = time.monotonic()
            with pytest.raises(habemus.Unreachable):
                cluster.lock("x", timeout=timeout).acquire()
            assert time.monotonic() - began >= (timeout or 0)


def test_wrong_credentials(system: System) -> None:
    with pytest.raises(habemus.RefusedByNode), system.refused():
        pass


def test_a_server_that_restarts_while_a_client_waits(system: System) -> None:
    """The last test: the server has lost what it does not store."""
    first, second = habemus.connect(system.url, name="one"), habemus.connect(system.url, name="two")
    order: list[str] = []
    first.lock("restarted").acquire()
    thread = Waiter(second, "restarted", order, "second")
    until(lambda: has_waiting(second, "restarted", 1))
    system.stop()
    system.start()
    first.close()
    thread.join(PATIENCE)
    assert order == ["second"]
    second.close()

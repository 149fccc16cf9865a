"""Programs that use a cluster: `habemus.connect`, blocking and asynchronous, against real nodes.

The names of the first tests are the traps that the lock libraries of others have fallen into.
"""

from __future__ import annotations

import ast
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from tests.backends import nodes_of, session_of
from tests.live.conftest import PATIENCE, until
from tests.live.nodes import DEFAULT, LAPSING, SOON, Nodes
from tests.program import command_line

import habemus
from habemus import (
    Cluster,
    Lease,
    LockLost,
    LockNotHeld,
    LockTimeout,
    RefusedByNode,
    Unreachable,
)
from habemus.client.asynchronous import AsyncCluster
from habemus.client.heartbeats import Heartbeats
from habemus.client.lines import Lines, open_lines
from habemus.client.node_backend import round_trips
from habemus.runtimes.live.clients.protocol import TRY_MS, WIRE_VERSION

SOURCE = Path(habemus.__file__).parent


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    made = Nodes(tmp_path_factory.mktemp("nodes"))
    yield made
    made.close()


Start = Callable[..., Nodes]


@pytest.fixture
def start() -> Iterator[Start]:
    """Clusters for one test, which ends them."""
    made: list[Nodes] = []

    def started(*given: Any, **more: Any) -> Nodes:
        made.append(Nodes(*given, **more))
        return made[-1]

    yield started
    for nodes in made:
        nodes.close()


@pytest.fixture
def cluster(nodes: Nodes) -> Iterator[Cluster]:
    with habemus.connect(nodes.socket(1), name="one") as made:
        yield made


@pytest.fixture
def other(nodes: Nodes) -> Iterator[Cluster]:
    with habemus.connect(nodes.socket(2), name="two") as made:
        yield made


class Script:
    """A client in a process of its own, which says lines and is told to go on."""

    def __init__(self, address: str, text: str) -> None:
        program = (
            f"import sys, time, habemus\ncluster = habemus.connect({address!r},"
            f" name='script')\n{text}"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode().strip()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=PATIENCE)


def wait_for_renewal(lease: Lease) -> None:
    first = lease._state.until_us or 0
    until(lambda: (lease._state.until_us or 0) > first)


# Traps.


def test_a_lock_that_comes_after_ones_own_lease_ran_out_while_queueing(
    nodes: Nodes, cluster: Cluster, other: Cluster
) -> None:
    """A client that stood still in the queue does not take what was granted to it in its sleep for
    its own.
    """
    with cluster.lock("trap-1") as held:
        script = Script(
            nodes.socket(2),
            "with cluster.lock('trap-1', lease=4) as lease:\n    lease.check(); print(lease.token,"
            " flush=True)\nsys.stdin.readline()",
        )
        until(lambda: next(cluster.watch("trap-1")).waiting == 1)
        script.process.send_signal(signal.SIGSTOP)
        taken: list[Lease] = []  # by the next one in the queue of the same node
        thread = threading.Thread(target=lambda: taken.append(other.lock("trap-1").acquire()))
        thread.start()
        until(lambda: next(cluster.watch("trap-1")).waiting == 2)
    thread.join(PATIENCE)  # the sleeper was granted it, and has lost it again
    (lease,) = taken
    assert held.token is not None
    assert lease.token is not None
    assert lease.token > held.token + 1
    script.process.send_signal(signal.SIGCONT)
    until(
        lambda: next(cluster.watch("trap-1")).waiting == 1
    )  # it has heard "granted", did not believe it, and asks again
    lease.check()
    other._release(lease)
    assert int(script.hear()) > lease.token
    script.end()


def test_an_object_that_is_held_after_the_session_was_lost(tmp_path: Path, start: Start) -> None:
    nodes = start(tmp_path, size=1)
    with habemus.connect(nodes.socket(1)) as cluster:
        lease = cluster.lock("printer").acquire()
        told: list[Lease] = []
        lease.on_lost(told.append)
        assert not lease.lost
        nodes.kill(1)
        until(lambda: lease.lost)  # the keeper of the session finds out that there is no node
        with pytest.raises(LockLost):
            lease.check()
        assert told == [lease]
        assert lease.remaining == 0
        with pytest.raises(Unreachable):
            cluster.lock("printer", timeout=1).acquire()


def test_a_node_that_stands_still_takes_its_clients_locks_with_it(
    tmp_path: Path, start: Start
) -> None:
    """The client knows by its own clock that its lease has run out, although nobody tells it."""
    nodes = start(tmp_path, LAPSING)
    with habemus.connect(nodes.socket(3)) as cluster, habemus.connect(nodes.socket(1)) as other:
        lease = cluster.lock("printer").acquire()
        lost = threading.Event()
        lease.on_lost(lambda _: lost.set())
        nodes.signal(3, signal.SIGSTOP)
        other.lock("printer").acquire()
        assert lease.lost  # by the clock, before the thread that looks at it is awake
        assert lost.wait(PATIENCE)
        with pytest.raises(LockLost):
            lease.check()
        nodes.signal(3, signal.SIGCONT)


def test_a_cancelled_acquire_leaves_no_orphan(nodes: Nodes, cluster: Cluster) -> None:
    async def run() -> None:
        async with habemus.connect(nodes.socket(2)) as mine:
            with cluster.lock("trap-3"):
                waiting = asyncio.create_task(mine.lock("trap-3").acquire())
                await asyncio.to_thread(until, lambda: next(cluster.watch("trap-3")).waiting == 1)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            for _ in range(200):  # cancelled at every moment between asking and being granted
                asking = asyncio.create_task(mine.lock("trap-3").acquire())
                await asyncio.sleep(0.0005 * (_ % 10))
                if asking.done():
                    mine._release(await asking)
                else:
                    asking.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await asking
            async with mine.lock("trap-3", timeout=SOON):
                pass

    asyncio.run(run())
    with cluster.lock("trap-3", timeout=SOON):
        pass


def test_a_cancelled_connect_leaves_no_connection(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        greeted = asyncio.get_running_loop().create_future()

        async def says_nothing(lines: Any, *given: Any) -> None:
            greeted.set_result(lines.transport)
            await asyncio.sleep(PATIENCE)

        monkeypatch.setattr("habemus.client.lines.Lines.greet", says_nothing)
        connecting = asyncio.create_task(habemus.connect(nodes.socket(1)).__aenter__())
        transport = await greeted
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        assert transport.is_closing()

    asyncio.run(run())


def test_an_interrupted_acquire_leaves_no_orphan(nodes: Nodes, cluster: Cluster) -> None:
    with cluster.lock("trap-3b"):
        script = Script(
            nodes.socket(2),
            "try:\n    cluster.lock('trap-3b').acquire()\n"
            "except KeyboardInterrupt:\n    print('interrupted', flush=True)\nsys.stdin.readline()",
        )
        until(lambda: next(cluster.watch("trap-3b")).waiting == 1)
        script.process.send_signal(signal.SIGINT)
        assert script.hear() == "interrupted"
        until(lambda: next(cluster.watch("trap-3b")).waiting == 0)
    with cluster.lock("trap-3b", timeout=SOON):
        pass
    script.end()


def test_a_failed_try_leaves_no_contender(cluster: Cluster, other: Cluster) -> None:
    with cluster.lock("trap-4") as lease:
        assert other.try_lock("trap-4") is None
        assert cluster.try_lock("trap-4") is None
        with pytest.raises(LockTimeout):
            other.lock("trap-4", timeout=0.1).acquire()
        assert next(cluster.watch("trap-4")).waiting == 0
        lease.check()
    with cluster.lock("trap-4", timeout=SOON) as again:
        assert lease.token is not None and again.token is not None
        has_other_leader = again.token >> 32 > lease.token >> 32
        assert (
            has_other_leader or again.token == lease.token + 1
        )  # nobody was granted it in between


def test_a_try_fails_when_the_node_of_the_holder_has_answered(
    cluster: Cluster, other: Cluster
) -> None:
    """Most of many: a stall of the machine may hit some."""
    with cluster.lock("tried", timeout=PATIENCE):
        for client in (cluster, other):
            took = []
            for _ in range(9):
                began = time.monotonic()
                assert client.try_lock("tried") is None
                took.append(time.monotonic() - began)
            assert median(took) < TRY_MS / 2_000


def test_two_tasks_that_share_a_session_do_not_both_hold_it(nodes: Nodes) -> None:
    async def run() -> int:
        inside = most = 0

        async def visit(mine: object) -> None:
            nonlocal inside, most
            for _ in range(10):
                async with mine.lock("trap-5"):  # type: ignore[attr-defined]
                    inside += 1
                    most = max(most, inside)
                    await asyncio.sleep(0.001)
                    inside -= 1

        async with habemus.connect(nodes.socket(1)) as mine:
            await asyncio.gather(*(visit(mine) for _ in range(5)))
        return most

    assert asyncio.run(run()) == 1


def test_threads_that_share_a_session_do_not_both_hold_it(cluster: Cluster) -> None:
    inside: list[int] = []
    most: list[int] = []

    def visit() -> None:
        for _ in range(10):
            with cluster.lock("trap-5b"):
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.0005)
                inside.pop()

    threads = [threading.Thread(target=visit) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(most) == 50
    assert max(most) == 1


def test_a_session_that_ends_while_its_keeper_connects_leaves_no_connection(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with habemus.connect(nodes.socket(1)) as cluster:
        session = nodes_of(cluster).connected()

        async def open_late(*given: Any) -> Lines:
            lines = await open_lines(*given)
            session.close()
            return lines

        async def connect() -> None:
            monkeypatch.setattr("habemus.client.heartbeats.open_lines", open_late)
            connection = await Heartbeats()._connect(session)
            async with asyncio.timeout(PATIENCE):
                while not connection.lines.is_over:
                    await asyncio.sleep(0)

        asyncio.run(connect())


def test_not_everybody_gets_the_lock_at_a_cold_start(tmp_path: Path, start: Start) -> None:
    """All ask at once, of nodes that have only just begun and know no coordinator yet."""
    nodes = start(tmp_path)
    spans: list[tuple[float, float, int]] = []

    def visit(number: int) -> None:
        with (
            habemus.connect(nodes.socket(number)) as mine,
            mine.lock("cold", timeout=PATIENCE) as lease,
        ):
            begin = time.monotonic()
            time.sleep(0.02)
            assert lease.token is not None
            spans.append((begin, time.monotonic(), lease.token))

    threads = [threading.Thread(target=visit, args=(number,)) for number in (1, 2, 3, 1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(spans) == 6
    spans.sort()
    assert all(one[1] <= after[0] and one[2] < after[2] for one, after in pairwise(spans))


def test_renewal_is_not_starved_by_code_that_blocks(nodes: Nodes) -> None:
    async def run() -> None:
        async with habemus.connect(nodes.socket(1)) as mine, mine.lock("trap-9", lease=9) as lease:
            wait_for_renewal(lease)  # it comes, although the event loop is blocked
            lease.check()

    asyncio.run(run())


def test_no_wall_clock(nodes: Nodes) -> None:
    """What is replicated, stored, or decides about a lease never comes from a clock that can be
    set.
    """
    found = []
    for file in [*(SOURCE / "runtimes" / "live").rglob("*.py"), *(SOURCE / "client").glob("*.py")]:
        if file.name == "certificates.py":
            continue  # these are valid until a date
        if file.name == "wall_clock.py":
            continue  # the status of a node shows it, for `habemus doctor`
        if file.name == "codec.py":
            # what no cluster can have reached by now is refused; nothing that is taken depends on
            # it
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if ast.unparse(node) in (
                "time.time",
                "time.time_ns",
                "datetime.now",
                "datetime.utcnow",
            ):
                found.append(f"{file.name}: {ast.unparse(node)}")
            if isinstance(node, ast.ImportFrom) and node.module == "time":
                found += [
                    f"{file.name}: {each.name}"
                    for each in node.names
                    if not each.name.startswith(("monotonic", "sleep"))
                ]
    assert found == []


# Leases.


def test_tokens_grow_and_a_lease_is_renewed(cluster: Cluster, other: Cluster) -> None:
    tokens = []
    for mine in (cluster, other, cluster, other):
        with mine.lock("tokens", timeout=SOON) as lease:
            assert lease.token is not None
            assert 0 < lease.remaining <= 30
            tokens.append(lease.token)
    assert tokens == sorted(set(tokens))
    with cluster.lock("tokens") as lease:
        wait_for_renewal(lease)
        lease.check()
    with pytest.raises(LockLost, match="released"):
        lease.check()
    assert not lease.lost


def test_a_client_that_dies_releases_at_once(nodes: Nodes, cluster: Cluster) -> None:
    script = Script(
        nodes.socket(2),
        "lease = cluster.lock('dying').acquire(); print(lease.token, flush=True);"
        " sys.stdin.readline()",
    )
    token = int(script.hear())
    assert cluster.try_lock("dying") is None
    script.end()
    with cluster.lock("dying", timeout=SOON) as lease:
        assert lease.token is not None
        assert lease.token > token


def test_a_client_on_a_local_socket_is_gone_when_its_process_is(
    nodes: Nodes, cluster: Cluster, other: Cluster
) -> None:
    """The end of its connections alone says nothing: here the process closes them and lives."""
    script = Script(
        nodes.socket(2),
        "lease = cluster.lock('closed').acquire(); session = lease._session;"
        " session._end('closed'); session._close_connections(b''); print(flush=True);"
        " sys.stdin.readline()",
    )
    script.hear()
    other.status()  # the node has seen the end of the connection before this line
    assert cluster.try_lock("closed") is None
    script.end()
    with cluster.lock("closed", timeout=SOON):
        pass


def test_a_client_of_another_machine_that_dies_is_waited_for_until_its_lease_is_over(
    nodes: Nodes, cluster: Cluster, other: Cluster
) -> None:
    """Its node cannot tell it from one that was cut off."""
    script = Script(
        nodes.address(2),
        "lease = cluster.lock('remote', lease=3).acquire(); print(lease.token, flush=True);"
        " sys.stdin.readline()",
    )
    token = int(script.hear())
    script.end()
    other.status()  # the node has seen the end of the connection before this line
    assert cluster.try_lock("remote") is None
    with cluster.lock("remote", timeout=PATIENCE) as lease:
        assert lease.token is not None
        assert lease.token > token


@pytest.mark.parametrize("ending", ["cluster.close()", "sys.exit()", "raise KeyboardInterrupt"])
def test_a_client_of_another_machine_that_ends_in_order_releases_at_once(
    nodes: Nodes, cluster: Cluster, ending: str
) -> None:
    script = Script(
        nodes.address(2),
        f"lease = cluster.lock('ending').acquire(); print(flush=True)\n{ending}\n"
        "sys.stdin.readline()",
    )
    script.hear()
    with cluster.lock("ending", timeout=SOON):
        pass
    script.end()


def test_the_end_of_a_connection_releases_at_once_if_the_operator_says_so(
    tmp_path: Path, start: Start
) -> None:
    nodes = start(tmp_path, size=1, head="release_on_disconnect = true")
    script = Script(
        nodes.address(1),
        "lease = cluster.lock('remote').acquire(); print(flush=True); sys.stdin.readline()",
    )
    script.hear()
    script.end()
    with habemus.connect(nodes.socket(1)) as mine, mine.lock("remote", timeout=SOON):
        pass
    with habemus.connect(nodes.address(1)) as cut:
        lease = cut.lock("remote", timeout=SOON).acquire()
        session_of(lease)._connections[lease._id].close()
        with pytest.raises(LockLost):
            lease.check()


def test_a_client_that_hangs_loses_its_lease(nodes: Nodes, cluster: Cluster) -> None:
    script = Script(
        nodes.socket(2),
        "lease = cluster.lock('hanging', lease=3).acquire(); print(lease.token, flush=True);"
        " sys.stdin.readline()\ntry:\n    lease.check(); print('held', flush=True)\nexcept"
        " habemus.LockLost:\n    print('lost', flush=True)\nsys.stdin.readline()",
    )
    token = int(script.hear())
    script.process.send_signal(signal.SIGSTOP)
    with cluster.lock("hanging", timeout=PATIENCE) as lease:
        assert lease.token is not None
        assert lease.token > token
        script.process.send_signal(signal.SIGCONT)
        script.go_on()
        assert script.hear() == "lost"
        lease.check()
    script.end()


def test_a_task_that_loses_its_lock_is_cancelled(tmp_path: Path, start: Start) -> None:
    nodes = start(tmp_path, size=1)

    async def run() -> None:
        async with habemus.connect(nodes.socket(1)) as mine:
            with pytest.raises(LockLost):
                async with mine.lock("printer"):
                    nodes.kill(1)
                    await asyncio.sleep(PATIENCE)
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0

    asyncio.run(run())


def test_with_raises_when_the_lock_was_lost_inside(tmp_path: Path, start: Start) -> None:
    nodes = start(tmp_path, size=1)
    with habemus.connect(nodes.socket(1)) as mine:
        with pytest.raises(LockLost), mine.lock("printer") as lease:
            nodes.kill(1)
            until(lambda: lease.lost)
        nodes.start(1)
        with pytest.raises(ZeroDivisionError), mine.lock("scanner") as lease:  # nobody holds that
            nodes.kill(1)
            until(lambda: lease.lost)
            raise ZeroDivisionError  # the user's own error is not hidden


def test_only_who_asks_for_it_may_enter_twice(cluster: Cluster) -> None:
    with cluster.lock("twice") as lease:
        with pytest.raises(LockTimeout):
            cluster.lock("twice", timeout=0.1).acquire()
        lease.check()
    lock = cluster.lock("twice", timeout=SOON, reentrant=True)
    with (
        lock as outer,
        lock as inner,
        cluster.lock("twice", timeout=SOON, reentrant=True) as innermost,
    ):
        assert outer is inner is innermost
        refused: list[str] = []

        def visit() -> None:
            try:
                cluster.lock("twice", timeout=0.1, reentrant=True).acquire()
            except LockTimeout:
                refused.append("another thread is another owner")

        thread = threading.Thread(target=visit)
        thread.start()
        thread.join(PATIENCE)
        assert refused
        outer.check()
    with cluster.lock("twice", timeout=SOON):
        pass


def test_a_child_of_fork_does_not_have_its_parents_locks(cluster: Cluster, nodes: Nodes) -> None:
    script = Script(
        nodes.socket(2),
        "import os\nlease = cluster.lock('forked').acquire()\nchild = os.fork()\nif not child:\n   "
        " try:\n        lease.check(); print('child holds', flush=True)\n    except"
        " habemus.LockLost:\n        print('child does not hold', flush=True)\n   "
        " sys.stdin.readline(); os._exit(0)\nos.waitpid(child, 0)\nlease.check(); print('parent"
        " holds', flush=True); sys.stdin.readline()",
    )
    assert script.hear() == "child does not hold"
    assert cluster.try_lock("forked") is None
    script.go_on()
    assert script.hear() == "parent holds"
    script.end()


@pytest.mark.parametrize("how", ["reentrant", "keep"])
def test_a_child_of_fork_does_not_take_again_what_its_parent_has(
    tmp_path: Path, start: Start, how: str
) -> None:
    """Neither what the thread holds already, nor what the process keeps: it has to ask, and
    waits.
    """
    nodes = (
        start(tmp_path, '[services.locks]\nalgorithm = "ricart-agrawala"\n')
        if how == "keep"
        else start(tmp_path)
    )
    script = Script(
        nodes.socket(1),
        f"import os\nlock = cluster.lock('forked', timeout={PATIENCE}, {how}=True)\nlease ="
        " lock.acquire()\nif not os.fork():\n    lock._timeout = 0.5\n    try:\n       "
        " lock.acquire(); print('child has it', flush=True)\n    except habemus.LockTimeout:\n    "
        "    print('child waits', flush=True)\n    os._exit(0)\nos.wait(); lease.check();"
        " print('parent has it', flush=True); sys.stdin.readline()",
    )
    assert [script.hear(), script.hear()] == ["child waits", "parent has it"]
    script.end()


def test_what_was_granted_in_a_session_that_is_over_is_not_released_in_the_next(
    cluster: Cluster, nodes: Nodes
) -> None:
    """The ids of two sessions are the same, and belong to different locks."""
    mine = habemus.connect(nodes.socket(2))
    asked = cluster.lock("first").acquire()
    done = threading.Event()

    def wait() -> None:
        with mine.lock("first") as lease:
            lease.check()
        done.set()

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: next(cluster.watch("first")).waiting == 1)
    mine.close()
    second = mine.lock("second").acquire()
    cluster._release(asked)
    assert done.wait(PATIENCE)
    thread.join()
    second.check()
    assert cluster.try_lock("second") is None
    with cluster.lock("first", timeout=SOON):
        pass
    mine._release(second)
    mine.close()


def test_a_node_that_has_gone_is_left_for_another_whatever_connections_there_are(
    tmp_path: Path, start: Start
) -> None:
    nodes = start(tmp_path)
    # The connection that there was is in use.
    with habemus.connect(str(nodes.folder)) as mine, mine.lock("one") as one:
        nodes.kill(mine.status()["node"])
        with mine.lock("two", timeout=PATIENCE) as lease:
            lease.check()
        one.check()


# More than one.


def test_a_semaphore_has_so_many_places(cluster: Cluster, other: Cluster) -> None:
    one, two = (
        cluster.semaphore("places", 2, timeout=SOON),
        other.semaphore("places", 2, timeout=SOON),
    )
    with one as first, two as second:
        assert first.name != second.name
        with pytest.raises(LockTimeout):
            cluster.semaphore("places", 2, timeout=0.1).acquire()
        for size in (1, 3):  # wherever a client asks
            for asked in (cluster, other):
                with pytest.raises(RefusedByNode, match=f"'places' has size 2 .*, not {size};"):
                    asked.semaphore("places", size).acquire()
        with pytest.raises(RefusedByNode, match=r"no semaphore 'seats' .*; declare its size"):
            cluster.semaphore("seats", 2).acquire()
    with other.semaphore("places", timeout=SOON) as lease:
        assert lease.name.startswith("semaphore/places/")
    with one:
        pass


def test_one_semaphore_object_for_many_threads_and_tasks(cluster: Cluster, nodes: Nodes) -> None:
    """Whoever leaves gives back its own place, not that of another who is inside as well."""
    places = cluster.semaphore("shared", 2, timeout=PATIENCE)
    together = threading.Barrier(2, timeout=PATIENCE)

    def visit(stays: float) -> None:
        with places as lease:
            together.wait()
            time.sleep(stays)
            lease.check()

    threads = [threading.Thread(target=visit, args=(stays,)) for stays in (0.0, 0.1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not together.broken

    async def run() -> None:
        async with habemus.connect(nodes.socket(1)) as mine:
            shared = mine.semaphore("shared-tasks", 2, timeout=PATIENCE)
            both = asyncio.Barrier(2)

            async def visit(stays: float) -> None:
                async with shared as lease:
                    await both.wait()
                    await asyncio.sleep(stays)
                    lease.check()

            await asyncio.gather(visit(0.0), visit(0.1))

    asyncio.run(run())


def test_all_of_some_locks_without_a_deadlock(cluster: Cluster, other: Cluster) -> None:
    done: list[int] = []

    def visit(mine: Cluster, names: list[str]) -> None:
        for _ in range(5):
            with mine.acquire_all(names, timeout=PATIENCE) as leases:
                assert [lease.name for lease in leases] == sorted(names)
                done.append(1)

    threads = [
        threading.Thread(target=visit, args=each)
        for each in ((cluster, ["a", "b", "c"]), (other, ["c", "b", "a"]))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(done) == 10
    with cluster.lock("b"), pytest.raises(LockTimeout), other.acquire_all(["a", "b"], timeout=0.2):
        pass
    with cluster.lock("a", timeout=SOON):
        pass  # what it had got of them is free again


# Elections.


def test_one_leads_and_the_others_see_who(cluster: Cluster, other: Cluster, nodes: Nodes) -> None:
    mine, theirs = cluster.election("scheduler"), other.election("scheduler")
    assert mine.leader() is None
    with mine.lead() as term:
        seen = theirs.leader()
        assert seen is not None
        assert (seen.holder, seen.node, seen.token) == ("one", 1, term.token)
        observing = theirs.observe()
        assert next(observing).holder == "one"
    following = [next(observing) for _ in range(1)]
    assert following[0].holder is None
    with theirs.lead() as later:
        assert (later.token or 0) > (term.token or 0)
        assert (
            next(seen for seen in observing if seen.holder is not None).holder == "two"
        )  # first it may be seen to wait


def test_leadership_is_transferred(nodes: Nodes) -> None:
    """Three wait, and the last of them, on another node, is the one who is named."""
    with (
        habemus.connect(nodes.socket(1), name="a") as a,
        habemus.connect(nodes.socket(2), name="b") as b,
    ):
        order: list[str] = []

        def run(cluster: Cluster) -> None:
            with cluster.election("transferred").lead():
                order.append(cluster.label)

        with (
            habemus.connect(nodes.socket(1), name="c") as c,
            habemus.connect(nodes.socket(3), name="d") as d,
        ):
            leading = a.election("transferred")
            leading.lead().begin()
            threads = []
            for count, candidate in enumerate((b, c, d), 1):
                threads.append(threading.Thread(target=run, args=(candidate,)))
                threads[-1].start()
                until(lambda: next(a.watch("leader/transferred")).waiting == count)  # noqa: B023  # it is called at once
            leading.transfer("d")
            for thread in threads:
                thread.join(PATIENCE)
            assert order[0] == "d"
            assert sorted(order) == ["b", "c", "d"]
            with pytest.raises(LockNotHeld, match="'transferred' is not led through this object"):
                leading.transfer("d")


async def assert_led(cluster: AsyncCluster, name: str) -> None:
    with pytest.raises(LockTimeout):
        async with cluster.election(name).lead(0.1):
            pass


def test_the_same_without_blocking(nodes: Nodes) -> None:
    async def run() -> None:
        async with (
            habemus.connect(nodes.socket(1), name="a") as a,
            habemus.connect(nodes.socket(2), name="b") as b,
        ):
            async with a.election("async").lead() as term:
                seen = await b.election("async").leader()
                assert seen is not None
                assert (seen.holder, seen.token) == ("a", term.token)
                await assert_led(b, "async")
                with pytest.raises(LockNotHeld, match="'async' is not led through this object"):
                    await a.election("async").resign()
                await assert_led(b, "async")
            async with b.election("async").lead(SOON):
                await assert_led(a, "async")
            async with b.lock("held", timeout=SOON):
                assert await a.try_lock("held") is None
            async with a.semaphore("places", 2) as one, b.semaphore("places") as two:
                assert one.name != two.name
                with pytest.raises(RefusedByNode, match="'places' has size 2"):
                    await a.semaphore("places", 3).acquire()
            async with a.acquire_all(["y", "x"]) as leases:
                assert [lease.name for lease in leases] == ["x", "y"]
            status = await a.status()
            assert status["node"] == 1
            again = a.lock("async-twice", timeout=SOON, reentrant=True)
            async with again as outer, again as inner:
                assert outer is inner
            election = a.election("resigning")
            async with election.lead():
                await election.resign()
                async with b.election("resigning").lead(SOON):
                    pass

    asyncio.run(run())


# Operators, and mistakes.


def test_whoever_has_lost_its_term_does_not_resign_that_of_another(
    cluster: Cluster, other: Cluster
) -> None:
    """One object, as two threads may have it."""
    election = cluster.election("shared")
    first, second = election.lead(), election.lead()
    lost = first.begin()
    cluster.force("leader/shared")
    until(lambda: lost.lost)
    lease = second.begin()
    with pytest.raises(LockLost):
        first.__exit__(None, None, None)
    lease.check()
    with pytest.raises(LockTimeout):
        other.election("shared").lead(0.1).begin()
    election.resign()


@pytest.mark.parametrize("number", [1, 2])
def test_an_operator_takes_a_lock_away_by_any_node(
    cluster: Cluster, nodes: Nodes, number: int
) -> None:
    lease = cluster.lock("forced").acquire()
    with habemus.connect(nodes.socket(number), name="operator") as operator:
        assert operator.force("forced") == {"taken": "one", "reclaims": True}
        with pytest.raises(LockLost, match="operator"):
            lease.check()
        with operator.lock("forced", timeout=SOON):
            pass
        until(lambda: next(operator.watch("forced")).holder is None)
        assert operator.force("forced") == {"taken": None, "reclaims": True}


@pytest.mark.parametrize("number", [1, 2])
def test_an_asynchronous_operator_takes_a_lock_away_by_any_node(
    cluster: Cluster, nodes: Nodes, number: int
) -> None:
    lease = cluster.lock("forced-too").acquire()

    async def run() -> None:
        async with habemus.connect(nodes.socket(number), name="operator") as operator:
            assert await operator.force("forced-too") == {"taken": "one", "reclaims": True}
            with pytest.raises(LockLost, match="operator"):
                lease.check()

    asyncio.run(run())


def test_names_that_nothing_can_have(cluster: Cluster, nodes: Nodes) -> None:
    """They cost nobody a connection, nor a lock that it has."""
    with cluster.lock("has-it") as lease:
        for name, error in (("", ValueError), ("x" * 300, RefusedByNode)):
            with pytest.raises(error, match="printable"):
                next(cluster.watch(name))
            with pytest.raises(error, match="printable"):
                cluster.force(name)
        with pytest.raises(ValueError, match="too long for a request"):
            cluster.lock("x" * 20_000).acquire()
        with cluster.lock("another"):
            lease.check()
    assert cluster.status()["reaches"] == [2, 3]


def test_mistakes_are_told(cluster: Cluster, nodes: Nodes) -> None:
    with pytest.raises(
        RefusedByNode, match="no service 'printers' with locks; this cluster has locks"
    ):
        cluster.lock("x", service="printers").acquire()
    with pytest.raises(ValueError, match="printable"):
        cluster.lock("")
    with pytest.raises(RefusedByNode, match="printable"):
        cluster.lock("x" * 201).acquire()
    with pytest.raises(ValueError, match="at least 1"):
        cluster.semaphore("x", 0)
    for name, what in (("leader/x", "elections"), ("semaphore/x/1", "semaphores")):
        with pytest.raises(ValueError, match=f"is the prefix of {what}"):
            cluster.lock(name)
        with pytest.raises(ValueError, match=f"is the prefix of {what}"):
            cluster.try_lock(name)
    with pytest.raises(ValueError, match="lease=0: give a number"):
        cluster.lock("x", lease=0).acquire()
    with pytest.raises(ValueError, match="is not the address of a cluster"):
        habemus.connect("nowhere").lock("x").acquire()
    with pytest.raises(Unreachable, match="no node answers"):
        habemus.connect(str(nodes.folder / "none.sock")).lock("x").acquire()
    with cluster.lock("x", timeout=SOON):
        pass


def test_a_cluster_is_found_by_its_file_its_folder_and_its_addresses(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = next(
        line.split('"')[1] for line in nodes.file.read_text().splitlines() if line.startswith("2 =")
    )
    for where in (str(nodes.file), str(nodes.folder), address, f"127.0.0.1:1,{address}"):
        with habemus.connect(where) as cluster, cluster.lock("found", timeout=SOON):
            pass
    monkeypatch.setenv("HABEMUS_CLUSTER", address)
    with habemus.connect() as cluster:
        assert cluster.status()["node"] == 2


def test_nodes_lead_in_a_service_of_elections_and_paths_may_be_long(
    tmp_path: Path, start: Start
) -> None:
    folder = tmp_path / ("a" * 100) / ("b" * 100)
    folder.mkdir(parents=True)
    nodes = start(folder, '[services.elections]\nalgorithm = "terms"\n')
    with habemus.connect(nodes.socket(1)) as cluster:
        seen = next(
            standing
            for standing in cluster.watch("x", service="elections")
            if standing.node is not None
        )
        assert seen.holder == f"node {seen.node}"
        assert (seen.token or 0) >= 1
        with pytest.raises(RefusedByNode, match="with locks; this cluster has none"):
            cluster.lock("x", service="elections").acquire()


def test_a_program_can_be_a_node(tmp_path: Path, start: Start) -> None:
    nodes = start(
        tmp_path, LAPSING
    )  # a node that was killed takes part again when its leases have expired
    nodes.kill(3)

    async def run() -> None:
        async with habemus.embedded(nodes.file, 3) as node:
            async with (
                habemus.connect(node.address, name="inside") as mine,
                mine.lock("x", timeout=PATIENCE) as lease,
            ):
                lease.check()
                with pytest.raises(LockTimeout):
                    await asyncio.to_thread(other_tries)
            assert (node.number, node.impediments()) == (3, [])

    def other_tries() -> None:
        with habemus.connect(nodes.socket(1)) as other:
            other.lock("x", timeout=0.2).acquire()

    asyncio.run(run())
    with habemus.connect(nodes.socket(1)) as other, other.lock("x", timeout=PATIENCE):
        pass


def test_round_trips_are_measured(cluster: Cluster, nodes: Nodes) -> None:
    delays = list(round_trips(cluster._backend, 50, pause=0))
    assert len(delays) == 50
    assert all(delay > 0 for delay in delays)
    words = "numbers timeout --draws 40 -C 100 -E 1 --no-detectors --json --live"
    command = command_line(words, nodes.socket(1))
    done = subprocess.run(command, capture_output=True, check=True)
    told = json.loads(done.stdout)
    assert told["delays"] == 40
    assert told["origin"] == "node 1, round trips"
    assert told["timeout"] > 0


def test_over_the_network_a_client_shows_who_it_is(tmp_path: Path, start: Start) -> None:
    """With certificates and a secret: whoever has both is let in, whoever lacks one or has
    another's is not.
    """
    for folder, name in (("papers", "alice"), ("others", "mallory")):
        command = [
            "certs",
            folder,
            "--cluster",
            "office",
            "--nodes",
            "3",
            "--clients",
            name,
            "--secret",
            f"{folder}/secret",
        ]
        subprocess.run(
            [sys.executable, "-m", "habemus", *command],
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )
    tls = (
        '[tls]\nca = "papers/ca.pem"\ncertificate = "papers/node-{id}.pem"\nkey ='
        ' "papers/node-{id}.key"\n'
    )
    nodes = start(tmp_path, DEFAULT + tls, head='secret_file = "papers/secret"')
    address = next(
        line.split('"')[1] for line in nodes.file.read_text().splitlines() if line.startswith("1 =")
    )
    ca, certificate, key = (
        str(tmp_path / "papers" / file)
        for file in ("ca.pem", "client-alice.pem", "client-alice.key")
    )
    secret = (tmp_path / "papers" / "secret").read_bytes().strip()
    right: dict[str, Any] = {"ca": ca, "certificate": certificate, "key": key, "secret": secret}
    with habemus.connect(address, **right) as cluster, cluster.lock("x", timeout=PATIENCE) as lease:
        wait_for_renewal(lease)
        lease.check()

    async def run() -> None:
        async with (
            habemus.connect(address, **right) as cluster,
            cluster.lock("x", timeout=PATIENCE) as lease,
        ):
            assert lease.token

    asyncio.run(run())
    said = {
        "ca": ca,
        "certificate": certificate,
        "key": key,
        "secret-file": str(tmp_path / "papers" / "secret"),
    }
    options = [word for name, file in said.items() for word in (f"--{name}", file)]
    variables = {f"HABEMUS_{name.replace('-', '_').upper()}": file for name, file in said.items()}
    commands = (["status"], ["lock", "x", "--", "true"])
    for command in commands:
        for given, environment, code in ((options, {}, 0), ([], variables, 0), ([], {}, 125)):
            line = command_line(f"{command[0]} --cluster", address, *given, *command[1:])
            done = subprocess.run(
                line, capture_output=True, text=True, env={**os.environ, **environment}, check=False
            )
            assert done.returncode == code, done.stderr
    with habemus.connect(nodes.socket(1)) as cluster, cluster.lock("x", timeout=PATIENCE):
        pass  # a client of the same user on the same machine needs neither
    theirs = {
        "certificate": str(tmp_path / "others/client-mallory.pem"),
        "key": str(tmp_path / "others/client-mallory.key"),
    }
    wrong: list[dict[str, Any]] = [
        {**right, "secret": (tmp_path / "others" / "secret").read_bytes().strip()},
        {**right, "secret": None},
        {**right, **theirs},
        {**right, "ca": str(tmp_path / "others" / "ca.pem")},
        {**right, "certificate": None, "key": None},
        {"secret": secret},
    ]
    for each in wrong:
        with pytest.raises((RefusedByNode, Unreachable)):
            habemus.connect(address, **each).lock(
                "x"
            ).acquire()  # at once: no node has ever answered
    with habemus.connect(nodes.socket(1)) as cluster:
        assert cluster.status()["locks"] == []


def test_noise_on_the_clients_socket(nodes: Nodes, cluster: Cluster) -> None:
    """Whoever does not speak as a client may does not get far, and nobody else notices."""
    import random
    import socket

    chance = random.Random(7)
    noises = [b"[" + chance.randbytes(chance.randrange(60)) + b"\n" for _ in range(300)]
    noises += [
        b'["request",1,"locks",["x"],null,null,1]\n',
        b'["hello",9,"x"]\n',
        b'["hello",%d,"x","no such session"]\n' % WIRE_VERSION,
        b"[" * 20_000,
    ]
    noises += [
        b'["hello",%d,"x"]\n["request",1,"locks",[],null,null,1]\n' % WIRE_VERSION,
        b'["hello",%d,"x"]\n["alive",' % WIRE_VERSION + b"9" * 400 + b"]\n",
    ]
    with cluster.lock("noise") as lease:
        for noise in noises:
            with socket.socket(socket.AF_UNIX) as made:
                made.settimeout(PATIENCE)
                made.connect(nodes.socket(1))
                made.sendall(noise)
                made.shutdown(socket.SHUT_WR)
                while made.recv(65_536):
                    pass
        lease.check()
    assert os.path.exists(nodes.socket(1))  # noqa: PTH110


def test_whoever_does_not_read_what_it_asked_for_is_cut_off(nodes: Nodes, cluster: Cluster) -> None:
    import socket

    with cluster.lock("unread") as lease, socket.socket(socket.AF_UNIX) as made:
        made.settimeout(PATIENCE)
        made.connect(nodes.socket(1))
        made.sendall(b'["hello",%d,"deaf"]\n' % WIRE_VERSION)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            for _ in range(10_000):
                made.sendall(b'["status",1]\n' * 100)
        lease.check()


def test_a_client_that_reads_late_receives_every_answer(nodes: Nodes) -> None:
    """More than a socket takes, so the node has to keep some of it."""
    import socket

    count = 1_500  # of about a kilobyte each
    with socket.socket(socket.AF_UNIX) as made:
        made.settimeout(PATIENCE)
        made.connect(nodes.socket(1))
        made.sendall(b'["hello",%d,"slow"]\n' % WIRE_VERSION)
        for id in range(count):
            made.sendall(b'["status",%d]\n' % id)
        with made.makefile("rb") as lines:
            assert lines.readline().startswith(b'["welcome"')
            answers = [lines.readline() for _ in range(count)]
    assert sum(map(len, answers)) > 1_000_000
    assert all(b'["status",%d,' % id in line for id, line in enumerate(answers))


@pytest.mark.parametrize("algorithm", ["roucairol-carvalho", "elected-coordinator-leased"])
def test_a_lock_that_is_kept_until_somebody_wants_it(
    tmp_path: Path, start: Start, algorithm: str
) -> None:
    services = (
        f'[services.locks]\nalgorithm = "{algorithm}"\n[services.deaf]\nalgorithm = "central"\n'
    )
    nodes = start(tmp_path, services)
    with (
        habemus.connect(nodes.socket(1), name="a") as a,
        habemus.connect(nodes.socket(2), name="b") as b,
    ):
        kept = a.lock("x", keep=True, timeout=PATIENCE)
        with kept as first:
            pass
        with kept as again:
            assert again._state is first._state  # the same grant
        assert a.status()["locks"][0]["holder"] == "a"  # as far as anybody else can tell
        spans: list[tuple[float, float]] = []

        def visit(mine: Cluster, keep: bool) -> None:
            lock = mine.lock("x", keep=keep, timeout=PATIENCE)
            for _ in range(20):
                with lock:
                    begin = time.monotonic()
                    time.sleep(0.001)
                    spans.append((begin, time.monotonic()))

        threads = [
            threading.Thread(target=visit, args=each)
            for each in ((a, True), (a, False), (b, True), (b, False))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        spans.sort()
        assert len(spans) == 80
        assert all(one[1] <= after[0] for one, after in pairwise(spans))
        with b.lock("x", timeout=PATIENCE), pytest.raises(LockTimeout):
            a.lock("x", keep=True, timeout=0.1).acquire()
        with pytest.raises(RefusedByNode, match="keep=True does not work with service deaf"):
            a.lock("x", keep=True, service="deaf").acquire()
        with pytest.raises(ValueError, match="exclude each other"):
            a.lock("x", keep=True, reentrant=True)


def test_the_asynchronous_client_keeps_a_lock_until_another_wants_it(
    tmp_path: Path, start: Start
) -> None:
    services = (
        '[services.locks]\nalgorithm = "ricart-agrawala"\n[services.deaf]\nalgorithm = "central"\n'
    )
    nodes = start(tmp_path, services)

    async def run() -> None:
        async with (
            habemus.connect(nodes.socket(1), name="a") as a,
            habemus.connect(nodes.socket(2), name="b") as b,
        ):
            kept = a.lock("x", keep=True, timeout=PATIENCE)
            async with kept as first:
                pass
            async with kept as again:
                assert again._state is first._state  # the same grant
            assert (await a.status())["locks"][0]["holder"] == "a"
            inside = 0

            async def visit(mine: AsyncCluster, keep: bool) -> None:
                nonlocal inside
                lock = mine.lock("x", keep=keep, timeout=PATIENCE)
                for _ in range(20):
                    async with lock:
                        assert inside == 0
                        inside += 1
                        await asyncio.sleep(0.001)
                        inside -= 1

            visits = ((a, True), (a, False), (b, True), (b, False))
            await asyncio.gather(*(visit(*each) for each in visits))
            async with kept as lease:
                pass
            assert not lease._listeners
            grant: Lease = lease._state.holder
            assert lease.released and grant.held
            async with b.lock("x", timeout=PATIENCE):
                assert grant.released
            with pytest.raises(RefusedByNode, match="keep=True does not work with service deaf"):
                await a.lock("x", keep=True, service="deaf").acquire()
            with pytest.raises(ValueError, match="exclude each other"):
                a.lock("x", keep=True, reentrant=True)

    asyncio.run(run())


def test_a_task_takes_a_reentrant_lock_again_by_any_of_its_objects(nodes: Nodes) -> None:
    async def run() -> None:
        async with habemus.connect(nodes.socket(1)) as mine:

            def lock(timeout: float) -> Any:
                return mine.lock("task-again", timeout=timeout, reentrant=True)

            async with lock(SOON) as outer, lock(SOON) as inner:
                assert inner is outer
                again = lock(SOON)
                assert await again.acquire() is outer
                again.release(outer)
                assert outer.held
                with pytest.raises(LockTimeout):  # another task
                    await asyncio.create_task(lock(0.1).acquire())
            assert not outer.held and not outer.lost

    asyncio.run(run())


def test_a_reentrant_lock_that_is_lost_ends_the_task_once(nodes: Nodes) -> None:
    async def run() -> None:
        async with habemus.connect(nodes.socket(1)) as mine:

            def lock() -> Any:
                return mine.lock("task-lost", SOON, reentrant=True)

            with pytest.raises(LockLost):
                async with lock(), lock():
                    await mine.force("task-lost")
                    await asyncio.sleep(PATIENCE)
            task = asyncio.current_task()
            assert task is not None and not task.cancelling()
            await asyncio.sleep(0)

    asyncio.run(run())


def test_algorithms_without_leases_and_tokens(tmp_path: Path, start: Start) -> None:
    services = (
        '[services.locks]\nalgorithm = "ricart-agrawala"\n[services.one]\nalgorithm = "central"\n'
    )
    nodes = start(tmp_path, services)
    with (
        habemus.connect(nodes.socket(1), name="a") as a,
        habemus.connect(nodes.socket(2), name="b") as b,
    ):
        for service in ("locks", "one"):
            with a.lock("x", service=service) as lease:
                assert lease.token is None
                assert lease.remaining == float("inf")
                lease.check()
                assert b.try_lock("x", service=service) is None
            # The failed try could not be taken back: its node is let in, and leaves at once.
            with a.lock("x", timeout=SOON, service=service), pytest.raises(LockTimeout):
                a.lock("x", timeout=0.05, service=service).acquire()
            with b.lock("x", timeout=SOON, service=service, lease=SOON):
                pass


def test_a_node_that_has_lost_its_folder_takes_part_only_by_the_word_of_an_operator(
    tmp_path: Path, start: Start
) -> None:
    nodes = start(tmp_path, LAPSING)
    with habemus.connect(nodes.socket(2)) as cluster, cluster.lock("x", timeout=PATIENCE) as lease:
        before = lease.token or 0
    nodes.kill(2)
    shutil.rmtree(tmp_path / "data" / "node-2")
    nodes.start(2, wait=False)
    assert nodes.processes[2].wait(PATIENCE) == 1
    told = (tmp_path / "2.log").read_text().splitlines()[-1]
    assert (
        "knows node 2 by another memory" in told
        and "start the node with `habemus node --replace`" in told
    )
    nodes.processes.pop(2).communicate()
    nodes.start(2, "--replace")
    with habemus.connect(nodes.socket(2)) as cluster, cluster.lock("y", timeout=PATIENCE):
        pass  # it takes part, after all the others have told what they know
    nodes.kill(1)  # so that it is needed
    with habemus.connect(nodes.socket(2)) as cluster, cluster.lock("x", timeout=PATIENCE) as lease:
        assert (lease.token or 0) > before
    nodes.kill(2)
    nodes.start(2)
    with habemus.connect(nodes.socket(2)) as cluster, cluster.lock("x", timeout=PATIENCE) as lease:
        assert (lease.token or 0) > before

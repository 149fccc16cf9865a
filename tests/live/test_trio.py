"""The asynchronous client under trio, on our own cluster and on local locks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from tests.live.conftest import PATIENCE
from tests.live.nodes import Nodes

import habemus

NEVER = 3_600.0


def run(main: Callable[[], Awaitable[Any]]) -> None:
    async def bounded() -> None:
        with trio.fail_after(PATIENCE):
            await main()

    trio.run(bounded)


def test_tasks_exclude_each_other(place: str) -> None:
    inside: list[int] = []
    tokens: list[int] = []

    async def main() -> None:
        async with habemus.connect(place) as cluster, trio.open_nursery() as nursery:

            async def visit(number: int) -> None:
                for _ in range(5):
                    async with cluster.lock("report") as lease:
                        inside.append(number)
                        assert inside == [number] and lease.held
                        await trio.sleep(0)
                        inside.remove(number)
                        tokens.append(lease.token or 0)

            for number in range(4):
                nursery.start_soon(visit, number)

    run(main)
    assert len(tokens) == 20 and tokens == sorted(set(tokens))


def test_a_cancelled_task_leaves_no_lock_behind(place: str) -> None:
    async def main() -> None:
        async with habemus.connect(place) as cluster:
            lock = cluster.lock("report")
            async with lock:
                with trio.move_on_after(0.05) as scope:
                    await cluster.lock("report").acquire()
                assert scope.cancelled_caught
                with pytest.raises(habemus.LockTimeout):
                    await cluster.lock("report", timeout=0.05).acquire()
                assert await cluster.try_lock("report") is None
            for pause in range(20):  # cancelled before, with and after the grant
                with trio.move_on_after(pause / 5_000):
                    async with cluster.lock("report"):
                        await trio.sleep(NEVER)
            async with cluster.lock("report", timeout=PATIENCE) as lease:
                assert lease.held
            assert lease.released

    run(main)


def test_the_task_is_cancelled_when_the_lock_is_lost(one_node: Nodes) -> None:
    ends: list[str] = []

    async def main() -> None:
        async with habemus.connect(one_node.socket(1)) as cluster:
            with pytest.raises(habemus.LockLost):
                async with cluster.lock("taken") as lease:
                    try:
                        await cluster.force("taken")
                        await trio.sleep(NEVER)
                    finally:
                        ends.append("cancelled")
            assert lease.lost
            await trio.sleep(0)  # the scope of the caller is not cancelled
            ends.append("goes on")
            with pytest.raises(ZeroDivisionError):
                async with cluster.lock("taken"):
                    raise ZeroDivisionError

    run(main)
    assert ends == ["cancelled", "goes on"]


def test_elections_semaphores_and_read_write_locks(one_node: Nodes) -> None:
    async def main() -> None:
        async with habemus.connect(one_node.socket(1), name="me") as cluster:
            election = cluster.election("chief")
            async with election.lead():
                leader = await election.leader()
                assert leader is not None and leader.holder == "me"
            async with cluster.semaphore("places"), cluster.semaphore("places"):
                assert await cluster.semaphore("places").locked()
            both = cluster.read_write_lock("page")
            async with both.read(), both.read():
                with pytest.raises(habemus.LockTimeout):
                    await both.write(timeout=0.05).acquire()
            async with both.write():
                lease = await cluster.lock("report", reentrant=True).acquire()
                assert lease.held
            async with cluster.acquire_all(["b", "a"]) as leases:
                assert [lease.name for lease in leases] == ["a", "b"]
            assert (await cluster.status())["node"] == 1

    run(main)


def test_a_kept_lock_is_given_up_when_another_client_waits(one_node: Nodes) -> None:
    async def main() -> None:
        async with (
            habemus.connect(one_node.socket(1)) as one,
            habemus.connect(one_node.socket(1)) as two,
        ):
            kept = one.lock("kept", keep=True)
            async with kept as first:
                pass
            async with kept as again:
                assert again._state is first._state  # the same grant
            async with two.lock("kept", timeout=PATIENCE) as lease:
                assert lease.held

    run(main)


def test_parties_meet_at_a_barrier(one_node: Nodes) -> None:
    places: list[int] = []

    async def main() -> None:
        async def party() -> None:
            async with (
                habemus.connect(one_node.socket(1)) as cluster,
                cluster.barrier("gate", 3) as barrier,
            ):
                places.append(await barrier.wait(PATIENCE))
                places.append(await barrier.wait(PATIENCE))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(party)

    run(main)
    assert sorted(places) == [0, 0, 1, 1, 2, 2]


def test_a_watch_ends_with_its_task(one_node: Nodes) -> None:
    async def main() -> None:
        async with habemus.connect(one_node.socket(1)) as cluster:
            seen: list[str | None] = []
            async with trio.open_nursery() as nursery:

                async def watch() -> None:
                    async for state in cluster.watch("seen"):
                        seen.append(state.holder)  # noqa: PERF401  # looked at meanwhile

                nursery.start_soon(watch)
                while not seen:
                    await trio.sleep(0.01)
                async with cluster.lock("seen"):
                    while seen[-1] is None:
                        await trio.sleep(0.01)
                nursery.cancel_scope.cancel()

    run(main)


def test_a_coroutine_function_is_decorated(place: str) -> None:
    async def main() -> None:
        cluster = habemus.connect(place)

        @cluster.lock("report")
        async def report() -> str:
            await trio.sleep(0)
            return "done"

        assert await report() == "done"

    run(main)

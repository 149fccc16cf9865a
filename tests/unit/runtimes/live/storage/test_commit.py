"""Group commit: who stores a batch, and that nobody hears of it before."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
from tests import virtual

from habemus.runtimes.live.hosting.turn import Turn
from habemus.runtimes.live.storage import commit
from habemus.runtimes.live.storage.batches import Entry
from habemus.runtimes.live.storage.commit import ALONE, QUICK_NS, GroupCommit
from habemus.runtimes.live.storage.log import StableMemory, StorageFailed


class Disk:
    """Notes down what is stored, and by whom; it has the clock, too, so that no busy machine has a
    say in how long it takes.
    """

    def __init__(self) -> None:
        self.now = 0
        self.takes_ns = QUICK_NS // 2
        self.breaks = False
        self.batches: list[int] = []
        self.by_loop: list[bool] = []
        self.written: list[Entry] = []
        self.logged: set[str] = set()
        self._loop_thread = threading.get_ident()

    def commit(self, entries: list[Entry]) -> None:
        if self.breaks:
            raise StorageFailed("broken")
        self.by_loop.append(threading.get_ident() == self._loop_thread)
        self.batches.append(len(entries))
        self.now += self.takes_ns
        self.logged.update(key for key, _ in entries)

    can_write = True

    def write(self, entries: list[Entry]) -> None:
        if self.breaks:
            raise StorageFailed("broken")
        self.written += entries

    def overdue(self) -> list[Entry]:
        return self.written if len(self.written) == 5 else []

    def is_logged(self, key: str) -> bool:
        return key in self.logged


class LockQueues:
    """Adds entries, and knows which batches it was told of."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        loop = asyncio.get_running_loop()
        assert isinstance(loop, virtual.VirtualLoop)
        loop.wait_for_thread(lambda: not self.commit.is_idle)
        self.told: list[int] = []
        self.failures: list[StorageFailed] = []
        memory = cast(StableMemory, disk)
        self.commit = GroupCommit(
            loop, Turn(loop), memory, self.told.append, self.failures.append, Counter()
        )

    async def add(self, *keys: str, after_ns: int = QUICK_NS) -> None:
        """All in one turn, some time after what was stored before; waits until they are stored."""
        self.disk.now += after_ns
        number = [self.commit.add((key, b"")) for key in keys][-1]
        async with asyncio.timeout(600):
            while number not in self.told and not self.failures:
                await asyncio.sleep(0.001)


Test = Callable[[Callable[[LockQueues], Awaitable[None]]], None]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Test:
    """Runs a test with a desk at which somebody has been alone for a while."""

    def run(test: Callable[[LockQueues], Awaitable[None]]) -> None:
        async def main() -> None:
            disk = Disk()
            monkeypatch.setattr(commit, "monotonic_ns", lambda: disk.now)
            desk = LockQueues(disk)
            try:
                for _ in range(ALONE):
                    await desk.add("a")
                assert disk.by_loop == [False] * ALONE
                await test(desk)
            finally:
                desk.commit.close()

        virtual.run(main())

    return run


def test_whoever_is_alone_is_served_by_the_loop_as_long_as_the_disk_is_quick(run: Test) -> None:
    async def test(desk: LockQueues) -> None:
        for _ in range(2):
            await desk.add("a")
        assert desk.disk.by_loop[-2:] == [True, True]
        desk.disk.takes_ns = 2 * QUICK_NS
        for _ in range(2):  # of the first nobody could have known
            await desk.add("a")
        assert desk.disk.by_loop[-2:] == [True, False]
        assert desk.told == list(range(1, ALONE + 5))

    run(test)


def test_those_who_come_together_share_a_batch_of_the_thread(run: Test) -> None:
    async def test(desk: LockQueues) -> None:
        await desk.add("a")
        await desk.add("a", "b", "c")
        await desk.add("a")
        assert (desk.disk.batches[-3:], desk.disk.by_loop[-3:]) == ([1, 3, 1], [True, False, False])

    run(test)


def test_what_has_waited_for_the_disk_shows_that_nobody_is_alone(run: Test) -> None:
    async def test(desk: LockQueues) -> None:
        await desk.add("a")
        await desk.add("b", after_ns=1)
        assert desk.disk.by_loop[-2:] == [True, False]

    run(test)


def test_nobody_hears_of_what_the_loop_could_not_store(run: Test) -> None:
    async def test(desk: LockQueues) -> None:
        desk.disk.breaks = True
        await desk.add("a")
        assert (len(desk.told), len(desk.failures)) == (ALONE, 1)
        assert desk.commit.is_idle

    run(test)


def test_an_entry_is_written_at_once_unless_others_are_being_stored(run: Test) -> None:
    async def test(desk: LockQueues) -> None:
        assert desk.commit.write(("x", b"1"))
        number = desk.commit.add(("a", b""))
        assert not desk.commit.write(("x", b"2"))
        async with asyncio.timeout(600):
            while number not in desk.told:
                await asyncio.sleep(0.001)
        assert desk.commit.write(("x", b"3"))
        assert desk.disk.written == [("x", b"1"), ("x", b"3")]

    run(test)


def test_what_is_written_is_stored_in_the_end(run: Test) -> None:
    async def test(desk: LockQueues) -> None:
        told = len(desk.told)
        for number in range(5):
            assert desk.commit.write((f"{number}", b""))
        async with asyncio.timeout(600):
            while len(desk.told) == told:
                await asyncio.sleep(0.001)
        assert desk.disk.batches[-1] == 5
        assert desk.commit.write(("x", b""))

    run(test)


def test_a_key_is_removed_by_the_disk_only_if_the_disk_has_it(run: Test) -> None:
    async def test(desk: LockQueues) -> None:
        assert desk.commit.write(("x", b"1"))
        assert desk.commit.remove("x") is None
        assert desk.disk.written[-1] == ("x", None)
        assert desk.commit.remove("a") == len(desk.told) + 1

    run(test)


def test_nothing_follows_from_what_could_not_be_written(run: Test) -> None:
    async def test(desk: LockQueues) -> None:
        desk.disk.breaks = True
        assert not desk.commit.write(("x", b"1"))
        await desk.add("x")
        assert (len(desk.told), len(desk.failures)) == (ALONE, 1)

    run(test)

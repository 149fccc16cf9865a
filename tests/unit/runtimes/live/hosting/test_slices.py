"""Time slices: one owner after the other, each in its own order, on a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import cast

from habemus.runtimes.live.hosting.slices import MOST_AT_ONCE, TimeSlicer
from habemus.runtimes.live.hosting.turn import Turn


class Loop:
    def __init__(self) -> None:
        self.now = 0
        self.ready: list[Callable[[], None]] = []

    def call_soon(self, action: Callable[[], None]) -> None:
        self.ready.append(action)

    def turn(self) -> None:
        ready, self.ready = self.ready, []
        for action in ready:
            action()


def made() -> tuple[Loop, TimeSlicer, list[str]]:
    loop = Loop()
    each = cast(asyncio.AbstractEventLoop, loop)
    return loop, TimeSlicer(each, Turn(each), lambda: loop.now * 1_000), []


def work(loop: Loop, done: list[str], name: str, pieces: int) -> Iterator[None]:
    for piece in range(pieces):
        done.append(f"{name}{piece}")
        loop.now += 3_000
        yield


def test_short_work_is_done_at_once() -> None:
    loop, slices, done = made()
    assert slices.run("one", work(loop, done, "a", 1))
    assert done == ["a0"]
    assert not loop.ready


def test_owners_take_turns_and_keep_their_own_order() -> None:
    loop, slices, done = made()
    assert not slices.run("one", work(loop, done, "a", 4))
    assert not slices.run("one", work(loop, done, "b", 2))
    assert not slices.run("two", work(loop, done, "c", 4))
    assert done == ["a0", "a1", "c0", "c1"]  # a first slice each, and what came second of one waits
    loop.turn()
    assert done[4:] == ["a2", "a3"]
    loop.turn()
    assert done[6:] == ["c2", "c3"]
    while loop.ready:
        loop.turn()
    assert done[8:] == ["b0", "b1"]


def test_work_that_leads_to_more_work_of_its_owner_goes_first() -> None:
    loop, slices, done = made()

    def outer() -> Iterator[None]:
        slices.run("one", work(loop, done, "b", 4))
        yield
        done.append("a")

    assert not slices.run("one", outer())
    while loop.ready:
        loop.turn()
    assert done == ["b0", "b1", "a", "b2", "b3"]


def test_work_that_raises_is_dropped_and_the_others_go_on() -> None:
    loop, slices, done = made()

    def broken() -> Iterator[None]:
        loop.now += 6_000
        yield
        raise ZeroDivisionError

    slices.run("one", broken())
    slices.run("one", work(loop, done, "a", 1))
    try:
        loop.turn()
    except ZeroDivisionError:
        done.append("raised")
    loop.turn()
    assert done == ["raised", "a0"]


def test_short_work_of_many_owners_shares_a_slice() -> None:
    loop, slices, done = made()
    for owner in range(5):
        assert not slices.run(owner, work(loop, done, f"{owner}-", 1), at_once=False)
    assert not done
    loop.turn()
    assert done == ["0-0", "1-0"]  # 3 ms each, of 5
    while loop.ready:
        loop.turn()
    assert done == [f"{owner}-0" for owner in range(5)]


def test_so_much_work_is_done_at_once_in_a_turn_and_no_more() -> None:
    loop, slices, _ = made()
    for _ in range(2):
        allowed = [slices.may_do_at_once() for _ in range(MOST_AT_ONCE + 2)]
        assert allowed == [True] * MOST_AT_ONCE + [False] * 2
        loop.turn()
    assert not loop.ready, "nothing is scheduled while nothing is done"

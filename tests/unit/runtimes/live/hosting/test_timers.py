"""Timers: never early, in order, cancelled; on a clock that the test moves."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from habemus import boottime
from habemus.runtimes.live.hosting import timers
from habemus.runtimes.live.hosting.timers import Timers, random_source


class Wake:
    def __init__(self, at: float, action: Callable[[], None]) -> None:
        self.at, self.action, self.cancelled = at, action, False

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """As much of an event loop as timers need.  It rounds to milliseconds and so wakes up early, as
    real ones do.
    """

    def __init__(self) -> None:
        self.now = 5_000_000
        self.wakes: list[Wake] = []

    def call_later(self, delay: float, action: Callable[[], None]) -> Wake:
        wake = Wake(self.now + int(delay * 1_000) * 1_000, action)
        self.wakes.append(wake)
        return wake

    def advance(self, by: int) -> None:
        end = self.now + by
        while True:
            self.wakes = [wake for wake in self.wakes if not wake.cancelled]
            due = [wake for wake in self.wakes if wake.at <= end]
            if not due:
                break
            first = min(due, key=lambda wake: wake.at)
            self.wakes.remove(first)
            self.now = (
                max(self.now, int(first.at)) + 7
            )  # a little later each time, as on a real machine
            first.action()
        self.now = max(self.now, end)


def made(seed: int = 1) -> tuple[Loop, Timers, list[Any]]:
    loop = Loop()
    return (
        loop,
        Timers(cast(asyncio.AbstractEventLoop, loop), random_source(seed), lambda: loop.now),
        [],
    )


def test_it_fires_once_and_never_early() -> None:
    loop, heap, fired = made()
    set_at = loop.now
    heap.set(1_999, lambda: fired.append(loop.now - set_at))
    loop.advance(1_500)
    assert fired == []
    loop.advance(1_000_000)
    assert len(fired) == 1
    assert fired[0] >= 1_999
    assert len(heap) == 0


def test_in_the_order_of_their_deadlines_also_after_a_pause() -> None:
    loop, heap, fired = made()
    for after in (5_000, 1_000, 3_000, 2_000, 4_000):
        heap.set(after, lambda after=after: fired.append(after))  # type: ignore[misc]  # bound now
    loop.now += 60_000_000  # the process was stopped
    loop.advance(1)
    assert fired == [1_000, 2_000, 3_000, 4_000, 5_000]


def test_cancelled_and_closed() -> None:
    loop, heap, fired = made()
    first = heap.set(1_000, lambda: fired.append("a"))
    second = heap.set(2_000, lambda: fired.append("b"))
    assert len(heap) == 2
    heap.cancel(first)
    heap.cancel(first)
    heap.cancel(None)
    assert len(heap) == 1
    assert not first.is_set
    loop.advance(1_500)
    assert second.is_set
    assert heap.left(second) == 500
    heap.close()
    loop.advance(5_000)
    assert fired == []
    assert len(heap) == 0
    assert not second.is_set


def test_one_that_is_due_can_be_cancelled_by_another() -> None:
    loop, heap, fired = made()
    heap.set(1_000, lambda: heap.cancel(second))
    second = heap.set(1_001, lambda: fired.append("b"))
    heap.set(1_002, lambda: fired.append(heap.set(0, lambda: fired.append("d"))))
    loop.now += 10_000
    loop.advance(1_000)
    assert fired[1:] == ["d"]
    assert len(heap) == 0


def test_one_that_sets_itself_again_and_is_due_at_once_leaves_the_loop_its_turn() -> None:
    loop, heap, fired = made()

    def again() -> None:
        fired.append(loop.now)
        heap.set(0, again)

    heap.set(0, again)
    loop.wakes.pop().action()
    assert len(fired) == 1
    assert len(heap) == len(loop.wakes) == 1


def test_one_that_raises_does_not_take_the_others_with_it() -> None:
    loop, heap, fired = made()

    def fail() -> None:
        raise ValueError("as a test does")

    heap.set(1_000, fail)
    heap.set(1_001, lambda: fired.append("other"))
    loop.now += 10_000
    with pytest.raises(ValueError, match="as a test does"):
        loop.advance(1)
    loop.advance(1_000)
    assert fired == ["other"]


def test_draws_are_in_the_range_and_the_same_for_a_seed() -> None:
    draws = [made(3)[1].drawn((10, 20)) for _ in range(2)]
    assert draws[0] == draws[1]
    heap = made(4)[1]
    assert {heap.drawn((1, 3)) for _ in range(200)} == {1, 2, 3}
    assert heap.drawn(7) == 7
    assert isinstance(random_source(None).random(), float)


def test_cancelled_entries_do_not_pile_up() -> None:
    loop, heap, _ = made()
    alarm = None
    for number in range(50_000):
        heap.cancel(alarm)
        alarm = heap.set(1_000_000 + number, lambda: None)
    assert len(heap._heap) <= timers.SWEEP_FROM + 2
    assert len(heap) == 1
    loop.advance(10)


def test_many_that_are_due_leave_room_for_other_work_in_between() -> None:
    loop, heap, fired = made()

    def act() -> None:
        fired.append(loop.now)
        loop.now += 2_000  # what it does takes that long

    for _ in range(10):
        heap.set(1_000, act)
    loop.now += 1_000
    first = loop.wakes.pop()
    first.action()
    assert len(fired) == 3  # 5 ms are over
    loop.advance(100_000)
    assert len(fired) == 10


def test_urgent_ones_come_before_a_backlog_of_others() -> None:
    """Each of the others takes a millisecond; together far longer than a time slice."""
    loop, heap, fired = made()

    def work() -> None:
        fired.append("other")
        loop.now += 1_000

    for _ in range(100):
        heap.set(1_000, work)
    heap.set(20_000, lambda: fired.append("urgent"), is_urgent=True)
    loop.advance(300_000)
    assert fired.count("other") == 100
    assert 15 <= fired.index("urgent") <= 26
    assert len(heap) == 0


def test_after_a_suspend_what_is_overdue_fires_at_once() -> None:
    loop = Loop()
    asleep = 0
    heap = Timers(
        cast(asyncio.AbstractEventLoop, loop), random_source(1), lambda: loop.now + asleep
    )
    fired: list[str] = []
    heap.set(10_000_000, lambda: fired.append("lease"))
    late = heap.set(90_000_000, lambda: fired.append("later"))
    loop.advance(1_000_000)
    asleep = 60_000_000  # the clock goes on, and the waits of the loop do not
    assert heap.left(late) == 90_000_000 - 61_000_000
    loop.advance(round(boottime.LONGEST_WAIT * 1_000_000) + 1_000)
    assert fired == ["lease"]


def test_the_clock_goes_on_while_the_machine_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boottime, "nanoseconds", lambda: 7_000_000)
    assert timers.now_us() == 7_000

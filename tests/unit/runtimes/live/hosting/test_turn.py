"""A turn of the event loop: what is put off to its end is done, once and in order."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from habemus.runtimes.live.hosting.turn import ROUNDS, Action, Turn


class Loop:
    """An event loop whose callbacks the test runs."""

    def __init__(self) -> None:
        self.soon: list[Action] = []

    def call_soon(self, action: Action) -> None:
        self.soon.append(action)

    def run_once(self) -> None:
        soon, self.soon = self.soon, []
        for action in soon:
            action()


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def turn(loop: Loop) -> Turn:
    return Turn(cast(asyncio.AbstractEventLoop, loop))


def test_actions_at_the_end_wait_for_all_that_come_before_it(loop: Loop, turn: Turn) -> None:
    done: list[str] = []

    def more() -> None:
        done.append("before")
        turn.before_end(lambda: done.append("more"))

    turn.open()
    turn.at_end(lambda: done.append("end"))
    turn.before_end(more)
    assert done == []
    turn.close()
    assert done == ["before", "more", "end"]
    assert loop.soon == []


def test_outside_of_a_turn_an_action_runs_in_the_next_one(loop: Loop, turn: Turn) -> None:
    done: list[Any] = []
    turn.at_end(lambda: done.append(turn.is_open))
    turn.before_end(lambda: done.append(turn.number))
    assert len(loop.soon) == 1
    loop.run_once()
    assert done == [1, True]
    assert not turn.is_open


def test_a_turn_has_so_many_rounds_and_goes_on_in_the_next_one(loop: Loop, turn: Turn) -> None:
    count = 0

    def again() -> None:
        nonlocal count
        count += 1
        if count < 2 * ROUNDS:
            turn.before_end(again)

    turn.open()
    turn.before_end(again)
    turn.close()
    assert count == ROUNDS
    loop.run_once()
    assert count == 2 * ROUNDS


@pytest.mark.parametrize("put_off", ["before_end", "at_end"])
def test_what_a_failed_action_kept_back_runs_in_the_next_turn(
    loop: Loop, turn: Turn, put_off: str
) -> None:
    done: list[str] = []
    turn.open()
    getattr(turn, put_off)(lambda: 1 // 0)
    getattr(turn, put_off)(lambda: done.append("second"))
    turn.at_end(lambda: done.append("end"))
    with pytest.raises(ZeroDivisionError):
        turn.close()
    assert not turn.is_open
    assert done == []
    loop.run_once()
    assert done == ["second", "end"]

"""The window of a client: it grows with prompt answers, and shrinks with late ones."""

from __future__ import annotations

from habemus.runtimes.live.clients.window import (
    NARROWEST,
    PATIENCE_US,
    PROMPT_US,
    WIDEST,
    RequestWindow,
)


def exchange(window: RequestWindow, began_us: int, took_us: int, count: int = 1) -> None:
    for each in range(count):
        window.send((began_us, each), began_us)
    for each in range(count):
        window.answer((began_us, each), began_us + took_us)


def test_prompt_answers_widen_the_window_up_to_a_limit() -> None:
    window = RequestWindow()
    exchange(window, 0, 1_000, 4)
    assert window.room(1_000) == NARROWEST + 4
    exchange(window, 2_000, 1_000, 2 * WIDEST)
    assert window.room(3_000) == WIDEST


def test_late_answers_halve_it_once_for_all_that_were_under_way() -> None:
    window = RequestWindow()
    exchange(window, 0, 1_000, WIDEST)
    late_us = 2 * 1_000 + PROMPT_US + 1
    exchange(window, 10_000, late_us, 50)
    assert window.size == WIDEST // 2
    for turn in range(1, 10):
        exchange(window, turn * 100_000, late_us)
    assert window.size == NARROWEST


def test_what_is_far_away_is_prompt_by_its_own_measure() -> None:
    """The quickest answer takes 80 ms; one that takes 150 ms is not late."""
    window = RequestWindow()
    exchange(window, 0, 80_000)
    exchange(window, 100_000, 150_000)
    assert window.size == NARROWEST + 2


def test_what_is_not_answered_for_long_does_not_count() -> None:
    window = RequestWindow()
    for each in range(NARROWEST):
        window.send(each, each)
    assert window.room(PATIENCE_US - 1) == 0
    assert window.room(PATIENCE_US) == 1
    window.answer(0, PATIENCE_US)
    assert window.size == NARROWEST, "its answer says nothing of the load"
    window.withdraw(1)
    assert window.room(PATIENCE_US) == 2

"""The recorder of a simulated run: a log of raw entries becomes numbered events."""

from __future__ import annotations

from typing import Any

from habemus.algorithms.mutex.ricart_agrawala import Reply
from habemus.core.events import Event
from habemus.runtimes.sim.calendar import CONTROL
from habemus.runtimes.sim.recorder import Dropped, Lost, Requeued, RunRecorder, Twice


def recorded(log: list[Any], *, clocks: bool = False) -> list[Event]:
    return list(RunRecorder((1, 2), [""], clocks).events(log))


def told(events: list[Event]) -> list[tuple[Any, ...]]:
    return [(each.time, each.process, each.kind, each.peer, each.number) for each in events]


def test_a_message_is_sent_when_it_is_first_seen_and_received_when_it_is_seen_again() -> None:
    first, second = (7, 2, 1, Reply(1)), (3, 1, 2, Reply(2))
    events = recorded([10, first, second, 60, first, 70, second])
    assert told(events) == [
        (10, 1, "send", 2, 1),
        (10, 2, "send", 1, 2),
        (60, 2, "receive", 1, 1),
        (70, 1, "receive", 2, 2),
    ]


def test_equal_messages_are_told_apart() -> None:
    first, second = (7, 2, 1, Reply(1)), (7, 2, 1, Reply(int("1")))
    events = recorded([10, first, second, 60, second, 70, first])
    assert [(each.kind, each.number) for each in events[2:]] == [("receive", 2), ("receive", 1)]


def test_what_arrives_at_a_crashed_process_is_lost() -> None:
    sent = (7, 2, 1, Reply(1))
    events = recorded([10, sent, Event(20, 2, "crash"), 60, sent])
    assert told(events)[-1] == (60, 2, "lost", 1, 1)


def test_losses_and_drops() -> None:
    dropped = (7, 2, 1, Reply(1))
    events = recorded([Lost(5, 1, 2, Reply(0)), 10, dropped, 20, Dropped(dropped)])
    assert told(events) == [
        (5, 1, "send", 2, 1),
        (5, 1, "lost", 2, 1),
        (10, 1, "send", 2, 2),
        (20, 2, "lost", 1, 2),
    ]


def test_both_copies_have_the_number_of_the_message() -> None:
    first, second = (7, 2, 1, Reply(1)), (9, 2, 1, Reply(1))
    events = recorded([10, first, Twice(first, second), 60, second, 70, first], clocks=True)
    assert [(each.kind, each.number) for each in events] == [
        ("send", 1),
        ("duplicate", 1),
        ("receive", 1),
        ("receive", 1),
    ]


def test_a_message_for_a_paused_process_is_received_after_the_pause() -> None:
    sent, again = (7, 2, 1, Reply(1)), (0, 2, 1, Reply(1))
    recorder = RunRecorder((1, 2), [""], clocks=False)
    log = [10, sent, Event(20, 2, "pause"), 60, sent, Event(90, 2, "resume")]
    events = list(recorder.events([*log, Requeued(again), again]))
    assert told(events) == [
        (10, 1, "send", 2, 1),
        (20, 2, "pause", None, None),
        (90, 2, "resume", None, None),
        (90, 2, "receive", 1, 1),
    ]
    assert recorder.delivered == 1


def test_clocks_order_causes_before_effects() -> None:
    there, back = (7, 2, 1, Reply(1)), (7, 1, 2, Reply(2))
    events = recorded([10, there, 60, there, back, 99, back], clocks=True)
    assert [each.clock for each in events] == [(1, 0), (1, 1), (1, 2), (2, 2)]


def test_control_events_are_counted_and_not_shown() -> None:
    recorder = RunRecorder((1, 2), [""], clocks=False)
    assert not list(recorder.events([10, (3, CONTROL, 1, None)]))
    assert recorder.delivered == 1

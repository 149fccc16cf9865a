"""Processing time: a process handles one message at a time, in the order of arrival."""

from __future__ import annotations

import random

import pytest
from tests.unit.runtimes.sim.parts import DELAY, Bell, Parts, Word, summary, words

from habemus.runtimes.sim.calendar import CONTROL, Calendar, Queued
from habemus.runtimes.sim.faults import Crash, Nth, Pause, Recover
from habemus.runtimes.sim.processing import Arrive, Handled, ProcessingQueues, message_in
from habemus.runtimes.sim.stepping import Fire

TIME = 50
"""Time that a process needs for a message, five times as long as the network."""


def test_a_message_is_received_when_its_processing_is_over() -> None:
    parts = Parts(processing=TIME)
    parts.ask(1, "say", 7)
    assert words(parts.run(DELAY + TIME - 1), "receive") == []
    assert words(parts.run(DELAY + TIME), "receive") == [(60, 7)]


def test_messages_that_arrive_together_are_handled_one_after_the_other() -> None:
    parts = Parts(size=4, processing=TIME)
    for process in (2, 3, 4):
        parts.stepper.processes[process][0].send(Word(process), to=1)
    events = parts.run(500)
    assert [time for time, _ in words(events, "receive")] == [60, 110, 160]
    assert sorted(parts.heard(1)) == [2, 3, 4]


def test_a_message_waits_until_those_that_arrived_before_it_have_been_handled() -> None:
    parts = Parts(processing=TIME)
    for time, value in ((0, 7), (20, 8), (30, 9)):
        parts.run(time)
        parts.ask(2, "say", value)
    assert words(parts.run(500), "receive") == [(60, 7), (110, 8), (160, 9)]
    assert parts.heard(1) == [7, 8, 9]


def test_an_idle_process_begins_when_a_message_arrives() -> None:
    parts = Parts(processing=TIME)
    parts.ask(2, "say", 7)
    parts.run(100)
    parts.ask(2, "say", 8)
    assert words(parts.run(500), "receive") == [(160, 8)]


def test_processes_do_not_wait_for_each_other() -> None:
    parts = Parts(size=3, processing=TIME)
    parts.ask(1, "say", 7)
    assert summary(parts.run(500), "receive") == [(60, 2, "receive"), (60, 3, "receive")]


def test_messages_to_itself_timers_and_requests_take_no_time() -> None:
    parts = Parts(processing=TIME)
    parts.ask(2, "say", 7)
    parts.run(20)  # process 1 is busy until 60
    parts.ask(1, "mutter", 8)
    parts.ask(1, "set_bell", 5)
    events = parts.run(30)
    assert words(events, "receive") == [(21, 8)]
    assert summary(events, "timer") == [(25, 1, "timer")]
    assert words(parts.run(60), "receive") == [(60, 7)]


def test_a_message_enters_the_calendar_as_an_arrival_and_draws_a_tie() -> None:
    calendar = Calendar(random.Random(1).getrandbits)
    queues = ProcessingQueues(calendar, 1, TIME, records=True)
    message: Queued = (3, 1, 2, Word(7))
    queues.enter(10, message)
    queues.enter(10, message)
    (one, *first), (other, *second) = calendar.buckets[10]
    assert first == [CONTROL, 1, Arrive(message)]
    assert second == [CONTROL, 2, Arrive(message)]
    assert one != other


# Crashes.


def test_a_process_that_is_down_loses_a_message_when_it_arrives() -> None:
    parts = Parts(Crash(1, 5), Recover(1, 20), processing=TIME)
    parts.ask(2, "say", 7)
    assert words(parts.run(500), "lost") == [(10, 7)]
    assert parts.heard(1) == []


def test_a_crash_takes_away_all_messages_that_wait_and_the_one_in_processing() -> None:
    parts = Parts(processing=TIME)
    for time, value in ((0, 7), (5, 8)):
        parts.run(time)
        parts.ask(2, "say", value)
    parts.run(20)
    assert [message for *_, message in parts.queues.crashed(1)] == [Word(7), Word(8)]
    assert parts.queues.crashed(1) == []
    parts.run(500)
    assert parts.heard(1) == []


def test_after_a_crash_a_message_takes_its_full_time() -> None:
    parts = Parts(Crash(1, 20), Recover(1, 25), processing=TIME)
    parts.ask(2, "say", 7)
    parts.run(30)
    parts.ask(2, "say", 8)
    assert words(parts.run(500), "receive") == [(90, 8)], (
        "not at 60, when 7 would have been handled"
    )


def test_a_crash_upon_a_message_loses_those_that_wait_behind_it() -> None:
    parts = Parts(Crash(1, Nth("receive", 1)), Recover(1, 70), processing=TIME)
    for time, value in ((0, 7), (5, 8)):
        parts.run(time)
        parts.ask(2, "say", value)
    events = parts.run(500)
    assert (words(events, "receive"), words(events, "lost")) == ([(60, 7)], [(60, 8)])
    assert parts.heard(1) == []


def test_what_was_handled_during_a_pause_is_received_after_it() -> None:
    parts = Parts(Pause(1, 5, 100), processing=TIME)
    for time, value in ((0, 7), (30, 8), (31, 9)):
        parts.run(time)
        parts.ask(2, "say", value)
    events = parts.run(500)
    assert words(events, "receive") == [(105, 7), (110, 8), (160, 9)]
    assert summary(events, "resume", "receive")[0] == (105, 1, "resume")


def test_without_a_record_nothing_is_logged() -> None:
    parts = Parts(processing=TIME)
    queues = ProcessingQueues(parts.calendar, 1, TIME, records=False)
    queues.stepper = parts.stepper
    queues.arrive(None, 0, Arrive((3, 1, 2, Word(7))))
    queues.finish(None, 0, Handled(1, 0))
    assert parts.heard(1) == [7]
    assert [type(each).__name__ for each in parts.log] == ["Event"], "the indication only"


# Messages in pending events.

MESSAGE: Queued = (3, 1, 2, Word(7))


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (MESSAGE, MESSAGE),
        ((5, CONTROL, 9, Arrive(MESSAGE)), MESSAGE),
        ((5, CONTROL, 9, Handled(1, 0)), None),
        ((5, CONTROL, 9, Fire(1, Bell())), None),
    ],
)
def test_the_message_of_a_pending_event_is_in_flight_or_in_flight_to_a_queue(
    event: Queued, expected: Queued | None
) -> None:
    assert message_in(event) is expected

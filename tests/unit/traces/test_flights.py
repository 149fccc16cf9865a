"""Which send belongs to which receipt, and what became of the others."""

from __future__ import annotations

from habemus.core.events import Event
from habemus.traces import Trace
from habemus.traces.flights import Flight, flights


def message(kind: str, process: int, peer: int, number: int | None = 1) -> Event:
    return Event(0, process, kind, "Ping", None, peer, number)


def test_a_message_arrives() -> None:
    assert flights([message("send", 1, 2), message("receive", 2, 1)]) == [Flight(1, 2, 0, 1)]


def test_a_message_is_lost_on_its_way_or_at_a_process_that_is_down() -> None:
    assert flights([message("send", 1, 2), message("lost", 1, 2)]) == [
        Flight(1, 2, 0, 1, is_lost=True, is_swallowed=True)
    ]
    assert flights([message("send", 1, 2), message("lost", 2, 1)]) == [
        Flight(1, 2, 0, 1, is_lost=True)
    ]


def test_the_second_of_two_copies_is_the_copy() -> None:
    events = [
        message("send", 1, 2),
        message("duplicate", 1, 2),
        message("receive", 2, 1),
        message("receive", 2, 1),
    ]
    assert flights(events) == [Flight(1, 2, 0, 2), Flight(1, 2, 0, 3, is_copy=True)]


def test_a_message_can_be_under_way_at_the_end_or_sent_before_the_beginning() -> None:
    assert flights([message("send", 1, 2)]) == [Flight(1, 2, 0)]
    assert flights([message("receive", 2, 1)]) == [Flight(1, 2, None, 0)]
    assert flights([message("receive", 2, 1, None)]) == [Flight(1, 2, None, 0)]


def test_messages_are_told_apart_by_their_numbers() -> None:
    events = [
        message("send", 1, 2, 1),
        message("send", 1, 2, 2),
        message("receive", 2, 1, 2),
        message("receive", 2, 1, 1),
    ]
    assert flights(events) == [Flight(1, 2, 0, 3), Flight(1, 2, 1, 2)]


def test_every_receipt_of_a_run_has_its_sending(story: Trace) -> None:
    events = story.events
    found = flights(events)
    assert sum(1 for flight in found if flight.ended is not None) == sum(
        1 for event in events if event.kind in ("receive", "lost")
    )
    for flight in found:
        assert flight.sent is not None
        if flight.ended is not None:
            sent, ended = events[flight.sent], events[flight.ended]
            assert (sent.number, sent.described()) == (ended.number, ended.described())
            assert flight.sent < flight.ended

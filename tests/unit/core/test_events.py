"""Values of events, as people read them and as schedules write them."""

import pytest

from habemus.algorithms.election.bully import Elect
from habemus.algorithms.mutex.elected_coordinator_participant import Grant
from habemus.algorithms.mutex.ricart_agrawala import Request
from habemus.algorithms.mutex.suzuki_kasami import Token
from habemus.core.events import Event
from habemus.core.values import Message, Value
from habemus.problems.election import Leader


class Data(Message):
    number: int
    message: Message


@pytest.mark.parametrize(
    ("value", "described", "notation"),
    [
        (Elect(()), "Elect", "Elect([])"),
        (Elect((7, 2)), "Elect([7, 2])", "Elect([7, 2])"),
        (Leader(4), "Leader(4)", "Leader(4, 0)"),
        (Leader(4, 2), "Leader(4, term=2)", "Leader(4, 2)"),
        (Leader(None, 0), "Leader(None)", "Leader(None, 0)"),
        (Request(6), "Request(6)", "Request(6)"),
        (Data(3, Request(6)), "Data(Request(6), number=3)", "Data(3, Request(6))"),
        (Token(served=((3, 1),), queue=()), "Token(served=[[3, 1]])", "Token([[3, 1]], [])"),
        (
            Grant(2, 1, 1, (2, 1), others=True),
            "Grant(term=2, number=1, attempt=1, token=2.1, others=True)",
            "Grant(2, 1, 1, [2, 1], True)",
        ),
    ],
)
def test_values_in_words(value: Value, described: str, notation: str) -> None:
    event = Event(0, 1, "send", type(value).__name__, value)
    read = event._replace(value=dict(event.fields()))
    assert (event.described(), event.notation()) == (described, notation)
    assert (read.described(), read.notation()) == (described, notation)

"""Digests, and what a trace refuses to be."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest

from habemus.core.events import Event
from habemus.core.properties import Finding, Verdict
from habemus.core.values import Message
from habemus.traces import Digest, Trace, digest
from habemus.traces.trace import CHUNK


class Ping(Message):
    round: int


def test_the_digest_is_the_hash_of_the_canonical_lines(story: Trace) -> None:
    lines = "".join(event.line() + "\n" for event in story.events)
    assert digest(story.events) == hashlib.sha256(lines.encode()).hexdigest()


def test_the_digest_of_nothing_is_that_of_an_empty_text() -> None:
    assert digest([]) == hashlib.sha256(b"").hexdigest()


@pytest.mark.parametrize("count", [1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 3])
def test_events_that_come_one_by_one_give_the_same_digest(count: int) -> None:
    ping = Ping(1)
    events = [
        Event(time, time % 3, "send", "Ping", ping if time % 5 else Ping(time), 1, time)
        for time in range(count)
    ]
    running = Digest()
    for event in events:
        running.add(event)
    lines = "".join(event.line() + "\n" for event in events)
    assert running.hexdigest() == hashlib.sha256(lines.encode()).hexdigest()


def test_a_digest_can_be_read_in_the_middle(story: Trace) -> None:
    running = Digest()
    for event in story.events[:7]:
        running.add(event)
    assert running.hexdigest() == running.hexdigest() == digest(story.events[:7])
    for event in story.events[7:]:
        running.add(event)
    assert running.hexdigest() == digest(story.events)


def test_the_digest_does_not_depend_on_vector_clocks(story: Trace) -> None:
    assert digest(story.events) == digest([event._replace(clock=None) for event in story.events])


def test_the_digest_sees_order_and_values(story: Trace) -> None:
    events = list(story.events)
    swapped = [*events[:-2], events[-1], events[-2]]
    assert digest(swapped) != digest(events)
    assert digest([events[0]._replace(time=1), *events[1:]]) != digest(events)


def test_the_same_run_gives_the_same_digest(simulated: Callable[..., Trace]) -> None:
    assert digest(simulated(3, 1, seed=5).events) == digest(simulated(3, 1, seed=5).events)
    assert digest(simulated(3, 1, seed=5).events) != digest(simulated(3, 1, seed=6).events)


@pytest.mark.parametrize(
    ("event", "complaint"),
    [
        (Event(0, 9, "start"), "event 1: 9 is not a process of the trace"),
        (
            Event(0, 1, "send", "Ping", None, 9, 1),
            "event 1: the peer 9 is not a process of the trace",
        ),
        (Event(0, 1, "explode"), "event 1: unknown kind 'explode'"),
        (
            Event(0, 1, "start", clock=(1,)),
            "event 1: the vector clock has 1 entries for 2 processes",
        ),
    ],
)
def test_an_event_that_does_not_belong_is_refused(event: Event, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Trace({}, (1, 2), {}, (event,))


def test_labels_and_findings_name_processes_of_the_trace() -> None:
    with pytest.raises(ValueError, match="a label for 3"):
        Trace({}, (1, 2), {3: "C"}, ())
    with pytest.raises(ValueError, match="twice"):
        Trace({}, (1, 1), {}, ())
    with pytest.raises(ValueError, match="ME1 names a process"):
        Trace({}, (1, 2), {}, (), (Finding("ME1", Verdict.VIOLATED, "", 0, (3,)),))


def test_a_process_without_a_label_is_called_by_its_number() -> None:
    trace = Trace({}, (1, 2), {1: "A"}, ())
    assert [trace.label(process) for process in (1, 2)] == ["A", "2"]


def test_only_violated_properties_are_violations(stories: dict[str, Trace]) -> None:
    assert [finding.name for finding in stories["violation"].violations] == ["ME1"]
    assert stories["contention"].violations == ()


def test_a_trace_is_shown_in_short() -> None:
    events = tuple(Event(time, 1, "start") for time in range(1_200))
    assert repr(Trace({}, (1, 2), {}, events)) == "<Trace: 2 processes, 1,200 events>"
    named = Trace({}, (1, 2), {}, (), title="central, 2 participants")
    assert repr(named) == "<Trace 'central, 2 participants': 2 processes, 0 events>"

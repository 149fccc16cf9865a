"""The table, and the words in it."""

from __future__ import annotations

from shlex import split
from string import Formatter

import pytest

from habemus.core.events import KINDS, Event
from habemus.core.properties import Finding, Verdict
from habemus.traces import Trace, table
from habemus.traces.words import ENGLISH, in_words, milliseconds, one_line, printable


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Event(0, 1, "request", "acquire"), "asks to enter"),
        (Event(0, 1, "indicate", "Granted"), "enters"),
        (Event(0, 1, "request", "release"), "leaves"),
        (Event(0, 1, "send", "Request", {"stamp": 6}, 2, 1), "sends Request(6) to B"),
        (Event(0, 1, "receive", "Reply", {"stamp": 7}, 2, 1), "gets Reply(7) from B"),
        (Event(0, 1, "lost", "Reply", {"stamp": 7}, 2, 1), "Reply(7) to B is lost"),
        (Event(0, 1, "crash"), "crashes"),
        (Event(0, 1, "recover"), "recovers"),
        (Event(0, 1, "recover", "", {"value": "amnesia"}), "recovers without its memory"),
        (Event(0, 1, "timer", "Retry", {"peer": 2}), "timer Retry(2) expires"),
        (Event(0, 1, "choose", "", {"value": [1, 2]}), "draws [1, 2]"),
        (Event(0, 1, "request", "elect"), "is asked to elect"),
        (Event(0, 1, "indicate", "Leader", {"process": 5}), "says Leader(5)"),
        (Event(0, 1, "cut", "", None, 2), "the link to B is cut"),
    ],
)
def test_events_in_words(event: Event, words: str) -> None:
    assert in_words(event, {1: "A", 2: "B"}.__getitem__) == words


def test_a_message_that_finds_its_receiver_down_is_told_by_the_receiver() -> None:
    event = Event(0, 2, "lost", "Reply", None, 1, 1)
    assert in_words(event, str, on_arrival=True) == "misses Reply from 1: it is down"


def test_there_are_words_for_every_kind_of_event() -> None:
    for kind in KINDS:
        assert in_words(Event(0, 1, kind, "Name", None, 2), str)


def test_a_translation_needs_only_the_same_keys() -> None:
    """Every placeholder is one that some caller fills in."""
    known = set(
        split(
            "what peer links count time sender receiver clock token processes events "
            "findings begin end shown folded"
        )
    )
    for text in ENGLISH.values():
        assert {field for _, field, _, _ in Formatter().parse(text) if field is not None} <= known
    shouted = {key: text if "{" in text else text.upper() for key, text in ENGLISH.items()}
    assert "ENTERS" in table.text(
        Trace({}, (1,), {}, (Event(0, 1, "indicate", "Granted"),)), words=shouted
    )


@pytest.mark.parametrize(
    ("time", "text"),
    [(0, "0"), (1_000, "1"), (1_500, "1.5"), (1_343, "1.343"), (20, "0.02"), (-1_500, "-1.5")],
)
def test_microseconds_as_milliseconds(time: int, text: str) -> None:
    assert milliseconds(time) == text


def test_a_finding_as_a_sentence() -> None:
    assert (
        one_line(Finding("ME1", Verdict.VIOLATED, "two\n inside", 12_500))
        == "ME1 violated at 12.5 ms: two inside"
    )
    assert (
        one_line(Finding("ME1", Verdict.VIOLATED, "at 12.5 ms B entered", 12_500))
        == "ME1 violated: at 12.5 ms B entered"
    )
    assert one_line(Finding("ME3", Verdict.UNDECIDED, "")) == "ME3 undecided"


def test_the_table_says_who_is_inside(stories: dict[str, Trace]) -> None:
    rows = table.rows(stories["violation"])
    assert rows[3] == table.EventRow("0.500", "A", "asks to enter", "")
    assert table.EventRow("12.500", "B", "enters", "A, B") in rows
    assert [row.inside for row in rows if row.what == "leaves"] == ["B", ""]


def test_links_that_change_together_are_one_row(stories: dict[str, Trace]) -> None:
    rows = table.rows(stories["faults"])
    assert [(row.process, row.what) for row in rows if row.time == "5.000"] == [
        ("network", "cut 1 2 | 3 4 5")
    ]
    assert table.EventRow("4.000", "2", "misses Heartbeat(1) from 1: it is down", "") in rows


def test_the_component_is_named(stories: dict[str, Trace]) -> None:
    assert "sends Ack(1) to 1 [links]" in [row.what for row in table.rows(stories["links"])]


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_no_line_is_longer_than_the_terminal(story: Trace, width: int) -> None:
    lines = table.text(story, width).splitlines()
    assert max(map(len, lines)) <= width
    assert all(line == line.rstrip() for line in lines)


def test_the_text_has_all_rows_and_findings(stories: dict[str, Trace]) -> None:
    text = table.text(stories["contention"])
    assert all(row.what in text and row.time in text for row in table.rows(stories["contention"]))
    assert "ME3 undecided: no two requests were ordered" in text


def test_there_is_no_column_for_who_is_inside_where_nobody_ever_is(
    stories: dict[str, Trace],
) -> None:
    assert "inside" in table.text(stories["contention"])
    assert "inside" not in table.text(stories["election"])


def test_nothing_in_a_trace_can_command_the_terminal() -> None:
    hostile = Trace({}, (1,), {1: "\x1b[2Jx\ud800"}, (Event(0, 1, "indicate", "A\nB\x07\u202e"),))
    text = table.text(hostile)
    assert text.replace("\n", "").isprintable()
    assert len(text.splitlines()) == 3
    assert printable("a\x1b b\n c") == "a\ufffd b c"


def test_a_trace_without_events_is_an_empty_table() -> None:
    assert table.rows(Trace({}, (), {}, ())) == []
    assert table.text(Trace({}, (), {}, ())).count("\n") == 2

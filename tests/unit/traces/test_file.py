"""The trace file: what is written is read, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from habemus.core.events import KINDS, Event
from habemus.core.properties import Finding, Verdict
from habemus.traces import Trace, digest
from habemus.traces import file as trace_file
from habemus.traces.file import LONGEST_LINE, MalformedTrace, parsed, read, write, written


def from_text(text: str) -> Trace:
    return parsed(text.encode().splitlines(keepends=True))


def as_text(trace: Trace) -> str:
    return "".join(line + "\n" for line in written(trace))


def plain(event: Event) -> Event:
    """The event as it comes from a file: its fields instead of its value."""
    return event._replace(value=dict(event.fields()) or None)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(st.text(), json_values, max_size=3)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    processes = tuple(draw(st.lists(st.integers(), min_size=1, max_size=4, unique=True)))
    some = st.sampled_from(processes)
    clock = st.none() | st.tuples(*[st.integers(min_value=0)] * len(processes))
    events = st.builds(
        Event,
        st.integers(),
        some,
        st.sampled_from(KINDS),
        st.text(max_size=8),
        st.none() | objects.map(lambda fields: fields or None),
        st.none() | some,
        st.none() | st.integers(),
        st.sampled_from(["", ".links", ".election.detector"]),
        clock,
    )
    findings = st.builds(
        Finding,
        st.text(),
        st.sampled_from(Verdict),
        st.text(),
        st.none() | st.integers(),
        st.lists(some, max_size=3).map(tuple),
    )
    return Trace(
        draw(objects),
        processes,
        draw(st.dictionaries(some, st.text())),
        tuple(draw(st.lists(events, max_size=6))),
        tuple(draw(st.lists(findings, max_size=3))),
        draw(st.text()),
    )


@given(traces())
def test_what_is_written_is_read(trace: Trace) -> None:
    again = from_text(as_text(trace))
    assert again == trace
    assert digest(again.events) == digest(trace.events)
    assert as_text(again) == as_text(trace)


def test_a_run_survives_the_file(story: Trace, tmp_path: Path) -> None:
    write(story, tmp_path / "run.json")
    again = read(tmp_path / "run.json")
    assert again.events == tuple(map(plain, story.events))
    assert digest(again.events) == digest(story.events)
    assert again == Trace(
        story.run, story.processes, story.labels, again.events, story.findings, story.title
    )


def test_the_lines_are_those_of_the_format(stories: dict[str, Trace]) -> None:
    first, *events, last = as_text(stories["violation"]).splitlines()
    assert list(json.loads(first)) == ["habemus", "title", "run", "processes", "labels"]
    assert list(json.loads(last)) == ["digest", "events", "findings"]
    assert events[3] == '{"t":500,"p":1,"e":"request","name":"acquire","vc":[0,2,0]}'
    assert json.loads(last)["events"] == len(events) == len(stories["violation"].events)
    assert json.loads(last)["findings"][0]["verdict"] == "violated"


def test_the_file_is_ascii_with_plain_line_ends(tmp_path: Path) -> None:
    write(Trace({"grüße": 1}, (1,), {1: "日本"}, (), title="ç"), tmp_path / "run.json")
    assert b"\r" not in (tmp_path / "run.json").read_bytes()
    assert (tmp_path / "run.json").read_bytes().isascii()


def test_line_ends_of_windows_are_read(stories: dict[str, Trace]) -> None:
    assert from_text(as_text(stories["violation"]).replace("\n", "\r\n")) == from_text(
        as_text(stories["violation"])
    )


HEADER = '{"habemus":1,"title":"","run":{},"processes":[1,2],"labels":{}}'
START = '{"t":0,"p":1,"e":"start"}'


def footer(*events: str, **changed: Any) -> str:
    found = digest([Event(0, 1, "start")] * len(events))
    return json.dumps(
        {"digest": found, "events": len(events), "findings": [], **changed}, separators=(",", ":")
    )


def whole(event: str) -> str:
    """A file of which everything but the event is right; what is wrong with the event comes out
    first.
    """
    return "\n".join([HEADER, event, footer(event)]) + "\n"


def test_the_file_of_these_tests_is_right() -> None:
    assert from_text(whole(START)).events == (Event(0, 1, "start"),)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "line 1: the file is empty"),
        ("hello\n", "line 1: not JSON"),
        ("[1]\n", "line 1: expected a JSON object, found [1]"),
        ('{"title":"x"}\n', "line 1: the header has no 'habemus'"),
        (
            HEADER.replace(":1,", ":2,", 1),
            "line 1: the format is version 2; this program reads version 1",
        ),
        (
            HEADER.replace(":1,", ":true,", 1),
            "line 1: 'habemus' of the header must be an integer, found True",
        ),
        (HEADER.replace("{}}", '{},"more":0}'), "line 1: the header has an unknown key 'more'"),
        (
            HEADER.replace("[1,2]", '[1,"2"]'),
            "line 1: 'processes' of the header must be a list of integers, found [1, '2']",
        ),
        (HEADER.replace("[1,2]", "[1,1]"), "line 1: a process occurs twice among the processes"),
        (
            HEADER.replace('"labels":{}', '"labels":{"3":"C"}'),
            "line 1: a label for '3', which is not a process of the trace",
        ),
        (
            HEADER.replace('"labels":{}', '"labels":{"1":7}'),
            "line 1: the label of 1 must be a string, found 7",
        ),
        (HEADER + "\n", "line 2: the footer is missing; the file was cut short"),
        (
            "\n".join([HEADER, START, START]) + "\n",
            "line 4: the footer is missing; the file was cut short",
        ),
        ("\n".join([HEADER, START, START[:9]]), "line 3: not JSON"),
        ("\n".join([HEADER, "", footer()]), "line 2: not JSON"),
        (
            whole('{"t":0,"p":1,"e":"explode"}'),
            "line 2: unknown kind 'explode'; the kinds are start, ",
        ),
        (whole('{"t":0,"p":1}'), "line 2: the event has no 'e'"),
        (whole('{"t":0,"p":1,"e":"start","x":1}'), "line 2: the event has an unknown key 'x'"),
        (
            whole('{"t":"0","p":1,"e":"start"}'),
            "line 2: 't' of the event must be an integer, found '0'",
        ),
        (
            whole('{"t":true,"p":1,"e":"start"}'),
            "line 2: 't' of the event must be an integer, found True",
        ),
        (
            whole('{"t":0.0,"p":1,"e":"start"}'),
            "line 2: 't' of the event must be an integer, found 0.0",
        ),
        (whole('{"t":0,"p":3,"e":"start"}'), "line 2: 3 is not a process of the trace"),
        (
            whole('{"t":0,"p":1,"e":"start","peer":3}'),
            "line 2: the peer 3 is not a process of the trace",
        ),
        (
            whole('{"t":0,"p":1,"e":"start","v":[]}'),
            "line 2: 'v' of the event must be an object, found []",
        ),
        (
            whole('{"t":0,"p":1,"e":"start","vc":[1]}'),
            "line 2: the vector clock has 1 entries for 2 processes",
        ),
        (
            whole('{"t":0,"p":1,"e":"start","vc":[1,null]}'),
            "line 2: 'vc' of the event must be a list of integers, found [1, None]",
        ),
        (whole('{"t":0,"t":0,"p":1,"e":"start"}'), "line 2: not written as this format writes it"),
        (whole('{"p":1,"t":0,"e":"start"}'), "line 2: not written as this format writes it"),
        (whole('{"t": 0,"p":1,"e":"start"}'), "line 2: not written as this format writes it"),
        (
            whole('{"t":0,"p":1,"e":"start","name":""}'),
            "line 2: not written as this format writes it",
        ),
        (whole('{"t":NaN,"p":1,"e":"start"}'), "line 2: not JSON (NaN is not JSON)"),
        (
            whole('{"t":0,"p":1,"e":"start","v":{"a":' + "[" * 40 + "]" * 40 + "}}"),
            "line 2: nested too deeply",
        ),
        (whole('{"t":' + "[" * 100_000 + "]" * 100_000 + "}"), "line 2: nested too deeply"),
        (whole('{"t":' + "9" * 5_000 + "}"), "line 2: not JSON"),
        (
            "\n".join([HEADER, START, footer(START, events=2)]),
            "line 3: the footer counts 2 events, and the file has 1",
        ),
        (
            "\n".join([HEADER, START, footer(START, digest="0")]),
            "line 3: the digest does not fit the events; the file was changed",
        ),
        (
            "\n".join([HEADER, START.replace("0", "1"), footer(START)]),
            "line 3: the digest does not fit the events; the file was changed",
        ),
        (
            "\n".join([HEADER, START, '{"digest":"","events":1}']),
            "line 3: the footer has no 'findings'",
        ),
        (
            "\n".join([HEADER, START, footer(START, more=1)]),
            "line 3: the footer has an unknown key 'more'",
        ),
        (
            "\n".join([HEADER, START, footer(START, findings=[1])]),
            "line 3: a finding must be an object, found 1",
        ),
        (
            "\n".join([HEADER, START, footer(START, findings=[{"name": "ME1"}])]),
            "line 3: a finding has no 'verdict'",
        ),
        (
            "\n".join([HEADER, START, footer(START), START]),
            "line 4: the footer must be the last line",
        ),
        (
            "\n".join([HEADER + " ", START, footer(START)]),
            "line 1: not written as this format writes it",
        ),
        (
            "\n".join([HEADER, START, footer(START).replace(":[", ": [")]),
            "line 3: not written as this format writes it",
        ),
    ],
)
def test_a_malformed_file_is_refused_with_one_line(text: str, complaint: str) -> None:
    with pytest.raises(MalformedTrace) as raised:
        from_text(text)
    assert str(raised.value).startswith(complaint)
    assert len(str(raised.value).splitlines()) == 1
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    ("finding", "complaint"),
    [
        (
            {"verdict": "perhaps"},
            "a verdict is holds, with probability one, violated, undecided, not 'perhaps'",
        ),
        ({"processes": [7]}, "a finding names 7, which is not a process of the trace"),
        ({"time": "now"}, "'time' of a finding must be an integer or null, found 'now'"),
        ({"why": None}, "'why' of a finding must be a string, found None"),
    ],
)
def test_a_malformed_finding_is_refused(finding: dict[str, Any], complaint: str) -> None:
    right = {"name": "ME1", "verdict": "holds", "why": "", "time": None, "processes": [1]}
    assert from_text("\n".join([HEADER, START, footer(START, findings=[right])])).findings == (
        Finding("ME1", Verdict.HOLDS, "", None, (1,)),
    )
    with pytest.raises(MalformedTrace) as raised:
        from_text("\n".join([HEADER, START, footer(START, findings=[{**right, **finding}])]))
    assert str(raised.value) == f"line 3: {complaint}"


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(MalformedTrace, match="line 1: not text in UTF-8"):
        parsed([b'{"habemus":"\xff"}\n'])


def test_a_file_without_its_last_bytes_is_refused(stories: dict[str, Trace]) -> None:
    """Wherever it is cut, except that the very last line end may be missing."""
    raw = as_text(stories["links"]).encode()
    for length in {*range(0, len(raw) - 1, 7), *range(len(raw) - 80, len(raw) - 1)}:
        with pytest.raises(MalformedTrace):
            parsed(raw[:length].splitlines(keepends=True))


def test_a_changed_digit_is_found(stories: dict[str, Trace]) -> None:
    text = as_text(stories["links"])
    begin = text.index("\n") + 1
    for position in range(begin, text.rindex("\n", 0, -1), 13):
        if text[position].isdigit():
            digit = "1" if text[position] != "1" else "2"
            changed = text[:position] + digit + text[position + 1 :]
            inside_clock = text.rfind('"vc"', 0, position) > text.rfind("\n", 0, position)
            if not inside_clock:  # clocks follow from the rest, and the digest does not cover them
                with pytest.raises(MalformedTrace):
                    from_text(changed)


def test_a_line_that_is_too_long_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    path.write_bytes(b'{"habemus":"' + b"x" * (LONGEST_LINE + 10) + b'"}\n')
    with pytest.raises(MalformedTrace, match=f"line 1: longer than {LONGEST_LINE} bytes"):
        read(path)
    with pytest.raises(ValueError, match="a line of a trace file has"):
        write(Trace({"text": "x" * LONGEST_LINE}, (1,), {}, ()), path)


def test_more_events_than_allowed_are_refused(
    monkeypatch: pytest.MonkeyPatch, stories: dict[str, Trace]
) -> None:
    text = as_text(stories["links"])
    monkeypatch.setattr(trace_file, "MOST_EVENTS", 5)
    with pytest.raises(MalformedTrace, match="line 7: more than 5 events"):
        from_text(text)
    with pytest.raises(ValueError, match="holds 5 events at most"):
        as_text(stories["links"])


@pytest.mark.parametrize("run", [{"a": (1, 2)}, {1: "one"}, {"a": {1}}, {"a": float("nan")}])
def test_only_plain_json_identifies_a_run(run: dict[Any, Any]) -> None:
    """What would come back as something else is refused when it is written."""
    with pytest.raises(ValueError, match=r"plain JSON|is not JSON"):
        as_text(Trace(run, (1,), {}, ()))


def test_a_long_run_survives_the_file(simulated: Callable[..., Trace], tmp_path: Path) -> None:
    trace = simulated(6, 3)
    write(trace, tmp_path / "run.jsonl")
    assert digest(read(tmp_path / "run.jsonl").events) == digest(trace.events)

"""Mermaid: a diagram that its parser takes, whatever the names are."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from habemus.core.events import Event
from habemus.core.properties import Finding, Verdict
from habemus.traces import Trace
from habemus.traces.flights import flights
from habemus.traces.mermaid import markdown, mermaid

TEXT = r"(?:[\w .,()/+=*'!?|\[\]-]|#\d+;)+"
LINES = [
    re.compile(rf"participant [pm]\d+ as {TEXT}"),
    re.compile(rf"([pm]\d+)(->>|-->>|-x|--x|--\))([pm]\d+): {TEXT}"),
    re.compile(rf"Note over [pm]\d+(,[pm]\d+)?: {TEXT}"),
    re.compile(r"(activate|deactivate) [pm]\d+"),
    re.compile(r"rect rgb\(\d+, \d+, \d+\)"),
    re.compile(r"end"),
]


def check(diagram: str) -> list[str]:
    """Holds a diagram to what Mermaid's grammar demands of the parts in use; gives its lines."""
    first, *lines = diagram.splitlines()
    assert first == "sequenceDiagram"
    active: dict[str, int] = {}
    red = False
    for line in (each.strip() for each in lines):
        assert any(rule.fullmatch(line) for rule in LINES), line
        if line.startswith("activate"):
            active[line[9:]] = active.get(line[9:], 0) + 1
        elif line.startswith("deactivate"):
            assert active[line[11:]] > 0, "Mermaid refuses to end what has not begun"
            active[line[11:]] -= 1
        elif line.startswith("rect"):
            assert not red
            red = True
        elif line == "end":
            assert red
            red = False
    assert not red
    assert not any(active.values())
    return [line.strip() for line in lines]


def test_the_diagram_is_what_mermaid_takes(story: Trace) -> None:
    lines = check(mermaid(story))
    assert sum(bool(LINES[1].fullmatch(line)) for line in lines) == len(flights(story.events))


def test_a_violation_stands_on_red(stories: dict[str, Trace]) -> None:
    lines = check(mermaid(stories["violation"]))
    begin, end = lines.index("rect rgb(253, 227, 225)"), lines.index("end")
    assert lines[begin + 1 : end] == [
        "Note over p0,p2: ME1",
        "Note over p2: enters",
        "activate p2",
        "Note over p1: goes on",
        "Note over p1: leaves",
        "deactivate p1",
    ]
    assert "rect" not in mermaid(stories["contention"])


def test_violations_that_overlap_share_their_ground(stories: dict[str, Trace]) -> None:
    trace = stories["violation"]
    more = Finding("FENCE", Verdict.VIOLATED, "", 13_200, (1,))
    lines = check(
        mermaid(
            replace(trace, findings=(*trace.findings, more, more._replace(name="ME3", time=16_500)))
        )
    )
    assert [line for line in lines if "ME1" in line or "ME3" in line] == [
        "Note over p0,p2: ME1, FENCE",
        "Note over p0,p2: ME3",
    ]


def test_lost_and_repeated_messages(stories: dict[str, Trace]) -> None:
    lines = check(mermaid(stories["links"]))
    assert lines.count("p1-xp2: Data(Request(6), number=1)") == 1
    assert lines.count("p1->>p3: Data(Request(6), number=1)") == 1
    assert lines.count("p1-->>p3: Data(Request(6), number=1) (second copy)") == 1
    assert lines[-1] == "p2--)p1: Ack(1) (under way)"


def test_faults_are_notes(stories: dict[str, Trace]) -> None:
    lines = check(mermaid(stories["faults"]))
    assert {
        "Note over p2: crashes",
        "Note over p1,p5: cut 1 2 | 3 4 5",
        "Note over p2: recovers without its memory",
    } <= set(lines)
    assert "p1-xp2: Heartbeat(1)" in lines


@pytest.mark.parametrize(
    "hostile",
    [
        "end",
        "END",
        "a;b",
        "#1;",
        "x: y",
        "%% comment",
        "<br/>",
        "a\nb",
        "loop\nend",
        "{init}",
        "->>",
        "ç 日本",
        "\x00\ud800",
    ],
)
def test_names_do_not_break_the_diagram(hostile: str) -> None:
    events = (
        Event(0, 1, "start"),
        Event(1, 1, "send", hostile, {"x": hostile}, 2, 1),
        Event(2, 2, "receive", hostile, {"x": hostile}, 1, 1),
        Event(3, 2, "indicate", hostile),
    )
    trace = Trace(
        {},
        (1, 2),
        {1: hostile, 2: "B"},
        events,
        (Finding(hostile, Verdict.VIOLATED, hostile, 3, (1,)),),
        hostile,
    )
    lines = check(mermaid(trace))
    assert not any(re.search(r"\bend\b", line, re.IGNORECASE) for line in lines if line != "end")
    page = markdown(trace)
    page.encode()
    assert page.count("```") == 2
    assert page.startswith("# ")


def test_whoever_is_inside_at_the_end_is_led_out() -> None:
    """An older Mermaid draws nothing of a stay that does not end."""
    lines = check(
        mermaid(Trace({}, (1,), {}, (Event(0, 1, "indicate", "Granted"), Event(1, 1, "pause"))))
    )
    assert lines[1:] == [
        "Note over p1: enters",
        "activate p1",
        "Note over p1: pauses",
        "deactivate p1",
    ]


def test_an_empty_label_is_replaced() -> None:
    assert "participant p1 as p1" in mermaid(Trace({}, (1,), {1: ""}, ()))


def test_the_page_has_title_diagram_and_findings(stories: dict[str, Trace]) -> None:
    trace = stories["violation"]
    page = markdown(trace)
    assert page.startswith(f"# {trace.title}\n\n```mermaid\nsequenceDiagram\n")
    assert "\n```\n\n- ME1 violated at 12.5 ms: coordinator \\<1\\> let B in" in page
    assert mermaid(trace) in page


def test_a_diagram_that_mermaid_would_refuse_leaves_events_out() -> None:
    events = tuple(Event(time, 1, "request", f"ask-{time}") for time in range(2_000))
    diagram = mermaid(Trace({}, (1,), {}, events))
    assert len(diagram) < 50_000
    assert check(diagram)
    assert "ask-0" in diagram and "ask-1999" in diagram and "ask-1000" not in diagram
    assert "events left out, from" in diagram


def test_what_repeats_is_folded() -> None:
    events = tuple(Event(time, 1, "timer", "Tick") for time in range(1_400))
    assert mermaid(Trace({}, (1,), {}, events)).count("Tick") == 1
    assert "timer Tick expires #215;1400" in mermaid(Trace({}, (1,), {}, events))


def test_a_trace_without_events_is_a_diagram_without_lines() -> None:
    assert check(mermaid(Trace({}, (), {}, ()))) == []

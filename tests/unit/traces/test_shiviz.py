"""ShiViz: its expression finds every entry, and the clocks are as it demands."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from shlex import split

import pytest

from habemus.core.events import Event
from habemus.traces import Trace
from habemus.traces.shiviz import NoClocks, shiviz

CLOCKED = set(split("start recover crash pause resume request indicate send receive timer choose"))


def entries(log: str) -> list[tuple[str, str, dict[str, int]]]:
    """Takes a log apart as ShiViz does: the first line is the expression, the second separates
    runs, the rest is matched.
    """
    expression, separator, rest = log.split("\n", 2)
    assert separator == ""
    python = expression.replace("(?<", "(?P<")
    found = list(re.finditer(python, rest))
    assert "".join(match[0] + "\n" for match in found) == rest, "something in the log is no entry"
    return [(match["event"], match["host"], json.loads(match["clock"])) for match in found]


def test_the_expression_names_the_groups() -> None:
    expression = shiviz(Trace({}, (1,), {}, ())).splitlines()[0]
    assert set(re.compile(expression.replace("(?<", "(?P<")).groupindex) == {
        "event",
        "host",
        "clock",
    }


def test_every_host_counts_its_own_events_from_one(story: Trace) -> None:
    counts: dict[str, int] = {}
    for _, host, clock in entries(shiviz(story)):
        counts[host] = counts.get(host, 0) + 1
        assert clock[host] == counts[host]
        assert all(count > 0 for count in clock.values())
    assert sum(counts.values()) == sum(1 for event in story.events if event.kind in CLOCKED)
    assert len(counts) == len(story.processes)


def test_a_clock_points_only_at_events_that_exist_already(story: Trace) -> None:
    seen: dict[str, int] = {}
    for _, host, clock in entries(shiviz(story)):
        seen[host] = clock[host]
        assert all(count <= seen.get(other, 0) for other, count in clock.items())


def test_a_receipt_knows_its_sending(story: Trace) -> None:
    known: dict[str, dict[str, int]] = {}
    for event, host, clock in entries(shiviz(story)):
        before = known.get(host, {})
        assert all(clock.get(other, 0) >= count for other, count in before.items())
        grown = {other for other, count in clock.items() if count > before.get(other, 0)} - {host}
        assert not grown or event.startswith("gets ")
        known[host] = clock


def test_hosts_have_names_without_spaces_and_no_name_twice() -> None:
    events = tuple(
        Event(0, process, "start", clock=tuple(int(process == other) for other in range(1, 6)))
        for process in range(1, 6)
    )
    trace = Trace(
        {},
        tuple(range(1, 6)),
        {1: "print server", 2: "print_server", 3: "", 4: "ç{}", 5: "a b\nc"},
        events,
    )
    hosts = [host for _, host, _ in entries(shiviz(trace))]
    assert hosts == ["print_server_1", "print_server_2", "process_3", "process_4", "a_b_c"]


def test_words_cannot_break_an_entry() -> None:
    event = Event(0, 1, "indicate", 'x\ny {"1":7}', clock=(1,))
    [(told, host, clock)] = entries(shiviz(Trace({}, (1,), {}, (event,))))
    assert (told, host, clock) == ('says x y {"1":7} (0 ms)', "1", {"1": 1})


def test_a_trace_without_clocks_is_refused(stories: dict[str, Trace]) -> None:
    trace = stories["simulated"]
    bare = replace(trace, events=tuple(event._replace(clock=None) for event in trace.events))
    with pytest.raises(NoClocks, match="event 1 has no vector clock"):
        shiviz(bare)


def test_a_trace_that_begins_in_the_middle_is_refused(stories: dict[str, Trace]) -> None:
    trace = stories["simulated"]
    with pytest.raises(NoClocks, match=r"event 3 is the 1\. of 1 and has 2 in its own clock"):
        shiviz(replace(trace, events=trace.events[1:]))

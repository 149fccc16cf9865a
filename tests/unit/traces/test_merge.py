"""Records of nodes joined to one trace: by cause and effect, with the crashes that nobody wrote
down.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.causality import happened_before

from habemus.traces.file import MalformedTrace
from habemus.traces.merge import CannotMerge, NodeRecord, merge, read_record
from habemus.traces.shiviz import shiviz

RUN = {"live": True, "algorithm": "ricart-agrawala", "n": 2}


def line(time: int, process: int, kind: str, on: str = "locks/a", **more: Any) -> dict[str, Any]:
    return {"on": on, "t": time, "p": process, "e": kind, **more}


def record(
    folder: Path,
    node: int,
    life: int,
    *lines: dict[str, Any],
    end: int | None = None,
    tail: str = "",
    **header: Any,
) -> NodeRecord:
    service = {"run": RUN, "processes": [1, 2], "labels": {"2": "B"}, "here": [node]}
    first = {
        "habemus_record": 1,
        "cluster": "office",
        "node": node,
        "life": life,
        "services": {"locks": service},
        **header,
    }
    path = folder / f"node-{node}-{life}.jsonl"
    every = [first, *lines, *([{"end": end}] if end is not None else [])]
    path.write_text("".join(json.dumps(each) + "\n" for each in every) + tail)
    return read_record(path)


def message(number: int, peer: int) -> dict[str, Any]:
    return {"peer": peer, "id": number, "name": "Reply", "v": {"stamp": 1}}


def test_a_message_is_received_after_it_was_sent_whatever_the_clocks_say(tmp_path: Path) -> None:
    one = record(
        tmp_path, 1, 1, line(5_000, 1, "start"), line(6_000, 1, "send", **message(7, 2)), end=9_000
    )
    two = record(
        tmp_path, 2, 1, line(100, 2, "start"), line(200, 2, "receive", **message(7, 1)), end=9_000
    )
    trace = merge([one, two])
    assert [(event.process, event.kind) for event in trace.events] == [
        (2, "start"),
        (1, "start"),
        (1, "send"),
        (2, "receive"),
    ]
    assert [event.time for event in trace.events] == [0, 4_900, 5_900, 5_900]
    assert [event.number for event in trace.events] == [None, None, 1, 1]
    assert trace.events[-1].clock == (2, 2)
    assert happened_before(trace.events[2].clock or (), trace.events[3].clock or ())
    assert trace.run == {**RUN, "until": "8900us"}
    assert trace.label(2) == "B"
    assert shiviz(trace)


def test_numbers_are_those_of_the_senders_node(tmp_path: Path) -> None:
    one = record(
        tmp_path,
        1,
        1,
        line(10, 1, "send", **message(1, 2)),
        line(40, 1, "receive", **message(1, 2)),
        end=50,
    )
    two = record(
        tmp_path,
        2,
        1,
        line(20, 2, "send", **message(1, 1)),
        line(30, 2, "receive", **message(1, 1)),
        end=50,
    )
    trace = merge([one, two])
    assert [(event.process, event.kind, event.number) for event in trace.events] == [
        (1, "send", 1),
        (2, "send", 2),
        (2, "receive", 1),
        (1, "receive", 2),
    ]


def test_a_killed_node_crashes_when_it_last_wrote_and_comes_back(tmp_path: Path) -> None:
    first = record(
        tmp_path,
        1,
        1,
        line(10, 1, "start"),
        line(20, 1, "timer", name="T"),
        line(35, 1, "timer", "locks/b", name="T"),
    )
    again = record(tmp_path, 1, 2, line(50, 1, "recover", v={"stored": [1]}), end=90)
    other = record(tmp_path, 2, 1, line(11, 2, "start"), line(70, 2, "timer", name="T"), end=91)
    trace = merge([again, other, first], "locks/a")
    told = [(event.time, event.process, event.kind) for event in trace.events]
    assert told == [
        (0, 1, "start"),
        (1, 2, "start"),
        (10, 1, "timer"),
        (25, 1, "crash"),
        (40, 1, "recover"),
        (60, 2, "timer"),
    ]
    assert trace.events[4].fields() == {"stored": [1]}


def test_a_process_without_stable_memory_comes_back_without_its_memory(tmp_path: Path) -> None:
    first = record(tmp_path, 1, 1, line(10, 1, "start"), end=20)
    again = record(tmp_path, 1, 2, line(50, 1, "start"), end=90)
    trace = merge([first, again])
    told = [(event.kind, event.fields().get("value")) for event in trace.events]
    assert told == [("start", None), ("crash", None), ("recover", "amnesia")]


def test_one_that_never_came_back_has_crashed(tmp_path: Path) -> None:
    one = record(tmp_path, 1, 1, line(10, 1, "start"), tail='{"on":"locks/a","t":')
    two = record(tmp_path, 2, 1, line(11, 2, "start"), line(80, 2, "timer", name="T"), end=90)
    assert [(event.process, event.kind) for event in merge([one, two]).events] == [
        (1, "start"),
        (1, "crash"),
        (2, "start"),
        (2, "timer"),
    ]


def test_the_run_ends_when_the_first_leaves(tmp_path: Path) -> None:
    one = record(tmp_path, 1, 1, line(10, 1, "start"), end=50)
    two = record(tmp_path, 2, 1, line(11, 2, "start"), line(80, 2, "timer", name="T"), end=90)
    trace = merge([one, two])
    assert [event.kind for event in trace.events] == ["start", "start"]
    assert trace.run["until"] == "40us"


def test_what_does_not_belong_together_is_refused(tmp_path: Path) -> None:
    one = record(tmp_path, 1, 1, line(10, 1, "start"), line(12, 1, "start", "locks/b"), end=50)
    with pytest.raises(CannotMerge, match="say which instance: which of locks/a, locks/b"):
        merge([one])
    with pytest.raises(CannotMerge, match="there is no locks/c in these records"):
        merge([one], "locks/c")
    with pytest.raises(CannotMerge, match="both life 1 of node 1"):
        merge([one, one])
    with pytest.raises(CannotMerge, match="is of the cluster home"):
        merge([one, record(tmp_path, 2, 1, cluster="home")])
    with pytest.raises(CannotMerge, match="no record to merge"):
        merge([])
    two = record(tmp_path, 2, 1, line(30, 2, "receive", **message(9, 1)), end=50)
    with pytest.raises(
        CannotMerge, match="process 2 received Reply from 1, and no record has its sending"
    ):
        merge([one, two], "locks/a")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "line 1"),
        ("{}\n", "line 1: not a record"),
        ('{"habemus_record":1}\n', "line 1: the header of the record is not complete"),
        ("noise\n", "line 1"),
    ],
)
def test_what_is_no_record(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "x.jsonl").write_text(text)
    with pytest.raises(MalformedTrace, match=told):
        read_record(tmp_path / "x.jsonl")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"t": 1, "p": 1, "e": "start"}, "line 2: the event belongs to no service"),
        (line(1, 1, "begin"), "unknown kind 'begin'"),
        (line(1, 2, "start"), "process 2 does not live here"),
        (line(1, 9, "start"), "9 is not a process"),
        (line(1, 1, "start", extra=1), "unknown key 'extra'"),
    ],
)
def test_what_is_no_event(tmp_path: Path, wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(MalformedTrace, match=told):
        record(tmp_path, 1, 1, wrong)


def test_what_was_sent_again_to_a_node_that_had_restarted_is_received_twice(tmp_path: Path) -> None:
    one = record(tmp_path, 1, 1, line(10, 1, "send", **message(7, 2)), end=90)
    two = record(tmp_path, 2, 1, line(20, 2, "receive", **message(7, 1)))
    again = record(
        tmp_path, 2, 2, line(50, 2, "start"), line(60, 2, "receive", **message(7, 1)), end=90
    )
    trace = merge([one, two, again])
    told = [(event.process, event.kind, event.number) for event in trace.events]
    assert told[:3] == [(1, "send", 1), (1, "duplicate", 1), (2, "receive", 1)]
    assert told[-1] == (2, "receive", 1)
    assert [kind for _, kind, _ in told].count("receive") == 2

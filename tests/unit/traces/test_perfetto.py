"""The JSON trace event format: every event is a slice, and flows join existing slices."""

from __future__ import annotations

import json
from pathlib import Path

from habemus.runs.setup import Setup
from habemus.runs.simulate import execute
from habemus.traces.export import save
from habemus.traces.perfetto import perfetto


def test_events_are_slices_and_messages_are_flows(tmp_path: Path) -> None:
    setup = Setup("central", 2, faults=(("pause", "1@2ms+3ms"),), loss="20%", duplicate="30%")
    trace = execute(setup).trace
    assert trace is not None
    found = json.loads(perfetto(trace))["traceEvents"]
    slices = [each for each in found if each["ph"] == "X"]
    of_events = {each["args"]["event"]: each for each in slices if "args" in each}
    assert sorted(of_events) == list(range(len(trace.events)))
    assert {each["name"] for each in found if each["ph"] == "M" and each["tid"] == 1} >= {
        "thread_name"
    }
    assert {each["cat"] for each in slices} >= {"paused", "send", "receive"}
    places = {(each["tid"], each["ts"]) for each in of_events.values()}
    starts = {each["id"]: each for each in found if each["ph"] == "s"}
    ends = {each["id"]: each for each in found if each["ph"] == "f"}
    assert starts and starts.keys() == ends.keys()
    for number, end in ends.items():
        start = starts[number]
        assert start["ts"] <= end["ts"] and start["name"] == end["name"]
        assert {(start["tid"], start["ts"]), (end["tid"], end["ts"])} <= places
    for name in ("run.perfetto", "run.perfetto.json"):
        save(trace, tmp_path / name)
        assert json.loads((tmp_path / name).read_text())["traceEvents"] == found

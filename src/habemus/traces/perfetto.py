"""The trace in the JSON trace event format, which Perfetto and chrome://tracing open.

A process is a track with slices: waiting, inside, down and paused for a while, and one of a
microsecond for each event.  Messages are flows between these.  Times of a counterexample count
steps of a millisecond.
"""

from __future__ import annotations

import json
from typing import Any

from habemus.core.process import ProcessId
from habemus.traces.flights import flights
from habemus.traces.periods import periods
from habemus.traces.trace import Trace
from habemus.traces.words import ENGLISH, Words, in_words

RUN = 1
"""The `pid` of the whole run, whose threads are the processes."""


def perfetto(trace: Trace, words: Words = ENGLISH) -> str:
    """Return the trace as JSON."""
    tracks = {process: number for number, process in enumerate(trace.processes, start=1)}
    found = [
        _of_run("process_name", {"name": trace.title or "habemus"}, 0),
        *_names(trace, tracks),
        *_periods(trace, tracks),
        *_events(trace, tracks, words),
        *_flights(trace, tracks),
    ]
    return json.dumps({"traceEvents": found, "displayTimeUnit": "ms"}, separators=(",", ":"))


def _of_run(name: str, arguments: dict[str, Any], track: int) -> dict[str, Any]:
    return {"ph": "M", "pid": RUN, "tid": track, "name": name, "args": arguments}


def _names(trace: Trace, tracks: dict[ProcessId, int]) -> list[dict[str, Any]]:
    found = []
    for process, track in tracks.items():
        found.append(_of_run("thread_name", {"name": trace.label(process)}, track))
        found.append(_of_run("thread_sort_index", {"sort_index": track}, track))
    return found


def _slice(track: int, name: str, kind: str, begin: int, duration: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "pid": RUN,
        "tid": track,
        "name": name,
        "cat": kind,
        "ts": begin,
        "dur": duration,
    }


def _periods(trace: Trace, tracks: dict[ProcessId, int]) -> list[dict[str, Any]]:
    events = trace.events
    end = events[-1].time if events else 0
    found = []
    for period in periods(events):
        begin = events[period.first].time
        last = end if period.last is None else events[period.last].time
        found.append(
            _slice(tracks[period.process], period.kind, period.kind, begin, max(1, last - begin))
        )
    return found


def _events(trace: Trace, tracks: dict[ProcessId, int], words: Words) -> list[dict[str, Any]]:
    return [
        {
            **_slice(
                tracks[event.process],
                in_words(event, trace.label, words),
                event.kind,
                event.time,
                1,
            ),
            "args": {"event": number, **({"part": event.part} if event.part else {})},
        }
        for number, event in enumerate(trace.events)
    ]


def _flights(trace: Trace, tracks: dict[ProcessId, int]) -> list[dict[str, Any]]:
    found = []
    for number, flight in enumerate(flights(trace.events)):
        if flight.sent is None or flight.ended is None or flight.is_swallowed:
            continue
        sent, ended = trace.events[flight.sent], trace.events[flight.ended]
        same = {"pid": RUN, "cat": "message", "name": sent.name, "id": number}
        found.append({"ph": "s", "tid": tracks[sent.process], "ts": sent.time, **same})
        found.append({"ph": "f", "bp": "e", "tid": tracks[ended.process], "ts": ended.time, **same})
    return found

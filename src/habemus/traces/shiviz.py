"""The trace as a log for ShiViz, which draws happened-before from vector clocks.

Its first line is the regular expression that parses an entry; its second line would separate
several runs and is empty.  ShiViz demands that each host begins with 1 in its own clock and counts
every event of its own.  Faults of messages and links are no events of a host, have no clock, and
are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from habemus.core.process import ProcessId
from habemus.traces.network import KINDS_OF_CHANGE
from habemus.traces.trace import Trace
from habemus.traces.words import ENGLISH, Words, in_words, moment, printable

EXPRESSION = r"(?<event>.*)\n(?<host>\S*) (?<clock>{.*})"


class NoClocks(ValueError):
    """A trace that was recorded without vector clocks, or with clocks that skip events."""


def shiviz(trace: Trace, words: Words = ENGLISH) -> str:
    """Return the log."""
    return "\n".join([EXPRESSION, "", *_entries(trace, words)]) + "\n"


def _entries(trace: Trace, words: Words) -> Iterator[str]:
    hosts = _hosts(trace)
    counts = dict.fromkeys(trace.processes, 0)
    position = {process: index for index, process in enumerate(trace.processes)}
    for number, event in enumerate(trace.events, start=1):
        if event.kind in (*KINDS_OF_CHANGE, "lost", "duplicate"):
            continue
        if event.clock is None:
            raise NoClocks(
                f"event {number} has no vector clock, and ShiViz draws by these: record the run"
                " with clocks"
            )
        counts[event.process] += 1
        own = event.clock[position[event.process]]
        if own != counts[event.process]:
            raise NoClocks(
                f"event {number} is the {counts[event.process]}. of {trace.label(event.process)}"
                f" and has {own} in its own clock: ShiViz needs every event from the first one on"
            )
        clock = {
            hosts[process]: count
            for process, count in zip(trace.processes, event.clock, strict=True)
            if count
        }
        line = printable(in_words(event, trace.label, words))
        yield f"{line} ({moment(event.time, words)})"
        yield f"{hosts[event.process]} {json.dumps(clock, separators=(',', ':'))}"


def _hosts(trace: Trace) -> dict[ProcessId, str]:
    """Return a unique name without spaces for each process, because ShiViz identifies hosts by
    name.
    """
    names = {
        process: re.sub(r"[^A-Za-z0-9_.-]+", "_", trace.label(process)).strip("_")
        for process in trace.processes
    }
    taken = list(names.values())
    return {
        process: name if name and taken.count(name) == 1 else f"{name or 'process'}_{process}"
        for process, name in names.items()
    }

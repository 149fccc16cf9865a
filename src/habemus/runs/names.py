"""Labels of processes in the notation of runs: `--crash c2@5ms` for `--crash 5@5ms`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from habemus.core.process import ProcessId
from habemus.runs.setup import Setup


def by_number(setup: Setup, labels: Mapping[ProcessId, str]) -> Setup:
    """Return the setup with numbers where its faults and requests name processes by labels."""
    if not labels:
        return setup
    faults = tuple((kind, numbered(text, labels)) for kind, text in setup.faults)
    asks = tuple(numbered(text, labels) for text in setup.asks)
    return (
        setup
        if (faults, asks) == (setup.faults, setup.asks)
        else replace(setup, faults=faults, asks=asks)
    )


def numbered(text: str, labels: Mapping[ProcessId, str]) -> str:
    """Replace labels by numbers in the part that names processes: before `@`, `=` or `.`.

    A label that is a number itself is never looked up: a number is the number of a process.
    """
    number_of = {label: str(process) for process, label in labels.items() if not label.isdigit()}
    if not number_of:
        return text
    longest_first = sorted(number_of, key=len, reverse=True)
    name = rf"(?<!\w)({'|'.join(map(re.escape, longest_first))})(?!\w)"
    who, mark, rest = _split(text)
    who = re.sub(name, lambda found: number_of[found[1]], who)
    rest = re.sub(rf"^{name}(?=\.)", lambda found: number_of[found[1]], rest)  # of an event
    return f"{who}{mark}{rest}"


def _split(text: str) -> tuple[str, str, str]:
    """Split `2@5ms`, `3=+50` and `1.clock=5` behind the processes."""
    first = re.search(r"[@=.]", text)
    return (
        (text, "", "") if first is None else (text[: first.start()], first[0], text[first.end() :])
    )

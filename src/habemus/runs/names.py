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
    then = tuple(_numbered_intervention(text, labels) for text in setup.then)
    return (
        setup
        if (faults, asks, then) == (setup.faults, setup.asks, setup.then)
        else replace(setup, faults=faults, asks=asks, then=then)
    )


def _numbered_intervention(text: str, labels: Mapping[ProcessId, str]) -> str:
    """Replace labels where an intervention names processes: first, after `from`, `to`, or in the
    links that are cut, healed or slowed.
    """
    count, colon, what = text.partition(":")
    found = re.fullmatch(r"(\s*(?:cut|heal|slow)\s+)(.*)", what)
    if found:
        return f"{count}{colon}{found[1]}{numbered(found[2], labels)}"
    for process, label in sorted(labels.items(), key=lambda each: -len(each[1])):
        if not label.isdigit():
            name = rf"(^\s*|\b(?:from|to) ){re.escape(label)}(?=\s|$)"
            what = re.sub(name, rf"\g<1>{process}", what)
    return f"{count}{colon}{what}"


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

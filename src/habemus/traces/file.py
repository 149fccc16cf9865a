"""The trace file: JSON lines.

    {"habemus":1,"title":...,"run":{...},"processes":[...],"labels":{...}}     the header
    {"t":1343,"p":1,"e":"send","peer":2,"id":1,"name":"Request","v":{...}}     one line per event
    {"digest":...,"events":N,"findings":[...]}                                 the footer

Events with a vector clock have the key "vc".

A trace has exactly one encoding, so reading is strict: every line must be exactly as it would be
written.  That catches what a lenient reader would accept (a repeated key, an extra key, a 1 that
became `true`), and the footer detects a file that was truncated or changed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from habemus.core.events import KINDS, Event, lines
from habemus.core.named_code import UntrustedCode, refuse_code
from habemus.core.process import ProcessId
from habemus.core.properties import Finding, Verdict
from habemus.core.values import canonical
from habemus.traces.trace import Digest, Trace, mistake_in

VERSION = 1
LONGEST_LINE = 1 << 20
MOST_EVENTS = 10_000_000
DEEPEST_NESTING = 32
"""Limit on nested values.  Real ones nest by the layers of a stack, which are few."""


class MalformedTrace(ValueError):
    """A file that is no complete trace; the message is one line with the line number."""


# Writing.


def write(trace: Trace, path: Path | str) -> None:
    """Write the trace file."""
    with Path(path).open("w", encoding="ascii", newline="\n") as file:
        for line in written(trace):
            file.write(line + "\n")


def written(trace: Trace) -> Iterator[str]:
    """Yield the lines of the trace file, without line ends."""
    if len(trace.events) > MOST_EVENTS:
        raise ValueError(
            f"a trace file holds {MOST_EVENTS} events at most, and this trace has"
            f" {len(trace.events)}"
        )
    header = {
        "habemus": VERSION,
        "title": trace.title,
        "run": dict(trace.run),
        "processes": list(trace.processes),
        "labels": {str(process): trace.labels[process] for process in sorted(trace.labels)},
    }
    digest = Digest()
    yield _within_limits(_plain_text(header), "the header")
    for event, line in zip(trace.events, lines(iter(trace.events)), strict=True):
        digest.add(event)
        yield _within_limits(_with_clock(line, event), "an event")
    footer = {
        "digest": digest.hexdigest(),
        "events": len(trace.events),
        "findings": [
            {
                "name": each.name,
                "verdict": each.verdict.value,
                "why": each.why,
                "time": each.time,
                "processes": list(each.processes),
            }
            for each in trace.findings
        ],
    }
    yield _within_limits(_plain_text(footer), "the footer")


def _plain_text(plain: dict[str, Any]) -> str:
    # `run` comes from the caller: a tuple, or a key that is no string, would be read as another
    # value.
    try:
        text = canonical(plain)
        if json.loads(text, parse_constant=_refused) == plain:
            return text
    except TypeError:
        pass
    raise ValueError(
        "a trace file holds plain JSON only: strings, numbers, booleans, null, lists, and objects"
        " with strings as keys"
    )


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _with_clock(line: str, event: Event) -> str:
    if event.clock is None:
        return line
    return f'{line[:-1]},"vc":[{",".join(map(str, event.clock))}]}}'


def _within_limits(line: str, what: str) -> str:
    if len(line) > LONGEST_LINE:
        raise ValueError(
            f"{what} takes {len(line)} characters; a line of a trace file has {LONGEST_LINE} at"
            " most"
        )
    return line


# Reading.


def read(path: str | os.PathLike[str], *, trusted: bool = False) -> Trace:
    """Return the trace in the file, or raise `MalformedTrace`.

    trusted: the header may name Python files, else that raises `UntrustedCode`.
    """
    with Path(path).open("rb") as file:
        try:
            return parsed(iter(lambda: file.readline(LONGEST_LINE + 2), b""), trusted=trusted)
        except MalformedTrace as error:
            raise MalformedTrace(f"{path} is not a trace: {error}") from None
        except UntrustedCode as error:
            raise UntrustedCode(str(path), error.names) from None


def parsed(raw: Iterable[bytes], *, trusted: bool = False) -> Trace:
    """Return the trace in these lines, or raise `MalformedTrace` or `UntrustedCode`."""
    numbered = enumerate(raw, start=1)
    number, first = next(numbered, (1, b""))
    if not first:
        raise MalformedTrace("line 1: the file is empty")
    header = _object(number, first)
    _expect_keys(number, "the header", header, _HEADER)
    if header["habemus"] != VERSION:
        raise MalformedTrace(
            f"line 1: the format is version {header['habemus']}; this program reads version"
            f" {VERSION}"
        )
    refuse_code(header["run"], "the trace", trusted=trusted)
    processes = _processes(number, header["processes"])
    labels = _labels(number, header["labels"], processes)
    events: list[Event] = []
    known = frozenset(processes)
    digest = Digest()
    for number, line in numbered:
        plain = _object(number, line)
        if "digest" in plain:
            break
        if len(events) == MOST_EVENTS:
            raise MalformedTrace(f"line {number}: more than {MOST_EVENTS} events")
        event = event_of(number, plain)
        wrong = mistake_in(event, known)
        if wrong:
            raise MalformedTrace(f"line {number}: {wrong}")
        if _with_clock(event.line(), event) != _text(line):
            raise _unlike(number, _with_clock(event.line(), event))
        digest.add(event)
        events.append(event)
    else:
        raise MalformedTrace(f"line {number + 1}: the footer is missing; the file was cut short")
    _expect_keys(number, "the footer", plain, _FOOTER)
    if plain["events"] != len(events):
        raise MalformedTrace(
            f"line {number}: the footer counts {plain['events']} events, and the file has"
            f" {len(events)}"
        )
    if plain["digest"] != digest.hexdigest():
        raise MalformedTrace(
            f"line {number}: the digest does not fit the events; the file was changed"
        )
    findings = tuple(_finding(number, each, known) for each in plain["findings"])
    for each, text, plain_text in ((1, first, header), (number, line, plain)):
        if canonical(plain_text) != _text(text):
            raise _unlike(each, canonical(plain_text))
    for number, _ in numbered:
        raise MalformedTrace(f"line {number}: the footer must be the last line")
    return Trace(header["run"], processes, labels, tuple(events), findings, header["title"])


def _text(line: bytes) -> str:
    return line.rstrip(b"\r\n").decode("utf-8")


def _object(number: int, line: bytes) -> dict[str, Any]:
    """Return the JSON object on a line."""
    if len(line.rstrip(b"\r\n")) > LONGEST_LINE:
        raise MalformedTrace(f"line {number}: longer than {LONGEST_LINE} bytes")
    try:
        plain = json.loads(_text(line), parse_constant=_refused)
    except UnicodeDecodeError:
        raise MalformedTrace(f"line {number}: not text in UTF-8") from None
    except RecursionError:
        raise MalformedTrace(f"line {number}: nested too deeply") from None
    except ValueError as error:
        raise MalformedTrace(f"line {number}: not JSON ({_one_line(error)})") from None
    if not isinstance(plain, dict):
        raise MalformedTrace(f"line {number}: expected a JSON object, found {_shown(plain)}")
    if line.count(b"[") + line.count(b"{") > DEEPEST_NESTING and _depth(plain) > DEEPEST_NESTING:
        raise MalformedTrace(f"line {number}: nested too deeply")
    return plain


def _depth(plain: object) -> int:
    deepest = 0
    pending = [(plain, 1)]
    while pending:
        each, depth = pending.pop()
        deepest = max(deepest, depth)
        inner = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        pending.extend((one, depth + 1) for one in inner)
    return deepest


def _is_integer(found: object) -> bool:
    return type(found) is int  # not isinstance: true is an int to Python, and no time


def _is_text(found: object) -> bool:
    return isinstance(found, str)


def _is_object(found: object) -> bool:
    return isinstance(found, dict)


def _is_list(found: object) -> bool:
    return isinstance(found, list)


def _are_integers(found: object) -> bool:
    return isinstance(found, list) and all(map(_is_integer, found))


def _is_integer_or_null(found: object) -> bool:
    return found is None or _is_integer(found)


_Fields = dict[str, tuple[Callable[[object], bool], str]]

_INTEGER = (_is_integer, "an integer")
_TEXT = (_is_text, "a string")
_OBJECT = (_is_object, "an object")
_LIST = (_is_list, "a list")
_INTEGERS = (_are_integers, "a list of integers")

_HEADER: _Fields = {
    "habemus": _INTEGER,
    "title": _TEXT,
    "run": _OBJECT,
    "processes": _INTEGERS,
    "labels": _OBJECT,
}
_EVENT: _Fields = {"t": _INTEGER, "p": _INTEGER, "e": _TEXT}
_EVENT_MAY: _Fields = {
    "peer": _INTEGER,
    "id": _INTEGER,
    "name": _TEXT,
    "v": _OBJECT,
    "part": _TEXT,
    "vc": _INTEGERS,
}
_FOOTER: _Fields = {"digest": _TEXT, "events": _INTEGER, "findings": _LIST}
_FINDING: _Fields = {
    "name": _TEXT,
    "verdict": _TEXT,
    "why": _TEXT,
    "time": (_is_integer_or_null, "an integer or null"),
    "processes": _INTEGERS,
}


def _expect_keys(
    number: int,
    what: str,
    plain: dict[str, Any],
    required: _Fields,
    optional: _Fields | None = None,
) -> None:
    optional = optional or {}
    for key in required:
        if key not in plain:
            raise MalformedTrace(f"line {number}: {what} has no {key!r}")
    for key, found in plain.items():
        rule = required.get(key) or optional.get(key)
        if rule is None:
            raise MalformedTrace(f"line {number}: {what} has an unknown key {_shown(key)}")
        fits, expected = rule
        if not fits(found):
            raise MalformedTrace(
                f"line {number}: {key!r} of {what} must be {expected}, found {_shown(found)}"
            )


def _processes(number: int, found: list[int]) -> tuple[ProcessId, ...]:
    if len(set(found)) != len(found):
        raise MalformedTrace(f"line {number}: a process occurs twice among the processes")
    return tuple(found)


def _labels(
    number: int, found: dict[str, Any], processes: tuple[ProcessId, ...]
) -> dict[ProcessId, str]:
    names = {str(process): process for process in processes}
    for key, label in found.items():
        if key not in names:
            raise MalformedTrace(
                f"line {number}: a label for {_shown(key)}, which is not a process of the trace"
            )
        if not isinstance(label, str):
            raise MalformedTrace(
                f"line {number}: the label of {key} must be a string, found {_shown(label)}"
            )
    return {names[key]: label for key, label in found.items()}


def event_of(number: int, plain: dict[str, Any]) -> Event:
    """Return the event on a line, or raise `MalformedTrace`."""
    _expect_keys(number, "the event", plain, _EVENT, _EVENT_MAY)
    if plain["e"] not in KINDS:
        raise MalformedTrace(
            f"line {number}: unknown kind {_shown(plain['e'])}; the kinds are {', '.join(KINDS)}"
        )
    clock = plain.get("vc")
    return Event(
        plain["t"],
        plain["p"],
        plain["e"],
        plain.get("name", ""),
        plain.get("v"),
        plain.get("peer"),
        plain.get("id"),
        plain.get("part", ""),
        None if clock is None else tuple(clock),
    )


def _finding(number: int, plain: object, processes: frozenset[ProcessId]) -> Finding:
    if not isinstance(plain, dict):
        raise MalformedTrace(f"line {number}: a finding must be an object, found {_shown(plain)}")
    _expect_keys(number, "a finding", plain, _FINDING)
    verdicts = {verdict.value: verdict for verdict in Verdict}
    if plain["verdict"] not in verdicts:
        raise MalformedTrace(
            f"line {number}: a verdict is {', '.join(verdicts)}, not {_shown(plain['verdict'])}"
        )
    for process in plain["processes"]:
        if process not in processes:
            raise MalformedTrace(
                f"line {number}: a finding names {process}, which is not a process of the trace"
            )
    return Finding(
        plain["name"],
        verdicts[plain["verdict"]],
        plain["why"],
        plain["time"],
        tuple(plain["processes"]),
    )


def _unlike(number: int, expected: str) -> MalformedTrace:
    return MalformedTrace(
        f"line {number}: not written as this format writes it, which is {_shown(expected)}"
    )


def _shown(found: object) -> str:
    """Return a short repr of untrusted input on one line."""
    text = repr(found)
    return text if len(text) <= 80 else text[:77] + "..."


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())

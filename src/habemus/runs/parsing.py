"""Parsers of the notation that searches need too: times, processes, options, initial values,
labels.
"""

from __future__ import annotations

import json
import re
from typing import Any

from habemus.core.process import ProcessId, Span


class BadNotation(ValueError):
    """The text does not follow the notation.  The message has an example of the expected form."""


_UNITS = {"": 1, "us": 1, "ms": 1_000, "s": 1_000_000}
LONGEST_TIME = 10**15


def time(text: str) -> int:
    matched = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s|)", text.strip())
    if not matched:
        raise BadNotation(f"{text!r} is not a time; write for example 5000, 5ms or 2s")
    from decimal import Decimal  # slow to import, and a short search has no times

    value = Decimal(matched[1]) * _UNITS[matched[2]]
    if value != int(value):
        raise BadNotation(f"{text!r} is not a whole number of microseconds")
    if value > LONGEST_TIME:
        raise BadNotation(f"{text!r} is longer than any run; at most {LONGEST_TIME} microseconds")
    return int(value)


def span(text: str) -> Span:
    low, dots, high = text.partition("..")
    if not dots:
        return time(text)
    bounds = time(low), time(high)
    if bounds[0] > bounds[1]:
        raise BadNotation(f"{text!r} goes from more to less; write {high}..{low}")
    return bounds


def process(text: str) -> ProcessId:
    if not re.fullmatch(r"\s*\d{1,9}\s*", text):
        raise BadNotation(f"{text!r} is not the number of a process")
    return int(text)


def split(text: str, mark: str, example: str) -> tuple[str, str]:
    left, found, right = text.partition(mark)
    if not (left and found and right):
        raise BadNotation(f"{text!r} is not complete; write for example {example}")
    return left, right


def initial(text: str) -> tuple[ProcessId, str, Any]:
    variable, value = split(text, "=", "1.clock=5")
    who, name = split(variable, ".", "1.clock=5")
    try:
        return process(who), name, json.loads(value)
    except json.JSONDecodeError:
        raise BadNotation(
            f"{text!r}: {value!r} is not a JSON value, such as 5, true or [1, 2]"
        ) from None


def label(text: str) -> tuple[ProcessId, str]:
    who, name = split(text, "=", "1=A")
    if not re.fullmatch(r"[^\x00-\x1f]{1,40}", name):
        raise BadNotation(f"{text!r}: a label has 1 to 40 printable characters")
    return process(who), name


def timeouts(text: str) -> tuple[int | None, tuple[tuple[str, int], ...]]:
    """Parse bounds of timeouts: `3` in all, `Repeat=1` of the timers of one name, or both."""
    in_all: int | None = None
    by_name: dict[str, int] = {}
    for part in filter(None, text.replace(" ", "").split(",")):
        name, equals, count = part.rpartition("=")
        is_known = name in by_name if equals else in_all is not None
        if bool(name) != bool(equals) or not re.fullmatch(r"[0-9]{1,9}", count) or is_known:
            raise BadNotation(
                f"{part!r} is not a bound of timeouts; write for example 3 or Repeat=1,Remind=0,"
                " each timer once"
            )
        if equals:
            by_name[name] = int(count)
        else:
            in_all = int(count)
    return in_all, tuple(sorted(by_name.items()))


def receipts(text: str) -> tuple[tuple[str, int], ...]:
    """Parse bounds of receipts by the names of messages: `Token=3`."""
    found: dict[str, int] = {}
    for part in filter(None, text.replace(" ", "").split(",")):
        name, _, count = part.partition("=")
        if not name or not re.fullmatch(r"[0-9]{1,9}", count) or name in found:
            raise BadNotation(
                f"{part!r} is not a bound of receipts; write for example Token=3, each message once"
            )
        found[name] = int(count)
    return tuple(sorted(found.items()))


def option(text: str) -> tuple[str, Any]:
    """Parse an option: `notices` means true; `timeout=5ms` is a span; other values are JSON or a
    word.  Lists become tuples, because options never change.
    """
    name, given, value = text.partition("=")
    if not given:
        return name, True
    try:
        return name, _unchanging(json.loads(value))
    except json.JSONDecodeError:
        pass
    try:
        return name, span(value)
    except BadNotation:
        return name, value


def _unchanging(value: Any) -> Any:
    return tuple(_unchanging(each) for each in value) if isinstance(value, list) else value

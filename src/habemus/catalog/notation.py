"""How runs are written down: one notation for the command line, trace files, scenarios and sweeps.

times     5000, 5000us, 5ms, 2s            microseconds unless the unit is given
spans     1000, 500..1500, 1ms..2ms
delays    a span, exp:1ms (memoryless), heavy:1ms (heavy-tailed),
          gst:50ms:heavy:1ms:500..1500 (wild until 50 ms, bounded after; gst:50ms is the same)
chances   0.3, 30%
when      5ms, send#3 (the third message it sends), Granted#1, 2.acquire#1 (at another process)
crash     P@WHEN        recover, amnesia  P@WHEN      pause  P@WHEN+DURATION
cut       A-B@WHEN, A>B@WHEN (one way), 1,2|3,4,5@WHEN (groups)
heal      the same, or all@WHEN            slow  A>B@WHEN=DELAY
skew      P=+50000 (millionths)            ask   P@TIME+HOLD
set       P.variable=VALUE (JSON), the initial state of one process
label     P=NAME, how a process is called in pictures
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

from habemus.core.process import ProcessId, Span
from habemus.problems.mutex import Ask
from habemus.runtimes.sim.faults import Crash, Cut, Fault, Heal, Nth, Pause, Recover, Skew, Slow, When, between, both_ways, one_way
from habemus.runtimes.sim.network import MILLION, Delay, Exponential, HeavyTail, Uniform, UntilGst


class BadNotation(ValueError):
    """A text that does not follow the notation; the message says what was expected, with an example."""


_UNITS = {"": 1, "us": 1, "ms": 1_000, "s": 1_000_000}
LONGEST_TIME = 10**15


def time(text: str) -> int:
    matched = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s|)", text.strip())
    if not matched:
        raise BadNotation(f"{text!r} is not a time; write for example 5000, 5ms or 2s")
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


def delay(text: str) -> Delay:
    kind, colon, rest = text.partition(":")
    if kind == "gst" and colon:
        return _until_gst(text, rest)
    shapes: dict[str, Callable[[int], Delay]] = {"exp": Exponential, "heavy": HeavyTail}
    if colon and kind not in shapes:
        raise BadNotation(f"{text!r} is not a delay; write for example 1ms, 500..1500, exp:1ms or heavy:1ms")
    try:
        if colon:
            return shapes[kind](time(rest))
        bounds = span(text)
        return Uniform(*bounds) if isinstance(bounds, tuple) else Uniform(bounds, bounds)
    except BadNotation:
        raise
    except ValueError as reason:
        raise BadNotation(str(reason)) from None


def _until_gst(text: str, rest: str) -> Delay:
    moment, *how = rest.split(":")
    if not how:
        return UntilGst(gst=time(moment))
    if len(how) < 2:
        raise BadNotation(
            f"{text!r} says how long messages take before or after, but not both; write for example gst:50ms:heavy:1ms:500..1500"
        )
    return UntilGst(delay(":".join(how[:-1])), delay(how[-1]), time(moment))


def chance(text: str) -> int:
    """In millionths."""
    stripped = text.strip()
    try:
        value = Decimal(stripped.removesuffix("%")) / (100 if stripped.endswith("%") else 1)
    except InvalidOperation:
        raise BadNotation(f"{text!r} is not a chance; write for example 0.3 or 30%") from None
    if not (value.is_finite() and 0 <= value <= 1):
        raise BadNotation(f"{text!r} is not a chance from 0 to 1")
    return int(value * MILLION)


def process(text: str) -> ProcessId:
    if not re.fullmatch(r"\s*\d{1,9}\s*", text):
        raise BadNotation(f"{text!r} is not the number of a process")
    return int(text)


def when(text: str) -> When:
    matched = re.fullmatch(r"(?:(\d+)\.)?([A-Za-z_-]+)#(\d+)", text)
    if not matched:
        return time(text)
    if int(matched[3]) < 1:
        raise BadNotation(f"{text!r}: events are counted from 1")
    return Nth(matched[2], int(matched[3]), int(matched[1]) if matched[1] else None)


def _split(text: str, mark: str, example: str) -> tuple[str, str]:
    left, found, right = text.partition(mark)
    if not (left and found and right):
        raise BadNotation(f"{text!r} is not complete; write for example {example}")
    return left, right


def crash(text: str) -> Fault:
    who, moment = _split(text, "@", "2@5ms")
    return Crash(process(who), when(moment))


def recover(text: str) -> Fault:
    who, moment = _split(text, "@", "2@9ms")
    return Recover(process(who), when(moment))


def amnesia(text: str) -> Fault:
    who, moment = _split(text, "@", "2@9ms")
    return Recover(process(who), when(moment), amnesia=True)


def pause(text: str) -> Fault:
    who, rest = _split(text, "@", "2@5ms+20ms")
    moment, duration = _split(rest, "+", "2@5ms+20ms")
    return Pause(process(who), when(moment), time(duration))


def _links(text: str) -> tuple[tuple[ProcessId, ProcessId], ...]:
    if "|" in text:
        return between(*([process(each) for each in group.split(",")] for group in text.split("|")))
    if ">" in text:
        sender, receiver = _split(text, ">", "1>2@5ms")
        return one_way(process(sender), process(receiver))
    one, other = _split(text, "-", "1-2@5ms, 1>2@5ms or 1,2|3@5ms")
    return both_ways(process(one), process(other))


def cut(text: str) -> Fault:
    links, moment = _split(text, "@", "1-2@5ms, 1>2@5ms or 1,2|3@5ms")
    return Cut(_links(links), when(moment))


def heal(text: str) -> Fault:
    links, moment = _split(text, "@", "1-2@9ms or all@9ms")
    return Heal(() if links == "all" else _links(links), when(moment))


def slow(text: str) -> Fault:
    links, rest = _split(text, "@", "1>2@0=9ms")
    moment, how = _split(rest, "=", "1>2@0=9ms")
    return Slow(_links(links), when(moment), delay(how))


def skew(text: str) -> Fault:
    who, much = _split(text, "=", "3=+50000")
    if not re.fullmatch(r"[+-]?\d{1,8}", much):
        raise BadNotation(f"{text!r}: the skew is a number of millionths, such as 3=+50000")
    try:
        return Skew(process(who), int(much))
    except BadNotation:
        raise
    except ValueError as reason:
        raise BadNotation(str(reason)) from None


FAULTS: dict[str, Callable[[str], Fault]] = {
    "crash": crash,
    "recover": recover,
    "amnesia": amnesia,
    "pause": pause,
    "cut": cut,
    "heal": heal,
    "slow": slow,
    "skew": skew,
}


def ask(text: str) -> Ask:
    who, rest = _split(text, "@", "1@0 or 1@0+3ms")
    moment, _, hold = rest.partition("+")
    return Ask(process(who), time(moment), time(hold)) if hold else Ask(process(who), time(moment))


def initial(text: str) -> tuple[ProcessId, str, Any]:
    variable, value = _split(text, "=", "1.clock=5")
    who, name = _split(variable, ".", "1.clock=5")
    try:
        return process(who), name, json.loads(value)
    except json.JSONDecodeError:
        raise BadNotation(f"{text!r}: {value!r} is not a JSON value, such as 5, true or [1, 2]") from None


def label(text: str) -> tuple[ProcessId, str]:
    who, name = _split(text, "=", "1=A")
    if not re.fullmatch(r"[^\x00-\x1f]{1,40}", name):
        raise BadNotation(f"{text!r}: a label has 1 to 40 printable characters")
    return process(who), name


def option(text: str) -> tuple[str, Any]:
    """`notices` means true; `timeout=5ms` is a span; anything else is JSON or a word.  Options never change, so lists are tuples."""
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

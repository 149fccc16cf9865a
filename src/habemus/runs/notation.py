"""The notation of runs, for the command line, trace files, scenarios and sweeps.

times     5000, 5000us, 5ms, 2s            microseconds unless the unit is given
spans     1000, 500..1500, 1ms..2ms
delays    a span, exp:1ms (memoryless), heavy:1ms (heavy-tailed),
          gst:50ms:heavy:1ms:500..1500 (wild until 50 ms, bounded after; gst:50ms is the same)
chances   0.3, 30%
when      5ms, send#3 (the third message it sends), Granted#1, 2.acquire#1 (at another process)
crash     P@WHEN        recover, amnesia  P@WHEN      pause  P@WHEN+DURATION
replace   P@TIME        recover with the memory lost, as `habemus node --replace` does
cut       A-B@WHEN, A>B@WHEN (one way), 1,2|3,4,5@WHEN (groups)
heal      the same, or all@WHEN            slow  A>B@WHEN=DELAY
skew      P=+50000 (millionths)            ask   P@TIME+HOLD
set       P.variable=VALUE (JSON), the initial state of one process
label     P=NAME, the name of a process in pictures
then      K: WHAT, an intervention after K deliveries; see `habemus.runs.interventions`
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation

from habemus.core.process import ProcessId
from habemus.problems.mutex import Ask
from habemus.runs.parsing import BadNotation, initial, label, option, process, span, split, time
from habemus.runtimes.sim.faults import (
    Crash,
    Cut,
    Fault,
    Heal,
    Nth,
    Pause,
    Recover,
    Replace,
    Skew,
    Slow,
    When,
    between,
    both_ways,
    one_way,
)
from habemus.runtimes.sim.network import MILLION, Delay, Exponential, HeavyTail, Uniform, UntilGst


def delay(text: str) -> Delay:
    kind, colon, rest = text.partition(":")
    if kind == "gst" and colon:
        return _until_gst(text, rest)
    shapes: dict[str, Callable[[int], Delay]] = {"exp": Exponential, "heavy": HeavyTail}
    if colon and kind not in shapes:
        raise BadNotation(
            f"{text!r} is not a delay; write for example 1ms, 500..1500, exp:1ms or heavy:1ms"
        )
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
            f"{text!r} has one delay, but needs two, before and after the moment; write for example"
            " gst:50ms:heavy:1ms:500..1500"
        )
    return UntilGst(delay(":".join(how[:-1])), delay(how[-1]), time(moment))


def chance(text: str) -> int:
    """Return a probability in millionths."""
    stripped = text.strip()
    try:
        value = Decimal(stripped.removesuffix("%")) / (100 if stripped.endswith("%") else 1)
    except InvalidOperation:
        raise BadNotation(f"{text!r} is not a probability; write for example 0.3 or 30%") from None
    if not (value.is_finite() and 0 <= value <= 1):
        raise BadNotation(f"{text!r} is not a probability between 0 and 1")
    return int(value * MILLION)


def when(text: str) -> When:
    matched = re.fullmatch(r"(?:(\d+)\.)?([A-Za-z_-]+)#(\d+)", text)
    if not matched:
        return time(text)
    if int(matched[3]) < 1:
        raise BadNotation(f"{text!r}: events are counted from 1")
    return Nth(matched[2], int(matched[3]), int(matched[1]) if matched[1] else None)


def crash(text: str) -> Fault:
    who, moment = split(text, "@", "2@5ms")
    return Crash(process(who), when(moment))


def recover(text: str) -> Fault:
    who, moment = split(text, "@", "2@9ms")
    return Recover(process(who), when(moment))


def amnesia(text: str) -> Fault:
    who, moment = split(text, "@", "2@9ms")
    return Recover(process(who), when(moment), amnesia=True)


def replace(text: str) -> Fault:
    who, moment = split(text, "@", "2@9ms")
    return Replace(process(who), time(moment))


def pause(text: str) -> Fault:
    who, rest = split(text, "@", "2@5ms+20ms")
    moment, duration = split(rest, "+", "2@5ms+20ms")
    return Pause(process(who), when(moment), time(duration))


def _links(text: str) -> tuple[tuple[ProcessId, ProcessId], ...]:
    if "|" in text:
        return between(*([process(each) for each in group.split(",")] for group in text.split("|")))
    if ">" in text:
        sender, receiver = split(text, ">", "1>2@5ms")
        return one_way(*_two(text, sender, receiver))
    one, other = split(text, "-", "1-2@5ms, 1>2@5ms or 1,2|3@5ms")
    return both_ways(*_two(text, one, other))


def _two(text: str, one: str, other: str) -> tuple[ProcessId, ProcessId]:
    ends = process(one), process(other)
    if ends[0] == ends[1]:
        raise BadNotation(f"{text!r}: no link leads from a process to itself")
    return ends


def cut(text: str) -> Fault:
    links, moment = split(text, "@", "1-2@5ms, 1>2@5ms or 1,2|3@5ms")
    return Cut(_links(links), when(moment))


def heal(text: str) -> Fault:
    links, moment = split(text, "@", "1-2@9ms or all@9ms")
    return Heal(() if links == "all" else _links(links), when(moment))


def slow(text: str) -> Fault:
    links, rest = split(text, "@", "1>2@0=9ms")
    moment, how = split(rest, "=", "1>2@0=9ms")
    return Slow(_links(links), when(moment), delay(how))


def skew(text: str) -> Fault:
    who, much = split(text, "=", "3=+50000")
    if not re.fullmatch(r"[+-]?\d{1,8}", much):
        raise BadNotation(f"{text!r}: the skew is a number of millionths, such as 3=+50000")
    try:
        return Skew(process(who), int(much))
    except BadNotation:
        raise
    except ValueError as reason:
        raise BadNotation(str(reason)) from None


FAULT_PARSERS: dict[str, Callable[[str], Fault]] = {
    "crash": crash,
    "recover": recover,
    "amnesia": amnesia,
    "replace": replace,
    "pause": pause,
    "cut": cut,
    "heal": heal,
    "slow": slow,
    "skew": skew,
}


def ask(text: str) -> Ask:
    who, rest = split(text, "@", "1@0 or 1@0+3ms")
    moment, _, hold = rest.partition("+")
    return Ask(process(who), time(moment), time(hold)) if hold else Ask(process(who), time(moment))


__all__ = [
    "FAULT_PARSERS",
    "BadNotation",
    "amnesia",
    "ask",
    "chance",
    "crash",
    "cut",
    "delay",
    "heal",
    "initial",
    "label",
    "option",
    "pause",
    "process",
    "recover",
    "replace",
    "skew",
    "slow",
    "span",
    "time",
    "when",
]

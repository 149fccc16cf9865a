"""Write faults in the notation of runs: the inverse of `habemus.runs.notation.FAULT_PARSERS`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from habemus.core.process import ProcessId
from habemus.runs.parsing import BadNotation
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
)
from habemus.runtimes.sim.network import Delay, Exponential, HeavyTail, Uniform, UntilGst

Link = tuple[ProcessId, ProcessId]


def written(fault: Fault) -> list[tuple[str, str]]:
    """Return a fault as kinds and texts: one of each, unless its links cannot be named together."""
    match fault:
        case Crash(process, when):
            return [("crash", f"{process}@{_when(when)}")]
        case Recover(process, when, amnesia):
            return [("amnesia" if amnesia else "recover", f"{process}@{_when(when)}")]
        case Replace(process, when):
            return [("replace", f"{process}@{when}")]
        case Pause(process, when, duration):
            return [("pause", f"{process}@{_when(when)}+{duration}")]
        case Cut(links, when):
            return [("cut", f"{text}@{_when(when)}") for text in links_text(links)]
        case Heal((), when):
            return [("heal", f"all@{_when(when)}")]
        case Heal(links, when):
            return [("heal", f"{text}@{_when(when)}") for text in links_text(links)]
        case Slow(links, when, delay):
            return [
                ("slow", f"{text}@{_when(when)}={delay_text(delay)}") for text in links_text(links)
            ]
        case Skew(process, millionths):
            return [("skew", f"{process}={millionths:+d}")]


def _when(when: When) -> str:
    if isinstance(when, Nth):
        who = "" if when.process is None else f"{when.process}."
        return f"{who}{when.kind}#{when.count}"
    return str(when)


def links_text(links: tuple[Link, ...]) -> list[str]:
    """Name links as groups or pairs where the notation has a name for them, else one by one."""
    groups = _groups(links)
    if groups is not None:
        return ["|".join(",".join(map(str, group)) for group in groups)]
    if len(links) == 2 and links[0] == links[1][::-1]:
        return [f"{links[0][0]}-{links[0][1]}"]
    return [f"{sender}>{receiver}" for sender, receiver in links]


def _groups(links: tuple[Link, ...]) -> list[list[ProcessId]] | None:
    """Find groups of processes whose links to each other are just these, in this order."""
    senders = [sender for sender, _ in groupby(links, key=lambda link: link[0])]
    reached = {sender: frozenset(to for one, to in links if one == sender) for sender in senders}
    groups: dict[frozenset[ProcessId], list[ProcessId]] = {}
    for sender in dict.fromkeys(senders):
        groups.setdefault(reached[sender], []).append(sender)
    members = list(groups.values())
    if len(members) < 2 or max(map(len, members)) == 1:
        return None
    return members if between(*members) == links else None


def delay_text(delay: Delay) -> str:
    match delay:
        case Uniform(low, high):
            return str(low) if low == high else f"{low}..{high}"
        case Exponential(mean):
            return f"exp:{mean}"
        case HeavyTail(base, 10):
            return f"heavy:{base}"
        case UntilGst(before, after, gst):
            return f"gst:{gst}:{delay_text(before)}:{delay_text(after)}"
        case HeavyTail(base, doublings):
            raise BadNotation(
                f"the heavy tail of a run has 10 doublings, not {doublings}; give HeavyTail({base})"
            )
        case _:
            raise BadNotation(
                f"{delay!r} is not a delay; give Uniform(9_000, 9_000), Exponential(9_000) or"
                " HeavyTail(9_000) of habemus.faults"
            )


def all_written(faults: Iterable[Fault | str]) -> tuple[tuple[str, str], ...]:
    """Return faults, given as values or as texts such as "crash 2@5ms", in the notation."""
    pairs: list[tuple[str, str]] = []
    for fault in faults:
        if not isinstance(fault, str):
            pairs += written(fault)
            continue
        kind, _, text = fault.strip().partition(" ")
        if not text.strip():
            raise BadNotation(f"{fault!r} is not a fault; write for example 'crash 2@5ms'")
        pairs.append((kind.removeprefix("--"), text.strip()))
    return tuple(pairs)

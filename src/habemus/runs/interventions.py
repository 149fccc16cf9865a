"""The notation of interventions: `60: 2 crashes`, sixty deliveries into the run.

    2 receives Reply(8) from 1                  the message is delivered now
    2 timer Retry(1)                            the timer expires now
    2 acquire                                   the application makes its next request now
    Reply(8) from 1 to 2 is lost                ... is duplicated, ... is delayed by 5ms
    2 crashes, 2 recovers, 2 forgets            it recovers with its stable memory, or without
    2 is replaced, 2 pauses for 20ms
    cut 1,2|3, heal 1-2, heal all, slow 1>2=9ms
    luck 5                                      other random numbers from here on

These are the words of schedules (`habemus.schedules.schedule`).  A message of a component has its
path at the end, `at .links`.  Of several equal messages under way, `#2` is the second to arrive.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from habemus.core.system import System
from habemus.core.words import did_you_mean
from habemus.runs import notation
from habemus.runs.fault_notation import delay_text, links_text
from habemus.runs.parsing import BadNotation, time
from habemus.runs.setup import anchor_of
from habemus.runtimes.sim.faults import Crash, Cut, Heal, Pause, Recover, Replace, Slow
from habemus.runtimes.sim.interventions import (
    Deliver,
    Duplicate,
    Expire,
    Intervention,
    Lose,
    Luck,
    MakeRequest,
    Postpone,
)

EXAMPLES = "2 crashes, 2 receives Reply(8) from 1, Reply(8) from 1 to 2 is lost, cut 1|2,3, luck 5"
LONGEST = 2_000
"""Characters of an intervention."""

_Found = Mapping[str, str]


def _message(found: _Found) -> tuple[int, int, str]:
    return int(found["process"]), int(found["sender"]), found["message"]


def _which(found: _Found) -> tuple[str, int]:
    return found["part"] or "", int(found["ordinal"] or 1)


_P, _S = r"(?P<process>\d{1,9})", r"(?P<sender>\d{1,9})"
_M = r"(?P<message>[A-Za-z_].*?)"
_AT = r"(?: at (?P<part>\.[\w.]+))?(?: #(?P<ordinal>[1-9]\d{0,5}))?"
_FORMS: tuple[tuple[str, Callable[[_Found], Intervention]], ...] = (
    (
        f"{_P} receives {_M} from {_S}{_AT}",
        lambda found: Deliver(*_message(found), *_which(found)),
    ),
    (f"{_M} from {_S} to {_P} is lost{_AT}", lambda found: Lose(*_message(found), *_which(found))),
    (
        f"{_M} from {_S} to {_P} is duplicated{_AT}",
        lambda found: Duplicate(*_message(found), *_which(found)),
    ),
    (
        rf"{_M} from {_S} to {_P} is delayed by (?P<by>[\w.]+){_AT}",
        lambda found: Postpone(*_message(found), time(found["by"]), *_which(found)),
    ),
    (
        rf"{_P} timer (?P<timer>[A-Za-z_].*?)(?: at (?P<part>\.[\w.]+))?",
        lambda found: Expire(int(found["process"]), found["timer"], found["part"] or ""),
    ),
    (f"{_P} crashes", lambda found: Crash(int(found["process"]), 0)),
    (f"{_P} recovers", lambda found: Recover(int(found["process"]), 0)),
    (f"{_P} forgets", lambda found: Recover(int(found["process"]), 0, amnesia=True)),
    (f"{_P} is replaced", lambda found: Replace(int(found["process"]), 0)),
    (
        rf"{_P} pauses for (?P<by>[\w.]+)",
        lambda found: Pause(int(found["process"]), 0, time(found["by"])),
    ),
    (r"cut (?P<links>\S+)", lambda found: notation.cut(f"{found['links']}@0")),
    (r"heal (?P<links>\S+)", lambda found: notation.heal(f"{found['links']}@0")),
    (
        r"slow (?P<links>[^\s=]+)=(?P<delay>\S+)",
        lambda found: notation.slow(f"{found['links']}@0={found['delay']}"),
    ),
    (r"luck (?P<number>\d{1,12})", lambda found: Luck(int(found["number"]))),
    (
        rf"{_P} (?P<request>[A-Za-z_]\w*(?:\(.*\))?)",
        lambda found: MakeRequest(int(found["process"]), found["request"]),
    ),
)
_PATTERNS = tuple((re.compile(form), make) for form, make in _FORMS)


def parsed(text: str) -> tuple[int, Intervention]:
    """Parse `K: WHAT`; return the number of deliveries before it, and the intervention."""
    if len(text) > LONGEST:
        raise BadNotation(f"an intervention has at most {LONGEST} characters")
    return anchor_of(text), what(text.partition(":")[2])


def what(text: str) -> Intervention:
    """Parse an intervention without its anchor."""
    words = " ".join(text.split())
    for pattern, make in _PATTERNS:
        found = pattern.fullmatch(words)
        if found:
            return make(found.groupdict())
    raise BadNotation(f"{words[:80]!r} is not an intervention; write for example {EXAMPLES}")


VERBS = ("crashes", "recovers", "forgets", "is replaced", "pauses for", "receives", "timer")
"""Words after a process that are not requests of its application."""


def refuse_unknown_requests(interventions: Iterable[Intervention], system: System) -> None:
    """Refuse a request that no process of the system has: most likely a mistyped verb."""
    for each in interventions:
        if not isinstance(each, MakeRequest):
            continue
        verb = each.request.partition("(")[0]
        requests = {
            name: None
            for plan in system.plans.values()
            for name in type(plan).__behaviour__.requests
        }
        if verb not in requests:
            known = [f"{each.process} {name}" for name in (*requests, *VERBS)]
            hint = did_you_mean(f"{each.process} {verb}", known)
            raise BadNotation(f"{written(each)!r} is not an intervention; {hint}")


def written(intervention: Intervention) -> str:
    """Return an intervention in the notation, without its anchor."""
    match intervention:
        case Deliver(process, sender, message):
            return f"{process} receives {message} from {sender}{_at(intervention)}"
        case Lose(process, sender, message):
            return f"{message} from {sender} to {process} is lost{_at(intervention)}"
        case Duplicate(process, sender, message):
            return f"{message} from {sender} to {process} is duplicated{_at(intervention)}"
        case Postpone(process, sender, message, by):
            return f"{message} from {sender} to {process} is delayed by {by}{_at(intervention)}"
        case Expire(process, timer, part):
            return f"{process} timer {timer}" + (f" at {part}" if part else "")
        case MakeRequest(process, request):
            return f"{process} {request}"
        case Luck(number):
            return f"luck {number}"
        case Crash(process):
            return f"{process} crashes"
        case Recover(process, _, amnesia):
            return f"{process} {'forgets' if amnesia else 'recovers'}"
        case Replace(process):
            return f"{process} is replaced"
        case Pause(process, _, duration):
            return f"{process} pauses for {duration}"
        case Cut(links):
            return f"cut {_links(links)}"
        case Heal(links):
            return f"heal {_links(links) if links else 'all'}"
        case Slow(links, _, delay):
            return f"slow {_links(links)}={delay_text(delay)}"
    raise BadNotation(f"{intervention!r} is not an intervention")


def _at(intervention: Deliver | Lose | Duplicate | Postpone) -> str:
    part = f" at {intervention.part}" if intervention.part else ""
    return part + (f" #{intervention.ordinal}" if intervention.ordinal > 1 else "")


def _links(links: tuple[tuple[int, int], ...]) -> str:
    texts = links_text(links)
    if len(texts) > 1:
        raise BadNotation("these links have no common name; intervene once for each")
    return texts[0]


__all__ = ["parsed", "refuse_unknown_requests", "what", "written"]

"""A schedule: the steps of a run in order, as lines that can be read, written and kept in a test.

    1 acquire                                   a request of the application
    2 receives Request(1) from 1                ... at .links, where a component below gets it
    3 timer Retry(2)                            the timer expires
    2 receives a copy of Request(1) from 1      it is received, and will arrive once more
    Request(1) from 1 to 2 is lost
    2 misses Request(1) from 1                  it arrives while 2 is down
    1 crashes, 1 recovers, 1 forgets            it recovers with its stable memory, or without
    time passes                                 only where timers expire in their order

A step with random choices ends with `, choosing 3 then 1`; one that a crash interrupts ends with
`, crashing after 2 sends`.  Messages and timers are written as in pictures, `Request(1)`, and are
identified by that.  So a changed algorithm can follow a schedule up to the first step that is no
longer possible.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from habemus.core.events import Event, notation_of
from habemus.core.process import ProcessId
from habemus.runtimes.checker.counterexample import STEP_US


class BadSchedule(ValueError):
    """The line is not a step of a schedule."""


class Step(NamedTuple):
    kind: str
    process: ProcessId = -1
    what: str = ""
    peer: ProcessId = -1
    part: str = ""
    choices: tuple[str, ...] = ()
    torn: int | None = None  # the process crashes after so many of the sends of this step
    nth: int = 1  # of equal messages in flight, in the order of sending

    def __str__(self) -> str:
        at = f" at {self.part}" if self.part else ""
        choices = f", choosing {' then '.join(self.choices)}" if self.choices else ""
        torn = "" if self.torn is None else f", crashing after {self.torn} sends"
        nth = f", number {self.nth} of them" if self.nth > 1 else ""
        return _FORMS[self.kind].format(**self._asdict()) + at + nth + choices + torn


_FORMS = {
    "copy": "{process} receives a copy of {what} from {peer}",
    "receive": "{process} receives {what} from {peer}",
    "vanish": "{process} misses {what} from {peer}",
    "lose": "{what} from {peer} to {process} is lost",
    "timer": "{process} timer {what}",
    "crash": "{process} crashes",
    "recover": "{process} recovers",
    "amnesia": "{process} forgets",
    "start": "{process} starts",
    "pass": "time passes",
    "request": "{process} {what}",  # the last: everything else with a number is tried before
}
_FIELDS = {
    "process": r"(?P<process>\d+)",
    "what": "(?P<what>[A-Za-z_].*?)",
    "peer": r"(?P<peer>\d+)",
}
_ENDING = (
    r"(?: at (?P<part>\.[\w.]+))?(?:, number (?P<nth>\d+) of them)?"
    r"(?:, choosing (?P<choices>.+?))?(?:, crashing after (?P<torn>\d+) sends)?"
)
_PATTERNS = {kind: re.compile(form.format(**_FIELDS) + _ENDING) for kind, form in _FORMS.items()}


def parsed(line: str) -> Step:
    """Parse one line; raise `BadSchedule` if it is not a step."""
    text = " ".join(line.split())
    for kind, pattern in _PATTERNS.items():
        matched = pattern.fullmatch(text)
        if matched:
            found = matched.groupdict()
            choices, torn = found["choices"], found["torn"]
            return Step(
                kind,
                int(found.get("process", -1)),
                found.get("what", ""),
                int(found.get("peer", -1)),
                found["part"] or "",
                tuple(choices.split(" then ")) if choices else (),
                None if torn is None else int(torn),
                int(found["nth"] or 1),
            )
    raise BadSchedule(
        f"{text!r} is not a step; write for example: 1 acquire, 2 receives Request(1) from 1,"
        " 3 timer Retry(2), 1 crashes"
    )


def schedule(lines: str | Iterable[str]) -> list[Step]:
    """Parse a text with one step on each line; empty lines and comments are skipped."""
    split = lines.splitlines() if isinstance(lines, str) else lines
    return [parsed(line) for line in split if line.strip() and not line.strip().startswith("#")]


def asked(name: str, arguments: Sequence[Any]) -> str:
    return notation_of(name, {str(position): each for position, each in enumerate(arguments)})


def drawn(plain: Any) -> str:
    """Return a chosen value in the notation of schedules."""
    return notation_of("_", {"value": plain})[2:-1]


def schedule_of(events: Sequence[Event], steps: int) -> list[Step]:
    """Return the schedule of a counterexample, whose steps are a millisecond apart."""
    at = {
        moment // STEP_US: list(group)
        for moment, group in groupby(events, key=lambda event: event.time)
    }
    found = [step for step in _starts(at.get(0, [])) if step.choices]
    sent = {event.number: event for event in events if event.kind == "send"}
    down: set[ProcessId] = set()
    under_way = _sent(at.get(0, []))
    for number in range(1, steps + 1):
        group = at.get(number, [])
        step = _step(group, sent, down) if group else Step("pass")
        found.append(step._replace(nth=_nth(group[0], under_way)) if group else step)
        ended = {event.number for event in group if event.kind in ("receive", "lost")}
        ended -= {event.number for event in group if event.kind == "duplicate"}
        under_way = [each for each in under_way if each.number not in ended] + _sent(group)
        for event in group:
            if event.kind == "crash":
                down.add(event.process)
            elif event.kind == "recover":
                down.discard(event.process)
    return found


def _sent(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if event.kind == "send"]


def _nth(event: Event, under_way: Sequence[Event]) -> int:
    """Return the place of a message among equal ones in flight; 1 for every other event."""
    own = next((each for each in under_way if each.number == event.number), None)
    if event.number is None or own is None:
        return 1
    equal = [
        each.number
        for each in under_way
        if (each.process, each.peer, each.part, each.notation())
        == (own.process, own.peer, own.part, own.notation())
    ]
    return equal.index(event.number) + 1


def _starts(events: Sequence[Event]) -> list[Step]:
    """Return the starts of the processes.  Only those with random choices get a line."""
    started = [event.process for event in events if event.kind == "start"]
    return [
        Step(
            "start",
            process,
            choices=_choices([event for event in events if event.process == process]),
        )
        for process in started
    ]


def _choices(events: Iterable[Event]) -> tuple[str, ...]:
    return tuple(drawn(event.fields().get("value")) for event in events if event.kind == "choose")


def _step(
    events: Sequence[Event], sent: Mapping[int | None, Event], down: Collection[ProcessId]
) -> Step:
    first, last = events[0], events[-1]
    peer = -1 if first.peer is None else first.peer
    step = Step(first.kind, first.process, first.notation(), peer, first.part, _choices(events))
    match first.kind:
        case "request":
            arguments = first.fields().get("value", ())
            step = step._replace(
                what=asked(first.name, arguments if isinstance(arguments, list) else ()), peer=-1
            )
        case "duplicate":
            step = step._replace(kind="copy", process=peer, peer=first.process)
        case "lost":
            sender, to = _ends(sent, first)
            # A message to a process that is down is not lost on the way; the process misses it.
            step = step._replace(kind="vanish" if to in down else "lose", process=to, peer=sender)
        case "recover" if first.fields().get("value") == "amnesia":
            step = step._replace(kind="amnesia")
    if step.kind not in _FORMS:
        raise BadSchedule(f"no step begins with {first.kind} {first.described()} at {first.time}")
    if last.kind == "crash" and last is not first:
        step = step._replace(
            torn=sum(event.kind == "send" and event.peer != event.process for event in events)
        )
    return step


def _ends(sent: Mapping[int | None, Event], lost: Event) -> tuple[ProcessId, ProcessId]:
    found = sent.get(lost.number)
    if found is None or found.peer is None:
        raise BadSchedule(f"{lost.described()} is lost at {lost.time} and was never sent")
    return found.process, found.peer


__all__ = ["BadSchedule", "Step", "asked", "drawn", "parsed", "schedule", "schedule_of"]

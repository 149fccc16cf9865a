"""Descriptions of events in words.

All words that a reader of a trace sees are defined here, so that a translation is one more mapping
with the same keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from habemus.core.events import Event, described_plain
from habemus.core.process import ProcessId
from habemus.core.properties import Finding

Words: TypeAlias = Mapping[str, str]

ENGLISH: Words = {
    # Events.
    "start": "starts",
    "recover": "recovers",
    "recover amnesia": "recovers without its memory",
    "recover replaced": "is replaced: its memory is lost",
    "crash": "crashes",
    "pause": "pauses",
    "resume": "goes on",
    "request acquire": "asks to enter",
    "request release": "leaves",
    "request": "is asked to {what}",
    "request write": "writes with token {token}",
    "indicate Granted": "enters",
    "indicate LockLost": "has lost the lock",
    "indicate": "says {what}",
    "send": "sends {what} to {peer}",
    "receive": "gets {what} from {peer}",
    "lost": "{what} to {peer} is lost",
    "lost on arrival": "misses {what} from {peer}: it is down",
    "duplicate": "{what} to {peer} is duplicated",
    "timer": "timer {what} expires",
    "choose": "draws {what}",
    "cut": "the link to {peer} is cut",
    "heal": "the link to {peer} is mended",
    "slow": "the link to {peer} has another delay",
    # Marks in pictures, where there is little room.
    "mark crash": "crash",
    "mark recover": "back",
    "mark recover amnesia": "back, amnesia",
    "mark recover replaced": "replaced",
    "mark start": "start",
    "mark pause": "paused",
    "mark choose": "draws {what}",
    "network cut": "cut {links}",
    "network heal": "mended {links}",
    "network slow": "slower {links}",
    "links": "{count} links",
    # Tables.
    "time": "ms",
    "process": "process",
    "network": "network",
    "what": "what happens",
    "inside": "inside",
    "changes": "changes",
    # Pictures.
    "untitled": "A run",
    "axis ms": "ms",
    "axis s": "s",
    "legend inside": "in the critical section, numbered by order of entry",
    "legend waiting": "waiting to enter",
    "legend paused": "paused",
    "legend down": "crashed",
    "legend lost": "lost",
    "legend copy": "second copy",
    "legend under way": "under way at the end",
    "legend timer": "timer",
    "legend indication": "answer to the application",
    "legend request": "request of the application",
    "legend network": "the network changes",
    "legend later": "arrives later than shown",
    "legend state": "variables that changed",
    "legend repeats": "stands for so many like it",
    "legend break": "a wait, shortened",
    "legend violation": "violation",
    "period waiting": "waits from {begin} to {end}",
    "period waiting to the end": "waits from {begin} on",
    "period inside": "is inside from {begin} to {end}",
    "period inside to the end": "is inside from {begin} on",
    "period paused": "is paused from {begin} to {end}",
    "period paused to the end": "is paused from {begin} on",
    "verdict holds": "holds",
    "verdict with probability one": "with probability one",
    "verdict violated": "violated",
    "verdict undecided": "undecided",
    "verdict not claimed": "violated, but not claimed",
    "at": "at {time}",
    "nothing": "{time} in which nothing happens",
    "folded": "{time} in which {events} events repeat earlier ones",
    "left out": "{events} events left out, from {begin} to {end}",
    "shown": "{shown} of {events} events shown",
    "shown folded": "{folded} that repeat others are folded (\N{MULTIPLICATION SIGN}n)",
    "shown part": "choose others with --from, --to, --hide, --only",
    "message": "{what} from {sender} to {receiver}",
    "message sent": "sent at {time}",
    "message arrives": "arrives at {time}",
    "clock": "vector clock {clock}",
    "described": "{processes} processes, {events} events. {findings}",
    "under way": "under way",
    "copy": "second copy",
}


def in_words(
    event: Event,
    label: Callable[[ProcessId], str],
    words: Words = ENGLISH,
    *,
    on_arrival: bool = False,
) -> str:
    """Describe an event of a process, without the name of the process: "sends Request(6) to 2".

    A message is lost `on_arrival` if it reached its receiver, which was down; the event is then the
    receiver's.
    """
    key = "lost on arrival" if event.kind == "lost" and on_arrival else event.kind
    if event.kind == "recover" and event.fields().get("value") in ("amnesia", "replaced"):
        key = f"recover {event.fields()['value']}"
    elif event.kind in ("request", "indicate") and f"{event.kind} {event.name}" in words:
        key = f"{event.kind} {event.name}"
    peer = "" if event.peer is None else label(event.peer)
    token = described_plain(event.fields().get("value"), "token") if event.name == "write" else ""
    return words[key].format(what=what(event), peer=peer, token=token)


def what(event: Event) -> str:
    """Return the value of the event as a person writes it; a bare value has no name before it."""
    return event.described() if event.name else described_plain(event.fields().get("value"))


def printable(text: str) -> str:
    """Return the text on one line, without control characters: traces are untrusted input."""
    return "".join(
        character if character.isprintable() else "\ufffd" for character in " ".join(text.split())
    )


def milliseconds(time: int) -> str:
    """Format microseconds as milliseconds, exactly."""
    whole, rest = divmod(abs(time), 1_000)
    digits = f"{whole}.{rest:03}".rstrip("0") if rest else f"{whole}"
    return f"-{digits}" if time < 0 else digits


def moment(time: int, words: Words = ENGLISH) -> str:
    """Format a time with its unit: "12.5 ms"."""
    return f"{milliseconds(time)} {words['axis ms']}"


def one_line(finding: Finding, words: Words = ENGLISH) -> str:
    """Describe a finding: "ME1 violated at 12.475 ms: 1 and 2 are inside"."""
    why = printable(finding.why)
    when = "" if finding.time is None else moment(finding.time, words)
    said = f" {words['at'].format(time=when)}" if when and when not in why else ""  # once is enough
    return f"{finding.name} {words[f'verdict {finding.verdict.value}']}{said}" + (
        f": {why}" if why else ""
    )

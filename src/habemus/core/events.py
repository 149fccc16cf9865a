"""The event format of the simulator, the checker and live nodes, which monitors judge.

A trace is a sequence of events in an order that respects cause and effect.  The kinds:

    start, recover, crash, pause, resume   the life of a process
    request                                the application asks (`acquire`, `release`, ...)
    indicate                               the process answers the application (`Granted`, ...)
    send, receive, lost, duplicate         one message; `number` ties its events together
    timer, choose                          a timer expired; a choice was drawn
    cut, heal, slow                        the network changed; `peer` is the other end
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from habemus.core.shapes import plain_of
from habemus.core.values import Value, canonical

KINDS = (
    *("start", "recover", "crash", "pause", "resume", "request", "indicate"),
    *("send", "receive", "lost", "duplicate", "timer", "choose", "cut", "heal", "slow"),
)


TEXTS_KEPT = 2_000
"""Texts of values that are kept while events are encoded."""


class Event(NamedTuple):
    """One event of a run, at one process; `docs/traces.md` lists the kinds.

    time: microseconds since the start of the run.
    process: the process at which it happened; for cut, heal and slow, the sending end.
    kind: the kind of event, such as send.
    name: the name of the message, timer, request or indication.
    value: the message, timer, request or indication; its fields if it was read from a file.
    peer: the other process of a message.
    number: the number of the message, which ties its events together.
    part: the component, such as ".election.detector"; empty for the part on top.
    clock: the vector clock, in the order of the processes.
    """

    time: int
    process: int
    kind: str
    name: str = ""
    value: Value | Mapping[str, Any] | None = None
    peer: int | None = None
    number: int | None = None
    part: str = ""
    clock: tuple[int, ...] | None = None

    def fields(self) -> Mapping[str, Any]:
        """Return the fields of the value in a form that JSON can hold."""
        if isinstance(self.value, Value):
            return {
                name: shape.to_plain(getattr(self.value, name))
                for name, shape in type(self.value).__fields__.items()
            }
        return self.value or {}

    def line(self) -> str:
        """Return the canonical line, without the vector clock, which follows from the rest."""
        return self._line(_fields_text(self))

    def _line(self, fields: str) -> str:
        peer = "" if self.peer is None else f',"peer":{self.peer}'
        number = "" if self.number is None else f',"id":{self.number}'
        name = f',"name":{_quoted(self.name)}' if self.name else ""
        part = f',"part":{_quoted(self.part)}' if self.part else ""
        rest = f"{peer}{number}{name}{fields}{part}"
        return f'{{"t":{self.time},"p":{self.process},"e":"{self.kind}"{rest}}}'

    def described(self) -> str:
        """Return the value as a person writes it: `Elect`, `Request(6)`, `Leader(4, term=2)`."""
        return described_value(self.name, self.fields()) if self.name else ""

    def notation(self) -> str:
        """Return the value with all its fields in order, as schedules write it: `Leader(4, 2)`."""
        return _in_order(self.name, self.fields()) if self.name else ""


_quoted = lru_cache(1_000)(json.dumps)  # names are few


def _fields_text(event: Event) -> str:
    fields = event.fields()
    return f',"v":{canonical(fields)}' if fields else ""


def described_value(name: str, fields: Mapping[str, Any]) -> str:
    """Return a named value for people.

    Empty collections and the term 0 of what has no terms are left out.  A single field is bare.  Of
    several, processes and values that have a name come first, and the others are named.
    """
    told = {
        field: each for field, each in fields.items() if each != [] and (field, each) != ("term", 0)
    }
    bare = {
        field: described_plain(each, field)
        for field, each in told.items()
        if len(fields) == 1 or field == "process" or _is_value(each)
    }
    named = [
        f"{field}={described_plain(each, field)}"
        for field, each in told.items()
        if field not in bare
    ]
    return f"{name}({', '.join([*bare.values(), *named])})" if told else name


def described_plain(plain: Any, field: str = "") -> str:
    """Return a JSON form for people; `field` is the name of the field that holds it, if any."""
    if field == "token" and isinstance(plain, list) and len(plain) == 2:
        return ".".join(map(str, plain))
    if _is_value(plain):
        [(name, fields)] = plain.items()
        return described_value(name, fields)
    if isinstance(plain, list):
        return f"[{', '.join(map(described_plain, plain))}]"
    return str(plain)


def _is_value(plain: Any) -> bool:
    return (
        isinstance(plain, dict)
        and len(plain) == 1
        and all(isinstance(each, dict) for each in plain.values())
    )


def _in_order(name: str, fields: Mapping[str, Any]) -> str:
    return f"{name}({', '.join(map(_shown, fields.values()))})" if fields else name


def _shown(plain: Any) -> str:
    if _is_value(plain):
        [(name, fields)] = plain.items()
        return f"{name}({', '.join(map(_shown, fields.values()))})"
    if isinstance(plain, list):
        return f"[{', '.join(map(_shown, plain))}]"
    return str(plain)


def lines(events: Iterator[Event]) -> Iterator[str]:
    """Yield the canonical lines; the fields of a message are encoded only once."""
    known: dict[int, tuple[Any, str]] = {}  # by identity; the value is kept, and so its identity
    for event in events:
        value = event.value
        if value is None:
            yield event._line("")
            continue
        found = known.get(id(value))
        if found is None:
            if len(known) >= TEXTS_KEPT:
                known.clear()
            found = known[id(value)] = (value, _fields_text(event))
        yield event._line(found[1])


def notation_of(name: str, value: Any = None) -> str:
    """Return a message, a timer or a request in the notation of schedules."""
    return Event(0, 0, "", name, value).notation()


def note(value: Any) -> dict[str, Any]:
    """Make the value field of an event that carries no message, timer or indication."""
    return {"value": plain_of(value)}

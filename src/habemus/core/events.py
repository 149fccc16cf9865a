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
from typing import Any, NamedTuple

from habemus.core.shapes import plain_of
from habemus.core.values import Value, canonical

KINDS = (
    *("start", "recover", "crash", "pause", "resume", "request", "indicate"),
    *("send", "receive", "lost", "duplicate", "timer", "choose", "cut", "heal", "slow"),
)


class Event(NamedTuple):
    time: int
    process: int  # where it happened; for cut, heal and slow the sending end
    kind: str
    name: str = ""  # of the message, timer, request or indication
    value: Value | Mapping[str, Any] | None = None  # its fields if it was read from a file
    peer: int | None = None  # the other process of a message
    number: int | None = None  # of the message
    part: str = ""  # the component, ".election.detector"; empty for the part on top
    clock: tuple[int, ...] | None = None  # vector clock, in the order of the processes

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
        name = f',"name":{json.dumps(self.name)}' if self.name else ""
        part = f',"part":{json.dumps(self.part)}' if self.part else ""
        rest = f"{peer}{number}{name}{fields}{part}"
        return f'{{"t":{self.time},"p":{self.process},"e":"{self.kind}"{rest}}}'

    def described(self) -> str:
        """Return the value as a person writes it: `Request(6)`, `Data(3, Request(6))`."""
        if not self.name:
            return ""
        fields = self.fields()
        return (
            f"{self.name}({', '.join(_shown(each) for each in fields.values())})"
            if fields
            else self.name
        )


def _fields_text(event: Event) -> str:
    fields = event.fields()
    return f',"v":{canonical(fields)}' if fields else ""


def _shown(plain: Any) -> str:
    if isinstance(plain, dict) and len(plain) == 1:
        [(name, fields)] = plain.items()
        if isinstance(fields, dict):
            return f"{name}({', '.join(_shown(each) for each in fields.values())})"
    if isinstance(plain, list):
        return f"[{', '.join(_shown(each) for each in plain)}]"
    return str(plain)


def lines(events: Iterator[Event]) -> Iterator[str]:
    """Yield the canonical lines; the fields of a broadcast message are encoded only once."""
    last: Any = None
    text = ""
    for event in events:
        if event.value is None:
            yield event._line("")
            continue
        if event.value is not last:
            last, text = event.value, _fields_text(event)
        yield event._line(text)


def note(value: Any) -> dict[str, Any]:
    """Make the value field of an event that carries no message, timer or indication."""
    return {"value": plain_of(value)}

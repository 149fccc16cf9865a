"""Fencing: a grant carries a token that only grows, and a resource that checks tokens refuses
whoever comes late.

A process may believe itself inside although its lease has run out, and no lock service can prevent
that.  The resource can: it remembers the largest token that it has seen and refuses a smaller one.
The resource here is the model of such a one; what it accepts is judged by who wrote, and not by the
tokens, so that tokens that are given twice are found out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from habemus.core import Indication, ProcessId
from habemus.core.events import Event
from habemus.core.properties import Finding, Kind, Property, Verdict
from habemus.problems import mutex
from habemus.problems.finality import in_ms

FENCE = Property(
    "FENCE",
    Kind.ALWAYS,
    "a resource that checks tokens never accepts a write older than one it has accepted",
)

Token: TypeAlias = tuple[int, int]
"""The term of the coordinator that granted, and its count of grants."""


class Granted(mutex.Granted):
    """The process is in the critical section from now on, and shows this token to the resource."""

    token: Token


class LockLost(Indication):
    """The process is no longer in the critical section: its lease has run out, and another one may
    be let in.
    """

    token: Token


@dataclass
class Resource:
    """What the lock protects.  It checks tokens, and nothing else."""

    newest: Token | None = None

    def accepts(self, token: Token) -> bool:
        if self.newest is not None and token < self.newest:
            return False
        self.newest = token
        return True


class _Entry(NamedTuple):
    """One stay in the critical section."""

    process: ProcessId
    since: int
    token: Token


@dataclass
class FenceMonitor:
    """Fed with every event of a run in order; gives every write to a resource and judges what that
    accepts.
    """

    label: Callable[[ProcessId], str] = str
    resource: Resource = field(default_factory=Resource)

    accepted: int = field(default=0, init=False)
    refused: int = field(default=0, init=False)
    tokens: list[Token] = field(default_factory=list, init=False)  # in the order of the entries

    _entries: dict[tuple[ProcessId, Token], _Entry] = field(
        default_factory=dict, init=False, repr=False
    )
    _last: _Entry | None = field(
        default=None, init=False, repr=False
    )  # whose write was accepted last
    _over: set[_Entry] = field(
        default_factory=set, init=False, repr=False
    )  # those that others have written after
    _refusal: str = field(default="", init=False, repr=False)
    _violation: Finding | None = field(default=None, init=False, repr=False)

    def observe(self, event: Event) -> None:
        if event.part:
            return
        if event.kind == "indicate" and event.name == "Granted" and "token" in event.fields():
            token = _token(event.fields()["token"])
            self.tokens.append(token)
            self._entries[event.process, token] = _Entry(event.process, event.time, token)
        elif event.kind == "request" and event.name == "write":
            token = _token(event.fields()["value"])
            self._writes(event.time, self._entries[event.process, token])

    def _writes(self, time: int, entry: _Entry) -> None:
        before = self.resource.newest
        if not self.resource.accepts(entry.token):
            self.refused += 1
            self._refusal = (
                f"at {in_ms(time)} that of {self.label(entry.process)} with token {entry.token},"
                f" after one with {before}"
            )
            return
        self.accepted += 1
        if self._last is not None and self._last != entry:
            self._over.add(self._last)
        if entry in self._over and self._violation is None:
            assert self._last is not None
            why = (
                f"at {in_ms(time)} the resource accepted a write of {self._told(entry)}, after one"
                f" of {self._told(self._last)}"
            )
            self._violation = Finding(
                "FENCE", Verdict.VIOLATED, why, time, (self._last.process, entry.process)
            )
        self._last = entry

    def _told(self, entry: _Entry) -> str:
        return (
            f"{self.label(entry.process)}, which entered at {in_ms(entry.since)} with token"
            f" {entry.token}"
        )

    def finding(self) -> Finding | None:
        """None where no grant carried a token."""
        if not self.tokens:
            return None
        if self._violation is not None:
            return self._violation
        if not self.accepted:
            return Finding("FENCE", Verdict.UNDECIDED, "nobody wrote, so nothing was shown")
        why = f"{self.accepted} writes accepted, none older than one before it"
        if self.refused:
            why += f"; {self.refused} refused, the last {self._refusal}"
        return Finding("FENCE", Verdict.HOLDS, why)


def _token(plain: list[int]) -> Token:
    term, count = plain
    return term, count

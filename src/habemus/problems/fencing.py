"""Fencing: grants carry tokens that grow, and a resource that checks them refuses old writes.

A process may believe that it is inside although its lease has expired, and no lock service can
prevent that.  The resource can: it remembers the largest token that it has seen and refuses a
smaller one.

`WriteOrder` is the judgement of FENCE, a fold over the writes that a resource has accepted.  It
judges by the order of the writers as well as by their tokens, so that it finds tokens that were
issued twice.  `FencedWrites` adds the model of a resource that refuses old tokens.  Searches and
monitors of runs use that model; a torture has the answers of a real resource.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from habemus.core import Indication, ProcessId
from habemus.core.events import Event
from habemus.core.mutex_events import mutex_change
from habemus.core.properties import Finding, Kind, Property, Verdict
from habemus.core.words import counted
from habemus.problems.finality import in_ms
from habemus.problems.mutex import Granted, Resumed

FENCE = Property(
    "FENCE",
    Kind.ALWAYS,
    "a resource that checks tokens never accepts a write older than one it has accepted",
)

Token: TypeAlias = tuple[int, int]
"""The term of the coordinator that granted, and its count of grants: 2.3 in texts."""
LARGEST_COUNT: Final = (1 << 32) - 1
"""Largest count of a token: live nodes give clients both parts in one number."""


class GrantedWithToken(Granted):
    """The process has entered the critical section and shows this token to the resource."""

    token: Token


class LockLostWithToken(Indication):
    """The process has left the critical section because its lease expired; another may enter."""

    token: Token


class TermUsedUp(Indication):
    """The coordinator has no token left in this term.  Its election begins a new one; where many
    locks share an election, the runtime passes this on to it.
    """

    term: int


class ResumedWithToken(Resumed):
    """An application that entered at another process goes on here."""

    token: Token  # that it shows to the resource, as before
    loan: Token  # by which it may go on at yet another process


# Events, traces and schedules call them by what happened, with a token or without.
GrantedWithToken.__name__, LockLostWithToken.__name__ = Granted.__name__, "LockLost"
ResumedWithToken.__name__ = Resumed.__name__


class AcceptedWrites(NamedTuple):
    """The state of `FencedWrites` as a value."""

    newest: Token | None = None
    last: tuple[ProcessId, Token] | None = None
    over: frozenset[tuple[ProcessId, Token]] = frozenset()


class WriteOutcome(Enum):
    REFUSED = "refused"
    ACCEPTED = "accepted"
    STALE = "accepted, although another entry has written since the last write of this one"


Writer = TypeVar("Writer", bound=Hashable)


class WriteOrder(Generic[Writer]):
    """The largest token that a resource has accepted, and the entries that have written to it."""

    def __init__(self) -> None:
        self.newest: Any = None  # tokens of any one type that has an order
        self.last: Writer | None = None  # the entry of the last accepted write
        self.over: set[Writer] = set()  # entries that others have written after

    def accept(self, entry: Writer, token: Any) -> bool:
        """Add a write that the resource has accepted; its token may be None.  Return whether it
        violates FENCE: a larger token was accepted before, or another entry has written since the
        last write of this one.
        """
        if self.last is not None and self.last != entry:
            self.over.add(self.last)
        self.last = entry
        is_older = self.is_older(token)
        if token is not None and not is_older:
            self.newest = token
        return is_older or entry in self.over

    def is_older(self, token: Any) -> bool:
        """Return whether the token is smaller than one that was accepted."""
        return bool(token is not None and self.newest is not None and token < self.newest)


class FencedWrites(WriteOrder[tuple[ProcessId, Token]]):
    """A resource that checks tokens, and nothing else; and the entries that have written to it."""

    def grant(self, process: ProcessId, token: Token) -> None:
        """Begin an entry.  One with the token of an earlier entry of the process is a new one, but
        if that entry has made the last write, it counts as a write of the new one.
        """
        self.over.discard((process, token))

    def write(self, process: ProcessId, token: Token) -> WriteOutcome:
        if self.is_older(token):
            return WriteOutcome.REFUSED
        is_stale = self.accept((process, token), token)
        return WriteOutcome.STALE if is_stale else WriteOutcome.ACCEPTED

    def frozen(self) -> AcceptedWrites:
        return AcceptedWrites(self.newest, self.last, frozenset(self.over))

    @classmethod
    def thawed(cls, state: AcceptedWrites) -> FencedWrites:
        writes = cls()
        writes.newest, writes.last = state.newest, state.last
        writes.over.update(state.over)
        return writes


@dataclass
class FenceMonitor:
    """Reads every event of a run in order; judges the writes that a fenced resource accepts."""

    label: Callable[[ProcessId], str] = str

    accepted: int = field(default=0, init=False)
    refused: int = field(default=0, init=False)
    tokens: list[Token] = field(default_factory=list, init=False)  # in the order of the entries

    _writes: FencedWrites = field(default_factory=FencedWrites, init=False, repr=False)
    _since: dict[tuple[ProcessId, Token], int] = field(
        default_factory=dict, init=False, repr=False
    )  # time of each entry
    _refusal: str = field(default="", init=False, repr=False)
    _violation: Finding | None = field(default=None, init=False, repr=False)

    def observe(self, event: Event) -> None:
        if event.kind not in ("request", "indicate") or event.part:
            return
        change = mutex_change(event)
        if (change == "entry" and "token" in event.fields()) or change == "resume":
            token = _token(event.fields()["token"])
            if change == "entry":
                self.tokens.append(token)
            self._since[event.process, token] = event.time
            self._writes.grant(event.process, token)
        elif event.kind == "request" and event.name == "write":
            self._write(event.time, event.process, _token(event.fields()["value"]))

    def _write(self, time: int, process: ProcessId, token: Token) -> None:
        newest, last = self._writes.newest, self._writes.last
        outcome = self._writes.write(process, token)
        if outcome is WriteOutcome.REFUSED:
            self.refused += 1
            self._refusal = (
                f"at {in_ms(time)} that of {self.label(process)} with token {in_text(token)}, after"
                f" one with {in_text(newest)}"
            )
            return
        self.accepted += 1
        if outcome is WriteOutcome.STALE and self._violation is None:
            assert last is not None
            why = (
                f"at {in_ms(time)} the resource accepted a write of"
                f" {self._entry(process, token)}, after one of {self._entry(*last)}"
            )
            self._violation = Finding("FENCE", Verdict.VIOLATED, why, time, (last[0], process))

    def _entry(self, process: ProcessId, token: Token) -> str:
        since = in_ms(self._since[process, token])
        return f"{self.label(process)}, which entered at {since} with token {in_text(token)}"

    def finding(self) -> Finding | None:
        """Return the finding about FENCE; None where no grant carried a token."""
        if not self.tokens:
            return None
        if self._violation is not None:
            return self._violation
        if not self.accepted:
            return Finding("FENCE", Verdict.UNDECIDED, "no process wrote, so nothing was shown")
        why = f"{counted(self.accepted, 'write')} accepted, none older than one before it"
        if self.refused:
            why += f"; {self.refused} refused, the last {self._refusal}"
        return Finding("FENCE", Verdict.HOLDS, why)


def in_text(token: Sequence[int] | None) -> str:
    """Return a token as people read it."""
    return ".".join(map(str, token or ()))


def _token(plain: list[int]) -> Token:
    term, count = plain
    return term, count

"""Tokens of grants: each is larger than every token that had been granted before its request.

A lock service decides on a grant at some moment between the request and the entry, and only the
service knows when.  So two grants are ordered if one was made before the other was requested, and
then the later one has the larger token: over crashes, restarts and take-overs, and whether or not
the service remembers a lock that is free.  No two grants have the same token.

`TokenOrder` is the judgement, as a fold over requests and grants.  A search uses it as it is.
A finished run has all grants: `not_larger` feeds them to the fold, and `repeated` also finds equal
tokens that the fold has forgotten.  `judge_tokens` explains the first violation.  Simulated and
live traces come to it through `TokenMonitor`; a torture reports all violations.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from habemus.core import ProcessId
from habemus.core.events import Event
from habemus.core.mutex_events import mutex_change
from habemus.core.properties import Finding, Kind, Property, Verdict
from habemus.core.words import counted
from habemus.problems.finality import in_ms

TOKEN = Property(
    "TOKEN", Kind.ALWAYS, "tokens of grants strictly increase in the order of granting"
)


class IssuedTokens(NamedTuple):
    """The state of `TokenOrder` as a value."""

    newest: Any = None
    due: tuple[tuple[int, Any], ...] = ()  # sorted


class TokenOrder:
    """The newest token, and for each pending request the newest token at the time it was made.

    The fold remembers one token and not all, so that the states of a search stay few.  It finds
    every token that is not larger than one granted before its request, and one that is equal to
    the newest.
    """

    def __init__(self) -> None:
        self.newest: Any = None  # tokens of any one type that has an order
        self.due: dict[int, Any] = {}  # by the process, or whatever number the request has

    def request(self, key: int) -> None:
        if self.newest is not None:
            self.due[key] = self.newest

    def grant(self, key: int, token: Any) -> bool:
        """Issue a token.  Return whether it violates TOKEN."""
        is_stale = token == self.newest or self.is_behind(key, token)
        self.due.pop(key, None)
        if self.newest is None or token > self.newest:
            self.newest = token
        return is_stale

    def is_behind(self, key: int, token: Any) -> bool:
        """Return whether a token is not larger than one granted before the request it serves."""
        due = self.due.get(key)
        return due is not None and bool(token <= due)

    def is_overtaken(self, token: Any) -> bool:
        """Return whether a larger token was granted than this one, with which a process goes on."""
        return self.newest is not None and token < self.newest

    def withdraw(self, key: int) -> None:
        """Drop a pending request: it was withdrawn, or its process has crashed."""
        self.due.pop(key, None)

    def frozen(self) -> IssuedTokens:
        return IssuedTokens(self.newest, tuple(sorted(self.due.items())))

    @classmethod
    def thawed(cls, state: IssuedTokens) -> TokenOrder:
        order = cls()
        order.newest = state.newest
        order.due.update(state.due)
        return order


class IssuedToken(NamedTuple):
    """A grant: its token, and the two moments between which it was made.

    Moments are readings of one clock, or numbers of events, that all grants of a run have in
    common.
    """

    asked: int
    granted: int
    token: tuple[int, ...]
    holder: str  # and when it entered, in words
    time: int | None = None  # of the entry
    process: ProcessId | None = None


class TokenPair(NamedTuple):
    """Two grants whose tokens violate TOKEN, as positions in the sequence of grants."""

    earlier: int
    later: int


def repeated(tokens: Iterable[Hashable]) -> Iterator[TokenPair]:
    """Yield each token that has occurred before, with its first occurrence."""
    first: dict[Hashable, int] = {}
    for position, token in enumerate(tokens):
        earlier = first.setdefault(token, position)
        if earlier != position:
            yield TokenPair(earlier, position)


def not_larger(grants: Sequence[IssuedToken]) -> Iterator[TokenPair]:
    """Yield each grant whose token is not larger than one granted before its request, with the
    first grant of the largest such token.
    """
    # A grant at the very moment of a request comes after it: the two are not ordered.
    moments = sorted(
        (moment, is_grant, position)
        for position, grant in enumerate(grants)
        for moment, is_grant in ((grant.asked, False), (grant.granted, True))
    )
    order = TokenOrder()
    first: dict[tuple[int, ...], int] = {}
    for _, is_grant, position in moments:
        if not is_grant:
            order.request(position)
            continue
        token = grants[position].token
        if order.is_behind(position, token):
            yield TokenPair(first[order.due[position]], position)
        order.grant(position, token)
        first.setdefault(token, position)


def judge_tokens(grants: Iterable[IssuedToken]) -> Finding | None:
    """Return the finding about TOKEN; None where there are no grants."""
    in_order = sorted(grants, key=lambda grant: grant.granted)
    if not in_order:
        return None
    equal = next(repeated(grant.token for grant in in_order), None)
    behind = next(not_larger(in_order), None)
    if equal is not None and (behind is None or equal.later <= behind.later):
        same, grant = (in_order[position] for position in equal)
        why = f"{grant.holder} has the token {_words(grant)} that {same.holder} has, too"
        return _violated(same, grant, why)
    if behind is not None:
        earlier, grant = (in_order[position] for position in behind)
        why = (
            f"{grant.holder} has the token {_words(grant)}, although {earlier.holder} had"
            f" {_words(earlier)} before it was asked for"
        )
        return _violated(earlier, grant, why)
    return Finding(
        TOKEN.name,
        Verdict.HOLDS,
        f"{counted(len(in_order), 'grant')}, the last with token {_words(in_order[-1])}",
    )


def _words(grant: IssuedToken) -> str:
    return ".".join(map(str, grant.token))


def _violated(earlier: IssuedToken, grant: IssuedToken, why: str) -> Finding:
    processes = tuple(each.process for each in (earlier, grant) if each.process is not None)
    return Finding(TOKEN.name, Verdict.VIOLATED, why, grant.time, processes)


@dataclass
class TokenMonitor:
    """Reads every event of a run in order; judges the tokens that grants of topmost parts carry."""

    label: Callable[[ProcessId], str] = str

    grants: list[IssuedToken] = field(default_factory=list, init=False)

    _events: int = field(default=0, init=False, repr=False)
    # the number of the last request of each process, as an event
    _asked: dict[ProcessId, int] = field(default_factory=dict, init=False, repr=False)

    def observe(self, event: Event) -> None:
        if event.kind not in ("request", "indicate"):
            return
        self._events += 1
        change = mutex_change(event)
        if change == "request":
            self._asked[event.process] = self._events
        elif change == "entry" and "token" in event.fields():
            term, count = event.fields()["token"]
            holder = f"{self.label(event.process)}, which entered at {in_ms(event.time)},"
            asked = self._asked.get(event.process, self._events)
            self.grants.append(
                IssuedToken(asked, self._events, (term, count), holder, event.time, event.process)
            )

    def finding(self) -> Finding | None:
        """Return the finding about TOKEN; None where no grant carried a token."""
        return judge_tokens(self.grants)


__all__ = [
    "TOKEN",
    "IssuedToken",
    "IssuedTokens",
    "TokenMonitor",
    "TokenOrder",
    "TokenPair",
    "judge_tokens",
    "not_larger",
    "repeated",
]

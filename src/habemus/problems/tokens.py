"""Tokens of grants: each is larger than every token that had been granted when its holder asked.

Nobody else can tell when a lock service decides on a grant; it does so at some moment between the
request and the entry.  So two grants have an order if one was made before the other was asked for,
and then the later one has the larger token: over crashes, restarts and take-overs, and whether or
not the service remembers a lock that nobody holds.  No two grants have the same token.

`judge_tokens` is the one judgement of that.  Simulated and live traces come to it through
`TokenMonitor`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from habemus.core import ProcessId
from habemus.core.events import Event
from habemus.core.properties import Finding, Kind, Property, Verdict
from habemus.problems.finality import in_ms

TOKEN = Property(
    "TOKEN", Kind.ALWAYS, "tokens of grants strictly increase in the order of granting"
)


class IssuedToken(NamedTuple):
    """A grant: its token, and between which two moments it was made.

    Moments are readings of one clock, or numbers of events, that all grants of a run have in
    common.
    """

    asked: int
    granted: int
    token: tuple[int, ...]
    holder: str  # and when it entered, in words
    time: int | None = None  # of the entry
    process: ProcessId | None = None


def judge_tokens(grants: Iterable[IssuedToken]) -> Finding | None:
    """Return the finding about TOKEN; None where there are no grants."""
    in_order = sorted(grants, key=lambda grant: grant.granted)
    if not in_order:
        return None
    moments = [grant.granted for grant in in_order]
    largest = list(accumulate(in_order, _larger))
    holders: dict[tuple[int, ...], IssuedToken] = {}
    for grant in in_order:
        same = holders.setdefault(grant.token, grant)
        if same is not grant:
            return _violated(
                same,
                grant,
                f"{grant.holder} has the token {_told(grant)} that {same.holder} has, too",
            )
        before = bisect_left(moments, grant.asked)  # so many had been granted when it was asked for
        if before and largest[before - 1].token > grant.token:
            earlier = largest[before - 1]
            why = (
                f"{grant.holder} has the token {_told(grant)}, although {earlier.holder} had"
                f" {_told(earlier)} before it was asked for"
            )
            return _violated(earlier, grant, why)
    return Finding(
        TOKEN.name,
        Verdict.HOLDS,
        f"{len(in_order)} grants, the last with token {_told(in_order[-1])}",
    )


def _larger(one: IssuedToken, other: IssuedToken) -> IssuedToken:
    return other if other.token > one.token else one


def _told(grant: IssuedToken) -> str:
    return str(grant.token[0]) if len(grant.token) == 1 else str(grant.token)


def _violated(earlier: IssuedToken, grant: IssuedToken, why: str) -> Finding:
    processes = tuple(each.process for each in (earlier, grant) if each.process is not None)
    return Finding(TOKEN.name, Verdict.VIOLATED, why, grant.time, processes)


@dataclass
class TokenMonitor:
    """Fed with every event of a run in order; judges the tokens that the grants of its topmost
    parts carry.
    """

    label: Callable[[ProcessId], str] = str

    grants: list[IssuedToken] = field(default_factory=list, init=False)

    _events: int = field(default=0, init=False, repr=False)
    _asked: dict[ProcessId, int] = field(
        default_factory=dict, init=False, repr=False
    )  # the number of the event

    def observe(self, event: Event) -> None:
        if event.part:
            return
        self._events += 1
        if event.kind == "request" and event.name == "acquire":
            self._asked[event.process] = self._events
        elif event.kind == "indicate" and event.name == "Granted" and "token" in event.fields():
            term, count = event.fields()["token"]
            holder = f"{self.label(event.process)}, which entered at {in_ms(event.time)},"
            asked = self._asked.get(event.process, self._events)
            self.grants.append(
                IssuedToken(asked, self._events, (term, count), holder, event.time, event.process)
            )

    def finding(self) -> Finding | None:
        """Return what became of TOKEN; None where no grant carried a token."""
        return judge_tokens(self.grants)


__all__ = ["TOKEN", "IssuedToken", "TokenMonitor", "judge_tokens"]

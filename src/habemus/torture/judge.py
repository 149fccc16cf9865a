"""The judge: the violations that a history shows, of the lock and of the resource.  No input, no
output.

ME1, FENCE and TOKEN are judged by the same folds as in searches and runs: `mutex_judgement`,
`fencing` and `tokens`.  The judge feeds them the history and adds which violations faults excuse.

*Overlaps.*  A client believes that it holds the lock from the moment at which it heard of its grant
until it releases it, hears that it is lost, or dies.  Two such times of different clients that
overlap are a violation of ME1.

*Excuses.*  With leases, two clients may believe to hold the lock if one of them was paused or cut
off.  Such a fault excuses the overlaps of its own client, until one lease after its end.  A stall
of the machine, which the torture measures and the judge counts, excuses overlaps of all clients
during the stall.  If the card does not say that only paused processes can break ME1, a fault that
hits nodes or their links excuses all overlaps, too.  Every other overlap is a violation of ME1 with
leases as well.

*Stale writes.*  A write is stale if another stay has written since the stay of the write, or if its
token is smaller than one that was accepted.  The resource must refuse it (FENCE).  Accepted writes
are judged by their clients as well, not by tokens alone, so that duplicate tokens are found.

*Lost updates.*  Every write names the value on which it builds.  If that is not the current value,
an update is lost.

*Tokens.*  A client that asked after another one had been granted the lock has a larger token, and
tokens are unique.  Without leases, and with leases where nothing excuses the client, tokens also
increase in the order in which clients hear of their grants.  A client shows the referee the token
that it was granted.

*Order.*  Grants and updates are linearisable (`linearise`).
"""

from __future__ import annotations

from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple

from habemus.core.properties import Finding, Verdict, worst
from habemus.core.words import counted
from habemus.fencing.tokens import token_text
from habemus.problems.fencing import FENCE, WriteOrder
from habemus.problems.mutex_judgement import MutexJudgement
from habemus.problems.mutex_monitor import ME1, ME2_DEADLOCK
from habemus.problems.tokens import IssuedToken, not_larger, repeated
from habemus.torture.history import LEADING, Access, History, Stay
from habemus.torture.linearise import (
    Counter,
    LockEntry,
    LockModel,
    Operation,
    OrderOutcome,
    linearise,
)
from habemus.torture.schedule import OUT_OF_HEARING, outlasting

FEWEST_GRANTS = 100
"""A run with fewer grants is undecided."""
PATIENCE_S = 30.0
"""Time without a grant after a healing from which on progress is undecided."""
ALL_CLIENTS = ""
STALL = "stall"
"""Name of the excuse that is no fault."""
STALL_MARGIN_S = 0.5
"""Time before and after a measured stall in which another process may have stalled."""
NS = 1_000_000_000

Window = tuple[int, int]
"""Start and end."""


class TortureClaim(NamedTuple):
    """Claims of the algorithm that the history is judged by."""

    excludes: bool  # ME1 is claimed, and there are no leases
    progresses: bool  # ME2 is claimed
    has_tokens: bool
    is_fenced: bool  # the referee checks them
    faults: tuple[str, ...]  # the kinds that were asked for
    beyond: tuple[str, ...] = ()  # those of them that the card does not claim to tolerate
    lease_s: float = 0.0  # 0: there are none
    excuses: tuple[str, ...] = ()  # kinds that, with leases, excuse overlaps of all clients

    @property
    def counts_me1(self) -> bool:
        """Return whether ME1 counts: always, unless leases and checked tokens replace it."""
        return self.excludes or not (self.has_tokens and self.is_fenced)

    @property
    def accepts_excuses(self) -> bool:
        """Return whether ME1 is judged where nothing excuses an overlap."""
        return bool(self.lease_s) and not self.counts_me1


@dataclass
class Judgement:
    seconds: float
    faults: dict[str, int]
    grants: int
    unknown: int  # requests and writes with unknown outcome
    overlaps: list[tuple[Stay, Stay]]
    unexcused: list[tuple[Stay, Stay]]  # those of them that nothing excuses
    excused: dict[str, int]  # number of the others, by kind of fault, or "stall"
    stalls: int
    stalled_s: float
    judged_s: float  # time in which no overlap is excused whatever its clients are
    stale: list[Access]
    refused: int
    updates: int
    lost: list[Access]
    regressions: list[tuple[Stay, Stay]]
    duplicates: list[tuple[Stay, Stay]]
    mismatches: list[tuple[Stay, Access]]  # the token of the grant, and another one at the referee
    lock_order: OrderOutcome
    token_order: OrderOutcome
    update_order: OrderOutcome
    longest_outage_s: float
    first_grants_s: list[float]  # after each healing
    after_holder_s: list[float]  # from the death of each holder to the next grant
    after_leader_s: list[float]  # from the death of each leader to the next grant
    findings: list[Finding] = field(default_factory=list)
    uncounted: list[str] = field(default_factory=list)  # properties that are not claimed

    @property
    def verdict(self) -> Verdict:
        return worst(finding for finding in self.findings if finding.name not in self.uncounted)

    @property
    def violated(self) -> list[str]:
        return [
            each.name
            for each in self.findings
            if each.verdict is Verdict.VIOLATED and each.name not in self.uncounted
        ]

    def plain(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict.value,
            "violated": self.violated,
            "properties": {each.name: each.verdict.value for each in self.findings},
            "why": {each.name: each.why for each in self.findings},
            "not_claimed": self.uncounted,
            "seconds": round(self.seconds, 3),
            "faults": self.faults,
            "faults_in_all": sum(self.faults.values()),
            "grants": self.grants,
            "grants_per_second": round(self.grants / self.seconds, 1) if self.seconds else None,
            "unknown_outcomes": self.unknown,
            "believers_overlapping": len(self.overlaps),
            "believers_overlapping_unexcused": len(self.unexcused),
            "believers_overlapping_excused_by": self.excused,
            "stalls": self.stalls,
            "stalled_s": round(self.stalled_s, 3),
            "judged_s": round(self.judged_s, 3),
            "updates": self.updates,
            "stale_writes_accepted": len(self.stale),
            "stale_writes_refused": self.refused,
            "lost_updates": len(self.lost),
            "token_regressions": len(self.regressions),
            "token_duplicates": len(self.duplicates),
            "token_mismatches": len(self.mismatches),
            "order_of_grants": self.lock_order.verdict.value,
            "order_of_tokens": self.token_order.verdict.value,
            "order_of_updates": self.update_order.verdict.value,
            "longest_outage_s": round(self.longest_outage_s, 3),
            "healings": len(self.first_grants_s),
            "first_grant_after_healing_s": _spread(self.first_grants_s),
            "grant_after_death_of_holder_s": _spread(self.after_holder_s),
            "grant_after_death_of_leader_s": _spread(self.after_leader_s),
        }


def _spread(times: Sequence[float]) -> dict[str, float | None]:
    return {
        "median": round(median(times), 3) if times else None,
        "longest": round(max(times), 3) if times else None,
    }


def judge(history: History, claim: TortureClaim) -> Judgement:
    grants = history.grants
    writes = [each for each in history.accesses if each.kind == "write"]
    excuses = Excuses(history, claim)
    all_overlaps = overlaps(grants)
    reasons = [excuses.reason(pair) for pair in all_overlaps]
    judgement = Judgement(
        seconds=(history.ended - history.began) / NS,
        faults=dict(sorted(Tally(fault.kind for fault in history.faults).items())),
        grants=len(grants),
        unknown=sum(stay.outcome == "unknown" for stay in history.stays)
        + sum(each.returned is None for each in history.updates),
        overlaps=all_overlaps,
        unexcused=[pair for pair, why in zip(all_overlaps, reasons, strict=True) if why is None],
        excused=dict(sorted(Tally(why for why in reasons if why is not None).items())),
        stalls=len(history.stalls),
        stalled_s=sum(ended - began for began, ended in history.stalls) / NS,
        judged_s=excuses.judged(history.began) / NS,
        stale=stale_writes(writes),
        refused=sum(not each.accepted for each in history.accesses),
        updates=sum(each.accepted for each in writes),
        lost=lost_updates(writes),
        regressions=regressions(
            grants, lambda stay: claim.excludes or excuses.is_calm(_let_in(stay), stay.client)
        ),
        duplicates=duplicates(grants),
        mismatches=mismatches(grants, history.accesses),
        lock_order=lock_order(grants, is_leased=not claim.counts_me1),
        token_order=lock_order(grants, is_leased=True),
        update_order=update_order(history),
        longest_outage_s=longest_outage(history.stays) / NS,
        first_grants_s=[
            each / NS for each in first_grants(grants, history.healings, history.ended)
        ],
        after_holder_s=_outages(
            history,
            [
                _left(stay)
                for stay in grants
                if stay.ending == "killed" and _left(stay) < history.ended
            ],
        ),
        after_leader_s=_outages(
            history,
            [
                fault.began
                for fault in history.faults
                if fault.kind == "kill-node" and fault.whom.endswith(LEADING)
            ],
        ),
    )
    judgement.findings = [
        _me1(judgement, claim),
        *([_fence(judgement)] if claim.has_tokens and claim.is_fenced else []),
    ]
    judgement.findings.append(_progress(judgement, history))
    if not claim.counts_me1 and not claim.accepts_excuses:
        judgement.uncounted.append(ME1.name)
    if not claim.progresses:
        judgement.uncounted.append(ME2_DEADLOCK.name)
    lacking = _lacking(judgement, history, claim)
    if lacking:
        judgement.findings = [
            (
                each
                if each.verdict is Verdict.VIOLATED
                else each._replace(verdict=Verdict.UNDECIDED, why=lacking)
            )
            for each in judgement.findings
        ]
    return judgement


# Searching the history.


def by_lock(stays: Iterable[Stay]) -> list[list[Stay]]:
    found: dict[str, list[Stay]] = {}
    for stay in stays:
        found.setdefault(stay.lock, []).append(stay)
    return list(found.values())


def overlaps(grants: Sequence[Stay]) -> list[tuple[Stay, Stay]]:
    """Return every pair of stays whose clients believed to hold the lock at the same time."""
    found = []
    for stays in by_lock(grants):
        in_order = sorted(stays, key=_let_in)
        judgement = MutexJudgement()
        for place, is_entry in _entries_and_exits(in_order):
            if is_entry:
                inside = judgement.entry(place).inside
                found += [(in_order[other], in_order[place]) for other in inside]
            else:
                judgement.exit(place)
    return found


def _entries_and_exits(stays: Sequence[Stay]) -> Iterator[tuple[int, bool]]:
    """Yield the place of the stay that begins or ends, and whether it begins, in order of time.

    Stays that end at a moment do so before others begin; a stay of no length ends after its own
    beginning.
    """
    moments = []
    for place, stay in enumerate(stays):
        begins, ends = _let_in(stay), _left(stay)
        moments.append((begins, 1, place, 0))
        moments.append((ends, 0, place, 1) if ends > begins else (begins, 1, place, 1))
    for _, _, place, is_exit in sorted(moments):
        yield place, not is_exit


def _together(one: Stay, other: Stay) -> Window:
    """Return the time in which both clients believed to hold the lock."""
    return _let_in(other), min(_left(one), _left(other))


class Excuses:
    """Times in which faults and stalls of the machine excuse two leases on one lock."""

    def __init__(self, history: History, claim: TortureClaim) -> None:
        self._ended = history.ended
        self._of: defaultdict[str, list[tuple[Window, str]]] = defaultdict(list)  # by client
        self._calm: dict[tuple[str, ...], list[Window]] = {}
        aftermath = round(outlasting(claim.lease_s) * NS)
        for fault in history.faults:
            ended = history.ended if fault.ended is None else fault.ended
            window = fault.began, ended + aftermath
            if fault.kind in claim.excuses:
                self._of[ALL_CLIENTS].append((window, fault.kind))
            elif fault.kind in OUT_OF_HEARING:
                self._of[fault.client].append((window, fault.kind))
        margin = round(STALL_MARGIN_S * NS)
        self._of[ALL_CLIENTS] += [
            ((began - margin, ended + margin), STALL) for began, ended in history.stalls
        ]

    def calm(self, *clients: str) -> list[Window]:
        """Return the times in which nothing excuses an overlap of these clients."""
        if clients not in self._calm:
            windows = [window for each in (*clients, ALL_CLIENTS) for window, _ in self._of[each]]
            self._calm[clients] = _without((0, self._ended + 1), windows)
        return self._calm[clients]

    def judged(self, since: int) -> int:
        """Return for how long no overlap was excused whatever its clients were."""
        return sum(max(0, min(end, self._ended) - max(start, since)) for start, end in self.calm())

    def is_calm(self, time: int, client: str) -> bool:
        return any(start <= time <= end for start, end in self.calm(client))

    def reason(self, pair: tuple[Stay, Stay]) -> str | None:
        """Return what excuses an overlap: a kind of fault, or "stall"; None if a part of it has no
        excuse.
        """
        began, ended = _together(*pair)
        ended = max(ended, began + 1)  # the clients believe it for a moment at least
        clients = tuple(sorted({stay.client for stay in pair}))
        if any(max(began, start) < min(ended, end) for start, end in self.calm(*clients)):
            return None
        return next(
            kind
            for each in (*clients, ALL_CLIENTS)
            for (start, end), kind in self._of[each]
            if max(began, start) < min(ended, end)
        )


def _without(span: Window, windows: Iterable[Window]) -> list[Window]:
    """Return the parts of a span that are in none of the windows."""
    found = []
    start, last = span
    for began, ended in sorted(windows):
        if began > start:
            found.append((start, min(began, last)))
        start = max(start, ended)
        if start >= last:
            return found
    return [*found, (start, last)]


def _let_in(stay: Stay) -> int:
    assert stay.answered is not None
    return stay.answered


def _left(stay: Stay) -> int:
    assert stay.left is not None
    return stay.left


def stale_writes(writes: Sequence[Access]) -> list[Access]:
    """Return the accepted writes that came after a write of a later holder."""
    orders: defaultdict[str, WriteOrder[tuple[str, int]]] = defaultdict(WriteOrder)
    return [
        write
        for write in writes
        if write.accepted and orders[write.lock].accept(write.whose, write.token)
    ]


def lost_updates(writes: Sequence[Access]) -> list[Access]:
    """Return the accepted writes that build on an outdated value."""
    found = []
    values: dict[str, int] = {}
    for write in writes:
        if write.accepted:
            assert write.value is not None
            if write.value != values.get(write.lock, 0):
                found.append(write)
            values[write.lock] = write.value + 1
    return found


def regressions(
    grants: Sequence[Stay], hears_at_once: Callable[[Stay], bool] = lambda _: False
) -> list[tuple[Stay, Stay]]:
    """Return grants whose token is not larger than that of an earlier grant.

    Another grant came before if its client had heard of it when this one was asked for.  If clients
    hear of their grants at once, it is enough that the other client heard first.
    """

    def issued(stay: Stay) -> IssuedToken:
        asked = _let_in(stay) if hears_at_once(stay) else stay.asked
        return IssuedToken(asked, _let_in(stay), (_token(stay),), str(stay))

    found = []
    for stays in by_lock(stay for stay in grants if stay.token is not None):
        tokens = [issued(stay) for stay in stays]
        pairs = sorted(not_larger(tokens), key=lambda pair: (tokens[pair.later].asked, pair.later))
        found += [(stays[earlier], stays[later]) for earlier, later in pairs]
    return found


def _token(stay: Stay) -> int:
    assert stay.token is not None
    return stay.token


def duplicates(grants: Sequence[Stay]) -> list[tuple[Stay, Stay]]:
    """Return grants whose token another grant of the same lock has, too."""
    stays = [stay for stay in grants if stay.token is not None]
    pairs = repeated((stay.lock, stay.token) for stay in stays)
    return [(stays[earlier], stays[later]) for earlier, later in pairs]


def mismatches(grants: Sequence[Stay], accesses: Sequence[Access]) -> list[tuple[Stay, Access]]:
    """Return the first access of each stay that shows another token than the granted one."""
    granted = {(stay.client, stay.number): stay for stay in grants}
    found: dict[tuple[str, int], tuple[Stay, Access]] = {}
    for access in accesses:
        stay = granted.get(access.whose)
        if stay is not None and stay.token != access.token:
            found.setdefault(access.whose, (stay, access))
    return list(found.values())


def lock_order(grants: Sequence[Stay], *, is_leased: bool) -> OrderOutcome:
    outcomes = []
    for stays in by_lock(grants):
        operations = [
            Operation(stay.asked, stay.answered, LockEntry(stay.token, _left(stay)), str(stay))
            for stay in stays
        ]
        outcomes.append(linearise(operations, LockModel(is_leased=is_leased)))
    return _worst(outcomes, "no grants")


def update_order(history: History) -> OrderOutcome:
    locks: dict[str, list[Operation]] = {}
    for each in history.updates:
        title = (
            f"that client {each.client} read {each.value} in its stay {each.stay} and wrote"
            f" {each.value + 1}"
        )
        locks.setdefault(each.lock, []).append(
            Operation(each.invoked, each.returned, each.value, title)
        )
    return _worst([linearise(operations, Counter()) for operations in locks.values()], "no writes")


def _worst(outcomes: list[OrderOutcome], none: str) -> OrderOutcome:
    order = (Verdict.VIOLATED, Verdict.UNDECIDED, Verdict.HOLDS)
    return min(
        outcomes,
        key=lambda each: order.index(each.verdict),
        default=OrderOutcome(Verdict.UNDECIDED, none),
    )


def longest_outage(stays: Sequence[Stay]) -> int:
    """Return the longest time without a grant while a client was waiting."""
    longest = 0
    for each in by_lock(stays):
        changes = [(stay.asked, 0, 1) for stay in each]
        changes += [
            (stay.answered or _left(stay), 1 if stay.is_granted else 2, -1) for stay in each
        ]
        waiting, waited, before = 0, 0, 0
        for time, kind, change in sorted(changes):
            if waiting:
                waited += time - before
                longest = max(longest, waited)
            if kind == 1:
                waited = 0
            waiting, before = waiting + change, time
    return longest


def first_grants(grants: Sequence[Stay], healings: Sequence[int], ended: int) -> list[int]:
    """Return the time from each healing to the first grant after it, or to the end."""
    let_in = sorted(_let_in(stay) for stay in grants)
    found = []
    index = 0
    for healed in sorted(healings):
        while index < len(let_in) and let_in[index] < healed:
            index += 1
        found.append((let_in[index] if index < len(let_in) else ended) - healed)
    return found


def _outages(history: History, deaths: Sequence[int]) -> list[float]:
    return [each / NS for each in first_grants(history.grants, deaths, history.ended)]


# Verdicts.


def _unexcused_me1(found: Judgement) -> Finding:
    """Judge ME1 with leases: only overlaps that nothing excuses count."""
    if found.unexcused:
        return Finding(
            ME1.name, Verdict.VIOLATED, f"without an excuse {_overlapping(found.unexcused)}"
        )
    if not found.judged_s:
        return Finding(
            ME1.name,
            Verdict.UNDECIDED,
            "nothing was judged: there was always a fault or a stall that excuses an overlap",
        )
    excused = ", ".join(f"{count} by {kind}" for kind, count in found.excused.items())
    why = (
        f"no overlap without an excuse in {found.judged_s:.0f} s;"
        f" {counted(len(found.overlaps), 'overlap')} excused{f': {excused}' if excused else ''}"
    )
    return Finding(ME1.name, Verdict.HOLDS, why)


def _overlapping(pairs: Sequence[tuple[Stay, Stay]]) -> str:
    began, ended = _together(*pairs[0])
    first = f"first {pairs[0][0]} and {pairs[0][1]}, for {(ended - began) / 1e6:.1f} ms"
    return f"{counted(len(pairs), 'time')} two clients held the lock, {first}"


def _me1(found: Judgement, claim: TortureClaim) -> Finding:
    if claim.accepts_excuses:
        return _unexcused_me1(found)
    reasons = []
    if found.overlaps:
        reasons.append(_overlapping(found.overlaps))
    if found.lost and not (claim.has_tokens and claim.is_fenced):
        reasons.append(f"{len(found.lost)} updates were lost")
    if found.stale and not (claim.has_tokens and claim.is_fenced):
        reasons.append(f"{len(found.stale)} writes came after a write of a later holder")
    orders = (found.lock_order, found.update_order) if claim.counts_me1 else ()
    reasons += [order.why for order in orders if order.verdict is Verdict.VIOLATED]
    if reasons:
        return Finding(ME1.name, Verdict.VIOLATED, "; ".join(reasons))
    for order in orders:
        if order.verdict is Verdict.UNDECIDED:
            return Finding(ME1.name, Verdict.UNDECIDED, order.why)
    return Finding(ME1.name, Verdict.HOLDS, f"{counted(found.grants, 'grant')}, no overlap")


def _written(token: int | None) -> str:
    return "none" if token is None else token_text(token)


def _fence(found: Judgement) -> Finding:
    reasons = []
    if found.stale:
        write = found.stale[0]
        reasons.append(
            f"{len(found.stale)} stale writes were accepted, first one of client {write.client}"
            f" with token {_written(write.token)}"
        )
    if found.lost:
        write = found.lost[0]
        reasons.append(
            f"{len(found.lost)} updates were lost, first when client {write.client} wrote on top"
            f" of the outdated value {write.value}"
        )
    for pairs, title in (
        (found.regressions, "a token not larger than an earlier one"),
        (found.duplicates, "a duplicate token"),
    ):
        if pairs:
            reasons.append(
                f"{counted(len(pairs), 'grant')} had {title},"
                f" first {pairs[0][1]} after {pairs[0][0]}"
            )
    if found.mismatches:
        stay, access = found.mismatches[0]
        reasons.append(
            f"{len(found.mismatches)} stays showed a token not granted to them, first {stay} showed"
            f" {_written(access.token)}"
        )
    orders = (found.token_order, found.update_order)
    reasons += [order.why for order in orders if order.verdict is Verdict.VIOLATED]
    if reasons:
        return Finding(FENCE.name, Verdict.VIOLATED, "; ".join(reasons))
    for outcome in orders:
        if outcome.verdict is Verdict.UNDECIDED:
            return Finding(FENCE.name, Verdict.UNDECIDED, outcome.why)
    return Finding(
        FENCE.name,
        Verdict.HOLDS,
        f"{found.updates} updates, none lost, none stale; {found.refused} refused",
    )


def _progress(found: Judgement, history: History) -> Finding:
    if found.first_grants_s and max(found.first_grants_s) >= PATIENCE_S:
        why = f"no grant for {max(found.first_grants_s):.0f} s after all faults were healed"
        return Finding(ME2_DEADLOCK.name, Verdict.UNDECIDED, why)
    if not found.first_grants_s:
        return Finding(
            ME2_DEADLOCK.name, Verdict.UNDECIDED, "no fault was healed, so progress was not tested"
        )
    why = (
        f"after each of {len(history.healings)} healings there was a grant within"
        f" {max(found.first_grants_s):.2f} s"
    )
    return Finding(ME2_DEADLOCK.name, Verdict.HOLDS, why)


def _lacking(found: Judgement, history: History, claim: TortureClaim) -> str:
    """Return why the run is undecided, or an empty text."""
    if found.grants < FEWEST_GRANTS:
        return f"only {found.grants} grants; a verdict needs {FEWEST_GRANTS}"
    if len({stay.client.partition(".")[0] for stay in history.grants}) < 2:
        return "only one client was ever granted the lock"
    missing = [kind for kind in claim.faults if not found.faults.get(kind)]
    return f"no fault of kind {', '.join(missing)} occurred" if missing else ""

"""The judgement of E1 to E4, as a fold over the leaders that processes name, and over faults.

A process *names* a leader by its indication `Leader`, and forgets the name when it crashes.  It
*claims* to lead from naming itself until it names another process or none, or crashes.  A leader is
*settled* once every process that is up has named it, and *in office* while it is up, not paused,
and none of its links is cut.  Where leaders have terms, a process that was down when the others
settled on one may still name a leader of an earlier term: that leader is not a new one.

Searches and runs share the fold.  A search needs the state between two events as a value: `frozen`
and `thawed` convert it.  A run keeps one `ElectionJudgement` and adds times, causes and costs.
"""

from __future__ import annotations

from typing import NamedTuple

from habemus.core.process import ProcessId
from habemus.core.properties import Kind, Property

E1 = Property(
    "E1",
    Kind.ALWAYS,
    "never two leaders, in the scope that the algorithm claims: ever, per term, or eventually",
)
E2 = Property("E2", Kind.EVENTUALLY, "every process that stays up ends up with a leader")
E3 = Property("E3", Kind.EVENTUALLY, "all that are up name the same leader, and it is up")
E4 = Property("E4", Kind.ALWAYS, "no new leader while the leader is up")
ELECTED = Property("elected", Kind.SOMETIMES, "a process is elected")

PROPERTIES = (E1, E2, E3, E4)


class LeadershipClaim(NamedTuple):
    process: ProcessId
    term: int
    settled: bool = False


class NamedLeader(NamedTuple):
    """The consequences of one indication `Leader`."""

    left: ProcessId | None = None  # the settled leader that the process has turned away from
    was_in_office: bool = False  # that leader
    is_new_claim: bool = False
    rivals: tuple[ProcessId, ...] = ()  # other processes that claim and were never settled
    taken_over: tuple[ProcessId, ...] = ()  # other processes that claim and were settled
    winner: ProcessId | None = None  # another process that claimed the term before
    is_settled: bool = False  # all that are up name one leader now, and it claims to lead

    def violated(self, scope: str) -> list[str]:
        """Return the properties that the indication itself violates.

        E1 "ever" allows a claim against a settled leader, a *take-over*: that is a matter of E4,
        and of E1 only if both go on to claim.  An "eventual" election may do all of that for a
        while.
        """
        violated = []
        if self.was_in_office and scope != "eventually":
            violated.append(E4.name)
        if (scope == "ever" and self.rivals) or (scope == "term" and self.winner is not None):
            violated.append(E1.name)
        return violated


class ElectionState(NamedTuple):
    """The state of the judgement as a value; without pauses and cuts, which a search does not have.

    Tuples of pairs are sorted.
    """

    up: tuple[ProcessId, ...]
    named: tuple[tuple[ProcessId, ProcessId], ...] = ()
    claims: tuple[LeadershipClaim, ...] = ()
    settled: ProcessId | None = None
    winners: tuple[tuple[int, ProcessId], ...] = ()


class ElectionJudgement:
    """The leader that each process has named, and the processes that claim to lead.

    Every method takes constant time until all processes have named a leader: a ring may have
    100,000 processes.
    """

    def __init__(self, processes: tuple[ProcessId, ...], scope: str) -> None:
        self.scope = scope  # of E1: "ever", "term" or "eventually"
        self.up = set(processes)
        self.named: dict[ProcessId, ProcessId] = {}
        self.claims: dict[ProcessId, LeadershipClaim] = {}
        self.settled: ProcessId | None = None  # until a process names another leader
        self.winners: dict[int, ProcessId] = {}  # by term, where E1 is about terms
        self._paused: set[ProcessId] = set()
        self._cut: set[tuple[ProcessId, ProcessId]] = set()

    # Events.

    def name(self, process: ProcessId, leader: ProcessId | None, term: int) -> NamedLeader:
        """Judge that a process names a leader; None: it no longer knows one."""
        result = NamedLeader()
        if leader is None:
            self.named.pop(process, None)
        else:
            if self.settled not in (None, leader) and not self._is_late(process, term):
                result = NamedLeader(self.settled, self._is_in_office(self.settled))
                self.settled = None
            self.named[process] = leader
        if leader == process:
            result = self._claim(result, process, term)
        else:
            self.claims.pop(process, None)
        return result if leader is None else result._replace(is_settled=self._settle())

    def crash(self, process: ProcessId) -> bool:
        """Judge a crash.  Return whether the others have a settled leader then."""
        self.up.discard(process)
        self._paused.discard(process)
        self.named.pop(process, None)
        self.claims.pop(process, None)
        if process == self.settled:
            self.settled = None
        return self._settle()

    def step_down(self, process: ProcessId) -> None:
        """Judge that the application has a leader end its term: the next one is no offence."""
        if process == self.settled:
            self.settled = None

    def recover(self, process: ProcessId) -> None:
        self.up.add(process)

    def pause(self, process: ProcessId) -> None:
        self._paused.add(process)

    def resume(self, process: ProcessId) -> None:
        self._paused.discard(process)

    def cut(self, process: ProcessId, peer: ProcessId) -> None:
        self._cut.add((process, peer))

    def heal(self, process: ProcessId, peer: ProcessId) -> None:
        self._cut.discard((process, peer))

    def is_paused(self, process: ProcessId) -> bool:
        return process in self._paused

    def _claim(self, result: NamedLeader, process: ProcessId, term: int) -> NamedLeader:
        held = self.claims.get(process)
        if held is not None and held.term == term:
            return result
        others = sorted(claim for claim in self.claims.values() if claim.process != process)
        winner = self.winners.setdefault(term, process) if self.scope == "term" else process
        self.claims[process] = LeadershipClaim(process, term)
        return result._replace(
            is_new_claim=True,
            rivals=tuple(claim.process for claim in others if not claim.settled),
            taken_over=tuple(claim.process for claim in others if claim.settled),
            winner=winner if winner != process else None,
        )

    def _is_late(self, process: ProcessId, term: int) -> bool:
        """Return whether a process that was down while the others settled on a leader names one of
        an earlier term, of which it heard by a late message: that makes no new leader.
        """
        claim = None if self.settled is None else self.claims.get(self.settled)
        return (
            self.scope == "term"
            and self.named.get(process) != self.settled
            and claim is not None
            and term < claim.term
        )

    def _is_in_office(self, leader: ProcessId | None) -> bool:
        return (
            leader in self.up
            and leader not in self._paused
            and not any(leader in link for link in self._cut)
        )

    def _settle(self) -> bool:
        if len(self.named) != len(self.up):  # first, because it takes constant time
            return False
        leaders = set(self.named.values())
        leader = leaders.pop() if len(leaders) == 1 else None
        if leader is None or leader not in self.claims:
            return False
        self.claims[leader] = self.claims[leader]._replace(settled=True)
        self.settled = leader
        return True

    # The present, and with that the end of a run.

    def without_leader(self) -> list[ProcessId]:
        """Return the processes that are up and know no leader: E2 is violated if they never do."""
        return sorted(self.up - self.named.keys())

    def parties(self) -> dict[ProcessId, list[ProcessId]]:
        """Return the processes that have named each leader."""
        parties: dict[ProcessId, list[ProcessId]] = {}
        for process, leader in sorted(self.named.items()):
            parties.setdefault(leader, []).append(process)
        return dict(sorted(parties.items()))

    def disagrees(self) -> bool:
        """Return whether E3 is violated if this is the end: more than one leader, or one down."""
        leaders = set(self.named.values())
        return len(leaders) > 1 or not leaders <= self.up

    def claims_conflict(self) -> bool:
        """Return whether E1 is violated if this is the end, take-overs included."""
        return self.scope != "term" and len(self.claims) > 1

    # As a value.

    def frozen(self) -> ElectionState:
        return ElectionState(
            tuple(sorted(self.up)),
            tuple(sorted(self.named.items())),
            tuple(sorted(self.claims.values())),
            self.settled,
            tuple(sorted(self.winners.items())),
        )

    @classmethod
    def thawed(cls, state: ElectionState, scope: str) -> ElectionJudgement:
        judgement = cls(state.up, scope)
        judgement.named.update(state.named)
        judgement.claims.update((claim.process, claim) for claim in state.claims)
        judgement.settled = state.settled
        judgement.winners.update(state.winners)
        return judgement

"""Judges a run of an election: E1 to E4, and what it cost.

A process *names* a leader by its indication `Leader`, and forgets whom it named when it crashes.
It *claims* to lead from naming itself until it names another, or nobody, or crashes; a paused
process still claims.  A leader is *settled* at the moment when every process that is up has named
it.

E1 depends on the scope.  "term": no two processes ever claim the same term.  "eventually": at the
end at most one process that is up claims to lead.  "ever": no process begins to claim while another
claims.  One case is not counted there: a claim against a settled leader is a *take-over*, which is
what E4 is about, and the old leader may claim for as long as the news can be under way (`handover`,
the longest delay of a message).  If both claim for longer than that, or for ever, E1 is violated as
well.

E4 is violated when a process turns from the settled leader to another while that leader is *in
office*: up, not paused, and none of its links cut.

E2, E3 and an eventual E1 are about the end of the run and follow the rule of `finality`, where a
change is a process that names another leader than before.  So does an eventual E4, where a change
is a process that leaves a leader in office: in a run that ends soon after, that may have been the
last time, and E4 is undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from habemus.core.events import Event
from habemus.core.process import ProcessId
from habemus.core.properties import Finding, Kind, Property, Verdict
from habemus.problems.finality import FAULTS, Finality, in_ms

E1 = Property(
    "E1",
    Kind.ALWAYS,
    "never two leaders, in the scope that the algorithm claims: ever, per term, or eventually",
)
E2 = Property("E2", Kind.EVENTUALLY, "every process that stays up ends up with a leader")
E3 = Property("E3", Kind.EVENTUALLY, "all that are up name the same leader, and it is up")
E4 = Property("E4", Kind.ALWAYS, "no new leader while the leader is up")
ELECTED = Property("elected", Kind.SOMETIMES, "somebody is elected")

PROPERTIES = (E1, E2, E3, E4)


@dataclass
class Claim:
    """A process considers itself leader."""

    since: int
    term: int
    settled: bool = False  # all that were up have named it, at some moment


@dataclass
class ElectionMonitor:
    """Fed with every event of a run in order; `findings` says what became of each property."""

    processes: tuple[ProcessId, ...]
    scope: str = "ever"
    label: Callable[[ProcessId], str] = str
    handover: int = 0  # the longest delay of a message
    planned_end: int | None = None

    up: set[ProcessId] = field(init=False)
    named: dict[ProcessId, ProcessId] = field(
        default_factory=dict, init=False
    )  # whom each process that is up takes for the leader
    claims: dict[ProcessId, Claim] = field(default_factory=dict, init=False)
    settled: ProcessId | None = field(
        default=None, init=False
    )  # the leader that all have named and nobody has left yet
    elections: int = field(default=0, init=False)  # how often a process began to claim
    changes: int = field(default=0, init=False)  # how often it was another one than before
    turnarounds: list[int] = field(default_factory=list, init=False)

    _now: int = field(default=0, init=False, repr=False)
    _paused: set[ProcessId] = field(default_factory=set, init=False, repr=False)
    _cut: set[tuple[ProcessId, ProcessId]] = field(default_factory=set, init=False, repr=False)
    _winners: dict[int, ProcessId] = field(default_factory=dict, init=False, repr=False)  # by term
    _take_overs: dict[tuple[ProcessId, ProcessId], int] = field(
        default_factory=dict, init=False, repr=False
    )  # since when both claim
    _last_winner: ProcessId | None = field(default=None, init=False, repr=False)
    _last_change: int = field(default=0, init=False, repr=False)
    _last_fault: int = field(default=0, init=False, repr=False)
    _last_left: tuple[int, str] | None = field(
        default=None, init=False, repr=False
    )  # when a leader in office was left, and by whom
    _was_settled: bool = field(default=False, init=False, repr=False)
    _opened: int | None = field(default=0, init=False, repr=False)  # since when an election is on
    _called: bool = field(default=False, init=False, repr=False)
    _closed: int | None = field(
        default=None, init=False, repr=False
    )  # when the last process named the settled leader
    _answered: set[ProcessId] = field(
        default_factory=set, init=False, repr=False
    )  # who has named a leader since the election is on
    _is_complete: bool = field(default=False, init=False, repr=False)  # all have
    _violated: dict[str, Finding] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self.up = set(self.processes)

    def observe(self, event: Event) -> None:
        kind, process = event.kind, event.process
        if (
            kind in ("send", "receive", "timer", "choose", "start", "lost", "duplicate")
            or event.part
        ):
            return
        self._advance(event.time)
        if kind == "indicate" and event.name == "Leader":
            fields = event.fields()
            self._name(process, fields["process"], fields.get("term", 0))
        elif kind == "request" and event.name == "elect":
            if not self._called and not self.elections:
                self._opened = (
                    event.time
                )  # the first call, not the start, begins the first election
            self._called = True
            self._open()
        elif kind in FAULTS:
            self._last_fault = event.time
            self._suffer(event)

    def _advance(self, time: int) -> None:
        """A take-over whose news had time to arrive is none."""
        self._now = time
        for (old, new), since in sorted(self._take_overs.items()):
            if time > since + self.handover:
                self._note_two(
                    old,
                    new,
                    since,
                    f"and both still did at {in_ms(since + self.handover)}, when the news had had"
                    " time to arrive",
                )
                del self._take_overs[old, new]

    def _suffer(self, event: Event) -> None:
        kind, process = event.kind, event.process
        if kind == "crash":
            self.up.discard(process)
            self._paused.discard(process)
            self.named.pop(process, None)
            self._resign(process)
            if process == self.settled:
                self._open()
                self.settled = None
            self._settle()
        elif kind == "recover":
            self.up.add(process)
        elif kind == "pause":
            self._paused.add(process)
        elif kind == "resume":
            self._paused.discard(process)
        elif kind == "cut" and event.peer is not None:
            self._cut.add((process, event.peer))
        elif kind == "heal" and event.peer is not None:
            self._cut.discard((process, event.peer))

    # Naming.

    def _name(self, process: ProcessId, leader: ProcessId | None, term: int) -> None:
        before = self.named.get(process)
        if leader != before:
            self._last_change = self._now
        if leader is None:
            self.named.pop(process, None)
        else:
            self.named[process] = leader
        if self.settled is not None and leader is not None and leader != self.settled:
            self._leave_settled(process, leader)
        if leader == process:
            self._claim(process, term)
        else:
            self._resign(process)
        if leader is not None:
            self._answered.add(process)
            self._settle()

    def _claim(self, process: ProcessId, term: int) -> None:
        held = self.claims.get(process)
        if held is not None and held.term == term:
            return
        self.elections += 1
        if self._last_winner not in (None, process):
            self.changes += 1
        self._last_winner = process
        if self.scope == "term":
            winner = self._winners.setdefault(term, process)
            if winner != process and "E1" not in self._violated:
                why = (
                    f"at {in_ms(self._now)} {self.label(process)} became leader of term {term},"
                    f" which {self.label(winner)} had won before"
                )
                self._violated["E1"] = Finding(
                    "E1", Verdict.VIOLATED, why, self._now, (winner, process)
                )
        elif self.scope == "ever":
            for other, claim in sorted(self.claims.items()):
                if other == process:
                    continue
                if claim.settled:
                    self._take_overs[other, process] = self._now
                else:
                    self._note_two(other, process, self._now)
        self.claims[process] = Claim(self._now, term)

    def _resign(self, process: ProcessId) -> None:
        if self.claims.pop(process, None) is not None:
            for pair in [pair for pair in self._take_overs if process in pair]:
                del self._take_overs[pair]

    def _note_two(self, old: ProcessId, new: ProcessId, time: int, more: str = "") -> None:
        if "E1" in self._violated:
            return
        state = " and paused" if old in self._paused else ""
        why = (
            f"at {in_ms(time)} {self.label(new)} became leader while {self.label(old)} led since"
            f" {in_ms(self.claims[old].since)}{state}"
        )
        self._violated["E1"] = Finding(
            "E1", Verdict.VIOLATED, f"{why}{', ' + more if more else ''}", time, (old, new)
        )

    def _settle(self) -> None:
        if len(self.named) != len(
            self.up
        ):  # first, because it costs nothing: a ring may have 100,000 processes
            return
        leaders = set(self.named.values())
        if len(leaders) != 1:
            return
        [leader] = leaders
        if leader not in self.claims:
            return
        self.claims[leader].settled = True
        self.settled = leader
        self._was_settled = True
        if not self._is_complete:
            self._closed = self._now
            self._is_complete = self._answered >= self.up

    def _in_office(self, leader: ProcessId) -> bool:
        return (
            leader in self.up
            and leader not in self._paused
            and not any(leader in link for link in self._cut)
        )

    def _leave_settled(self, process: ProcessId, leader: ProcessId) -> None:
        assert self.settled is not None
        if self._in_office(self.settled) and "E4" not in self._violated:
            turned = (
                "made itself leader" if leader == process else f"turned to {self.label(leader)}"
            )
            led = f"{self.label(self.settled)}, whom all had named, was in office"
            why = f"at {in_ms(self._now)} {self.label(process)} {turned} while {led}"
            if self.scope == "eventually":
                self._last_left = self._now, why
            else:
                self._violated["E4"] = Finding(
                    "E4", Verdict.VIOLATED, why, self._now, (self.settled, process)
                )
        self._open()
        self.settled = None

    # Elections, for the turnaround.

    def _open(self) -> None:
        """A new election begins, unless one is on."""
        if self._closed is not None:
            self._close()
            self._opened = self._now
            self._answered.clear()
            self._is_complete = False

    def _close(self) -> None:
        if self._opened is not None and self._closed is not None:
            self.turnarounds.append(self._closed - self._opened)
        self._opened = self._closed = None

    def finished_turnarounds(self) -> list[int]:
        """From the call, or the crash of the leader, to the last process that named the new one;
        one number for each election.
        """
        if self._opened is None or self._closed is None:
            return list(self.turnarounds)
        return [*self.turnarounds, self._closed - self._opened]

    # The end.

    def findings(
        self, ending: str, awaits: Mapping[ProcessId, Sequence[ProcessId]] | None = None
    ) -> list[Finding]:
        """What became of each property when the run ended as it did: `quiescent`, `done`, `time` or
        `events`.
        """
        if ending == "time" and self.planned_end is not None:
            self._advance(self.planned_end)
        elif ending in ("quiescent", "done"):
            self._advance(self._now + self.handover + 1)
        return [
            self._judge_e1(ending),
            self._judge_e2(ending, awaits or {}),
            self._judge_e3(ending),
            self._judge_e4(ending),
        ]

    def _final(
        self, name: str, ending: str, is_true: bool, why: str, processes: tuple[ProcessId, ...] = ()
    ) -> Finding:
        final = Finality(ending, self.planned_end, self._last_change, self._last_fault)
        return final.finding(name, is_true, why, processes)

    def _judge_e1(self, ending: str) -> Finding:
        if "E1" in self._violated:
            return self._violated["E1"]
        if not self.elections:
            return Finding("E1", Verdict.UNDECIDED, "nobody was elected, so nothing was shown")
        if self.scope == "eventually":
            leading = sorted(self.claims)
            who = (
                f"{self._labels(leading)} consider themselves leaders"
                if len(leading) > 1
                else "at most one considers itself leader"
            )
            return self._final("E1", ending, len(leading) <= 1, f"in the end {who}", tuple(leading))
        if self._take_overs:
            return Finding("E1", Verdict.UNDECIDED, "the run was cut off during a take-over")
        if self.scope == "term":
            return Finding(
                "E1", Verdict.HOLDS, f"{len(self._winners)} terms with a leader, never two in one"
            )
        return Finding(
            "E1",
            Verdict.HOLDS,
            f"{self.elections} times a process became leader, never two at once",
        )

    def _judge_e2(self, ending: str, awaits: Mapping[ProcessId, Sequence[ProcessId]]) -> Finding:
        lacking = sorted(self.up - self.named.keys())
        if not lacking:
            return self._final(
                "E2", ending, True, f"all {len(self.up)} that are up have named a leader"
            )
        told = []
        for process in lacking:
            others = awaits.get(process, ())
            told.append(
                self.label(process) + (f" (waits for {self._labels(others)})" if others else "")
            )
        return self._final(
            "E2", ending, False, f"no leader is known to {', '.join(told)}", tuple(lacking)
        )

    def _judge_e3(self, ending: str) -> Finding:
        by_leader: dict[ProcessId, list[ProcessId]] = {}
        for process, leader in sorted(self.named.items()):
            by_leader.setdefault(leader, []).append(process)
        if not by_leader:
            return Finding(
                "E3", Verdict.UNDECIDED, "nobody has named a leader, so nothing was shown"
            )
        if len(by_leader) > 1:
            parties = [
                f"{self._labels(followers)} for {self.label(leader)}"
                for leader, followers in sorted(by_leader.items())
            ]
            return self._final(
                "E3",
                ending,
                False,
                f"they disagree: {', '.join(parties)}",
                tuple(sorted(self.named)),
            )
        [leader] = by_leader
        if leader not in self.up:
            return self._final(
                "E3", ending, False, f"all name {self.label(leader)}, which is down", (leader,)
            )
        return self._final("E3", ending, True, f"all name {self.label(leader)}")

    def _judge_e4(self, ending: str) -> Finding:
        if "E4" in self._violated:
            return self._violated["E4"]
        if not self._was_settled:
            return Finding(
                "E4",
                Verdict.UNDECIDED,
                "there was never a leader whom all had named, so nothing was shown",
            )
        changes = f"{self.changes} changes of leader"
        if self.scope != "eventually":
            return Finding(
                "E4", Verdict.HOLDS, f"nobody left a leader that was in office; {changes}"
            )
        moment, left = self._last_left or (0, "nobody left a leader that was in office")
        return Finality(ending, self.planned_end, moment, self._last_fault).finding(
            "E4", True, f"{left}; {changes}"
        )

    def _labels(self, processes: Sequence[ProcessId]) -> str:
        return " and ".join(map(self.label, processes))

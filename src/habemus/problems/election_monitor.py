"""Findings about a run of an election, E1 to E4, and its costs.

The judgement itself, with the words that it uses, is `election_judgement`; the monitor adds times,
explanations and counts.

E1 depends on the scope.  "term": no two processes ever claim the same term.  "eventually": at the
end at most one process that is up claims to lead.  "ever": no process begins to claim while another
claims, with one exception: in a *take-over* from a settled leader, the old leader may claim for as
long as the news can be in transit (`handover`, the longest delay of a message).  If both claim for
longer, E1 is violated as well.

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
from habemus.core.properties import Finding, Verdict
from habemus.core.words import counted
from habemus.problems.election_judgement import ElectionJudgement, NamedLeader
from habemus.problems.finality import FAULT_EVENTS, Finality, in_ms

IGNORED = frozenset({"send", "receive", "timer", "choose", "start", "lost", "duplicate"})


@dataclass
class ElectionMonitor:
    """Reads every event of a run in order; `findings` returns a verdict for each property."""

    processes: tuple[ProcessId, ...]
    scope: str = "ever"
    label: Callable[[ProcessId], str] = str
    handover: int = 0  # the longest delay of a message
    planned_end: int | None = None

    elections: int = field(default=0, init=False)  # how often a process began to claim
    changes: int = field(default=0, init=False)  # how often it was another one than before
    turnarounds: list[int] = field(default_factory=list, init=False)

    _judgement: ElectionJudgement = field(init=False, repr=False)
    _now: int = field(default=0, init=False, repr=False)
    _claimed: dict[ProcessId, int] = field(default_factory=dict, init=False, repr=False)  # when
    # the take-overs that go on: the old and the new leader, and since when both claim
    _take_overs: dict[tuple[ProcessId, ProcessId], int] = field(
        default_factory=dict, init=False, repr=False
    )
    _last_winner: ProcessId | None = field(default=None, init=False, repr=False)
    _last_change: int = field(default=0, init=False, repr=False)
    _last_fault: int = field(default=0, init=False, repr=False)
    # the last time a process left a leader in office, and the explanation
    _last_left: tuple[int, str] | None = field(default=None, init=False, repr=False)
    _was_settled: bool = field(default=False, init=False, repr=False)
    _opened: int | None = field(default=0, init=False, repr=False)  # begin of the election
    _called: bool = field(default=False, init=False, repr=False)
    # when the last process named the settled leader
    _closed: int | None = field(default=None, init=False, repr=False)
    # the processes that have named a leader since the election began
    _answered: set[ProcessId] = field(default_factory=set, init=False, repr=False)
    _is_complete: bool = field(default=False, init=False, repr=False)  # all have
    _violated: dict[str, Finding] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self._judgement = ElectionJudgement(self.processes, self.scope)

    @property
    def settled(self) -> ProcessId | None:
        """Leader that all have named and none has left since."""
        return self._judgement.settled

    def observe(self, event: Event) -> None:
        kind = event.kind
        if kind in IGNORED or event.part:
            return
        self._advance(event.time)
        if kind == "indicate" and event.name == "Leader":
            fields = event.fields()
            self._name(event.process, fields["process"], fields.get("term", 0))
        elif kind == "request" and event.name == "elect":
            if not self._called and not self.elections:
                self._opened = event.time  # the first call begins the first election, not the start
            self._called = True
            self._open()
        elif kind == "request" and event.name in ("resign", "begin_term"):
            self._judgement.step_down(event.process)
        elif kind in FAULT_EVENTS:
            self._last_fault = event.time
            self._fault(event)
        if self._take_overs:
            claims = self._judgement.claims
            self._take_overs = {
                (old, new): since
                for (old, new), since in self._take_overs.items()
                if old in claims and new in claims
            }

    def _advance(self, time: int) -> None:
        """Let time pass.  A take-over ends when its news had time to arrive."""
        self._now = time
        for (old, new), since in sorted(self._take_overs.items()):
            if time > since + self.handover:
                until = in_ms(since + self.handover)
                more = f", and both still did at {until}, when the news had had time to arrive"
                self._note_two_leaders(old, new, since, more)
                del self._take_overs[old, new]

    def _fault(self, event: Event) -> None:
        judgement, kind, process = self._judgement, event.kind, event.process
        if kind == "crash":
            if process == judgement.settled:
                self._open()
            if judgement.crash(process):
                self._note_settled()
        elif kind == "recover":
            judgement.recover(process)
        elif kind == "pause":
            judgement.pause(process)
        elif kind == "resume":
            judgement.resume(process)
        elif kind == "cut" and event.peer is not None:
            judgement.cut(process, event.peer)
        elif kind == "heal" and event.peer is not None:
            judgement.heal(process, event.peer)

    # Naming.

    def _name(self, process: ProcessId, leader: ProcessId | None, term: int) -> None:
        if leader != self._judgement.named.get(process):
            self._last_change = self._now
        result = self._judgement.name(process, leader, term)
        if result.left is not None:
            self._note_left(process, leader, result)
            self._open()
        if result.is_new_claim:
            self._note_claim(process, term, result)
        if leader is not None:
            self._answered.add(process)
        if result.is_settled:
            self._note_settled()

    def _note_claim(self, process: ProcessId, term: int, result: NamedLeader) -> None:
        self.elections += 1
        if self._last_winner not in (None, process):
            self.changes += 1
        self._last_winner = process
        self._claimed[process] = self._now
        if "E1" in result.violated(self.scope):
            if result.winner is not None:
                self._note_second_winner(process, term, result.winner)
            else:
                self._note_two_leaders(result.rivals[0], process, self._now)
        if self.scope == "ever":
            for other in result.taken_over:
                self._take_overs[other, process] = self._now

    def _note_second_winner(self, process: ProcessId, term: int, winner: ProcessId) -> None:
        why = (
            f"at {in_ms(self._now)} {self.label(process)} became leader of term {term},"
            f" which {self.label(winner)} had won before"
        )
        self._violated.setdefault(
            "E1", Finding("E1", Verdict.VIOLATED, why, self._now, (winner, process))
        )

    def _note_two_leaders(self, old: ProcessId, new: ProcessId, time: int, more: str = "") -> None:
        state = " and paused" if self._judgement.is_paused(old) else ""
        why = (
            f"at {in_ms(time)} {self.label(new)} became leader while {self.label(old)} led since"
            f" {in_ms(self._claimed[old])}{state}{more}"
        )
        self._violated.setdefault("E1", Finding("E1", Verdict.VIOLATED, why, time, (old, new)))

    def _note_left(self, process: ProcessId, leader: ProcessId | None, result: NamedLeader) -> None:
        if not result.was_in_office or "E4" in self._violated:
            return
        assert result.left is not None and leader is not None
        turned = "made itself leader" if leader == process else f"turned to {self.label(leader)}"
        led = f"{self.label(result.left)}, whom all had named, was in office"
        why = f"at {in_ms(self._now)} {self.label(process)} {turned} while {led}"
        if "E4" in result.violated(self.scope):
            self._violated["E4"] = Finding(
                "E4", Verdict.VIOLATED, why, self._now, (result.left, process)
            )
        else:
            self._last_left = self._now, why

    def _note_settled(self) -> None:
        self._was_settled = True
        if not self._is_complete:
            self._closed = self._now
            self._is_complete = self._answered >= self._judgement.up

    # Elections, for the turnaround.

    def _open(self) -> None:
        """Begin an election, unless one is going on."""
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
        """Return the duration of each election: from the call, or the crash of the leader, until
        the last process has named the new one.
        """
        if self._opened is None or self._closed is None:
            return list(self.turnarounds)
        return [*self.turnarounds, self._closed - self._opened]

    # The end.

    def findings(
        self, ending: str, awaits: Mapping[ProcessId, Sequence[ProcessId]] | None = None
    ) -> list[Finding]:
        """Return the finding of each property.  `ending` is `quiescent`, `done`, `time` or
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
            return Finding("E1", Verdict.UNDECIDED, "no process was elected, so nothing was shown")
        if self.scope == "eventually":
            leading = sorted(self._judgement.claims)
            is_one = not self._judgement.claims_conflict()
            who = (
                "at most one considers itself leader"
                if is_one
                else f"{self._labels(leading)} consider themselves leaders"
            )
            return self._final("E1", ending, is_one, f"in the end {who}", tuple(leading))
        if self._take_overs:
            return Finding("E1", Verdict.UNDECIDED, "the run was cut off during a take-over")
        if self.scope == "term":
            return Finding(
                "E1",
                Verdict.HOLDS,
                f"{counted(len(self._judgement.winners), 'term')} with a leader, never two in one",
            )
        return Finding(
            "E1",
            Verdict.HOLDS,
            f"{counted(self.elections, 'time')} a process became leader, never two at once",
        )

    def _judge_e2(self, ending: str, awaits: Mapping[ProcessId, Sequence[ProcessId]]) -> Finding:
        without = self._judgement.without_leader()
        if not without:
            up = len(self._judgement.up)
            return self._final("E2", ending, True, f"all {up} that are up have named a leader")
        waiting = []
        for process in without:
            others = awaits.get(process, ())
            waiting.append(
                self.label(process) + (f" (waits for {self._labels(others)})" if others else "")
            )
        why = f"no leader is known to {', '.join(waiting)}"
        return self._final("E2", ending, False, why, tuple(without))

    def _judge_e3(self, ending: str) -> Finding:
        parties = self._judgement.parties()
        if not parties:
            return Finding(
                "E3", Verdict.UNDECIDED, "no process has named a leader, so nothing was shown"
            )
        leader = next(iter(parties))
        if not self._judgement.disagrees():
            return self._final("E3", ending, True, f"all name {self.label(leader)}")
        if len(parties) == 1:
            why = f"all name {self.label(leader)}, which is down"
            return self._final("E3", ending, False, why, (leader,))
        sides = [f"{self._labels(each)} for {self.label(one)}" for one, each in parties.items()]
        why = f"they disagree: {', '.join(sides)}"
        return self._final("E3", ending, False, why, tuple(sorted(self._judgement.named)))

    def _judge_e4(self, ending: str) -> Finding:
        if "E4" in self._violated:
            return self._violated["E4"]
        if not self._was_settled:
            return Finding(
                "E4",
                Verdict.UNDECIDED,
                "there was never a leader whom all had named, so nothing was shown",
            )
        changes = counted(self.changes, "change of leader", "changes of leader")
        if self.scope != "eventually":
            return Finding(
                "E4", Verdict.HOLDS, f"no process left a leader that was in office; {changes}"
            )
        moment, left = self._last_left or (0, "no process left a leader that was in office")
        return Finality(ending, self.planned_end, moment, self._last_fault).finding(
            "E4", True, f"{left}; {changes}"
        )

    def _labels(self, processes: Sequence[ProcessId]) -> str:
        return " and ".join(map(self.label, processes))

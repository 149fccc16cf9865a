"""Findings about a run of mutual exclusion, ME1 to ME4, and the costs of its entries.

The monitor reads events, so simulated runs, counterexamples and live runs are judged alike.  The
judgement itself is `mutex_judgement`; the monitor adds times, causes and explanations.  Only the
topmost part of each process counts as "inside": a mutex that is used as a component is judged in a
run of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from habemus.core.events import Event
from habemus.core.mutex_events import CHANGES
from habemus.core.process import ProcessId
from habemus.core.properties import Finding, Verdict
from habemus.core.words import counted
from habemus.problems.finality import FAULT_EVENTS, Finality
from habemus.problems.mutex_judgement import MutexJudgement, Overtaking
from habemus.problems.mutex_properties import ME1, ME2_DEADLOCK, ME2_STARVATION, ME3, ME4
from habemus.problems.tokens import TokenOrder
from habemus.problems.traffic import Sizes

PATIENCE = 100
"""Entries of others while one process waits, above which a run that is cut off shows starvation."""


class _Trigger(NamedTuple):
    """The event that a step of a process began with and, for a message, the event that made its
    sender act.
    """

    event: Event
    earlier: Event | None = None


class _Carried(NamedTuple):
    """Causal history of a message in transit."""

    requests: int  # those that happened before it was sent, as a set of bits
    trigger: Event | None


@dataclass
class MutexMonitor:
    """Reads every event of a run in order; `findings` returns a verdict for each property."""

    processes: tuple[ProcessId, ...]
    label: Callable[[ProcessId], str] = str
    bound: int | None = None  # of ME4, where one is claimed
    patience: int = PATIENCE
    planned_end: int | None = None  # of a run that never comes to rest
    outside: bool = False  # applications tell each other of their requests

    down: set[ProcessId] = field(default_factory=set, init=False)
    paused: set[ProcessId] = field(default_factory=set, init=False)
    crashed_inside: list[ProcessId] = field(default_factory=list, init=False)
    entries: Counter[ProcessId] = field(default_factory=Counter, init=False)
    requests: int = field(default=0, init=False)
    uninvited: int = field(default=0, init=False)  # entries without a request

    _judgement: MutexJudgement = field(default_factory=MutexJudgement, init=False, repr=False)
    _tokens: TokenOrder = field(default_factory=TokenOrder, init=False, repr=False)
    _overtaking: Overtaking = field(init=False, repr=False)
    # when each process entered, and when it made its last request
    _entered: dict[ProcessId, int] = field(default_factory=dict, init=False, repr=False)
    _requested: dict[ProcessId, int] = field(default_factory=dict, init=False, repr=False)
    _last_change: int = field(default=0, init=False, repr=False)  # a request, entry or exit
    _last_fault: int = field(default=0, init=False, repr=False)
    _violated: dict[str, Finding] = field(default_factory=dict, init=False, repr=False)
    _triggers: dict[ProcessId, _Trigger] = field(default_factory=dict, init=False, repr=False)
    # The requests that happened before the present of each process, as a set of bits: its vector
    # clock, reduced to the events that ME3 is about.
    _known: dict[ProcessId, int] = field(default_factory=dict, init=False, repr=False)
    # The time of the latest request, and the requests before that time.
    _earlier: tuple[int, int] = field(default=(0, 0), init=False, repr=False)
    _under_way: dict[int, _Carried] = field(default_factory=dict, init=False, repr=False)
    _copied: set[int] = field(default_factory=set, init=False, repr=False)
    _messages_seen: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        self._overtaking = Overtaking(self.bound)

    def observe(self, event: Event) -> None:
        kind = event.kind
        process = event.process
        if kind == "send":
            trigger = self._triggers.get(process)
            self._messages_seen = True
            self._under_way[event.number or 0] = _Carried(
                self._known.get(process, 0), trigger.event if trigger else None
            )
            return
        if kind == "receive":
            number = event.number or 0
            carried = (
                self._under_way[number] if number in self._copied else self._under_way.pop(number)
            )
            self._known[process] = self._known.get(process, 0) | carried.requests
            self._triggers[process] = _Trigger(event, carried.trigger)
            return
        if kind in ("timer", "request", "recover"):
            self._triggers[process] = _Trigger(event)
        elif kind == "lost" and event.number not in self._copied:
            self._under_way.pop(event.number or 0, None)
        elif kind == "duplicate":
            self._copied.add(event.number or 0)
        if kind in FAULT_EVENTS:
            self._last_fault = event.time
        if event.part:
            return
        change = CHANGES.get((kind, event.name))
        if change == "request":
            self._request(event)
        elif change == "entry":
            self._entry(event)
        elif change == "exit":
            if self._judgement.release(process):
                self._overtaking.withdraw(process)
        elif change == "break_off":
            self._judgement.exit(process)
        elif change == "loss":
            self._judgement.loss(process)
        elif change == "move":
            self._judgement.move(process)
        elif change == "resume":
            self._resume(event)
        elif change == "crash":
            if process in self._judgement.inside:
                self.crashed_inside.append(process)
            self._judgement.crash(process)
            self._overtaking.withdraw(process)
            self.down.add(process)
        elif kind == "recover":
            self.down.discard(process)
        elif kind == "pause":
            self.paused.add(process)
        elif kind == "resume":
            self.paused.discard(process)
        if change in ("request", "entry", "exit", "break_off", "loss", "resume"):
            self._last_change = event.time

    @property
    def inside(self) -> set[ProcessId]:
        return self._judgement.inside

    @property
    def overtaking(self) -> int:
        """The largest number of others that entered between a request and its entry."""
        return self._overtaking.largest

    @property
    def _total(self) -> int:
        """The number of entries."""
        return self._overtaking.entries

    def _cause(self, event: Event, earlier: Event | None = None) -> str:
        if event.kind == "receive":
            assert event.peer is not None
            sent = (
                f", which {self.label(event.peer)} sent {self._cause(earlier)}"
                if earlier is not None
                else ""
            )
            return f"on {event.described()} from {self.label(event.peer)}{sent}"
        if event.kind == "timer":
            return f"when its timer {event.described()} ran out"
        if event.kind == "request":
            return f"on its own {event.name}"
        return "on its recovery"

    def _request(self, event: Event) -> None:
        process, own, before = event.process, 1 << self.requests, self._known.get(event.process, 0)
        before |= self._told_outside(event.time) if self.outside else 0
        self._judgement.request(process, own, before)
        self._overtaking.request(process)
        self._requested[process] = event.time
        self._known[process] = before | own
        self.requests += 1

    def _told_outside(self, now: int) -> int:
        """Return all requests that were made earlier, as a set of bits."""
        if now > self._earlier[0]:
            self._earlier = now, (1 << self.requests) - 1
        return self._earlier[1]

    def _entry(self, event: Event) -> None:
        process = event.process
        is_invited = process in self._judgement.waiting
        inside, overtaken = self._judgement.entry(process)
        if "token" in event.fields():
            term, count = event.fields()["token"]
            self._tokens.grant(process, (term, count))
        if inside and "ME1" not in self._violated:
            self._violated["ME1"] = self._two_inside(event, inside)
        if overtaken and "ME3" not in self._violated:
            self._violated["ME3"] = self._unjustly_overtaken(event, overtaken[0])
        passed = self._overtaking.entry(process)
        if self._overtaking.is_violated_by(passed) and "ME4" not in self._violated:
            self._violated["ME4"] = self._passed_too_often(event, passed)
        if not is_invited:
            self.uninvited += 1
        self._entered[process] = event.time
        self.entries[process] += 1

    def _resume(self, event: Event) -> None:
        """Judge an application that goes on at another process than the one where it entered."""
        inside = self._judgement.resume(event.process)
        term, count = event.fields()["token"]
        if "ME1" not in self._violated:
            if inside:
                self._violated["ME1"] = self._two_inside(event, inside)
            elif self._tokens.is_overtaken((term, count)):
                why = (
                    f"at {_ms(event.time)} an application went on at {self.label(event.process)}"
                    f" with token {term}.{count}, after one had entered with a larger token"
                )
                found = Finding("ME1", Verdict.VIOLATED, why, event.time, (event.process,))
                self._violated["ME1"] = found
        self._entered[event.process] = event.time

    def _passed_too_often(self, event: Event, passed: int) -> Finding:
        between = f"between the request and the entry of {self.label(event.process)}"
        others = counted(passed, "other")
        why = f"{others} entered {between}; at most {self.bound} are claimed"
        return Finding("ME4", Verdict.VIOLATED, why, event.time, (event.process,))

    def _two_inside(self, event: Event, inside: tuple[ProcessId, ...]) -> Finding:
        others = [
            f"{self.label(process)} was inside since {_ms(self._entered[process])}"
            + (" and paused" if process in self.paused else "")
            for process in inside
        ]
        trigger = self._triggers.get(event.process)
        cause = f" {self._cause(*trigger)}" if trigger is not None else ""
        why = (
            f"at {_ms(event.time)} {self.label(event.process)} entered{cause}, while"
            f" {' and '.join(others)}"
        )
        return Finding("ME1", Verdict.VIOLATED, why, event.time, (*inside, event.process))

    def _unjustly_overtaken(self, event: Event, other: ProcessId) -> Finding:
        process = event.process
        why = (
            f"the request of {self.label(other)} at {_ms(self._requested[other])} happened"
            f" before that of {self.label(process)} at {_ms(self._requested[process])}, which"
            f" entered first, at {_ms(event.time)}"
        )
        return Finding("ME3", Verdict.VIOLATED, why, event.time, (other, process))

    def findings(
        self, ending: str, awaits: Mapping[ProcessId, Sequence[ProcessId]] | None = None
    ) -> list[Finding]:
        """Return the finding of each property.  `ending` is `quiescent`, `done`, `time` or
        `events`.
        """
        found = [self._judge_me1(), *self._judge_me2(ending, awaits or {}), self._judge_me3()]
        if self.bound is not None:
            found.append(
                self._violated.get("ME4")
                or Finding(
                    "ME4",
                    Verdict.HOLDS,
                    f"at most {counted(self.overtaking, 'other')} entered in between",
                )
            )
        return found

    def _entries(self) -> str:
        return counted(self._total, "entry", "entries")

    def _judge_me1(self) -> Finding:
        if not self._total:
            return Finding("ME1", Verdict.UNDECIDED, "no process entered, so nothing was shown")
        return self._violated.get("ME1") or Finding(
            "ME1", Verdict.HOLDS, f"{self._entries()}, never two at once"
        )

    def _judge_me2(
        self, ending: str, awaits: Mapping[ProcessId, Sequence[ProcessId]]
    ) -> tuple[Finding, Finding]:
        deadlock, starvation = ME2_DEADLOCK.name, ME2_STARVATION.name
        stuck = self._judgement.deadlocked()
        if not self.requests:
            why = "no process requested entry, so nothing was shown"
            return Finding(deadlock, Verdict.UNDECIDED, why), Finding(
                starvation, Verdict.UNDECIDED, why
            )
        if not stuck:
            why = (
                "no process that is up is left waiting"
                if self.requests != self._total
                else f"all {self.requests} requests were served"
                if self.requests > 1
                else "the request was served"
            )
            return Finding(deadlock, Verdict.HOLDS, why), Finding(starvation, Verdict.HOLDS, why)
        if ending == "quiescent":
            why = f"nothing can happen any more; waiting: {self.explain_waiting(awaits)}"
            return (
                Finding(
                    deadlock,
                    Verdict.VIOLATED,
                    why,
                    max(self._requested[process] for process in stuck),
                    tuple(stuck),
                ),
                Finding(
                    starvation, Verdict.UNDECIDED, "no process enters any more, see ME2-deadlock"
                ),
            )
        passed = {process: self._overtaking.passed(process) for process in stuck}
        starved = [process for process in stuck if passed[process] > self.patience]
        still = f"the run was cut off while {', '.join(map(self.label, stuck))} waited"
        if not self.inside and not starved:
            why = f"no process is inside; waiting: {self.explain_waiting(awaits)}"
            final = Finality(ending, self.planned_end, self._last_change, self._last_fault).finding(
                deadlock, False, why, tuple(stuck)
            )
            if final.verdict is Verdict.VIOLATED:
                return final, Finding(
                    starvation, Verdict.UNDECIDED, "no process enters any more, see ME2-deadlock"
                )
        if starved:
            entries = counted(self._total, "entry", "entries")
            worst = max(starved, key=lambda process: passed[process])
            why = (
                f"{self.label(worst)} has waited since {_ms(self._requested[worst])} while"
                f" others entered {counted(passed[worst], 'time')}"
            )
            return (
                Finding(deadlock, Verdict.UNDECIDED, f"{still}, after {entries}"),
                Finding(starvation, Verdict.VIOLATED, why, self._requested[worst], tuple(starved)),
            )
        return Finding(deadlock, Verdict.UNDECIDED, still), Finding(
            starvation, Verdict.UNDECIDED, still
        )

    def _judge_me3(self) -> Finding:
        if "ME3" in self._violated:
            return self._violated["ME3"]
        if self._total < 2:
            return Finding(
                "ME3", Verdict.UNDECIDED, "fewer than two entries, so there was no order to keep"
            )
        if not self._messages_seen and len(self.processes) > 1:
            return Finding(
                "ME3",
                Verdict.UNDECIDED,
                "messages were not recorded, so nothing is known of what happened before what",
            )
        return Finding(
            "ME3",
            Verdict.HOLDS,
            f"{self._entries()}, none before a request that happened before its own",
        )

    def explain_waiting(self, awaits: Mapping[ProcessId, Sequence[ProcessId]]) -> str:
        """Return which process waits for which, and the cycle if there is one: "2 for 3 (crashed),
        ...".
        """
        waiting = self._judgement.deadlocked()

        def state(process: ProcessId) -> str:
            if process in self.down:
                return " (crashed)"
            return " (inside)" if process in self.inside else ""

        cycle = wait_cycle(
            {process: awaits.get(process, ()) for process in awaits if process not in self.down},
            waiting,
        )
        # A process may be waited for without waiting to enter itself, such as a coordinator.
        between = {
            other for process in waiting for other in awaits.get(process, ()) if awaits.get(other)
        } - set(waiting)
        lines = []
        for process in [*waiting, *([] if cycle else sorted(between))]:
            others = awaits.get(process, ())
            awaited = " and ".join(self.label(other) + state(other) for other in others)
            lines.append(f"{self.label(process)} for {awaited}" if awaited else self.label(process))
        explained = ", ".join(lines)
        if cycle:
            explained += f"; cycle {' -> '.join(map(self.label, cycle))}"
        if self.crashed_inside:
            explained += f"; {', '.join(map(self.label, self.crashed_inside))} crashed inside"
        return explained


def wait_cycle(
    awaits: Mapping[ProcessId, Sequence[ProcessId]], starts: Sequence[ProcessId]
) -> list[ProcessId]:
    """Return a cycle of the wait-for graph, its first process repeated; empty: there is none."""
    for start in starts:
        path: list[ProcessId] = []
        seen: set[ProcessId] = set()
        frontier = [(start, 0)]
        while frontier:
            process, depth = frontier.pop()
            del path[depth:]
            if process in path:
                return [*path[path.index(process) :], process]
            if process in seen:
                continue
            seen.add(process)
            path.append(process)
            frontier.extend(
                (other, depth + 1) for other in sorted(awaits.get(process, ()), reverse=True)
            )
    return []


def _ms(time: int) -> str:
    return f"{time / 1000:g} ms"


@dataclass
class MutexMeter:
    """Counts of messages and delays of entries.  Delays are in microseconds, to be divided by the
    usual delay of a message.
    """

    # A hand-over counts as a synchronisation delay if the request preceded the exit by so much.
    settled: int
    upkeep: tuple[str, ...] = ()  # the names of messages that no entry causes

    messages: int = field(default=0, init=False)
    bytes: int = field(default=0, init=False)
    upkeep_messages: int = field(default=0, init=False)  # messages that no entry causes
    upkeep_bytes: int = field(default=0, init=False)
    client_delays: list[int] = field(default_factory=list, init=False)
    sync_delays: list[int] = field(default_factory=list, init=False)
    entries: Counter[ProcessId] = field(default_factory=Counter, init=False)
    ends: Counter[ProcessId] = field(default_factory=Counter, init=False)  # messages to or from it
    received: Counter[ProcessId] = field(default_factory=Counter, init=False)  # from others
    last_receipt: int = field(default=0, init=False)

    _waiting: dict[ProcessId, int] = field(default_factory=dict, init=False, repr=False)  # since
    # the process that waits without competition so far
    _alone: ProcessId | None = field(default=None, init=False, repr=False)
    _inside: set[ProcessId] = field(default_factory=set, init=False, repr=False)
    _last_exit: int | None = field(default=None, init=False, repr=False)
    _sizes: Sizes = field(default_factory=Sizes, init=False, repr=False)

    def observe(self, event: Event) -> None:
        kind = event.kind
        if kind == "send":
            if event.peer != event.process:  # a message to oneself costs nothing
                size = self._sizes.of(event)
                self.messages += 1
                self.bytes += size
                self.ends[event.process] += 1
                self.ends[event.peer or 0] += 1
                # A component solves a problem of its own, independent of entries; links carry the
                # messages of other parts.
                if event.name in self.upkeep or (event.part and event.part.replace(".links", "")):
                    self.upkeep_messages += 1
                    self.upkeep_bytes += size
        elif kind == "receive":
            if event.peer != event.process:
                self.received[event.process] += 1
                self.last_receipt = event.time
        elif not event.part:
            self._change(event)

    def _change(self, event: Event) -> None:
        process = event.process
        match CHANGES.get((event.kind, event.name)):
            case "request":
                self._alone = None if self._inside or self._waiting else process
                self._waiting[process] = event.time
            case "entry":
                self._enters(event)
            case "exit" | "loss":
                self._inside.discard(process)
                self._last_exit = event.time
            case "resume":
                self._inside.add(process)
                self._last_exit = None
            case "move" | "break_off":
                self._inside.discard(process)
            case "crash":
                self._waiting.pop(process, None)
                self._inside.discard(process)
                self._last_exit = None

    def _enters(self, event: Event) -> None:
        since = self._waiting.pop(event.process, event.time)
        if self._alone == event.process:
            self.client_delays.append(event.time - since)
        elif (
            self._last_exit is not None
            and not self._inside
            and since <= self._last_exit - self.settled
        ):
            self.sync_delays.append(event.time - self._last_exit)
        self._last_exit = None
        self._inside.add(event.process)
        self.entries[event.process] += 1

    def busiest(self) -> tuple[ProcessId, int] | None:
        """Return the process that sends and receives most messages, and their number."""
        return max(self.ends.items(), key=lambda each: (each[1], -each[0])) if self.ends else None

    def fairness(self, clients: Sequence[ProcessId]) -> float | None:
        """Return Jain's index of the entries per client: 1 if all entered equally often, 1/N if
        only one did.
        """
        counts = [self.entries[client] for client in clients]
        squares = sum(count * count for count in counts)
        return sum(counts) ** 2 / (len(counts) * squares) if squares else None


__all__ = [
    "ME1",
    "ME2_DEADLOCK",
    "ME2_STARVATION",
    "ME3",
    "ME4",
    "PATIENCE",
    "MutexMeter",
    "MutexMonitor",
    "wait_cycle",
]

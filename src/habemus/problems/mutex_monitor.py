"""Judges a run of mutual exclusion: ME1 to ME4, and what an entry cost.

The monitor reads events, whoever made them, so a simulated, a searched and a live run are judged
alike.  Only the part on top of each process counts as "inside": a mutex used as a component is
judged in its own run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from habemus.core.events import Event
from habemus.core.process import ProcessId
from habemus.core.properties import Finding, Verdict
from habemus.problems.finality import FAULTS, Finality
from habemus.problems.mutex_properties import ME1, ME2_DEADLOCK, ME2_STARVATION, ME3, ME4
from habemus.problems.traffic import Sizes

PATIENCE = 100
"""How many others may enter while one waits before a run that is cut off counts as starvation."""


class Waiting(NamedTuple):
    since: int
    entries_before: int  # of everybody, when it asked
    number: int  # of the request, in the order of asking
    before: int  # the requests that happened before this one, as a set of bits


class _Trigger(NamedTuple):
    """What made a process act: the event its step began with and, for a message, the one that made
    its sender act.
    """

    event: Event
    earlier: Event | None = None


class _Carried(NamedTuple):
    """What goes with a message under way."""

    requests: int  # those that happened before its sending, as a set of bits
    trigger: Event | None


@dataclass
class MutexMonitor:
    """Fed with every event of a run in order; `findings` says what became of each property."""

    processes: tuple[ProcessId, ...]
    label: Callable[[ProcessId], str] = str
    bound: int | None = None  # of ME4, where one is claimed
    patience: int = PATIENCE
    planned_end: int | None = None  # of a run that never comes to rest

    inside: dict[ProcessId, int] = field(default_factory=dict, init=False)  # since when
    waiting: dict[ProcessId, Waiting] = field(default_factory=dict, init=False)
    down: set[ProcessId] = field(default_factory=set, init=False)
    paused: set[ProcessId] = field(default_factory=set, init=False)
    crashed_inside: list[ProcessId] = field(default_factory=list, init=False)
    entries: Counter[ProcessId] = field(default_factory=Counter, init=False)
    requests: int = field(default=0, init=False)
    overtaking: int = field(default=0, init=False)  # the largest seen
    uninvited: int = field(
        default=0, init=False
    )  # entries of processes whose application had not asked

    _last_change: int = field(default=0, init=False, repr=False)  # somebody asked, entered or left
    _last_fault: int = field(default=0, init=False, repr=False)
    _total: int = field(default=0, init=False, repr=False)
    _violated: dict[str, Finding] = field(default_factory=dict, init=False, repr=False)
    _triggers: dict[ProcessId, _Trigger] = field(default_factory=dict, init=False, repr=False)
    # Which requests each process knows to have happened: its vector clock, cut down to what ME3 is
    # about.
    _known: dict[ProcessId, int] = field(default_factory=dict, init=False, repr=False)
    _pending: int = field(
        default=0, init=False, repr=False
    )  # the requests of those who wait, as a set of bits
    _under_way: dict[int, _Carried] = field(default_factory=dict, init=False, repr=False)
    _copied: set[int] = field(default_factory=set, init=False, repr=False)
    _messages_seen: bool = field(default=False, init=False, repr=False)

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
        if kind in FAULTS:
            self._last_fault = event.time
        if event.part:
            return
        if event.name in ("acquire", "Granted", "release", "LockLost"):
            self._last_change = event.time
        if kind == "request" and event.name == "acquire":
            self._asks(event)
        elif kind == "indicate" and event.name == "Granted":
            self._enters(event)
        elif (
            (kind == "request" and event.name == "release")
            or (kind == "indicate" and event.name == "LockLost")
            or kind == "crash"
        ):
            if event.process in self.inside and kind == "crash":
                self.crashed_inside.append(event.process)
            self.inside.pop(event.process, None)
        if kind == "crash":
            self._no_longer_waiting(event.process)
            self.down.add(event.process)
        elif kind == "recover":
            self.down.discard(event.process)
        elif kind == "pause":
            self.paused.add(event.process)
        elif kind == "resume":
            self.paused.discard(event.process)

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

    def _asks(self, event: Event) -> None:
        before = self._known.get(event.process, 0)
        self.waiting[event.process] = Waiting(event.time, self._total, self.requests, before)
        self._known[event.process] = before | 1 << self.requests
        self._pending |= 1 << self.requests
        self.requests += 1

    def _no_longer_waiting(self, process: ProcessId) -> Waiting | None:
        waiting = self.waiting.pop(process, None)
        if waiting is not None:
            self._pending &= ~(1 << waiting.number)
        return waiting

    def _enters(self, event: Event) -> None:
        mine = self._no_longer_waiting(event.process)
        if self.inside:
            self._note_two_inside(event)
        self.inside[event.process] = event.time
        if mine is None:
            self.uninvited += 1
        else:
            overtaken = self._total - mine.entries_before
            self.overtaking = max(self.overtaking, overtaken)
            if self.bound is not None and overtaken > self.bound:
                between = f"between the request and the entry of {self.label(event.process)}"
                why = f"{overtaken} others entered {between}; at most {self.bound} are claimed"
                self._violated.setdefault(
                    "ME4", Finding("ME4", Verdict.VIOLATED, why, event.time, (event.process,))
                )
            self._check_order(event, mine)
        self._total += 1
        self.entries[event.process] += 1

    def _note_two_inside(self, event: Event) -> None:
        if "ME1" in self._violated:
            return
        others = [
            f"{self.label(process)} was inside since {_ms(since)}"
            + (" and paused" if process in self.paused else "")
            for process, since in sorted(self.inside.items())
        ]
        trigger = self._triggers.get(event.process)
        cause = f" {self._cause(*trigger)}" if trigger is not None else ""
        why = (
            f"at {_ms(event.time)} {self.label(event.process)} entered{cause}, while"
            f" {' and '.join(others)}"
        )
        self._violated["ME1"] = Finding(
            "ME1", Verdict.VIOLATED, why, event.time, (*sorted(self.inside), event.process)
        )

    def _check_order(self, event: Event, mine: Waiting) -> None:
        """Whoever still waits although its request happened before this one's has been overtaken
        unjustly.
        """
        if "ME3" in self._violated:
            return
        if not mine.before & self._pending:
            return
        for process, other in sorted(self.waiting.items()):
            if mine.before >> other.number & 1:
                why = (
                    f"the request of {self.label(process)} at {_ms(other.since)} happened before"
                    f" that of {self.label(event.process)} at {_ms(mine.since)}, which entered"
                    f" first, at {_ms(event.time)}"
                )
                self._violated["ME3"] = Finding(
                    "ME3", Verdict.VIOLATED, why, event.time, (process, event.process)
                )
                return

    def findings(
        self, ending: str, awaits: Mapping[ProcessId, Sequence[ProcessId]] | None = None
    ) -> list[Finding]:
        """What became of each property when the run ended as it did: `quiescent`, `done`, `time` or
        `events`.
        """
        found = [self._judge_me1(), *self._judge_me2(ending, awaits or {}), self._judge_me3()]
        if self.bound is not None:
            found.append(
                self._violated.get("ME4")
                or Finding(
                    "ME4", Verdict.HOLDS, f"at most {self.overtaking} others entered in between"
                )
            )
        return found

    def _judge_me1(self) -> Finding:
        if not self._total:
            return Finding("ME1", Verdict.UNDECIDED, "nobody entered, so nothing was shown")
        return self._violated.get("ME1") or Finding(
            "ME1", Verdict.HOLDS, f"{self._total} entries, never two at once"
        )

    def _judge_me2(
        self, ending: str, awaits: Mapping[ProcessId, Sequence[ProcessId]]
    ) -> tuple[Finding, Finding]:
        deadlock, starvation = ME2_DEADLOCK.name, ME2_STARVATION.name
        stuck = sorted(self.waiting)
        if not self.requests:
            why = "nobody asked, so nothing was shown"
            return Finding(deadlock, Verdict.UNDECIDED, why), Finding(
                starvation, Verdict.UNDECIDED, why
            )
        if not stuck:
            why = (
                f"all {self.requests} requests were served"
                if self.requests == self._total
                else "nobody who is up is left waiting"
            )
            return Finding(deadlock, Verdict.HOLDS, why), Finding(starvation, Verdict.HOLDS, why)
        if ending == "quiescent":
            why = f"nothing can happen any more; waiting: {self.explain_waiting(awaits)}"
            return (
                Finding(
                    deadlock,
                    Verdict.VIOLATED,
                    why,
                    max(self.waiting[process].since for process in stuck),
                    tuple(stuck),
                ),
                Finding(starvation, Verdict.UNDECIDED, "nobody gets in at all, see ME2-deadlock"),
            )
        passed = {process: self._total - self.waiting[process].entries_before for process in stuck}
        starved = [process for process in stuck if passed[process] > self.patience]
        still = f"the run was cut off while {', '.join(map(self.label, stuck))} waited"
        if not self.inside and not starved:
            why = f"nobody is inside; waiting: {self.explain_waiting(awaits)}"
            final = Finality(ending, self.planned_end, self._last_change, self._last_fault).finding(
                deadlock, False, why, tuple(stuck)
            )
            if final.verdict is Verdict.VIOLATED:
                return final, Finding(
                    starvation, Verdict.UNDECIDED, "nobody gets in at all, see ME2-deadlock"
                )
        if starved:
            worst = max(starved, key=lambda process: passed[process])
            why = (
                f"{self.label(worst)} has waited since {_ms(self.waiting[worst].since)} while"
                f" others entered {passed[worst]} times"
            )
            return (
                Finding(deadlock, Verdict.UNDECIDED, f"{still}; there were {self._total} entries"),
                Finding(
                    starvation, Verdict.VIOLATED, why, self.waiting[worst].since, tuple(starved)
                ),
            )
        return Finding(deadlock, Verdict.UNDECIDED, still), Finding(
            starvation, Verdict.UNDECIDED, still
        )

    def _judge_me3(self) -> Finding:
        if "ME3" in self._violated:
            return self._violated["ME3"]
        if not self._messages_seen and len(self.processes) > 1:
            return Finding(
                "ME3",
                Verdict.UNDECIDED,
                "messages were not recorded, so nothing is known of what happened before what",
            )
        if self._total < 2:
            return Finding(
                "ME3", Verdict.UNDECIDED, "fewer than two entries, so there was no order to keep"
            )
        return Finding(
            "ME3",
            Verdict.HOLDS,
            f"{self._total} entries, none before a request that happened before its own",
        )

    def explain_waiting(self, awaits: Mapping[ProcessId, Sequence[ProcessId]]) -> str:
        """Who waits for whom, and the cycle if there is one: "2 for 3 (crashed), ..."."""

        def state(process: ProcessId) -> str:
            if process in self.down:
                return " (crashed)"
            return " (inside)" if process in self.inside else ""

        cycle = wait_cycle(
            {process: awaits.get(process, ()) for process in awaits if process not in self.down},
            sorted(self.waiting),
        )
        # A process may stand between without wanting to enter itself, such as a coordinator.
        between = {
            other
            for process in self.waiting
            for other in awaits.get(process, ())
            if awaits.get(other)
        } - self.waiting.keys()
        told = []
        for process in [*sorted(self.waiting), *([] if cycle else sorted(between))]:
            others = awaits.get(process, ())
            whom = " and ".join(self.label(other) + state(other) for other in others)
            told.append(f"{self.label(process)} for {whom}" if whom else self.label(process))
        explained = ", ".join(told)
        if cycle:
            explained += f"; cycle {' -> '.join(map(self.label, cycle))}"
        if self.crashed_inside:
            explained += f"; {', '.join(map(self.label, self.crashed_inside))} crashed inside"
        return explained


def wait_cycle(
    awaits: Mapping[ProcessId, Sequence[ProcessId]], starts: Sequence[ProcessId]
) -> list[ProcessId]:
    """A cycle of the wait-for graph, the first process again at its end; empty if there is none."""
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
    """Measures what entries cost.  Delays are sums of microseconds, to be divided by the usual
    delay of a message.
    """

    # how long one must have waited before an exit for its hand-over to count as a synchronisation
    # delay
    settled: int
    upkeep: tuple[str, ...] = ()  # the names of messages that no entry causes

    messages: int = field(default=0, init=False)
    bytes: int = field(default=0, init=False)
    upkeep_messages: int = field(
        default=0, init=False
    )  # of all messages, those that no entry causes
    upkeep_bytes: int = field(default=0, init=False)
    client_delays: list[int] = field(default_factory=list, init=False)
    sync_delays: list[int] = field(default_factory=list, init=False)
    entries: Counter[ProcessId] = field(default_factory=Counter, init=False)

    _waiting: dict[ProcessId, int] = field(
        default_factory=dict, init=False, repr=False
    )  # since when
    _alone: ProcessId | None = field(
        default=None, init=False, repr=False
    )  # who waits and has met nobody else so far
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
                # A component solves a problem of its own, whether anybody enters or not; links
                # carry what others say.
                if event.name in self.upkeep or (event.part and event.part.replace(".links", "")):
                    self.upkeep_messages += 1
                    self.upkeep_bytes += size
        elif event.part:
            return
        elif kind == "request" and event.name == "acquire":
            self._alone = None if self._inside or self._waiting else event.process
            self._waiting[event.process] = event.time
        elif kind == "indicate" and event.name == "Granted":
            self._enters(event)
        elif (kind == "request" and event.name == "release") or (
            kind == "indicate" and event.name == "LockLost"
        ):
            self._inside.discard(event.process)
            self._last_exit = event.time
        elif kind == "crash":
            self._waiting.pop(event.process, None)
            self._inside.discard(event.process)
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

    def fairness(self, clients: Sequence[ProcessId]) -> float | None:
        """Jain's index of the entries per client: 1 if all entered equally often, 1/N if only one
        did.
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
    "Waiting",
    "wait_cycle",
]

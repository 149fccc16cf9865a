"""Branches: the runs of a session, each executed as far as it was asked for.

A branch is exactly a run with its interventions.  It keeps no snapshots: a fork executes the run
again up to the intervention.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from habemus.catalog.entries import Entry
from habemus.core.events import Event
from habemus.core.process import ProcessId
from habemus.core.properties import Finding, Kind, Verdict
from habemus.core.system import System
from habemus.core.words import counted
from habemus.runs.execution import KEEP_LIMIT, Execution
from habemus.runs.interventions import parsed, written
from habemus.runs.interventions import what as parsed_intervention
from habemus.runs.past import Past
from habemus.runs.setup import Setup
from habemus.runtimes.sim.faults import Crash, Recover
from habemus.runtimes.sim.interventions import Duplicate, Lose, Pending
from habemus.traces import Trace, digest

QUIET = frozenset(("send", "receive", "lost", "duplicate", "choose"))
"""Kinds of events that violate no property by themselves."""


class LabError(ValueError):
    """A request that cannot be answered; the message is one line for the user."""


class Branch(Protocol):
    """A run as the session sees it."""

    entry: Entry
    system: System
    title: str

    @property
    def events(self) -> Sequence[Event]: ...

    @property
    def deliveries(self) -> Sequence[int]:
        """Number of deliveries made up to each event, with its own."""

    @property
    def ended(self) -> str | None:
        """The reason why the run ended; None: it can go on."""

    @property
    def playable(self) -> bool:
        """Whether the run can be continued by hand and forked."""

    @property
    def run(self) -> Mapping[str, Any]:
        """The identity of the run, as in the header of a trace."""

    @property
    def command(self) -> str:
        """The run as a command; empty if there is none."""

    @property
    def digest(self) -> str: ...

    def advance(self, is_there: Callable[[int], bool] | None) -> None:
        """Continue, delivery by delivery, until `is_there`, given the number of events that the
        branch had before the last delivery, is true; None: to the end.
        """

    @property
    def interventions(self) -> tuple[str, ...]:
        """The interventions of the run, in order, each with its anchor."""

    @property
    def faults(self) -> tuple[str, ...]:
        """The fault models of the guarantee cards that the run is about."""

    def findings(self) -> list[Finding]: ...

    def costs(self) -> dict[str, Any]: ...

    def first_event(self, finding: Finding) -> int | None:
        """Return the index of the event at which a violation became true."""

    def pending(self, at: int | None) -> list[PossibleEvent]:
        """Return what can happen next after the step of an event, or after the last one."""

    def fork(self, at: int | None, what: str) -> tuple[Branch, int]:
        """Return a branch with an intervention after the step of an event, or after the last one,
        and the number of events that both share.
        """


class PossibleEvent(NamedTuple):
    """An event that can be the next one, or why it cannot."""

    choice: str | None  # the intervention that makes it the next one
    kind: str  # message, timer, request, fault
    process: ProcessId
    sender: ProcessId | None
    text: str  # for people
    part: str
    time: int | None
    obstacle: str = ""
    is_next: bool = False  # whether it comes next anyway, so that choosing it changes nothing


class SimulatedBranch:
    """A run in the simulator."""

    playable = True

    def __init__(self, setup: Setup, title: str = "", past: Past | None = None) -> None:
        self.past = past
        self.execution = Execution(setup, past=past)
        self.entry = self.execution.entry
        self.system = self.execution.system
        self.setup = self.execution.setup
        self.title = title or f"{setup.algorithm}, {counted(setup.n, 'participant')}"
        self._first: dict[str, int] = {}
        self.execution.advance(0)

    @property
    def events(self) -> Sequence[Event]:
        return self.execution.events

    @property
    def deliveries(self) -> Sequence[int]:
        return self.execution.deliveries

    @property
    def ended(self) -> str | None:
        return self.execution.ended

    @property
    def run(self) -> Mapping[str, Any]:
        return self.setup.plain() if self.past is None else self.past.run

    @property
    def command(self) -> str:
        return self.setup.command() if self.past is None else ""

    @property
    def faults(self) -> tuple[str, ...]:
        return fault_models(self.setup, self.entry)

    @property
    def digest(self) -> str:
        return self.execution.digest

    def advance(self, is_there: Callable[[int], bool] | None) -> None:
        while self.ended is None and not self.execution.overflowed:
            before = len(self.events)
            self.execution.advance(1 if is_there is not None else CHUNK)
            if is_there is not None and is_there(before):
                return
        if self.execution.overflowed:
            raise LabError(f"a branch has at most {KEEP_LIMIT:,} events; this run has more")

    def findings(self) -> list[Finding]:
        return self.execution.findings()

    def costs(self) -> dict[str, Any]:
        return self.execution.costs()

    def first_event(self, finding: Finding) -> int | None:
        if finding.name not in self._first:
            judge = self.execution.new_judge()
            self._first[finding.name] = first_event_of(self.events, finding, self.entry, judge)
        return self._first[finding.name]

    def pending(self, at: int | None) -> list[PossibleEvent]:
        if self.past is not None and at is not None and at < len(self.past.events) - 1:
            return _pending_in(self.past, at, replace(self.setup, then=()), self.title)
        anchor = None if at is None else self.deliveries[at]
        if anchor is None or anchor == self.execution.simulation.delivered:
            execution = self.execution
            if self.ended is not None:
                return []
        else:
            kept = self.setup.then[: len(self._interventions_before(at))]
            setup = replace(self.setup, then=kept)
            execution = SimulatedBranch(setup, self.title, self.past).execution
            execution.advance(anchor)
        found = [_possible(each) for each in execution.simulation.pending()]
        dropped = self.setup.then[len(self._interventions_before(at)) :]
        is_natural = not dropped or anchor is None or parsed(dropped[0])[0] > anchor
        if found and found[0].choice is not None and is_natural:
            found[0] = found[0]._replace(is_next=True)
        return found

    def _interventions_before(self, at: int | None) -> list[int]:
        """Return for each intervention up to an event the number of events before it."""
        made = self.execution.intervened
        return made if at is None else [count for count in made if count <= at]

    @property
    def interventions(self) -> tuple[str, ...]:
        return self.setup.then

    def fork(self, at: int | None, what: str) -> tuple[SimulatedBranch, int]:
        if self.past is not None and at is not None and at < len(self.past.events) - 1:
            return continued(self.past.up_to(at), self.setup, what, self.title)
        execution = self.execution
        anchor = execution.simulation.delivered if at is None else self.deliveries[at]
        before = self._interventions_before(at)
        kept = self.setup.then[: len(before)]
        dropped = execution.intervened[len(before) : len(before) + 1]
        shared = min([bisect_right(self.deliveries, anchor), *dropped])
        then = (*kept, f"{anchor}: {written(parsed_intervention(what))}")
        fork = SimulatedBranch(replace(self.setup, then=then), self.title, self.past)
        fork.execution.advance(anchor)
        missed = dict(fork.execution.missed_interventions()).get(then[-1])
        if missed:
            raise LabError(f"{what}: {missed}")
        return fork, shared


def continued(past: Past, setup: Setup, what: str, title: str) -> tuple[SimulatedBranch, int]:
    """Continue a recorded trace in the simulator, with an intervention at once."""
    then = (f"0: {written(parsed_intervention(what))}",)
    branch = SimulatedBranch(replace(setup, then=then), title, past)
    for _, reason in branch.execution.missed_interventions():
        raise LabError(f"{what}: {reason}")
    return branch, len(past.events)


class RecordedBranch:
    """A trace of live nodes: it is shown, and continued in the simulator by a fork."""

    playable = True
    ended: str | None = "recorded"
    interventions: tuple[str, ...] = ()
    faults: tuple[str, ...] = ("none",)

    def __init__(
        self,
        trace: Trace,
        setup: Setup,
        entry: Entry,
        system: System,
        *,
        costs: Mapping[str, Any],
        judge: Callable[[], Any],
    ) -> None:
        self.trace = trace
        self.setup = setup
        self.entry = entry
        self.system = system
        self.events: Sequence[Event] = trace.events
        self.deliveries = _receipts(trace.events)
        self.title = trace.title
        self._costs = dict(costs)
        self._judge = judge

    @property
    def run(self) -> Mapping[str, Any]:
        return self.trace.run

    @property
    def command(self) -> str:
        return ""

    @property
    def digest(self) -> str:
        return digest(self.events)

    def advance(self, is_there: Callable[[int], bool] | None) -> None:
        """Do nothing: all events are there."""

    def findings(self) -> list[Finding]:
        return list(self.trace.findings)

    def costs(self) -> dict[str, Any]:
        return self._costs

    def first_event(self, finding: Finding) -> int | None:
        return first_event_of(self.events, finding, self.entry, self._judge())

    def pending(self, at: int | None) -> list[PossibleEvent]:
        last = len(self.events) - 1
        return _pending_in(self._past(), last if at is None else at, self.setup, self.title)

    def _past(self) -> Past:
        return Past(self.trace.run, self.system, tuple(self.events))

    def fork(self, at: int | None, what: str) -> tuple[Branch, int]:
        past = self._past().up_to(len(self.events) - 1 if at is None else at)
        return continued(past, self.setup, what, self.title)


def fault_models(setup: Setup, entry: Entry) -> tuple[str, ...]:
    """Return the fault models of the guarantee cards that a run belongs to.

    What no card has a model for, such as cuts and pauses, does not count.
    """
    made = [parsed_intervention(text.partition(":")[2]) for text in setup.then]
    kinds = {kind for kind, _ in setup.faults}
    is_down = "crash" in kinds or any(isinstance(each, Crash) for each in made)
    returns = [each for each in made if isinstance(each, Recover)]
    is_forgetful = "amnesia" in kinds or any(each.amnesia for each in returns)
    lossy = setup.loss not in ("0", "0%") or any(isinstance(each, Lose) for each in made)
    twice = setup.duplicate not in ("0", "0%") or any(isinstance(each, Duplicate) for each in made)
    fits = {
        "unordered": entry.assumes.fifo and setup.fifo is False,
        "lossy": lossy and not setup.over,
        "duplicating": twice and not setup.over,
        "amnesia": is_down and is_forgetful,
        "recovery": is_down and ("recover" in kinds or bool(returns)) and not is_forgetful,
        "crash": is_down and not ({"recover", "amnesia"} & kinds or returns),
    }
    return tuple(model for model, is_so in fits.items() if is_so) or ("none",)


CHUNK = 5_000
"""Deliveries between two looks at the limits of a branch that runs to its end."""


def _possible(pending: Pending) -> PossibleEvent:
    choice = pending.choice()
    return PossibleEvent(
        None if choice is None else written(choice),
        pending.kind,
        pending.process,
        pending.sender,
        pending.text,
        pending.part,
        pending.time,
        pending.obstacle,
    )


_KINDS = {"receive": "message", "timer": "timer", "request": "request"}
"""Kinds of pending events by the kinds of events that they become."""


def _pending_in(past: Past, at: int, setup: Setup, title: str) -> list[PossibleEvent]:
    """Return what can happen next after an event of a recorded trace; what did is marked."""
    before = past.up_to(at)
    found = [
        each._replace(is_next=False) for each in SimulatedBranch(setup, title, before).pending(None)
    ]
    for event in past.events[len(before.events) : len(before.events) + 1]:
        peer = event.peer if event.kind == "receive" else None
        came = (_KINDS.get(event.kind), event.process, peer, event.notation(), event.part)
        for index, each in enumerate(found):
            sender = each.sender if each.kind == "message" else None
            if came == (each.kind, each.process, sender, each.text, each.part):
                found[index] = each._replace(is_next=True)
                break
    return found


def _receipts(events: Sequence[Event]) -> list[int]:
    """Return, for each event, the number of steps that had begun, with its own."""
    found, count = [], 0
    for event in events:
        count += event.kind in ("receive", "timer", "request", "crash", "recover")
        found.append(count)
    return found


def first_event_of(events: Sequence[Event], finding: Finding, entry: Entry, judge: Any) -> int:
    """Return the index of the event at which the judge first sees the violation.

    What should have happened is missing only at the end, so the last event shows it.
    """
    kinds = {each.name: each.kind for each in entry.problem.properties}
    if kinds.get(finding.name) is Kind.ALWAYS:
        since = finding.time or 0
        for index, event in enumerate(events):
            judge.observe(event)
            if event.time >= since and event.kind not in QUIET:
                found = judge.findings("events", {})
                if any(
                    each.name == finding.name and each.verdict is Verdict.VIOLATED for each in found
                ):
                    return index
    return max(0, len(events) - 1)

"""A run under way: its simulation, its judge and its events so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from habemus.argument_names import argument
from habemus.catalog.entries import Entry, find
from habemus.catalog.problems import Judge
from habemus.core.application import Workload
from habemus.core.events import Event
from habemus.core.mistakes import awaited_by
from habemus.core.process import ProcessId
from habemus.core.properties import Finding
from habemus.core.words import counted
from habemus.problems.election import Calls
from habemus.problems.mutex_properties import ME4
from habemus.runs import notation
from habemus.runs.author_errors import attribute_to_algorithm
from habemus.runs.interventions import parsed, refuse_unknown_requests
from habemus.runs.limits import planned_end
from habemus.runs.names import by_number
from habemus.runs.past import Past
from habemus.runs.setup import WORKLOADS, BadSetup, Setup
from habemus.runs.systems import system_of
from habemus.runtimes.sim.faults import Fault
from habemus.runtimes.sim.network import Network
from habemus.runtimes.sim.simulation import Ending, Record, Simulation
from habemus.traces import Digest, Trace

Value = TypeVar("Value")

KEEP_LIMIT = 200_000
"""Largest number of events that are kept for a picture or a file; longer runs have no trace."""

CONTINUED_FOR = 2_000_000
"""Virtual time for which a recorded trace is continued."""

CLOCKS_UP_TO = 64
"""Largest number of processes for which events carry vector clocks."""


TEXTS: dict[str, Callable[[str], object]] = {
    "delay": notation.delay,
    "loss": notation.chance,
    "duplicate": notation.chance,
    "think": notation.span,
    "hold": notation.span,
    "give_up": lambda text: notation.span(text) if text else None,
    "processing": notation.time,
    "until": notation.time,
}
"""Arguments in the notation of runs, and how they are parsed."""


class Execution:
    """A run, executed as far as wanted.  However it is divided, it is the same run."""

    @attribute_to_algorithm()
    def __init__(
        self,
        setup: Setup,
        *,
        keep: bool = True,
        entry: Entry | None = None,
        past: Past | None = None,
    ) -> None:
        """Prepare the run; with `keep`, its events are kept, unless there are too many.

        past: a recorded trace that the run continues.
        """
        self.entry = entry or find(setup.algorithm)
        _check(setup, self.entry)
        self.past = past
        self.system = system_of(setup, self.entry) if past is None else past.system
        self.setup = by_number(setup, self.system.labels)
        if past is not None:
            self.setup = replace(self.setup, until=f"{self._end()}us")
        self.events: list[Event] = []
        self.deliveries: list[int] = []
        """Number of deliveries up to and including each event."""
        self.overflowed = False
        self.ended: str | None = None
        self._faults = faults_of(self.setup)
        self._interventions = [parsed(text) for text in self.setup.then]
        refuse_unknown_requests((each for _, each in self._interventions), self.system)
        self._network = network = _network_of(self.setup, self.entry)
        self.simulation = Simulation(
            self.system,
            workload=self._workload(),
            network=network,
            faults=self._faults,
            seed=setup.seed,
            processing=notation.time(setup.processing),
            interventions=self._interventions,
            situation=None if past is None else past.situation(),
            guarded=keep and not self.entry.algorithm.__module__.startswith("habemus."),
            record=(
                Record.CLOCKS
                if keep and len(self.system.plans) <= CLOCKS_UP_TO
                else Record.MESSAGES
            ),
        )
        self.judge = self.new_judge()
        self.intervened: list[int] = []
        """Number of events before each intervention that was made."""
        self.simulation.before_intervention = lambda: self.intervened.append(len(self.events))
        self._digest = Digest()
        self.simulation.observers += [self._digest.add, self.judge.observe]
        if keep:
            self.simulation.observers.append(self._keeper())
        self._begun = False
        for event in () if past is None else past.events:
            for observe in self.simulation.observers:
                observe(event)

    def _workload(self) -> Workload:
        if self.past is not None:
            return self.past.workload() if self.entry.problem.name == "mutex" else Calls()
        return self.entry.problem.workload(self.setup, self.system)

    def _end(self) -> int | None:
        """Return the planned end, which a past moves: its clock has been running for long."""
        if self.past is None:
            return planned_end(self.setup, self.entry.algorithm)
        last = max((event.time for event in self.past.events), default=0)
        return last + (getattr(self.entry.algorithm, "duration", None) or CONTINUED_FOR)

    def new_judge(self) -> Judge:
        """Return a judge of this run that has seen nothing yet."""
        return self.entry.problem.judge(self.setup, self.system, self._network)

    def _keeper(self) -> Callable[[Event], None]:
        """Return the observer that keeps the events."""
        events, deliveries, recorder = self.events, self.deliveries, self.simulation.recorder

        def keep(event: Event) -> None:
            if len(events) < KEEP_LIMIT:
                events.append(event)
                deliveries.append(recorder.delivered)
            else:
                self.overflowed = True

        return keep

    def advance(
        self, events: int | None = None, progress: Callable[[int, int], None] | None = None
    ) -> str | None:
        """Make up to so many deliveries; return why the run ended, or None if it has not."""
        with attribute_to_algorithm():
            if not self._begun:
                self._begun = True
                self.simulation.begin(self._end())
            left = self.setup.events - self.simulation.delivered
            count = left if events is None else min(left, events)
            self.ended = self.simulation.advance(count, progress)
        if self.ended is None and self.simulation.delivered >= self.setup.events:
            self.ended = "events"
        return self.ended

    @property
    def ending(self) -> Ending:
        """The end of the run, or its totals so far: as if it were cut off here."""
        return self.simulation.ending(self.ended or "events")

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    @attribute_to_algorithm()
    def awaits(self) -> dict[ProcessId, list[ProcessId]]:
        """Return for which processes each process that is up waits."""
        return {
            me: awaited_by(parts[0])
            for me, parts in self.simulation.processes.items()
            if self.simulation.is_up(me)
        }

    @attribute_to_algorithm()
    def findings(self) -> list[Finding]:
        return self.judge.findings(self.ending.reason, self.awaits())

    @attribute_to_algorithm()
    def costs(self) -> dict[str, Any]:
        return self.judge.costs(self.ending)

    def trace(self, findings: Sequence[Finding]) -> Trace | None:
        """Return the trace of the run, unless its events were too many to keep."""
        if self.overflowed:
            return None
        processes = self.system.topology.processes
        return Trace(
            self.setup.plain(),
            processes,
            {process: self.system.label(process) for process in processes},
            tuple(self.events),
            tuple(findings),
            f"{self.setup.algorithm}, {counted(self.setup.n, 'participant')}",
        )

    def missed(self) -> list[str]:
        """Return the faults that have not struck and the interventions that have not taken place,
        each with the reason.
        """
        reasons = {id(fault): reason for fault, reason in self.simulation.missed_faults()}
        faults = [
            f"{argument(kind)} {text} did not strike: {reasons[id(fault)]}"
            for (kind, text), fault in zip(self.setup.faults, self._faults, strict=True)
            if id(fault) in reasons
        ]
        return faults + [
            f"{argument('then')} {text!r} did not take place: {reason}"
            for text, reason in self.missed_interventions()
        ]

    def missed_interventions(self) -> list[tuple[str, str]]:
        """Return the interventions that have not taken place, each with the reason."""
        reasons = {id(each): why for each, why in self.simulation.missed_interventions()}
        return [
            (text, reasons[id(intervention)])
            for text, (_, intervention) in zip(self.setup.then, self._interventions, strict=True)
            if id(intervention) in reasons
        ]


def _check(setup: Setup, entry: Entry) -> None:
    if setup.workload not in WORKLOADS:
        raise BadSetup(f"there is no workload {setup.workload}; there are {', '.join(WORKLOADS)}")
    for name, parse in TEXTS.items():
        given = getattr(setup, name)
        if given is not None:
            _parsed(name, parse, given)
    if setup.overtaking is not None and ME4 not in entry.problem.properties:
        raise BadSetup(f"overtaking is about mutual exclusion, not {entry.problem.title}")


def faults_of(setup: Setup) -> list[Fault]:
    faults = []
    for kind, text in setup.faults:
        if kind not in notation.FAULT_PARSERS:
            raise BadSetup(
                f"there is no fault {kind}; there are {', '.join(notation.FAULT_PARSERS)}"
            )
        faults.append(_parsed(kind, notation.FAULT_PARSERS[kind], text))
    return faults


def _parsed(name: str, parse: Callable[[str], Value], text: str) -> Value:
    """Parse an argument; an error names it."""
    try:
        return parse(text)
    except notation.BadNotation as reason:
        raise notation.BadNotation(f"{argument(name)} {reason}") from None


def _network_of(setup: Setup, entry: Entry) -> Network:
    fifo = entry.assumes.fifo if setup.fifo is None else setup.fifo
    return Network(
        notation.delay(setup.delay),
        fifo,
        notation.chance(setup.loss),
        notation.chance(setup.duplicate),
    )

"""One run, from its description to its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from habemus.catalog.entries import Entry, find
from habemus.core.events import Event
from habemus.core.process import ProcessId
from habemus.core.properties import Finding, Verdict, worst
from habemus.core.system import System
from habemus.problems.mutex_properties import ME3, ME4
from habemus.runs import notation
from habemus.runs.author_errors import attribute_to_algorithm
from habemus.runs.limits import planned_end
from habemus.runs.names import by_number
from habemus.runs.setup import OUTSIDE, WORKLOADS, BadSetup, Setup
from habemus.runs.systems import LINKS, system_of
from habemus.runtimes.sim.faults import Fault
from habemus.runtimes.sim.network import Network
from habemus.runtimes.sim.simulation import Ending, Record, Simulation
from habemus.traces import Digest, Trace

KEEP_LIMIT = 200_000
"""Largest number of events that are kept for a picture or a file; longer runs have no trace."""

CLOCKS_UP_TO = 64
"""Largest number of processes for which events carry vector clocks."""


@dataclass
class Report:
    """The result of a run."""

    setup: Setup
    entry: Entry
    system: System
    ending: Ending
    findings: list[Finding]
    digest: str
    costs: dict[str, Any]
    trace: Trace | None
    awaits: dict[ProcessId, list[ProcessId]] = field(default_factory=dict)
    missed_faults: list[str] = field(default_factory=list)  # each with the reason

    @property
    def counted(self) -> list[Finding]:
        """The findings that count for the verdict: safety and liveness always, an order only if the
        algorithm claims it, or the setup asks for it.
        """
        # Acknowledgements of links create happened-before relations that the algorithm cannot
        # see.
        claimed = [
            name for name in self.entry.box.ensures if not (self.setup.over and name == "ME3")
        ]
        asked = [ME3.name] if self.setup.order == OUTSIDE else []
        asked += [ME4.name] if self.setup.overtaking is not None else []
        names = (*self.entry.problem.always_counted, *claimed, *asked)
        return [finding for finding in self.findings if finding.name in names]

    @property
    def verdict(self) -> Verdict:
        return worst(self.counted)

    @property
    def violated(self) -> list[str]:
        return [finding.name for finding in self.counted if finding.verdict is Verdict.VIOLATED]

    @property
    def why(self) -> str:
        """The reasons of the verdict: of the violations, else of the undecided properties."""
        telling = [finding for finding in self.counted if finding.verdict is self.verdict]
        if self.verdict is Verdict.HOLDS:
            return "; ".join(dict.fromkeys(finding.why for finding in telling))
        return "; ".join(f"{finding.name}: {finding.why}" for finding in telling)

    def plain(self) -> dict[str, Any]:
        return {
            "run": self.setup.plain(),
            "command": self.setup.command(),
            "verdict": self.verdict.value,
            "properties": {finding.name: finding.verdict.value for finding in self.findings},
            "why": self.why,
            "reasons": {finding.name: finding.why for finding in self.findings},
            "missed_faults": self.missed_faults,
            "violated": self.violated,
            **self.costs,
            "ended": self.ending.reason,
            "time": self.ending.time,
            "events": self.ending.delivered,
            "digest": self.digest,
        }


def execute(
    setup: Setup,
    *,
    keep: bool = True,
    progress: Callable[[int, int], None] | None = None,
    entry: Entry | None = None,
) -> Report:
    """Execute a run.  With `keep`, the report has its trace, unless the run is too long for it."""
    entry = entry or find(setup.algorithm)
    if setup.workload not in WORKLOADS:
        raise BadSetup(f"there is no workload {setup.workload}; there are {', '.join(WORKLOADS)}")
    if setup.overtaking is not None and ME4 not in entry.problem.properties:
        raise BadSetup(f"--overtaking is about mutual exclusion, not {entry.problem.title}")
    system = system_of(setup, entry)
    setup = by_number(setup, system.labels)
    network = _network_of(setup, entry)
    problem = entry.problem
    faults = faults_of(setup)
    simulation = Simulation(
        system,
        workload=problem.workload(setup, system),
        network=network,
        faults=faults,
        seed=setup.seed,
        processing=notation.time(setup.processing),
        guarded=keep and not entry.algorithm.__module__.startswith("habemus."),
        record=Record.CLOCKS if keep and len(system.plans) <= CLOCKS_UP_TO else Record.MESSAGES,
    )
    judge = problem.judge(setup, system, network)
    digest = Digest()
    kept: list[Event] = []
    overflowed = False

    def keep_event(event: Event) -> None:
        nonlocal overflowed
        if len(kept) < KEEP_LIMIT:
            kept.append(event)
        else:
            overflowed = True

    simulation.observers += [digest.add, judge.observe]
    if keep:
        simulation.observers.append(keep_event)
    with attribute_to_algorithm():
        ending = simulation.run(planned_end(setup, entry.algorithm), setup.events, progress)
    awaits = {
        me: list(parts[0].awaits())
        for me, parts in simulation.processes.items()
        if simulation.is_up(me)
    }
    findings = judge.findings(ending.reason, awaits)
    trace = None
    if keep and not overflowed:
        labels = {process: system.label(process) for process in system.topology.processes}
        trace = Trace(
            setup.plain(),
            system.topology.processes,
            labels,
            tuple(kept),
            tuple(findings),
            f"{setup.algorithm}, {setup.n} participants",
        )
    return Report(
        setup,
        entry,
        system,
        ending,
        findings,
        digest.hexdigest(),
        judge.costs(ending),
        trace,
        awaits,
        _missed(setup, faults, simulation),
    )


def _missed(setup: Setup, faults: Sequence[Fault], simulation: Simulation) -> list[str]:
    reasons = {id(fault): reason for fault, reason in simulation.missed_faults()}
    return [
        f"--{kind} {text} did not strike: {reasons[id(fault)]}"
        for (kind, text), fault in zip(setup.faults, faults, strict=True)
        if id(fault) in reasons
    ]


def faults_of(setup: Setup) -> list[Fault]:
    faults = []
    for kind, text in setup.faults:
        if kind not in notation.FAULTS:
            raise BadSetup(f"there is no fault {kind}; there are {', '.join(notation.FAULTS)}")
        faults.append(notation.FAULTS[kind](text))
    return faults


def _network_of(setup: Setup, entry: Entry) -> Network:
    fifo = entry.assumes.fifo if setup.fifo is None else setup.fifo
    return Network(
        notation.delay(setup.delay),
        fifo,
        notation.chance(setup.loss),
        notation.chance(setup.duplicate),
    )


def replayed(trace: Trace) -> Report:
    """Repeat the run of a saved trace."""
    return execute(Setup.from_plain(trace.run))


def is_counterexample(run: Mapping[str, Any]) -> bool:
    """Return whether a trace is the counterexample of a check."""
    return "check" in run


def is_live(run: Mapping[str, Any]) -> bool:
    """Return whether a trace was recorded by live nodes, and so cannot be repeated from a seed."""
    return run.get("live") is True


__all__ = [
    "KEEP_LIMIT",
    "LINKS",
    "Report",
    "execute",
    "faults_of",
    "is_counterexample",
    "is_live",
    "replayed",
    "system_of",
]

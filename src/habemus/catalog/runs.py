"""One run, from its description to its report.

A `Setup` is everything that identifies a run, written in the notation of the command line.  So every run can
be printed as a command, saved in the header of its trace, and made again from either.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from habemus.catalog import notation
from habemus.catalog.entries import Entry, find
from habemus.core.application import Workload
from habemus.core.events import Event
from habemus.core.process import MistakeInPlan, Process, ProcessId
from habemus.core.properties import Finding, Verdict, worst
from habemus.core.shapes import Malformed
from habemus.core.system import System
from habemus.problems.mutex import Clients, InTurn, Script
from habemus.problems.mutex_monitor import ME1, ME2_DEADLOCK, ME2_STARVATION, MutexMeter, MutexMonitor
from habemus.runtimes.sim.faults import Fault
from habemus.runtimes.sim.network import Network
from habemus.runtimes.sim.simulation import Ending, Simulation
from habemus.traces import Digest, Trace

WORKLOADS = ("steady", "burst", "in-turn")
EVENT_LIMIT = 10_000_000
KEEP_LIMIT = 200_000
"""So many events are kept in memory for a picture or a file; longer runs are judged as they go."""


class BadSetup(ValueError):
    """A description that does not describe a run."""


@dataclass(frozen=True)
class Setup:
    algorithm: str
    n: int
    seed: int = 0
    options: tuple[str, ...] = ()
    initial: tuple[str, ...] = ()
    workload: str = "steady"
    requests: int = 1
    think: str = "0..10ms"
    hold: str = "1ms"
    asks: tuple[str, ...] = ()
    delay: str = "1ms"
    fifo: bool = False
    loss: str = "0"
    duplicate: str = "0"
    faults: tuple[tuple[str, str], ...] = ()
    until: str | None = None
    events: int = EVENT_LIMIT

    def plain(self) -> dict[str, Any]:
        """As JSON can hold it; what is not said is as usual."""
        given = {each.name: getattr(self, each.name) for each in fields(self) if getattr(self, each.name) != each.default}
        return {name: [list(one) if isinstance(one, tuple) else one for one in value] if isinstance(value, tuple) else value for name, value in given.items()}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Setup:
        """The setup that `plain` wrote, or `BadSetup`: the text may come from anywhere."""
        known = {each.name: each for each in fields(cls)}
        for name, value in plain.items():
            if name not in known:
                raise BadSetup(f"the description of the run has an unknown entry {str(name)[:40]!r}")
            expected = {"n": int, "seed": int, "requests": int, "events": int, "fifo": bool}.get(name, list if name in _LISTS else str)
            if type(value) is not expected:
                raise BadSetup(f"{name} in the description of the run must be {_KIND[expected]}, not {str(value)[:40]!r}")
        if "algorithm" not in plain or "n" not in plain:
            raise BadSetup("the description of the run names no algorithm or no size")
        for kind_and_text in plain.get("faults", ()):
            if not (isinstance(kind_and_text, list) and len(kind_and_text) == 2 and all(isinstance(each, str) for each in kind_and_text)):
                raise BadSetup(f"a fault is a pair of texts, not {str(kind_and_text)[:40]!r}")
        for name in ("options", "initial", "asks"):
            if not all(isinstance(each, str) for each in plain.get(name, ())):
                raise BadSetup(f"{name} in the description of the run must be a list of texts")
        changed = {name: tuple(plain[name]) for name in _LISTS if name in plain}
        if "faults" in changed:
            changed["faults"] = tuple((kind, text) for kind, text in changed["faults"])
        return cls(**{**plain, **changed})

    def command(self) -> str:
        """The run as a command that can be pasted into a shell."""
        words = ["habemus", "run", self.algorithm, "-n", str(self.n)]
        flags = {"options": "--option", "initial": "--set", "asks": "--ask", "fifo": "--fifo"}
        for each in fields(self)[2:]:
            value = getattr(self, each.name)
            if value == each.default:
                continue
            flag = flags.get(each.name, f"--{each.name}")
            if each.name == "faults":
                words += [word for kind, text in value for word in (f"--{kind}", text)]
            elif isinstance(value, tuple):
                words += [word for text in value for word in (flag, text)]
            else:
                words += [flag] if value is True else [flag, str(value)]
        return shlex.join(words)


_LISTS = ("options", "initial", "asks", "faults")
_KIND: dict[type, str] = {int: "a whole number", bool: "true or false", list: "a list", str: "a text"}


@dataclass
class Report:
    """What came of a run."""

    setup: Setup
    entry: Entry
    system: System
    ending: Ending
    findings: list[Finding]
    digest: str
    costs: dict[str, Any]
    trace: Trace | None
    awaits: dict[ProcessId, list[ProcessId]] = field(default_factory=dict)

    @property
    def counted(self) -> list[Finding]:
        """The findings that make the verdict: safety and liveness always, an order only if the algorithm claims it."""
        return [finding for finding in self.findings if finding.name in _ALWAYS_COUNTED or finding.name in self.entry.box.ensures]

    @property
    def verdict(self) -> Verdict:
        return worst(self.counted)

    @property
    def violated(self) -> list[str]:
        return [finding.name for finding in self.counted if finding.verdict is Verdict.VIOLATED]

    @property
    def why(self) -> str:
        """The reasons of the verdict: those of the violations, else those of what is undecided."""
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
            "violated": self.violated,
            **self.costs,
            "ended": self.ending.reason,
            "time": self.ending.time,
            "events": self.ending.delivered,
            "digest": self.digest,
        }


_ALWAYS_COUNTED = (ME1.name, ME2_DEADLOCK.name, ME2_STARVATION.name)


def execute(setup: Setup, *, keep: bool = True, progress: Callable[[int, int], None] | None = None, entry: Entry | None = None) -> Report:
    """Makes the run.  With `keep`, the report has its trace, unless the run is too long for that."""
    entry = entry or find(setup.algorithm)
    system = system_of(setup, entry)
    network = _network_of(setup)
    simulation = Simulation(
        system,
        workload=_workload_of(setup, system),
        network=network,
        faults=faults_of(setup),
        seed=setup.seed,
        messages=True,
        clocks=keep and len(system.plans) <= 64,
    )
    monitor = MutexMonitor(system.topology.processes, system.label)
    meter = MutexMeter(settled=2 * network.delay.longest)
    digest = Digest()
    kept: list[Event] = []
    overflowed = False

    def keep_event(event: Event) -> None:
        nonlocal overflowed
        if len(kept) < KEEP_LIMIT:
            kept.append(event)
        else:
            overflowed = True

    simulation.observers += [digest.add, monitor.observe, meter.observe]
    if keep:
        simulation.observers.append(keep_event)
    ending = simulation.run(notation.time(setup.until) if setup.until else None, setup.events, progress)
    awaits = {me: list(parts[0].awaits()) for me, parts in simulation.processes.items() if simulation.is_up(me)}
    findings = monitor.findings(ending.reason, awaits)
    trace = None
    if keep and not overflowed:
        labels = {process: system.label(process) for process in system.topology.processes}
        trace = Trace(setup.plain(), system.topology.processes, labels, tuple(kept), tuple(findings), f"{setup.algorithm}, {setup.n} participants")
    costs = _costs(setup, system, ending, monitor, meter, network)
    return Report(setup, entry, system, ending, findings, digest.hexdigest(), costs, trace, awaits)


def system_of(setup: Setup, entry: Entry) -> System:
    largest = getattr(entry.algorithm, "largest", 1)
    if not 1 <= setup.n <= largest:
        raise BadSetup(f"{setup.algorithm} runs with 1 to {largest} participants, not with {setup.n}")
    options = dict(notation.option(text) for text in setup.options)
    system = entry.system(setup.n, options)
    changes: dict[ProcessId, dict[str, Any]] = {}
    for text in setup.initial:
        process, name, value = notation.initial(text)
        if process not in system.plans:
            raise BadSetup(f"--set {text}: there is no process {process}")
        changes.setdefault(process, {})[name] = _initial_value(system.plans[process], name, value)
    if changes:
        plans: dict[ProcessId, Process] = {me: plan.but(**changes[me]) if me in changes else plan for me, plan in system.plans.items()}
        system = replace(system, plans=plans)
    return system


def _initial_value(plan: Process, name: str, value: Any) -> Any:
    variable = type(plan).__variables__.get(name)
    if variable is None or variable.shape is None:
        return value  # the plan refuses it, with the names it has
    try:
        return variable.shape.parse(value, {})
    except Malformed as reason:
        raise BadSetup(f"{name}: {reason}") from None


def faults_of(setup: Setup) -> list[Fault]:
    faults = []
    for kind, text in setup.faults:
        if kind not in notation.FAULTS:
            raise BadSetup(f"there is no fault {kind}; there are {', '.join(notation.FAULTS)}")
        faults.append(notation.FAULTS[kind](text))
    return faults


def _network_of(setup: Setup) -> Network:
    return Network(notation.delay(setup.delay), setup.fifo, notation.chance(setup.loss), notation.chance(setup.duplicate))


def _workload_of(setup: Setup, system: System) -> Workload:
    if setup.requests < 0:
        raise BadSetup(f"each participant asks a number of times, not {setup.requests}")
    if setup.asks:
        asks = [notation.ask(text) for text in setup.asks]
        for one in asks:
            if one.process not in system.clients:
                raise BadSetup(f"process {one.process} is no participant; there are {system.clients[0]} to {system.clients[-1]}")
        return Script(asks)
    hold = notation.span(setup.hold)
    if setup.workload == "in-turn":
        return InTurn(setup.requests, hold=hold)
    if setup.workload not in WORKLOADS:
        raise BadSetup(f"there is no workload {setup.workload}; there are {', '.join(WORKLOADS)}")
    return Clients(setup.requests, 0 if setup.workload == "burst" else notation.span(setup.think), hold)


def _costs(setup: Setup, system: System, ending: Ending, monitor: MutexMonitor, meter: MutexMeter, network: Network) -> dict[str, Any]:
    entries = sum(meter.entries.values())
    unit = network.delay.mean

    def in_message_times(delays: list[int]) -> float | None:
        return _exact(sum(delays), len(delays) * unit) if delays else None

    plan = next(iter(system.plans.values()))
    formula = plan.costs(setup.n) if hasattr(plan, "costs") else None
    fairness = meter.fairness(system.clients)
    return {
        "entries": entries,
        "messages": meter.messages,
        "bytes": meter.bytes,
        "messages_per_entry": _exact(meter.messages, entries) if entries else None,
        "bytes_per_entry": _exact(meter.bytes, entries) if entries else None,
        "client_delay": in_message_times(meter.client_delays),
        "sync_delay": in_message_times(meter.sync_delays),
        "throughput": round(entries * unit / ending.time, 6) if ending.time else None,
        "largest_overtaking": monitor.overtaking,
        "fairness": None if fairness is None else round(fairness, 6),
        "entries_by_process": {str(client): meter.entries[client] for client in system.clients},
        "formula": formula._asdict() if formula is not None else None,
    }


def _exact(numerator: int, denominator: int) -> float:
    """A whole number where it is one: costs are compared with formulas."""
    return numerator // denominator if numerator % denominator == 0 else round(numerator / denominator, 6)


def replayed(trace: Trace) -> Report:
    """Makes the run of a saved trace again."""
    return execute(Setup.from_plain(trace.run))


__all__ = ["EVENT_LIMIT", "WORKLOADS", "BadSetup", "MistakeInPlan", "Report", "Setup", "execute", "faults_of", "replayed", "system_of"]

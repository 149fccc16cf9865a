"""One proof: refute it by a search, check what it rests on, and then do the induction."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter
from typing import TYPE_CHECKING, Any

from habemus.catalog.entries import Entry, entries
from habemus.core.invariants import Clause, Invariant, StateView
from habemus.core.process import MistakeInPlan, Process
from habemus.core.properties import Verdict
from habemus.core.system import System
from habemus.core.words import counted
from habemus.proofs.axioms import AXIOMS, QUORUMS, quorums_intersect
from habemus.proofs.cases import Case, case_of
from habemus.proofs.induction import PROPERTIES, Induction
from habemus.proofs.reachable import Explored, Refutation, explore, holds_for_all
from habemus.proofs.solver import TIME_LIMIT_S, Answer
from habemus.proofs.steps import Model, SymbolicStep
from habemus.proofs.symbols import Collection

if TYPE_CHECKING:
    from habemus.traces import Trace

SEARCHED = ((2, 2), (3, 1))
"""Numbers of processes, and of entries of each, of the searches before an induction."""
AXIOM_SIZES = range(2, 7)


class NoProof(LookupError):
    """An algorithm without a proof."""


class ExecutorDisagrees(Exception):
    """The executor does something else than the code that it has read: a defect of habemus."""


@dataclass
class ProofReport:
    """The result of a proof."""

    name: str
    proof: Invariant
    verdict: Verdict = Verdict.UNDECIDED
    why: str = ""
    searched: list[Explored] = field(default_factory=list)
    refutation: Refutation | None = None
    compared: int = 0  # steps of the searches that were compared with the executor
    ways: int = 0
    obligations: int = 0
    case: Case | None = None
    seconds: float = 0.0
    assumptions: list[str] = field(default_factory=list)

    @property
    def trace(self) -> Trace | None:
        """The shortest run to the state that refutes a clause."""
        if self.refutation is None:
            return None
        from habemus.runtimes.checker.counterexample import story
        from habemus.traces import Trace

        search = self.refutation.search
        told = story(search, search.path_to(self.refutation.state))
        processes = search.system.topology.processes
        labels = {process: search.system.label(process) for process in processes}
        title = f"{self.name}: {self.refutation.clause} does not hold"
        return Trace({"clause": self.refutation.clause}, processes, labels, told.events, (), title)

    def plain(self) -> dict[str, Any]:
        trace = self.trace
        return {
            "algorithm": self.name,
            "property": self.proof.ensures,
            "verdict": self.verdict.value,
            "why": self.why,
            "for": "every number of processes" if self.verdict is Verdict.HOLDS else None,
            "assumptions": self.assumptions,
            "clauses": list(self.proof.clauses),
            "searched": [
                {
                    "n": each.size,
                    "states": each.search.extent.states,
                    "exhaustive": each.is_complete,
                }
                for each in self.searched
            ],
            "steps_compared": self.compared,
            "ways": self.ways,
            "obligations": self.obligations,
            "refuted": None
            if self.refutation is None
            else {
                "clause": self.refutation.clause,
                "n": self.refutation.size,
                "for": list(self.refutation.arguments),
                "trace": [event.line() for event in trace.events] if trace else [],
            },
            "counterexample_to_induction": None if self.case is None else self.case.plain(),
            "seconds": round(self.seconds, 3),
        }


def proof_of(entry: Entry) -> Invariant:
    """Return the proof of an algorithm: in its file, or in that of the same name with `_invariant`.

    A subclass is proved by the clauses of its base class, unless it has its own.
    """
    for cls in entry.algorithm.__mro__:
        names = [cls.__module__]
        if cls.__module__.startswith("habemus.algorithms."):
            names.append(f"{cls.__module__}_invariant")
        for name in names:
            module = sys.modules.get(name)
            if module is None and find_spec(name) is not None:
                module = import_module(name)
            for found in vars(module).values() if module else ():
                if isinstance(found, Invariant) and found.algorithm is cls:
                    return found.of(entry.algorithm)
    raise NoProof(
        f"{entry.name} has no invariant; write an `Invariant` with clauses beside it, as"
        " habemus.core.invariants shows"
    )


def proved_names() -> list[str]:
    """Return the algorithms of the catalog that have a proof of their own."""
    found = []
    for name, entry in entries().items():
        module = f"{entry.algorithm.__module__}_invariant"
        if find_spec(module) is not None:
            own = vars(import_module(module)).values()
            if any(
                isinstance(each, Invariant) and each.algorithm is entry.algorithm for each in own
            ):
                found.append(name)
    return found


def prove(
    entry: Entry,
    options: Mapping[str, Any] | None = None,
    limit_s: float = TIME_LIMIT_S,
    progress: Callable[[str], None] = lambda _: None,
) -> ProofReport:
    """Prove a property for every number of processes."""
    began = perf_counter()
    options = options or {}
    proof = proof_of(entry)
    report = ProofReport(entry.name, proof)
    try:
        _prove(report, entry, options, limit_s, progress)
    finally:
        report.seconds = perf_counter() - began
    return report


def _prove(
    report: ProofReport,
    entry: Entry,
    options: Mapping[str, Any],
    limit_s: float,
    progress: Callable[[str], None],
) -> None:
    proof = report.proof
    clauses = {proof.ensures: PROPERTIES[proof.ensures], **proof.clauses}
    systems = {size: entry.system(size, options) for size in AXIOM_SIZES}
    topology = topology_of(proof, systems)
    _check_axioms(proof, systems)
    plan = next(iter(systems[3].plans.values()))
    model = Model(proof, plan)
    _check_constants(model, systems)
    steps: list[SymbolicStep] = []
    assert entry.problem.model is not None
    turned = [{name: not getattr(plan, name)} for name in model.switches]
    cases = [(*each, options) for each in SEARCHED] + [
        (2, 1, {**options, **each}) for each in turned
    ]
    for size, times, given in cases:
        progress(f"searching {counted(size, 'process', 'processes')}")
        explored = explore(proof, size, entry.problem.model, given, times)
        report.searched.append(explored)
        report.refutation = explored.refute(clauses)
        if report.refutation is not None:
            report.verdict = Verdict.VIOLATED
            report.why = f"{report.refutation.clause} does not hold with {size} processes"
            return
        steps = steps or list(model.steps())
        differs = explored.misread_clause(model, clauses) or explored.disagreement(model, steps)
        if differs:
            raise ExecutorDisagrees(f"{report.name}: {differs}")
        report.compared += explored.compared
    report.assumptions = _assumptions(model, plan, topology)
    steps = steps or list(model.steps())
    induction = Induction(model, initial_values(model, systems), topology, steps)
    progress("induction")
    induction.run(limit_s, stop_at_first=True)
    report.ways, report.obligations = len(steps), induction.obligations
    _conclude(report, induction)


def _conclude(report: ProofReport, induction: Induction) -> None:
    if not induction.failures:
        report.verdict = Verdict.HOLDS
        return
    failure = induction.failures[0]
    report.case = case_of(failure, induction)
    where = f"{failure.obligation.clause} after {failure.obligation.event}"
    if report.case is None and failure.reply.answer is Answer.UNKNOWN:
        report.why = f"the solver found no answer in time for {where}"
        return
    report.verdict = Verdict.VIOLATED
    report.why = f"not inductive: {where}"


def topology_of(proof: Invariant, systems: Mapping[int, System]) -> str:
    """Return the shape of all systems that the executor may rely on: complete, ring, or empty."""
    if "ring" in proof.assumes:
        for system in systems.values():
            _check_ring(system)
        return "ring"
    complete = all(
        set(others) == set(system.plans) - {me}
        for system in systems.values()
        for me, others in system.topology.neighbours.items()
    )
    return "complete" if complete else ""


def _check_ring(system: System) -> None:
    """Check that each process has its successor on the right, and its predecessor on the left."""
    neighbours = system.topology.neighbours
    first = next(iter(neighbours))
    around = [first]
    while (after := neighbours[around[-1]][-1]) != first and len(around) < len(neighbours):
        around.append(after)
    for index, process in enumerate(around):
        beside = tuple(dict.fromkeys((around[index - 1], around[(index + 1) % len(around)])))
        if neighbours[process] != beside or set(around) != set(neighbours):
            raise MistakeInPlan(f"the neighbours of {process} are not those of a ring")


def initial_values(model: Model, systems: Mapping[int, System]) -> dict[str, Any]:
    """Return the initial values that all processes of all systems have in common."""
    plans = [plan for system in systems.values() for plan in system.plans.values()]
    found = {}
    for name in model.kinds:
        first = getattr(plans[0], name)
        if all(getattr(plan, name) == first for plan in plans):
            found[name] = first
    return found


def _check_constants(model: Model, systems: Mapping[int, System]) -> None:
    """Check that the constants of which the executor knows one value have it everywhere."""
    for system in systems.values():
        plans = [*system.plans.values()]
        for name in model.sizes:
            if any(getattr(plan, name) != getattr(plans[0], name) for plan in plans):
                raise MistakeInPlan(f"{name} differs between processes")
        for plan in plans:
            for name, kind in model.symbols.items():
                value = getattr(plan, name)
                if isinstance(kind, Collection) and len(set(value)) != len(value):
                    raise MistakeInPlan(f"{name} has an element twice: {value}")
    for name in (*model.constants, *model.switches):
        values = [
            getattr(plan, name) for system in systems.values() for plan in system.plans.values()
        ]
        if any(value != values[0] for value in values):
            raise MistakeInPlan(f"{name} differs between processes, so no proof can rely on it")


def _check_axioms(proof: Invariant, systems: Mapping[int, System]) -> None:
    """Evaluate the axioms, and what is said of initial states, on systems of 2 to 6 processes."""
    axioms: dict[str, Clause] = dict(proof.beginnings)
    for theory in proof.assumes:
        if theory not in (*AXIOMS, *QUORUMS):
            known = ", ".join((*AXIOMS, *QUORUMS))
            raise MistakeInPlan(f"there are no axioms {theory}; there are {known}")
        axioms |= {each.__name__: each for each in AXIOMS.get(theory, ())}
    for size, system in systems.items():
        participants = [_initial(system, me, plan) for me, plan in system.plans.items()]
        for name, axiom in axioms.items():
            if not holds_for_all(axiom, participants):
                raise MistakeInPlan(f"{name} does not hold for {size} processes")
        for theory in proof.assumes:
            if theory in QUORUMS and not quorums_intersect(theory, system):
                raise MistakeInPlan(f"{theory}: two quorums of {size} processes do not intersect")


def _initial(system: System, me: int, plan: Process) -> StateView:
    process = type(plan).__new__(type(plan))
    process.me, process.peers, process.links = me, system.topology.neighbours[me], None
    for name in type(plan).__variables__:
        setattr(process, name, getattr(plan, name))
    return StateView(process, system, 0, False)


def _assumptions(model: Model, plan: Process, topology: str) -> list[str]:
    """Return what the proof takes for granted."""
    found = [f"axioms of {name}" for name in model.proof.assumes]
    found += [f"initially {name}" for name in model.proof.beginnings]
    found += [f"{name}={getattr(plan, name)}" for name in sorted(model.used)]
    found += ["links in any order"]
    found += ["no process recovers from a crash"]
    if topology == "complete":
        found.insert(0, "all processes are connected to each other")
    return found


__all__ = ["ExecutorDisagrees", "NoProof", "ProofReport", "proof_of", "prove", "proved_names"]

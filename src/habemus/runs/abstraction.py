"""Checks over an abstract component, and checks that a component refines an abstract one.

An abstract component does everything that the safety properties of its problem allow.  So what
holds over it holds over every component that keeps these properties; a violation over it need not
be one over such a component.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from habemus.catalog.entries import Entry
from habemus.catalog.problems import Problem
from habemus.core.model import ClientModel, Observer
from habemus.core.node import Stack
from habemus.core.process import MistakeInPlan, Process, ProcessId
from habemus.core.properties import Kind
from habemus.core.system import System
from habemus.core.words import did_you_mean
from habemus.problems.abstract_election import (
    PROPERTIES,
    AbstractElection,
    Settle,
    SettledElection,
)
from habemus.problems.election import Election
from habemus.problems.election_refinement import RefinementJudge, RefinementObserver
from habemus.runs.parsing import option
from habemus.runs.setup import BadSetup
from habemus.runtimes.checker.process_model import PendingTimer
from habemus.runtimes.checker.safety_only import SafetyOnly
from habemus.runtimes.checker.second_phase import Replant

ABSTRACT: dict[str, tuple[type[Process], type[Process]]] = {
    Election.__name__.lower(): (Election, AbstractElection)
}
"""The abstract components by the name of their problem, each with the interface that it has."""
LARGEST = 99
"""Largest value of an option of an abstract component."""


def _known(name: str, flag: str) -> tuple[type[Process], type[Process]]:
    if name not in ABSTRACT:
        raise BadSetup(
            f"{flag} {name}: there is no abstract {name}; there are {', '.join(ABSTRACT)}"
        )
    return ABSTRACT[name]


def component(text: str) -> tuple[type[Process], Process]:
    """Return the interface and the plan of an abstract component, such as `election:terms=3`."""
    name, _, rest = text.partition(":")
    interface, abstract = _known(name, "abstract")
    options = dict(option(part) for part in rest.split(",") if part)
    constants = [each.name for each in abstract.__variables__.values() if each.kind == "const"]
    for given in options:
        if given not in constants:
            hint = did_you_mean(given, constants)
            raise BadSetup(f"abstract {text}: the abstract {name} has no option {given}; {hint}")
        if isinstance(options[given], int) and not 1 <= options[given] <= LARGEST:
            raise BadSetup(f"abstract {text}: {given} is from 1 to {LARGEST}")
    try:
        return interface, abstract(**options)
    except MistakeInPlan as reason:
        raise BadSetup(f"abstract {text}: {reason}") from None


def abstracted(system: System, text: str) -> System:
    """Return the system with the abstract component in the place of each real one."""
    interface, abstract = component(text)
    of_plan = {id(plan): _put(plan, interface, abstract) for plan in system.plans.values()}
    if not any(path_of(plan, text) for plan in of_plan.values()):
        top = type(next(iter(system.plans.values())))
        raise BadSetup(
            f"abstract {text}: {getattr(top, 'name', '') or top.__name__} uses no"
            f" {interface.__name__.lower()} that could be replaced"
        )
    return replace(system, plans={me: of_plan[id(plan)] for me, plan in system.plans.items()})


def _put(plan: Process, interface: type[Process], abstract: Process) -> Process:
    changes = {
        name: abstract if isinstance(part, interface) else _put(part, interface, abstract)
        for name, part in _components(plan).items()
    }
    return plan.replace(**changes) if changes else plan


def _components(plan: Process) -> dict[str, Process]:
    return {
        each.name: getattr(plan, each.name)
        for each in type(plan).__variables__.values()
        if each.kind == "uses"
    }


def settled(system: System, text: str, leader: ProcessId) -> tuple[System, Replant]:
    """Return a system over abstract components that settle on a leader, and how timers change when
    they begin to settle.
    """
    _, abstract = component(text)
    constants = {
        each.name: getattr(abstract, each.name)
        for each in type(abstract).__variables__.values()
        if each.kind == "const"
    }
    settling = SettledElection(settled_on=leader, **constants)
    of_plan = {id(plan): _put(plan, AbstractElection, settling) for plan in system.plans.values()}
    ports = {
        me: [part.port for part in Stack(plan).parts if isinstance(part.plan, AbstractElection)]
        for me, plan in system.plans.items()
    }

    def replant(me: ProcessId, timers: tuple[PendingTimer, ...]) -> tuple[PendingTimer, ...]:
        kept = [each for each in timers if each.port not in ports[me]]
        return (*kept, *(PendingTimer(port, Settle()) for port in ports[me]))

    plans = {me: of_plan[id(plan)] for me, plan in system.plans.items()}
    return replace(system, plans=plans), replant


def path_of(plan: Process, text: str) -> str:
    """Return the path of the component that is abstract, or can be replaced by an abstract one;
    empty: there is none.
    """
    interface, _ = component(text)
    for name, part in _components(plan).items():
        below = "" if isinstance(part, interface) else path_of(part, text)
        if isinstance(part, interface) or below:
            return f".{name}{below}"
    return ""


def replaced(plan: Process, text: str) -> str:
    """Return the name of the component that the abstract one replaces."""
    for name in path_of(plan, text).split(".")[1:]:
        plan = _components(plan)[name]
    return getattr(plan, "name", "") or type(plan).__name__


def description(text: str) -> str:
    """Return the abstract component in words, for the line `within`."""
    _, plan = component(text)
    constants = [
        f"{each.name} {getattr(plan, each.name)}"
        for each in type(plan).__variables__.values()
        if each.kind == "const"
    ]
    return f"an abstract {text.partition(':')[0]} ({', '.join(constants)})"


def kept_by_abstraction() -> str:
    """Return the properties that an abstract component keeps, in words."""
    return ", ".join(each.name for each in PROPERTIES)


def safety_only(entry: Entry) -> Entry:
    """Return the entry with the properties that a search over an abstract component can decide."""
    problem = entry.problem
    model = problem.model
    if model is None:
        return entry

    def safe(
        entries: int | None, system: System
    ) -> tuple[Mapping[ProcessId, ClientModel], Observer]:
        uses, observer = model(entries, system)
        return uses, SafetyOnly(observer)

    properties = tuple(each for each in problem.properties if each.kind is Kind.ALWAYS)
    return replace(entry, problem=replace(problem, properties=properties, model=safe))


def refining(entry: Entry, name: str) -> Entry:
    """Return the entry, judged by the properties of an abstract component."""
    interface, _ = _known(name, "refines")
    problem, model = entry.problem, entry.problem.model
    if not issubclass(entry.algorithm, interface) or model is None:
        raise BadSetup(
            f"refines {name}: {entry.name} is not a kind of {interface.__name__.lower()}"
        )

    def refined(
        entries: int | None, system: System
    ) -> tuple[Mapping[ProcessId, ClientModel], Observer]:
        return model(entries, system)[0], RefinementObserver()

    def judge(*_: Any) -> RefinementJudge:
        return RefinementJudge()

    judged = Problem(
        problem.name,
        problem.title,
        problem.base,
        PROPERTIES,
        tuple(each.name for each in PROPERTIES),
        problem.workload,
        judge,
        refined,
    )
    return replace(entry, problem=judged)


__all__ = [
    "ABSTRACT",
    "abstracted",
    "component",
    "description",
    "kept_by_abstraction",
    "path_of",
    "refining",
    "replaced",
    "safety_only",
]

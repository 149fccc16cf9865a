"""The system of a setup: its processes, with their options, initial values and links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from habemus.catalog.entries import Entry
from habemus.core.process import Process, ProcessId
from habemus.core.shapes import Malformed
from habemus.core.system import System
from habemus.runs import parsing as words
from habemus.runs.names import numbered
from habemus.runs.setup import BadSetup, Setup

LINKS = ("perfect", "perfect-fifo")
"""Kinds of links that can be put under processes."""


def system_of(setup: Setup, entry: Entry) -> System:
    largest = getattr(entry.algorithm, "largest", 1)
    if not 1 <= setup.n <= largest:
        raise BadSetup(
            f"{setup.algorithm} runs with 1 to {largest} participants, not with {setup.n}"
        )
    options = dict(words.option(text) for text in setup.options)
    system = entry.system(setup.n, options)
    given = dict(words.label(text) for text in setup.labels)
    labels = {**system.labels, **given}
    changes: dict[ProcessId, dict[str, Any]] = {}
    for text in setup.initial:
        process, name, value = words.initial(numbered(text, labels))
        if process not in system.plans:
            raise BadSetup(f"initial value {text}: there is no process {process}")
        changes.setdefault(process, {})[name] = _initial_value(system.plans[process], name, value)
    if changes:
        plans: dict[ProcessId, Process] = {
            me: plan.replace(**changes[me]) if me in changes else plan
            for me, plan in system.plans.items()
        }
        system = replace(system, plans=plans)
    if setup.over:
        system = replace(system, plans=_over_links(system.plans, setup.over))
    for process in given.keys() - system.plans.keys():
        raise BadSetup(f"label {process}={given[process]}: there is no process {process}")
    _refuse_ambiguous_labels(given, labels, system)
    return replace(system, labels=labels) if given else system


def _refuse_ambiguous_labels(
    given: Mapping[ProcessId, str], labels: Mapping[ProcessId, str], system: System
) -> None:
    """Refuse a label that another process has, or that is the number of another process."""
    for process, label in given.items():
        others = [each for each in system.plans if each != process]
        for other in others:
            if labels.get(other) == label:
                raise BadSetup(
                    f"label {process}={label}: process {other} has this label too; give each"
                    " another one"
                )
        if label.isdecimal() and int(label) in others:
            raise BadSetup(
                f"label {process}={label}: {label} is the number of another process; give another"
                " label"
            )


def _initial_value(plan: Process, name: str, value: Any) -> Any:
    variable = type(plan).__variables__.get(name)
    if variable is None or variable.shape is None:
        return value  # the plan refuses it, with the names it has
    try:
        return variable.shape.parse(value, {})
    except Malformed as reason:
        raise BadSetup(f"{name}: {reason}") from None


def _over_links(plans: Mapping[ProcessId, Process], name: str) -> dict[ProcessId, Process]:
    """Return the plans with links under them; plans that already have links keep theirs."""
    if name not in LINKS:
        raise BadSetup(f"there are no links {name}; there are {', '.join(LINKS)}")
    from habemus.algorithms.links.perfect import PerfectLinks

    links = PerfectLinks(fifo=name == "perfect-fifo")
    of_plan: dict[int, Process] = {}  # one plan stays one plan
    for plan in plans.values():
        if id(plan) not in of_plan:
            of_plan[id(plan)] = plan if plan.links is not None else plan.over(links)
    return {process: of_plan[id(plan)] for process, plan in plans.items()}

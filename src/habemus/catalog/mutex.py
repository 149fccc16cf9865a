"""Mutual exclusion in the catalog."""

from __future__ import annotations

from collections.abc import Mapping

from habemus.catalog.problems import Problem, lazy
from habemus.core.model import ClientModel, Observer
from habemus.core.process import ProcessId
from habemus.core.system import System
from habemus.problems.fencing import FENCE
from habemus.problems.mutex import Mutex
from habemus.problems.mutex_observer import MOVES, MutexClientModel, MutexObserver
from habemus.problems.mutex_properties import ME1, ME2_DEADLOCK, ME2_STARVATION, PROPERTIES
from habemus.problems.tokens import TOKEN


def model(entries: int | None, system: System) -> tuple[Mapping[ProcessId, ClientModel], Observer]:
    plan = next(iter(system.plans.values()))
    moves, ways = getattr(plan, "moves", 0), MOVES if getattr(plan, "breaks", True) else MOVES[:1]
    lines_up = getattr(plan, "turns", 0) > 0
    can_resign = getattr(getattr(plan, "election", None), "can_resign", False)
    clients = {}
    for process, own in system.plans.items():
        others = tuple(other for other in system.plans if other != process)
        clients[process] = MutexClientModel(
            entries,
            moves,
            others,
            ways,
            lines_up,
            isinstance(own, Mutex) and own.withdraws,
            others if can_resign else (),
        )
    return clients, MutexObserver()


MUTEX = Problem(
    "mutex",
    "mutual exclusion",
    Mutex,
    (*PROPERTIES, FENCE, TOKEN),
    (ME1.name, ME2_DEADLOCK.name, ME2_STARVATION.name),
    lazy("habemus.runs.mutex", "workload"),
    lazy("habemus.runs.mutex", "MutexJudge"),
    model,
)

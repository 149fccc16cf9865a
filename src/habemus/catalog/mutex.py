"""Mutual exclusion in the catalog."""

from __future__ import annotations

from collections.abc import Mapping

from habemus.catalog.problems import Problem, later
from habemus.core.model import Observer, Use
from habemus.core.process import ProcessId
from habemus.core.system import System
from habemus.problems.fencing import FENCE
from habemus.problems.mutex import Mutex
from habemus.problems.mutex_observer import MutexObserver, MutexUse
from habemus.problems.mutex_properties import ME1, ME2_DEADLOCK, ME2_STARVATION, PROPERTIES
from habemus.problems.tokens import TOKEN


def model(entries: int | None, system: System) -> tuple[Mapping[ProcessId, Use], Observer]:
    return dict.fromkeys(system.plans, MutexUse(entries)), MutexObserver()


MUTEX = Problem(
    "mutex",
    "mutual exclusion",
    Mutex,
    (*PROPERTIES, FENCE, TOKEN),
    (ME1.name, ME2_DEADLOCK.name, ME2_STARVATION.name),
    later("habemus.runs.mutex", "workload"),
    later("habemus.runs.mutex", "MutexJudge"),
    model,
)

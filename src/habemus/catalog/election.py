"""Leader election in the catalog."""

from __future__ import annotations

from collections.abc import Mapping

from habemus.catalog.problems import Problem, lazy
from habemus.core.model import ClientModel, Observer
from habemus.core.process import ProcessId
from habemus.core.system import System
from habemus.problems.election import Election
from habemus.problems.election_judgement import PROPERTIES
from habemus.problems.election_observer import ElectionClientModel, ElectionObserver


def algorithm_of(system: System) -> type[Election]:
    algorithm = type(system.plans[system.clients[0]])
    assert issubclass(algorithm, Election)
    return algorithm


def model(calls: int | None, system: System) -> tuple[Mapping[ProcessId, ClientModel], Observer]:
    algorithm = algorithm_of(system)
    sees_to_it = algorithm.callers == "none"
    clients = {
        process: ElectionClientModel(
            0 if sees_to_it else calls,
            tuple(other for other in system.plans if other != process)
            if algorithm.can_resign
            else (),
        )
        for process in system.plans
    }
    return clients, ElectionObserver(system.topology.processes, algorithm.scope, sees_to_it)


ELECTION = Problem(
    "election",
    "leader election",
    Election,
    PROPERTIES,
    tuple(each.name for each in PROPERTIES),
    lazy("habemus.runs.election", "workload"),
    lazy("habemus.runs.election", "ElectionJudge"),
    model,
)

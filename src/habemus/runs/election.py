"""Runs of leader election: its workloads and its judge."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from habemus.catalog.election import algorithm_of
from habemus.catalog.problems import exact
from habemus.core.application import Workload
from habemus.core.events import Event
from habemus.core.mistakes import formula_of
from habemus.core.process import ProcessId, Span
from habemus.core.properties import Finding
from habemus.core.system import System
from habemus.problems.election import Call, Calls, Election, ElectionCosts
from habemus.problems.election_monitor import ElectionMonitor
from habemus.problems.traffic import Traffic
from habemus.runs import notation
from habemus.runs.limits import planned_end
from habemus.runs.mutex import interrupted
from habemus.runs.requests import asks_of
from habemus.runs.setup import Setup
from habemus.runtimes.sim.network import Network
from habemus.runtimes.sim.simulation import Ending

PAUSE = 100_000
"""Time between two elections that are called one after the other."""


def workload(setup: Setup, system: System) -> Workload:
    """Return the calls of a setup, with its interruptions."""
    return interrupted(_calls(setup, system), setup, system)


def _calls(setup: Setup, system: System) -> Workload:
    """Return the calls of a setup: its asks (`P@T`), or else those of its workload.

    `in-turn`: the participants one after the other, each after the last election, `requests` in
    all.  `burst`: all participants at the same moment.  `steady`: by `callers` of the algorithm, a
    random process, all processes, or none.
    """
    asks = asks_of(setup, system)
    if asks:
        return Calls([Call(one.process, one.at) for one in asks])
    clients = system.clients
    if setup.workload == "in-turn":
        return Calls(
            [
                Call(clients[turn % len(clients)], (turn + 1) * PAUSE)
                for turn in range(setup.requests)
            ]
        )
    if setup.workload == "burst":
        return Calls(
            [Call(client, turn * PAUSE) for turn in range(setup.requests) for client in clients]
        )
    callers = algorithm_of(system).callers
    think = notation.span(setup.think)
    if callers == "all":
        return Calls(
            [
                Call(client, _later(think, turn * PAUSE))
                for turn in range(setup.requests)
                for client in clients
            ]
        )
    if callers == "one":
        draw = random.Random(setup.seed)
        return Calls(
            [
                Call(draw.choice(clients), _later(think, turn * PAUSE))
                for turn in range(setup.requests)
            ]
        )
    return Calls()


def _later(span: Span, by: int) -> Span:
    return span + by if isinstance(span, int) else (span[0] + by, span[1] + by)


class ElectionJudge:
    """The monitor of elections and the counts of messages."""

    def __init__(self, setup: Setup, system: System, network: Network) -> None:
        self._setup = setup
        self._system = system
        self._network = network
        algorithm = algorithm_of(system)
        end = planned_end(setup, algorithm)
        self.monitor = ElectionMonitor(
            system.topology.processes, algorithm.scope, system.label, network.delay.longest, end
        )
        self.traffic = Traffic()

    def observe(self, event: Event) -> None:
        self.traffic.observe(event)
        self.monitor.observe(event)

    def findings(
        self, ending: str, awaits: Mapping[ProcessId, Sequence[ProcessId]]
    ) -> list[Finding]:
        return self.monitor.findings(ending, awaits)

    def costs(self, ending: Ending) -> dict[str, Any]:
        turnarounds = self.monitor.finished_turnarounds()
        plan = self._system.plans[self._system.clients[0]]
        assert isinstance(plan, Election)
        return {
            "leader": self.monitor.settled,
            "messages": self.traffic.messages,
            "bytes": self.traffic.bytes,
            "messages_by_name": dict(sorted(self.traffic.by_name.items())),
            "turnaround": (
                exact(sum(turnarounds), len(turnarounds) * self._network.delay.mean)
                if turnarounds
                else None
            ),
            "elections": self.monitor.elections,
            "leader_changes": self.monitor.changes,
            "formula": formula_of(plan, self._setup.n, ElectionCosts)._asdict(),
        }

"""Runs of mutual exclusion: its workloads and its judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from habemus.argument_names import argument
from habemus.catalog.problems import exact
from habemus.core.application import Workload
from habemus.core.events import Event
from habemus.core.mistakes import formula_of
from habemus.core.process import ProcessId
from habemus.core.properties import Finding
from habemus.core.system import System
from habemus.problems.election import Election
from habemus.problems.fencing import FenceMonitor
from habemus.problems.interruptions import InterruptedWorkload, Resigning
from habemus.problems.mutex import Clients, InTurn, Mutex, MutexCosts, Script
from habemus.problems.mutex_monitor import MutexMeter, MutexMonitor
from habemus.problems.tokens import TokenMonitor
from habemus.runs import notation
from habemus.runs.limits import planned_end
from habemus.runs.requests import asks_of
from habemus.runs.setup import OUTSIDE, BadSetup, Setup
from habemus.runtimes.sim.network import Network
from habemus.runtimes.sim.simulation import Ending


def workload(setup: Setup, system: System) -> Workload:
    return interrupted(_workload(setup, system), setup, system)


def interrupted(workload: Workload, setup: Setup, system: System) -> Workload:
    """Return the workload with the interruptions of a setup."""
    if not setup.give_up and not setup.resign:
        return workload
    plan = next(iter(system.plans.values()))
    if setup.give_up and not (isinstance(plan, Mutex) and plan.withdraws):
        raise BadSetup(f"{argument('give_up')}: {setup.algorithm} cannot cancel a request")
    if setup.resign and not can_resign(system):
        raise BadSetup(f"{argument('resign')}: {setup.algorithm} cannot resign")
    resignings = [Resigning(each.process, each.at) for each in map(notation.ask, setup.resign)]
    for process, _ in resignings:
        if process not in system.clients:
            raise BadSetup(f"{argument('resign')}: there is no participant {process}")
    return InterruptedWorkload(
        workload, notation.span(setup.give_up) if setup.give_up else None, resignings
    )


def can_resign(system: System) -> bool:
    """Return whether the processes are elections whose leader can step down, or use one."""
    plan = next(iter(system.plans.values()))
    election = plan if isinstance(plan, Election) else getattr(plan, "election", None)
    return isinstance(election, Election) and election.can_resign


def _workload(setup: Setup, system: System) -> Workload:
    asks = asks_of(setup, system)
    plan = next(iter(system.plans.values()))
    moves = getattr(plan, "moves", 0)
    if asks:
        return Script(asks, moves)
    hold = notation.span(setup.hold)
    if setup.workload == "in-turn":
        return InTurn(setup.requests, hold=hold)
    return Clients(
        setup.requests,
        0 if setup.workload == "burst" else notation.span(setup.think),
        hold,
        moves,
        lines_up=getattr(plan, "turns", 0) > 0,
    )


class MutexJudge:
    """The monitors and the meter of mutual exclusion."""

    def __init__(self, setup: Setup, system: System, network: Network) -> None:
        self._setup = setup
        self._system = system
        self._network = network
        plan = system.plans[system.clients[0]]
        assert isinstance(plan, Mutex)
        self._plan = plan
        self.monitor = MutexMonitor(
            system.topology.processes,
            system.label,
            bound=setup.overtaking,
            planned_end=planned_end(setup, type(plan)),
            outside=setup.order == OUTSIDE,
        )
        self._processing = notation.time(setup.processing)
        self.meter = MutexMeter(2 * (network.delay.longest + self._processing), plan.upkeep)
        self.fence = FenceMonitor(system.label)
        self.tokens = TokenMonitor(system.label)

    def observe(self, event: Event) -> None:
        self.monitor.observe(event)
        self.meter.observe(event)
        self.fence.observe(event)
        self.tokens.observe(event)

    def findings(
        self, ending: str, awaits: Mapping[ProcessId, Sequence[ProcessId]]
    ) -> list[Finding]:
        of_tokens = [self.fence.finding(), self.tokens.finding()]
        return self.monitor.findings(ending, awaits) + [
            finding for finding in of_tokens if finding is not None
        ]

    def costs(self, ending: Ending) -> dict[str, Any]:
        meter, clients, unit = self.meter, self._system.clients, self._network.delay.mean
        entries = sum(meter.entries.values())

        def in_message_times(delays: list[int]) -> float | None:
            return exact(sum(delays), len(delays) * unit) if delays else None

        fairness, busiest = meter.fairness(clients), meter.busiest()
        most = max(meter.received.values(), default=0)
        return {
            "entries": entries,
            "messages": meter.messages,
            "bytes": meter.bytes,
            "messages_per_entry": (
                exact(meter.messages - meter.upkeep_messages, entries) if entries else None
            ),
            "bytes_per_entry": (
                exact(meter.bytes - meter.upkeep_bytes, entries) if entries else None
            ),
            "upkeep_messages": meter.upkeep_messages,
            "client_delay": in_message_times(meter.client_delays),
            "sync_delay": in_message_times(meter.sync_delays),
            "throughput": round(entries * unit / ending.time, 6) if ending.time else None,
            "busiest_process": busiest and self._system.label(busiest[0]),
            "busiest_share": busiest and round(busiest[1] / meter.messages, 6),
            "busiest_receives": exact(most, entries) if entries else None,
            "busiest_load": (
                round(most * self._processing / meter.last_receipt, 6)
                if self._processing and meter.last_receipt
                else None
            ),
            "largest_overtaking": self.monitor.overtaking,
            "uninvited_entries": self.monitor.uninvited,
            "fairness": None if fairness is None else round(fairness, 6),
            "entries_by_process": {str(client): meter.entries[client] for client in clients},
            "formula": formula_of(self._plan, self._setup.n, MutexCosts)._asdict(),
            **(
                {"writes": {"accepted": self.fence.accepted, "refused": self.fence.refused}}
                if self.fence.tokens
                else {}
            ),
        }

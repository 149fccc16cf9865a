"""Runs of failure detectors: their judge.  Their workload are the faults; they get no requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from habemus.argument_names import argument
from habemus.catalog.detector import HOUR
from habemus.catalog.problems import exact
from habemus.core.application import Workload
from habemus.core.events import Event
from habemus.core.process import ProcessId
from habemus.core.properties import Finding
from habemus.core.system import System
from habemus.problems.detector_monitor import DetectorMonitor
from habemus.problems.election import Calls
from habemus.problems.traffic import Traffic
from habemus.runs.limits import planned_end
from habemus.runs.setup import BadSetup, Setup
from habemus.runtimes.sim.network import Network
from habemus.runtimes.sim.simulation import Ending


def workload(setup: Setup, system: System) -> Workload:
    if setup.asks:
        raise BadSetup(f"a detector takes no requests; leave out {argument('asks')}")
    return Calls()


class DetectorJudge:
    """The monitor of detectors and the counts of messages."""

    def __init__(self, setup: Setup, system: System, network: Network) -> None:
        algorithm = type(system.plans[system.clients[0]])
        self.monitor = DetectorMonitor(
            system.topology.processes, system.label, planned_end(setup, algorithm)
        )
        self.traffic = Traffic()

    def observe(self, event: Event) -> None:
        self.traffic.observe(event)
        self.monitor.observe(event)

    def findings(
        self, ending: str, awaits: Mapping[ProcessId, Sequence[ProcessId]]
    ) -> list[Finding]:
        return self.monitor.findings(ending)

    def costs(self, ending: Ending) -> dict[str, Any]:
        monitor = self.monitor
        detections, durations = monitor.detection_times, monitor.mistake_durations
        return {
            "messages": self.traffic.messages,
            "bytes": self.traffic.bytes,
            "messages_by_name": dict(sorted(self.traffic.by_name.items())),
            "detections": len(detections),
            "detection_time": exact(sum(detections), len(detections)) if detections else None,
            "longest_detection_time": max(detections, default=None),
            "mistakes": monitor.mistakes,
            "mistakes_per_hour": exact(monitor.mistakes * HOUR, ending.time)
            if ending.time
            else None,
            "mistake_duration": exact(sum(durations), len(durations)) if durations else None,
            "last_mistake": monitor.last_mistake,
        }

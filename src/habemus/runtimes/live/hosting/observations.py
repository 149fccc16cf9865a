"""The leaders and the suspected processes that the elections and detectors of a node indicate."""

from __future__ import annotations

import logging
from collections import Counter

from habemus.core.process import ProcessId
from habemus.core.values import Indication
from habemus.problems.detector import Restored, Suspected
from habemus.problems.election import Leader
from habemus.runtimes.live.hosting.instance import Instance
from habemus.runtimes.live.monitoring.logs import details

log = logging.getLogger("habemus.live")


class Observations:
    """The latest indications of the node's own processes."""

    def __init__(self, me: int) -> None:
        self._me = me
        self._leaders: dict[tuple[str, str], tuple[ProcessId | None, int]] = {}
        self._suspects: dict[str, set[ProcessId]] = {}
        self.changes: Counter[str] = Counter()  # of leaders, by service

    def note(self, instance: Instance, process: ProcessId, indication: Indication) -> None:
        if process != self._me:
            return
        if isinstance(indication, Leader):
            self._note_leader(instance, indication)
        elif isinstance(indication, Suspected):
            self._suspects.setdefault(instance.title, set()).add(indication.process)
            log.info(
                "%s suspects node %s",
                instance.title,
                indication.process,
                extra=details("suspected", detector=instance.title, suspect=indication.process),
            )
        elif isinstance(indication, Restored):
            self._suspects.setdefault(instance.title, set()).discard(indication.process)
            log.info(
                "%s trusts node %s again",
                instance.title,
                indication.process,
                extra=details("restored", detector=instance.title, suspect=indication.process),
            )

    def _note_leader(self, instance: Instance, indication: Leader) -> None:
        """Keep the leader and log a change: who leads, and who led before."""
        key = (instance.service.name, instance.name)
        before, after = self._leaders.get(key), (indication.process, indication.term)
        self._leaders[key] = after
        if after == before:
            return
        self.changes[instance.service.name] += 1
        leader, term = after
        led = f"; before: node {before[0]}, term {before[1]}" if before and before[0] else ""
        log.info(
            "%s: %s in term %d%s",
            instance.title,
            "no leader" if leader is None else f"node {leader} leads",
            term,
            led,
            extra=details("election", election=instance.title, leader=leader, leader_term=term),
        )

    def leader(self, service: str, name: str) -> ProcessId | None:
        """Return the leader of an election; None if none is known."""
        return self.leader_and_term(service, name)[0]

    def leader_and_term(self, service: str, name: str) -> tuple[ProcessId | None, int]:
        """Return the leader of an election, None if none is known, and its term."""
        return self._leaders.get((service, name), (None, 0))

    def leaders(self) -> list[tuple[str, str, ProcessId | None, int]]:
        """Service, instance, leader and term of each election."""
        return [
            (service, name, leader, term)
            for (service, name), (leader, term) in sorted(self._leaders.items())
        ]

    def suspects(self) -> dict[str, list[ProcessId]]:
        """Processes that each detector suspects."""
        return {title: sorted(suspected) for title, suspected in sorted(self._suspects.items())}

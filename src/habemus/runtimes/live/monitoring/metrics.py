"""The metrics of a node in the text format of Prometheus.

Everything is read when it is scraped; between scrapes only the meter counts.  The package
`prometheus_client` writes the format.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from habemus.runtimes.compiled import is_compiled
from habemus.runtimes.live.monitoring.meter import LatencyHistogram, Meter

if TYPE_CHECKING:
    from habemus.runtimes.live.hosting.node import Node

__all__ = ["CONTENT_TYPE_LATEST", "NodeMetrics"]

SCAN_AT_ONCE = 500
"""Locks that are looked at in one turn of the event loop."""
TRAFFIC = {
    "sent": ("habemus_peer_messages_sent", "Messages sent to other nodes."),
    "received": ("habemus_peer_messages_received", "Messages received from other nodes."),
    "lost": ("habemus_peer_messages_lost", "Messages to unreachable nodes that were dropped."),
    "connected": ("habemus_peer_connections", "Connections made to other nodes."),
    "turned away": ("habemus_turned_away", "Connections and locks beyond the limits of the node."),
    "stored": ("habemus_stored_entries", "Entries written to stable memory, and synced."),
    "written": ("habemus_written_entries", "Entries written to stable memory without a sync."),
    "used-up terms": (
        "habemus_used_up_terms",
        "Terms that this node ended because their tokens were used up.",
    ),
    "failed instances": ("habemus_failed_instances", "Locks and elections that have failed."),
}
"""Metrics of the counts that a node keeps in any case."""


class _Queues(NamedTuple):
    """Result of one pass over all locks of a node."""

    waiting: Mapping[str, int]  # by service
    longest: Mapping[str, int]
    oldest_us: Mapping[str, int]


class NodeMetrics:
    """Collects the metrics of one node."""

    def __init__(self, node: Node, meter: Meter) -> None:
        self._node = node
        self._meter = meter
        self._queues = _Queues({}, {}, {})
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._is_compiled = is_compiled()

    async def text(self) -> bytes:
        """Return all metrics in the text format."""
        self._queues = await self._scan()
        text: bytes = generate_latest(self._registry)
        return text

    async def _scan(self) -> _Queues:
        """Look at the queues of all locks, a few at a time to keep the loop responsive."""
        locks = self._node.lock_queues.locks
        found = _Queues(*(dict.fromkeys(locks, 0) for _ in range(3)))
        waiting, longest, oldest_us = map(dict, found)
        queues = self._node.lock_queues.queue_lengths()
        for number, (service, length, waited_us) in enumerate(queues, 1):
            waiting[service] += length
            longest[service] = max(longest[service], length)
            oldest_us[service] = max(oldest_us[service], waited_us)
            if number % SCAN_AT_ONCE == 0:
                await asyncio.sleep(0)
        return _Queues(waiting, longest, oldest_us)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics; called by the registry."""
        yield from self._about_node()
        yield from self._about_locks()
        yield from self._about_elections()
        yield from self._about_clients()
        yield from self._about_disk()
        yield _histogram(
            "habemus_event_loop_delay_seconds",
            "How late the event loop was with a timer.",
            {"": self._meter.loop_delays},
        )
        for key, (name, text) in TRAFFIC.items():
            yield CounterMetricFamily(name, text, value=self._node.counts[key])

    def _about_node(self) -> Iterator[Metric]:
        node = self._node
        yield InfoMetricFamily(
            "habemus_build",
            "Version of the program.",
            value={
                "version": version("habemus"),
                "python": platform.python_version(),
                "compiled": str(self._is_compiled).lower(),
            },
        )
        yield InfoMetricFamily(
            "habemus_node",
            "Identity of the node; nodes of one cluster must have the same configuration.",
            value={
                "cluster": node.settings.cluster,
                "node": str(node.me),
                "configuration": node.configuration,
            },
        )
        yield _gauge("habemus_ready", "Whether the node serves clients.", not node.impediments())
        yield _gauge("habemus_member", "Whether the node takes part.", node.is_member)
        if node.certificate_expires is not None:
            yield _gauge(
                "habemus_certificate_expiry_timestamp_seconds",
                "End of the certificate of the node.",
                node.certificate_expires,
            )
        reached = node.reaches()
        peers = GaugeMetricFamily(
            "habemus_peer_up", "Whether there is a connection to a node.", labels=["peer"]
        )
        for peer in sorted(node.peers):
            peers.add_metric([str(peer)], float(peer in reached))
        yield peers
        yield _gauge("habemus_cluster_nodes", "Nodes of the cluster.", len(node.peers) + 1)
        yield _gauge("habemus_instances", "Locks and elections in memory.", len(node.instances()))

    def _about_locks(self) -> Iterator[Metric]:
        meter, queues = self._meter, self._queues
        services = self._node.lock_queues.locks
        grants = CounterMetricFamily(
            "habemus_grants", "Locks granted to clients of this node.", labels=["service"]
        )
        for service in services:
            grants.add_metric([service], meter.waits[service].count)
        yield grants
        yield _histogram(
            "habemus_wait_seconds", "Time from a request to its grant.", meter.waits, "service"
        )
        yield _histogram(
            "habemus_hold_seconds", "Time from a grant to its end.", meter.holds, "service"
        )
        held = {service: meter.held(service) for service in services}
        yield _gauges("habemus_held_locks", "Locks that clients of this node hold.", held)
        yield _gauges("habemus_waiting_requests", "Requests that wait here.", queues.waiting)
        yield _gauges("habemus_longest_queue", "Requests that wait for one lock.", queues.longest)
        yield _gauges(
            "habemus_oldest_wait_seconds",
            "Age of the oldest request that waits.",
            {service: waited_us / 1e6 for service, waited_us in queues.oldest_us.items()},
        )
        yield _counter(
            "habemus_lost_leases",
            "Leases that ended before their release, by cause.",
            ("cause", meter.lost_leases),
        )
        yield CounterMetricFamily(
            "habemus_forced_releases", "Locks taken by `habemus release --force`.", meter.forced
        )

    def _about_elections(self) -> Iterator[Metric]:
        """Yield the elections of each service, however many instances it has."""
        node = self._node
        terms: dict[str, int] = {}
        known: dict[str, int] = {}
        led: dict[str, int] = {}
        for service, _, leader, term in node.leaders():
            terms[service] = max(terms.get(service, 0), term)
            known[service] = known.get(service, 0) + (leader is not None)
            led[service] = led.get(service, 0) + (leader == node.me)
        yield _gauges("habemus_term", "Highest term of the elections of a service.", terms)
        yield _gauges("habemus_known_leaders", "Elections whose leader this node knows.", known)
        yield _gauges("habemus_led_elections", "Elections that this node leads.", led)
        yield _counter(
            "habemus_leader_changes",
            "Changes of leaders that this node has seen.",
            ("service", node.leader_changes()),
        )
        suspected = {process for each in node.suspects().values() for process in each}
        yield _gauge("habemus_suspected_nodes", "Nodes suspected to be down.", len(suspected))

    def _about_clients(self) -> Iterator[Metric]:
        node = self._node
        yield _gauge("habemus_client_connections", "Connections of clients.", node.clients())
        yield _gauge("habemus_sessions", "Sessions of clients.", node.lock_queues.sessions())
        yield _counter(
            "habemus_refusals",
            "Refused clients and requests, by reason.",
            ("reason", self._meter.refusals),
        )

    def _about_disk(self) -> Iterator[Metric]:
        folder = self._node.settings.folder
        if folder is None:
            return
        yield _histogram(
            "habemus_fsync_seconds",
            "Time to write and fsync a batch of entries.",
            {"": self._meter.fsyncs},
        )
        try:
            free = shutil.disk_usage(folder).free
            used = sum(entry.stat().st_size for entry in os.scandir(folder) if entry.is_file())
        except OSError:
            return  # the node itself notices a folder that has disappeared
        yield _gauge("habemus_disk_free_bytes", "Free space of stable memory.", free)
        yield _gauge("habemus_stable_memory_bytes", "Size of stable memory.", used)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=float(value))


def _gauges(name: str, text: str, by_service: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["service"])
    for service, value in sorted(by_service.items()):
        family.add_metric([service], float(value))
    return family


def _counter(name: str, text: str, counted: tuple[str, Mapping[str, int]]) -> Metric:
    label, counts = counted
    family = CounterMetricFamily(name, text, labels=[label])
    for value, count in sorted(counts.items()):
        family.add_metric([value], count)
    return family


def _histogram(
    name: str, text: str, found: Mapping[str, LatencyHistogram], label: str = ""
) -> Metric:
    family = HistogramMetricFamily(name, text, labels=[label] if label else [])
    for value, histogram in sorted(found.items()):
        family.add_metric([value] if label else [], histogram.buckets(), histogram.sum_us / 1e6)
    return family

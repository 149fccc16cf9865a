"""The numbers that a node keeps for its metrics.

They are plain integers, so an observation costs a fraction of a microsecond.  `metrics` turns them
into the text format of Prometheus when they are scraped.  A node without metrics has no meter.

All labels have few values: services, words of refusals, causes.  There is no series for each lock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

LOCK_BOUNDS_US = (
    *(100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000),
    *(1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000, 300_000_000),
    *(1_800_000_000, 7_200_000_000),
)
"""Upper bounds of the buckets of waits and holds: 0.1 ms to 2 h."""
LATENCY_BOUNDS_US = (
    *(50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000),
    *(1_000_000, 2_500_000, 5_000_000),
)
"""Upper bounds of the buckets of fsync and of the event loop: 0.05 ms to 5 s."""

REFUSALS = (
    *("timeout", "unknown", "full", "stopped", "bad_request", "unauthenticated", "unavailable"),
    "forbidden",
)
"""Words of refusals, as the protocol of clients has them."""
LOSSES = ("not_renewed", "no_heartbeat", "forced", "failed")
"""Why leases end before their release."""


class LatencyHistogram:
    """Counts of durations in buckets, in microseconds."""

    def __init__(self, bounds_us: tuple[int, ...]) -> None:
        self.bounds_us = bounds_us
        self.counts = [0] * (len(bounds_us) + 1)
        self.sum_us = 0

    def observe(self, duration_us: int) -> None:
        """Count a duration in the first bucket whose bound is not smaller."""
        self.counts[bisect_left(self.bounds_us, duration_us)] += 1
        self.sum_us += duration_us

    @property
    def count(self) -> int:
        return sum(self.counts)

    def buckets(self) -> list[tuple[str, float]]:
        """Return the bounds in seconds and the cumulative counts, as Prometheus shows them."""
        found: list[tuple[str, float]] = []
        total = 0
        for bound_us, count in zip(self.bounds_us, self.counts, strict=False):
            total += count
            found.append((repr(bound_us / 1e6), total))
        return [*found, ("+Inf", total + self.counts[-1])]


class Meter:
    """The counts of one node; its services with locks are known from the beginning."""

    def __init__(self, services: Sequence[str]) -> None:
        # each grant counts once as a wait, and each lease that has ended as a hold
        self.waits = {service: LatencyHistogram(LOCK_BOUNDS_US) for service in services}
        self.holds = {service: LatencyHistogram(LOCK_BOUNDS_US) for service in services}
        self.refusals: Counter[str] = Counter(dict.fromkeys(REFUSALS, 0))
        self.lost_leases: Counter[str] = Counter(dict.fromkeys(LOSSES, 0))
        self.forced: int = 0  # by `habemus release --force`
        self.fsyncs = LatencyHistogram(LATENCY_BOUNDS_US)
        self.loop_delays = LatencyHistogram(LATENCY_BOUNDS_US)

    def granted(self, service: str, waited_us: int) -> None:
        """Count a grant, with the time since its request arrived."""
        self.waits[service].observe(waited_us)

    def ended(self, service: str, held_us: int) -> None:
        """Count the end of a lease, with the time since its grant."""
        self.holds[service].observe(held_us)

    def held(self, service: str) -> int:
        """Return how many clients hold a lock of this service now."""
        return self.waits[service].count - self.holds[service].count

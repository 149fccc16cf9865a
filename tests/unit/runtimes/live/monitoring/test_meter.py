"""Histograms have the buckets that Prometheus' own client would have counted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram

from habemus.runtimes.live.monitoring.meter import LOCK_BOUNDS_US, LatencyHistogram, Meter


@given(st.lists(st.one_of(st.integers(0, 10**10), st.sampled_from(LOCK_BOUNDS_US)), max_size=30))
def test_buckets_are_those_of_prometheus(durations_us: list[int]) -> None:
    bounds = (100, 5_000, 2_000_000)
    ours = LatencyHistogram(bounds)
    theirs = Histogram(
        "x", "x", buckets=[bound / 1e6 for bound in bounds], registry=CollectorRegistry()
    )
    for each in durations_us:
        ours.observe(each)
        theirs.observe(each / 1e6)
    samples = next(iter(theirs.collect())).samples
    expected = [
        (sample.labels["le"], sample.value) for sample in samples if sample.name == "x_bucket"
    ]
    assert ours.buckets() == expected
    assert ours.count == len(durations_us)


def test_held_locks_are_grants_without_an_end() -> None:
    meter = Meter(["locks"])
    meter.granted("locks", 10)
    meter.granted("locks", 20)
    meter.ended("locks", 5)
    assert meter.held("locks") == 1

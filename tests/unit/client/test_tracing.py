"""Spans of OpenTelemetry around locks, with the real SDK."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import habemus


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exporter


def test_acquire_and_hold_are_spans(exporter: InMemorySpanExporter, tmp_path: Path) -> None:
    with habemus.connect(f"local://{tmp_path}") as cluster:
        tracer = trace.get_tracer("application")
        with (
            tracer.start_as_current_span("job") as job,
            cluster.lock("traced", timeout=30) as lease,
        ):
            pass
        spans = {span.name: span for span in exporter.get_finished_spans()}
        acquire, hold = spans["habemus.acquire"], spans["habemus.hold"]
        assert acquire.parent is not None
        assert acquire.parent.span_id == job.get_span_context().span_id
        assert acquire.attributes["habemus.lock"] == "traced"
        assert hold.attributes["habemus.token"] == lease.token
        assert hold.start_time >= acquire.start_time and hold.status.is_ok
        exporter.clear()

        with cluster.lock("traced", timeout=30), pytest.raises(habemus.LockTimeout):
            cluster.lock("traced", timeout=0.05).acquire()
        failed = [span for span in exporter.get_finished_spans() if not span.status.is_ok]
        assert [span.name for span in failed] == ["habemus.acquire"]
        exporter.clear()

        lease = cluster.lock("traced", timeout=30).acquire()
        lease._lose("the node has crashed")
        [hold] = [each for each in exporter.get_finished_spans() if each.name == "habemus.hold"]
        assert hold.status.description == "the node has crashed"


def test_the_same_asynchronously(exporter: InMemorySpanExporter, tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            habemus.connect(f"local://{tmp_path}") as cluster,
            cluster.lock("traced", timeout=30),
        ):
            pass

    asyncio.run(run())
    names = sorted(span.name for span in exporter.get_finished_spans())
    assert names == ["habemus.acquire", "habemus.hold"]

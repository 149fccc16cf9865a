"""The metrics of nodes in one process, on virtual time."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests import virtual
from tests.unit.runtimes.live.conftest import PATIENCE, Cluster, until

from habemus.runtimes.live.clients.protocol import WIRE_VERSION
from habemus.runtimes.live.cluster_file import Address
from habemus.runtimes.live.monitoring.metrics import NodeMetrics


def values(text: bytes) -> dict[tuple[str, ...], float]:
    """Return all samples, by their names and the values of their labels."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


class LineClient:
    """A client on a socket that writes and reads lines."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def of(cls, address: Address, label: str) -> LineClient:
        made = cls(*await asyncio.open_connection(*address))
        await made.ask("hello", WIRE_VERSION, label)
        return made

    async def ask(self, *line: Any) -> list[Any]:
        self.say(*line)
        return await self.hear()

    def say(self, *line: Any) -> None:
        self.writer.write(json.dumps(line).encode() + b"\n")

    async def hear(self) -> list[Any]:
        found: list[Any] = json.loads(await asyncio.wait_for(self.reader.readline(), PATIENCE))
        return found


async def request(client: LineClient, id: int, name: str, timeout_ms: int | None = None) -> None:
    client.say("request", id, "locks", [name], timeout_ms, None, 1)


def test_metrics_of_waits_holds_and_refusals(tmp_path: Path) -> None:
    async def run() -> None:
        cluster = Cluster(
            {"locks": "elected-coordinator-leased"},
            1,
            tmp_path,
            metrics=Address("127.0.0.1", 0),
        )
        node = await cluster.start(1)
        try:
            await until(lambda: not node.impediments())
            first = await LineClient.of(node.address, "first")
            other = await LineClient.of(node.address, "other")
            await request(first, 1, "a")
            assert (await first.hear())[0] == "granted"
            await request(other, 1, "a")
            assert (await other.ask("request", 2, "nix", ["a"], None, None, 1))[2] == "unknown"
            await until(lambda: any(length for _, length, _ in node.lock_queues.queue_lengths()))
            await asyncio.sleep(3)
            assert node._monitor.meter is not None
            metrics = NodeMetrics(node, node._monitor.meter)
            during = values(await metrics.text())
            assert during["habemus_held_locks", "locks"] == 1
            assert during["habemus_waiting_requests", "locks"] == 1
            assert during["habemus_longest_queue", "locks"] == 1
            assert 3 <= during["habemus_oldest_wait_seconds", "locks"] < 4
            first.say("release", 1)
            assert (await other.hear())[0] == "granted"
            await other.ask("force", 9, "locks", "a")
            check(values(await metrics.text()))
            first.writer.close()
            other.writer.close()
        finally:
            await cluster.close()

    virtual.run(run())


def check(found: dict[tuple[str, ...], float]) -> None:
    assert found["habemus_grants_total", "locks"] == 2
    assert found["habemus_wait_seconds_bucket", "2.5", "locks"] == 1  # the other waited for 3 s
    assert found["habemus_wait_seconds_count", "locks"] == 2
    assert found["habemus_hold_seconds_count", "locks"] == 2
    assert found["habemus_held_locks", "locks"] == 0
    assert found["habemus_refusals_total", "unknown"] == 1
    assert found["habemus_lost_leases_total", "forced"] == 1
    assert found["habemus_forced_releases_total",] == 1
    assert found["habemus_term", "locks-election"] >= 1
    assert found["habemus_leader_changes_total", "locks-election"] >= 1
    assert found["habemus_fsync_seconds_count",] > 0
    assert found["habemus_event_loop_delay_seconds_count",] > 0


def test_series_do_not_grow_with_locks_and_elections(tmp_path: Path) -> None:
    async def run() -> None:
        cluster = Cluster(
            {"locks": "elected-coordinator-leased", "elections": "bully"},
            1,
            tmp_path,
            metrics=Address("127.0.0.1", 0),
        )
        node = await cluster.start(1)
        try:
            await until(lambda: not node.impediments())
            client = await LineClient.of(node.address, "x")
            assert node._monitor.meter is not None
            metrics = NodeMetrics(node, node._monitor.meter)
            counts = []
            for first in (0, 50):
                for number in range(first, first + 50):
                    await request(client, number, f"lock-{number}")
                    assert (await client.hear())[0] == "granted"
                    node.make_request("elections", f"election-{number}", "elect")
                counts.append(len(values(await metrics.text())))
            assert counts[0] == counts[1]
            client.writer.close()
        finally:
            await cluster.close()

    virtual.run(run())


@pytest.mark.parametrize("metrics", [None, Address("127.0.0.1", 0)])
def test_a_node_without_metrics_has_no_meter(tmp_path: Path, metrics: Address | None) -> None:
    async def run() -> None:
        cluster = Cluster({"locks": "elected-coordinator"}, 1, tmp_path, metrics=metrics)
        node = await cluster.start(1)
        assert (node.lock_queues.meter is not None) == (metrics is not None)
        assert (node.metrics_address is not None) == (metrics is not None)
        await cluster.close()

    virtual.run(run())

"""What a node forgets is freed at once, and no full collection delays its heartbeats."""

from __future__ import annotations

import gc
from typing import Any

from tests import virtual
from tests.unit.runtimes.live.clients.test_connections import connected

from habemus.core import Process
from habemus.runtimes.live.clients.lock_queues import ClientRequest, LocalLock
from habemus.runtimes.live.hosting.garbage import without_full_collections
from habemus.runtimes.live.hosting.instance import Instance, LocalProcess

PARTS = (Instance, LocalProcess, LocalLock, ClientRequest, Process)


def test_no_full_collection_while_objects_are_made() -> None:
    full: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            full.append(1)

    gc.callbacks.append(note)
    before = gc.get_threshold()
    try:
        with without_full_collections():
            many: list[list[int]] = [[] for _ in range(200_000)]
        assert full == []
        assert gc.get_threshold() == before
    finally:
        gc.callbacks.remove(note)
    assert len(many) == 200_000


def test_forgotten_locks_leave_no_cycles_behind(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"locks": "central"}, 1, idle_us=20_000) as made:
            node = made.nodes[1]
            connection, transport = connected(node)
            gc.collect()
            gc.disable()
            before = parts()
            for id in range(20):
                line = b'["request",%d,"locks",["x%d"],60000,5000,1]\n' % (id, id)
                connection.data_received(line)
            await cluster.until(lambda: len(transport.lines) == 20)
            assert parts() >= before + 4 * 20
            connection.connection_lost(None)
            await cluster.until(lambda: not node.instances())
            assert parts() == before

    try:
        virtual.run(main())
    finally:
        gc.enable()


def parts() -> int:
    return sum(isinstance(each, PARTS) for each in gc.get_objects())

"""Stable memory of a node whose processes have other durable variables now."""

from typing import Any

import pytest
from tests import virtual

from habemus.core import Durable, Process, System, request
from habemus.core.system import complete
from habemus.runtimes.live.storage.log import CorruptStorage


class Counting(Process):
    count: Durable[int] = 0

    @request
    def add(self) -> None:
        self.count += 1


def counting(plan: Process) -> System:
    return System({1: plan}, complete((1,)), (1,))


def with_alerts() -> Process:
    class Counting(Process):
        alerts: Durable[int] = 7
        count: Durable[int] = 0

        @request
        def add(self) -> None:
            self.count += 1
            self.alerts += 1

    return Counting()


def counted(node: Any) -> Any:
    return node.participant("counts", "x").pure.parts[0]


def test_a_variable_that_was_added_gets_its_initial_value(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"counts": counting(Counting())}, only=(1,)) as made:
            await made.nodes[1].request("counts", "x", "add")
            await made.stop(1)
            made.services = {"counts": counting(with_alerts())}
            node = await made.start(1)
            assert (counted(node).count, counted(node).alerts) == (1, 7)
            await node.request("counts", "x", "add")
            await made.stop(1)
            node = await made.start(1)
            assert (counted(node).count, counted(node).alerts) == (2, 8)

    virtual.run(main())


def test_an_unknown_variable_is_not_dropped(cluster: Any) -> None:
    """It may be a promise to other nodes: the node does not start."""

    async def main() -> None:
        async with cluster({"counts": counting(with_alerts())}, only=(1,)) as made:
            await made.nodes[1].request("counts", "x", "add")
            await made.stop(1)
            made.services = {"counts": counting(Counting())}
            with pytest.raises(CorruptStorage, match=r"it has :Counting\.alerts; restore the"):
                await made.start(1)
            made.nodes.clear()
            made.services = {"counts": counting(with_alerts())}
            assert counted(await made.start(1)).count == 1

    virtual.run(main())

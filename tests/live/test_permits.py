"""Several places of a semaphore at once: all or none, and no deadlock."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest
from tests.live.conftest import PATIENCE
from tests.live.nodes import Nodes

import habemus

SIZE = 2  # of the semaphore "places"


def test_clients_that_want_several_do_not_wait_for_each_other(place: str) -> None:
    """Both want both places: each would get one, and wait for the other for ever."""
    held: list[int] = []
    most: list[int] = []

    def visit() -> None:
        with habemus.connect(place) as cluster:
            for _ in range(10):
                with cluster.permits("places", 2, SIZE, timeout=PATIENCE) as leases:
                    held.extend([1, 1])
                    most.append(len(held))
                    assert len({lease.name for lease in leases}) == 2
                    del held[:2]

    threads = [threading.Thread(target=visit) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [2] * 30


VISITOR = """
import sys, habemus
with habemus.connect(sys.argv[1]) as cluster:
    for _ in range(5):
        with cluster.permits("places", 2, 2):
            print("inside", flush=True)
"""


def test_processes_that_want_all_places_end(place: str) -> None:
    command = [sys.executable, "-c", VISITOR, place]
    visitors = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    said = [visitor.communicate(timeout=PATIENCE)[0] for visitor in visitors]
    assert said == [b"inside\n" * 5] * 2


def test_all_or_none(place: str) -> None:
    with habemus.connect(place) as one, habemus.connect(place) as two:
        with one.semaphore("places", SIZE, timeout=PATIENCE):
            with pytest.raises(habemus.LockTimeout), two.permits("places", 2, SIZE, timeout=0.2):
                pass
            # what it had collected is free again, and so is the lock for collecting
            with two.permits("places", 1, SIZE, timeout=PATIENCE) as [lease]:
                assert lease.held
        with two.permits("places", 2, SIZE, timeout=PATIENCE) as leases:
            assert all(lease.held for lease in leases)
            assert one.semaphore("places", SIZE).locked()
        assert all(lease.released for lease in leases)


def test_tasks_take_several(place: str) -> None:
    async def main() -> list[int]:
        async with habemus.connect(place) as cluster:

            async def visit() -> int:
                async with cluster.permits("places", 2, SIZE, timeout=PATIENCE) as leases:
                    return len(leases)

            return await asyncio.gather(*(visit() for _ in range(5)))

    assert asyncio.run(main()) == [2] * 5


@pytest.mark.parametrize("count", [0, 3, -1, True, 1.5])
def test_wrong_counts_are_refused(one_node: Nodes, count: int) -> None:
    with (
        habemus.connect(one_node.socket(1)) as cluster,
        pytest.raises(ValueError, match=r"'places' has 2 places; give 1 to 2"),
        cluster.permits("places", count, SIZE),
    ):
        pass


def test_another_size_than_the_cluster_has_is_refused(one_node: Nodes) -> None:
    with (
        habemus.connect(one_node.socket(1)) as cluster,
        pytest.raises(habemus.RefusedByNode, match="has size 2"),
        cluster.permits("places", 3, 5, timeout=PATIENCE),
    ):
        pass

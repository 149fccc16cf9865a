"""Garbage collection without long pauses.

A full collection visits every object of the process, in one go: with 5,000 locks that takes longer
than a leader may be silent.  Python starts one whenever the number of objects has grown by a
quarter, so a client that asks for many locks could make the leader lose its office.

A node frees what it drops by reference counts: it breaks the cycles of locks and instances that it
forgets.  Young objects are still collected automatically, which is quick.  A full collection is
left for what may have been overlooked, and happens only while the node has few instances.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

NEVER = 1_000_000_000
FEW_INSTANCES = 1_000
PERIOD_SECONDS = 60.0


@contextmanager
def without_full_collections() -> Iterator[None]:
    """Let the objects made so far live on, and start no full collection automatically."""
    young, middle, old = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(young, middle, NEVER)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)
        gc.unfreeze()


async def collect_while_few(instances: Callable[[], int]) -> None:
    """Collect all garbage from time to time, while there are few instances."""
    while True:
        await asyncio.sleep(PERIOD_SECONDS)
        if instances() <= FEW_INSTANCES:
            gc.collect()

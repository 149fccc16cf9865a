"""A node inside a program, for those who do not want a process beside theirs."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from habemus.deployment.services import all_services
from habemus.runtimes.live.config import load
from habemus.runtimes.live.hosting.node import Node


@asynccontextmanager
async def embedded(file: str | Path, number: int) -> AsyncIterator[Node]:
    """One of the nodes of a cluster's file, in this event loop, as `habemus node` would run it in a
    process of its own.

    The loop must not be kept busy: a node that does not get its turn is one that has failed, for
    the others.  Clients find it where they would find any other, those of this program too.
    """
    config = load(Path(file), os.environ, {})
    node = Node(config.settings(number), all_services(config))
    await node.start()
    try:
        yield node
    finally:
        await node.stop()

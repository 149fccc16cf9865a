"""A node inside a program, instead of a process beside it."""

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
    """Run a node of a cluster.toml in this event loop, as `habemus node` would in a process.

    The loop must not be kept busy: the other nodes take a node that does not respond for failed.
    Clients find the node at its usual address, those of this program too.
    """
    config = load(Path(file), os.environ, {})
    node = Node(config.settings(number), all_services(config))
    await node.start()
    try:
        yield node
    finally:
        await node.stop()

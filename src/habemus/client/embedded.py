"""A node inside a program, instead of a process beside it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from habemus.deployment.services import all_services
from habemus.runtimes.live.config import load
from habemus.runtimes.live.hosting.node import Node


class EmbeddedNode:
    """A node of a cluster that runs in this program; see `habemus.embedded`."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def number(self) -> int:
        """The number of the node in the cluster.toml."""
        return self._node.me

    @property
    def address(self) -> str:
        """The address for clients, such as 127.0.0.1:7400."""
        return str(self._node.address)

    def impediments(self) -> list[str]:
        """Return the reasons why clients cannot get locks at this node; none if they can."""
        return self._node.impediments()


@asynccontextmanager
async def embedded(file: str | Path, number: int) -> AsyncIterator[EmbeddedNode]:
    """Run a node of a cluster.toml in this event loop, as `habemus node` would in a process.

    The loop must not be kept busy: the other nodes take a node that does not respond for failed.
    Clients find the node at its usual address, those of this program too.

        async with habemus.embedded("cluster.toml", 2) as node:
            async with habemus.connect(node.address) as cluster: ...

    file: the cluster.toml.
    number: the number of the node in it.
    """
    config = load(Path(file), os.environ, {})
    node = Node(config.settings(number), all_services(config))
    await node.start()
    try:
        yield EmbeddedNode(node)
    finally:
        await node.stop()

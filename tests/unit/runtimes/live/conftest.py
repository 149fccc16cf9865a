"""Clusters of live nodes inside one test process, each on a socket of its own, and all on one
clock.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.ports import reserved_ports
from tests.virtual import VirtualLoop

from habemus.core import System
from habemus.core.process import ProcessId
from habemus.core.values import Indication
from habemus.deployment.services import services_of
from habemus.runtimes.live.cluster_file import Address
from habemus.runtimes.live.hosting.node import Node
from habemus.runtimes.live.hosting.service import Service
from habemus.runtimes.live.peers.handshake import Identity
from habemus.runtimes.live.settings import Settings
from habemus.runtimes.live.storage.log import StableMemory

Services = dict[str, str | System]
"""Of each service its name, and a system, or an algorithm with its options."""
PATIENCE = 600.0
"""Seconds, virtual ones on a virtual loop, after which a test that waits has failed."""


class Cluster:
    def __init__(
        self, services: Services, size: int, base: Path, is_founded: bool = True, **given: Any
    ) -> None:
        """With `is_founded` the nodes have all met before, and start alone."""
        if is_founded:
            found(base, size)
        self.services = services
        self.given = given
        self.base = base
        self.addresses = {
            number: Address("127.0.0.1", port)
            for number, port in enumerate(reserved_ports(size), 1)
        }
        self._sockets = {
            number: socket.create_server(address) for number, address in self.addresses.items()
        }
        self.nodes: dict[int, Node] = {}

    def settings(self, number: int, **given: Any) -> Settings:
        folder = self.base / (
            f"{number}" if "cluster" not in given else f"{number}-of-{given['cluster']}"
        )
        folder.mkdir(exist_ok=True)
        peers = {peer: address for peer, address in self.addresses.items() if peer != number}
        usual: dict[str, Any] = {
            "cluster": "office",
            "node": number,
            "peers": peers,
            "bind": self.addresses[number],
            "folder": folder,
        }
        return Settings(**usual | self.given | given)

    def made(self, number: int, **given: Any) -> Node:
        services: list[Service] = []
        for name, each in self.services.items():
            made = (
                services_of(name, each.split()[0], each.split()[1:], "", self.addresses)
                if isinstance(each, str)
                else [Service(name, each, self.addresses)]
            )
            services += made
        self.nodes[number] = node_on_loop(self.settings(number, **given), services)
        return self.nodes[number]

    async def start(self, number: int, **given: Any) -> Node:
        node = self.made(number, **given)
        await node.start(self._sockets.pop(number, None))
        return node

    async def stop(self, number: int) -> None:
        await self.nodes.pop(number).stop()

    async def close(self) -> None:
        for node in self.nodes.values():
            await node.stop()
        for each in self._sockets.values():
            each.close()

    def client(self, number: int, service: str, name: str) -> Client:
        return Client(self.nodes[number], service, name)


def node_on_loop(settings: Settings, services: Sequence[Service]) -> Node:
    """Return a node on the clock of the running loop."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        return Node(settings, services)
    node = Node(settings, services, loop.now_us)
    loop.wait_for_thread(lambda: hasattr(node, "_steps") and not node._steps.is_idle)
    return node


def found(base: Path, size: int) -> None:
    """Makes the memories of nodes that have all met."""
    memories = {}
    for number in range(1, size + 1):
        folder = base / f"{number}"
        folder.mkdir()
        memories[number] = StableMemory(folder, f"office/{number}")
    for number, memory in memories.items():
        for other, its in memories.items():
            if other != number:
                memory.learn(other, its.identity)
        memory.join([])
        memory.close()


class Known:
    """The memory of a node of a founded cluster, as another one knows it; accepts every peer."""

    def __init__(self, identity: bytes) -> None:
        self.identity = identity
        self.replaces = False

    def known(self, peer: int) -> bytes:
        return b""

    def objection(self, peer: int, identity: bytes, replaces: bool) -> str:
        return ""

    def meet(self, peer: int, identity: bytes) -> None: ...

    def accepted_by(self, peer: int) -> None: ...

    def disowned_by(self, peer: int, known: bytes) -> None: ...


def guise(node: Node, as_node: int) -> Identity:
    """What a peer says of itself to a node of a founded cluster."""
    return node._network.identity._replace(
        node=as_node, members=Known(node._membership.known(as_node))
    )


class Client:
    """Hears the indications of one instance, and can wait for them."""

    def __init__(self, node: Node, service: str, name: str) -> None:
        self.node, self.service, self.name = node, service, name
        self.heard: asyncio.Queue[tuple[ProcessId, Indication]] = asyncio.Queue()
        self.leave = node.subscribe(
            service, name, lambda process, indication: self.heard.put_nowait((process, indication))
        )

    def ask(self, request: str, *arguments: Any) -> None:
        self.node.make_request(self.service, self.name, request, *arguments)

    async def hear(self) -> Indication:
        return (await asyncio.wait_for(self.heard.get(), PATIENCE))[1]

    async def visit(self) -> None:
        self.ask("acquire")
        await self.hear()
        self.ask("release")


async def until(condition: Callable[[], object]) -> None:
    """Waits until something has become true elsewhere; fails when it does not."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


Made = Callable[..., Any]


@pytest.fixture
def cluster(tmp_path: Path) -> Made:
    @asynccontextmanager
    async def started(
        services: Services, size: int = 3, only: Sequence[int] | None = None, **given: Any
    ) -> AsyncIterator[Cluster]:
        made = Cluster(services, size, tmp_path, **given)
        try:
            for number in only if only is not None else range(1, size + 1):
                await made.start(number)
            yield made
        finally:
            await made.close()

    started.until = until  # type: ignore[attr-defined]  # what every test that waits needs
    return started

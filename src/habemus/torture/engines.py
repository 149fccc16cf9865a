"""Torture of engines: real servers of PostgreSQL, Redis, etcd or ZooKeeper in the place of nodes.

Servers are killed, paused and restarted as nodes are, clients are killed, paused and cut off from
them, and links between the servers of one ensemble are cut.  `local` has no server: only its
clients are hit.

Two servers of Redis or PostgreSQL are a primary and its replica (`habemus.torture.failover`).
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from habemus.client.credentials import Credentials
from habemus.client.engines import engine_at
from habemus.client.errors import HabemusError
from habemus.operations.engine_servers import PEER_PORTS, Servers
from habemus.torture.failover import FAILOVERS, FailoverOperator, leader_of
from habemus.torture.judge import TortureClaim
from habemus.torture.links import ProxyLink, SharedListener, owner_of
from habemus.torture.plan import BadPlan, Plan, kinds_of
from habemus.torture.processes import READY_S, Child, DidNotStart, NodeProcess, free_ports
from habemus.torture.run import Progress, Torture
from habemus.torture.schedule import MASS_KILLS, OF_THE_CLUSTER, is_by_network

LEASE_S = 3.0
LOOK_S = 0.1
LISTEN_S = 0.5
"""Time in which a server listens to the others.  A follower of ZooKeeper connects to a new leader
before that listens; a connection that is accepted and broken ends the election, and the leader
waits `initLimit` for its followers before there is another one."""
CLIENT_KINDS = ("kill-client", "pause-client")
SERVER_KINDS = ("kill-node", *MASS_KILLS, "pause-node", *CLIENT_KINDS, "cut-client")
USUAL = ("kill-node", "kill-client", "pause-node", "pause-client", "cut", "cut-client")
REPLICATED = 2
"""Servers of an engine with a primary and its replica."""


class EngineUnderTorture(NamedTuple):
    """Faults that an engine is claimed to tolerate, and its sizes."""

    sizes: tuple[int, ...]
    kinds: tuple[str, ...] = SERVER_KINDS
    excuses: tuple[str, ...] = ()
    """Faults that excuse any two holders: those of a server that forgets locks when it restarts."""
    lease_s: float = LEASE_S


ENGINES = {
    "local": EngineUnderTorture((1,), CLIENT_KINDS, lease_s=0.0),
    "postgresql": EngineUnderTorture((1, REPLICATED), excuses=OF_THE_CLUSTER),
    "redis": EngineUnderTorture((1, REPLICATED)),
    "redis-volatile": EngineUnderTorture((1,), excuses=OF_THE_CLUSTER),
    "etcd": EngineUnderTorture((1, 3)),
    "zookeeper": EngineUnderTorture((1, 3)),
}


def engine_plan(
    engine: str,
    *,
    nodes: int | None,
    clients: int,
    seconds: float,
    seed: int,
    faults: Sequence[str] = (),
    locks: int = 1,
    is_fenced: bool = True,
) -> Plan:
    """Return the plan of a torture of an engine; `BadPlan` if the engine has no such faults."""
    if engine not in ENGINES:
        raise BadPlan(f"unknown engine {engine!r}; use {', '.join(ENGINES)}")
    about = ENGINES[engine]
    nodes = about.sizes[0] if nodes is None else nodes
    if nodes not in about.sizes:
        raise BadPlan(f"{engine} runs with {' or '.join(map(str, about.sizes))} nodes, not {nodes}")
    wanted = kinds_of(faults) if faults else USUAL
    possible = about.kinds if nodes == 1 else (*about.kinds, "cut")
    kinds = tuple(kind for kind in wanted if kind in possible)
    if not kinds:
        raise BadPlan(f"{engine} can be hit by {', '.join(possible)}")
    claim = TortureClaim(
        excludes=not about.lease_s,
        progresses=True,
        has_tokens=True,
        is_fenced=is_fenced,
        faults=kinds,
        lease_s=about.lease_s,
        # A replica may lack the lock that it is promoted for.
        excuses=OF_THE_CLUSTER if nodes == REPLICATED else about.excuses,
    )
    return Plan(engine, nodes, clients, seconds, seed, kinds, (), "", locks, claim, engine)


class EngineTorture(Torture):
    """A torture whose nodes are servers of an engine."""

    def __init__(self, plan: Plan, folder: Path, progress: Progress) -> None:
        super().__init__(plan, folder, progress)
        per_server = PEER_PORTS.get(plan.engine, 0)
        ports = free_ports(per_server * plan.nodes)
        self._peers = {
            number: ports[per_server * place : per_server * (place + 1)]
            for place, number in enumerate(self._ports)
        }
        self._nodes = {}
        self._seen: dict[tuple[int, int], list[int]] = {}
        self._gates: list[SharedListener] = []
        self._servers = Servers(
            plan.engine,
            Path(tempfile.mkdtemp(prefix="habemus-engine-")),
            self._ports,
            self._peers,
            lambda sender, receiver: self._seen[sender, receiver],
        )
        self._operator: FailoverOperator | None = None
        self._operating: asyncio.Task[None] | None = None

    async def _begin(self) -> None:
        plan, servers = self._plan, self._servers
        await self._referee.start()
        if plan.engine != "local":
            await self._make_links()
            for number in self._ports:
                command = servers.command(number)
                url = servers.url({number: self._ports[number]})
                self._nodes[number] = ServerProcess(self._folder, number, command, url)
            await self._start_servers()
        for number in range(1, plan.clients + 1):
            self._clusters[number] = servers.url(await self._ports_for(number))
            await self._start_client(number, 1)

    async def _make_links(self) -> None:
        """Make a link for each pair of servers."""
        replicated = self._plan.engine in FAILOVERS
        for receiver, client_port in self._ports.items():
            ports = [client_port] if replicated else self._peers[receiver]
            for sender in self._ports:
                if sender != receiver and ports:
                    link = self._links[sender, receiver] = ProxyLink(ports[0], LISTEN_S)
                    self._seen[sender, receiver] = [await link.listen(port) for port in ports]
            if self._plan.engine == "etcd":
                self._seen[receiver, receiver] = [await self._gate(receiver)]

    async def _gate(self, receiver: int) -> int:
        """Return the port of a server that all other servers know: etcd has only one for all."""
        unknown = ProxyLink(self._peers[receiver][0])

        def link_of(port: int) -> ProxyLink:
            running = {number: node.pid for number, node in self._nodes.items() if node.is_up}
            sender = owner_of(port, running)
            return unknown if sender is None else self._links.get((sender, receiver), unknown)

        gate = SharedListener(link_of)
        self._gates.append(gate)
        return await gate.listen()

    async def _start_servers(self) -> None:
        nodes = {
            each.number: each for each in self._nodes.values() if isinstance(each, ServerProcess)
        }
        if self._plan.nodes == REPLICATED:
            self._operator = FAILOVERS[self._plan.engine](
                self._servers, nodes, self._switch, self._note
            )
            await self._operator.start()
            self._operating = asyncio.create_task(self._operator.run())
        else:
            await asyncio.gather(*(node.start() for node in nodes.values()))

    async def _ports_for(self, client: int) -> Mapping[int, int]:
        """Return the ports at which a client reaches the servers."""
        if not self._nodes or not (self._operator or is_by_network(client)):
            return self._ports
        known = [1] if self._operator else list(self._ports)
        links = self._links_of[client] = {node: ProxyLink(self._ports[node]) for node in known}
        return {node: await link.listen() for node, link in links.items()}

    def _switch(self, primary: int) -> None:
        """Send all clients to another server."""
        for links in self._links_of.values():
            for link in links.values():
                link.port = self._ports[primary]
                link.break_off()

    async def _leader(self) -> int | None:
        if self._operator is not None:
            return self._operator.primary
        return await asyncio.to_thread(leader_of, self._plan.engine, self._ports)

    async def _watch(self, began: int) -> None:
        operating = self._operating
        if operating is not None:
            operating.add_done_callback(self._hear_operator)
        await super()._watch(began)

    def _hear_operator(self, operating: asyncio.Task[None]) -> None:
        if not operating.cancelled() and operating.exception() is not None:
            self._give_up(f"the failover failed: {operating.exception()!r}")

    async def _end(self) -> None:
        if self._operating is not None:
            self._operating.cancel()
            await asyncio.wait([self._operating])
        await super()._end()
        for gate in self._gates:
            gate.close()
        shutil.rmtree(self._servers.folder, ignore_errors=True)


class ServerProcess(NodeProcess):
    """A server of an engine."""

    def __init__(self, folder: Path, number: int, command: Sequence[str], url: str) -> None:
        Child.__init__(self, [], folder, folder / f"node-{number}.log", says_ready=False)
        self.number = number
        self._command = list(command)
        self._url = url
        self._kills = 0
        self._changing = asyncio.Lock()  # an operator and a fault may restart it at a time

    async def start(self, *more: str, may_end: bool = False) -> None:
        """Start the server; return when it answers.  A server that was killed may have left
        processes behind that keep it from starting for a moment.
        """
        async with self._changing:
            await self._start(*more, may_end=may_end)

    async def _start(self, *more: str, may_end: bool = False) -> None:
        deadline = monotonic() + READY_S
        is_answering, kills = False, 0
        while not is_answering:
            if monotonic() > deadline:
                raise DidNotStart(f"{self._command[0]} did not start: {self.last_words()}")
            if not self.is_up:
                await super().start(*more, may_end=True)
            await asyncio.sleep(LOOK_S)
            kills = self._kills
            is_answering = await asyncio.to_thread(self._answers)
        self.may_be_down = may_end or kills != self._kills  # killed while it answered

    async def kill(self) -> None:
        self._kills += 1
        await super().kill()

    async def rebuild(self, make: Callable[[], None]) -> None:
        """Kill the server, make its data anew, and start it."""
        deadline = monotonic() + READY_S
        async with self._changing:
            await self.kill()
            while True:
                try:
                    await asyncio.to_thread(make)
                    break
                except subprocess.SubprocessError as reason:  # the other server may be down
                    if monotonic() > deadline:
                        raise DidNotStart(f"no copy of the primary: {reason}") from None
                    await asyncio.sleep(LOOK_S)
            await self._start()

    def _answers(self) -> bool:
        engine = engine_at(self._url, Credentials())
        try:
            engine.connect()
        except HabemusError:
            return False
        finally:
            engine.close()
        return True

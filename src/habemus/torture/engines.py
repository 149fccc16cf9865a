"""Torture of engines: real servers of PostgreSQL, Redis, etcd or ZooKeeper in the place of nodes.

Servers are killed, paused and restarted as nodes are, and clients are killed, paused and cut off
from them.  Links between the servers of one ensemble are not cut.  `local` has no server: only its
clients are hit.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from habemus.client.credentials import Credentials
from habemus.client.engines import engine_at
from habemus.client.errors import HabemusError
from habemus.torture.judge import TortureClaim
from habemus.torture.links import ProxyLink
from habemus.torture.plan import BadPlan, Plan, kinds_of
from habemus.torture.processes import READY_S, Child, DidNotStart, NodeProcess, free_ports
from habemus.torture.run import Progress, Torture
from habemus.torture.schedule import KINDS, MASS_KINDS, OUT_OF_HEARING, is_by_network

LEASE_S = 3.0
LOOK_S = 0.1
CLIENT_KINDS = ("kill-client", "pause-client")
SERVER_KINDS = ("kill-node", *MASS_KINDS, "pause-node", *CLIENT_KINDS, "cut-client")
USUAL = ("kill-node", "kill-client", "pause-node", "pause-client", "cut-client")
ZOOKEEPER_JAR = "/usr/share/java/zookeeper.jar"
POSTGRESQL = Path("/usr/lib/postgresql")


class EngineUnderTorture(NamedTuple):
    """Faults that an engine is claimed to tolerate, and its sizes."""

    sizes: tuple[int, ...]
    kinds: tuple[str, ...] = SERVER_KINDS
    excuses: tuple[str, ...] = OUT_OF_HEARING
    """Faults that excuse two holders: all of them if a server that restarts forgets locks."""
    lease_s: float = LEASE_S


ENGINES = {
    "local": EngineUnderTorture((1,), CLIENT_KINDS, (), 0.0),
    "postgresql": EngineUnderTorture((1,), excuses=tuple(KINDS)),
    "redis": EngineUnderTorture((1,)),
    "redis-volatile": EngineUnderTorture((1,), excuses=tuple(KINDS)),
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
    # `cut` names the links of nodes as well, which an engine keeps.
    kinds = tuple(kind for kind in wanted if kind in about.kinds)
    if not kinds:
        raise BadPlan(f"{engine} can be hit by {', '.join(about.kinds)}")
    claim = TortureClaim(
        excludes=not about.lease_s,
        progresses=True,
        has_tokens=True,
        is_fenced=is_fenced,
        faults=kinds,
        lease_s=about.lease_s,
        excuses=about.excuses,
    )
    return Plan(engine, nodes, clients, seconds, seed, kinds, (), "", locks, claim, engine)


class EngineTorture(Torture):
    """A torture whose nodes are servers of an engine."""

    def __init__(self, plan: Plan, folder: Path, progress: Progress) -> None:
        super().__init__(plan, folder, progress)
        self._peers = free_ports(2 * plan.nodes)
        self._nodes = {}
        self._place = Path(tempfile.mkdtemp(prefix="habemus-engine-"))

    async def _begin(self) -> None:
        plan = self._plan
        if plan.engine != "local":
            for number in self._ports:
                command = _command(plan.engine, number, self._ports, self._peers, self._place)
                url = self._url({number: self._ports[number]})
                self._nodes[number] = ServerProcess(self._folder, number, command, url)
        await self._referee.start()
        await asyncio.gather(*(node.start() for node in self._nodes.values()))
        for number in range(1, plan.clients + 1):
            ports: Mapping[int, int] = self._ports
            if is_by_network(number) and self._nodes:
                links = self._links_of[number] = {
                    node: ProxyLink(port) for node, port in self._ports.items()
                }
                ports = {node: await link.listen() for node, link in links.items()}
            self._clusters[number] = self._url(ports)
            await self._start_client(number, 1)

    async def _end(self) -> None:
        await super()._end()
        shutil.rmtree(self._place, ignore_errors=True)

    def _url(self, ports: Mapping[int, int]) -> str:
        hosts = ",".join(f"127.0.0.1:{port}" for _, port in sorted(ports.items()))
        return {
            "local": f"local://{self._place}",
            "postgresql": f"postgresql://habemus@{hosts}/postgres",
            "redis": f"redis://{hosts}/0",
            "redis-volatile": f"redis://{hosts}/0",
            "etcd": f"etcd://{hosts}",
            "zookeeper": f"zookeeper://{hosts}",
        }[self._plan.engine]


class ServerProcess(NodeProcess):
    """A server of an engine."""

    def __init__(self, folder: Path, number: int, command: Sequence[str], url: str) -> None:
        Child.__init__(self, [], folder, folder / f"node-{number}.log", says_ready=False)
        self.number = number
        self._command = list(command)
        self._url = url

    async def start(self, *more: str, may_end: bool = False) -> None:
        """Start the server; return when it answers.  A server that was killed may have left
        processes behind that keep it from starting for a moment.
        """
        deadline = monotonic() + READY_S
        await super().start(*more, may_end=True)
        while not await asyncio.to_thread(self._answers):
            if monotonic() > deadline:
                raise DidNotStart(f"{self._command[0]} did not start: {self.last_words()}")
            if not self.is_up:
                await super().start(*more, may_end=True)
            await asyncio.sleep(LOOK_S)
        self.may_be_down = may_end

    def _answers(self) -> bool:
        engine = engine_at(self._url, Credentials())
        try:
            engine.connect()
        except HabemusError:
            return False
        finally:
            engine.close()
        return True


def _program(name: str, package: str) -> str:
    places = [str(folder) for folder in sorted(POSTGRESQL.glob("*/bin"), reverse=True)]
    path = os.pathsep.join([*places, os.environ.get("PATH", ""), "/usr/sbin"])
    found = shutil.which(name, path=path)
    if found is None:
        raise BadPlan(f"{name} is not installed; on Debian: apt-get install {package}")
    return found


def _command(
    engine: str, number: int, ports: Mapping[int, int], peers: Sequence[int], place: Path
) -> list[str]:
    """Return the command that starts a server."""
    data = place / f"node-{number}"
    data.mkdir(parents=True, exist_ok=True)
    if engine == "postgresql":
        return _postgresql(ports[number], place, data)
    if engine == "zookeeper":
        return _zookeeper(number, ports, peers, data)
    if engine == "etcd":
        return _etcd(number, ports, peers, data)
    kept = ["no"] if engine == "redis-volatile" else ["yes", "--appendfsync", "always"]
    settings = ["--port", str(ports[number]), "--bind", "127.0.0.1", "--dir", str(data)]
    return [
        _program("redis-server", "redis-server"),
        *settings,
        *("--save", "", "--appendonly", *kept),
    ]


def _postgresql(port: int, place: Path, data: Path) -> list[str]:
    """Return the command of a server, which must not be run by root."""
    change: list[str] = []
    if not os.geteuid():
        names = {user.pw_name: user for user in pwd.getpwall()}
        user = names.get("postgres") or names["nobody"]
        change = [_program("setpriv", "util-linux"), f"--reuid={user.pw_uid}"]
        change += [f"--regid={user.pw_gid}", "--clear-groups"]
        for folder in (place, data):
            os.chown(folder, user.pw_uid, user.pw_gid)
    initdb = [*change, _program("initdb", "postgresql"), "-D", str(data), "-U", "habemus"]
    subprocess.run([*initdb, "-A", "trust", "--no-locale"], check=True, capture_output=True)
    settings = [f"port={port}", "listen_addresses=127.0.0.1", "unix_socket_directories="]
    options = [word for setting in settings for word in ("-c", setting)]
    return [*change, _program("postgres", "postgresql"), "-D", str(data), *options]


def _etcd(number: int, ports: Mapping[int, int], peers: Sequence[int], data: Path) -> list[str]:
    own, here = f"http://127.0.0.1:{peers[number - 1]}", f"http://127.0.0.1:{ports[number]}"
    members = ",".join(f"n{each}=http://127.0.0.1:{peers[each - 1]}" for each in sorted(ports))
    return [
        _program("etcd", "etcd-server"),
        *("--name", f"n{number}", "--data-dir", str(data / "data"), "--log-level", "error"),
        *("--listen-client-urls", here, "--advertise-client-urls", here),
        *("--listen-peer-urls", own, "--initial-advertise-peer-urls", own),
        *("--initial-cluster", members),
    ]


def _zookeeper(
    number: int, ports: Mapping[int, int], peers: Sequence[int], data: Path
) -> list[str]:
    if not Path(ZOOKEEPER_JAR).exists():
        raise BadPlan(f"there is no {ZOOKEEPER_JAR}; on Debian: apt-get install zookeeper")
    lines = [f"dataDir={data}", "tickTime=500", "initLimit=20", "syncLimit=10"]
    lines += [f"clientPort={ports[number]}", "clientPortAddress=127.0.0.1"]
    if len(ports) > 1:
        for each in sorted(ports):
            pair = f"{peers[2 * each - 2]}:{peers[2 * each - 1]}"
            lines.append(f"server.{each}=127.0.0.1:{pair}")
        (data / "myid").write_text(f"{number}\n", encoding="ascii")
    settings = data / "zoo.cfg"
    settings.write_text("\n".join(lines) + "\n", encoding="utf-8")
    main = "QuorumPeerMain" if len(ports) > 1 else "ZooKeeperServerMain"
    return [
        *(_program("java", "default-jre-headless"), "-Xmx256m", "-cp", ZOOKEEPER_JAR),
        "-Dzookeeper.admin.enableServer=false",
        f"org.apache.zookeeper.server.{'quorum.' if len(ports) > 1 else ''}{main}",
        str(settings),
    ]

"""The locks of habemus and of the engines, under the same API, in one run.

All servers are up at the same time, and take turns in short rounds, so that a busy machine hits all
of them alike.  Numbers are medians of the rounds.  Unless they are told to, servers sync nothing to
the disk: the software is measured.

*Cycles*: one client takes and releases a free lock.  *By hand*: the same by the library of the
engine (`habemus.bench.by_hand`).  *Overhead*: each turn of the client is compared with the turn by
hand beside it, by the median time of a cycle and by the processor time of the client; the median of
all turns and their quartiles.  A sum over all turns would follow the few in which the machine did
something else.  *Hand-overs*: several client processes compete for one lock.
*Fail-over*: the holder is killed while another client waits; the time until that client is granted
the lock.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from time import monotonic, monotonic_ns, sleep
from typing import Any, NamedTuple

from habemus.bench.client import NS, percentile
from habemus.client.credentials import Credentials
from habemus.client.engines import engine_at
from habemus.client.errors import HabemusError
from habemus.operations.engine_servers import PEER_PORTS, NotInstalled, Servers, end_with_parent
from habemus.operations.local_cluster import free_ports

OWN, REDIS_PY = "habemus", "redis-py"
ENGINES = ("local", "postgresql", "redis", "etcd", "zookeeper")
ENSEMBLES = ("habemus", "etcd", "zookeeper")
CONTENDERS = 4
LEASE_S = 2
READY_S = 60.0
WAITING_S = 0.3
"""Time in which a client has begun to wait."""
SLICES = 20
"""Turns of each client in a measurement of cycles."""

Progress = Callable[[str], None]


class BenchFailed(RuntimeError):
    """A server or a client ended, or two clients got tokens out of order."""


@dataclass
class Measured:
    """Results of one system, one number for each round."""

    cycles: list[float] = field(default_factory=list)  # per second
    cycle_p99_us: list[float] = field(default_factory=list)
    by_hand: list[float] = field(default_factory=list)  # cycles per second
    overhead: list[float] = field(default_factory=list)  # of each turn, in per cent
    cpu_overhead: list[float] = field(default_factory=list)
    handovers: list[float] = field(default_factory=list)  # per second
    wait_p99_us: list[float] = field(default_factory=list)
    failover_s: list[float] = field(default_factory=list)
    by_hand_failover_s: list[float] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        """Return the medians."""
        return {
            "cycles_per_second": _median(self.cycles, 0),
            "cycle_p99_us": _median(self.cycle_p99_us, 1),
            "by_hand_cycles_per_second": _median(self.by_hand, 0),
            "overhead_percent": _median(self.overhead, 1),
            "overhead_quartiles_percent": _quartiles(self.overhead, 1),
            "cpu_overhead_percent": _median(self.cpu_overhead, 1),
            "cpu_overhead_quartiles_percent": _quartiles(self.cpu_overhead, 1),
            "handovers_per_second": _median(self.handovers, 0),
            "wait_p99_us": _median(self.wait_p99_us, 0),
            "failover_s": _median(self.failover_s, 6),
            "by_hand_failover_s": _median(self.by_hand_failover_s, 6),
        }


def _median(numbers: Sequence[float], digits: int) -> float | None:
    return round(median(numbers), digits) if numbers else None


def _quartiles(numbers: Sequence[float], digits: int) -> list[float] | None:
    if len(numbers) < 2:
        return None
    low, _, high = quantiles(numbers, n=4)
    return [round(low, digits), round(high, digits)]


class ClientTurn(NamedTuple):
    """Cycles of one client in one of its turns."""

    cycles: int
    seconds: float
    median_us: float
    p99_us: float
    cpu_us: float
    """Processor time of the client for each cycle."""


class BenchClient:
    """A client process."""

    def __init__(self, url: str, by_hand: str = "") -> None:
        command = [sys.executable, "-m", "habemus.bench.client", url, *([by_hand] * bool(by_hand))]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=end_with_parent
        )
        self.answer()

    def ask(self, what: str, lock: str, number: float) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([what, lock, number]).encode() + b"\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            words = self._process.args[2:]  # type: ignore[index]
            raise BenchFailed(f"a client ended: {' '.join(map(str, words))}")
        return json.loads(line)

    def kill(self) -> int:
        """Kill the process; return the time of the signal."""
        at = monotonic_ns()
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        return at


@contextmanager
def _clients(count: int, url: str, by_hand: str = "") -> Iterator[list[BenchClient]]:
    made: list[BenchClient] = []
    try:
        while len(made) < count:
            made.append(BenchClient(url, by_hand))
        yield made
    finally:
        for client in made:
            client.kill()


class LiveBench:
    """A run over several systems."""

    def __init__(
        self, names: Sequence[str], nodes: int, seconds: float, rounds: int, *, syncs: bool
    ) -> None:
        self._names = names
        self._nodes = nodes
        self._seconds = seconds
        self._rounds = rounds
        self._syncs = syncs
        self.results: dict[str, Measured] = {}
        self.absent: dict[str, str] = {}

    def run(self, progress: Progress) -> None:
        """Start all systems and measure them."""
        with ExitStack() as stack:
            urls = {}
            for name in self._names:
                progress(f"starting {name}")
                try:
                    urls[name] = self._start(stack, name)
                except (NotInstalled, ValueError) as reason:
                    self.absent[name] = str(reason)
            self.results = {name: Measured() for name in urls}
            if "redis" in urls:
                self.results[REDIS_PY] = Measured()
            for number in range(1, self._rounds + 1):
                progress(f"round {number} of {self._rounds}: cycles")
                self._measure_cycles(urls)
                for name, url in urls.items():
                    progress(f"round {number} of {self._rounds}: {name}")
                    self._measure_handovers(name, url)
                    self._measure_failover(name, url)

    def _start(self, stack: ExitStack, name: str) -> str:
        made = tempfile.TemporaryDirectory(prefix="habemus-", ignore_cleanup_errors=True)
        folder = Path(stack.enter_context(made))
        if name == "local":
            return f"local://{folder}/locks"
        if name == OWN:
            return _start_cluster(stack, folder, self._nodes, syncs=self._syncs)
        nodes = range(1, (self._nodes if name in ENSEMBLES else 1) + 1)
        peers = PEER_PORTS.get(name, 0)
        ports = free_ports((1 + peers) * len(nodes))
        servers = Servers(
            "redis-volatile" if name == "redis" and not self._syncs else name,
            folder,
            dict(zip(nodes, ports, strict=False)),
            {n: ports[len(nodes) + peers * (n - 1) : len(nodes) + peers * n] for n in nodes},
            lambda _, receiver: servers.peers[receiver],
            is_synced=self._syncs,
        )
        for number in nodes:
            _start_process(stack, servers.command(number), folder / f"{number}.log")
        url = servers.url(servers.ports)
        _await_engine(url, name)
        return url

    # Rounds.

    def _measure_cycles(self, urls: dict[str, str]) -> None:
        for name, url in urls.items():
            by_hand = {name: url} if name != OWN else {}
            with ExitStack() as stack:
                [ours] = stack.enter_context(_clients(1, url))
                hands = [
                    (self.results[name].by_hand, stack.enter_context(_clients(1, url, each))[0])
                    for each in by_hand
                ]
                if name == "redis":
                    own = stack.enter_context(_clients(1, url, REDIS_PY))[0]
                    hands.append((self.results[REDIS_PY].cycles, own))
                mine, *others = self._turns([ours, *(client for _, client in hands)])
                found = self.results[name]
                found.cycles.append(_rate(mine))
                found.cycle_p99_us.append(median(turn.p99_us for turn in mine))
                for (rates, _), turns in zip(hands, others, strict=True):
                    rates.append(_rate(turns))
                if by_hand:
                    pairs = list(zip(mine, others[0], strict=True))
                    found.overhead += [_more(a.median_us, b.median_us) for a, b in pairs]
                    found.cpu_overhead += [
                        _more(a.cpu_us, b.cpu_us)
                        for a, b in pairs
                        if a.cpu_us and b.cpu_us  # a coarse clock shows none for a short turn
                    ]

    def _turns(self, clients: Sequence[BenchClient]) -> list[list[ClientTurn]]:
        """Return the turns of each client.

        Clients take turns, in an order that is reversed each time: a server that becomes faster
        while it runs, as a JVM does, or other work on the machine must not favour one of them.
        """
        turns: list[list[ClientTurn]] = [[] for _ in clients]
        for number in range(-1, SLICES):  # the first one to warm up
            for place in range(len(clients))[:: -1 if number % 2 else 1]:
                clients[place].ask("cycles", "free", self._seconds / SLICES)
                turn = ClientTurn(*clients[place].answer())
                if number >= 0:
                    turns[place].append(turn)
        return turns

    def _measure_handovers(self, name: str, url: str) -> None:
        with _clients(CONTENDERS, url) as clients:
            for client in clients:
                client.ask("contend", "wanted", self._seconds)
            grants = sorted(
                [*grant, number]
                for number, client in enumerate(clients)
                for grant in client.answer()
            )
        tokens = [grant[2] for grant in grants]
        if name != OWN and tokens != sorted(set(tokens)):
            raise BenchFailed(f"{name}: tokens do not grow from grant to grant")
        changes = sum(one[3] != other[3] for one, other in pairwise(grants))
        found = self.results[name]
        if grants[-1][0] > grants[0][0]:
            found.handovers.append(changes / ((grants[-1][0] - grants[0][0]) / NS))
        found.wait_p99_us.append(percentile([1_000 * grant[1] for grant in grants], 99))

    def _measure_failover(self, name: str, url: str) -> None:
        self.results[name].failover_s.append(_failover(url))
        if name == "local":
            self.results[name].by_hand_failover_s.append(_failover(url, name))


def _rate(turns: Sequence[ClientTurn]) -> float:
    """Return cycles per second."""
    return sum(turn.cycles for turn in turns) / sum(turn.seconds for turn in turns)


def _more(one: float, other: float) -> float:
    """Return how much more one is than the other, in per cent."""
    return 100 * (one / other - 1)


def _failover(url: str, by_hand: str = "") -> float:
    with _clients(2, url, by_hand) as [holder, waiter]:
        holder.ask("hold", "failing", LEASE_S)
        holder.answer()
        waiter.ask("hold", "failing", LEASE_S)
        sleep(WAITING_S)
        killed = holder.kill()
        [granted] = waiter.answer()
    seconds: float = (granted - killed) / NS
    if seconds < 0:
        raise BenchFailed(f"{url}: two clients held the lock")
    return seconds


# Servers.


def _start_process(stack: ExitStack, command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
            cwd=log.parent,
            preexec_fn=end_with_parent,
        )

    def end() -> None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()

    stack.callback(end)
    return process


def _start_cluster(stack: ExitStack, folder: Path, nodes: int, *, syncs: bool) -> str:
    place = folder / "cluster"
    command = [sys.executable, "-m", "habemus", "up", "-n", str(nodes), "--folder", str(place)]
    command += [] if syncs else ["--no-data"]
    process = _start_process(stack, command, folder / "up.log")
    deadline = monotonic() + READY_S
    while True:
        try:
            import habemus

            with habemus.connect(str(place)) as cluster, cluster.lock("ready", timeout=1):
                return str(place)
        except (HabemusError, ValueError) as reason:
            if process.poll() is not None or monotonic() > deadline:
                raise BenchFailed(f"the cluster did not start: {reason}") from None
            sleep(0.1)


def _await_engine(url: str, name: str) -> None:
    engine = engine_at(url, Credentials())
    deadline = monotonic() + READY_S
    while True:
        try:
            engine.connect()
            break
        except HabemusError as reason:
            if monotonic() > deadline:
                raise BenchFailed(f"{name} did not start: {reason}") from None
            sleep(0.1)
    engine.close()

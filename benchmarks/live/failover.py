"""How long nobody gets in after a process was killed (SIGKILL); and how long a command with a lock
takes to start and end.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.live.cases import ADVISORY, DURABLE, ETCD, KAZOO, REDIS
from benchmarks.live.measuring import running, start
from benchmarks.live.ours import Habemus
from benchmarks.live.peers.etcd import Etcd
from benchmarks.live.peers.limits import Flock
from benchmarks.live.peers.postgresql import PostgreSQL
from benchmarks.live.peers.redis import Redis
from benchmarks.live.peers.zookeeper import ZooKeeper
from benchmarks.live.rival import Absent, Door, Service
from benchmarks.live.worker import Take, Worker

QUEUING_SECONDS = 0.15
"""How long a client that waits is left alone before the one inside is killed."""
FLOCK = "flock(2)"
LEADER_FREE = "leader's node killed, the lock was free"
LEADER_HELD = "leader's node killed, a client of it held the lock"
COMMAND = "habemus lock x -- true"
PYTHON = "python -c pass"


class Limit(NamedTuple):
    who: str
    against: str | None  # None: the limit is a time
    most: float  # times as long, or milliseconds


@dataclass
class Delays:
    """Times in milliseconds, by whose they are."""

    name: str
    title: str
    limits: tuple[Limit, ...]
    found: dict[str, list[float]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    def add(self, who: str, nanoseconds: int) -> None:
        self.found.setdefault(who, []).append(nanoseconds / 1e6)

    def reached(self, limit: Limit) -> float | None:
        if limit.who not in self.found or (
            limit.against is not None and limit.against not in self.found
        ):
            return None
        ours = median(self.found[limit.who])
        return ours if limit.against is None else ours / median(self.found[limit.against])


class _Queue(NamedTuple):
    """A holder to be killed, and one who waits."""

    name: str
    service: Service
    holder: Callable[[], Door]
    waiter: Callable[[], Door]


def holder_killed(rounds: int, *, peers: bool) -> Delays:
    """From the kill to the grant of the next one, who was waiting at another node."""
    delays = Delays(
        "holder",
        "The holder's process is killed: until the next grant",
        (Limit(DURABLE, FLOCK, 3),),
    )
    ours, flock, advisory = Habemus(DURABLE, durable=True), Flock(), PostgreSQL()
    queues = [
        _Queue(DURABLE, ours, lambda: ours.at(1), lambda: ours.at(2)),
        _Queue(FLOCK, flock, flock.door, flock.door),
        _Queue(ADVISORY, advisory, advisory.door, advisory.door),
    ]
    _kill_holders(delays, queues, rounds)
    if peers:  # with the time-outs that they come with, or 10 s where they come with none
        redis, kazoo, etcd = Redis(), ZooKeeper(), Etcd()
        slow = [
            _Queue(REDIS, redis, redis.door, redis.door),
            _Queue(KAZOO, kazoo, kazoo.door, kazoo.door),
        ]
        _kill_holders(delays, [*slow, _Queue(ETCD, etcd, etcd.door, etcd.door)], 3)
    return delays


def _kill_holders(delays: Delays, queues: list[_Queue], rounds: int) -> None:
    names = (f"killed-{number}" for number in count())
    with ExitStack() as stack:
        up: list[tuple[_Queue, Worker]] = []
        for queue in queues:
            reason = start(queue.service, stack)
            if reason:
                delays.absent[queue.name] = reason
                continue
            waiter = Worker(queue.waiter())
            stack.callback(waiter.close)
            waiter.ready()
            up.append((queue, waiter))
        for _ in range(rounds):
            for queue, waiter in up:
                name = next(names)
                victim = Worker(queue.holder())
                try:
                    victim.ready()
                    victim.do(Take(name, stays=True))
                    waiter.begin(Take(name))
                    time.sleep(QUEUING_SECONDS)
                    killed = victim.kill()
                    delays.add(queue.name, waiter.result() - killed)
                finally:
                    victim.close()


def leader_killed(rounds: int) -> Delays:
    """From the kill of the leader's node to a grant for a client of another node, which asks at
    that moment.
    """
    delays = Delays(
        "leader",
        "The leader's node is killed: until a grant at another node",
        (Limit(LEADER_FREE, None, 1_000),),
    )
    cluster = Habemus(DURABLE, durable=True)
    with running(cluster) as reason:
        for _ in range(rounds if not reason else 0):
            delays.add(LEADER_FREE, _kill_leader(cluster, held=False))
            delays.add(LEADER_HELD, _kill_leader(cluster, held=True))
    if reason:
        delays.absent[LEADER_FREE] = delays.absent[LEADER_HELD] = reason
    return delays


def _kill_leader(cluster: Habemus, *, held: bool) -> int:
    while True:
        leader, other = cluster.leader(), cluster.another()
        with (
            closing(Worker(cluster.at(leader))) as holder,
            closing(Worker(cluster.at(other))) as asker,
        ):
            holder.ready()
            asker.ready()
            asker.do(Take("orphan"))
            if held:
                holder.do(Take("orphan", stays=True))
            if {leader} != cluster.leaders():
                continue  # another one was elected meanwhile
            killed = time.monotonic_ns()
            cluster.kill_node(leader)
            granted: int = asker.do(Take("orphan"))
        cluster.start_node(leader)
        cluster.settle()
        return granted - killed


def command(rounds: int) -> Delays:
    """A command under a lock, beside an interpreter that does nothing."""
    delays = Delays(
        "command", "A command that takes a lock, from start to end", (Limit(COMMAND, PYTHON, 3),)
    )
    cluster = Habemus(DURABLE, durable=True)
    script = Path(sys.executable).with_name("habemus")
    with running(cluster) as reason:
        if reason or not script.exists():
            delays.absent[COMMAND] = reason or f"there is no {script.name} beside {sys.executable}"
            return delays
        environment = {**os.environ, "HABEMUS_CLUSTER": cluster.path(cluster.leader())}
        commands = {
            PYTHON: [sys.executable, "-c", "pass"],
            COMMAND: [str(script), "lock", "x", "--", "true"],
        }
        for number in range(rounds + 1):
            for who, each in commands.items():
                begun = time.monotonic_ns()
                done = subprocess.run(each, env=environment, capture_output=True, check=False)
                took = time.monotonic_ns() - begun
                if done.returncode:
                    raise Absent(
                        f"{' '.join(each)}: {done.stderr.decode(errors='replace').strip()}"
                    )
                if number:  # the first one warms up
                    delays.add(who, took)
    return delays

"""What is compared with what, and what is wanted of it."""

from __future__ import annotations

from benchmarks.live.measuring import ONE_CORE, Case, Contender, Target
from benchmarks.live.ours import Habemus
from benchmarks.live.peers.etcd import Etcd
from benchmarks.live.peers.limits import Echo, Passing
from benchmarks.live.peers.postgresql import PostgreSQL
from benchmarks.live.peers.redis import Redis
from benchmarks.live.peers.zookeeper import ZooKeeper

from habemus.algorithms.mutex.elected_coordinator import ElectedCoordinatorLeased

BLOCK = ElectedCoordinatorLeased.__variables__["block"].default
CYCLES = "cycles"
HAND_OVERS = "hand-overs"

DURABLE = "default, data folders"
DURABLE_AWAY = "default, data folders, client at a follower"
DURABLE_ALONE = "default of one node, data folder"
DEFAULT = "default"
DEFAULT_AWAY = "default, client at a follower"
CENTRAL = "central"
CENTRAL_LOCAL = "central, Unix socket"
DEFAULT_LOCAL = "default, Unix socket"
CENTRAL_SPREAD = "central, clients at all nodes"
RICART_3 = "ricart-agrawala, 3 nodes"
RICART_5 = "ricart-agrawala, 5 nodes"
DEFAULT_ONE = "default, clients at one node"
DURABLE_ONE = "default, data folders, clients at one node"
DEFAULT_KEEPING = "default, kept by the client"
ROUCAIROL = "roucairol-carvalho"
KEEPING = "roucairol-carvalho, kept by the client"
REDIS = "redis-py"
REDIS_LOCAL = "redis-py, Unix socket"
REDIS_POLLING = "redis-py, sleep=0.001"
REDIS_DURABLE = "redis-py, appendfsync always"
KAZOO = "kazoo"
ETCD = "etcd (etcetra)"
ADVISORY = "PostgreSQL advisory lock"
LOOPBACK = "bare round trip, Unix socket"
LOOPBACK_TCP = "bare round trip, TCP"
BARE_1 = "bare hand-over, one server"
BARE_3 = "bare hand-over, 3 servers"
POLLING_SECONDS = 0.001
ALL_DEFAULTS = (DURABLE, DURABLE_AWAY, DEFAULT, DEFAULT_AWAY)


def one_core() -> Case:
    """How much work a cycle is.  On two cores each message also wakes a core, which can take longer
    than the work: a cycle of ours has two messages that wake, one of redis-py has four.
    """
    redis, central, default, echo = Redis(), Habemus(CENTRAL, "central"), Habemus(DEFAULT), Echo()
    return Case(
        "one-core",
        "One client, nobody else wants the lock; client and servers on one core",
        CYCLES,
        (
            Contender(REDIS, redis, lambda: [redis.door()]),
            Contender(CENTRAL, central, lambda: [central.at(1)]),
            Contender(DEFAULT, default, lambda: [default.at(default.leader())]),
            Contender(DEFAULT_AWAY, default, lambda: [default.at(default.another())]),
            Contender(REDIS_LOCAL, redis, lambda: [redis.local_door()]),
            Contender(CENTRAL_LOCAL, central, lambda: [central.local(1)]),
            Contender(DEFAULT_LOCAL, default, lambda: [default.local(default.leader())]),
            Contender(LOOPBACK_TCP, echo, lambda: [echo.by_tcp()]),
            Contender(LOOPBACK, echo, lambda: [echo.local()]),
        ),
        # By processor time as well: on one core of a machine that does nothing else it says the
        # same, on a busy one it says more.
        tuple(
            Target(*row, by)
            for by in ("per_second", "cpu_us")
            for row in (
                (CENTRAL, REDIS, 2),
                (CENTRAL_LOCAL, REDIS_LOCAL, 2),
                (DEFAULT, REDIS, 2),
                (DEFAULT_AWAY, REDIS, 2),
                (DEFAULT_LOCAL, REDIS_LOCAL, 2),
            )
        ),
        cores=ONE_CORE,
    )


def uncontended() -> Case:
    redis, kazoo, etcd, advisory, echo = Redis(), ZooKeeper(), Etcd(), PostgreSQL(), Echo()
    durable, default = Habemus(DURABLE, durable=True), Habemus(DEFAULT)
    central, three, five = (
        Habemus(CENTRAL, "central"),
        Habemus(RICART_3, "ricart-agrawala"),
        Habemus(RICART_5, "ricart-agrawala", 5),
    )
    return Case(
        "uncontended",
        "One client, one name used again and again",
        CYCLES,
        (
            Contender(DURABLE, durable, lambda: [durable.at(durable.leader())]),
            Contender(DURABLE_AWAY, durable, lambda: [durable.at(durable.another())]),
            Contender(REDIS, redis, lambda: [redis.door()]),
            Contender(DEFAULT, default, lambda: [default.at(default.leader())]),
            Contender(DEFAULT_AWAY, default, lambda: [default.at(default.another())]),
            Contender(KAZOO, kazoo, lambda: [kazoo.door()]),
            Contender(CENTRAL, central, lambda: [central.at(1)]),
            Contender(ETCD, etcd, lambda: [etcd.door()]),
            Contender(RICART_3, three, lambda: [three.at(1)]),
            Contender(ADVISORY, advisory, lambda: [advisory.door()]),
            Contender(RICART_5, five, lambda: [five.at(1)]),
            Contender(REDIS_LOCAL, redis, lambda: [redis.local_door()]),
            Contender(DEFAULT_LOCAL, default, lambda: [default.local(default.leader())]),
            Contender(LOOPBACK_TCP, echo, lambda: [echo.by_tcp()]),
            Contender(LOOPBACK, echo, lambda: [echo.local()]),
        ),
        (
            # The price of one server is what our own lock with a single coordinator takes.
            *(Target(who, CENTRAL, 0.9) for who in ALL_DEFAULTS),
            *(Target(who, REDIS, 2) for who in ALL_DEFAULTS),
            *(Target(who, ETCD, 10) for who in ALL_DEFAULTS),
            *(Target(who, KAZOO, 20) for who in ALL_DEFAULTS),
            Target(DEFAULT_LOCAL, REDIS_LOCAL, 2),
        ),
    )


def fresh() -> Case:
    """A name that was never used has no loan at its node: a majority records each grant."""
    redis, kazoo, etcd, advisory = Redis(), ZooKeeper(), Etcd(), PostgreSQL()
    durable, default = Habemus(DURABLE, durable=True), Habemus(DEFAULT)
    central = Habemus(CENTRAL, "central")
    return Case(
        "fresh",
        "One client, each cycle another name that was never used",
        CYCLES,
        (
            Contender(DURABLE, durable, lambda: [durable.at(durable.leader())]),
            Contender(DURABLE_AWAY, durable, lambda: [durable.at(durable.another())]),
            Contender(REDIS, redis, lambda: [redis.door()]),
            Contender(DEFAULT, default, lambda: [default.at(default.leader())]),
            Contender(ETCD, etcd, lambda: [etcd.door()]),
            Contender(CENTRAL, central, lambda: [central.at(1)]),
            Contender(ADVISORY, advisory, lambda: [advisory.door()]),
            Contender(KAZOO, kazoo, lambda: [kazoo.door()]),
        ),
        tuple(Target(DURABLE, peer, 1) for peer in (REDIS, ETCD, ADVISORY, KAZOO)),
        fresh=True,
    )


def contended(clients: int = 4) -> Case:
    redis, kazoo, etcd, advisory = Redis(), ZooKeeper(), Etcd(), PostgreSQL()
    durable, default = Habemus(DURABLE, durable=True), Habemus(DEFAULT)
    central, three, five = (
        Habemus(CENTRAL, "central"),
        Habemus(RICART_3, "ricart-agrawala"),
        Habemus(RICART_5, "ricart-agrawala", 5),
    )
    bare, bare_three = Passing(1), Passing(3)
    return Case(
        "contended",
        f"{clients} client processes that want the same lock all the time",
        HAND_OVERS,
        (
            Contender(CENTRAL, central, lambda: [central.at(1)] * clients),
            Contender(REDIS_POLLING, redis, lambda: [redis.door(POLLING_SECONDS)] * clients),
            Contender(CENTRAL_SPREAD, central, lambda: central.everywhere(clients)),
            Contender(REDIS, redis, lambda: [redis.door()] * clients),
            Contender(RICART_3, three, lambda: three.everywhere(clients)),
            Contender(KAZOO, kazoo, lambda: [kazoo.door()] * clients),
            Contender(RICART_5, five, lambda: five.everywhere(clients)),
            Contender(ETCD, etcd, lambda: [etcd.door()] * clients),
            Contender(DEFAULT, default, lambda: default.everywhere(clients)),
            Contender(DEFAULT_ONE, default, lambda: [default.at(default.another())] * clients),
            Contender(ADVISORY, advisory, lambda: [advisory.door()] * clients),
            Contender(DURABLE, durable, lambda: durable.everywhere(clients)),
            Contender(DURABLE_ONE, durable, lambda: [durable.at(durable.another())] * clients),
            Contender(BARE_1, bare, lambda: bare.everywhere(clients)),
            Contender(BARE_3, bare_three, lambda: bare_three.everywhere(clients)),
        ),
        (
            *(Target(who, REDIS_POLLING, 8) for who in (CENTRAL, CENTRAL_SPREAD, RICART_3)),
            *(Target(who, REDIS, 8) for who in (CENTRAL, CENTRAL_SPREAD, RICART_3)),
            *(Target(who, REDIS_POLLING, 10, "p99_us") for who in (CENTRAL, RICART_3)),
            *(Target(who, REDIS, 10, "p99_us") for who in (CENTRAL, RICART_3)),
            *(Target(who, CENTRAL, 0.9) for who in (DEFAULT_ONE, DURABLE_ONE)),
            Target(DEFAULT, REDIS_POLLING, 2.3),
            Target(DURABLE, REDIS_POLLING, 1),
            *(Target(who, REDIS_POLLING, 4, "p99_us") for who in (DEFAULT, DURABLE)),
        ),
        # one block, and one turn for each client that waits at the same node
        bounds=dict.fromkeys((DEFAULT, DEFAULT_ONE, DURABLE, DURABLE_ONE), BLOCK + clients - 1),
    )


def durable(processes: int, threads: int) -> Case:
    """A grant that outlives a crash of all machines, beside one that does not.  Redis is one
    server, and so one node of ours stands beside it, and three, which replicate every loan."""
    redis, synced, default, stored = (
        Redis(),
        Redis(durable=True),
        Habemus(DEFAULT),
        Habemus(DURABLE, durable=True),
    )
    alone = Habemus(DURABLE_ALONE, size=1, durable=True)
    locks = processes * threads
    return Case(
        "durable",
        f"Durable grants, {f'{locks} locks at a time' if locks > 1 else 'one client'}",
        CYCLES,
        (
            Contender(DURABLE, stored, lambda: [stored.at(stored.leader())] * processes),
            Contender(REDIS_DURABLE, synced, lambda: [synced.door()] * processes),
            Contender(DURABLE_ALONE, alone, lambda: [alone.at(1)] * processes),
            Contender(DEFAULT, default, lambda: [default.at(default.leader())] * processes),
            Contender(REDIS, redis, lambda: [redis.door()] * processes),
        ),
        (Target(DURABLE_ALONE, REDIS_DURABLE, 5), Target(DURABLE, REDIS_DURABLE, 5)),
        threads=threads if locks > 1 else 0,
    )


def cached() -> Case:
    """A client that keeps its lock takes it again without asking its node, until the node says
    that another client waits.
    """
    redis, cluster = Redis(), Habemus(ROUCAIROL, "roucairol-carvalho")
    keeping, default = Habemus(KEEPING, "roucairol-carvalho"), Habemus(DEFAULT_KEEPING)
    return Case(
        "cached",
        "A permission that nobody else has asked for",
        CYCLES,
        (
            Contender(ROUCAIROL, cluster, lambda: [cluster.at(1)]),
            Contender(REDIS, redis, lambda: [redis.door()]),
            Contender(KEEPING, keeping, lambda: [keeping.keeping(1)]),
            Contender(DEFAULT_KEEPING, default, lambda: [default.keeping(default.another())]),
        ),
        (Target(KEEPING, REDIS, 50), Target(DEFAULT_KEEPING, REDIS, 50)),
    )


def all_cases() -> list[Case]:
    return [one_core(), uncontended(), fresh(), contended(), durable(1, 1), durable(4, 4), cached()]

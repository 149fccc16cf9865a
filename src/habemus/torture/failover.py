"""Leaders of engines, and the failover of a primary with one replica.

The operator watches the primary.  When it has been silent for a while, the operator promotes the
replica and sends all clients there.  The old primary follows the new one when it answers again, and
loses what it did not replicate.  Replication is asynchronous.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from time import monotonic
from typing import Any, Protocol

from habemus.operations.engine_servers import (
    Servers,
    as_postgres,
    give_to_postgres,
    program,
)

LOOK_S = 0.1
SILENT_S = 0.5
"""Time after which a silent primary is replaced."""
ANSWER_S = 0.5
BACKUP_S = 30.0


class RebuiltServer(Protocol):
    """The part of a server process that the operator needs."""

    async def start(self) -> None: ...

    async def rebuild(self, make: Callable[[], None]) -> None: ...


class FailoverOperator(ABC):
    """An operator of a primary and its replica."""

    def __init__(
        self,
        servers: Servers,
        nodes: Mapping[int, RebuiltServer],
        switch: Callable[[int], None],
        note: Callable[..., object],
    ) -> None:
        self.primary = 1
        self._servers = servers
        self._nodes = nodes
        self._switch = switch
        self._note = note

    async def start(self) -> None:
        """Start both servers."""
        for number, node in self._nodes.items():
            await node.start()
            if number != self.primary:
                await self._follow(number)

    async def run(self) -> None:
        """Replace the primary when it is silent, for ever."""
        heard = monotonic()
        while True:
            await asyncio.sleep(LOOK_S)
            [replica] = [number for number in self._nodes if number != self.primary]
            if await asyncio.to_thread(self._try, self._is_primary, self.primary):
                heard = monotonic()
                await self._follow(replica)
            elif monotonic() - heard > SILENT_S and await asyncio.to_thread(
                self._try, self._promote, replica
            ):
                self._note("promoted", replica)
                self.primary, heard = replica, monotonic()
                self._switch(replica)

    @staticmethod
    def _try(act: Callable[[int], bool], number: int) -> bool:
        try:
            return act(number)
        except Exception as reason:  # the server is down, paused, or not ready
            if isinstance(reason, AssertionError | TypeError | AttributeError):
                raise
            return False

    @abstractmethod
    def _is_primary(self, number: int) -> bool:
        """Return whether a server answers as a primary."""

    @abstractmethod
    def _promote(self, number: int) -> bool:
        """Let a replica be the primary; return whether it is."""

    @abstractmethod
    async def _follow(self, number: int) -> None:
        """Let a server replicate the primary, if it answers and does not already."""

    def _port_to_primary(self, number: int) -> int:
        return self._servers.seen(number, self.primary)[0]


class RedisFailover(FailoverOperator):
    """A primary and a replica of Redis."""

    def _client(self, number: int) -> Any:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        return redis.Redis(
            port=self._servers.ports[number],
            socket_timeout=ANSWER_S,
            socket_connect_timeout=ANSWER_S,
            retry=Retry(NoBackoff(), 0),
        )

    def _is_primary(self, number: int) -> bool:
        with self._client(number) as client:
            return bool(client.role()[0] == b"master")

    def _promote(self, number: int) -> bool:
        with self._client(number) as client:
            client.execute_command("REPLICAOF", "NO", "ONE")
            return True

    async def _follow(self, number: int) -> None:
        await asyncio.to_thread(self._try, self._replicate, number)

    def _replicate(self, number: int) -> bool:
        port = self._port_to_primary(number)
        with self._client(number) as client:
            role = client.role()
            if role[0] != b"slave" or role[2] != port:
                client.execute_command("REPLICAOF", "127.0.0.1", port)
            return True


class PostgreSQLFailover(FailoverOperator):
    """A primary and a standby of PostgreSQL."""

    def _ask(self, number: int, question: str) -> bool:
        import psycopg

        port = self._servers.ports[number]
        given = f"host=127.0.0.1 port={port} user=habemus dbname=postgres connect_timeout=2"
        with psycopg.connect(given, autocommit=True) as connection:
            row = connection.execute(question.encode()).fetchone()
        return row is not None and bool(row[0])

    def _is_primary(self, number: int) -> bool:
        return self._ask(number, "SELECT NOT pg_is_in_recovery()")

    def _promote(self, number: int) -> bool:
        return self._ask(number, "SELECT pg_promote(true, 10)")

    async def _follow(self, number: int) -> None:
        """Make the standby anew from the primary: its own history may differ."""
        if await asyncio.to_thread(self._try, self._is_primary, number):
            await self._nodes[number].rebuild(lambda: self._copy(number))

    def _copy(self, number: int) -> None:
        data = self._servers.data(number)
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir()
        data.chmod(0o700)
        give_to_postgres(data)
        given = f"host=127.0.0.1 port={self._port_to_primary(number)} user=habemus"
        command = [*as_postgres(), program("pg_basebackup", "postgresql"), "-D", str(data)]
        command += ["-d", given, "-R", "-X", "stream", "-c", "fast", "--no-sync"]
        subprocess.run(command, check=True, capture_output=True, timeout=BACKUP_S)


FAILOVERS: dict[str, type[FailoverOperator]] = {
    "redis": RedisFailover,
    "postgresql": PostgreSQLFailover,
}


def leader_of(engine: str, ports: Mapping[int, int]) -> int | None:
    """Return the server that leads, as the servers say; None if none does."""
    if len(ports) == 1:
        return next(iter(ports))
    leads = {"etcd": _leads_etcd, "zookeeper": _leads_zookeeper}[engine]
    for number, port in ports.items():
        with suppress(OSError, HTTPException, ValueError, KeyError):
            if leads(port):
                return number
    return None


def _leads_etcd(port: int) -> bool:
    asking = HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
    try:
        asking.request("POST", "/v3/maintenance/status", "{}")
        answer = json.loads(asking.getresponse().read())
    finally:
        asking.close()
    return bool(answer["leader"] == answer["header"]["member_id"])


def _leads_zookeeper(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), ANSWER_S) as asking:
        asking.sendall(b"srvr")
        answer = b""
        while received := asking.recv(1 << 16):
            answer += received
    return b"Mode: leader" in answer

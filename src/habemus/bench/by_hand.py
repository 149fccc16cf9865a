"""The same lock by the library of each engine itself, without habemus, to compare with.

Each takes a lock with a fencing token and releases it, by the calls that a careful user would make:
no queue, no renewal of the lease, no notice of a loss.  `redis-py` is the lock that redis-py has,
without a token.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.client import HTTPConnection
from itertools import count
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

LEASE_MS = 10_000


class HandMade(ABC):
    """A client of an engine."""

    @abstractmethod
    def __init__(self, url: str) -> None: ...

    @contextmanager
    def lock(self, name: str) -> Iterator[int]:
        """Hold a lock that is free; give its token."""
        token, handle = self.acquire(name)
        try:
            yield token
        finally:
            self.release(name, handle)

    @abstractmethod
    def acquire(self, name: str) -> tuple[int, Any]: ...

    @abstractmethod
    def release(self, name: str, handle: Any) -> None: ...


class HandMadeRedis(HandMade):
    """SET NX with an expiry, and a counter."""

    ACQUIRE = (
        "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then"
        " return redis.call('INCR', KEYS[2]) end return 0"
    )
    RELEASE = (
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end"
        " return 0"
    )

    def __init__(self, url: str) -> None:
        import redis

        client: Any = redis.Redis.from_url(url, decode_responses=True)
        self._acquire = client.register_script(self.ACQUIRE)
        self._release = client.register_script(self.RELEASE)

    def acquire(self, name: str) -> tuple[int, Any]:
        me = uuid4().hex
        token = int(self._acquire([f"hand:{name}", f"hand:{name}:token"], [me, LEASE_MS]))
        assert token, "the lock was not free"
        return token, me

    def release(self, name: str, handle: Any) -> None:
        assert self._release([f"hand:{name}"], [handle])


class RedisPy(HandMade):
    """The lock of redis-py."""

    def __init__(self, url: str) -> None:
        import redis

        client: Any = redis.Redis.from_url(url)
        self._client = client

    def acquire(self, name: str) -> tuple[int, Any]:
        lock = self._client.lock(f"redis-py:{name}", timeout=LEASE_MS / 1_000)
        lock.acquire()
        return 0, lock

    def release(self, name: str, handle: Any) -> None:
        handle.release()


class HandMadePostgreSQL(HandMade):
    """An advisory lock, and a row with the token."""

    def __init__(self, url: str) -> None:
        import psycopg

        self._connection: Any = psycopg.connect(url, autocommit=True)
        self._connection.prepare_threshold = 1
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS hand_made (name text PRIMARY KEY, token bigint)"
        )

    @staticmethod
    def _number(name: str) -> int:
        digest = sha256(b"hand:" + name.encode()).digest()
        return int.from_bytes(digest[:8], "big", signed=True)

    def acquire(self, name: str) -> tuple[int, Any]:
        number = self._number(name)
        [token] = self._connection.execute(
            "WITH lock AS MATERIALIZED (SELECT pg_advisory_lock(%s))"
            " INSERT INTO hand_made AS h (name, token) SELECT %s, 1 FROM lock"
            " ON CONFLICT (name) DO UPDATE SET token = h.token + 1 RETURNING token",
            [number, name],
        ).fetchone()
        return token, number

    def release(self, name: str, handle: Any) -> None:
        [is_free] = self._connection.execute("SELECT pg_advisory_unlock(%s)", [handle]).fetchone()
        assert is_free


class HandMadeEtcd(HandMade):
    """A key that is created if there is none, in the JSON gateway."""

    def __init__(self, url: str) -> None:
        host = urlsplit(url).netloc.partition(",")[0]
        self._connection = HTTPConnection(host)
        self._connection.connect()
        self._lease = self._call("lease/grant", {"TTL": LEASE_MS // 1_000 * 6})["ID"]

    def _call(self, path: str, body: dict[str, Any]) -> Any:
        self._connection.request("POST", f"/v3/{path}", json.dumps(body))
        return json.loads(self._connection.getresponse().read())

    def acquire(self, name: str) -> tuple[int, Any]:
        key = base64.b64encode(f"hand/{name}".encode()).decode()
        put = {"request_put": {"key": key, "value": key, "lease": self._lease}}
        absent = {"key": key, "target": "CREATE", "create_revision": "0"}
        answer = self._call("kv/txn", {"compare": [absent], "success": [put]})
        assert answer["succeeded"], "the lock was not free"
        return int(answer["header"]["revision"]), key

    def release(self, name: str, handle: Any) -> None:
        assert self._call("kv/deleterange", {"key": handle})["deleted"]


class HandMadeZooKeeper(HandMade):
    """An ephemeral sequential node, and a look whether it is the first."""

    def __init__(self, url: str) -> None:
        from kazoo.client import KazooClient

        self._client: Any = KazooClient(urlsplit(url).netloc)
        self._client.start()
        self._numbers = count()

    def acquire(self, name: str) -> tuple[int, Any]:
        folder = f"/hand/{name}"
        if not next(self._numbers):
            self._client.ensure_path(folder)
        path, stat = self._client.create(
            f"{folder}/", b"me", ephemeral=True, sequence=True, include_data=True
        )
        first = min(self._client.get_children(folder))
        assert path.endswith(first), "the lock was not free"
        return stat.czxid, path

    def release(self, name: str, handle: Any) -> None:
        self._client.delete(handle)


class HandMadeFlock(HandMade):
    """flock(2) of a file, and a number in it."""

    COUNTER = struct.Struct("<Q")

    def __init__(self, url: str) -> None:
        self._folder = urlsplit(url).path
        self._files: dict[str, int] = {}

    def acquire(self, name: str) -> tuple[int, Any]:
        file = self._files.get(name)
        if file is None:
            path = os.path.join(self._folder, f"{name}.hand")  # noqa: PTH118
            file = self._files[name] = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        found = os.pread(file, self.COUNTER.size, 0) or bytes(self.COUNTER.size)
        token = self.COUNTER.unpack(found)[0] + 1
        os.pwrite(file, self.COUNTER.pack(token), 0)
        return token, file

    def release(self, name: str, handle: Any) -> None:
        fcntl.flock(handle, fcntl.LOCK_UN)


HAND_MADE: dict[str, type[HandMade]] = {
    "local": HandMadeFlock,
    "postgresql": HandMadePostgreSQL,
    "redis": HandMadeRedis,
    "etcd": HandMadeEtcd,
    "zookeeper": HandMadeZooKeeper,
    "redis-py": RedisPy,
}

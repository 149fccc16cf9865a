"""Locks in Redis: scripts that take and release a key with an expiry.

Clients that wait are in a sorted set, in the order of their requests, and each has a list on which
it blocks (BLPOP): a release pushes to the list of the first one.  A waiting client repeats its
request every second; one that was silent for three seconds loses its place in the queue.

A token is the time of the server in microseconds, or the last token plus one if that is larger.  So
tokens grow as long as the server keeps its data, and after a loss of the data, or a failover to a
replica that lacks the last tokens, as long as the clocks of the servers do not go back.  The lock
itself is lost with the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from hashlib import sha1
from itertools import count
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from habemus import boottime
from habemus.client.backend import LockState
from habemus.client.credentials import Credentials
from habemus.client.engines.engine import Engine, EngineGrant, LockGone, Wait, WaitOver
from habemus.client.errors import HabemusError, RefusedByNode, Unreachable

LEASE_MS = 10_000
REFRESH_SECONDS = 1.0
SILENCE_MS = 3_000
"""Time after which a waiting client that is silent loses its place in the queue."""
SOCKET_SECONDS = 5.0
IDLE_CONNECTIONS = 32
POLL_SECONDS = 0.2
"""Time between two looks for a free place by the first client in the queue of a semaphore."""

# KEYS: lock, token, queue, seen.  `seen` has the times until which clients keep their places.
_FIRST = """
local function clock()
    local time = redis.call('TIME')
    return time[1] * 1000000 + time[2]
end
local function leave(me)
    redis.call('ZREM', KEYS[3], me)
    redis.call('HDEL', KEYS[4], me)
end
local function first(me)
    local now
    while true do
        local found = redis.call('ZRANGE', KEYS[3], 0, 0)[1]
        if not found or found == me then return found end
        local seen = redis.call('HGET', KEYS[4], found)
        now = now or clock()
        if seen and tonumber(seen) > now then return found end
        leave(found)
    end
end
local function wake()
    local found = first('')
    if found and redis.call('EXISTS', KEYS[1]) == 0 then
        redis.call('RPUSH', KEYS[1] .. ':wake:' .. found, 1)
        redis.call('PEXPIRE', KEYS[1] .. ':wake:' .. found, 10000)
    end
end
"""
ACQUIRE = (
    _FIRST
    + """
local me, label, lease, patience = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local owner = redis.call('HGET', KEYS[1], 'owner')
if owner == me then
    redis.call('PEXPIRE', KEYS[1], lease)
    return {redis.call('HGET', KEYS[1], 'token'), 0}
end
local before = not owner and first(me)
if not owner and (not before or before == me) then
    if before then leave(me) end
    local token = math.max(clock(), tonumber(redis.call('GET', KEYS[2]) or '0') + 1)
    token = string.format('%.0f', token)
    redis.call('SET', KEYS[2], token)
    redis.call('HSET', KEYS[1], 'owner', me, 'label', label, 'token', token)
    redis.call('PEXPIRE', KEYS[1], lease)
    return {token, 0}
end
if patience > 0 then
    local now = clock()
    if not redis.call('ZSCORE', KEYS[3], me) then
        redis.call('ZADD', KEYS[3], string.format('%.0f', now), me)
    end
    redis.call('HSET', KEYS[4], me, string.format('%.0f', now + patience * 1000))
    redis.call('PEXPIRE', KEYS[3], patience * 2)
    redis.call('PEXPIRE', KEYS[4], patience * 2)
end
return {'', redis.call('PTTL', KEYS[1])}
"""
)
RELEASE = (
    _FIRST
    + """
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
wake()
return 1
"""
)
WITHDRAW = (
    _FIRST
    + """
leave(ARGV[1])
if redis.call('HGET', KEYS[1], 'owner') == ARGV[1] then redis.call('DEL', KEYS[1]) end
redis.call('DEL', KEYS[1] .. ':wake:' .. ARGV[1])
wake()
return 1
"""
)
RENEW = """
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""
FORCE = (
    _FIRST
    + """
local label = redis.call('HGET', KEYS[1], 'label')
redis.call('DEL', KEYS[1])
wake()
return label
"""
)


class Scripts:
    """Calls of scripts, on connections of their own.

    The commands of redis-py take twice as long: they look at the connection, and wrap the call, for
    cases that do not occur here.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self.idle: list[Any] = []

    def call(self, script: str, keys: Sequence[str], *arguments: str | int) -> Any:
        """Return the answer of a script; raise an exception of redis-py."""
        while True:
            connection, is_new = self._connection()
            try:
                connection.send_command("EVALSHA", _digest(script), len(keys), *keys, *arguments)
                answer = connection.read_response()
            except redis.exceptions.NoScriptError:
                self._put_back(connection)
                self._client.script_load(script)
            except redis.exceptions.ResponseError:
                self._put_back(connection)
                raise
            except BaseException as reason:
                connection.disconnect()
                # An idle connection may have been closed: try another one.
                if is_new or not isinstance(reason, redis.exceptions.ConnectionError):
                    raise
            else:
                self._put_back(connection)
                return answer

    def _connection(self) -> tuple[Any, bool]:
        with suppress(IndexError):
            return self.idle.pop(), False
        # Not by `make_connection`, which counts all that were ever made, and stops at a limit.
        pool = self._client.connection_pool
        made = pool.connection_class(**pool.connection_kwargs)
        try:
            made.connect()
        except BaseException:
            made.disconnect()
            raise
        return made, True

    def _put_back(self, connection: Any) -> None:
        if len(self.idle) < IDLE_CONNECTIONS:
            self.idle.append(connection)
        else:
            connection.disconnect()

    def close(self) -> None:
        """Close idle connections."""
        with suppress(IndexError):
            while True:
                self.idle.pop().disconnect()


@lru_cache
def _digest(script: str) -> str:
    return sha1(script.encode(), usedforsecurity=False).hexdigest()


class RedisEngine(Engine):
    """A Redis server."""

    lease_ms = LEASE_MS
    beat_ms = LEASE_MS // 3

    def __init__(self, url: str, credentials: Credentials) -> None:
        parts = urlsplit(url)
        self.shown = f"Redis at {parts.netloc.rpartition('@')[2] or parts.path}"
        keepalive = {} if parts.scheme == "unix" else {"socket_keepalive": True}
        try:
            self._client: Any = redis.Redis.from_url(
                url,
                decode_responses=True,
                socket_timeout=SOCKET_SECONDS,
                socket_connect_timeout=SOCKET_SECONDS,
                retry=Retry(NoBackoff(), 1),  # a connection of the pool may have been closed
                **keepalive,
            )
            pool = self._client.connection_pool
            pool.connection_class(**pool.connection_kwargs)  # as the pool will make them
        except (TypeError, ValueError, redis.exceptions.RedisError) as reason:
            option = str(reason).rpartition("unexpected keyword argument ")[2]
            why = f"unknown option {option}" if isinstance(reason, TypeError) else str(reason)
            raise ValueError(f"the URL of {self.shown}: {why}") from None
        self._scripts = Scripts(self._client)
        self._requests = count(1)
        self._name = uuid4().hex  # unique among all clients

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of the client library into ours."""
        try:
            yield
        except (redis.exceptions.AuthenticationError, redis.exceptions.NoPermissionError) as reason:
            raise RefusedByNode(f"{self.shown}: {reason}") from None
        except (
            redis.exceptions.ConnectionError,
            redis.exceptions.TimeoutError,
            redis.exceptions.ReadOnlyError,
        ) as reason:
            raise Unreachable(f"{self.shown}: {reason}") from None
        except redis.exceptions.RedisError as reason:
            raise RefusedByNode(f"{self.shown}: {reason}") from None

    def connect(self) -> None:
        with self._errors():
            self._client.ping()

    # Locks.

    def acquire(self, key: str, label: str, lease: float | None, wait: Wait) -> EngineGrant:
        me = f"{self._name}-{next(self._requests)}"
        keys = _keys(key)
        lease_ms = LEASE_MS if lease is None else max(1, round(lease * 1_000))
        is_queued = False
        try:
            while True:
                left = wait.left()
                patience = 0 if left == 0 and not is_queued else SILENCE_MS
                at_us = boottime.microseconds()
                with self._errors():
                    token, free_ms = self._scripts.call(
                        ACQUIRE, keys, me, label, lease_ms, patience
                    )
                if token:
                    return EngineGrant(key, int(token), at_us, lease_ms, me)
                if patience == 0:
                    break
                is_queued = True
                self._block(key, me, wait, free_ms)
        except BaseException:
            if is_queued:
                with suppress(HabemusError), self._errors():
                    self._scripts.call(WITHDRAW, keys, me)
            raise
        raise WaitOver

    def _block(self, key: str, me: str, wait: Wait, free_ms: int) -> None:
        """Wait until this client is woken, or the lock expires."""
        longest = wait.longest(REFRESH_SECONDS)
        if free_ms >= 0:
            longest = min(longest, free_ms / 1_000 + 0.001)
        bell = f"{_keys(key)[0]}:wake:{me}"
        with self._errors(), wait.waking(lambda: self._ring(bell)):
            self._client.blpop([bell], timeout=max(0.01, longest))

    def _ring(self, bell: str) -> None:
        with suppress(HabemusError), self._errors():
            self._client.rpush(bell, 1)
            self._client.pexpire(bell, SILENCE_MS)

    def renew(self, grant: EngineGrant) -> None:
        at_us = boottime.microseconds()
        with self._errors():
            is_held = self._scripts.call(
                RENEW, _keys(grant.key), grant.handle, grant.lease_ms or LEASE_MS
            )
        if not is_held:
            raise LockGone(f"{self.shown} does not hold it for this client any more")
        grant.at_us = at_us

    def release(self, grant: EngineGrant) -> None:
        with self._errors():
            was_held = self._scripts.call(RELEASE, _keys(grant.key), grant.handle)
        if not was_held:
            raise LockGone(f"{self.shown} does not hold it for this client any more")

    def drop(self, grant: EngineGrant) -> None:
        """Do nothing: the key expires."""

    def await_change(self, keys: Sequence[str], wait: Wait) -> None:
        wait.pause(POLL_SECONDS)

    def agreed_size(self, key: str, size: int | None) -> int | None:
        place = f"{_keys(key)[0]}:size"
        with self._errors():
            if size is not None:
                self._client.set(place, size, nx=True)
            found = self._client.get(place)
        return None if found is None else int(found)

    # Looking.

    def state(self, key: str) -> LockState:
        lock, _, queue, _ = _keys(key)
        with self._errors():
            found, waiting = self._client.hgetall(lock), self._client.zcard(queue)
        if not found:
            return LockState(None, None, None, waiting)
        return LockState(found["label"], None, int(found["token"]), waiting)

    def held(self) -> dict[str, LockState]:
        with self._errors():
            names = list(self._client.scan_iter("habemus:{*}", 1_000))
        keys = [name.removeprefix("habemus:{").removesuffix("}") for name in sorted(set(names))]
        return {key: self.state(key) for key in keys}

    def force(self, key: str) -> str | None:
        with self._errors():
            label: str | None = self._scripts.call(FORCE, _keys(key))
        return label

    def close(self) -> None:
        self._scripts.close()
        self._client.close()

    def abandon(self) -> None:
        """Forget the connections of the parent; the pool of the library notices a fork itself."""
        self._name = uuid4().hex
        self._scripts.idle = []


@lru_cache(1_000)
def _keys(key: str) -> tuple[str, str, str, str]:
    """Return the keys of a lock, all in one slot of a Redis Cluster."""
    lock = f"habemus:{{{key}}}"
    return lock, f"{lock}:token", f"{lock}:queue", f"{lock}:seen"

"""Locks in etcd, over the JSON gateway that every etcd server has.

Every request puts a key below that of the lock, bound to a lease of etcd; the key with the smallest
create revision holds the lock.  A client that waits watches the key before its own.  The token is
the create revision.

Each lock that is held or waited for has a lease of its own, from a pool: if a lock is lost, its
lease is not renewed any more, and etcd deletes the key.
"""

from __future__ import annotations

import base64
import itertools
import json
import select
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPSConnection
from typing import Any
from urllib.parse import unquote, urlsplit

from habemus import boottime
from habemus.client.backend import LockState
from habemus.client.connection import with_certificates
from habemus.client.credentials import Credentials
from habemus.client.engines.engine import Engine, EngineGrant, LockGone, Wait, WaitOver
from habemus.client.errors import RefusedByNode, Unreachable

LEASE_MS = 10_000
PORT = 2379
ANSWER_SECONDS = 5.0
ANSWER_LIMIT = 64 << 20
HEAD_LIMIT = 64 << 10
IDLE_CONNECTIONS = 32
KEYS = "habemus/"
SIZES = "habemus-sizes/"
UNAUTHENTICATED, REFUSED = 16, (3, 7)
"""Codes of gRPC: a token that is not valid any more; a bad request, and one without permission."""


class GatewayConnection:
    """A connection that sends one request after the other.

    The parser of `http.client` takes longer than the server, so it is used to connect only.
    """

    def __init__(self, made: HTTPConnection) -> None:
        self.sock: socket.socket = made.sock
        self._host = f"{made.host}:{made.port}"
        self._made = made  # which closes the socket
        self._data = b""

    def send(self, path: str, body: dict[str, Any], token: str) -> None:
        content = json.dumps(body)
        allowed = f"Authorization: {token}\r\n" if token else ""
        self.sock.sendall(
            f"POST /v3/{path} HTTP/1.1\r\nHost: {self._host}\r\n{allowed}"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
            f"{content}".encode()
        )

    def answer(self) -> tuple[int, bytes]:
        """Return status and content of the answer; `ValueError` if it is not HTTP."""
        lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, status, *_ = lines[0].split(" ", 2)
        if not version.startswith("HTTP/1.1"):
            raise ValueError(f"{lines[0]!r} is not the answer of an etcd server")
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        if headers.get("transfer-encoding") == "chunked":
            return int(status), b"".join(self._chunks())
        return int(status), self._exactly(int(headers["content-length"]))

    def _chunks(self) -> Iterator[bytes]:
        total = 0
        while size := int(self._until(b"\r\n").partition(b";")[0], 16):
            total += size
            if total > ANSWER_LIMIT:
                raise ValueError("the answer is too long")
            yield self._exactly(size)
            self._until(b"\r\n")
        while self._until(b"\r\n"):
            pass

    def _more(self) -> None:
        received = self.sock.recv(1 << 16)
        if not received:
            raise ConnectionError("the server has closed the connection")
        self._data += received

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._data:
            if len(self._data) > HEAD_LIMIT:
                raise ValueError("the head of the answer is too long")
            self._more()
        found, _, self._data = self._data.partition(mark)
        return found

    def _exactly(self, size: int) -> bytes:
        if size > ANSWER_LIMIT:
            raise ValueError("the answer is too long")
        parts, missing = [self._data[:size]], size - len(self._data)
        self._data = self._data[size:]
        while missing > 0:
            self._more()
            parts.append(self._data[:missing])
            missing, self._data = missing - len(parts[-1]), self._data[missing:]
        return b"".join(parts)

    def close(self) -> None:
        self._made.close()


class Gateway:
    """Calls of an etcd cluster, at the first of its servers that answers."""

    def __init__(self, url: str, credentials: Credentials) -> None:
        parts = urlsplit(url)
        user, _, hosts = parts.netloc.rpartition("@")
        name, _, password = user.partition(":")
        self._user = {"name": unquote(name), "password": unquote(password)} if name else None
        self._hosts = [_host(each) for each in hosts.split(",") if each]
        if not self._hosts or parts.path.strip("/") or parts.query:
            raise ValueError(f"{hosts!r}: write etcd://host:2379,host:2379")
        self.shown = f"etcd at {hosts}"
        self._security = with_certificates(credentials) if credentials.authority else None
        self._idle: list[GatewayConnection] = []
        self._token = ""

    def call(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request; `Unreachable`, or `RefusedByNode`."""
        status, answer = self._exchange(path, body)
        if status != 200 and answer.get("code") == UNAUTHENTICATED and self._user:
            self._token = ""
            status, answer = self._exchange(path, body)
        if status == 200:
            return answer
        why = f"{self.shown}: {answer.get('message') or answer.get('error') or status}"
        if answer.get("code") in (*REFUSED, UNAUTHENTICATED):
            raise RefusedByNode(why)
        raise Unreachable(why)

    def _exchange(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if self._user and not self._token and path != "auth/authenticate":
            self._token = self.call("auth/authenticate", self._user)["token"]
        connection, is_new = self._connection()
        while True:
            try:
                connection.send(path, body, self._token)
                status, content = connection.answer()
                answer = json.loads(content) if content else {}
            except (OSError, ValueError, KeyError) as reason:
                connection.close()
                if is_new:
                    raise Unreachable(f"{self.shown}: {reason!r}") from None
                connection, is_new = self.connected(), True  # the old one may have been closed
            else:
                break
        if len(self._idle) < IDLE_CONNECTIONS:
            self._idle.append(connection)
        else:
            connection.close()
        return status, answer if isinstance(answer, dict) else {}

    def _connection(self) -> tuple[GatewayConnection, bool]:
        with suppress(IndexError):
            return self._idle.pop(), False
        return self.connected(), True

    def connected(self) -> GatewayConnection:
        """Return a new connection to the first server that answers."""
        reason: Exception | None = None
        for host, port in list(self._hosts):
            made: HTTPConnection
            if self._security is None:
                made = HTTPConnection(host, port, timeout=ANSWER_SECONDS)
            else:
                made = HTTPSConnection(host, port, timeout=ANSWER_SECONDS, context=self._security)
            try:
                made.connect()
            except ssl.SSLCertVerificationError as wrong:
                raise RefusedByNode(f"{self.shown}: {wrong.verify_message}") from None
            except OSError as failure:
                reason = failure
                self._hosts.append(self._hosts.pop(0))  # another one next time
            else:
                made.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return GatewayConnection(made)
        raise Unreachable(f"{self.shown}: {reason}") from None

    def await_event(
        self, key: str, end: str, revision: int, wait: Wait, seconds: float, kinds: Sequence[bytes]
    ) -> None:
        """Wait for an event of one of these kinds in a range of keys, at most so many seconds."""
        request = {**_range(key, end), "start_revision": str(revision)}
        connection = self.connected()
        try:
            connection.send("watch", {"create_request": request}, self._token)
            with wait.waking(lambda: _shut(connection.sock)):
                _read_until((*kinds, b'"canceled"'), connection.sock, wait.longest(seconds))
        except OSError as reason:
            wait.left()
            raise Unreachable(f"{self.shown}: {reason}") from None
        finally:
            connection.close()

    def close(self) -> None:
        """Close idle connections."""
        with suppress(IndexError):
            while True:
                self._idle.pop().close()


def _host(text: str) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    try:
        return parts.hostname or "", parts.port or PORT
    except ValueError:
        raise ValueError(f"{text!r} is not the address of an etcd server") from None


def _shut(connected: socket.socket) -> None:
    with suppress(OSError):
        socket.socket.shutdown(connected, socket.SHUT_RDWR)


def _read_until(words: Sequence[bytes], connected: socket.socket, seconds: float) -> None:
    """Read from a watch until one of the words arrives, the connection ends, or time is over."""
    deadline = boottime.seconds() + seconds
    poll = select.poll()
    poll.register(connected, select.POLLIN)
    data = b""
    while (left := deadline - boottime.seconds()) > 0:
        pending = isinstance(connected, ssl.SSLSocket) and connected.pending()
        if not pending and not poll.poll(min(left, boottime.LONGEST_WAIT) * 1_000):
            continue
        received = connected.recv(1 << 16)
        if not received:
            return
        data = data[-100:] + received
        if any(word in data for word in words):
            return


def _text(key: str) -> str:
    return base64.b64encode(key.encode()).decode()


def _plain(text: str) -> str:
    return base64.b64decode(text).decode(errors="replace")


def _range(key: str, end: str = "") -> dict[str, Any]:
    return {"key": _text(key), "range_end": _text(end)} if end else {"key": _text(key)}


def _all(prefix: str) -> tuple[str, str]:
    """Return the range of all keys with a prefix."""
    return prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)


class EtcdLease:
    """A lease of etcd, and when it was renewed."""

    def __init__(self, id: str, ttl_ms: int, at_us: int) -> None:
        self.id = id
        self.ttl_ms = ttl_ms
        self.at_us = at_us

    def age_ms(self) -> int:
        return (boottime.microseconds() - self.at_us) // 1_000


class EtcdEngine(Engine):
    """An etcd cluster."""

    lease_ms = LEASE_MS
    beat_ms = LEASE_MS // 3

    def __init__(self, url: str, credentials: Credentials) -> None:
        self._gateway = Gateway(url, credentials)
        self.shown = self._gateway.shown
        self._leases: list[EtcdLease] = []  # that no lock uses
        self._numbers = itertools.count(1)

    def connect(self) -> None:
        self._gateway.call("kv/range", {**_range(KEYS), "count_only": True})

    # Leases.

    def _lease(self, seconds: int) -> EtcdLease:
        """Return a lease that no lock uses, of which most of the time is left."""
        for lease in [each for each in list(self._leases) if each.ttl_ms == seconds * 1_000]:
            with suppress(ValueError):
                self._leases.remove(lease)  # another thread may have taken it
                if lease.age_ms() < lease.ttl_ms // 4:
                    return lease
                with suppress(LockGone):
                    self._keep_alive(lease)
                    return lease
        at_us = boottime.microseconds()
        answer = self._gateway.call("lease/grant", {"TTL": str(seconds)})
        return EtcdLease(answer["ID"], int(answer["TTL"]) * 1_000, at_us)

    def _keep_alive(self, lease: EtcdLease) -> None:
        at_us = boottime.microseconds()
        answer = self._gateway.call("lease/keepalive", {"ID": lease.id})
        if int(answer.get("result", {}).get("TTL", 0)) <= 0:
            raise LockGone(f"the lease has expired in {self.shown}")
        lease.at_us = at_us

    # Locks.

    def acquire(self, key: str, label: str, lease: float | None, wait: Wait) -> EngineGrant:
        bound = self._lease(LEASE_MS // 1_000 if lease is None else max(1, int(lease)))
        prefix = f"{KEYS}{key}\0"
        mine = f"{prefix}{int(bound.id):x}-{next(self._numbers)}"
        try:
            token = self._granted(prefix, mine, label, bound, wait)
        except BaseException as reason:
            self._give_up(mine, bound, reason)
            raise
        return EngineGrant(key, token, bound.at_us, bound.ttl_ms, (mine, bound))

    def _give_up(self, mine: str, bound: EtcdLease, reason: BaseException) -> None:
        with suppress(Unreachable, RefusedByNode):
            self._gateway.call("kv/deleterange", _range(mine))
            if isinstance(reason, WaitOver):
                self._leases.append(bound)

    def _granted(self, prefix: str, mine: str, label: str, bound: EtcdLease, wait: Wait) -> int:
        """Return the token; raise `WaitOver` if the lock was not granted in time."""
        left = wait.left()
        only_if = _range(*_all(prefix)) if left == 0 else _range(mine)
        answer = self._gateway.call(
            "kv/txn",
            {
                "compare": [{**only_if, "target": "CREATE", "create_revision": "0"}],
                "success": [
                    {
                        "request_put": {
                            "key": _text(mine),
                            "value": _text(label),
                            "lease": bound.id,
                        }
                    },
                    {"request_range": _first(prefix)},
                ],
            },
        )
        if not answer.get("succeeded"):
            if left == 0:
                raise WaitOver
            # The key is there: the connection broke, and the request was sent a second time.
            raise Unreachable(f"{self.shown}: the answer to a request was lost")
        token = int(answer["header"]["revision"])
        found = answer["responses"][1]["response_range"]["kvs"][0]
        while _plain(found["key"]) != mine:
            found = self._await_turn(prefix, mine, token, bound, wait)
        return token

    def _await_turn(
        self, prefix: str, mine: str, token: int, bound: EtcdLease, wait: Wait
    ) -> dict[str, Any]:
        """Wait until the key before mine is gone, or it is time to renew; return the first key."""
        before = {**_range(*_all(prefix)), "max_create_revision": str(token - 1), "limit": "1"}
        before |= {"sort_target": "CREATE", "sort_order": "DESCEND"}
        answer = self._gateway.call("kv/range", before)
        if answer.get("kvs"):
            key = _plain(answer["kvs"][0]["key"])
            revision = int(answer["header"]["revision"]) + 1
            beat = max(0.1, bound.ttl_ms / 3_000 - bound.age_ms() / 1_000)
            self._gateway.await_event(key, "", revision, wait, beat, [b'"DELETE"'])
        if bound.age_ms() > bound.ttl_ms // 4:
            try:
                self._keep_alive(bound)
            except LockGone as reason:
                raise Unreachable(str(reason)) from None  # begin again, at the end of the queue
        wait.longest(1.0)
        kvs = self._gateway.call("kv/range", _first(prefix)).get("kvs")
        if not kvs:
            raise Unreachable(f"the request has expired in {self.shown}")
        first: dict[str, Any] = kvs[0]
        return first

    def renew(self, grant: EngineGrant) -> None:
        mine, bound = grant.handle
        self._keep_alive(bound)
        grant.at_us = bound.at_us
        if not self._gateway.call("kv/range", {**_range(mine), "count_only": True}).get("count"):
            raise LockGone(f"{self.shown} does not hold it for this client any more")

    def release(self, grant: EngineGrant) -> None:
        mine, bound = grant.handle
        answer = self._gateway.call("kv/deleterange", _range(mine))
        if not int(answer.get("deleted", 0)):
            raise LockGone(f"{self.shown} does not hold it for this client any more")
        self._leases.append(bound)

    def drop(self, grant: EngineGrant) -> None:
        """Do nothing: the lease expires, and the key with it."""

    def await_change(self, keys: Sequence[str], wait: Wait) -> None:
        prefix = f"{KEYS}{keys[0].rpartition('/')[0]}/"
        answer = self._gateway.call("kv/range", {**_range(*_all(prefix)), "keys_only": True})
        held = {_plain(each["key"]).partition("\0")[0] for each in answer.get("kvs", [])}
        if all(f"{KEYS}{key}" in held for key in keys):
            revision = int(answer["header"]["revision"]) + 1
            self._gateway.await_event(*_all(prefix), revision, wait, 1.0, [b'"DELETE"'])

    def agreed_size(self, key: str, size: int | None) -> int | None:
        name = SIZES + key
        if size is not None:
            absent = {**_range(name), "target": "CREATE", "create_revision": "0"}
            put = {"request_put": {"key": _text(name), "value": _text(str(size))}}
            self._gateway.call("kv/txn", {"compare": [absent], "success": [put]})
        kvs = self._gateway.call("kv/range", _range(name)).get("kvs")
        return int(_plain(kvs[0]["value"])) if kvs else None

    # Looking.

    def _queue(self, key: str) -> tuple[list[dict[str, Any]], int]:
        """Return the keys of a lock, that of the holder first, and the revision."""
        prefix = f"{KEYS}{key}\0"
        answer = self._gateway.call("kv/range", {**_first(prefix), "limit": "0"})
        return answer.get("kvs", []), int(answer["header"]["revision"])

    def state(self, key: str) -> LockState:
        return _state(self._queue(key)[0])

    def states(self, key: str, wait: Wait) -> Iterator[LockState]:
        seen = None
        while True:
            kvs, revision = self._queue(key)
            found = _state(kvs)
            if found != seen:
                seen = found
                yield found
            kinds = [b'"DELETE"', b'"kv"']
            place = _all(f"{KEYS}{key}\0")
            self._gateway.await_event(*place, revision + 1, wait, 60.0, kinds)

    def held(self) -> dict[str, LockState]:
        answer = self._gateway.call("kv/range", {**_range(*_all(KEYS)), "keys_only": True})
        keys = {_plain(each["key"]).partition("\0")[0] for each in answer.get("kvs", [])}
        return {key: self.state(key) for key in sorted(k.removeprefix(KEYS) for k in keys)}

    def force(self, key: str) -> str | None:
        kvs, _ = self._queue(key)
        if not kvs:
            return None
        self._gateway.call("kv/deleterange", {"key": kvs[0]["key"]})
        return _plain(kvs[0].get("value", ""))

    def close(self) -> None:
        while self._leases:
            with suppress(IndexError, Unreachable, RefusedByNode):
                self._gateway.call("lease/revoke", {"ID": self._leases.pop().id})
        self._gateway.close()

    def abandon(self) -> None:
        self._leases = []
        self._gateway.close()


def _first(prefix: str) -> dict[str, Any]:
    """Return the request for the first key of a lock's queue."""
    order = {"sort_target": "CREATE", "sort_order": "ASCEND", "limit": "1"}
    return {**_range(*_all(prefix)), **order}


def _state(kvs: list[dict[str, Any]]) -> LockState:
    if not kvs:
        return LockState(None, None, None, 0)
    holder = _plain(kvs[0].get("value", ""))
    return LockState(holder, None, int(kvs[0]["create_revision"]), len(kvs) - 1)

"""Locks in ZooKeeper, by kazoo: ephemeral sequential nodes below the node of the lock.

The node with the smallest number holds the lock.  A client that waits watches the node before its
own.  The token is the transaction in which the node was created (czxid).

All locks of a client share a session of ZooKeeper, and its timeout is their lease.  The client
counts it from its own requests, so that a lock is lost here before ZooKeeper deletes its node.  A
client that has lost a lock in this way ends the session: all its locks are lost.

A lease is renewed by a write.  A server that is cut off from the leader goes on to answer reads for
a while, and the leader does not hear of the session.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from logging import NullHandler, getLogger
from ssl import SSLCertVerificationError, SSLContext, SSLError
from time import sleep
from typing import Any
from urllib.parse import quote, unquote, urlsplit
from uuid import uuid4

from kazoo import exceptions
from kazoo.client import KazooClient, KazooState
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.security import CREATOR_ALL_ACL

from habemus import boottime
from habemus.client.backend import LockState
from habemus.client.connection import with_certificates
from habemus.client.credentials import Credentials
from habemus.client.engines.engine import Engine, EngineGrant, LockGone, Wait, WaitOver
from habemus.client.errors import HabemusError, RefusedByNode, Unreachable

LEASE_MS = 10_000
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 5.0
LOOK_SECONDS = 1.0
"""Time after which a waiting client looks at the queue again, whatever its watch says."""
RECONNECTING = {"max_tries": -1, "delay": 0.1, "max_delay": 0.5}
"""Pauses between attempts to connect again.  The default of kazoo doubles them up to a minute: a
client then finds an ensemble that is back up to a minute later."""
ROOT = "/habemus"
SIZES = "/habemus-sizes"
DIGITS = 10
"""Digits of the number that ZooKeeper appends to a sequential node."""
ANY_VERSION = -1
CONNECTION_LOST = (exceptions.ConnectionLoss, exceptions.OperationTimeoutError, KazooTimeoutError)

getLogger("kazoo").addHandler(NullHandler())  # errors are raised, not printed


class Connector(SequentialThreadingHandler):  # type: ignore[misc]
    """Threads and sockets of a client of kazoo.

    kazoo itself trusts the authorities of the system beside the given one, and does not compare
    the name in a certificate with that of the server.
    """

    def __init__(self, servers: int, security: SSLContext | None) -> None:
        super().__init__()
        self._servers = servers
        self._security = security

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_: object
    ) -> socket.socket:
        made = socket.create_connection(address, timeout / self._servers)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._security is None:
            return made
        try:
            return self._security.wrap_socket(made, server_hostname=hostname)
        except BaseException:
            made.close()
            raise


class ZooKeeperSession:
    """A session with a ZooKeeper ensemble."""

    def __init__(self, shown: str, timeout_ms: int, security: SSLContext | None, **given: Any):
        self._shown = shown
        self.timeout_ms = timeout_ms  # as the server grants it
        self.is_lost = False
        self.folders: set[str] = set()  # nodes of locks that exist
        self._news = threading.Condition()
        self._failures: list[str] = []  # of the servers in the last round
        self._is_round_over = False
        self.client: Any = KazooClient(
            timeout=timeout_ms / 1_000,
            handler=Connector(given["hosts"].count(",") + 1, security),
            connection_retry=RECONNECTING,
            **given,
        )
        self.client.add_listener(self._hear)
        connection = self.client._connection
        self._connect, connection._connect = connection._connect, self._connecting
        self._go_round, connection._connect_loop = connection._connect_loop, self._going_round

    def _connecting(self, host: str, address: str, port: int) -> tuple[float, float]:
        """Connect to a server; note the timeout that it grants, or why it failed."""
        try:
            read_ms, connect_ms = self._connect(host, address, port)
        except Exception as reason:
            self._failures.append(_why(reason))
            raise
        self.timeout_ms = round(read_ms * 3 / 2)  # kazoo reads for two thirds of it
        return read_ms, connect_ms

    def _going_round(self, retry: Any) -> Any:
        """Connect to one server after the other until one accepts, and serve its connection."""
        self._failures = []
        try:
            return self._go_round(retry)
        finally:
            with self._news:
                self._is_round_over = True
                self._news.notify_all()

    def _hear(self, state: str) -> None:
        with self._news:
            self.is_lost = self.is_lost or state == KazooState.LOST
            self._news.notify_all()

    def open(self) -> None:
        """Connect; raise if no server accepts."""
        client = self.client
        client.start_async()
        with self._news:
            self._news.wait_for(lambda: client.connected or self._is_round_over, CONNECT_SECONDS)
        if not client.connected:
            raise self._refused_or_unreachable()

    def await_connection(self, wait: Wait, longest: float = ANSWER_SECONDS) -> None:
        """Wait until the client is connected; raise `Unreachable` if it is not in time."""
        client = self.client
        if client.connected:
            return
        left = wait.left()
        with wait.waking(self._wake), self._news:
            self._news.wait_for(
                lambda: client.connected or self.is_lost or wait.is_withdrawn,
                longest if left is None else min(left, longest),
            )
        wait.left()
        if not client.connected:
            raise self._refused_or_unreachable()

    def _wake(self) -> None:
        with self._news:
            self._news.notify_all()

    def _refused_or_unreachable(self) -> HabemusError:
        failures = list(self._failures)
        text = f"{self._shown}: {failures[-1] if failures else 'timed out'}"
        if failures and all("certificate" in each for each in failures):
            return RefusedByNode(text)
        return Unreachable(text)

    def end(self) -> None:
        """End the session in another thread: the ensemble may not answer."""
        self.is_lost = True
        threading.Thread(target=self._stop, daemon=True).start()

    def _stop(self) -> None:
        with suppress(Exception):  # the session is over in any case
            self.client.stop()
            self.client.close()


class ZooKeeperEngine(Engine):
    """A ZooKeeper ensemble."""

    lease_ms = LEASE_MS
    beat_ms = LEASE_MS // 3

    def __init__(self, url: str, credentials: Credentials) -> None:
        parts = urlsplit(url)
        user, _, hosts = parts.netloc.rpartition("@")
        if not hosts or parts.query:
            raise ValueError(f"{hosts!r}: write zookeeper://host:2181,host:2181")
        self.shown = f"ZooKeeper at {hosts}"
        self._settings: dict[str, Any] = {"hosts": hosts + parts.path.rstrip("/")}
        if user:
            self._settings["auth_data"] = [("digest", unquote(user))]
            self._settings["default_acl"] = CREATOR_ALL_ACL
        self._chroot = parts.path.rstrip("/")
        self._security = with_certificates(credentials) if credentials.authority else None
        self._lock = threading.Lock()
        self._sessions: dict[int, ZooKeeperSession] = {}  # by the timeout that was asked for
        self._orphans: list[tuple[str, str]] = []  # nodes that may exist: folder and name

    # Sessions.

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of the client library into ours."""
        try:
            yield
        except (exceptions.NoAuthError, exceptions.AuthFailedError) as reason:
            raise RefusedByNode(f"{self.shown}: not permitted ({type(reason).__name__})") from None
        except (exceptions.KazooException, KazooTimeoutError) as reason:
            why = str(reason) or type(reason).__name__
            raise Unreachable(f"{self.shown}: {why}") from None

    def _session(self, lease: float | None = None) -> ZooKeeperSession:
        wanted_ms = LEASE_MS if lease is None else max(1, round(lease * 1_000))
        with self._lock:
            session = self._sessions.get(wanted_ms)
            if session is None or session.is_lost:
                if session is not None:
                    session.end()
                session = self._sessions[wanted_ms] = self._opened(wanted_ms)
        return session

    def _opened(self, timeout_ms: int) -> ZooKeeperSession:
        session = ZooKeeperSession(self.shown, timeout_ms, self._security, **self._settings)
        client = session.client
        try:
            session.open()
            with self._errors():
                for folder in (ROOT, SIZES):
                    with suppress(exceptions.NodeExistsError):
                        client.create_async(folder).get(timeout=ANSWER_SECONDS)
                client.get_children_async(ROOT).get(timeout=ANSWER_SECONDS)
        except BaseException as reason:
            session.end()
            if isinstance(reason.__context__, exceptions.NoNodeError):
                raise RefusedByNode(
                    f"{self.shown}: there is no node {self._chroot!r}; create it first"
                ) from None
            raise
        return session

    def connect(self) -> None:
        self._session()

    # Locks.

    def acquire(self, key: str, label: str, lease: float | None, wait: Wait) -> EngineGrant:
        session = self._session(lease)
        folder, me = f"{ROOT}/{quote(key, safe='')}", uuid4().hex
        session.await_connection(wait)
        self._delete_orphans(session)
        at_us = boottime.microseconds()
        try:
            with self._errors():
                path, token, queue = self._requested(session, folder, me, label)
                if path != f"{folder}/{queue[0]}":
                    at_us = self._await_turn(session, folder, path, wait)
        except BaseException:
            self._delete_later(session, folder, me)  # the answer may have been lost
            raise
        return EngineGrant(key, token, at_us, session.timeout_ms, (session, path))

    def _requested(
        self, session: ZooKeeperSession, folder: str, me: str, label: str
    ) -> tuple[str, int, list[str]]:
        """Create the node of a request; return its path, its token, and the queue of the lock."""
        if folder not in session.folders:
            with suppress(exceptions.NodeExistsError):
                session.client.create_async(folder).get(timeout=ANSWER_SECONDS)
            session.folders.add(folder)
        made = session.client.create_async(
            f"{folder}/{me}-", label.encode(), ephemeral=True, sequence=True, include_data=True
        )
        # Sent without waiting: requests of a session are executed in their order.
        seen = session.client.get_children_async(folder)
        try:
            path, stat = made.get(timeout=ANSWER_SECONDS)
        except exceptions.NoNodeError:
            session.folders.discard(folder)  # deleted by another client: created again next time
            raise
        return path, stat.czxid, _in_order(seen.get(timeout=ANSWER_SECONDS))

    def _await_turn(self, session: ZooKeeperSession, folder: str, path: str, wait: Wait) -> int:
        """Wait until the node is the first; return when that was asked."""
        while True:
            try:
                at_us = boottime.microseconds()
                if self._is_first(session, folder, path, wait):
                    return at_us
            except CONNECTION_LOST:
                # The node keeps its place for as long as the session lasts.
                if wait.left() == 0:
                    raise
                session.await_connection(wait, session.timeout_ms / 1_000)

    def _is_first(self, session: ZooKeeperSession, folder: str, path: str, wait: Wait) -> bool:
        """Return whether a node is the first in the queue; if not, wait for a change first."""
        name = path.rpartition("/")[2]
        queue = self._queue(session, folder)
        if name not in queue:
            raise Unreachable(f"the request has expired in {self.shown}")
        place = queue.index(name)
        if place == 0:
            return True
        if wait.left() == 0:
            raise WaitOver
        woken = threading.Event()
        before = session.client.exists_async(
            f"{folder}/{queue[place - 1]}", watch=lambda _: woken.set()
        ).get(timeout=ANSWER_SECONDS)
        if before is not None:
            with wait.waking(woken.set):
                woken.wait(wait.longest(LOOK_SECONDS))
            wait.left()
        return False

    def _queue(self, session: ZooKeeperSession, folder: str) -> list[str]:
        """Return the nodes of a lock, that of the holder first."""
        try:
            found = session.client.get_children_async(folder).get(timeout=ANSWER_SECONDS)
        except exceptions.NoNodeError:
            return []
        return _in_order(found)

    def _delete_orphans(self, session: ZooKeeperSession) -> None:
        """Delete nodes of requests that have ended."""
        while self._orphans:
            folder, me = self._orphans[0]
            with self._errors():
                for name in self._queue(session, folder):
                    if name.startswith(me):
                        with suppress(exceptions.NoNodeError):
                            session.client.delete_async(f"{folder}/{name}").get(
                                timeout=ANSWER_SECONDS
                            )
            with suppress(ValueError):
                self._orphans.remove((folder, me))

    def _delete_later(self, session: ZooKeeperSession, folder: str, name: str) -> None:
        """Delete a node now if the ensemble answers, else in a thread when it does."""
        self._orphans.append((folder, name))
        try:
            session.await_connection(Wait(0.0))
            self._delete_orphans(session)
        except (Unreachable, RefusedByNode):
            threading.Thread(target=self._go_on_deleting, args=[session], daemon=True).start()

    def _go_on_deleting(self, session: ZooKeeperSession) -> None:
        while self._orphans and not session.is_lost:
            with suppress(Unreachable, RefusedByNode):
                self._delete_orphans(session)
            sleep(LOOK_SECONDS)

    def renew(self, grant: EngineGrant) -> None:
        session, path = grant.handle
        check = session.client.transaction()  # a write that changes nothing
        check.check(path, ANY_VERSION)
        at_us = boottime.microseconds()
        with self._errors():
            [found] = check.commit_async().get(timeout=ANSWER_SECONDS)
        if isinstance(found, exceptions.NoNodeError):
            raise LockGone(f"{self.shown} does not hold it for this client any more")
        if isinstance(found, Exception):
            raise Unreachable(f"{self.shown}: {type(found).__name__}")
        grant.at_us = at_us

    def is_gone(self, grant: EngineGrant) -> bool:
        return bool(grant.handle[0].is_lost)

    def release(self, grant: EngineGrant) -> None:
        session, path = grant.handle
        try:
            with self._errors():
                session.client.delete_async(path).get(timeout=ANSWER_SECONDS)
        except Unreachable as reason:
            if isinstance(reason.__context__, exceptions.NoNodeError):
                raise LockGone(f"{self.shown} does not hold it any more") from None
            raise

    def drop(self, grant: EngineGrant) -> None:
        """End the session, unless only this node is gone: it must not outlive the lease."""
        session, path = grant.handle
        folder, _, name = path.rpartition("/")
        if boottime.microseconds() - grant.at_us >= session.timeout_ms * 1_000:
            session.end()
        else:
            threading.Thread(
                target=self._delete_later, args=[session, folder, name], daemon=True
            ).start()

    def await_change(self, keys: Sequence[str], wait: Wait) -> None:
        session, woken = self._session(), threading.Event()
        with self._errors():
            for key in keys:
                folder = f"{ROOT}/{quote(key, safe='')}"
                found = session.client.get_children_async(folder, watch=lambda _: woken.set()).get(
                    timeout=ANSWER_SECONDS
                )
                if not found:
                    return
        with wait.waking(woken.set):
            woken.wait(wait.longest(LOOK_SECONDS))

    def agreed_size(self, key: str, size: int | None) -> int | None:
        session, path = self._session(), f"{SIZES}/{quote(key, safe='')}"
        with self._errors():
            if size is not None:
                with suppress(exceptions.NodeExistsError):
                    session.client.create_async(path, str(size).encode()).get(
                        timeout=ANSWER_SECONDS
                    )
            try:
                found, _ = session.client.get_async(path).get(timeout=ANSWER_SECONDS)
            except exceptions.NoNodeError:
                return None
        return int(found)

    # Looking.

    def state(self, key: str) -> LockState:
        session, folder = self._session(), f"{ROOT}/{quote(key, safe='')}"
        with self._errors():
            while queue := self._queue(session, folder):
                with suppress(exceptions.NoNodeError):  # gone in between
                    label, stat = session.client.get_async(f"{folder}/{queue[0]}").get(
                        timeout=ANSWER_SECONDS
                    )
                    return LockState(label.decode(), None, stat.czxid, len(queue) - 1)
        return LockState(None, None, None, 0)

    def held(self) -> dict[str, LockState]:
        session = self._session()
        with self._errors():
            names = session.client.get_children_async(ROOT).get(timeout=ANSWER_SECONDS)
        states = {unquote(name): self.state(unquote(name)) for name in sorted(names)}
        return {key: state for key, state in states.items() if state.holder is not None}

    def force(self, key: str) -> str | None:
        session, folder = self._session(), f"{ROOT}/{quote(key, safe='')}"
        state = self.state(key)
        if state.holder is None:
            return None
        with self._errors(), suppress(exceptions.NoNodeError):
            first = f"{folder}/{self._queue(session, folder)[0]}"
            session.client.delete_async(first).get(timeout=ANSWER_SECONDS)
        return state.holder

    def close(self) -> None:
        with self._lock:
            sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            session._stop()

    def abandon(self) -> None:
        _ABANDONED.extend(self._sessions.values())
        self._lock, self._sessions, self._orphans = threading.Lock(), {}, []


def _why(reason: Exception) -> str:
    """Return why a server did not accept a connection."""
    cause = reason.__context__
    if isinstance(cause, SSLCertVerificationError):
        return f"certificate verify failed: {cause.verify_message}"
    if isinstance(cause, SSLError) and cause.reason:
        return cause.reason.replace("_", " ").lower()
    return str(reason) or type(reason).__name__


def _in_order(names: Sequence[str]) -> list[str]:
    """Return the nodes of a lock, that of the holder first."""
    return sorted(names, key=lambda name: name[-DIGITS:])


_ABANDONED: list[ZooKeeperSession] = []  # of the parent; never touched, and never collected

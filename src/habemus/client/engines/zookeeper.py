"""Locks in ZooKeeper, by kazoo: ephemeral sequential nodes below the node of the lock.

The node with the smallest number holds the lock.  A client that waits watches the node before its
own.  The token is the transaction in which the node was created (czxid).

All locks of a client share a session of ZooKeeper, and its timeout is their lease.  The client
counts it from its own requests, so that a lock is lost here before ZooKeeper deletes its node.  A
client that has lost a lock in this way ends the session: all its locks are lost.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from logging import NullHandler, getLogger
from time import sleep
from typing import Any
from urllib.parse import quote, unquote, urlsplit
from uuid import uuid4

from kazoo import exceptions
from kazoo.client import KazooClient, KazooState
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.serialization import Connect
from kazoo.security import CREATOR_ALL_ACL

from habemus import boottime
from habemus.client.backend import LockState
from habemus.client.connection import with_certificates
from habemus.client.credentials import Credentials
from habemus.client.engines.engine import Engine, EngineGrant, LockGone, Wait, WaitOver
from habemus.client.errors import RefusedByNode, Unreachable

LEASE_MS = 10_000
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 5.0
LOOK_SECONDS = 1.0
"""Time after which a waiting client looks at the queue again, whatever its watch says."""
ROOT = "/habemus"
SIZES = "/habemus-sizes"
DIGITS = 10
"""Digits of the number that ZooKeeper appends to a sequential node."""

getLogger("kazoo").addHandler(NullHandler())  # errors are raised, not printed


class ZooKeeperSession:
    """A session with a ZooKeeper ensemble."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.timeout_ms = 0  # as the server grants it
        self.is_lost = False
        self.folders: set[str] = set()  # nodes of locks that exist
        client.add_listener(self._hear)
        invoke = client._connection._invoke

        def noting(timeout: float, request: Any, xid: int | None = None) -> Any:
            answer = invoke(timeout, request, xid)
            if isinstance(request, Connect):
                self.timeout_ms = answer[0].time_out
            return answer

        client._connection._invoke = noting

    def _hear(self, state: str) -> None:
        if state == KazooState.LOST:
            self.is_lost = True

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
        if credentials.authority:
            with_certificates(credentials)  # kazoo does not name a file that is missing
            self._settings |= {
                "use_ssl": True,
                "ca": credentials.authority,
                "certfile": credentials.certificate or None,
                "keyfile": credentials.key or None,
            }
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
        client = KazooClient(timeout=timeout_ms / 1_000, **self._settings)
        session = ZooKeeperSession(client)
        try:
            with self._errors():
                client.start(CONNECT_SECONDS)
                for folder in (ROOT, SIZES):
                    with suppress(exceptions.NodeExistsError):
                        client.create_async(folder).get(timeout=ANSWER_SECONDS)
                client.get_children_async(ROOT).get(timeout=ANSWER_SECONDS)
        except BaseException:
            session.end()
            raise
        return session

    def connect(self) -> None:
        self._session()

    # Locks.

    def acquire(self, key: str, label: str, lease: float | None, wait: Wait) -> EngineGrant:
        session = self._session(lease)
        folder, me = f"{ROOT}/{quote(key, safe='')}", uuid4().hex
        self._delete_orphans(session)
        try:
            with self._errors():
                path, stat = self._created(session, folder, me, label)
                at_us = self._await_turn(session, folder, path, wait)
        except BaseException:
            self._delete_later(session, folder, me)  # the answer may have been lost
            raise
        return EngineGrant(key, stat.czxid, at_us, session.timeout_ms, (session, path))

    def _created(
        self, session: ZooKeeperSession, folder: str, me: str, label: str
    ) -> tuple[str, Any]:
        if folder not in session.folders:
            with suppress(exceptions.NodeExistsError):
                session.client.create_async(folder).get(timeout=ANSWER_SECONDS)
            session.folders.add(folder)
        made = session.client.create_async(
            f"{folder}/{me}-", label.encode(), ephemeral=True, sequence=True, include_data=True
        ).get(timeout=ANSWER_SECONDS)
        path, stat = made
        return path, stat

    def _await_turn(self, session: ZooKeeperSession, folder: str, path: str, wait: Wait) -> int:
        """Wait until the node is the first; return when that was asked."""
        name = path.rpartition("/")[2]
        while True:
            at_us = boottime.microseconds()
            queue = self._queue(session, folder)
            if name not in queue:
                raise Unreachable(f"the request has expired in {self.shown}")
            place = queue.index(name)
            if place == 0:
                return at_us
            if wait.left() == 0:
                raise WaitOver
            woken = threading.Event()
            before = session.client.exists_async(
                f"{folder}/{queue[place - 1]}", watch=lambda _, woken=woken: woken.set()
            ).get(timeout=ANSWER_SECONDS)
            if before is not None:
                with wait.waking(woken.set):
                    woken.wait(wait.longest(LOOK_SECONDS))
                wait.left()

    def _queue(self, session: ZooKeeperSession, folder: str) -> list[str]:
        """Return the nodes of a lock, that of the holder first."""
        try:
            found = session.client.get_children_async(folder).get(timeout=ANSWER_SECONDS)
        except exceptions.NoNodeError:
            return []
        return sorted(found, key=lambda name: name[-DIGITS:])

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
        at_us = boottime.microseconds()
        with self._errors():
            stat = session.client.exists_async(path).get(timeout=ANSWER_SECONDS)
        if stat is None or stat.czxid != grant.token:
            raise LockGone(f"{self.shown} does not hold it for this client any more")
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


_ABANDONED: list[ZooKeeperSession] = []  # of the parent; never touched, and never collected

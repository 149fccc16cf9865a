"""Locks in PostgreSQL: session-level advisory locks, with tokens in a table.

Every lock that is held or waited for has a connection of its own, from a pool.  One statement waits
for the advisory lock and sets the token of its row, so to acquire takes one round trip and waiting
takes no polling.  PostgreSQL grants the lock in the order of requests.

A token is the time of the server in microseconds, or the last token plus one if that is larger.  So
tokens also grow after a failover to a standby that lacks the last tokens, as long as the clocks of
the servers do not go back.

The lease is the server's `idle_session_timeout` (PostgreSQL 14 or newer): a session that is silent
for that long is ended, and its lock is free.  Older servers keep the lock until they notice that
the connection has ended.

A pooler between client and server must give each client a session of its own: in transaction mode
clients take turns with one session.  Such a pooler is refused when a connection is made
(`pooler`).  Each grant and each renewal returns the process of its session, so that one in another
session is noticed.
"""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from hashlib import sha256
from typing import Any, LiteralString
from urllib.parse import urlsplit

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

from habemus import boottime
from habemus.client.backend import LockState
from habemus.client.credentials import Credentials
from habemus.client.engines import without_password
from habemus.client.engines.engine import Engine, EngineGrant, LockGone, Wait, WaitOver
from habemus.client.engines.pooler import BACKEND, SessionMark, SharedSession, backend_of, is_pooled
from habemus.client.errors import RefusedByNode, Unreachable

LEASE_MS = 10_000
CONNECT_SECONDS = 10
POLL_SECONDS = 0.5
"""Time between two looks for a free place by the first client in the queue of a semaphore."""
IDLE_CONNECTIONS = 32
NOT_OUR_SESSION = (
    psycopg.errors.InvalidSqlStatementName,
    psycopg.errors.DuplicatePreparedStatement,
)
"""Errors of prepared statements if other clients use the session."""
CANCEL_SECONDS = 5.0

TABLE: LiteralString = """
CREATE TABLE IF NOT EXISTS habemus_locks (
    name text PRIMARY KEY, token bigint NOT NULL, holder text, process integer, size integer)
"""
NOW: LiteralString = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_ENTER: LiteralString = f"""
ON CONFLICT (name) DO UPDATE SET token = greatest(l.token + 1, {NOW}),
    holder = excluded.holder, process = excluded.process
RETURNING token, process
"""
_ROW: LiteralString = (
    "INSERT INTO habemus_locks AS l (name, token, holder, process)"
    f" SELECT $2::text, {NOW}, $3::text, pg_backend_pid() FROM lock"
)
TRY: LiteralString = f"""
WITH lock AS MATERIALIZED (SELECT pg_try_advisory_lock($1::bigint) AS is_free)
{_ROW} WHERE is_free {_ENTER}"""
WAIT: LiteralString = f"""
WITH patience AS MATERIALIZED (SELECT set_config('lock_timeout', $4::text, false) AS set),
     lock AS MATERIALIZED (SELECT pg_advisory_lock($1::bigint) FROM patience WHERE set IS NOT NULL)
{_ROW} {_ENTER}"""
UNLOCK: LiteralString = "SELECT pg_advisory_unlock($1::bigint)"
WAITING: LiteralString = """
SELECT l.name, l.token, l.holder, p.granted, p.pid = l.process FROM habemus_locks l
JOIN pg_locks p ON p.locktype = 'advisory' AND p.objsubid = 1
    AND p.classid::bigint = (%(high)s) AND p.objid::bigint = (%(low)s)
    AND p.database = (SELECT oid FROM pg_database WHERE datname = current_database())
WHERE l.name = %(name)s
"""


@lru_cache(1_000)
def _number(key: str) -> int:
    """Return the 64-bit number of the advisory lock."""
    return int.from_bytes(sha256(b"habemus:" + key.encode()).digest()[:8], "big", signed=True)


class _LockSession:
    """A connection that one thread at a time uses, and any thread may end."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.backend = 0
        """Process of the server that executes the statements of this session."""
        self.in_use = threading.Lock()
        self.lease_ms: int | None = None  # as the session has it set
        self._prepared: dict[str, bytes] = {}  # names of statements

    def call(self, statement: LiteralString, *given: str) -> list[str] | None:
        """Return the first row, None without rows.

        By calls of libpq: a cursor takes longer than the server.  They cannot be interrupted, so
        the statement must not wait for a lock.
        """
        connection = self.connection.pgconn
        name = self._prepared.get(statement)
        if name is None:
            name = b"habemus_%d" % len(self._prepared)
            self._check(connection.prepare(name, statement.encode()))
            self._prepared[statement] = name
        result = self._check(connection.exec_prepared(name, [each.encode() for each in given]))
        if not result.ntuples:
            return None
        values = (result.get_value(0, column) for column in range(result.nfields))
        return ["" if value is None else value.decode() for value in values]

    def _check(self, result: pq.abc.PGresult) -> pq.abc.PGresult:
        if result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
            if self.connection.closed:
                raise psycopg.OperationalError(result.get_error_message())
            raise psycopg.errors.error_from_result(result)
        return result

    def end(self) -> None:
        """Shut the connection down, which ends the session and wakes a thread that uses it."""
        with suppress(OSError, psycopg.Error):
            copy = socket.socket(fileno=os.dup(self.connection.pgconn.socket))
            with copy:
                copy.shutdown(socket.SHUT_RDWR)
        if self.in_use.acquire(blocking=False):
            try:
                self.connection.close()
            finally:
                self.in_use.release()

    def abandon(self) -> None:
        """Close the socket in the child of a fork, without a word to the server."""
        with suppress(OSError, psycopg.Error):
            nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            os.dup2(nothing, self.connection.pgconn.socket, inheritable=False)
            os.close(nothing)


class PostgreSQLEngine(Engine):
    """A PostgreSQL server."""

    lease_ms: int | None = LEASE_MS
    beat_ms = LEASE_MS // 3

    def __init__(self, url: str, credentials: Credentials) -> None:
        self._url = url
        parts = urlsplit(url)
        try:
            conninfo_to_dict(url)
        except psycopg.ProgrammingError as reason:
            # The message may have a part of the password.
            why = f": {reason}" if "invalid URI query parameter" in str(reason) else ""
            shown = without_password(url)
            raise ValueError(f"{shown} is not a URL of PostgreSQL{why.rstrip()}") from None
        self.shown = f"PostgreSQL at {parts.netloc.rpartition('@')[2] or 'its socket'}"
        self._idle: list[_LockSession] = []
        self._used: set[_LockSession] = set()
        self._has_table = False

    # Connections.

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of the server into those of a client."""
        try:
            yield
        except (psycopg.OperationalError, psycopg.InterfaceError) as reason:
            state, text = reason.sqlstate or "", " ".join(str(reason).split())
            refused = ("password", "authentication", "no pg_hba", "does not exist", "SSL")
            if state[:2] in ("28", "3D") or (not state and any(w in text for w in refused)):
                raise RefusedByNode(f"{self.shown}: {text}") from None
            raise Unreachable(f"{self.shown}: {text}") from None
        except psycopg.errors.ReadOnlySqlTransaction as reason:  # a standby
            raise Unreachable(f"{self.shown}: {' '.join(str(reason).split())}") from None
        except NOT_OUR_SESSION:
            raise RefusedByNode(f"{self.shown}: {SharedSession()}") from None
        except (psycopg.Error, SharedSession) as reason:
            raise RefusedByNode(f"{self.shown}: {' '.join(str(reason).split())}") from None

    def _session(self) -> _LockSession:
        """Return a connection that no thread uses."""
        with suppress(IndexError):
            while True:
                session = self._idle.pop()
                if not session.connection.closed and not _has_ended(session):
                    self._used.add(session)
                    return session
                session.end()
        with self._errors():
            made = self._open()
            try:
                made.backend = backend_of(made.connection)
                if is_pooled(made.connection, made.backend):
                    mark = SessionMark(made.connection, made.backend)
                    self._end(made)
                    made = self._open()
                    made.backend = mark.await_end(made.connection)
                self._prepare(made.connection)
            except BaseException:
                self._end(made)
                raise
        return made

    def _open(self) -> _LockSession:
        """Connect; nothing of the session is set or known yet."""
        connection = psycopg.connect(
            self._url,
            autocommit=True,
            connect_timeout=CONNECT_SECONDS,
            application_name="habemus",
            client_encoding="UTF8",
            # A lost network must not hold a thread for longer than a lease.
            tcp_user_timeout=LEASE_MS,
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=3,
        )
        made = _LockSession(connection)
        self._used.add(made)
        return made

    def _prepare(self, connection: psycopg.Connection[Any]) -> None:
        """Set a session up for locks."""
        connection.prepare_threshold = 1
        if connection.info.server_version < 140_000:
            self.lease_ms = None
        else:
            connection.execute("SET client_connection_check_interval = '1s'")
        if not self._has_table:
            self._make_table(connection)

    def _make_table(self, connection: psycopg.Connection[Any]) -> None:
        found = connection.execute("SELECT to_regclass('habemus_locks')").fetchone()
        if found is None or found[0] is None:
            with suppress(psycopg.errors.UniqueViolation):  # another client has just made it
                connection.execute(TABLE)
        self._has_table = True

    def _put_back(self, session: _LockSession) -> None:
        self._used.discard(session)
        if len(self._idle) < IDLE_CONNECTIONS:
            self._idle.append(session)
        else:
            session.end()

    def _end(self, session: _LockSession) -> None:
        self._used.discard(session)
        session.end()

    @contextmanager
    def _borrowed(self) -> Iterator[psycopg.Connection[Any]]:
        session = self._session()
        try:
            with session.in_use, self._errors():
                yield session.connection
        except BaseException:
            self._end(session)
            raise
        self._put_back(session)

    def connect(self) -> None:
        with self._borrowed() as connection:
            connection.execute("SELECT 1")

    # Locks.

    def acquire(self, key: str, label: str, lease: float | None, wait: Wait) -> EngineGrant:
        session = self._session()
        try:
            with session.in_use:
                self._set_lease(session, lease)
                began = boottime.microseconds()
                token = self._granted(session, key, label, wait)
                grant = EngineGrant(key, token, began, session.lease_ms, session)
                if session.lease_ms is not None and (
                    boottime.microseconds() - began > session.lease_ms * 250
                ):
                    with self._errors():
                        self._beat(grant)  # the server counts from the last statement
        except WaitOver:
            self._put_back(session)
            raise
        except BaseException:
            self._end(session)
            raise
        return grant

    def _set_lease(self, session: _LockSession, lease: float | None) -> None:
        wanted = LEASE_MS if lease is None else max(1, round(lease * 1_000))
        if session.connection.info.server_version < 140_000 or session.lease_ms == wanted:
            return
        with self._errors():
            session.connection.execute(f"SET idle_session_timeout = {wanted:d}")
        session.lease_ms = wanted

    def _granted(self, session: _LockSession, key: str, label: str, wait: Wait) -> int:
        """Return the token; raise `WaitOver` if the lock was not granted in time.

        PostgreSQL hands a lock over to the first waiting session, so to try first does not overtake
        the others.
        """
        given = (str(_number(key)), key, label)
        with self._errors():
            row = session.call(TRY, *given)
        if row is None:
            left = wait.left()
            if left == 0:
                raise WaitOver
            patience = "0" if left is None else str(max(1, round(left * 1_000)))
            row = self._awaited(session, (*given, patience), wait)
        token, backend = map(int, row)
        if backend != session.backend:
            with self._errors():
                session.call(UNLOCK, given[0])  # in that session, unless another client has it now
                raise SharedSession
        return token

    def _awaited(self, session: _LockSession, given: Sequence[str], wait: Wait) -> list[str]:
        connection = session.connection
        cursor = psycopg.RawCursor(connection)
        try:
            with self._errors(), wait.waking(lambda: _cancel(connection)):
                try:
                    row = cursor.execute(WAIT, given).fetchone()
                except (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled):
                    # The statement may have failed after the lock was granted.
                    connection.execute("SELECT pg_advisory_unlock_all()")
                    raise WaitOver from None
        except Unreachable:
            session.end()  # it may have the lock
            wait.left()  # a cancelled statement can end the connection
            raise
        assert row is not None
        return [str(value) for value in row]

    @staticmethod
    def _beat(grant: EngineGrant) -> None:
        session: _LockSession = grant.handle
        at_us = boottime.microseconds()
        row = session.connection.execute(BACKEND).fetchone()
        if row != (session.backend,):
            raise SharedSession
        grant.at_us = at_us

    def renew(self, grant: EngineGrant) -> None:
        session: _LockSession = grant.handle
        with session.in_use:
            try:
                self._beat(grant)
            except (psycopg.Error, SharedSession) as reason:
                raise LockGone(f"{self.shown}: {' '.join(str(reason).split())}") from None

    def is_gone(self, grant: EngineGrant) -> bool:
        session: _LockSession = grant.handle
        if not session.in_use.acquire(blocking=False):
            return False  # the thread that renews it will know
        try:
            return session.connection.closed or _has_ended(session)
        finally:
            session.in_use.release()

    def release(self, grant: EngineGrant) -> None:
        session: _LockSession = grant.handle
        try:
            with session.in_use:
                was_held = session.call(UNLOCK, str(_number(grant.key))) == ["t"]
        except psycopg.Error as reason:
            self._end(session)
            raise LockGone(f"{self.shown}: {' '.join(str(reason).split())}") from None
        if not was_held:
            self._end(session)
            raise LockGone(f"{self.shown} has given it up")
        self._put_back(session)

    def drop(self, grant: EngineGrant) -> None:
        self._end(grant.handle)

    def await_change(self, keys: Sequence[str], wait: Wait) -> None:
        wait.pause(POLL_SECONDS)

    def agreed_size(self, key: str, size: int | None) -> int | None:
        with self._borrowed() as connection:
            row = connection.execute(
                "INSERT INTO habemus_locks AS l (name, token, size) VALUES (%s, 0, %s)"
                " ON CONFLICT (name) DO UPDATE SET size = coalesce(l.size, excluded.size)"
                " RETURNING size",
                [key, size],
            ).fetchone()
        return None if row is None or row[0] is None else int(row[0])

    # Looking.

    def state(self, key: str) -> LockState:
        number = _number(key) & ((1 << 64) - 1)
        given = {"name": key, "high": number >> 32, "low": number & 0xFFFFFFFF}
        with self._borrowed() as connection:
            rows = connection.execute(WAITING, given).fetchall()
        holder, token = None, None
        for _, newest, label, granted, is_named in rows:
            if granted:
                # Between the grant and the new row, the row names the holder before.
                holder, token = (label, newest) if is_named else ("a client", None)
        return LockState(holder, None, token, sum(not row[3] for row in rows))

    def held(self) -> dict[str, LockState]:
        with self._borrowed() as connection:
            names = [row[0] for row in connection.execute("SELECT name FROM habemus_locks")]
        states = {name: self.state(name) for name in names}
        return {name: state for name, state in states.items() if state.holder is not None}

    def force(self, key: str) -> str | None:
        state = self.state(key)
        if state.holder is None:
            return None
        number = _number(key) & ((1 << 64) - 1)
        with self._borrowed() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
                " AND objsubid = 1 AND granted AND classid::bigint = %s AND objid::bigint = %s"
                " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
                [number >> 32, number & 0xFFFFFFFF],
            )
        return state.holder

    def close(self) -> None:
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().end()

    def abandon(self) -> None:
        for session in [*self._idle, *self._used]:
            session.abandon()
        self._idle, self._used = [], set()


def _has_ended(session: _LockSession) -> bool:
    """Return whether the server has closed the connection, without waiting."""
    try:
        poll = select.poll()
        poll.register(session.connection.pgconn.socket, select.POLLIN)
        return bool(poll.poll(0))  # nothing arrives on an idle connection but its end
    except (OSError, psycopg.Error):
        return True


def _cancel(connection: psycopg.Connection[Any]) -> None:
    with suppress(psycopg.Error):
        connection.cancel_safe(timeout=CANCEL_SECONDS)

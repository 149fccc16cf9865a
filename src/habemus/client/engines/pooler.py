"""Poolers between a client and PostgreSQL, such as PgBouncer.

An advisory lock belongs to a session of the server, and a session that has it can take it again.  A
pooler in session mode gives a session to one client at a time and resets it when the client leaves.
In transaction mode the clients take turns with one session, so two of them would hold one lock, and
the lock of a dead client would stay.

The mode is found by its effect: one connection marks its session with a shared lock and leaves, and
the next one sees whether the mark is gone.  That does not depend on the size of the pool, nor on
what other clients do meanwhile.
"""

from __future__ import annotations

import random
from time import sleep
from typing import Any, LiteralString

import psycopg

from habemus.boottime import Deadline

RESET_SECONDS = 2.0
"""Time within which a pooler in session mode resets the session of a client that has left."""
POLL_SECONDS = 0.02
FIRST_MARK = int.from_bytes(b"habemus\0", "big")
MARKS = 64
"""Keys of marks.  Few, because those in transaction mode stay until the pooler ends the session;
several, because clients that connect at once should not see each other's.
"""

BACKEND: LiteralString = "SELECT pg_backend_pid()"
MARK: LiteralString = "SELECT pg_backend_pid() FROM pg_advisory_lock_shared(%s)"
UNMARK: LiteralString = "SELECT pg_advisory_unlock_shared(%s)"
IS_MARKED: LiteralString = """
SELECT pg_backend_pid(), EXISTS (SELECT FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND pid = %(backend)s
    AND classid::bigint = %(high)s AND objid::bigint = %(low)s)
"""


class SharedSession(Exception):
    """The pooler lets several clients use one session of the server."""

    def __init__(self) -> None:
        super().__init__(
            "a connection pooler lets several clients use one session, so two of them would hold"
            " one lock (PgBouncer with pool_mode = transaction or statement); connect to the server"
            " itself, or to a pool with pool_mode = session"
        )


def backend_of(connection: psycopg.Connection[Any]) -> int:
    """Return the process of the server that executes the statements of a connection."""
    return int(_row(connection, BACKEND)[0])


def is_pooled(connection: psycopg.Connection[Any], backend: int) -> bool:
    """Return whether there is a pooler in between: it tells clients process numbers of its own."""
    return connection.info.backend_pid != backend


class SessionMark:
    """A shared lock that ends with the session, and the session that has it."""

    def __init__(self, connection: psycopg.Connection[Any], backend: int) -> None:
        """Mark the session of a connection; raise `SharedSession` if it is another one by now."""
        self.key = FIRST_MARK + random.randrange(MARKS)
        (self.backend,) = _row(connection, MARK, [self.key])
        if self.backend != backend:
            _row(connection, UNMARK, [self.key])
            raise SharedSession

    def await_end(self, connection: psycopg.Connection[Any]) -> int:
        """Wait until the marked session was reset, and return the backend of this connection;
        raise `SharedSession` if it is not reset.

        The connection that made the mark was closed before this one was made.
        """
        given = {"backend": self.backend, "high": self.key >> 32, "low": self.key & 0xFFFFFFFF}
        deadline = Deadline(RESET_SECONDS)
        while True:
            backend, is_marked = _row(connection, IS_MARKED, given)
            if not is_marked:
                return int(backend)
            if backend == self.backend or deadline.left() == 0:
                _row(connection, UNMARK, [self.key])
                raise SharedSession
            sleep(POLL_SECONDS)


def _row(
    connection: psycopg.Connection[Any], statement: LiteralString, given: Any = None
) -> tuple[Any, ...]:
    """Return the first row; nothing is prepared, because the session may be shared."""
    row = connection.execute(statement, given, prepare=False).fetchone()
    assert row is not None
    found: tuple[Any, ...] = row
    return found

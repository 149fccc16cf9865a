"""A guard inside an SQLite database.

    sqlite.make_table(connection)                                       # once
    with sqlite.fenced(connection, "printer", lease.token) as cursor:
        cursor.execute("INSERT INTO jobs (name) VALUES (?)", ["report"])

The connection is one of the standard module `sqlite3`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from habemus.fencing.sql import QUESTION, TABLE, Unguarded, guarded, only_block

__all__ = ["Unguarded", "fenced", "make_table"]


def make_table(connection: sqlite3.Connection) -> None:
    """Create the table of the newest tokens, if it does not exist."""
    connection.execute(TABLE)
    connection.commit()


@contextmanager
def fenced(
    connection: sqlite3.Connection, name: str, token: int | None
) -> Iterator[sqlite3.Cursor]:
    """Run one transaction if the token is not older than the newest of this fence; else raise
    `StaleToken`.

    The transaction is committed at the end of the block, or rolled back when the block raises.  A
    transaction that was open on the connection before becomes part of it.

    name: the name of the fence, such as that of the lock.
    token: the token of the lease; `ValueError` if it is None.
    """
    ending = (
        _Explicit(connection) if getattr(connection, "autocommit", None) is True else connection
    )
    # BEGIN IMMEDIATE excludes other writers.
    begin = "" if connection.in_transaction else "BEGIN IMMEDIATE"
    with (
        only_block(connection),
        guarded(ending, connection.cursor(), name, token, QUESTION, begin) as writing,
    ):
        yield writing


class _Explicit:
    """Commit and rollback as statements.

    With `autocommit=True` (Python 3.12), the methods of the connection do nothing.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def commit(self) -> None:
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        self._connection.execute("ROLLBACK")

"""A guard inside an SQLite database.

sqlite.make_table(connection)                                       # once
with sqlite.fenced(connection, "printer", lease.token) as cursor:
    cursor.execute("INSERT INTO jobs (name) VALUES (?)", ["report"])
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from habemus.fencing.sql import QUESTION, TABLE, guarded


def make_table(connection: sqlite3.Connection) -> None:
    """The table of the newest tokens, if it is not there yet."""
    connection.execute(TABLE)
    connection.commit()


@contextmanager
def fenced(
    connection: sqlite3.Connection, name: str, token: int | None
) -> Iterator[sqlite3.Cursor]:
    """One transaction that takes place only if the token is not older than the newest of this
    fence; otherwise StaleToken.

    It ends with the block: committed, or rolled back when the block raises.  What was open on the
    connection before belongs to it.
    """
    ending = (
        _Explicit(connection) if getattr(connection, "autocommit", None) is True else connection
    )
    begin = (
        "" if connection.in_transaction else "BEGIN IMMEDIATE"
    )  # nobody else writes from there on
    with guarded(ending, connection.cursor(), name, token, QUESTION, begin) as writing:
        yield writing


class _Explicit:
    """With `autocommit=True`, which is new in Python 3.12, the methods of the connection do
    nothing, and so the statements are said.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def commit(self) -> None:
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        self._connection.execute("ROLLBACK")

"""A guard inside a PostgreSQL database.

    postgresql.make_table(connection)                                   # once
    with postgresql.fenced(connection, "printer", lease.token) as cursor:
        cursor.execute("INSERT INTO jobs (name) VALUES (%s)", ["report"])

The connection is of any driver of PEP 249 that marks parameters with %s (psycopg, psycopg2,
pg8000), or a `Connection` of SQLAlchemy.  Asynchronous ones have a guard of their own,
`async_postgresql`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from habemus.fencing.sql import (
    FORMAT,
    TABLE,
    Cursor,
    Marks,
    Statements,
    Unguarded,
    guarded,
    is_asynchronous,
    marks_of,
    only_block,
    refuse_autocommit,
)

__all__ = ["Unguarded", "fenced", "make_table"]

KEY = int.from_bytes(b"habemus", "big")
"""Advisory lock for creating the table: concurrent IF NOT EXISTS can fail."""


def make_table(connection: Any) -> None:
    """Create the table of the newest tokens, if it does not exist."""
    cursor, marks = _cursor(connection)
    try:
        cursor.execute(f"SELECT pg_advisory_xact_lock({marks.first})", (KEY,))
        cursor.execute(TABLE)
        connection.commit()
    except BaseException:
        connection.rollback()
        raise
    finally:
        cursor.close()


@contextmanager
def fenced(connection: Any, name: str, token: int | None) -> Iterator[Any]:
    """Run one transaction if the token is not older than the newest of this fence; else raise
    `StaleToken`.

    The transaction is committed at the end of the block, or rolled back when the block raises.  A
    transaction that was open on the connection before becomes part of it.  Other transactions on
    the same fence wait until then.
    The block gets a cursor, or with SQLAlchemy the connection itself.

    name: the name of the fence, such as that of the lock.
    token: the token of the lease; `ValueError` if it is None.
    """
    cursor, marks = _cursor(connection)
    is_sqlalchemy = isinstance(cursor, Statements)
    refuse_autocommit(connection.connection.dbapi_connection if is_sqlalchemy else connection)
    with only_block(connection), guarded(connection, cursor, name, token, marks):
        yield connection if is_sqlalchemy else cursor


def _cursor(connection: Any) -> tuple[Cursor, Marks]:
    given = f"{type(connection).__module__}.{type(connection).__qualname__}"
    if is_asynchronous(connection):
        raise TypeError(
            f"{given} is asynchronous, so the token would not be checked; use"
            " habemus.fencing.async_postgresql"
        )
    if hasattr(connection, "exec_driver_sql"):
        return Statements(connection), marks_of(connection)
    if not hasattr(connection, "cursor"):
        raise TypeError(
            f"{given} is not a connection; use one of PEP 249 or a Connection of SQLAlchemy"
        )
    return connection.cursor(), FORMAT

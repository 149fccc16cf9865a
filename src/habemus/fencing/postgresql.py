"""A guard inside a PostgreSQL database, through any driver of PEP 249 that marks parameters with %s (psycopg, psycopg2, pg8000).

postgresql.make_table(connection)                                   # once
with postgresql.fenced(connection, "printer", lease.token) as cursor:
    cursor.execute("INSERT INTO jobs (name) VALUES (%s)", ["report"])
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from habemus.fencing.sql import TABLE, Connection, guarded

_KEY = int.from_bytes(b"habemus", "big")


def make_table(connection: Connection) -> None:
    """The table of the newest tokens, if it is not there yet."""
    cursor = connection.cursor()
    try:
        # IF NOT EXISTS alone fails when two do it at once.
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (_KEY,))
        cursor.execute(TABLE)
        connection.commit()
    except BaseException:
        connection.rollback()
        raise
    finally:
        cursor.close()


@contextmanager
def fenced(connection: Connection, name: str, token: int | None) -> Iterator[Any]:
    """One transaction that takes place only if the token is not older than the newest of this fence; otherwise StaleToken.

    It ends with the block: committed, or rolled back when the block raises.  What was open on the connection before belongs to it.
    Others that show a token to the same fence wait until then.
    """
    if getattr(connection, "autocommit", False):
        raise ValueError("with autocommit, the check and the writes would be transactions of their own; switch it off on this connection")
    with guarded(connection, connection.cursor(), name, token, "%s") as writing:
        yield writing

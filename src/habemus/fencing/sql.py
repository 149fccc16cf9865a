"""What the guards of databases share: a table of the newest tokens, and the one statement that checks and remembers.

The check and the writes are one transaction, so that nobody comes between them; the row of the fence is locked from the check to
the end, so that a late transaction waits for the newer one and then finds itself stale.

A savepoint around the block notices when the transaction was ended inside it (a `commit`, an `executescript`) or had failed there:
it is gone then, and what came after it was not guarded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TypeVar

from habemus.fencing.tokens import StaleToken, check_token

TABLE = "CREATE TABLE IF NOT EXISTS habemus_fence (name VARCHAR(200) PRIMARY KEY, token BIGINT NOT NULL)"
"""Rows stay for ever: a fence that is deleted has forgotten who is late."""


class Cursor(Protocol):
    """Of any database, as PEP 249 has it."""

    def execute(self, statement: str, parameters: Sequence[Any] = ..., /) -> Any: ...

    def fetchone(self) -> Any: ...

    def close(self) -> Any: ...


class Transaction(Protocol):
    """What can be ended, one way or the other: a connection."""

    def commit(self) -> Any: ...

    def rollback(self) -> Any: ...


class Connection(Transaction, Protocol):
    def cursor(self) -> Any: ...


class Unguarded(Exception):
    """The transaction was ended inside the block, or had failed there: what came after it was not guarded, and is undone if it can be."""


AnyCursor = TypeVar("AnyCursor", bound=Cursor)


@contextmanager
def guarded(
    transaction: Transaction, cursor: AnyCursor, name: str, token: int | None, parameter: str, begin: str = ""
) -> Iterator[AnyCursor]:
    """The block, in the transaction that is open on the connection or begins now.  `parameter` is how the database marks one."""
    try:
        shown = check_token(token)
        if begin:
            cursor.execute(begin)
        cursor.execute("SAVEPOINT habemus_fence")
        _check(cursor, name, shown, parameter)
        yield cursor
        _release(cursor)
        transaction.commit()
    except BaseException:
        with suppress(Exception):  # the connection may be gone; then the database rolls back by itself
            transaction.rollback()
        raise
    finally:
        with suppress(Exception):
            cursor.close()


def _check(cursor: Cursor, name: str, token: int, parameter: str) -> None:
    cursor.execute(
        f"INSERT INTO habemus_fence (name, token) VALUES ({parameter}, {parameter}) "
        "ON CONFLICT (name) DO UPDATE SET token = excluded.token WHERE habemus_fence.token <= excluded.token RETURNING token",
        (name, token),
    )
    if cursor.fetchone() is None:
        cursor.execute(f"SELECT token FROM habemus_fence WHERE name = {parameter}", (name,))
        raise StaleToken(token, _only(cursor.fetchone()))


def _only(row: Any) -> int:
    """The value of a row of one column, whether the connection makes tuples or mappings of rows."""
    (value,) = row.values() if isinstance(row, Mapping) else row
    return int(value)


def _release(cursor: Cursor) -> None:
    try:
        cursor.execute("RELEASE SAVEPOINT habemus_fence")
    except Exception as reason:
        raise Unguarded(f"the transaction of the guard was ended inside its block, or failed there: {reason}") from reason

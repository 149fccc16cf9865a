"""Common part of the database guards: a table of the newest tokens, and one statement that checks
and stores a token.

The check and the writes are one transaction.  The row of the fence is locked from the check to the
end, so a stale transaction waits for the newer one and is then refused.

A savepoint around the block detects that the transaction ended inside it (a `commit`, an
`executescript`) or failed there: then the savepoint is gone, and later writes were not guarded.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, Protocol, TypeVar

from habemus.fencing.tokens import StaleToken, check_token

TABLE = (
    "CREATE TABLE IF NOT EXISTS habemus_fence (name VARCHAR(200) PRIMARY KEY, token BIGINT NOT"
    " NULL)"
)
"""Rows are never deleted: without its row, a fence would accept stale tokens."""


class Cursor(Protocol):
    """Cursor of PEP 249."""

    def execute(self, statement: str, parameters: Sequence[Any] = ..., /) -> Any: ...

    def fetchone(self) -> Any: ...

    def close(self) -> Any: ...


class Transaction(Protocol):
    """Connection that can be committed or rolled back."""

    def commit(self) -> Any: ...

    def rollback(self) -> Any: ...


class Marks(NamedTuple):
    """Placeholders of the first and the second parameter of a statement."""

    first: str
    second: str

    @property
    def accept(self) -> str:
        """Statement that stores a token and returns it, or returns no row if it is stale."""
        return (
            f"INSERT INTO habemus_fence (name, token) VALUES ({self.first}, {self.second}) "
            "ON CONFLICT (name) DO UPDATE SET token = excluded.token "
            "WHERE habemus_fence.token <= excluded.token RETURNING token"
        )

    @property
    def newest(self) -> str:
        return f"SELECT token FROM habemus_fence WHERE name = {self.first}"


QUESTION = Marks("?", "?")
FORMAT = Marks("%s", "%s")
DOLLAR = Marks("$1", "$2")
SAVEPOINT = "SAVEPOINT habemus_fence"
RELEASE = "RELEASE SAVEPOINT habemus_fence"


class Unguarded(Exception):
    """The transaction ended or failed inside the block: later writes were not guarded.

    They are rolled back if possible.
    """


_BUSY: set[int] = set()
"""Identities of the connections on which a transaction of a guard is open."""


@contextmanager
def only_block(connection: Any) -> Iterator[None]:
    """Raise `ValueError` if another block is open on the connection, of another task or thread.

    They would share one transaction: a block that raised would be committed by the other.
    """
    if id(connection) in _BUSY:
        raise ValueError(
            "another block of the guard is open on this connection, and both would be one"
            " transaction; give each task and each thread a connection of its own"
        )
    _BUSY.add(id(connection))
    try:
        yield
    finally:
        _BUSY.discard(id(connection))


AnyCursor = TypeVar("AnyCursor", bound=Cursor)


@contextmanager
def guarded(
    transaction: Transaction,
    cursor: AnyCursor,
    name: str,
    token: int | None,
    marks: Marks,
    begin: str = "",
) -> Iterator[AnyCursor]:
    """Run the block in the open transaction of the connection, or in a new one."""
    try:
        shown = check_token(token)
        if begin:
            cursor.execute(begin)
        cursor.execute(SAVEPOINT)
        _check(cursor, name, shown, marks)
        yield cursor
        _release(cursor)
        transaction.commit()
    except BaseException:
        with suppress(Exception):  # without a connection, the database rolls back by itself
            transaction.rollback()
        raise
    finally:
        with suppress(Exception):
            cursor.close()


def _check(cursor: Cursor, name: str, token: int, marks: Marks) -> None:
    cursor.execute(marks.accept, (name, token))
    if cursor.fetchone() is None:
        cursor.execute(marks.newest, (name,))
        raise StaleToken(token, only(cursor.fetchone()))


def only(row: Any) -> int:
    """Return the value of a row of one column, given as a tuple or as a mapping."""
    (value,) = row.values() if isinstance(row, Mapping) else row
    return int(value)


def _release(cursor: Cursor) -> None:
    try:
        cursor.execute(RELEASE)
    except Exception as reason:
        raise unguarded(reason) from reason


def unguarded(reason: Exception) -> Unguarded:
    return Unguarded(
        f"the transaction ended or failed inside the block of the guard, so later writes were not"
        f" guarded; do not commit inside the block: {reason}"
    )


def is_asynchronous(connection: Any) -> bool:
    """Return whether the methods of the connection must be awaited."""
    is_asyncpg = hasattr(connection, "fetchrow")
    return is_asyncpg or inspect.iscoroutinefunction(getattr(connection, "commit", None))


def refuse_autocommit(connection: Any) -> None:
    if getattr(connection, "autocommit", False):
        raise ValueError(
            "autocommit is on, so the check and the writes would be separate transactions;"
            " switch it off on this connection"
        )


class Statements:
    """A connection of SQLAlchemy in the form of a cursor, for the statements of the guard."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._result: Any = None

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> None:
        self._result = self._connection.exec_driver_sql(statement, tuple(parameters))

    def fetchone(self) -> Any:
        return self._result.fetchone()

    def close(self) -> None:
        """Do nothing: no resource is kept open."""


def marks_of(connection: Any) -> Marks:
    """Return the placeholders of the driver of a SQLAlchemy connection."""
    return DOLLAR if connection.dialect.paramstyle == "numeric_dollar" else FORMAT

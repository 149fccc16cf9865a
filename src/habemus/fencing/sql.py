"""What the guards of databases share: a table of the newest tokens, and the one statement that
checks and remembers.

The check and the writes are one transaction, so that nobody comes between them; the row of the
fence is locked from the check to the end, so that a late transaction waits for the newer one and
then finds itself stale.

A savepoint around the block notices when the transaction was ended inside it (a `commit`, an
`executescript`) or had failed there: it is gone then, and what came after it was not guarded.
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


class Marks(NamedTuple):
    """How a driver marks the first and the second parameter of a statement."""

    first: str
    second: str

    @property
    def accept(self) -> str:
        """The whole guard: remembers the token and returns it, or returns nothing if it is stale."""
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
    """The transaction was ended inside the block, or had failed there: what came after it was not
    guarded, and is undone if it can be.
    """


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
    """Run the block in the transaction that is open on the connection or begins now."""
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
        with suppress(
            Exception
        ):  # the connection may be gone; then the database rolls back by itself
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
    """Return the value of a row of one column, whether the connection makes tuples or mappings of
    rows.
    """
    (value,) = row.values() if isinstance(row, Mapping) else row
    return int(value)


def _release(cursor: Cursor) -> None:
    try:
        cursor.execute(RELEASE)
    except Exception as reason:
        raise unguarded(reason) from reason


def unguarded(reason: Exception) -> Unguarded:
    return Unguarded(
        f"the transaction of the guard was ended inside its block, or failed there: {reason}"
    )


def is_asynchronous(connection: Any) -> bool:
    """Whether the methods of the connection do nothing until they are awaited."""
    is_asyncpg = hasattr(connection, "fetchrow")
    return is_asyncpg or inspect.iscoroutinefunction(getattr(connection, "commit", None))


def refuse_autocommit(connection: Any) -> None:
    if getattr(connection, "autocommit", False):
        raise ValueError(
            "with autocommit, the check and the writes would be transactions of their own; switch"
            " it off on this connection"
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
        """Nothing is kept open."""


def marks_of(connection: Any) -> Marks:
    """How the driver below a connection of SQLAlchemy marks parameters."""
    return DOLLAR if connection.dialect.paramstyle == "numeric_dollar" else FORMAT

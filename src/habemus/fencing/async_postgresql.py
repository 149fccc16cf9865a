"""A guard inside a PostgreSQL database, for asynchronous connections: psycopg, asyncpg, SQLAlchemy.

    await async_postgresql.make_table(connection)                       # once
    async with async_postgresql.fenced(connection, "printer", lease.token) as cursor:
        await cursor.execute("INSERT INTO jobs (name) VALUES (%s)", ["report"])

The block gets a cursor of psycopg; asyncpg and SQLAlchemy have none, so there it gets the
connection.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from habemus.fencing.postgresql import KEY
from habemus.fencing.sql import (
    DOLLAR,
    FORMAT,
    RELEASE,
    SAVEPOINT,
    TABLE,
    Marks,
    Unguarded,
    is_asynchronous,
    marks_of,
    only,
    only_block,
    refuse_autocommit,
    unguarded,
)
from habemus.fencing.tokens import StaleToken, check_token

__all__ = ["Unguarded", "fenced", "make_table"]


async def make_table(connection: Any) -> None:
    """Create the table of the newest tokens, if it does not exist."""
    async with _transaction(connection) as driver:
        await driver.row(f"SELECT pg_advisory_xact_lock({driver.marks.first})", KEY)
        await driver.run(TABLE)


@asynccontextmanager
async def fenced(connection: Any, name: str, token: int | None) -> AsyncIterator[Any]:
    """Run one transaction if the token is not older than the newest of this fence; else raise
    `StaleToken`.

    The transaction is committed at the end of the block, or rolled back when the block raises or is
    cancelled.  Other transactions on the same fence wait until then.  A second block on the same
    connection, of another task, raises `ValueError`.

    name: the name of the fence, such as that of the lock.
    token: the token of the lease; `ValueError` if it is None.
    """
    shown = check_token(token)
    async with _transaction(connection) as driver:
        await driver.run(SAVEPOINT)
        if await driver.row(driver.marks.accept, name, shown) is None:
            raise StaleToken(shown, only(await driver.row(driver.marks.newest, name)))
        yield driver.writer
        try:
            await driver.run(RELEASE)
        except Exception as reason:
            raise unguarded(reason) from reason


@asynccontextmanager
async def _transaction(connection: Any) -> AsyncIterator[_Driver]:
    driver = _driver_of(connection)
    with only_block(connection):
        await driver.begin()
        try:
            yield driver
            await driver.commit()
        except BaseException:
            await _undo(driver)
            raise


async def _undo(driver: _Driver) -> None:
    """Roll back.  A connection that cannot, because it is gone or the task is cancelled again, is
    closed: the next transaction on it must not commit what this one wrote."""
    try:
        await driver.rollback()
    except BaseException as reason:
        with suppress(Exception):
            await driver.abandon()
        if not isinstance(reason, Exception):
            raise


class _Driver(ABC):
    """The operations of a connection that the guard needs."""

    marks: Marks
    writer: Any
    """The object that the block writes with."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    @abstractmethod
    async def begin(self) -> None: ...

    @abstractmethod
    async def run(self, statement: str) -> None: ...

    @abstractmethod
    async def row(self, statement: str, *parameters: Any) -> Any: ...

    @abstractmethod
    async def abandon(self) -> None: ...

    async def commit(self) -> None:
        await self.connection.commit()

    async def rollback(self) -> None:
        await self.connection.rollback()


class _Psycopg(_Driver):
    marks = FORMAT

    async def begin(self) -> None:
        refuse_autocommit(self.connection)
        self.writer = self.connection.cursor()

    async def run(self, statement: str) -> None:
        await self.writer.execute(statement)

    async def row(self, statement: str, *parameters: Any) -> Any:
        await self.writer.execute(statement, parameters)
        return await self.writer.fetchone()

    async def abandon(self) -> None:
        await self.connection.close()


class _Asyncpg(_Driver):
    marks = DOLLAR

    async def begin(self) -> None:
        if self.connection.is_in_transaction():
            raise ValueError(
                "a transaction is open on this connection, and the guard begins its own;"
                " end the open one first"
            )
        self.writer = self.connection
        self._transaction = self.connection.transaction()
        await self._transaction.start()

    async def run(self, statement: str) -> None:
        await self.connection.execute(statement)

    async def row(self, statement: str, *parameters: Any) -> Any:
        return await self.connection.fetchrow(statement, *parameters)

    async def commit(self) -> None:
        await self._transaction.commit()

    async def rollback(self) -> None:
        await self._transaction.rollback()

    async def abandon(self) -> None:
        self.connection.terminate()


class _SQLAlchemy(_Driver):
    async def begin(self) -> None:
        self.marks = marks_of(self.connection)
        raw = await self.connection.get_raw_connection()
        refuse_autocommit(raw.dbapi_connection)
        self.writer = self.connection

    async def run(self, statement: str) -> None:
        await self.connection.exec_driver_sql(statement)

    async def row(self, statement: str, *parameters: Any) -> Any:
        return (await self.connection.exec_driver_sql(statement, parameters)).fetchone()

    async def abandon(self) -> None:
        await self.connection.invalidate()


def _driver_of(connection: Any) -> _Driver:
    given = f"{type(connection).__module__}.{type(connection).__qualname__}"
    if not is_asynchronous(connection):
        raise TypeError(
            f"{given} is not an asynchronous connection; use habemus.fencing.postgresql"
        )
    if hasattr(connection, "is_in_transaction"):
        return _Asyncpg(connection)
    if hasattr(connection, "exec_driver_sql"):
        return _SQLAlchemy(connection)
    if hasattr(connection, "cursor"):
        return _Psycopg(connection)
    raise TypeError(f"{given} is not a connection; use one of psycopg, asyncpg or SQLAlchemy")

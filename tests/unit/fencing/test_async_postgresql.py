"""The guard for asynchronous connections, against a real server, with each of the drivers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from habemus.fencing import StaleToken, async_postgresql, postgresql
from habemus.fencing.sql import Unguarded

PATIENCE = 60.0


class Driver:
    """One way to reach the database: how to connect, insert and commit with it."""

    def __init__(self, server: str) -> None:
        self.server = server
        self.place = dict(each.split("=") for each in server.split())

    async def connect(self, stack: AsyncExitStack, **given: Any) -> Any:
        raise NotImplementedError

    async def insert(self, writer: Any, job: str) -> None:
        raise NotImplementedError

    async def commit(self, connection: Any) -> None:
        await connection.commit()


class Psycopg(Driver):
    async def connect(self, stack: AsyncExitStack, **given: Any) -> Any:
        made = await psycopg.AsyncConnection.connect(self.server, **given)
        stack.push_async_callback(made.close)
        return made

    async def insert(self, writer: Any, job: str) -> None:
        await writer.execute("INSERT INTO jobs (name) VALUES (%s)", [job])


class Asyncpg(Driver):
    async def connect(self, stack: AsyncExitStack, **given: Any) -> Any:
        place = self.place
        made = await asyncpg.connect(
            host=place["host"], user=place["user"], database=place["dbname"], **given
        )
        stack.callback(made.terminate)
        return made

    async def insert(self, writer: Any, job: str) -> None:
        await writer.execute("INSERT INTO jobs (name) VALUES ($1)", job)

    async def commit(self, connection: Any) -> None:
        await connection.execute("COMMIT")


class SQLAlchemy(Driver):
    below = "psycopg"

    async def connect(self, stack: AsyncExitStack, **given: Any) -> Any:
        url = f"postgresql+{self.below}://{self.place['user']}@/{self.place['dbname']}?host={self.place['host']}"
        engine = create_async_engine(url, **given)
        stack.push_async_callback(engine.dispose)
        return await stack.enter_async_context(engine.connect())

    async def insert(self, writer: Any, job: str) -> None:
        await writer.execute(text("INSERT INTO jobs (name) VALUES (:job)"), {"job": job})


class SQLAlchemyAsyncpg(SQLAlchemy):
    below = "asyncpg"


DRIVERS = (Psycopg, Asyncpg, SQLAlchemy, SQLAlchemyAsyncpg)
Test = Callable[..., Awaitable[None]]


class Office:
    """A driver, connections of it, and a plain connection that looks at the tables."""

    def __init__(
        self, driver: Driver, stack: AsyncExitStack, observer: psycopg.Connection[Any]
    ) -> None:
        self.driver, self._stack, self.observer = driver, stack, observer

    async def connect(self, **given: Any) -> Any:
        return await self.driver.connect(self._stack, **given)

    async def add(self, connection: Any, job: str, token: int | None) -> None:
        async with async_postgresql.fenced(connection, "printer", token) as writer:
            await self.driver.insert(writer, job)

    def jobs(self) -> list[str]:
        return [name for (name,) in self.observer.execute("SELECT name FROM jobs ORDER BY number")]

    def newest(self) -> int | None:
        row = self.observer.execute(
            "SELECT token FROM habemus_fence WHERE name = 'printer'"
        ).fetchone()
        return None if row is None else int(row[0])

    async def someone_waits(self) -> None:
        """Return when a connection waits for a lock of another."""
        async with asyncio.timeout(PATIENCE):
            waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            while self.observer.execute(waiting).fetchone() is None:
                await asyncio.sleep(0)


@asynccontextmanager
async def office(kind: type[Driver], server: str) -> AsyncIterator[Office]:
    with psycopg.connect(server, autocommit=True) as observer:
        observer.execute("DROP TABLE IF EXISTS jobs, habemus_fence")
        observer.execute("CREATE TABLE jobs (number serial, name text)")
        async with AsyncExitStack() as stack:
            here = Office(kind(server), stack, observer)
            await async_postgresql.make_table(await here.connect())
            yield here


@pytest.fixture(params=DRIVERS, ids=lambda kind: kind.__name__)
def run(request: pytest.FixtureRequest, postgresql_server: str) -> Callable[[Test], None]:
    def running(test: Test) -> None:
        async def whole() -> None:
            async with office(request.param, postgresql_server) as here:
                await test(here)

        asyncio.run(whole())

    return running


def test_a_stale_token_is_refused_and_leaves_nothing(run: Callable[[Test], None]) -> None:
    async def test(here: Office) -> None:
        connection = await here.connect()
        await here.add(connection, "first", 42)
        await here.add(connection, "same holder", 42)
        with pytest.raises(StaleToken) as refused:
            await here.add(connection, "late", 41)
        assert (refused.value.token, refused.value.newest) == (41, 42)
        await here.add(connection, "next", 43)
        assert (here.newest(), here.jobs()) == (43, ["first", "same holder", "next"])

    run(test)


def test_a_block_that_raises_is_rolled_back_with_its_token(run: Callable[[Test], None]) -> None:
    async def test(here: Office) -> None:
        connection = await here.connect()
        with pytest.raises(ZeroDivisionError):
            async with async_postgresql.fenced(connection, "printer", 9) as writer:
                await here.driver.insert(writer, "half")
                raise ZeroDivisionError
        assert (here.newest(), here.jobs()) == (None, [])
        with pytest.raises(ValueError, match="has no fencing tokens"):
            await here.add(connection, "without", None)
        await here.add(connection, "whole", 1)
        assert (here.newest(), here.jobs()) == (1, ["whole"])

    run(test)


def test_an_older_one_waits_for_the_newer_and_then_is_refused(run: Callable[[Test], None]) -> None:
    async def test(here: Office) -> None:
        old, new = await here.connect(), await here.connect()
        async with async_postgresql.fenced(new, "printer", 2) as writer:
            late = asyncio.create_task(here.add(old, "old", 1))
            await here.someone_waits()
            await here.driver.insert(writer, "new")
        with pytest.raises(StaleToken):
            await late
        assert (here.newest(), here.jobs()) == (2, ["new"])

    run(test)


def test_a_cancelled_writer_leaves_nothing_and_holds_up_nobody(run: Callable[[Test], None]) -> None:
    async def test(here: Office) -> None:
        old, new = await here.connect(), await here.connect()
        written = asyncio.Event()

        async def writing() -> None:
            async with async_postgresql.fenced(old, "printer", 1) as writer:
                await here.driver.insert(writer, "old")
                written.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(writing())
        await written.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(PATIENCE):
            await here.add(new, "new", 2)
        assert (here.newest(), here.jobs()) == (2, ["new"])

    run(test)


def test_one_that_is_cancelled_again_while_it_rolls_back_commits_nothing_later(
    run: Callable[[Test], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(here: Office) -> None:
        connection, other = await here.connect(), await here.connect()

        async def interrupted(_: Any) -> None:
            raise asyncio.CancelledError

        with monkeypatch.context() as patched:
            for kind in (async_postgresql._Driver, async_postgresql._Asyncpg):
                patched.setattr(kind, "rollback", interrupted)
            with pytest.raises(asyncio.CancelledError):
                async with async_postgresql.fenced(connection, "printer", 1) as writer:
                    await here.driver.insert(writer, "half")
                    raise ZeroDivisionError
        async with asyncio.timeout(PATIENCE):
            await here.add(other, "new", 2)
        assert (here.newest(), here.jobs()) == (2, ["new"])

    run(test)


def test_a_transaction_that_is_ended_inside_the_block_is_noticed(
    run: Callable[[Test], None],
) -> None:
    async def test(here: Office) -> None:
        connection, other = await here.connect(), await here.connect()
        with pytest.raises(Unguarded):
            async with async_postgresql.fenced(connection, "printer", 1) as writer:
                await here.driver.insert(writer, "guarded")
                await here.driver.commit(connection)
                await here.add(other, "newer", 2)
                if not isinstance(
                    here.driver, Asyncpg
                ):  # which then commits each statement by itself
                    await here.driver.insert(writer, "stale")
        assert (here.newest(), here.jobs()) == (2, ["guarded", "newer"])

    run(test)


def test_two_tasks_on_one_connection_cannot_commit_each_other(run: Callable[[Test], None]) -> None:
    async def test(here: Office) -> None:
        connection = await here.connect()
        is_inside, may_fail = asyncio.Event(), asyncio.Event()

        async def fails() -> None:
            async with async_postgresql.fenced(connection, "printer", 1) as writer:
                await here.driver.insert(writer, "of a block that raised")
                is_inside.set()
                await may_fail.wait()
                raise RuntimeError("the block raises")

        failing = asyncio.create_task(fails())
        await is_inside.wait()
        with pytest.raises(ValueError, match="another block of the guard is open"):
            await here.add(connection, "of the other", 2)
        with pytest.raises(ValueError, match="another block of the guard is open"):
            await async_postgresql.make_table(connection)
        may_fail.set()
        with pytest.raises(RuntimeError, match="the block raises"):
            await failing
        assert here.jobs() == []
        assert here.newest() is None
        await here.add(connection, "later", 1)
        assert here.jobs() == ["later"]

    run(test)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (Psycopg, {"autocommit": True}),
        (SQLAlchemy, {"isolation_level": "AUTOCOMMIT"}),
        (SQLAlchemyAsyncpg, {"isolation_level": "AUTOCOMMIT"}),
    ],
)
def test_autocommit_is_refused(
    kind: type[Driver], given: dict[str, Any], postgresql_server: str
) -> None:
    async def test() -> None:
        async with office(kind, postgresql_server) as here:
            connection = await here.connect(**given)
            with pytest.raises(ValueError, match="autocommit"):
                await here.add(connection, "a", 1)
            assert here.jobs() == []

    asyncio.run(test())


def test_asyncpg_with_an_open_transaction_is_refused(postgresql_server: str) -> None:
    async def test() -> None:
        async with office(Asyncpg, postgresql_server) as here:
            connection = await here.connect()
            async with connection.transaction():
                with pytest.raises(ValueError, match="a transaction is open on this connection"):
                    await here.add(connection, "a", 1)
            async with (
                async_postgresql.fenced(connection, "printer", 2) as writer,
                writer.transaction(),
            ):
                await here.driver.insert(writer, "nested")
            assert (here.newest(), here.jobs()) == (2, ["nested"])

    asyncio.run(test())


def test_connections_of_a_pool_of_asyncpg(postgresql_server: str) -> None:
    async def test() -> None:
        async with office(Asyncpg, postgresql_server) as here:
            place = here.driver.place
            where = {"host": place["host"], "user": place["user"], "database": place["dbname"]}
            async with asyncpg.create_pool(**where, min_size=1, max_size=1) as pool:
                async with pool.acquire() as connection:
                    await here.add(connection, "a", 2)
                    with pytest.raises(StaleToken):
                        await here.add(connection, "b", 1)
                    with (
                        pytest.raises(TypeError, match="asynchronous"),
                        postgresql.fenced(connection, "printer", 3),
                    ):
                        pass
                with pytest.raises(TypeError, match="Pool is not a connection"):
                    await here.add(pool, "c", 3)
            assert here.jobs() == ["a"]

    asyncio.run(test())


def test_a_guard_for_the_other_kind_of_connection_lets_nothing_through(
    run: Callable[[Test], None],
) -> None:
    """A stale token once went through `postgresql.fenced` on an asynchronous connection of
    psycopg.
    """

    async def test(here: Office) -> None:
        connection = await here.connect()
        await here.add(connection, "first", 43)
        with (
            pytest.raises(
                TypeError,
                match="is asynchronous, so the token would not be checked; use",
            ),
            postgresql.fenced(connection, "printer", 1) as writer,
        ):
            await here.driver.insert(writer, "stale")
        with pytest.raises(TypeError, match="is asynchronous"):
            postgresql.make_table(connection)
        with pytest.raises(TypeError, match="is not an asynchronous connection; use habemus"):
            await here.add(here.observer, "a", 44)
        assert (here.newest(), here.jobs()) == (43, ["first"])

    run(test)


def test_a_session_of_sqlalchemy_is_not_a_connection(postgresql_server: str) -> None:
    async def test() -> None:
        async with (
            office(SQLAlchemy, postgresql_server) as here,
            AsyncSession(await here.connect()) as session,
        ):
            with pytest.raises(TypeError, match="AsyncSession is not a connection"):
                await here.add(session, "a", 1)

    asyncio.run(test())


def test_two_may_make_the_table_at_once(run: Callable[[Test], None]) -> None:
    async def test(here: Office) -> None:
        connections = [await here.connect() for _ in range(4)]
        here.observer.execute("DROP TABLE habemus_fence")
        await asyncio.gather(*(async_postgresql.make_table(each) for each in connections))
        await here.add(connections[0], "a", 1)
        assert here.jobs() == ["a"]

    run(test)


EXAMPLES = {"psycopg": Psycopg, "asyncpg": Asyncpg, "SQLAlchemy": SQLAlchemyAsyncpg}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_the_documents(name: str, postgresql_server: str) -> None:
    page = (Path(__file__).parents[3] / "docs" / "fencing.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (example,) = [block for block in blocks if "async_postgresql.fenced" in block and name in block]

    async def test() -> None:
        async with office(EXAMPLES[name], postgresql_server) as here:
            scope = {"async_postgresql": async_postgresql, "text": text}
            exec(example, scope)
            await scope["print_report"](await here.connect(), SimpleNamespace(token=42))  # type: ignore[operator]
            assert (here.newest(), here.jobs()) == (42, ["report"])

    asyncio.run(test())

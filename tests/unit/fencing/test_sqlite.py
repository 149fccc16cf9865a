"""The guard inside SQLite: the check and the writes are one transaction, whatever mode the
connection is in.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from habemus.fencing import StaleToken, sqlite
from habemus.fencing.sql import Unguarded

Open = Callable[..., sqlite3.Connection]


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Open]:
    """Connections to one database, which has a table of jobs."""
    made: list[sqlite3.Connection] = []

    def connected(**given: Any) -> sqlite3.Connection:
        made.append(sqlite3.connect(tmp_path / "printer.db", check_same_thread=False, **given))
        return made[-1]

    first = connected()
    prepare(first)
    yield connected
    for each in made:
        each.close()


def prepare(connection: sqlite3.Connection) -> None:
    sqlite.make_table(connection)
    connection.execute("CREATE TABLE jobs (name)")
    connection.commit()


def jobs(connection: sqlite3.Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT name FROM jobs ORDER BY rowid")]


def newest(connection: sqlite3.Connection, name: str = "printer") -> int | None:
    row = connection.execute("SELECT token FROM habemus_fence WHERE name = ?", [name]).fetchone()
    return None if row is None else int(row[0])


def add(
    connection: sqlite3.Connection, job: str, token: int | None, fence: str = "printer"
) -> None:
    with sqlite.fenced(connection, fence, token) as cursor:
        cursor.execute("INSERT INTO jobs VALUES (?)", [job])


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 6) | st.integers(0, 2**63 - 1), st.booleans()), max_size=12)
)
def test_accepted_if_and_only_if_not_smaller_than_the_largest_accepted(
    writes: list[tuple[int, bool]],
) -> None:
    """A block that raises has not been accepted, and leaves neither its writes nor its token."""
    with closing(sqlite3.connect(":memory:")) as connection:
        prepare(connection)
        largest: int | None = None
        wanted: list[str] = []
        for number, (token, fails) in enumerate(writes):
            if largest is not None and token < largest:
                with pytest.raises(StaleToken) as refused:
                    add(connection, f"{number}", token)
                assert (refused.value.token, refused.value.newest) == (token, largest)
            elif fails:
                with (
                    pytest.raises(ZeroDivisionError),
                    sqlite.fenced(connection, "printer", token) as cursor,
                ):
                    cursor.execute("INSERT INTO jobs VALUES (?)", [f"{number}"])
                    raise ZeroDivisionError
            else:
                add(connection, f"{number}", token)
                largest, wanted = token, [*wanted, f"{number}"]
            assert not connection.in_transaction
            assert (newest(connection), jobs(connection)) == (largest, wanted)


def test_fences_know_nothing_of_each_other(connect: Open) -> None:
    connection = connect()
    add(connection, "a", 9, "printer")
    add(connection, "b", 1, "scanner")
    assert (newest(connection, "printer"), newest(connection, "scanner")) == (9, 1)


def test_no_token(connect: Open) -> None:
    connection = connect()
    with pytest.raises(
        ValueError, match="token is None: the algorithm of this lock has no fencing tokens"
    ):
        add(connection, "a", None)
    assert not connection.in_transaction and jobs(connection) == []


class Autocommitting(sqlite3.Connection):
    """As a connection with autocommit=True is from Python 3.12 on."""

    autocommit = True

    def commit(self) -> None:
        pass

    def rollback(self) -> None:
        pass


@pytest.mark.parametrize(
    "mode",
    [{}, {"isolation_level": None}, {"isolation_level": "EXCLUSIVE"}, {"factory": Autocommitting}],
    ids=str,
)
def test_every_mode_of_a_connection(connect: Open, mode: dict[str, Any]) -> None:
    connection, other = connect(**mode), connect()
    add(connection, "a", 2)
    with pytest.raises(StaleToken):
        add(connection, "b", 1)
    with pytest.raises(sqlite3.OperationalError), sqlite.fenced(connection, "printer", 3) as cursor:
        cursor.execute("INSERT INTO jobs VALUES ('c')")
        cursor.execute("INSERT INTO nowhere VALUES (1)")
    assert not connection.in_transaction and (newest(other), jobs(other)) == (2, ["a"])


@pytest.mark.parametrize("token", [4, 6])
def test_what_was_open_belongs_to_the_guarded_transaction(connect: Open, token: int) -> None:
    connection, other = connect(), connect()
    add(connection, "a", 5)
    connection.execute("INSERT INTO jobs VALUES ('before')")
    if token < 5:
        with pytest.raises(StaleToken):
            add(connection, "b", token)
    else:
        add(connection, "b", token)
    assert jobs(other) == (["a"] if token < 5 else ["a", "before", "b"])


def test_rows_that_are_mappings(connect: Open) -> None:
    connection = connect()
    connection.row_factory = lambda cursor, row: dict(
        zip([column[0] for column in cursor.description], row, strict=True)
    )
    add(connection, "a", 5)
    with pytest.raises(StaleToken) as refused:
        add(connection, "b", 4)
    assert refused.value.newest == 5


def test_a_transaction_that_is_ended_inside_is_noticed_and_the_rest_undone(connect: Open) -> None:
    connection, other = connect(), connect()
    with pytest.raises(Unguarded), sqlite.fenced(connection, "printer", 1) as cursor:
        cursor.execute("INSERT INTO jobs VALUES ('guarded')")
        connection.commit()
        add(other, "newer", 2)
        cursor.execute("INSERT INTO jobs VALUES ('stale')")
    assert jobs(other) == ["guarded", "newer"]
    with pytest.raises(Unguarded), sqlite.fenced(connection, "printer", 2) as cursor:
        cursor.executescript("INSERT INTO jobs VALUES ('script')")


def test_nobody_comes_between_check_and_write(connect: Open) -> None:
    old, new = connect(), connect(timeout=60)
    entered, done = threading.Event(), []

    def newer() -> None:
        entered.wait(60)
        add(new, "new", 2)
        done.append("new")

    thread = threading.Thread(target=newer)
    thread.start()
    with sqlite.fenced(old, "printer", 1) as cursor:
        entered.set()
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            add(connect(timeout=0), "new", 2)
        cursor.execute("INSERT INTO jobs VALUES ('old')")
        assert done == []
    thread.join(60)
    with pytest.raises(StaleToken):
        add(old, "late", 1)
    assert done == ["new"] and jobs(old) == ["old", "new"]


def test_planted_a_check_in_a_transaction_of_its_own_lets_a_stale_write_in(connect: Open) -> None:
    """What most people would write: look, then write."""
    old, new = connect(), connect()
    known = newest(old)
    assert known is None or known <= 1
    add(new, "new", 2)
    old.execute("INSERT INTO jobs VALUES ('old')")
    old.commit()
    assert jobs(old) == ["new", "old"]  # the very thing that the test above excludes


def test_a_second_block_on_one_connection_is_refused(connect: Open) -> None:
    connection = connect()
    with (
        pytest.raises(RuntimeError, match="the block raises"),
        sqlite.fenced(connection, "printer", 1) as writing,
    ):
        writing.execute("INSERT INTO jobs VALUES ('of a block that raised')")
        with (
            pytest.raises(ValueError, match="another block of the guard is open"),
            sqlite.fenced(connection, "plotter", 1),
        ):
            pass
        raise RuntimeError("the block raises")
    with sqlite.fenced(connection, "plotter", 1) as writing:
        assert writing.execute("SELECT count(*) FROM jobs").fetchone() == (0,)

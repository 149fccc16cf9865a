"""The guard inside PostgreSQL, against a real server: a late transaction waits for the newer one,
and then is refused.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.rows import dict_row
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from habemus.fencing import StaleToken, postgresql, sql
from habemus.fencing.sql import TABLE, Unguarded

PATIENCE = 60.0
Connection: TypeAlias = "psycopg.Connection[Any]"
Open = Callable[..., Connection]


@pytest.fixture
def connect(postgresql_server: str) -> Iterator[Open]:
    made: list[Connection] = []

    def connected(**given: Any) -> Connection:
        made.append(psycopg.connect(postgresql_server, **given))
        return made[-1]

    prepare(connected())
    yield connected
    for each in made:
        each.close()


def prepare(connection: Connection) -> None:
    postgresql.make_table(connection)
    connection.execute("TRUNCATE habemus_fence")
    connection.execute("DROP TABLE IF EXISTS jobs")
    connection.execute("CREATE TABLE jobs (number serial, name text)")
    connection.commit()


def jobs(connection: Connection) -> list[str]:
    found = [name for (name,) in connection.execute("SELECT name FROM jobs ORDER BY number")]
    connection.commit()
    return found


def newest(connection: Connection) -> int | None:
    row = connection.execute("SELECT token FROM habemus_fence WHERE name = 'printer'").fetchone()
    connection.commit()
    return None if row is None else int(row[0])


def add(connection: Connection, job: str, token: int | None) -> None:
    with postgresql.fenced(connection, "printer", token) as cursor:
        cursor.execute("INSERT INTO jobs (name) VALUES (%s)", [job])


class Background:
    """Adds a job while the test goes on."""

    def __init__(self, connection: Connection, job: str, token: int) -> None:
        self.refusal: StaleToken | None = None
        self.pid = connection.info.backend_pid
        self._thread = threading.Thread(target=self._add, args=(connection, job, token))
        self._thread.start()

    def _add(self, connection: Connection, job: str, token: int) -> None:
        try:
            add(connection, job, token)
        except StaleToken as refusal:
            self.refusal = refusal

    def waits(self, observer: Connection) -> None:
        """Returns when it waits for a lock."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            row = observer.execute(
                "SELECT wait_event_type FROM pg_stat_activity WHERE pid = %s", [self.pid]
            ).fetchone()
            observer.commit()
            if row == ("Lock",):
                return
        pytest.fail("it does not wait")

    def ends(self) -> StaleToken | None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return self.refusal


def test_accepted_if_and_only_if_not_smaller_than_the_largest_accepted(connect: Open) -> None:
    """A block that raises has not been accepted, and leaves neither its writes nor its token."""
    connection = connect()

    @settings(max_examples=30)
    @given(
        st.lists(
            st.tuples(st.integers(0, 6) | st.integers(0, 2**63 - 1), st.booleans()), max_size=10
        )
    )
    def check(writes: list[tuple[int, bool]]) -> None:
        connection.execute("TRUNCATE habemus_fence, jobs")
        connection.commit()
        largest: int | None = None
        wanted: list[str] = []
        for number, (token, fails) in enumerate(writes):
            if largest is not None and token < largest:
                with pytest.raises(StaleToken) as refused:
                    add(connection, f"{number}", token)
                assert (refused.value.token, refused.value.newest) == (token, largest)
            elif fails:
                with (
                    pytest.raises(psycopg.errors.UndefinedTable),
                    postgresql.fenced(connection, "printer", token) as cursor,
                ):
                    cursor.execute("INSERT INTO jobs (name) VALUES (%s)", [f"{number}"])
                    cursor.execute("INSERT INTO nowhere VALUES (1)")
            else:
                add(connection, f"{number}", token)
                largest, wanted = token, [*wanted, f"{number}"]
            assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
            assert (newest(connection), jobs(connection)) == (largest, wanted)

    check()


def test_no_token_and_no_autocommit(connect: Open) -> None:
    connection = connect()
    with pytest.raises(ValueError, match="has no fencing tokens"):
        add(connection, "a", None)
    with pytest.raises(ValueError, match="autocommit"):
        add(connect(autocommit=True), "a", 1)
    assert jobs(connection) == []


@pytest.mark.parametrize("with_row", [False, True])
def test_a_newer_one_waits_for_the_write_that_is_under_way(connect: Open, with_row: bool) -> None:
    old, new, observer = connect(), connect(), connect()
    if with_row:
        add(old, "first", 0)
    with postgresql.fenced(old, "printer", 1) as cursor:
        newer = Background(new, "new", 2)
        newer.waits(observer)
        cursor.execute("INSERT INTO jobs (name) VALUES ('old')")
    assert newer.ends() is None
    with pytest.raises(StaleToken):
        add(old, "late", 1)
    assert jobs(observer)[-2:] == ["old", "new"]


def overtaken(connect: Open) -> tuple[StaleToken | None, str]:
    """What becomes of an older write that begins when a newer one is not yet to be seen, and which
    write is the last.
    """
    old, new, observer = connect(), connect(), connect()
    with postgresql.fenced(new, "printer", 2) as cursor:
        older = Background(old, "old", 1)
        older.waits(observer)
        cursor.execute("INSERT INTO jobs (name) VALUES ('new')")
    return older.ends(), jobs(observer)[-1]


@pytest.mark.parametrize("with_row", [False, True])
def test_an_older_one_waits_and_then_is_refused(connect: Open, with_row: bool) -> None:
    if with_row:
        add(connect(), "first", 0)
    refusal, last = overtaken(connect)
    assert refusal is not None and (refusal.token, refusal.newest) == (1, 2)
    assert last == "new"


def test_planted_look_first_and_then_write(connect: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """What most people would write.  It is one transaction, and still the stale write comes
    last.
    """

    def check(cursor: psycopg.Cursor[Any], name: str, token: int, _: sql.Marks) -> None:
        found = cursor.execute("SELECT token FROM habemus_fence WHERE name = %s", [name]).fetchone()
        if found is not None and found[0] > token:
            raise StaleToken(token, found[0])
        upsert = (
            "INSERT INTO habemus_fence VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET token ="
            " excluded.token"
        )
        cursor.execute(upsert, [name, token])

    monkeypatch.setattr(sql, "_check", check)
    assert overtaken(connect) == (None, "old")


def test_a_holder_whose_connection_is_cut_leaves_nothing(connect: Open) -> None:
    old, new = connect(), connect()
    with pytest.raises(psycopg.OperationalError), postgresql.fenced(old, "printer", 1) as cursor:
        cursor.execute("INSERT INTO jobs (name) VALUES ('old')")
        new.execute("SELECT pg_terminate_backend(%s)", [old.info.backend_pid])
        new.commit()
        cursor.execute("INSERT INTO jobs (name) VALUES ('old')")
    assert (newest(new), jobs(new)) == (None, [])


def test_a_transaction_that_is_ended_or_fails_inside_is_noticed(connect: Open) -> None:
    connection, other = connect(), connect()
    with pytest.raises(Unguarded), postgresql.fenced(connection, "printer", 1) as cursor:
        cursor.execute("INSERT INTO jobs (name) VALUES ('guarded')")
        connection.commit()
        add(other, "newer", 2)
        cursor.execute("INSERT INTO jobs (name) VALUES ('stale')")
    with pytest.raises(Unguarded), postgresql.fenced(connection, "printer", 3) as cursor:
        cursor.execute("INSERT INTO jobs (name) VALUES ('lost')")
        with pytest.raises(psycopg.errors.UndefinedTable):
            cursor.execute(
                "INSERT INTO nowhere VALUES (1)"
            )  # PostgreSQL would take the commit for a rollback, and say nothing
    assert (newest(other), jobs(other)) == (2, ["guarded", "newer"])


PAGE = (Path(__file__).parents[3] / "docs" / "fencing.md").read_text(encoding="utf-8")


def _example(parameter: str) -> str:
    """Return the example of the documents that marks parameters in this way."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (example,) = [each for each in blocks if " postgresql.fenced" in each and parameter in each]
    return str(example)


def test_the_example_of_the_documents(connect: Open) -> None:
    (statement,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    connection = connect()
    exec(
        _example("%s"),
        {"postgresql": postgresql, "connection": connection, "lease": SimpleNamespace(token=42)},
    )
    assert (newest(connection), jobs(connection)) == (42, ["report"])
    accepted = {}
    for token in (41, 42, 43):
        cursor = connection.execute(
            statement.replace("$1", "%s").replace("$2", "%s"), ["printer", token]
        )
        accepted[token] = cursor.fetchone()
    assert accepted == {41: None, 42: (42,), 43: (43,)}


def test_rows_that_are_mappings(connect: Open) -> None:
    connection = connect(row_factory=dict_row)
    add(connection, "a", 5)
    with pytest.raises(StaleToken) as refused:
        add(connection, "b", 4)
    assert refused.value.newest == 5


def test_two_may_make_the_table_at_once(connect: Open) -> None:
    one, two, observer = connect(), connect(), connect()
    observer.execute("DROP TABLE habemus_fence")
    observer.commit()
    one.execute("SELECT pg_advisory_xact_lock(%s)", [postgresql.KEY])
    one.execute(TABLE)
    thread = threading.Thread(target=postgresql.make_table, args=(two,))
    thread.start()
    one.commit()
    thread.join(PATIENCE)
    add(two, "a", 1)
    assert jobs(observer) == ["a"]


def test_connections_of_sqlalchemy(connect: Open, postgresql_server: str) -> None:
    observer = connect()
    place = dict(each.split("=") for each in postgresql_server.split())
    engine = create_engine(
        f"postgresql+psycopg://{place['user']}@/{place['dbname']}?host={place['host']}"
    )
    insert = text("INSERT INTO jobs (name) VALUES (:job)")
    with engine.connect() as connection:
        postgresql.make_table(connection)
        with postgresql.fenced(connection, "printer", 2) as writer:
            writer.execute(insert, {"job": "first"})
        with (
            pytest.raises(StaleToken) as refused,
            postgresql.fenced(connection, "printer", 1) as writer,
        ):
            writer.execute(insert, {"job": "late"})
        assert (refused.value.token, refused.value.newest) == (1, 2)
        with pytest.raises(Unguarded), postgresql.fenced(connection, "printer", 2) as writer:
            connection.commit()
            writer.execute(insert, {"job": "unguarded"})
        with pytest.raises(TypeError, match="Session is not a connection"):
            add(Session(connection), "a", 3)  # type: ignore[arg-type]
        exec(
            _example(":name"),
            {
                "postgresql": postgresql,
                "connection": connection,
                "text": text,
                "lease": SimpleNamespace(token=42),
            },
        )
    automatic = engine.execution_options(isolation_level="AUTOCOMMIT")
    with (
        automatic.connect() as connection,
        pytest.raises(ValueError, match="autocommit"),
        postgresql.fenced(connection, "printer", 3),
    ):
        pass
    engine.dispose()
    assert (newest(observer), jobs(observer)) == (42, ["first", "report"])

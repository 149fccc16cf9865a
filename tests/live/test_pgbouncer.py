"""PostgreSQL behind PgBouncer: refused where clients share a session, else as without it.

`make test` runs this with the PgBouncer of this machine, `make test-pgbouncer` with that of Debian
13.
"""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.live.conftest import until
from tests.live.engines import PostgreSQL, Server
from tests.requirements import program
from tests.unit.fencing.conftest import as_another

import habemus
from habemus.client.blocking import Cluster
from habemus.client.engines import pooler

psycopg = pytest.importorskip("psycopg")
ADVICE = "connect to the server itself, or to a pool with pool_mode = session"


class PgBouncer(Server):
    """A PgBouncer before a server."""

    def __init__(self, folder: Path, server: PostgreSQL, mode: str, size: int, more: str) -> None:
        self._server, self._size, self._more = server, size, more
        self._settings = folder / "pgbouncer.ini"
        self._mode = mode
        super().__init__(folder)
        self.url = f"postgresql://habemus@127.0.0.1:{self.port}/postgres"

    def command(self) -> list[str]:
        self.set_mode(self._mode)
        user = [] if os.geteuid() else ["-u", pwd.getpwuid(as_another()[0]).pw_name]
        return [program("PgBouncer", "pgbouncer"), *user, str(self._settings)]

    def set_mode(self, mode: str) -> None:
        self._settings.write_text(
            f"""[databases]
postgres = host=127.0.0.1 port={self._server.port} user=habemus password=correct
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {self._size}
{self._more}
"""
        )
        self._settings.chmod(0o644)

    def refused(self) -> Cluster:
        raise NotImplementedError("everyone may connect")

    def become(self, mode: str) -> None:
        """Change the mode while clients are connected."""
        assert self._process is not None
        self.set_mode(mode)
        log = self.folder / "log"
        seen = log.read_text().count("config")
        self._process.send_signal(signal.SIGHUP)
        until(lambda: log.read_text().count("config") > seen)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSQL]:
    program("PgBouncer", "pgbouncer")
    with tempfile.TemporaryDirectory(prefix="habemus-", ignore_cleanup_errors=True) as folder:
        made = PostgreSQL(Path(folder))
        yield made
        made.stop()


@pytest.fixture
def pool(server: PostgreSQL, request: pytest.FixtureRequest) -> Iterator[PgBouncer]:
    mode, size, *more = request.param
    with tempfile.TemporaryDirectory(prefix="habemus-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        made = PgBouncer(Path(folder), server, mode, size, "\n".join(more))
        yield made
        made.stop()


ROUND_ROBIN = "server_round_robin = 1"
SHARED = [
    ("transaction", 1),
    ("transaction", 20),
    ("transaction", 20, ROUND_ROBIN),
    ("statement", 20),
]


@pytest.mark.parametrize("pool", SHARED, indirect=True)
def test_a_pool_whose_clients_share_a_session_is_refused(
    pool: PgBouncer, server: PostgreSQL
) -> None:
    with psycopg.connect(pool.url) as one, psycopg.connect(pool.url) as two:
        for each in (one, two):  # several sessions, if the pool allows it
            if pool._mode == "statement":
                each.autocommit = True
            if pool._size > 1:
                each.execute("SELECT 1")
    with closing(habemus.connect(pool.url)) as a, closing(habemus.connect(pool.url)) as b:
        for cluster in (a, b, a):
            with pytest.raises(habemus.RefusedByNode, match=ADVICE) as caught:
                cluster.lock("report", timeout=3).acquire()
            assert "\n" not in str(caught.value)
        with pytest.raises(habemus.RefusedByNode, match=ADVICE):
            b.__enter__()
    with habemus.connect(server.url) as direct, direct.lock("report", timeout=0):
        pass


@pytest.mark.parametrize("pool", [("transaction", 1)], indirect=True)
def test_a_command_behind_such_a_pool_says_what_to_do(pool: PgBouncer) -> None:
    words = ["lock", "--cluster", pool.url, "report", "--", "true"]
    done = subprocess.run(
        [sys.executable, "-m", "habemus", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode not in (0, 70)
    [line] = done.stderr.splitlines()
    assert ADVICE in line


@pytest.mark.parametrize("pool", [("session", 20), ("session", 20, ROUND_ROBIN)], indirect=True)
def test_a_pool_in_session_mode_has_the_locks_of_the_server(
    pool: PgBouncer, server: PostgreSQL
) -> None:
    with (
        habemus.connect(pool.url, name="one") as one,
        habemus.connect(pool.url) as two,
        habemus.connect(server.url) as direct,
    ):
        with one.lock("report", timeout=3) as first:
            for cluster in (two, direct):
                with pytest.raises(habemus.LockTimeout):
                    cluster.lock("report", timeout=0).acquire()
        with two.lock("report", timeout=3) as second:
            assert (second.token or 0) > (first.token or 0) > 0
            with pytest.raises(habemus.LockTimeout):
                one.lock("report", timeout=0.01).acquire()
            assert direct.lock("report").locked()


@pytest.mark.parametrize("pool", [("session", 20)], indirect=True)
def test_a_pool_that_changes_its_mode_is_noticed_at_the_next_grant(
    pool: PgBouncer, server: PostgreSQL
) -> None:
    with habemus.connect(pool.url) as cluster, psycopg.connect(pool.url) as other:
        with cluster.lock("report", timeout=3):
            pool.become("transaction")
        other.execute("SELECT 1")  # in a transaction, in the session that the cluster had
        with pytest.raises(habemus.RefusedByNode, match=ADVICE):
            cluster.lock("report", timeout=3).acquire()
        with habemus.connect(server.url) as direct, direct.lock("report", timeout=0):
            pass


@pytest.mark.parametrize("pool", [("transaction", 20)], indirect=True)
def test_a_session_that_another_client_has_taken_is_found_out(
    pool: PgBouncer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pooler, "RESET_SECONDS", 0.1)
    with psycopg.connect(pool.url, autocommit=True) as first:
        mark = pooler.SessionMark(first, pooler.backend_of(first))
    with psycopg.connect(pool.url) as other, psycopg.connect(pool.url, autocommit=True) as second:
        assert pooler.backend_of(other) == mark.backend  # in a transaction that goes on
        assert pooler.backend_of(second) != mark.backend
        with pytest.raises(pooler.SharedSession):
            mark.await_end(second)

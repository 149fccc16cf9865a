"""The lines of a program that knows only redis-py: with redis-py itself, and with habemus."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.live.conftest import PATIENCE, until
from tests.live.engines import Redis as RedisServer
from tests.live.nodes import DEFAULT, Nodes

import habemus
import habemus.redis as redis

PAGE = Path(__file__).parents[2] / "docs" / "from-redis-py.md"
SAID = "owned True locked True\ninside\nnot held\n"


def program() -> str:
    """Return the program of the page."""
    found = re.search(r"^```python\n(import sys\n.*?)^```", PAGE.read_text(), re.S | re.M)
    assert found is not None
    return found[1]


def output(code: str, url: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, url], capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(f"local://{tmp_path_factory.mktemp('redis')}/locks") as made:
        yield made


def test_the_program_runs_with_redis_py_and_after_two_changes(tmp_path: Path) -> None:
    code = program()
    theirs = code.replace("import habemus.redis as redis", "import redis")
    assert theirs != code
    server = RedisServer(tmp_path)
    try:
        assert output(theirs, server.url) == SAID
        assert output(code, server.url) == SAID
    finally:
        server.stop()
    assert output(code, f"local://{tmp_path}/locks") == SAID


def test_the_program_runs_on_a_cluster(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, DEFAULT, size=1)
    try:
        with habemus.connect(str(nodes.file)) as cluster, cluster.lock("ready", timeout=PATIENCE):
            pass  # there is a leader: a request that does not wait is granted
        assert output(program(), str(nodes.file)) == SAID
    finally:
        nodes.close()


def test_a_lock_expires_unless_it_is_extended(client: redis.Redis) -> None:
    kept, other = client.lock("expiring", timeout=0.3), client.lock("expiring")
    assert kept.acquire() and kept.token is not None
    assert kept.extend(1_000) and kept.owned()
    assert not other.acquire(blocking=False) and not other.owned()
    kept.extend(0.2, replace_ttl=True)
    assert other.acquire(blocking_timeout=PATIENCE)
    assert not kept.owned()
    for call in (kept.reacquire, lambda: kept.extend(1), kept.release):
        with pytest.raises(redis.LockNotOwnedError):
            call()
    other.release()
    with pytest.raises(redis.LockError, match="has not acquired it"):
        kept.release()


def test_threads(client: redis.Redis) -> None:
    own, shared = client.lock("own"), client.lock("shared", thread_local=False)
    assert own.acquire() and shared.acquire()
    told: list[bool] = []

    def other() -> None:
        told.extend((own.owned(), shared.owned()))
        shared.release()

    thread = threading.Thread(target=other)
    thread.start()
    thread.join(PATIENCE)
    assert told == [False, True]
    assert not shared.locked() and own.locked()
    own.release()
    until(lambda: not own.locked())


def test_with_raises_if_the_lock_is_not_free(client: redis.Redis) -> None:
    with client.lock("busy"):
        lock = client.lock("busy", blocking_timeout=0.1)
        with pytest.raises(redis.LockError, match="within the time"), lock:
            pass

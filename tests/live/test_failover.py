"""A failover of Redis loses a lock: two clients hold it, and only their tokens tell them apart."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis
from tests.live.conftest import PATIENCE, until
from tests.live.engines import Redis

import habemus


def test_a_lock_that_was_not_replicated_is_granted_twice(tmp_path: Path) -> None:
    folders = [tmp_path / "primary", tmp_path / "replica"]
    for folder in folders:
        folder.mkdir()
    primary, replica = map(Redis, folders)
    try:
        operator: redis.Redis = redis.Redis(port=replica.port, password="correct")
        operator.config_set("masterauth", "correct")
        operator.execute_command("REPLICAOF", "127.0.0.1", primary.port)
        with habemus.connect(primary.url, name="one") as first:
            with first.lock("report") as replicated:
                pass
            until(lambda: operator.get("habemus:{locks/report}:token") is not None)
            operator.execute_command("REPLICAOF", "NO", "ONE")  # the promotion, a moment early
            with pytest.raises(habemus.LockLost), first.lock("report", lease=3) as lost:
                primary.stop()
                with (
                    habemus.connect(replica.url, name="two") as second,
                    second.lock("report", timeout=PATIENCE) as lease,
                ):
                    assert lost.held and lease.held, "two clients hold the lock"
                    assert replicated.token is not None and lost.token is not None
                    assert lease.token is not None
                    assert replicated.token < lost.token < lease.token
                until(lambda: lost.lost)
    finally:
        for server in (primary, replica):
            server.stop()

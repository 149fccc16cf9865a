"""Sessions of ZooKeeper: pauses between attempts to connect, and reasons of failures."""

from __future__ import annotations

import pytest
from kazoo.retry import ForceRetryError
from tests.ports import reserved_ports

import habemus
from habemus.client.engines.zookeeper import ZooKeeperSession


def test_the_pauses_between_attempts_to_connect_stay_short() -> None:
    """Those of kazoo grow to a minute."""
    session = ZooKeeperSession("ZooKeeper", 10_000, None, hosts="127.0.0.1:1")
    retry = session.client._connection.retry_sleeper.copy()
    slept: list[float] = []
    retry.sleep_func = slept.append
    attempts = iter(range(100))
    pauses: list[float] = []

    def attempt() -> None:
        pauses.append(sum(slept))
        slept.clear()
        if next(attempts) < 30:
            raise ForceRetryError

    retry.interrupt = lambda: False
    retry(attempt)
    assert len(pauses) == 31
    assert max(pauses) < 1
    assert min(pauses[1:]) > 0


def test_servers_that_refuse_connections_are_unreachable_at_once() -> None:
    first, second = reserved_ports(2)
    url = f"zookeeper://127.0.0.1:{first},127.0.0.1:{second}"
    with pytest.raises(habemus.Unreachable, match=f"{first},.*: .*Connection refused"):
        habemus.connect(url).lock("x").acquire()

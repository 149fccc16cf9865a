"""Connections to Redis, without a server."""

from __future__ import annotations

import pytest
from tests.ports import reserved_ports

from habemus.client.credentials import Credentials
from habemus.client.engines.engine import Wait
from habemus.client.engines.redis import RedisEngine
from habemus.client.errors import Unreachable


def test_a_server_that_is_down_for_long_does_not_use_up_the_connections() -> None:
    engine = RedisEngine(f"redis://127.0.0.1:{reserved_ports(1)[0]}/0", Credentials())
    for _ in range(150):
        with pytest.raises(Unreachable, match="refused"):
            engine.acquire("locks/x", "me", None, Wait(0.0))

"""Plans for the torture of engines."""

from __future__ import annotations

import os
import socket
from typing import Any

import pytest

from habemus.torture.engines import ENGINES, engine_plan
from habemus.torture.links import owner_of
from habemus.torture.plan import BadPlan, Plan


def plan(engine: str, **given: Any) -> Plan:
    common: dict[str, Any] = {"nodes": None, "clients": 4, "seconds": 1.0, "seed": 0}
    return engine_plan(engine, **{**common, **given})


def test_every_engine_has_faults_and_tokens() -> None:
    for engine in ENGINES:
        made = plan(engine)
        assert made.engine == engine
        assert "kill-client" in made.kinds
        assert made.claim.has_tokens


def test_locks_of_the_kernel_never_expire_and_have_no_server() -> None:
    made = plan("local", faults=["kill", "pause", "cut"])
    assert made.kinds == ("kill-client", "pause-client")
    assert made.claim.excludes and not made.lease_s


def test_links_between_servers_are_cut_if_there_are_several() -> None:
    assert plan("etcd", faults=["cut"]).kinds == ("cut-client",)
    assert plan("etcd", nodes=3, faults=["cut"]).kinds == ("cut", "cut-client")


def test_a_failover_excuses_two_holders() -> None:
    assert "kill-node" in plan("redis", nodes=2).claim.excuses


def test_the_owner_of_a_connection_is_found() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as connection,
    ):
        port = connection.getsockname()[1]
        assert owner_of(port, {1: os.getppid(), 2: os.getpid()}) == 2
        assert owner_of(port, {1: os.getppid()}) is None


def test_only_a_server_that_forgets_excuses_two_holders() -> None:
    assert "kill-node" in plan("redis-volatile").claim.excuses
    assert "kill-node" not in plan("redis").claim.excuses


@pytest.mark.parametrize(
    ("engine", "given", "why"),
    [
        ("oracle", {}, "unknown engine"),
        ("redis", {"nodes": 3}, "runs with 1 or 2 nodes"),
        ("etcd", {"nodes": 2}, "runs with 1 or 3 nodes"),
        ("local", {"faults": ["cut"]}, "can be hit by"),
        ("redis", {"faults": ["flood"]}, "unknown fault"),
    ],
)
def test_bad_plans(engine: str, given: dict[str, Any], why: str) -> None:
    with pytest.raises(BadPlan, match=why):
        plan(engine, **given)

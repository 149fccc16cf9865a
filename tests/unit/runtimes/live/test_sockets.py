"""How many descriptors the connections of a node may use."""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from collections.abc import Iterator

import pytest

from habemus.runtimes.live import sockets
from habemus.runtimes.live.clients import connections
from habemus.runtimes.live.log_limits import RateLimitedLog
from habemus.runtimes.live.monitoring import http_server
from habemus.runtimes.live.peers import unauthenticated
from habemus.runtimes.live.peers.unauthenticated import UnauthenticatedConnections
from habemus.runtimes.live.sockets import raise_descriptor_limit, share_of_descriptors


@pytest.fixture
def few_descriptors() -> Iterator[int]:
    """Let this process have at most 160 descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (160, hard))
    yield 160
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_clients_and_strangers_leave_descriptors_for_peers_and_files(few_descriptors: int) -> None:
    shares = [each.DESCRIPTORS_SHARE for each in (unauthenticated, connections, http_server)]
    assert [share_of_descriptors(share) for share in shares] == [40, 80, 10]
    assert sum(map(share_of_descriptors, shares)) < few_descriptors * 5 / 6


def test_there_are_no_more_unauthenticated_connections_than_their_share(
    request: pytest.FixtureRequest,
) -> None:
    loop = asyncio.new_event_loop()  # before: this process may have many descriptors
    few_descriptors: int = request.getfixturevalue("few_descriptors")

    class Connection:
        is_open = True

        def abort(self) -> None:
            self.is_open = False

    async def run() -> None:
        counts = Counter[str]()
        made = UnauthenticatedConnections(counts, RateLimitedLog(asyncio.get_running_loop()))
        opened = [Connection() for _ in range(few_descriptors)]
        for each in opened:
            made.add(each)
        assert [each.is_open for each in opened] == [False] * 120 + [True] * 40
        assert counts["turned away"] == 120

    loop.run_until_complete(run())
    loop.close()


def test_a_node_may_have_the_descriptors_that_it_needs(
    few_descriptors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "ENOUGH_DESCRIPTORS", few_descriptors - 60)
    raise_descriptor_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == few_descriptors  # never fewer
    monkeypatch.setattr(sockets, "ENOUGH_DESCRIPTORS", few_descriptors + 40)
    raise_descriptor_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == few_descriptors + 40

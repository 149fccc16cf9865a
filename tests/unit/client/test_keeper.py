"""One thread renews the leases of all clients of a process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.backends import session_of
from tests.unit.client.conftest import PATIENCE, FakeNode, grants, line

import habemus

CLIENTS = 20


class BeatenNode:
    """Grants everything and counts the sessions that send heartbeats."""

    def __init__(self) -> None:
        self.connections = 0
        self.beats = threading.Semaphore(0)

    def answer(self, said: list[Any]) -> bytes:
        if said[0] == "hello":
            self.connections += 1
        if said[0] == "alive":
            self.beats.release()
            return line("alive", said[1], [[1, None]])
        return grants(said)


def keepers() -> int:
    return sum(each.name == "habemus-keeper" for each in threading.enumerate())


def test_many_clients_have_one_thread(fake_node: Callable[..., FakeNode]) -> None:
    node = BeatenNode()
    place = fake_node(node.answer).place

    async def main() -> None:
        async with AsyncExitStack() as stack:
            for number in range(CLIENTS):
                cluster = await stack.enter_async_context(habemus.connect(place))
                lease = await stack.enter_async_context(cluster.lock(f"lock-{number}"))
                lease._session.hurry()
            blocking = stack.enter_context(habemus.connect(place))
            stack.enter_context(blocking.lock("blocking"))._session.hurry()
            for _ in range(CLIENTS + 1):  # while the event loop is blocked
                assert node.beats.acquire(timeout=PATIENCE)
            assert keepers() == 1

    asyncio.run(main())


def test_a_client_that_holds_locks_for_a_moment_has_one_connection(
    fake_node: Callable[..., FakeNode],
) -> None:
    node = BeatenNode()
    place = fake_node(node.answer).place

    async def main() -> None:
        async with habemus.connect(place) as cluster:
            for _ in range(CLIENTS):
                async with cluster.lock("x"):
                    pass

    asyncio.run(main())
    assert node.connections == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork(2)")
def test_a_child_of_fork_renews_its_own_leases(fake_node: Callable[..., FakeNode]) -> None:
    node = BeatenNode()
    place = fake_node(node.answer).place

    def renew() -> None:
        with habemus.connect(place) as cluster, cluster.lock("x") as lease:
            session = session_of(lease)
            session.hurry()
            end = time.monotonic() + PATIENCE
            granted_us = session.heard_us
            while session.heard_us == granted_us:
                assert time.monotonic() < end
                time.sleep(0.01)

    renew()
    child = os.fork()
    if child == 0:
        try:
            renew()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    renew()  # the child has left the keeper of its parent alone


FORKS_EARLY = """
import os, sys, time
import habemus

def renew(name):
    session = habemus.connect(sys.argv[1]).lock(name).acquire()._session
    session.hurry()
    return session

assert "asyncio" not in sys.modules
renew("x")
while "asyncio" not in sys.modules:
    time.sleep(0.0001)
child = os.fork()
if child == 0:
    session = renew("y")
    end = time.monotonic() + float(sys.argv[2])
    while session.keeping is None and time.monotonic() < end:
        time.sleep(0.01)
    os._exit(session.keeping is None)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork(2)")
def test_a_child_renews_its_leases_if_the_keeper_was_about_to_begin_at_the_fork(
    fake_node: Callable[..., FakeNode],
) -> None:
    place = fake_node(BeatenNode().answer).place
    command = [sys.executable, "-c", FORKS_EARLY, place, str(PATIENCE / 2)]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0

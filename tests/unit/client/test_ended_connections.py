"""Whichever way the system says that a connection has ended, callers get `ConnectionClosed`."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest
from tests.backends import nodes_of, session_of
from tests.unit.client.conftest import PATIENCE, FakeNode, grants, line

import habemus
from habemus.client.connection import ConnectionClosed

Start = Callable[..., FakeNode]


@pytest.fixture
def resetting(fake_node: Start) -> FakeNode:
    """A node that resets a connection on which a heartbeat arrives."""

    def answer(said: list[Any]) -> bytes:
        if said[0] != "alive":
            return grants(said)
        at_once = struct.pack("ii", 1, 0)
        node._connections[-1].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        raise ConnectionAbortedError

    node = fake_node(answer)
    return node


def test_a_connection_that_the_node_resets(resetting: FakeNode) -> None:
    with habemus.connect(resetting.place) as cluster:
        connection = nodes_of(cluster).connected().connection()
        connection.say("alive", 0)
        with pytest.raises(ConnectionClosed, match=f"{resetting.place}: Connection reset by peer"):
            connection.hear(PATIENCE)
        with pytest.raises(ConnectionClosed, match="Broken pipe"):
            connection.say("alive", 0)
        with pytest.raises(ConnectionClosed, match="Broken pipe"):
            connection.ask(line("alive", 0), 0)
        connection.close()


def test_a_holder_learns_why_its_lock_is_lost(resetting: FakeNode) -> None:
    with habemus.connect(resetting.place) as cluster, pytest.raises(habemus.LockLost) as raised:
        lease = cluster.lock("x", timeout=PATIENCE).acquire()
        connection = session_of(lease)._connections[lease._id]
        connection.say("alive", 0)
        while True:
            lease.check()
    why = f"the connection to {resetting.place}: Connection reset by peer"
    assert str(raised.value) == f"lock 'x' is not held any more: {why}"


def test_a_node_that_is_lost_is_not_a_node_that_is_silent(
    fake_node: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system ends a connection without signs of life by the class of error of a timeout."""

    def lost(_: socket.socket, size: int) -> bytes:
        raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")

    node = fake_node(lambda said: line("alive", 0, []) if said[0] == "alive" else grants(said))
    with habemus.connect(node.place) as cluster:
        lease = cluster.lock("x", timeout=PATIENCE).acquire()
        connection = session_of(lease)._connections[lease._id]
        connection.say("alive", 0)
        while not connection.has_news():
            pass
        monkeypatch.setattr(socket.socket, "recv", lost, raising=False)
        with pytest.raises(habemus.LockLost, match="Connection timed out"):
            lease.check()

"""The descriptor of a connection stays open while a thread uses it, whoever ends the session.

OpenSSL keeps the number of the descriptor.  If another thread closed it, the next file that the
process opens would get that number, and TLS would be read from it and written into it.
"""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.backends import nodes_of, session_of
from tests.unit.client.conftest import PATIENCE, FakeNode, grants

import habemus
from habemus.client.connection import ConnectionClosed, NodeConnection
from habemus.client.session import NodeSession

Use = Callable[[], object]


class Inside:
    """A thread that uses a connection, and is inside OpenSSL until the test lets it go on."""

    def __init__(
        self, connection: NodeConnection, use: Use, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.entered = threading.Event()
        self.go_on = threading.Event()
        self.raised: BaseException | None = None
        self._receive = connection._socket.recv
        monkeypatch.setattr(connection._socket, "recv", self._receive_later)
        self._use = use
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        assert self.entered.wait(PATIENCE)

    def _receive_later(self, size: int) -> bytes:
        self.entered.set()
        assert self.go_on.wait(PATIENCE)
        return self._receive(size)

    def _run(self) -> None:
        try:
            self._use()
        except Exception as reason:
            self.raised = reason

    def leave(self) -> None:
        self.go_on.set()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


@pytest.fixture
def session(
    fake_node: Callable[..., FakeNode], stolen: ssl.SSLContext, alice: dict[str, Any]
) -> NodeSession:
    place = fake_node(grants, tls=stolen).place
    return nodes_of(habemus.connect(place, **alice)).connected()


def by_closing(session: NodeSession, lease: habemus.Lease) -> None:
    session.close()


def by_losing(session: NodeSession, lease: habemus.Lease) -> None:
    lease._lose("released by an operator")


@pytest.mark.parametrize("end", [by_closing, by_losing])
def test_a_holder_that_looks_at_its_lock_keeps_the_descriptor(
    fake_node: Callable[..., FakeNode],
    stolen: ssl.SSLContext,
    alice: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[NodeSession, habemus.Lease], None],
) -> None:
    cluster = habemus.connect(fake_node(grants, tls=stolen).place, **alice)
    lease = cluster.lock("x", timeout=PATIENCE).acquire()
    connection = session_of(lease)._connections[lease._id]
    descriptor = connection.fileno()
    inside = Inside(connection, lease.check, monkeypatch)
    end(session_of(lease), lease)
    assert is_open(descriptor)
    inside.leave()
    assert isinstance(inside.raised, habemus.LockLost)
    assert connection.fileno() == -1
    cluster.close()


def test_a_connection_that_nobody_uses_is_closed_at_once(session: NodeSession) -> None:
    (connection,) = session._idle
    session.close()
    assert connection.fileno() == -1
    with pytest.raises(ConnectionClosed, match="is closed"):
        connection.say("alive", 0)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_connection_that_is_closed_while_a_thread_enters_it_is_not_used(
    session: NodeSession, is_first: bool
) -> None:
    """By another thread or by a signal handler, just before or just after the thread is counted."""
    (connection,) = session._idle

    class Entering(list[None]):
        def append(self, each: None) -> None:
            if is_first:
                connection.close()
            super().append(each)
            connection.close()

    connection._inside = Entering()
    with pytest.raises(ConnectionClosed, match="is closed"):
        connection.say("alive", 0)
    assert connection.fileno() == -1
    assert not connection._inside


def test_what_is_put_back_after_the_end_is_closed(session: NodeSession) -> None:
    connection = session.connection()
    session.close()
    session.put_back(connection)
    assert connection.fileno() == -1


def test_a_request_that_comes_after_the_end_does_not_wait(session: NodeSession) -> None:
    connection = session.connection()
    session.close()
    with pytest.raises(ConnectionClosed, match="closed its connection"):
        session.begin_waiting(1, connection)
    connection.close()


def test_a_connection_is_not_handed_on_while_a_thread_listens_to_it(
    fake_node: Callable[..., FakeNode],
    stolen: ssl.SSLContext,
    alice: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else who looks at a lock that another thread releases would read what the next one is
    granted.
    """
    cluster = habemus.connect(fake_node(grants, tls=stolen).place, **alice)
    lease = cluster.lock("x", timeout=PATIENCE).acquire()
    connection = session_of(lease)._connections[lease._id]
    inside = Inside(connection, lease.check, monkeypatch)
    assert connection.in_use.locked()  # which a release waits for
    inside.leave()
    with connection.in_use:
        releasing = threading.Thread(target=cluster._release, args=(lease,))
        releasing.start()
        assert not session_of(lease)._idle
    releasing.join(PATIENCE)
    assert session_of(lease)._idle == [connection]
    cluster.close()


def test_the_network_can_be_used_where_the_system_has_no_poll(
    fake_node: Callable[..., FakeNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("select.poll")
    with (
        habemus.connect(fake_node(grants).place) as cluster,
        cluster.lock("x", timeout=PATIENCE) as lease,
    ):
        lease.check()
        assert session_of(lease)._connections[lease._id]._arrival is None

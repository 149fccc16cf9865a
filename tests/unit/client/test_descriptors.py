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
from tests.unit.client.conftest import PATIENCE, FakeNode, grants

import habemus
from habemus.client.connection import Closed, Wire
from habemus.client.session import Session

Use = Callable[[], object]


class Inside:
    """A thread that uses a connection, and is inside OpenSSL until the test lets it go on."""

    def __init__(self, wire: Wire, use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered = threading.Event()
        self.go_on = threading.Event()
        self.raised: BaseException | None = None
        self._receive = wire._socket.recv
        monkeypatch.setattr(wire._socket, "recv", self._receive_later)
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
) -> Session:
    place = fake_node(grants, tls=stolen).place
    return habemus.connect(place, **alice).session()


def by_closing(session: Session, lease: habemus.Lease) -> None:
    session.close()


def by_losing(session: Session, lease: habemus.Lease) -> None:
    lease.lose("an operator has released it")


@pytest.mark.parametrize("end", [by_closing, by_losing])
def test_a_holder_that_looks_at_its_lock_keeps_the_descriptor(
    fake_node: Callable[..., FakeNode],
    stolen: ssl.SSLContext,
    alice: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[Session, habemus.Lease], None],
) -> None:
    cluster = habemus.connect(fake_node(grants, tls=stolen).place, **alice)
    lease = cluster.lock("x", timeout=PATIENCE).acquire()
    wire = lease.session._wires[lease.id]
    descriptor = wire.fileno()
    inside = Inside(wire, lease.check, monkeypatch)
    end(lease.session, lease)
    assert is_open(descriptor)
    inside.leave()
    assert isinstance(inside.raised, habemus.LockLost)
    assert wire.fileno() == -1
    cluster.close()


def test_the_keeper_keeps_its_descriptor(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = session._connect_keeper()
    descriptor = wire.fileno()
    inside = Inside(wire, wire.hear, monkeypatch)
    session.close()
    assert is_open(descriptor)
    inside.leave()
    assert isinstance(inside.raised, Closed)
    assert wire.fileno() == -1


def test_a_connection_that_nobody_uses_is_closed_at_once(session: Session) -> None:
    (wire,) = session._idle
    session.close()
    assert wire.fileno() == -1
    with pytest.raises(Closed, match="is closed"):
        wire.say("alive", 0)


def test_what_is_put_back_after_the_end_is_closed(session: Session) -> None:
    wire = session.wire()
    session.close()
    session.put_back(wire)
    assert wire.fileno() == -1


def test_a_request_that_comes_after_the_end_does_not_wait(session: Session) -> None:
    wire = session.wire()
    session.close()
    with pytest.raises(Closed, match="closed its connection"):
        session.begin_waiting(1, None, wire)
    wire.close()


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
    wire = lease.session._wires[lease.id]
    inside = Inside(wire, lease.check, monkeypatch)
    assert wire.in_use.locked()  # which a release waits for
    inside.leave()
    with wire.in_use:
        releasing = threading.Thread(target=cluster.release, args=(lease,))
        releasing.start()
        assert not lease.session._idle
    releasing.join(PATIENCE)
    assert lease.session._idle == [wire]
    cluster.close()

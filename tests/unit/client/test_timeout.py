"""A request that timed out names the holder of the lock, if the node knows it."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.client.conftest import PATIENCE, Answer, FakeNode, grants, line

import habemus
from habemus.client import async_node_backend, node_backend
from habemus.client.connection import NodeConnection
from habemus.client.protocol import AcquireRequest, LeadRequest, SemaphoreRequest
from habemus.supervise import locked_command
from habemus.supervise.local_connection import nearest
from habemus.supervise.locked_command import TIMEOUT, CommandExit, LockRequest, acquired

Start = Callable[..., FakeNode]
HELD = {"service": "locks", "name": "report", "holder": "host/4711", "node": 2, "token": 7}
FREE = {**HELD, "holder": None, "node": None, "token": None}


def busy(*news: object) -> Answer:
    """Answer as a node at which every request times out at once, and which then knows this."""

    def answer(heard: list[Any]) -> bytes:
        if heard[0] == "request":
            return line("refused", heard[1], "timeout", "")
        if heard[0] == "watch":
            assert heard[2:] == ["locks", "report"]
            return line(news[0], heard[1], *news[1:]) if news else b""
        return grants(heard) if heard[0] == "hello" else b""

    return answer


@pytest.fixture(autouse=True)
def patient(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait long for an answer that comes, on a machine that may stall, and not for one that does
    not.
    """
    answers = "silent" not in request.node.name
    for module in (node_backend, async_node_backend, locked_command):
        monkeypatch.setattr(module, "HOLDER_US", PATIENCE * 1_000_000 if answers else 10_000)


KNOWN = pytest.mark.parametrize(
    ("news", "held"),
    [
        (("news", HELD), " (held by host/4711 at node 2)"),
        (("news", FREE), ""),
        (("refused", "full", "this client watches too much"), ""),
        ((), ""),
    ],
    ids=["held", "free again", "refused", "silent"],
)


@KNOWN
def test_the_blocking_client(fake_node: Start, news: tuple[object, ...], held: str) -> None:
    with habemus.connect(fake_node(busy(*news)).place) as cluster:
        for _ in range(2):  # the connection serves again
            with pytest.raises(habemus.LockTimeout) as timeout:
                cluster.lock("report", timeout=5).acquire()
            assert str(timeout.value) == f"timed out after 5 s waiting for lock 'report'{held}"


def test_a_timeout_of_a_request_without_one_is_refused(fake_node: Start) -> None:
    place = fake_node(busy("news", HELD)).place
    with habemus.connect(place) as cluster, pytest.raises(habemus.RefusedByNode):
        cluster.lock("report").acquire()

    async def acquire() -> None:
        async with habemus.connect(place) as cluster:
            with pytest.raises(habemus.RefusedByNode, match="has no timeout"):
                await cluster.lock("report").acquire()

    asyncio.run(acquire())


@KNOWN
def test_the_asynchronous_client(fake_node: Start, news: tuple[object, ...], held: str) -> None:
    async def try_twice() -> None:
        async with habemus.connect(fake_node(busy(*news)).place) as cluster:
            for _ in range(2):
                with pytest.raises(habemus.LockTimeout) as timeout:
                    await cluster.lock("report", timeout=5).acquire()
                assert str(timeout.value) == f"timed out after 5 s waiting for lock 'report'{held}"

    asyncio.run(try_twice())


@KNOWN
def test_the_command(fake_node: Start, tmp_path: Any, news: tuple[object, ...], held: str) -> None:
    node = fake_node(busy(*news), place=str(tmp_path / "node-1.sock"))
    connection = nearest(node.place)
    assert connection is not None
    with pytest.raises(CommandExit) as exit:
        acquired(LockRequest("report", ["true"], timeout=5), lambda _: connection)
    connection.close()
    assert exit.value.code == TIMEOUT
    assert str(exit.value) == f"timed out after 5 s waiting for lock 'report'{held}"


def test_an_attempt_that_does_not_wait_asks_for_no_holder(fake_node: Start) -> None:
    heard = []

    def answer(said: list[Any]) -> bytes:
        heard.append(said[0])
        return busy("news", HELD)(said)

    with habemus.connect(fake_node(answer).place) as cluster:
        assert cluster.try_lock("report") is None
        assert cluster.try_lock("report") is None
    assert "request" in heard and "watch" not in heard


@pytest.mark.parametrize(
    ("request_", "shown"),
    [
        (AcquireRequest("locks", "report"), "lock 'report'"),
        (LeadRequest("locks", "report"), "election 'report'"),
        (SemaphoreRequest("locks", "a/b", 2), "semaphore 'a/b'"),
    ],
)
def test_what_was_waited_for(request_: AcquireRequest, shown: str) -> None:
    assert request_.timed_out(0.25) == f"timed out after 0.25 s waiting for {shown}"
    news = ["news", 1, {"holder": "host/7", "node": 2}]
    held = "(held by host/7 at node 2)"
    assert request_.timed_out(1, news) == f"timed out after 1 s waiting for {shown} {held}"
    assert request_.timed_out(0, news) == f"{shown} is not free {held}"
    assert request_.timed_out(0) == f"timed out after 0 s waiting for {shown}"  # none answers


@pytest.mark.parametrize("timeout", [None, PATIENCE], ids=["for ever", "with a timeout"])
def test_a_machine_that_stops_answering_is_not_a_timeout_of_the_request(
    fake_node: Start, monkeypatch: pytest.MonkeyPatch, timeout: float | None
) -> None:
    """The system ends a connection without signs of life by the same class of error."""
    hear = NodeConnection._next_line

    def vanish(self: NodeConnection, timeout: float | None) -> list[Any]:
        monkeypatch.setattr(NodeConnection, "_next_line", hear)
        raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")

    with habemus.connect(fake_node(grants).place) as cluster:
        with cluster.lock("report"):  # so that the client is connected
            pass
        monkeypatch.setattr(NodeConnection, "_next_line", vanish)
        assert cluster.lock("report", timeout).acquire().token == 7

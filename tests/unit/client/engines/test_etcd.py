"""The gateway of etcd: answers in pieces, in chunks, and of something else."""

from __future__ import annotations

import socket
from http.client import HTTPConnection
from unittest.mock import Mock

import pytest

from habemus.client.credentials import Credentials
from habemus.client.engines.engine import Wait, WaitOver
from habemus.client.engines.etcd import ANSWER_LIMIT, EtcdEngine, GatewayConnection
from habemus.client.errors import Unreachable

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def answer(*pieces: bytes) -> tuple[int, bytes, GatewayConnection]:
    sock = Mock(spec=socket.socket)
    sock.recv.side_effect = [*pieces, b""]
    made = GatewayConnection(Mock(spec=HTTPConnection, sock=sock, host="h", port=1))
    return *made.answer(), made


def test_an_answer_in_pieces_of_one_byte() -> None:
    whole = HEAD + b"Content-Length: 2\r\n\r\n{}"
    assert answer(*(bytes([each]) for each in whole))[:2] == (200, b"{}")


def test_an_answer_in_chunks_and_the_next_one() -> None:
    chunks = b"3;x=y\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    whole = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
    after = b"HTTP/1.1 400 Bad\r\ncontent-length: 1\r\n\r\n!"
    status, content, made = answer(whole[:70], whole[70:] + after)
    assert (status, content) == (200, b"abcde")
    assert made.answer() == (400, b"!")


@pytest.mark.parametrize(
    "what",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        HEAD + b"Content-Length: %d\r\n\r\n" % (ANSWER_LIMIT + 1),
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffff\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"x" * 200_000,
    ],
)
def test_something_else_is_refused(what: bytes) -> None:
    with pytest.raises((ValueError, KeyError)):
        answer(what)


def test_a_connection_that_ends_in_an_answer() -> None:
    with pytest.raises(ConnectionError):
        answer(HEAD + b"Content-Length: 9\r\n\r\nabc")


@pytest.mark.parametrize(
    ("timeout", "end"), [(None, Unreachable), (5.0, Unreachable), (0, WaitOver)]
)
def test_a_request_that_arrived_twice_is_made_again(
    timeout: float | None, end: type[Exception]
) -> None:
    """A client that may wait was told that its time is over, because its own key was there."""
    engine = EtcdEngine("etcd://h:1", Credentials())
    called: list[str] = []

    def call(path: str, body: object) -> dict[str, object]:
        called.append(path)
        return {"ID": "7", "TTL": "10"} if path == "lease/grant" else {"succeeded": False}

    engine._gateway.call = call  # type: ignore[method-assign]
    with pytest.raises(end):
        engine.acquire("locks/x", "me", None, Wait(timeout))
    assert called == ["lease/grant", "kv/txn", "kv/deleterange"]

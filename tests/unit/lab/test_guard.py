"""Requests of other origins never reach the application."""

import asyncio
from typing import Any

import pytest

from habemus.lab.guard import HEADERS, OriginGuard, is_token, new_token

PORT = 7490
HOST, ORIGIN = "127.0.0.1:7490", "http://127.0.0.1:7490"


async def _application(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"inside"})


def sent(kind: str, *headers: tuple[str, str]) -> list[dict[str, Any]]:
    """Return what the guard and the application send as an answer."""
    scope = {
        "type": kind,
        "headers": [(name.encode(), value.encode()) for name, value in headers],
    }
    answers: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        answers.append(message)

    async def receive() -> Any:
        raise AssertionError("nothing is read before a request is allowed")

    asyncio.run(OriginGuard(_application, PORT)(scope, receive, send))
    return answers


@pytest.mark.parametrize("host", [HOST, "localhost:7490", "LOCALHOST:7490"])
def test_the_page_itself_is_served(host: str) -> None:
    answers = sent("http", ("host", host))
    assert answers[0]["status"] == 200
    assert answers[1]["body"] == b"inside"


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("host", "127.0.0.1"),),
        (("host", "127.0.0.1:7491"),),
        (("host", "rebound.example:7490"),),
        (("host", "localhost:7490.example"),),
        (("host", HOST), ("host", "rebound.example:7490")),
        (("host", HOST), ("origin", "http://evil.example")),
        (("host", HOST), ("origin", "null")),
        (("host", HOST), ("origin", "http://127.0.0.1:8000")),
        (("host", HOST), ("origin", "https://127.0.0.1:7490")),
    ],
)
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_another_host_or_origin_is_refused(kind: str, headers: tuple[tuple[str, str], ...]) -> None:
    answers = sent(kind, *headers)
    if kind == "http":
        assert answers[0]["status"] == 403
        assert b"inside" not in answers[1]["body"]
    else:  # closed before it is accepted
        assert answers == [{"type": "websocket.close", "code": 1008}]


def test_a_websocket_needs_an_origin() -> None:
    assert sent("websocket", ("host", HOST))[0]["type"] == "websocket.close"
    assert sent("websocket", ("host", HOST), ("origin", ORIGIN))[1]["body"] == b"inside"


def test_every_answer_has_a_strict_policy() -> None:
    for headers in ([("host", HOST)], [("host", "evil.example")]):
        names = dict(sent("http", *headers)[0]["headers"])
        policy = names[b"content-security-policy"].decode()
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert {name.encode() for name in HEADERS} <= set(names)


def test_tokens_are_long_and_compared_whole() -> None:
    token = new_token()
    assert len(token) >= 32
    assert token != new_token()
    assert is_token(token, token)
    for other in ("", token[:-1], token + "x", None, 7, "é"):
        assert not is_token(other, token)

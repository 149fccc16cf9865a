"""The pages of a node: what is answered, and what hostile requests get."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

import pytest

from habemus.runtimes.live.cluster_file import Address
from habemus.runtimes.live.monitoring import http_server
from habemus.runtimes.live.monitoring.http_server import MonitoringServer, Page, PageSource


async def _well() -> Page:
    return Page(HTTPStatus.OK, b"fine\n")


async def _broken() -> Page:
    raise ZeroDivisionError


PAGES = {"/livez": PageSource(_well), "/broken": PageSource(_broken)}


async def answer(address: Address, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(request)
    try:
        return await asyncio.wait_for(reader.read(), 30)
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("request_", "status", "body"),
    [
        (b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", 200, b"fine\n"),
        (b"GET /livez?x=1 HTTP/1.0\r\n\r\n", 200, b"fine\n"),
        (b"HEAD /livez HTTP/1.1\r\n\r\n", 200, b""),
        (b"GET /../livez HTTP/1.1\r\n\r\n", 404, None),
        (b"GET /\xff HTTP/1.1\r\n\r\n", 404, None),
        (b"POST /livez HTTP/1.1\r\n\r\n", 405, None),
        (b"GET /livez\r\n\r\n", 400, None),
        (b"\r\n\r\n", 400, None),
        (b"GET /livez HTTP/1.1\r\n" + b"x: y\r\n" * 5_000 + b"\r\n", 431, None),
        (b"GET /broken HTTP/1.1\r\n\r\n", 500, None),
    ],
)
def test_answers(request_: bytes, status: int, body: bytes | None) -> None:
    async def run() -> bytes:
        server = MonitoringServer(PAGES)
        address = await server.listen(Address("127.0.0.1", 0))
        try:
            return await answer(address, request_)
        finally:
            await server.close()

    found = asyncio.run(run())
    assert found.split(b" ")[:2] == [b"HTTP/1.1", str(status).encode()]
    if body is not None:
        assert found.split(b"\r\n\r\n", 1)[1] == body


def test_silent_connections_are_closed_and_do_not_keep_others_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_server, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 2)

    async def run() -> None:
        server = MonitoringServer(PAGES)
        address = await server.listen(Address("127.0.0.1", 0))
        silent = [await asyncio.open_connection(*address) for _ in range(2)]
        for reader, writer in silent:
            assert await asyncio.wait_for(reader.read(), 30) == b""
            writer.close()
        found = await answer(address, b"GET /livez HTTP/1.1\r\n\r\n")
        assert found.startswith(b"HTTP/1.1 200")
        await server.close()

    asyncio.run(run())

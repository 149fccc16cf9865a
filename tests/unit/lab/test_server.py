"""The server hands out the page to everybody and a session only for the token."""

import asyncio
import http.client
import json
import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import uvicorn
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from habemus.lab import server, strangers
from habemus.lab.server import LabServer, PortTaken, listen, page_files
from habemus.lab.worker import WorkerLimits

STUB = "tests.unit.lab.stub_session:StubSession"


class _Server(uvicorn.Server):
    """A server that leaves signals to the tests."""

    def capture_signals(self) -> Any:
        import contextlib

        return contextlib.nullcontext()


@asynccontextmanager
async def running(seconds: float = 60) -> AsyncIterator[LabServer]:
    listening = listen(0)
    limits = WorkerLimits(seconds=seconds, megabytes=400)
    lab = LabServer(listening.getsockname()[1], {"run": "central -n 3"}, limits, STUB)
    serving = _Server(server.config_of(lab))
    task = asyncio.create_task(serving.serve(sockets=[listening]))
    try:
        yield lab
    finally:
        serving.should_exit = True
        await task


def run(test: Callable[[LabServer], Coroutine[Any, Any, None]], seconds: float = 60) -> None:
    async def main() -> None:
        async with running(seconds) as lab:
            await test(lab)

    asyncio.run(main())


def session(lab: LabServer, **how: Any) -> connect:
    how.setdefault("origin", f"http://127.0.0.1:{lab.port}")
    return connect(f"ws://127.0.0.1:{lab.port}/session", max_size=None, **how)


async def welcomed(lab: LabServer, page: ClientConnection) -> dict[str, Any]:
    await page.send(json.dumps({"token": lab.token}))
    welcome = json.loads(await page.recv())
    assert isinstance(welcome, dict)
    return welcome


async def ask(page: ClientConnection, what: str, **fields: Any) -> list[dict[str, Any]]:
    await page.send(json.dumps({"id": 1, "do": what, **fields}))
    replies = [json.loads(await page.recv())]
    while not replies[-1].get("done"):
        replies.append(json.loads(await page.recv()))
    return replies


def get(lab: LabServer, path: str, host: str = "", method: str = "GET") -> tuple[int, bytes, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", lab.port, timeout=30)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host or f"127.0.0.1:{lab.port}")
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body, answer.headers


def test_files_of_the_page_are_all_that_there_is() -> None:
    async def test(lab: LabServer) -> None:
        for path in page_files():
            status, body, headers = await asyncio.to_thread(get, lab, path)
            assert (status, bool(body)) == (200, True), path
            assert "default-src 'none'" in headers["content-security-policy"]
            assert lab.token.encode() not in body
        for path in ("/server.py", "/../server.py", "/%2e%2e/server.py", "/token", "/page/"):
            assert (await asyncio.to_thread(get, lab, path))[0] == 404, path
        assert (await asyncio.to_thread(get, lab, "/", "rebound.example"))[0] == 403
        assert (await asyncio.to_thread(get, lab, "/", method="POST"))[0] == 405

    run(test)


@pytest.mark.parametrize(
    "first",
    [
        None,
        '{"token": "wrong"}',
        *(f'{{"token": {each}}}' for each in ("null", "5", "true", "[]", "{}", "NaN", '"\\ud800"')),
        b'{"token": "bytes"}',
        "no JSON",
        "[]",
        "[" * 100_000,
    ],
)
def test_a_session_needs_the_token(first: str | bytes | None) -> None:
    async def test(lab: LabServer) -> None:
        async with session(lab) as page:
            await page.send(first if first is not None else '{"id": 1, "do": "echo"}')
            with pytest.raises(ConnectionClosed) as closed:
                await page.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 4401

    run(test)


@pytest.mark.parametrize("origin", [None, "http://evil.example", "null"])
def test_a_foreign_origin_is_refused_before_the_handshake(origin: str | None) -> None:
    async def test(lab: LabServer) -> None:
        with pytest.raises(InvalidStatus) as refused:
            async with session(lab, origin=origin):
                pass
        assert refused.value.response.status_code == 403

    run(test)


def test_a_session_is_welcomed_and_relayed() -> None:
    async def test(lab: LabServer) -> None:
        async with session(lab) as page:
            welcome = await welcomed(lab, page)
            assert welcome["opens"] == {"run": "central -n 3"}
            assert {"name", "title", "problem"} <= welcome["algorithms"][0].keys()
            assert "ra-three" in {each["name"] for each in welcome["scenarios"]}
            assert [each["is"] for each in await ask(page, "echo")] == ["echo", "pid"]
            assert len((await ask(page, "long"))[0]["text"]) == 3_000_000

    run(test)


def test_an_endless_request_is_a_line_and_the_session_goes_on() -> None:
    async def test(lab: LabServer) -> None:
        async with session(lab) as page:
            await welcomed(lab, page)
            [ended] = await ask(page, "loop")
            assert ended["is"] == "ended"
            assert "no answer within" in ended["message"]
            assert [each["is"] for each in await ask(page, "echo")] == ["echo", "pid"]

    run(test, seconds=2)


def test_closing_the_page_ends_its_process() -> None:
    async def test(lab: LabServer) -> None:
        async with session(lab) as page:
            await welcomed(lab, page)
            [last] = await ask(page, "print")
            await page.send('{"id": 2, "do": "loop"}')
        while lab.sessions:
            await asyncio.sleep(0.01)
        with pytest.raises(ProcessLookupError):
            os.kill(last["pid"], 0)

    run(test)


def test_pages_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_SESSIONS", 1)

    async def test(lab: LabServer) -> None:
        async with session(lab) as page, session(lab) as another:
            await welcomed(lab, page)
            with pytest.raises(ConnectionClosed, match="close one"):
                await welcomed(lab, another)

    run(test)


def test_connections_without_a_token_do_not_keep_a_page_out() -> None:
    async def test(lab: LabServer) -> None:
        async with AsyncExitStack() as stack:
            page = await stack.enter_async_context(session(lab))
            await welcomed(lab, page)
            for _ in range(140):
                await stack.enter_async_context(session(lab))
            for _ in range(140):
                _, writer = await asyncio.open_connection("127.0.0.1", lab.port)
                stack.callback(writer.close)
            assert (await asyncio.to_thread(get, lab, "/"))[0] == 200
            assert len(lab.strangers) <= strangers.MOST_STRANGERS
            another = await stack.enter_async_context(session(lab))
            await welcomed(lab, another)
            for each in (page, another):
                assert [reply["is"] for reply in await ask(each, "echo")] == ["echo", "pid"]

    run(test)


def test_connections_that_have_ended_are_forgotten() -> None:
    async def test(lab: LabServer) -> None:
        async with session(lab) as page:
            await welcomed(lab, page)
            assert len(lab.strangers) == 0
            async with session(lab):
                assert len(lab.strangers) == 1
            await asyncio.to_thread(get, lab, "/")
            while len(lab.strangers):
                await asyncio.sleep(0)

    run(test)


def test_a_flood_of_requests_closes_the_session() -> None:
    async def test(lab: LabServer) -> None:
        async with session(lab) as page:
            await welcomed(lab, page)
            with pytest.raises(ConnectionClosed):
                for _ in range(server.MOST_WAITING + 10):
                    await page.send('{"id": 1, "do": "loop"}')
                while True:
                    await page.recv()

    run(test)


def test_a_port_that_is_taken_is_one_line() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(PortTaken, match=r"port \d+ cannot be used: Address already in use"):
            listen(other.getsockname()[1])

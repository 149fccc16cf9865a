"""The pages of a node: what is answered, and what hostile requests get."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from habemus.runtimes.live.certificates import CertificateFiles, make, node
from habemus.runtimes.live.cluster_file import Address
from habemus.runtimes.live.log_limits import RateLimitedLog
from habemus.runtimes.live.monitoring import http_server
from habemus.runtimes.live.monitoring.http_server import MonitoringServer, Page, PageSource
from habemus.runtimes.live.peers.handshake import node_name
from habemus.runtimes.live.peers.tls import TlsContexts, contexts


async def _well() -> Page:
    return Page(HTTPStatus.OK, b"fine\n")


async def _broken() -> Page:
    raise ZeroDivisionError


PAGES = {"/livez": PageSource(_well), "/broken": PageSource(_broken)}


@asynccontextmanager
async def serving(
    pages: dict[str, PageSource] = PAGES, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[MonitoringServer, Address]]:
    limited_log = RateLimitedLog(asyncio.get_running_loop())
    server = MonitoringServer(pages, Counter(), limited_log, tls)
    address = await server.listen(Address("127.0.0.1", 0))
    try:
        async with asyncio.timeout(60):
            yield server, address
    finally:
        await server.close()


async def answer(address: Address, request: bytes, **secured: Any) -> bytes:
    reader, writer = await asyncio.open_connection(*address, **secured)
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
        async with serving() as (_, address):
            return await answer(address, request_)

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
        async with serving() as (_, address):
            silent = [await asyncio.open_connection(*address) for _ in range(2)]
            for reader, writer in silent:
                assert await asyncio.wait_for(reader.read(), 30) == b""
                writer.close()
            found = await answer(address, b"GET /livez HTTP/1.1\r\n\r\n")
            assert found.startswith(b"HTTP/1.1 200")

    asyncio.run(run())


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsContexts:
    folder = tmp_path_factory.mktemp("papers")
    authority, files = (
        CertificateFiles(folder / f"{name}.pem", folder / f"{name}.key") for name in ("ca", "node")
    )
    make(authority, "office", [node("office", 1, files)])
    return contexts(authority.certificate, files.certificate, files.key)


def open_descriptors() -> int:
    """Return how many descriptors this process has; 0 where the system does not tell."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


Runner = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Runner:
    if request.param == "asyncio":
        return asyncio.run
    runner: Runner = pytest.importorskip("uvloop").run
    return runner


@pytest.mark.parametrize("is_secured", [False, True])
def test_the_oldest_silent_connection_goes_first(
    run: Runner, is_secured: bool, tls: TlsContexts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Strangers without a certificate hold as many connections as they can get.  They keep no probe
    from its answer, and use a limited number of descriptors.
    """
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 5)
    stranger = ssl.create_default_context()
    stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
    secured = {"ssl": stranger} if is_secured else {}

    async def main() -> None:
        silent = []
        async with serving(tls=tls.monitoring if is_secured else None) as (server, address):
            before = open_descriptors()
            for number in range(60):
                _, writer = await asyncio.open_connection(*address)
                silent.append(writer)
                if not is_secured:
                    writer.write(b"GET /livez HTTP/1.1\r\nX: ")
                if number % 6 == 5:
                    found = await answer(address, b"GET /livez HTTP/1.1\r\n\r\n", **secured)
                    assert found.startswith(b"HTTP/1.1 200")
            assert server._unauthenticated._counts["turned away"] >= 60 - 5
            assert len(server._unauthenticated) <= 5
            assert open_descriptors() - before - len(silent) <= 5 + 2
        for writer in silent:
            writer.close()

    run(main())


def test_a_connection_with_a_certificate_does_not_compete_with_strangers(
    run: Runner, tls: TlsContexts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 3)

    async def main() -> None:
        asked, may_answer = asyncio.Event(), asyncio.Event()

        async def slow() -> Page:
            asked.set()
            await may_answer.wait()
            return Page(HTTPStatus.OK, b"metrics\n")

        pages = {"/metrics": PageSource(slow, is_public=False)}
        trusted = {"ssl": tls.dialling, "server_hostname": node_name("office", 1)}
        request = b"GET /metrics HTTP/1.1\r\n\r\n"
        async with serving(pages, tls.monitoring) as (server, address):
            scraping = asyncio.create_task(answer(address, request, **trusted))
            await asked.wait()
            silent = [await asyncio.open_connection(*address) for _ in range(10)]
            while server._unauthenticated._counts["turned away"] < 7:
                await asyncio.sleep(0.01)
            may_answer.set()
            assert (await scraping).endswith(b"metrics\n")
        for _, writer in silent:
            writer.close()

    run(main())

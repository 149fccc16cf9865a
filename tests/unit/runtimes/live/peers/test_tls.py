"""TlsFiles between nodes: the right ones are let in; another authority's and another node's are
not.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from tests import virtual

from habemus.problems.mutex import Granted
from habemus.runtimes.live.certificates import CertificateFiles, make, node
from habemus.runtimes.live.clients.protocol import WIRE_VERSION
from habemus.runtimes.live.peers.codec import encoded
from habemus.runtimes.live.peers.frames import Rejection
from habemus.runtimes.live.peers.handshake import node_name
from habemus.runtimes.live.peers.tls import contexts


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("papers")
    for authority, file in (("ours", "node"), ("theirs", "their")):
        signer = CertificateFiles(folder / f"{authority}.pem", folder / f"{authority}.key")
        pairs = {
            number: CertificateFiles(
                folder / f"{file}-{number}.pem", folder / f"{file}-{number}.key"
            )
            for number in (1, 2, 3)
        }
        make(signer, "office", [node("office", number, files) for number, files in pairs.items()])
    return folder


def tls(papers: Path, file: str, authority: str = "ours") -> Any:
    return contexts(papers / f"{authority}.pem", papers / f"{file}.pem", papers / f"{file}.key")


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_lock_over_tls(cluster: Any, papers: Path, loop: str) -> None:
    async def main() -> None:
        async with cluster(
            {"locks": "ricart-agrawala"}, only=(), secret=b"a secret of the cluster"
        ) as made:
            for number in (1, 2, 3):
                await made.start(number, tls=tls(papers, f"node-{number}"))
            client = made.client(2, "locks", "printer")
            client.ask("acquire")
            assert isinstance(await client.hear(), Granted)

    if loop == "uvloop":
        pytest.importorskip("uvloop").run(main())
    else:
        virtual.run(main())


@pytest.mark.parametrize(
    ("file", "authority"),
    [
        ("their-2", "theirs"),  # of another authority, and trusts only that
        ("their-2", "ours"),  # of another authority
        ("node-3", "ours"),  # of another node
        (None, None),  # without any
    ],
)
def test_whoever_has_other_papers_is_not_let_in(
    cluster: Any, papers: Path, file: str | None, authority: str | None
) -> None:
    async def main() -> None:
        async with cluster(
            {"locks": "ricart-agrawala"}, only=(), secret=b"a secret of the cluster"
        ) as made:
            one = await made.start(1, tls=tls(papers, "node-1"))
            three = await made.start(3, tls=tls(papers, "node-3"))
            two = await made.start(
                2, tls=None if file is None or authority is None else tls(papers, file, authority)
            )
            two.make_request("locks", "x", "acquire")
            await cluster.until(lambda: one.reaches() == [3] and three.reaches() == [1])
            await cluster.until(
                lambda: two._network._links[1]._last_error and two._network._links[3]._last_error
            )
            # neither have they let it in, nor do they take it for node 2
            assert (one.reaches(), three.reaches(), two.reaches()) == ([3], [1], [])
            assert one.instances() == three.instances() == []

    virtual.run(main())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_handshake_that_fails_is_logged(
    cluster: Any, papers: Path, loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with cluster(
            {"locks": "ricart-agrawala"}, 2, only=(), secret=b"a secret of the cluster"
        ) as made:
            await made.start(1, tls=tls(papers, "node-1"))
            await made.start(2, tls=tls(papers, "their-2"))
            await cluster.until(
                lambda: any("TLS handshake failed" in each for each in caplog.messages)
            )

    if loop == "uvloop":
        pytest.importorskip("uvloop").run(main())
    else:
        virtual.run(main())


def test_a_connection_that_begins_no_handshake_is_logged(
    cluster: Any, papers: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with cluster(
            {"locks": "ricart-agrawala"}, 2, only=(), secret=b"a secret of the cluster"
        ) as made:
            await made.start(1, tls=tls(papers, "node-1"))
            _, silent = await asyncio.open_connection(*made.addresses[1])
            await cluster.until(
                lambda: any("no TLS handshake within 5 s" in each for each in caplog.messages)
            )
            silent.close()

    virtual.run(main())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_connections_that_never_finish_tls_go_first(
    cluster: Any, papers: Path, loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silent connections, many more than the limit, keep neither a peer nor a client out."""
    monkeypatch.setattr("habemus.runtimes.live.peers.unauthenticated.MOST_UNAUTHENTICATED", 5)
    secret = b"a secret of the cluster"

    async def main() -> None:
        async with cluster({"locks": "ricart-agrawala"}, 2, only=(), secret=secret) as made:
            one = await made.start(1, tls=tls(papers, "node-1"))
            silent = [await asyncio.open_connection(*made.addresses[1]) for _ in range(100)]
            await cluster.until(lambda: one.counts["turned away"] >= 95)
            assert len(one._network.unauthenticated) <= 5
            await made.start(2, tls=tls(papers, "node-2"))
            await cluster.until(lambda: 2 in one._network.current)
            reader, writer = await asyncio.open_connection(
                *made.addresses[1],
                ssl=tls(papers, "node-2").dialling,
                server_hostname=node_name("office", 1),
            )
            writer.write(b'["hello",%d,"x",null,"%s"]\n' % (WIRE_VERSION, b"a" * 32))
            assert b"challenge" in await reader.readline()
            for _, each in (*silent, (reader, writer)):
                each.transport.abort()
            await cluster.until(lambda: not len(one._network.unauthenticated))
            assert not one._network.tls_handshakes.running

    if loop == "uvloop":
        pytest.importorskip("uvloop").run(main())
    else:
        virtual.run(main())


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(b'["hello",%d,"x"]\n' % WIRE_VERSION, id="client"),
        pytest.param(encoded(Rejection("no greeting")), id="refused peer"),
    ],
)
def test_a_node_that_stops_closes_every_socket(cluster: Any, papers: Path, first: bytes) -> None:
    """The other end answers no `close_notify`."""

    async def main() -> None:
        async with cluster({"locks": "ricart-agrawala"}, 1, only=()) as made:
            node = await made.start(1, tls=tls(papers, "node-1"))
            network = node._network
            _, writer = await asyncio.open_connection(
                *made.addresses[1],
                ssl=tls(papers, "node-2").dialling,
                server_hostname=node_name("office", 1),
            )
            cast(asyncio.Transport, writer.transport).pause_reading()
            await cluster.until(lambda: network.incoming)
            (connection,) = network.incoming
            server_socket = connection._transport.get_extra_info("socket")
            writer.write(first)
            await cluster.until(lambda: network.clients.connections or network.counts["refused"])
            await made.stop(1)
            assert server_socket.fileno() == -1
            writer.transport.abort()

    virtual.run(main())


def test_files_that_cannot_be_used_are_named(papers: Path) -> None:
    with pytest.raises(ValueError, match=r"absent\.pem"):
        contexts(papers / "absent.pem", papers / "node-1.pem", papers / "node-1.key")
    with pytest.raises(ValueError, match=r"node-1\.pem with key"):
        contexts(papers / "ours.pem", papers / "node-1.pem", papers / "node-2.key")

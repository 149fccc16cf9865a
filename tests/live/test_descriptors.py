"""A client over TLS whose connections are cut again and again leaves the files of its process
alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from shlex import split

import pytest
from tests.live.conftest import PATIENCE
from tests.live.forwarder import Forwarder
from tests.live.nodes import DEFAULT, Nodes

import habemus
from habemus.client.session import NodeSession

CUTS = 40
"""How often all connections are cut at once."""
LOCKS = 3
READERS = 3


class Files:
    """What else the process does: it reads and writes files of its own."""

    def __init__(self, folder: Path) -> None:
        self.is_over = False
        self.wrong: list[bytes] = []
        self.reads = 0
        self._folder = folder
        (folder / "mine").write_bytes(b"mine")

    def use(self, number: int) -> None:
        own = self._folder / f"written-{number}"
        while not self.is_over:
            descriptors = [os.open(self._folder / "mine", os.O_RDONLY) for _ in range(5)]
            out = os.open(own, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            os.write(out, b"mine")
            os.sched_yield()
            found = [os.read(each, 200) for each in descriptors]
            for each in (out, *descriptors):
                os.close(each)
            self.wrong += [each for each in (*found, own.read_bytes()) if each != b"mine"]
            self.reads += 1


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Nodes]:
    command = split(
        "certs papers --cluster office --nodes 3 --clients alice --secret papers/secret"
    )
    subprocess.run(
        [sys.executable, "-m", "habemus", *command], cwd=tmp_path, check=True, capture_output=True
    )
    tls = (
        '[tls]\nca = "papers/ca.pem"\ncertificate = "papers/node-{id}.pem"\nkey ='
        ' "papers/node-{id}.key"\n'
    )
    nodes = Nodes(tmp_path, DEFAULT + tls, head='secret_file = "papers/secret"')
    yield nodes
    nodes.close()


class Workers:
    """Threads that share one connection to the cluster; for each lock one is inside and one
    waits.
    """

    def __init__(self, cluster: habemus.Cluster) -> None:
        self.is_over = False
        self.cuts = 0
        self._cluster = cluster
        self._inside = threading.Semaphore(0)

    def work(self, number: int) -> None:
        while not self.is_over:
            with suppress(habemus.HabemusError):
                self._hold(f"lock-{number % LOCKS}")

    def _hold(self, name: str) -> None:
        with self._cluster.lock(name, PATIENCE) as lease:
            lease._session.hurry()  # the keeper connects at once
            cuts = self.cuts
            self._inside.release()
            while self.cuts == cuts and not self.is_over:
                time.sleep(0.002)
                lease.check()

    def await_all_inside(self) -> None:
        for _ in range(LOCKS):
            assert self._inside.acquire(timeout=PATIENCE)


def test_cut_connections_leave_the_files_of_the_process_alone(
    secured: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NodeSession, "can_move", lambda _: False)
    monkeypatch.setattr(NodeSession, "told", lambda _: ())  # past the forwarder
    forwarder = Forwarder(secured.address(1))
    papers = tmp_path / "papers"
    cluster = habemus.connect(
        forwarder.address,
        ca=str(papers / "ca.pem"),
        certificate=str(papers / "client-alice.pem"),
        key=str(papers / "client-alice.key"),
        secret=(papers / "secret").read_bytes().strip(),
    )
    workers, files = Workers(cluster), Files(tmp_path)
    threads = [_started(workers.work, number) for number in range(2 * LOCKS)]
    threads += [_started(files.use, number) for number in range(READERS)]
    for _ in range(CUTS):
        workers.await_all_inside()
        forwarder.cut()
        workers.cuts += 1
    workers.is_over = files.is_over = True
    for thread in threads:
        thread.join(PATIENCE)
    cluster.close()
    forwarder.close()
    assert files.wrong == []
    assert files.reads > CUTS


def _started(target: Callable[[int], None], number: int) -> threading.Thread:
    thread = threading.Thread(target=target, args=(number,))
    thread.start()
    return thread

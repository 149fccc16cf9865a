"""A rolling upgrade: from the last release to this version, and from this one to the next, while
clients hold locks and work.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import pytest
from tests.live.conftest import PATIENCE, until
from tests.live.nodes import Nodes, leased
from tests.ports import reserved_ports

import habemus
from habemus.fencing import FencedFile, StaleToken
from habemus.runtimes.live.config import DEFAULT_ALGORITHM

RELEASES = Path(__file__).parent.parent / "fixtures"
SOURCE = Path(habemus.__file__).parent
PATCHES = {
    "runtimes/live/peers/capabilities.py": [("NEWEST_PROTOCOL = 2", "NEWEST_PROTOCOL = 3")],
    "algorithms/mutex/elected_coordinator_participant.py": [
        ("number: int  # of the request that it answers\n", "=    shade: int = 0\n"),
        ("attempt: int  # how often that process has asked\n", "=    colour: str = 'red'\n"),
        (
            "class Queued(Message):",
            "class Bell(Message):\n    sound: str = 'ding'\n\n\nclass Queued(Message):",
        ),
        (
            "loan: Durable[Loan | None] = None  # the newest recorded here\n",
            "=    rung: Durable[int] = 0\n",
        ),
        (
            "    @upon(Queued)\n",
            "    @upon(Bell)\n    def count(self, sender: ProcessId, bell: Bell) -> None:\n"
            "        self.rung += bell.sound == 'ding'\n\n    @upon(Queued)\n",
        ),
        ("Request(self.term, self.number, self.attempt", "=, 'blue'"),
        ("        self.attempt += 1\n", "=        self.broadcast(Bell())\n"),
    ],
}
"""Texts and what replaces them; with "=" in front, what follows them."""


def named(folder: Path, version: str) -> Path:
    """Give the package in a folder the number of a version."""
    files = folder / f"habemus-{version}.dist-info"
    files.mkdir()
    text = f"Metadata-Version: 2.1\nName: habemus\nVersion: {version}\n"
    (files / "METADATA").write_text(text)
    return folder


def last_release(folder: Path) -> Path:
    [archive] = RELEASES.glob("release-*.tar.xz")
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    return named(folder / "src", "0.0.9")


def next_release(folder: Path) -> Path:
    """Make the next version of this one: a newer protocol, one more message type, one more field of
    a message and of a value that is stored, and one more durable variable.
    """
    ignore = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(SOURCE, folder / "habemus", ignore=ignore)
    for name, changes in PATCHES.items():
        path = folder / "habemus" / name
        text = path.read_text()
        for before, after in changes:
            assert text.count(before) == 1, before
            text = text.replace(before, before + after[1:] if after[0] == "=" else after)
        path.write_text(text)
    return named(folder, "0.9.0")


class Work:
    """Clients that take a lock in turns and write with its token to a guarded file."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._file = FencedFile(nodes.folder / "report")
        self._file.write(b"", 0)
        self._is_over = threading.Event()
        self.written = 0
        self.wrong: list[str] = []
        self._threads = [threading.Thread(target=self._run, args=(first,)) for first in (1, 2, 3)]

    def __enter__(self) -> Work:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def wait_for(self, more: int) -> None:
        enough = self.written + more
        until(lambda: self.written >= enough or self.wrong)

    def tokens(self) -> list[int]:
        """Return the tokens of all writes that were accepted."""
        return [int(line) for line in self._file.read().split()]

    def _run(self, first: int) -> None:
        with habemus.connect(nodes_from(self._nodes, first), name=f"worker-{first}") as cluster:
            while not self._is_over.is_set():
                with (
                    suppress(habemus.LockTimeout, habemus.LockLost, habemus.Unreachable),
                    cluster.lock("report", timeout=1) as lease,
                ):
                    self._write(lease)

    def _write(self, lease: habemus.Lease) -> None:
        try:
            self._file.append(b"%d\n" % (lease.token or 0), lease.token)
            self.written += 1
        except StaleToken as reason:
            if lease.held:  # another client was granted the lock as well
                self.wrong.append(str(reason))


def upgrade(nodes: Nodes, number: int, source: Path | None) -> None:
    """Stop a node as an operator does, and start it from other sources."""
    process = nodes.processes.pop(number)
    process.send_signal(signal.SIGTERM)
    process.wait(PATIENCE)  # with its input open: the end of that would hurry it
    process.communicate()
    nodes.source = source
    nodes.start(number)


def versions(nodes: Nodes) -> list[str]:
    found = []
    for number in (1, 2, 3):
        with habemus.connect(nodes.socket(number)) as cluster:
            found.append(cluster.status()["version"])
    return found


def doctor(nodes: Nodes, command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "habemus", command, "--cluster", str(nodes.file)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.stdout + done.stderr


def current_version() -> str:
    return metadata.version("habemus")


@pytest.mark.parametrize("direction", ["from the last release", "to the next release"])
def test_nodes_are_upgraded_one_after_the_other(tmp_path: Path, direction: str) -> None:
    """No lock that is held is lost, no write is stale and no token falls, with two versions running
    all the time.  The clients of a node that is upgraded take their locks to another one.
    """
    before = after = None
    if direction == "from the last release":
        before = last_release(tmp_path / "before")
    else:
        after = next_release(tmp_path / "after")
    folder = tmp_path / "cluster"
    folder.mkdir()
    nodes = Nodes(folder, leased("30s"), source=before)
    clients = {number: habemus.connect(nodes_from(nodes, number)) for number in (1, 2, 3)}
    try:
        first, last = versions(nodes)[0], "0.9.0" if after else current_version()
        assert first == ("0.0.9" if before else current_version())
        held = {number: lock_at(clients[number], number) for number in clients}
        tokens_held = {number: lease.token for number, lease in held.items()}
        with Work(nodes) as work:
            work.wait_for(20)
            for number in clients:
                upgrade(nodes, number, after)
                work.wait_for(20)
                for each, lease in held.items():
                    assert lease.held and not lease.lost, (number, each, lease.lost)
                    assert lease.token == tokens_held[each]
                if number < 3:
                    shown = doctor(nodes, "doctor")
                    assert f"different versions: node 1 {last}" in shown, shown
                    assert f"node 3 {first}; finish the upgrade" in doctor(nodes, "status")
            work.wait_for(20)
        assert not work.wrong
        tokens = work.tokens()
        assert len(tokens) == work.written and tokens == sorted(set(tokens))
        assert versions(nodes) == [last] * 3
        assert f"all nodes run {last}" in doctor(nodes, "doctor")
        logs = "".join(path.read_text() for path in folder.glob("*.log"))
        assert "refused node" not in logs and "has stopped" not in logs
        assert "has another version" in logs
        for lease in held.values():
            assert lease.held and not lease.lost
    finally:
        for client in clients.values():
            client.close()
        nodes.close()


def nodes_from(nodes: Nodes, first: int) -> str:
    """Return the addresses of all nodes, beginning with one of them."""
    return ",".join(nodes.address(1 + (first - 1 + turn) % 3) for turn in range(3))


def lock_at(cluster: habemus.Cluster, number: int) -> habemus.Lease:
    return cluster.lock(f"held-{number}", timeout=PATIENCE).acquire()


CLIENT = """
import asyncio, sys, habemus

async def use() -> int:
    async with habemus.connect(sys.argv[1]) as cluster:
        async with cluster.lock("x", timeout=60) as lease:
            return lease.token

with habemus.connect(sys.argv[1]) as cluster:
    with cluster.lock("x", timeout=60) as lease:
        print(lease.token, flush=True)
        sys.stdin.readline()
        lease.check()
        print(lease.token, flush=True)
    with cluster.semaphore("places", timeout=60), cluster.election("boss").lead(timeout=60):
        print(asyncio.run(use()), flush=True)
"""


@pytest.mark.parametrize("older", ["clients", "nodes"])
def test_clients_and_nodes_of_the_last_release_work_with_those_of_this_one(
    tmp_path: Path, older: str
) -> None:
    """Nodes of this one tell clients when their members change, which older clients ignore."""
    source = last_release(tmp_path / "before")
    folder = tmp_path / "cluster"
    folder.mkdir()
    if older == "nodes":
        nodes = Nodes(folder, leased("30s"), size=1, source=source)
    else:
        nodes = Nodes(folder, leased("30s", DEFAULT_ALGORITHM), size=1)
    environment = {**os.environ, "HABEMUS_CLUSTER": nodes.socket(1)}
    if older == "clients":
        environment["PYTHONPATH"] = str(source)
    try:
        client = subprocess.Popen(
            [sys.executable, "-c", CLIENT, nodes.address(1)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert client.stdout is not None
        tokens = [int(client.stdout.readline())]
        if older == "clients":
            (port,) = reserved_ports(1)
            nodes.start(2, "--join", "--bind", f"127.0.0.1:{port}")
            doing = ["member", "add", "2", f"127.0.0.1:{port}", "--cluster", str(nodes.file)]
            subprocess.run([sys.executable, "-m", "habemus", *doing], check=True)
        rest, _ = client.communicate("\n", timeout=PATIENCE)
        assert client.returncode == 0
        tokens += map(int, rest.split())
        assert tokens[0] == tokens[1] < tokens[2]
        locking = [sys.executable, "-m", "habemus", "lock", "x", "--", "true"]
        assert subprocess.run(locking, env=environment, timeout=PATIENCE).returncode == 0
    finally:
        nodes.close()

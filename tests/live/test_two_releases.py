"""Nodes and clients of two releases: this one, and a copy of it with another number and changes.

With one wire version they work together, so nodes are upgraded one by one while clients hold locks
and work.  With two, they refuse each other.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from tests.live.conftest import PATIENCE, until
from tests.live.nodes import Nodes, leased

import habemus
from habemus.fencing import FencedFile, StaleToken
from habemus.runtimes.live.clients.protocol import WIRE_VERSION

Changes = dict[str, list[tuple[str, str]]]

SOURCE = Path(habemus.__file__).parent
NEXT = "0.9.0"
PARTICIPANT = "algorithms/mutex/elected_coordinator_participant.py"
ADDITIONS = {
    PARTICIPANT: [
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
            "    @upon(Bell)\n    def hear_bell(self, sender: ProcessId, bell: Bell) -> None:\n"
            "        self.rung += bell.sound == 'ding'\n\n    @upon(Queued)\n",
        ),
        ("Request(self.term, self.number, self.attempt", "=, 'blue'"),
        ("        self.attempt += 1\n", "=        self.broadcast(Bell())\n"),
    ],
    "runtimes/live/peers/frames.py": [
        ("0 where nothing is recorded\n", "=    colour: str = 'red'\n"),
        ("# of the dialler in that configuration\n", "=    colour: str = 'red'\n"),
        ("# the dialler is not in that configuration\n", "=    colour: str = 'red'\n"),
    ],
    "client/protocol.py": [
        ("session, self._nonce, named", "=, 'red'"),
        ("""_RELEASE = b'["release",%d""", '=,"red"'),
    ],
    "runtimes/live/clients/lock_queues.py": [
        ("send(*granted, lock.ticket_of(token)", "=, 'red'"),
    ],
}
"""Texts and what replaces them; with "=" in front, what follows them."""
OTHER_WIRE = {
    "runtimes/live/clients/protocol.py": [
        (f"WIRE_VERSION = {WIRE_VERSION}", f"WIRE_VERSION = {WIRE_VERSION + 1}")
    ]
}


def build(folder: Path, changes: Changes) -> Path:
    """Copy the package into a folder, with these changes, as release `NEXT`."""
    ignore = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(SOURCE, folder / "habemus", ignore=ignore)
    for name, replaced in changes.items():
        path = folder / "habemus" / name
        text = path.read_text()
        for before, after in replaced:
            assert text.count(before) == 1, before
            text = text.replace(before, before + after[1:] if after[0] == "=" else after)
        path.write_text(text)
    files = folder / f"habemus-{NEXT}.dist-info"
    files.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: habemus\nVersion: {NEXT}\n"
    (files / "METADATA").write_text(metadata)
    return folder


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


def upgrade(nodes: Nodes, number: int, source: Path) -> None:
    """Stop a node as an operator does, and start it from other sources."""
    process = nodes.processes.pop(number)
    process.send_signal(signal.SIGTERM)
    process.wait(PATIENCE)  # with its input open: the end of that would hurry it
    process.communicate()
    nodes.source = source
    nodes.start(number)


def status(nodes: Nodes, number: int) -> dict[str, Any]:
    with habemus.connect(nodes.socket(number)) as cluster:
        return cluster.status()


def command(nodes: Nodes, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "habemus", *words],
        env={**os.environ, "HABEMUS_CLUSTER": str(nodes.file)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def logs(nodes: Nodes) -> str:
    return "".join(path.read_text() for path in nodes.folder.glob("*.log"))


def test_nodes_are_upgraded_one_after_the_other(tmp_path: Path) -> None:
    """No lock that is held is lost, no write is stale and no token falls, with two releases running
    all the time.  The clients of a node that is upgraded take their locks to another one.
    """
    current = version("habemus")
    after = build(tmp_path / "after", ADDITIONS)
    folder = tmp_path / "cluster"
    folder.mkdir()
    nodes = Nodes(folder, leased("30s"))
    clients = {number: habemus.connect(nodes_from(nodes, number)) for number in (1, 2, 3)}
    try:
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
                    different = f"different versions: node 1 {NEXT}"
                    shown = command(nodes, "doctor").stdout
                    assert different in shown and f"node 3 {current}" in shown, shown
                    assert "finish the upgrade" in command(nodes, "status").stdout
                    # The new release says more here, which nodes of the other one do not know.
                    command(nodes, "lock", "--cluster", nodes.socket(number), "new", "--", "true")
                    until(lambda: status(nodes, 3)["counts"].get("not understood"))
            work.wait_for(20)
        assert not work.wrong
        tokens = work.tokens()
        assert len(tokens) == work.written and tokens == sorted(set(tokens))
        assert [status(nodes, number)["version"] for number in clients] == [NEXT] * 3
        assert f"all nodes run {NEXT}" in command(nodes, "doctor").stdout
        for wrong in ("refused a", "refused node", "refused by", "has stopped"):
            assert wrong not in logs(nodes)
        assert "unknown type of message 'Bell'; run one release" in logs(nodes)
        for lease in held.values():
            assert lease.held and not lease.lost
    finally:
        for client in clients.values():
            client.close()
        nodes.close()


def test_another_wire_version_is_refused_at_both_ends(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()
    nodes = Nodes(folder, leased("30s"))
    newer = WIRE_VERSION + 1
    try:
        upgrade(nodes, 3, build(tmp_path / "after", OTHER_WIRE))
        # At the nodes: in the logs of both.
        by_one = (
            f"node 3 speaks wire version {newer}, and node 1 (habemus {version('habemus')}) speaks"
            f" {WIRE_VERSION}: upgrade node 1 to the release of node 3"
        )
        for number, begin in ((1, "refused a connection"), (3, "cannot reach node 1")):
            log = nodes.folder / f"{number}.log"
            until(partial(found_line, log, begin, by_one))
        # At clients: a lock by the command and by the program, and what an operator asks.
        by_three = (
            f"the client speaks wire version {WIRE_VERSION}, and node 3 (habemus {NEXT}) speaks"
            f" {newer}: upgrade the client to the release of node 3"
        )
        done = command(nodes, "lock", "--cluster", nodes.address(3), "x", "--", "true")
        assert done.returncode == 125
        assert done.stderr == f"habemus: {nodes.address(3)}: {by_three}\n"
        with (
            pytest.raises(habemus.RefusedByNode, match=re.escape(by_three)),
            habemus.connect(nodes.address(3)) as cluster,
        ):
            cluster.status()
        assert by_three in command(nodes, "status").stdout
        assert by_three in command(nodes, "doctor").stdout
        # The majority of the other release works on.
        assert command(nodes, "lock", "x", "--", "true").returncode == 0
    finally:
        nodes.close()


def found_line(log: Path, begin: str, end: str) -> bool:
    return any(begin in line and end in line for line in log.read_text().splitlines())


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


@pytest.mark.parametrize("later", ["clients", "nodes"])
def test_clients_and_nodes_of_two_releases_work_together(tmp_path: Path, later: str) -> None:
    source = build(tmp_path / "after", ADDITIONS)
    folder = tmp_path / "cluster"
    folder.mkdir()
    nodes = Nodes(folder, leased("30s"), size=1, source=source if later == "nodes" else None)
    environment = {**os.environ, "HABEMUS_CLUSTER": nodes.socket(1)}
    if later == "clients":
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
        rest, _ = client.communicate("\n", timeout=PATIENCE)
        assert client.returncode == 0
        tokens += map(int, rest.split())
        assert tokens[0] == tokens[1] < tokens[2]
        locking = [sys.executable, "-m", "habemus", "lock", "x", "--", "true"]
        assert subprocess.run(locking, env=environment, timeout=PATIENCE).returncode == 0
    finally:
        nodes.close()

"""Rolling restarts under load: every node is ended in good order and started again, one after the
other, while workers take locks.

    python -m benchmarks.live.rolling --rounds 5 --workers 8
    python -m benchmarks.live.rolling --rounds 1 --workers 2 --held 100
    python -m benchmarks.live.rolling --rounds 1 --workers 2 --held 100 --kill
    python -m benchmarks.live.rolling --rounds 1 --workers 2 --held 100 --upgrade-from OTHER/src

With `--held`, so many more locks are held all the time, half of them by threads' client and half by
tasks' client, and none may be lost.  With `--kill`, nodes are killed instead.  A node that was
killed takes part in the locks of its clients a lease later, and only then the next one is killed.

With `--upgrade-from`, the nodes begin with the package in that folder, and each restart brings one
of them to this release: a rolling upgrade.

Half of the workers are threads with the blocking client, half are tasks with the asynchronous one.
The figures are exceptions of any kind, grants, and the longest time that a worker waited for a
lock; the exit code is 1 if there was an exception.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import habemus
from habemus.client.asynchronous import AsyncCluster

NODES = 3
LOCKS = 4
READY_SECONDS = 300.0
GRACE_SECONDS = 10.0
LOCK_SECONDS = 20.0
"""Timeout of the requests of workers."""
LEASE_SECONDS = 11.0
"""Longer than the lease of the cluster."""


class RestartedCluster:
    """Nodes as processes, each of which can be restarted in good order.

    source: folder of another release of the package, with which all nodes begin.
    grace: seconds that the clients of a node have to leave it.
    """

    def __init__(
        self,
        folder: Path,
        size: int = NODES,
        services: str = "",
        source: Path | None = None,
        grace: float = GRACE_SECONDS,
    ) -> None:
        self.file = folder / "cluster.toml"
        (folder / "data").mkdir()
        self._grace = grace
        self._reserved = [_reserved_port() for _ in range(size)]
        addresses = [
            f'{number} = "127.0.0.1:{each.getsockname()[1]}"'
            for number, each in enumerate(self._reserved, 1)
        ]
        self.file.write_text(
            "\n".join(['cluster = "rolling"', 'data = "data"', "[nodes]", *addresses, services])
            + "\n"
        )
        self._log = (folder / "log").open("ab")
        self._source = source
        self._processes = {number: self._started(number) for number in range(1, size + 1)}
        self._source = None
        self.wait_until_well()

    def addresses(self) -> dict[int, str]:
        lines = self.file.read_text().splitlines()
        found = (line.split(" = ") for line in lines if line[:1].isdigit())
        return {int(number): address.strip('"') for number, address in found}

    def _command(self, number: int) -> list[str]:
        node = ["node", "--config", str(self.file), "--id", str(number), "--with-stdin"]
        return [sys.executable, "-m", "habemus", *node, "--grace", str(self._grace)]

    def _started(self, number: int) -> subprocess.Popen[bytes]:
        source = {} if self._source is None else {"PYTHONPATH": str(self._source)}
        return subprocess.Popen(
            self._command(number),
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            env={**os.environ, **source},
        )

    def restart(self, number: int, ending: signal.Signals = signal.SIGTERM) -> None:
        process = self._processes[number]
        process.send_signal(ending)
        process.wait(READY_SECONDS)
        process.communicate()
        self._processes[number] = self._started(number)
        self.wait_until_well()

    def wait_until_well(self) -> None:
        """Wait until `habemus status` finds nothing wrong."""
        deadline = time.monotonic() + READY_SECONDS
        status = [sys.executable, "-m", "habemus", "status", "--cluster", str(self.file)]
        while subprocess.run(status, capture_output=True, check=False).returncode:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the cluster is not well after {READY_SECONDS:g} s")
            time.sleep(0.1)

    def close(self) -> None:
        for process in self._processes.values():
            process.communicate(timeout=READY_SECONDS)  # ends with its input
        self._log.close()
        for each in self._reserved:
            each.close()

    def log(self) -> str:
        return Path(self._log.name).read_text()


def _reserved_port() -> socket.socket:
    """Bind a port that no outgoing connection gets while a node is down; the node can listen on
    it.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved


class Workers:
    """Clients that take locks until they are told to stop."""

    def __init__(self, cluster: str, count: int, timeout: float = LOCK_SECONDS) -> None:
        self.errors: Counter[str] = Counter()
        self.lost: list[str] = []  # each with its reason
        self.waits: list[float] = []
        self._cluster = cluster
        self._timeout = timeout
        self._is_over = threading.Event()
        self._connected = threading.Semaphore(0)  # one for each thread that is connected
        tasks = count // 2
        self._threads = [
            threading.Thread(target=self._work, args=(number,)) for number in range(count - tasks)
        ]
        self._threads.append(
            threading.Thread(target=lambda: asyncio.run(self._work_in_tasks(tasks)))
        )
        for each in self._threads:
            each.start()
        for _ in self._threads:  # to connect while a node ends is another matter
            self._connected.acquire(timeout=READY_SECONDS)

    def stop(self) -> None:
        self._is_over.set()
        for each in self._threads:
            each.join()

    def _note(self, lease: habemus.Lease) -> None:
        self.lost.append(repr(lease))

    def _work(self, number: int) -> None:
        with habemus.connect(self._cluster, name=f"thread-{number}") as cluster:
            self._connected.release()
            while not self._is_over.is_set():
                asked = time.monotonic()
                try:
                    name = f"account-{random.randrange(LOCKS)}"
                    with cluster.lock(name, timeout=self._timeout, on_lost=self._note):
                        self.waits.append(time.monotonic() - asked)
                        time.sleep(random.random() * 0.02)
                except Exception as error:
                    self.errors[f"{type(error).__name__}: {error}"] += 1

    async def _work_in_tasks(self, count: int) -> None:
        async with (
            habemus.connect(self._cluster, name="tasks") as cluster,
            asyncio.TaskGroup() as group,
        ):
            self._connected.release()
            for _ in range(count):
                group.create_task(self._work_in_task(cluster))

    async def _work_in_task(self, cluster: AsyncCluster) -> None:
        while not self._is_over.is_set():
            asked = time.monotonic()
            try:
                name = f"account-{random.randrange(LOCKS)}"
                async with cluster.lock(name, timeout=self._timeout, on_lost=self._note):
                    self.waits.append(time.monotonic() - asked)
                    await asyncio.sleep(random.random() * 0.02)
            except Exception as error:
                self.errors[f"{type(error).__name__}: {error}"] += 1


class HeldLocks:
    """Locks that two clients hold until they are told to stop."""

    def __init__(self, cluster: str, count: int) -> None:
        self.lost: list[str] = []
        self._is_over = threading.Event()
        self._cluster = cluster
        self._threads = [
            threading.Thread(target=self._hold, args=(count - count // 2,)),
            threading.Thread(target=lambda: asyncio.run(self._hold_in_task(count // 2))),
        ]
        self._held = threading.Semaphore(0)
        for each in self._threads:
            each.start()
        for _ in self._threads:
            self._held.acquire()

    def stop(self) -> None:
        """Release all; note those that were lost."""
        self._is_over.set()
        for each in self._threads:
            each.join()

    def _note(self, lease: habemus.Lease) -> None:
        self.lost.append(repr(lease))

    def _hold(self, count: int) -> None:
        with habemus.connect(self._cluster, name="holder") as cluster, ExitStack() as stack:
            for number in range(count):
                stack.enter_context(cluster.lock(f"held-{number}", on_lost=self._note))
            self._held.release()
            self._is_over.wait()

    async def _hold_in_task(self, count: int) -> None:
        async with (
            habemus.connect(self._cluster, name="holding-tasks") as cluster,
            AsyncExitStack() as stack,
        ):
            for number in range(count):
                lock = cluster.lock(f"held-by-task-{number}", on_lost=self._note)
                await stack.enter_async_context(lock)
            self._held.release()
            while not self._is_over.is_set():
                await asyncio.sleep(0.05)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--held", type=int, default=0)
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--upgrade-from", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    ending = signal.SIGKILL if given.kill else signal.SIGTERM
    with tempfile.TemporaryDirectory() as folder:
        cluster = RestartedCluster(Path(folder), source=given.upgrade_from)
        held = HeldLocks(str(cluster.file), given.held)
        workers = Workers(str(cluster.file), given.workers)
        began = time.monotonic()
        try:
            for _ in range(given.rounds):
                for number in range(1, NODES + 1):
                    cluster.restart(number, ending)
                    if given.kill:
                        time.sleep(LEASE_SECONDS)
        finally:
            workers.stop()
            held.stop()
            cluster.close()
        tracebacks = cluster.log().count("Traceback")
    longest = sorted(workers.waits)[-3:]
    figures = {
        "rounds": given.rounds,
        "workers": given.workers,
        "grants": len(workers.waits),
        "errors": dict(workers.errors),
        "held": given.held,
        "lost": held.lost + workers.lost,
    }
    print(
        json.dumps(
            {
                **figures,
                "longest_waits_s": longest,
                "tracebacks": tracebacks,
                "seconds": time.monotonic() - began,
            }
        )
    )
    return 1 if workers.errors or tracebacks or figures["lost"] else 0


if __name__ == "__main__":
    sys.exit(main())

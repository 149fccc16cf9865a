"""Members that come and go under load: 3 -> 5 -> 3, with kills in between.

    python -m benchmarks.live.members --rounds 20 --workers 8

In each round two new nodes join a cluster of three, and two of the five are removed, the leader in
every second round.  During each of these four changes a node is killed (SIGKILL) and started
again, the leader in every second one.  Meanwhile workers take locks, and write to a resource that
checks tokens: each write stores the successor of the value that was read, so a stale write that is
accepted is a lost update.

The figures: grants; tokens that were not larger than one that was granted before the request; lost
updates; the longest time without any grant in the cluster; the longest wait of one request, which
includes leases (1 s) of killed nodes that have to expire; the time of a change.  The exit code is 1
if there was a lost update or a regression of tokens, or the longest outage was 3 s or more.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.live.rolling import READY_SECONDS, RestartedCluster

import habemus
from habemus.client.errors import Unreachable
from habemus.operations.members import MemberChanges, MembersView
from habemus.operations.node_survey import survey_cluster

LOCKS = 4
OUTAGE_SECONDS = 3.0
STAY_SECONDS = 0.02
VISITS = 50
"""Visits of a worker until it reads the file again, and connects to nodes that it did not know."""
SERVICE = """\
[services.locks]
algorithm = "elected-coordinator-leased-members"
options = { lease = "1s" }
"""


class ChangingCluster(RestartedCluster):
    """Nodes as processes that join, leave, and are killed."""

    def __init__(self, folder: Path) -> None:
        self._joining: dict[int, str] = {}
        super().__init__(folder, services=SERVICE)

    def _command(self, number: int) -> list[str]:
        bind = self._joining.get(number)
        return [*super()._command(number), *(("--join", "--bind", bind) if bind else ())]

    def member(self, *words: str) -> subprocess.Popen[str]:
        """Start `habemus member`."""
        command = [sys.executable, "-m", "habemus", "member", *words]
        return subprocess.Popen(
            [*command, "--cluster", str(self.file), "--json", "--timeout", "60"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def view(self) -> MembersView:
        """Return the members, as the leader knows them."""
        changes = MemberChanges(survey_cluster(str(self.file)), READY_SECONDS)
        try:
            return changes.view()
        finally:
            changes.close()

    def wait_until_well(self) -> None:
        """Wait until all nodes are up, reach each other, and have a leader."""
        deadline = time.monotonic() + READY_SECONDS
        while not self._is_well():
            if time.monotonic() > deadline:
                raise TimeoutError(f"the cluster is not well after {READY_SECONDS:g} s")
            time.sleep(0.1)

    def _is_well(self) -> bool:
        try:
            survey = survey_cluster(str(self.file))
        except Unreachable:
            return False
        try:
            return survey.look().is_well
        finally:
            survey.close()

    def join(self, number: int) -> str:
        """Start a node that waits to be added; return its address."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"127.0.0.1:{free.getsockname()[1]}"
        shutil.rmtree(self.file.parent / "data" / f"node-{number}", ignore_errors=True)
        self._joining[number] = address
        self._processes[number] = self._started(number)
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", int(address.split(":")[1]))).close()
                break
            except OSError:
                time.sleep(0.05)
        return address

    def joined(self, number: int) -> None:
        del self._joining[number]

    def kill(self, number: int) -> None:
        self._processes[number].kill()
        self._processes[number].communicate()

    def start(self, number: int) -> None:
        self._processes[number] = self._started(number)

    def wait_for_end(self, number: int) -> None:
        """Wait until a node that was removed has stopped; kill it if it does not know."""
        process = self._processes.pop(number)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()


class Resource:
    """A value for each lock that only ever accepts the largest token, and what was seen of it."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._newest = [0] * LOCKS
        self._values = [0] * LOCKS
        self.written = [0] * LOCKS
        self.granted = 0
        self.regressions: list[str] = []
        self.last_grant = 0.0
        self.outage = 0.0

    def largest(self, lock: int) -> int:
        with self._mutex:
            return self._newest[lock]

    def note_grant(self, lock: int, token: int, before: int) -> None:
        with self._mutex:
            now = time.monotonic()
            self.outage = max(self.outage, now - (self.last_grant or now))
            self.last_grant = now
            self.granted += 1
            if token <= before:
                self.regressions.append(f"token {token} of lock {lock} after {before}")

    def read(self, lock: int, token: int) -> int | None:
        with self._mutex:
            if token < self._newest[lock]:
                return None
            self._newest[lock] = token
            return self._values[lock]

    def write(self, lock: int, token: int, value: int) -> None:
        with self._mutex:
            if token >= self._newest[lock]:
                self._newest[lock] = token
                self._values[lock] = value + 1
                self.written[lock] += 1

    def lost_updates(self) -> int:
        return sum(self.written) - sum(self._values)


class Worker(threading.Thread):
    """A client that takes locks until it is told to stop."""

    def __init__(self, cluster: str, number: int, resource: Resource) -> None:
        super().__init__(daemon=True)
        self._cluster, self._number, self._resource = cluster, number, resource
        self.is_over = threading.Event()
        self.longest = 0.0
        self.failures: list[str] = []

    def run(self) -> None:
        while not self.is_over.is_set():
            try:
                with habemus.connect(self._cluster, name=f"worker-{self._number}") as cluster:
                    for _ in range(VISITS):
                        if not self.is_over.is_set():
                            self._visit(cluster)
            except habemus.HabemusError as error:
                self.failures.append(f"{type(error).__name__}: {error}")
                time.sleep(0.05)

    def _visit(self, cluster: habemus.Cluster) -> None:
        lock = random.randrange(LOCKS)
        asked, before = time.monotonic(), self._resource.largest(lock)
        with cluster.lock(f"account-{lock}", timeout=30) as lease:
            self.longest = max(self.longest, time.monotonic() - asked)
            assert lease.token is not None
            self._resource.note_grant(lock, lease.token, before)
            value = self._resource.read(lock, lease.token)
            time.sleep(random.random() * STAY_SECONDS)
            if value is not None:
                self._resource.write(lock, lease.token, value)


class Rounds:
    """The changes of one run."""

    def __init__(self, nodes: ChangingCluster) -> None:
        self._nodes = nodes
        self.times: list[float] = []
        self.kills = 0

    def change(self, *words: str, spared: int) -> None:
        """Make one change, and kill a node meanwhile: the leader in every second one."""
        view = self._nodes.view()
        others = [node for node in view.members if node != spared]
        self.kills += 1
        victim = random.choice(others)
        if self.kills % 2 and view.leader != spared:
            victim = view.leader
        began = time.monotonic()
        changing = self._nodes.member(*words)
        time.sleep(random.uniform(0.2, 0.7))
        self._nodes.kill(victim)
        time.sleep(random.uniform(0.2, 1.0))
        self._nodes.start(victim)
        _, errors = changing.communicate(timeout=READY_SECONDS)
        self.times.append(time.monotonic() - began)
        if changing.returncode:
            raise RuntimeError(f"habemus member {' '.join(words)}: {errors}")
        self._nodes.wait_until_well()

    def run(self, number: int) -> None:
        members = self._nodes.view().members
        for new in [each for each in range(1, 9) if each not in members][:2]:
            address = self._nodes.join(new)
            self.change("add", str(new), address, spared=new)
            self._nodes.joined(new)
        for turn in range(2):
            view = self._nodes.view()
            gone = random.choice(view.members)
            if (number + turn) % 2:
                gone = view.leader
            self.change("remove", str(gone), spared=gone)
            self._nodes.wait_for_end(gone)
        assert len(self._nodes.view().members) == 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--keep", type=Path, help="folder for the files of the nodes")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        nodes = ChangingCluster(folder)
        resource = Resource()
        workers = [Worker(str(nodes.file), each, resource) for each in range(given.workers)]
        rounds = Rounds(nodes)
        try:
            for worker in workers:
                worker.start()
            for number in range(given.rounds):
                rounds.run(number)
                done = f"round {number + 1}: members {list(nodes.view().members)}"
                print(
                    f"{done}, longest outage {resource.outage:.2f} s", file=sys.stderr, flush=True
                )
            for worker in workers:
                worker.is_over.set()
            for worker in workers:
                worker.join(READY_SECONDS)
        finally:
            nodes.close()
    failures = [each for worker in workers for each in worker.failures]
    figures = {
        "rounds": given.rounds,
        "changes": len(rounds.times),
        "kills": rounds.kills,
        "grants": resource.granted,
        "lost_updates": resource.lost_updates(),
        "regressions": resource.regressions[:3],
        "longest_outage_s": round(resource.outage, 2),
        "longest_wait_s": round(max(worker.longest for worker in workers), 2),
        "change_s": {
            "median": round(sorted(rounds.times)[len(rounds.times) // 2], 2),
            "longest": round(max(rounds.times), 2),
        },
        "failures": len(failures),
        "examples": sorted({each.split(":")[0] for each in failures}),
    }
    print(json.dumps(figures, indent=1))
    is_safe = not resource.lost_updates() and not resource.regressions
    return 0 if is_safe and resource.outage < OUTAGE_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())

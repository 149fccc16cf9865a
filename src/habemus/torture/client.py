"""A client under torture: it acquires the lock, reads a value, writes the next one and releases the
lock, in a loop.

    python -m habemus.torture.client ORDERS

ORDERS is JSON: name, cluster (where it is), service, locks, lease (seconds or null), referee (its
socket), record (the file to write), seed, think_s (the longest pause between two requests).

Each event is recorded in one call before the client acts, so the record is complete when the
process is killed (`habemus.torture.history`).

The client checks its lease before an update, as it should, but not again before the write: a client
can be paused between a check and a write.  It checks again only if the work took very long.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from random import Random
from typing import Any

import habemus
from habemus.client.lease import Lease

LONG_S = 10.0
SHORT_S = (0.02, 0.3)
"""Short timeouts of requests."""
HURRIES = 0.1
"""Fraction of requests with a short timeout."""
UPDATES = (1, 3)
"""Number of updates in a stay."""
WORK_S = (0.0005, 0.004)
LONG_WORK_S = (0.02, 0.1)
"""Time between reading and writing; sometimes long, so that a fault can hit a client inside."""
LONG_WORKS = 0.03
"""Fraction of updates with long work."""
ENDLESS_WORK_S = (0.3, 2.5)
"""Longer than an election or the restart of a node."""
ENDLESS_WORKS = 0.004
REST_S = 0.05
"""Pause after a failed request."""


class TortureClient:
    def __init__(self, orders: dict[str, Any]) -> None:
        self._name: str = orders["name"]
        self._service: str = orders["service"]
        self._locks: list[str] = orders["locks"]
        self._lease: float | None = orders["lease"]
        self._draw = Random(orders["seed"])
        self._think_s: float = orders["think_s"]
        self._record = os.open(orders["record"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._referee = socket.socket(socket.AF_UNIX)
        self._referee.connect(orders["referee"])
        self._answers = self._referee.makefile("rb")
        self._cluster = habemus.connect(orders["cluster"], name=self._name)
        self._stay = 0

    def note(self, what: str, *more: object, stay: int = 0) -> None:
        line = [time.monotonic_ns(), what, stay or self._stay, *more]
        os.write(self._record, json.dumps(line).encode() + b"\n")

    def run(self) -> None:
        while True:
            time.sleep(self._draw.uniform(0.0, self._think_s))
            self._stay += 1
            self._visit(self._draw.choice(self._locks))

    def _visit(self, name: str) -> None:
        stay = self._stay
        timeout = self._draw.uniform(*SHORT_S) if self._draw.random() < HURRIES else LONG_S
        lock = self._cluster.lock(
            name,
            timeout,
            self._lease,
            on_lost=lambda _: self.note("lost", "notified", stay=stay),
            service=self._service,
        )
        self.note("acquire", name)
        try:
            lease = lock.acquire()
        except habemus.LockTimeout as reason:
            self.note("timeout", str(reason))
        except habemus.HabemusError as reason:
            self.note("failed", str(reason))
            time.sleep(REST_S)
        else:
            self.note("granted", lease.token)
            self._use(name, lease)
            self.note("release")
            lock.release(lease)

    def _use(self, name: str, lease: Lease) -> None:
        for _ in range(self._draw.randint(*UPDATES)):
            try:
                lease.check()
            except habemus.LockLost as reason:
                self.note("lost", str(reason))
                return
            if not self._update(name, lease):
                return

    def _update(self, name: str, lease: Lease) -> bool:
        self.note("read")
        accepted, value = self._ask("read", name, self._name, self._stay, lease.token)
        if accepted and not self._work(lease):
            return False
        if accepted:
            self.note("write", value)
            accepted, _ = self._ask("write", name, self._name, self._stay, lease.token, value)
        self.note("wrote" if accepted else "refused")
        return accepted

    def _work(self, lease: Lease) -> bool:
        """Return whether the client still holds the lock after its work."""
        drawn = self._draw.random()
        if drawn >= ENDLESS_WORKS:
            time.sleep(self._draw.uniform(*(LONG_WORK_S if drawn < LONG_WORKS else WORK_S)))
            return True
        time.sleep(self._draw.uniform(*ENDLESS_WORK_S))
        try:
            lease.check()
        except habemus.LockLost as reason:
            self.note("lost", str(reason))
            return False
        return True

    def _ask(self, *line: object) -> tuple[bool, int]:
        self._referee.sendall(json.dumps(line).encode() + b"\n")
        accepted, said = json.loads(self._answers.readline())
        return accepted, said


if __name__ == "__main__":
    TortureClient(json.loads(sys.argv[1])).run()

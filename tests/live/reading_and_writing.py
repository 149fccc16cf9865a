"""A process that reads and writes under a read-write lock, and notes when: for tests.

It appends lines "process token kind begin|end" to a log, which is a file of the kernel that keeps
the order in which the processes were inside.
"""

from __future__ import annotations

import os
import random
import sys
import time

import habemus

url, log, seed = sys.argv[1:]
draw = random.Random(int(seed))
file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def note(kind: str, what: str, token: int | None) -> None:
    os.write(file, f"{os.getpid()} {token} {kind} {what}\n".encode())


with habemus.connect(url) as cluster:
    lock = cluster.read_write_lock("shared", lease=20)
    while True:
        kind = "write" if draw.random() < 0.3 else "read"
        with lock.write() if kind == "write" else lock.read() as lease:
            note(kind, "begin", lease.token)
            time.sleep(draw.random() * (0.004 if kind == "write" else 0.03))
            note(kind, "end", lease.token)

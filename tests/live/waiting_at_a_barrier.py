"""A process that waits at a barrier again and again, and notes when: for tests.

It appends lines "process arrive|pass|broken gathering members" to a log, in the order in which they
happened; gathering and members are "-" unless it has passed.
"""

from __future__ import annotations

import os
import sys

import habemus

url, log, parties, way = sys.argv[1:]
file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def note(what: str, gathering: str = "-", members: str = "-") -> None:
    os.write(file, f"{os.getpid()} {what} {gathering} {members}\n".encode())


def wait(barrier: habemus.Barrier) -> None:
    note("arrive")
    try:
        barrier.wait()
    except habemus.BarrierBroken:
        note("broken")
        raise
    assert barrier._barrier is not None and barrier._barrier._member is not None
    member = barrier._barrier._member
    digest = member._sign(member.seat).split()[-1]
    members = [str(name).split()[0] for name in member._members]
    note("pass", f"{digest}/{member._round}", ",".join(members))


with habemus.connect(url, name=str(os.getpid())) as cluster:
    while True:
        try:
            with cluster.barrier("gathering", int(parties), lease=20) as barrier:
                wait(barrier)
                while way == "again":
                    wait(barrier)
        except habemus.BarrierBroken:
            continue

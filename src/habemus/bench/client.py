"""A client process of a benchmark: it does what it reads, line by line, and answers each line.

python -m habemus.bench.client URL            locks of habemus
python -m habemus.bench.client URL redis      the same by hand (`habemus.bench.by_hand`)

["cycles", lock, seconds]         take and release a free lock:
                                  [count, seconds, median in us, p99 in us, processor time in us]
["contend", lock, seconds]        against others: [[time, wait in us, token], ...] of all grants
["hold", lock, lease]             take the lock and keep it: [time]
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from time import monotonic_ns, process_time_ns
from typing import Any

import habemus
from habemus.bench.by_hand import HAND_MADE

NS = 1_000_000_000


def percentile(times: list[int], percent: int) -> float:
    """Return the time, in microseconds, that so many per cent do not exceed."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] / 1_000


def cycles(locks: Any, name: str, seconds: float) -> list[float]:
    times: list[int] = []
    used = process_time_ns()
    began = now = monotonic_ns()
    end = began + round(seconds * NS)
    while now < end or not times:
        before = now
        with locks.lock(name):
            pass
        now = monotonic_ns()
        times.append(now - before)
    used = process_time_ns() - used
    middle, p99 = percentile(times, 50), percentile(times, 99)
    return [len(times), (now - began) / NS, middle, p99, used / len(times) / 1_000]


def contend(locks: Any, name: str, seconds: float) -> list[list[int]]:
    grants: list[list[int]] = []
    end = monotonic_ns() + round(seconds * NS)
    while (asked := monotonic_ns()) < end or not grants:
        with locks.lock(name) as lease:
            now = monotonic_ns()
            grants.append([now, (now - asked) // 1_000, getattr(lease, "token", lease)])
    return grants


def _say(answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main(url: str, by_hand: str = "") -> None:
    """Do what the lines of the standard input say, until its end."""
    with ExitStack() as stack:
        locks: Any = HAND_MADE[by_hand](url) if by_hand else None
        if not by_hand:
            locks = stack.enter_context(habemus.connect(url))
        _say("ready")
        for line in sys.stdin:
            what, name, number = json.loads(line)
            if what == "hold":
                given = {} if by_hand else {"lease": number}
                stack.enter_context(locks.lock(name, **given))
                answer: Any = [monotonic_ns()]
            else:
                answer = {"cycles": cycles, "contend": contend}[what](locks, name, number)
            _say(answer)


if __name__ == "__main__":
    main(*sys.argv[1:])

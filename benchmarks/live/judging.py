"""From what clients saw to numbers: rates, waits, hand-overs; and whether two were ever inside at
once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from benchmarks.live.worker import Stays


class Sample(NamedTuple):
    """One round of one contender."""

    per_second: float
    p50_us: float
    p99_us: float
    overlaps: int
    stays: int
    cpu_us: float = 0.0  # processor time of clients and servers for one stay
    overtaken: int = 0  # the most grants of one client while another one waited


def uncontended(stays: Stays, seconds: float) -> Sample:
    """Cycles: from one wish to the next."""
    cycles = sorted(after - before for before, after in pairwise(stays.asked))
    return Sample(
        len(stays.asked) / seconds,
        _at(cycles, 0.5),
        _at(cycles, 0.99),
        overlaps([stays]),
        len(stays.asked),
    )


def many_locks(clients: Sequence[Stays], seconds: float) -> Sample:
    """Each client has a lock of its own: all their cycles together."""
    cycles = sorted(after - before for stays in clients for before, after in pairwise(stays.asked))
    total = sum(len(stays.asked) for stays in clients)
    return Sample(
        total / seconds,
        _at(cycles, 0.5),
        _at(cycles, 0.99),
        sum(overlaps([stays]) for stays in clients),
        total,
    )


def contended(clients: Sequence[Stays], end_ns: int, seconds: float) -> Sample:
    """Hand-overs: grants that went to another client than the one before; and how long that one had
    waited.

    Who takes the lock again before anybody else gets it has not waited for anybody, and would hide
    how long the others did.
    """
    order = sorted(
        (began, client, began - asked)
        for client, stays in enumerate(clients)
        for asked, began in zip(stays.asked, stays.began, strict=True)
    )
    waits = sorted(
        wait
        for (_, before, _), (began, after, wait) in pairwise(order)
        if before != after and began < end_ns
    )
    return Sample(
        len(waits) / seconds,
        _at(waits, 0.5),
        _at(waits, 0.99),
        overlaps(clients),
        len(order),
        overtaken=most_overtaken(clients),
    )


def most_overtaken(clients: Sequence[Stays]) -> int:
    """Return the most grants that one client got between the request and the grant of another.

    The time of a request is taken before it is sent, so one grant too many may be counted.
    """
    return max(
        (
            bisect_left(other.began, began) - bisect_right(other.began, asked)
            for stays in clients
            for asked, began in zip(stays.asked, stays.began, strict=True)
            for other in clients
            if other is not stays
        ),
        default=0,
    )


def overlaps(clients: Sequence[Stays]) -> int:
    """Stays that began while another one lasted."""
    found, last = 0, 0
    for began, ended in sorted(
        (began, ended)
        for stays in clients
        for began, ended in zip(stays.began, stays.ended, strict=True)
    ):
        found += began < last
        last = max(last, ended)
    return found


def _at(ordered: Sequence[int], part: float) -> float:
    """A quantile, in microseconds; where there is nothing, nobody was let in twice."""
    return (
        ordered[min(len(ordered) - 1, int(len(ordered) * part))] / 1_000
        if ordered
        else float("inf")
    )


def typical(samples: Sequence[Sample]) -> Sample:
    """Return the median of each column; overlaps and stays are summed, overtaking is the most."""
    return Sample(
        median(each.per_second for each in samples),
        median(each.p50_us for each in samples),
        median(each.p99_us for each in samples),
        sum(each.overlaps for each in samples),
        sum(each.stays for each in samples),
        median(each.cpu_us for each in samples),
        max(each.overtaken for each in samples),
    )

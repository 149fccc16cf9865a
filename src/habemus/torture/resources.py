"""Memory, descriptors and disk of the nodes of a torture: watched, and judged flat or growing.

Every sample is a line of `resources.jsonl`:

    [time, node, pid, bytes of memory, descriptors, bytes of stable memory]

A node that is killed begins a new life with a new pid.  Memory and descriptors are judged for each
life that is long enough, stable memory over all lives of a node.  The first part of a life is left
out: caches fill and the allocator settles.  Of the rest, the median of the last quarter must not
exceed that of the first quarter by more than a limit.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from habemus.core.properties import Finding, Verdict
from habemus.runtimes.live.storage.log import COMPACT_FROM

RECORD = "resources.jsonl"
LONG_LIFE_S = 540.0
"""Lives that are shorter are not judged.  The nodes of a run of 10 minutes live a little less."""
WARM_UP = 0.25
"""Fraction of a life that is left out."""
FEWEST_SAMPLES = 20
NS = 1_000_000_000


class ResourceSample(NamedTuple):
    """The resources of one node at one moment."""

    time: int  # ns
    node: int
    pid: int
    memory: int
    descriptors: int
    disk: int


class Limit(NamedTuple):
    """Growth that is allowed: the larger one of an amount and a fraction.

    floor: a value that is not larger has not grown, whatever it was before.
    """

    name: str
    amount: float
    fraction: float
    unit: str
    scale: float
    floor: float = 0


LIMITS = {
    "memory": Limit("MEMORY", 2 << 20, 0.05, "MB", 1e6),
    "descriptors": Limit("DESCRIPTORS", 8, 0.0, "", 1),
    "disk": Limit("DISK", 1 << 20, 0.5, "kB", 1e3, COMPACT_FROM + (1 << 20)),
}
"""The file of stable memory grows to `COMPACT_FROM`, and is then rewritten without what is old."""


def sample_of(time: int, node: int, pid: int, folder: Path) -> ResourceSample | None:
    """Return the resources of a process; None if it has ended, or the system does not tell."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123
            pages = int(file.read().split()[1])
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208
        disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    except OSError:
        return None
    return ResourceSample(time, node, pid, pages * os.sysconf("SC_PAGE_SIZE"), descriptors, disk)


def samples_in(folder: Path) -> list[ResourceSample]:
    """Return the samples that were recorded in the folder of a torture."""
    path = folder / RECORD
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [ResourceSample(*json.loads(line)) for line in text.split("\n")[:-1]]


def judge_resources(
    samples: Sequence[ResourceSample], long_life_s: float = LONG_LIFE_S
) -> list[Finding]:
    """Return a finding for memory, descriptors and disk."""
    return [
        _judge(samples, "memory", long_life_s),
        _judge(samples, "descriptors", long_life_s),
        _judge(samples, "disk", long_life_s),
    ]


def _judge(samples: Sequence[ResourceSample], what: str, long_life_s: float) -> Finding:
    limit = LIMITS[what]
    judged = [
        growth
        for life in _lives(samples, across=what == "disk")
        if (growth := _growth(life, what, long_life_s)) is not None
    ]
    if not judged:
        return Finding(
            limit.name,
            Verdict.UNDECIDED,
            f"no node was watched for {long_life_s / 60:g} min without a restart",
        )
    node, before, after = max(judged, key=lambda each: each[2] - each[1])
    allowed = max(limit.amount, limit.fraction * before)
    why = (
        f"{len(judged)} lives of nodes; most growth: node {node},"
        f" {_shown(before, limit)} to {_shown(after, limit)}, allowed {_shown(allowed, limit)}"
        + (f", or up to {_shown(limit.floor, limit)} in all" if limit.floor else "")
    )
    grows = any(
        last - first > max(limit.amount, limit.fraction * first) and last > limit.floor
        for _, first, last in judged
    )
    return Finding(limit.name, Verdict.VIOLATED if grows else Verdict.HOLDS, why)


def _lives(samples: Iterable[ResourceSample], *, across: bool) -> Iterator[list[ResourceSample]]:
    """Yield the samples of each process, or of each node across its restarts.

    A node that is restarted often may get a pid again that an earlier life of it had.
    """
    latest: dict[int, list[ResourceSample]] = {}  # of each node
    for sample in samples:
        life = latest.get(sample.node)
        if life is not None and (across or life[-1].pid == sample.pid):
            life.append(sample)
            continue
        if life is not None:
            yield life
        latest[sample.node] = [sample]
    yield from latest.values()


def _growth(
    life: Sequence[ResourceSample], what: str, long_life_s: float
) -> tuple[int, float, float] | None:
    """Return the node and the medians of the first and last quarter after the warm-up."""
    lasted = life[-1].time - life[0].time
    settled = [each for each in life if each.time >= life[0].time + WARM_UP * lasted]
    if lasted < long_life_s * NS or len(settled) < FEWEST_SAMPLES:
        return None
    values = [getattr(each, what) for each in settled]
    quarter = len(values) // 4
    return life[0].node, median(values[:quarter]), median(values[-quarter:])


def _shown(value: float, limit: Limit) -> str:
    return f"{value / limit.scale:,.1f} {limit.unit}".strip() if limit.unit else f"{value:g}"

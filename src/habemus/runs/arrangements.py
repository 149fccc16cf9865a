"""Variations of a run beside its seed: the order of processes, their links and quorums, and the
durations of stays.
"""

from __future__ import annotations

import random

from habemus.catalog.entries import Entry
from habemus.core.system import TOPOLOGIES

HOLDS = ("1ms", "1ms", "30ms", "900ms")
"""Durations of stays inside.  Elections and leases take 100 ms and more, so only long stays meet a
take-over.
"""

LOCKSTEP = "1ms"
"""A constant delay, so that many events happen at the same moment and ties decide their order."""

_WAYS = {
    "order": ("random", "random", "increasing", "decreasing"),
    "arrangement": tuple(str(number) for number in range(100)),
    "topology": tuple(sorted(TOPOLOGIES)),
    "sets": ("plane-or-grid", "majority"),
}


def arrangement(entry: Entry, rng: random.Random) -> tuple[str, ...]:
    """Return random options for the order, the links and the quorums of processes, as far as the
    algorithm has such options.
    """
    variables = entry.algorithm.__variables__
    named = [
        name
        for name in _WAYS
        if name in entry.options and isinstance(variables[name].default, str | int)
    ]
    return tuple(f"{name}={rng.choice(_WAYS[name])}" for name in named)


__all__ = ["HOLDS", "LOCKSTEP", "arrangement"]

"""What a run of an algorithm may vary beside its seed: who stands where, who is linked to whom, and
how long stays last.
"""

from __future__ import annotations

import random

from habemus.catalog.entries import Entry
from habemus.core.system import TOPOLOGIES

HOLDS = ("1ms", "1ms", "30ms", "900ms")
"""How long each stays inside.  Elections and leases take 100 ms and more: a take-over meets
somebody inside only if that one stays.
"""

LOCKSTEP = "1ms"
"""A delay: every message takes as long as every other, so that much happens at the same moment, and
ties decide.
"""

_WAYS = {
    "order": ("random", "random", "increasing", "decreasing"),
    "arrangement": tuple(str(number) for number in range(100)),
    "topology": tuple(sorted(TOPOLOGIES)),
    "sets": ("plane-or-grid", "majority"),
}


def arrangement(entry: Entry, rng: random.Random) -> tuple[str, ...]:
    """Return options that say who stands where, is linked to whom and votes with whom; none where
    an algorithm has no such options.
    """
    variables = entry.algorithm.__variables__
    named = [
        name
        for name in _WAYS
        if name in entry.options and isinstance(variables[name].default, str | int)
    ]
    return tuple(f"{name}={rng.choice(_WAYS[name])}" for name in named)


__all__ = ["HOLDS", "LOCKSTEP", "arrangement"]

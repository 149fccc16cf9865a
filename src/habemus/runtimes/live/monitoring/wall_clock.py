"""The clock on the wall, for operators.

No lease, vote or record is decided by it: it can be set, and nodes may disagree.
"""

from __future__ import annotations

from time import time_ns


def wall_clock_ms() -> int:
    return time_ns() // 1_000_000

"""Faults of a simulated run, as typed values; a command writes them as `--crash 2@5ms`.

    from habemus.faults import Crash, Nth, Pause

    habemus.simulate("central", n=3, faults=[Crash(2, 5_000), Pause(1, Nth("Granted"), 20_000)])

Times are microseconds.  A fault strikes at a time, or at the k-th event of a process (`Nth`).
The delay of `Slow` is `Uniform`, `Exponential` or `HeavyTail`.
"""

from __future__ import annotations

from habemus.runtimes.sim.faults import (
    Crash,
    Cut,
    Fault,
    Heal,
    Nth,
    Pause,
    Recover,
    Replace,
    Skew,
    Slow,
    When,
    between,
    both_ways,
    one_way,
)
from habemus.runtimes.sim.network import Delay, Exponential, HeavyTail, Uniform

__all__ = [
    "Crash",
    "Cut",
    "Delay",
    "Exponential",
    "Fault",
    "Heal",
    "HeavyTail",
    "Nth",
    "Pause",
    "Recover",
    "Replace",
    "Skew",
    "Slow",
    "Uniform",
    "When",
    "between",
    "both_ways",
    "one_way",
]

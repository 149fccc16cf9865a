"""The clock of leases and timers: seconds since the machine booted, time asleep included.

The monotonic clock stops while a machine is suspended.  A lease counted by it would outlive its
time: after the resume, the client would believe that it holds a lock which the cluster has granted
to another client.  Linux has CLOCK_BOOTTIME; elsewhere the monotonic clock is used.  All processes
of a machine read the same clock; readings of different machines cannot be compared.

Call these functions through their module (`boottime.seconds()`), so that a test can suspend the
machine in one place.
"""

from __future__ import annotations

import time

if hasattr(time, "CLOCK_BOOTTIME"):
    from time import CLOCK_BOOTTIME, clock_gettime, clock_gettime_ns

    def seconds() -> float:
        """Return the seconds since the machine booted."""
        return clock_gettime(CLOCK_BOOTTIME)

    def nanoseconds() -> int:
        """Return the nanoseconds since the machine booted."""
        return clock_gettime_ns(CLOCK_BOOTTIME)

else:
    from time import monotonic as seconds
    from time import monotonic_ns as nanoseconds


def microseconds() -> int:
    """Return the microseconds since the machine booted."""
    return nanoseconds() // 1_000


LONGEST_WAIT = 0.25
"""Seconds after which to read this clock again: waits of the system do not count time asleep."""

__all__ = ["LONGEST_WAIT", "microseconds", "nanoseconds", "seconds"]

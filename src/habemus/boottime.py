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

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from functools import partial
else:
    from _functools import partial  # `habemus lock` does without the import of functools

if hasattr(time, "CLOCK_BOOTTIME"):
    # Partial calls, because a function of Python would take twice as long as the clock itself.
    seconds: Callable[[], float] = partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    nanoseconds: Callable[[], int] = partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME)
else:
    seconds, nanoseconds = time.monotonic, time.monotonic_ns


def microseconds() -> int:
    """Return the microseconds since the machine booted."""
    return nanoseconds() // 1_000


def boot_id() -> bytes:
    """Return the 16 bytes by which the system names this boot of the machine; empty if it has
    none.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return bytes.fromhex(file.read().strip().replace("-", ""))
    except OSError:
        return b""


LONGEST_WAIT = 0.25
"""Seconds after which to read this clock again: waits of the system do not count time asleep."""


class Deadline:
    """The end of a timeout; None: there is none."""

    def __init__(self, timeout: float | None) -> None:
        self.at = None if timeout is None else seconds() + timeout

    def left(self) -> float | None:
        """Return the seconds until then, 0 afterwards."""
        return None if self.at is None else max(0.0, self.at - seconds())


__all__ = ["LONGEST_WAIT", "Deadline", "boot_id", "microseconds", "nanoseconds", "seconds"]

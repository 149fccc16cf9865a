"""An event loop on virtual time: nobody waits for a timer, and a machine that stalls loses no time.

When nothing is ready, the clock of the loop jumps towards the next timer.  Sockets and threads are
real.  Before each jump the loop gives the kernel a moment to report something.  A thread may take
longer: as long as it is known to work, the clock goes no faster than that on the wall.  Each report
takes a little virtual time, so that sockets that are never quiet do not stop the clock.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from math import ceil
from typing import Any

MOMENT_SECONDS = 0.001
LEAP_SECONDS = 0.1
"""The longest jump.  A long wait takes many, so that a socket that reports late is heard long
before the wait is over.
"""
REPORT_US = 50
HANGS_SECONDS = 120.0
"""Without a timer, only a socket or a thread can go on.  A loop that has waited so long for one is
taken to hang.
"""

Ready = list[tuple[selectors.SelectorKey, int]]


class _Selector(selectors.DefaultSelector):
    """Waits for what is real, and counts the time that a loop would have waited without it."""

    def __init__(self) -> None:
        super().__init__()
        self.now_us = 0
        self.works: list[Callable[[], bool]] = []

    def select(self, timeout: float | None = None) -> Ready:
        if timeout is None:
            ready = super().select(HANGS_SECONDS)
            if not ready:
                raise RuntimeError(
                    f"nothing has happened for {HANGS_SECONDS} s, and no timer is set"
                )
        else:
            timeout = min(timeout, LEAP_SECONDS)
            is_real = any(works() for works in self.works)
            ready = super().select(timeout if is_real else min(timeout, MOMENT_SECONDS))
        self.now_us += REPORT_US if ready or timeout is None else ceil(timeout * 1_000_000)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def now_us(self) -> int:
        """Return the time on the clock of the loop in microseconds."""
        return self._virtual.now_us

    def time(self) -> float:
        return self._virtual.now_us / 1_000_000

    def wait_for_thread(self, works: Callable[[], bool]) -> None:
        """Do not jump while a thread works."""
        self._virtual.works.append(works)


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run as `asyncio.run` does, on virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main)

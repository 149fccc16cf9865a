"""A rate limit for log records about the behaviour of peers and clients.

In each period the first records are logged.  The others are counted, and the count is logged at
the end of the period.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

log = logging.getLogger("habemus.live")

PERIOD_SECONDS = 60.0
MOST_IN_PERIOD = 20


class RateLimitedLog:
    """Logs at most `MOST_IN_PERIOD` records per period."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._logged = 0
        self._suppressed = 0
        self._end: asyncio.TimerHandle | None = None

    def warning(self, text: str, *arguments: object, **more: Any) -> None:
        self._log(logging.WARNING, text, arguments, more)

    def info(self, text: str, *arguments: object, **more: Any) -> None:
        self._log(logging.INFO, text, arguments, more)

    def _log(
        self, level: int, text: str, arguments: tuple[object, ...], more: dict[str, Any]
    ) -> None:
        if self._end is None:
            self._end = self._loop.call_later(PERIOD_SECONDS, self._end_period)
        if self._logged < MOST_IN_PERIOD:
            self._logged += 1
            log.log(level, text, *arguments, **more)
        else:
            self._suppressed += 1

    def _end_period(self) -> None:
        suppressed, self._logged, self._suppressed, self._end = self._suppressed, 0, 0, None
        if suppressed:
            log.warning(
                "suppressed %d more warnings of the last %.0f s", suppressed, PERIOD_SECONDS
            )

    def close(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end_period()

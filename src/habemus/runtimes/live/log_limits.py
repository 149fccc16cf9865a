"""Warnings about what others do: few enough that noise does not fill the log, and never silent for
good.

In each period the first warnings are logged.  The rest are counted, and the count is logged when
the period is over.
"""

from __future__ import annotations

import asyncio
import logging

log = logging.getLogger("habemus.live")

PERIOD_SECONDS = 60.0
MOST_IN_PERIOD = 20


class RateLimitedLog:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._logged = 0
        self._left_out = 0
        self._end: asyncio.TimerHandle | None = None

    def warning(self, text: str, *arguments: object) -> None:
        if self._end is None:
            self._end = self._loop.call_later(PERIOD_SECONDS, self._begin_anew)
        if self._logged < MOST_IN_PERIOD:
            self._logged += 1
            log.warning(text, *arguments)
        else:
            self._left_out += 1

    def _begin_anew(self) -> None:
        left_out, self._logged, self._left_out, self._end = self._left_out, 0, 0, None
        if left_out:
            log.warning(
                "%d more warnings of the last %.0f s were left out", left_out, PERIOD_SECONDS
            )

    def close(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._begin_anew()

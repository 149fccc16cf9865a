"""Notifications to systemd, if it has started the node (`Type=notify`, `WatchdogSec=`).

The protocol is one datagram of `NAME=VALUE` lines on the socket that `NOTIFY_SOCKET` names; see
sd_notify(3).  Elsewhere nothing is sent.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Mapping
from time import monotonic_ns

log = logging.getLogger("habemus.live")


class ServiceManager:
    """The socket of systemd; notifications are dropped if there is none."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._path = environment.get("NOTIFY_SOCKET", "")
        is_watched = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        usec = environment.get("WATCHDOG_USEC", "") if is_watched else ""
        self._watchdog_seconds = int(usec) / 1e6 if usec.isdecimal() else 0.0

    def notify(self, **values: str | int) -> None:
        """Send names and values; an error is logged and has no other effect."""
        if not self._path:
            return
        place = "\0" + self._path[1:] if self._path.startswith("@") else self._path
        text = "\n".join(f"{name}={value}" for name, value in values.items())
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.settimeout(1.0)
                sender.sendto(text.encode(), place)
        except OSError as reason:
            log.warning("cannot notify the service manager at %s: %s", self._path, reason)

    def reloading(self) -> None:
        self.notify(RELOADING=1, MONOTONIC_USEC=monotonic_ns() // 1_000)

    async def feed_watchdog(self) -> None:
        """Send a sign of life twice per period, from the event loop whose health it shows."""
        while self._watchdog_seconds:
            self.notify(WATCHDOG=1)
            await asyncio.sleep(self._watchdog_seconds / 2)

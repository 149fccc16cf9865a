"""Notifications as systemd receives them."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from habemus.runtimes.live.monitoring.service_manager import ServiceManager


def test_notifications_and_watchdog(tmp_path: Path) -> None:
    place = str(tmp_path / "notify")
    environment = {
        "NOTIFY_SOCKET": place,
        "WATCHDOG_USEC": "20000",
        "WATCHDOG_PID": str(os.getpid()),
    }
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(place)
        manager = ServiceManager(environment)
        manager.notify(READY=1, STATUS="up")
        assert systemd.recv(1_000) == b"READY=1\nSTATUS=up"
        manager.reloading()
        assert systemd.recv(1_000).startswith(b"RELOADING=1\nMONOTONIC_USEC=")

        async def run() -> None:
            feeding = asyncio.create_task(manager.feed_watchdog())
            systemd.setblocking(False)
            for _ in range(3):
                assert await asyncio.get_running_loop().sock_recv(systemd, 1_000) == b"WATCHDOG=1"
            feeding.cancel()

        asyncio.run(run())


@pytest.mark.parametrize("name", ["", "/nowhere/at/all", "@habemus-test-nowhere"])
def test_a_node_does_not_depend_on_the_manager(name: str) -> None:
    other = ServiceManager({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"})
    other.notify(READY=1)
    asyncio.run(asyncio.wait_for(other.feed_watchdog(), 5))  # another process is watched

"""What all connections have in common: addresses, options and times."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import NamedTuple

HANDSHAKE_SECONDS = 5.0
UNACKNOWLEDGED_MS = 15_000
"""A connection whose bytes nobody acknowledges for so long is given up."""


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Whether only processes of this machine can reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def tune(transport: asyncio.Transport) -> None:
    """No waiting for more bytes; and a peer that has vanished without a word is noticed."""
    found = transport.get_extra_info("socket")
    if found is not None and found.family in (socket.AF_INET, socket.AF_INET6):
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", UNACKNOWLEDGED_MS)):
            if hasattr(socket, name):  # not every system has all of them
                found.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

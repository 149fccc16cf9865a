"""What all connections have in common: addresses, options and times."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import socket
import stat
import sys
from pathlib import Path
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


def local_socket(path: Path) -> socket.socket:
    """A socket at a path, for the same user only.  One that a dead process left behind is replaced,
    a living one's is not.
    """
    made = socket.socket(socket.AF_UNIX)
    folder = os.open(
        path.parent, os.O_RDONLY
    )  # the name of a socket is at most a hundred bytes long, and paths are longer
    try:
        _check_place(folder, path)
        short = f"/proc/self/fd/{folder}/{path.name}" if sys.platform == "linux" else str(path)
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(short)
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)
            except FileNotFoundError:
                pass
            else:
                raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), str(path))
        before = os.umask(0o177)
        try:
            made.bind(short)
        finally:
            os.umask(before)
    except BaseException as reason:
        made.close()
        if isinstance(reason, OSError):
            reason.filename = str(path)  # not that of the shorter name
        raise
    finally:
        os.close(folder)
    return made


def _check_place(folder: int, path: Path) -> None:
    """`OSError` if another user could replace the socket, or has put something else in its place."""
    mode = os.fstat(folder).st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise PermissionError(
            errno.EPERM, "every user can write to the folder of the socket", str(path.parent)
        )
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
        raise FileExistsError(
            errno.EEXIST, "there is something else than a socket of this user", str(path)
        )


def tune(transport: asyncio.Transport) -> None:
    """No waiting for more bytes; and a peer that has vanished without a word is noticed."""
    found = transport.get_extra_info("socket")
    if found is not None and found.family in (socket.AF_INET, socket.AF_INET6):
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (
            ("TCP_KEEPIDLE", 5),
            ("TCP_KEEPINTVL", 5),
            ("TCP_KEEPCNT", 3),
            ("TCP_USER_TIMEOUT", UNACKNOWLEDGED_MS),
        ):
            if hasattr(socket, name):  # not every system has all of them
                found.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def origin(transport: asyncio.Transport | None) -> str:
    """Where a connection of the network comes from, to be put behind who it is; nothing for that of
    a local socket.
    """
    name = None if transport is None else transport.get_extra_info("peername")
    return f" at {Address(*name[:2])}" if isinstance(name, tuple) else ""

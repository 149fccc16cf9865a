"""Addresses, socket options and timeouts of all connections."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import resource
import socket
import stat
import sys
from contextlib import suppress
from pathlib import Path

from habemus.runtimes.live.cluster_file import Address

HANDSHAKE_SECONDS = 5.0
ENOUGH_DESCRIPTORS = 65_536
"""Descriptors of the most clients and peers that a node may have."""
UNACKNOWLEDGED_MS = 15_000
"""Time after which a connection with unacknowledged bytes is closed."""


def share_of_descriptors(share: int) -> int:
    """Return one of so many of the descriptors that this process may have, at least one."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if limit == resource.RLIM_INFINITY else max(1, limit // share)


def raise_descriptor_limit() -> None:
    """Let this process have as many descriptors as a node may need, if the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(ENOUGH_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # macOS allows less than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def is_loopback(host: str) -> bool:
    """Return whether only processes of this machine can reach the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def local_socket(path: Path) -> socket.socket:
    """Return a socket bound to a path, for the same user only.  A stale socket is replaced, one in
    use is not.
    """
    made = socket.socket(socket.AF_UNIX)
    # bound relative to the folder: the address of a socket has at most about 100 bytes
    folder = os.open(path.parent, os.O_RDONLY)
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
            reason.filename = str(path)  # instead of the short name
        raise
    finally:
        os.close(folder)
    return made


def _check_place(folder: int, path: Path) -> None:
    """Raise `OSError` if another user could replace the socket, or the path is something else."""
    mode = os.fstat(folder).st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise PermissionError(
            errno.EPERM,
            "folder of the socket is writable by every user; run chmod o-w",
            str(path.parent),
        )
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
        raise FileExistsError(
            errno.EEXIST, "exists and is not a socket of this user; remove it", str(path)
        )


def tune(transport: asyncio.Transport) -> None:
    """Disable Nagle's algorithm, and detect peers that have crashed silently."""
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
            if hasattr(socket, name):  # depends on the system
                found.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def origin(transport: asyncio.Transport | None) -> str:
    """Return " at HOST:PORT" of a network connection for a log line; empty for a local socket."""
    name = None if transport is None else transport.get_extra_info("peername")
    return f" at {Address(*name[:2])}" if isinstance(name, tuple) else ""

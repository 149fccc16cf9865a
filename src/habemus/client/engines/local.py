"""Locks between the processes of one machine, by the kernel's file locks, without any server.

A lock is a file.  A request takes the next ticket, a number that the file counts, and locks the
byte of that number.  It is granted when no byte of a smaller number is locked: first come, first
served.  The kernel unlocks the byte when the process ends, however that happens.  The ticket is
the fencing token.

The locks are those of open file descriptions (`F_OFD_SETLK`): two threads of one process exclude
each other, and closing another descriptor of the file does not unlock it.  The child of a fork
closes the descriptors that it has inherited.

Tickets survive a crash of the machine, although they are not synced one by one.  The upper half of
a ticket counts the starts of the machine: it is increased, and synced, before the first ticket
after a start is given out.

Waiting takes no polling: a thread waits in the kernel for the byte of the request before its own.
A thread in there cannot be interrupted, so a request with a timeout leaves it to a thread that all
requests of this process for the same byte share, and that ends when the byte is free.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from time import time_ns
from urllib.parse import quote, unquote, urlsplit

from habemus import boottime
from habemus.client.backend import LockState
from habemus.client.credentials import Credentials
from habemus.client.engines.engine import Engine, EngineGrant, LockGone, Wait, WaitOver
from habemus.client.errors import RefusedByNode, Unreachable
from habemus.runtimes.live.default_cluster import check_own, last_file

MAGIC = b"habemus1"
HEAD = struct.Struct("<8sQQ16s")
"""The start of a file: magic, last ticket, size of the semaphore, start of the machine."""
HOLDER_AT = 64
HOLDER = struct.Struct("<QQIH")
"""The holder: ticket, time in microseconds, process, length of the label that follows."""
LABEL_LIMIT = 300
KEY_AT = 512
KEY_LIMIT = 1_024
FLOCK = struct.Struct("hhqqi4x")
"""`struct flock` of 64-bit Linux."""
STARTS = 32
"""Bits of a ticket that count within one start of the machine."""
NAME_LIMIT = 200
ENDING = ".lock"
BEAT_MS = 1_000
"""Time between two looks whether the file of a held lock is still in its folder."""


def _boot() -> bytes:
    """Return the id of this start of the machine; empty if the system has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
            return bytes.fromhex(file.read().strip().replace("-", ""))
    except OSError:
        return b""


# Descriptors.

_FORKING = threading.Lock()
_OPEN: set[int] = set()  # descriptors to close in the child of a fork
_SHARED: list[bool] = []  # not empty if children keep the locks of this process


def _opened(path: str, flags: int) -> int:
    with _FORKING:
        made = os.open(path, flags | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        _OPEN.add(made)
    return made


def _close(file: int) -> None:
    """Unlock and close: a child that is just being forked may have a copy of the descriptor."""
    _set_lock(file, fcntl.F_OFD_SETLK, fcntl.F_UNLCK, 0, 0)
    with _FORKING:
        _OPEN.discard(file)
        os.close(file)


def _close_in_child() -> None:
    for file in [] if _SHARED else list(_OPEN):
        with suppress(OSError):
            os.close(file)
    _OPEN.clear()
    _WAITERS.clear()
    if _WAITING.locked():  # by another thread of the parent
        _WAITING.release()
    _FORKING.release()


os.register_at_fork(
    before=_FORKING.acquire, after_in_parent=_FORKING.release, after_in_child=_close_in_child
)


def _set_lock(file: int, command: int, kind: int, start: int, length: int) -> None:
    fcntl.fcntl(file, command, FLOCK.pack(kind, os.SEEK_SET, start, length, 0))


class _Exclusive:
    """The first byte of a file, held for the moment in which its content changes."""

    def __init__(self, file: int) -> None:
        self._file = file

    def __enter__(self) -> None:
        _set_lock(self._file, fcntl.F_OFD_SETLKW, fcntl.F_WRLCK, 0, 1)

    def __exit__(self, *_: object) -> None:
        _set_lock(self._file, fcntl.F_OFD_SETLK, fcntl.F_UNLCK, 0, 1)


def _locked_byte(file: int, start: int, end: int) -> int | None:
    """Return a ticket from start to end whose byte another descriptor has locked, or None."""
    if end < start:
        return None
    probe = FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, start, end - start + 1, 0)
    kind, _, found, _, _ = FLOCK.unpack(fcntl.fcntl(file, fcntl.F_OFD_GETLK, probe))
    return None if kind == fcntl.F_UNLCK else int(found)


# Waiting for a byte.


class _ByteWaiter(threading.Thread):
    """A thread in the kernel that waits until a byte of a file is unlocked."""

    def __init__(self, key: tuple[str, int], file: int) -> None:
        super().__init__(name="habemus-waiter", daemon=True)
        self.key = key
        self.file = file
        self.wakes: list[threading.Event] = []

    def run(self) -> None:
        _set_lock(self.file, fcntl.F_OFD_SETLKW, fcntl.F_RDLCK, self.key[1], 1)
        _close(self.file)
        with _WAITING:
            _WAITERS.pop(self.key, None)
            for wake in self.wakes:
                wake.set()


_WAITING = threading.Lock()
_WAITERS: dict[tuple[str, int], _ByteWaiter] = {}


def _wake_when_free(path: str, ticket: int, wake: threading.Event) -> None:
    """Set the event when the byte of a ticket is free; it may be free already."""
    key = (path, ticket)
    with _WAITING:
        waiter = _WAITERS.get(key)
        if waiter is not None:
            waiter.wakes.append(wake)
            return
        try:
            waiter = _ByteWaiter(key, _opened(path, 0))
        except FileNotFoundError:
            wake.set()
            return
        waiter.wakes.append(wake)
        _WAITERS[key] = waiter
        waiter.start()


def _forget_wake(wake: threading.Event) -> None:
    with _WAITING:
        for waiter in _WAITERS.values():
            with suppress(ValueError):
                waiter.wakes.remove(wake)


def _wait_for(path: str, tickets: Sequence[int], wait: Wait) -> None:
    """Wait until the byte of one of the tickets is free."""
    wake = threading.Event()
    try:
        with wait.waking(wake.set):
            for ticket in tickets:
                _wake_when_free(path, ticket, wake)
            while not wake.wait(wait.longest(boottime.LONGEST_WAIT)):
                pass
    finally:
        _forget_wake(wake)
    wait.left()


def _block_on(path: str, ticket: int) -> None:
    """Wait in this thread until the byte of a ticket is free."""
    with suppress(FileNotFoundError):
        file = _opened(path, 0)
        try:
            _set_lock(file, fcntl.F_OFD_SETLKW, fcntl.F_RDLCK, ticket, 1)
        finally:
            _close(file)


# The engine.


class LocalEngine(Engine):
    """The kernel of this machine."""

    lease_ms = None
    beat_ms = BEAT_MS
    is_quick = True

    def __init__(self, url: str, credentials: Credentials) -> None:
        if not hasattr(fcntl, "F_OFD_SETLK") or struct.calcsize("P") != 8:
            raise ValueError("local locks need 64-bit Linux: use a cluster, or another engine")
        parts = urlsplit(url)
        if parts.netloc or parts.query or parts.fragment:
            raise ValueError(f"{url!r} is not a folder of local locks: write local:///path")
        own = os.path.join(os.path.dirname(last_file()), "local")  # noqa: PTH118, PTH120
        self._folder = unquote(parts.path) if parts.scheme and parts.path else own
        self.shown = f"local ({self._folder})"
        self._boot = _boot()
        self._is_checked = False

    def connect(self) -> None:
        """Make the folder, and check that no other user can change it."""
        try:
            os.makedirs(os.path.dirname(self._folder) or ".", exist_ok=True)  # noqa: PTH103, PTH120
            with suppress(FileExistsError):
                os.mkdir(self._folder, 0o700)  # noqa: PTH102
            check_own(self._folder)
        except ValueError as reason:
            raise RefusedByNode(str(reason)) from None
        except OSError as reason:
            raise Unreachable(f"{self._folder}: {reason.strerror}") from None
        self._is_checked = True

    def _path(self, key: str) -> str:
        return f"{self._folder}/{_file_name(key)}"

    def acquire(self, key: str, label: str, lease: float | None, wait: Wait) -> EngineGrant:
        if not self._is_checked:
            self.connect()
        path = self._path(key)
        while True:
            try:
                file = _opened(path, os.O_CREAT)
            except FileNotFoundError:  # the folder was deleted
                self.connect()
                continue
            except OSError as reason:
                raise RefusedByNode(f"{path}: {reason.strerror}") from None
            try:
                grant = self._queue(file, path, key, label, wait)
            except BaseException:
                _close(file)
                raise
            if not self.is_gone(grant):
                return grant
            _close(file)  # another process has deleted the file; those who come now use another

    def _queue(self, file: int, path: str, key: str, label: str, wait: Wait) -> EngineGrant:
        grant = EngineGrant(key, 0, boottime.microseconds(), None, (file, path))
        left = wait.left()
        with _Exclusive(file):
            last, size = self._head(file, path, key)
            before = _locked_byte(file, 1, last)
            if before is not None and left == 0:
                raise WaitOver
            ticket = grant.token = last + 1
            _set_lock(file, fcntl.F_OFD_SETLK, fcntl.F_WRLCK, ticket, 1)
            head = HEAD.pack(MAGIC, ticket, size, self._boot)
            if before is None:
                head = head.ljust(HOLDER_AT, b"\0") + _holder(ticket, label)
            os.pwrite(file, head, 0)
            if not ticket % (1 << STARTS) or not self._boot:
                os.fsync(file)
            if before is None:
                return grant
        before = ticket - 1  # mostly the last in the queue
        while before is not None:
            if left is None and wait.is_plain:
                _block_on(path, before)
            else:
                _wait_for(path, [before], wait)
            before = _locked_byte(file, 1, ticket - 1)
        os.pwrite(file, _holder(ticket, label), HOLDER_AT)
        return grant

    def _head(self, file: int, path: str, key: str) -> tuple[int, int]:
        """Return the last ticket and the size; begin to count anew after a start of the machine."""
        found = os.pread(file, HEAD.size, 0)
        if not found:
            os.pwrite(file, key.encode().ljust(KEY_LIMIT, b"\0"), KEY_AT)
            last, size, boot = 0, 0, b"new"
        else:
            magic, last, size, boot = _unpacked(found)
            if magic != MAGIC:
                raise RefusedByNode(f"{path} is damaged, or not the file of a lock; see to it")
        if boot != self._boot.ljust(16, b"\0"):
            last = ((last >> STARTS) + 1) << STARTS
            self._write_head(file, last, size, synced=True)
            self._sync_folder()
        return last, size

    def _write_head(self, file: int, last: int, size: int, *, synced: bool = False) -> None:
        os.pwrite(file, HEAD.pack(MAGIC, last, size, self._boot), 0)
        if synced:
            os.fsync(file)

    def _sync_folder(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def renew(self, grant: EngineGrant) -> None:
        file, path = grant.handle
        try:
            is_there = os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(file))  # noqa: PTH116
        except OSError:
            is_there = False
        if not is_there:
            raise LockGone(f"{path} was deleted or replaced")

    def is_gone(self, grant: EngineGrant) -> bool:
        """Return whether the file of a lock was deleted or replaced."""
        try:
            return os.fstat(grant.handle[0]).st_nlink == 0
        except OSError:  # it was released by another thread
            return True

    def release(self, grant: EngineGrant) -> None:
        is_gone = self.is_gone(grant)
        self.drop(grant)
        if is_gone:
            raise LockGone(f"{grant.handle[1]} was deleted or replaced")

    def drop(self, grant: EngineGrant) -> None:
        file, path = grant.handle
        if file >= 0:
            grant.handle = (-1, path)
            _close(file)

    def await_change(self, keys: Sequence[str], wait: Wait) -> None:
        wake = threading.Event()
        try:
            with wait.waking(wake.set):
                for key in keys:
                    holder = self._look(key)[0]
                    if holder is None:
                        return
                    _wake_when_free(self._path(key), holder, wake)
                while not wake.wait(wait.longest(boottime.LONGEST_WAIT)):
                    pass
        finally:
            _forget_wake(wake)

    def agreed_size(self, key: str, size: int | None) -> int | None:
        self.connect()
        path = self._path(key)
        file = _opened(path, os.O_CREAT)
        try:
            with _Exclusive(file):
                last, stored = self._head(file, path, key)
                if not stored and size is not None:
                    stored = size
                    self._write_head(file, last, stored, synced=True)
            return stored or None
        finally:
            _close(file)

    # Looking.

    def _look(self, key: str) -> tuple[int | None, LockState, int]:
        """Return the ticket of the holder, the state, and the process of the holder."""
        free = LockState(None, None, None, 0)
        try:
            file = _opened(self._path(key), 0)
        except OSError:
            return None, free, 0
        try:
            head = os.pread(file, HEAD.size, 0)
            if len(head) < HEAD.size:
                return None, free, 0
            tickets = sorted(_locked_bytes(file, 1, _unpacked(head)[1]))
            content = os.pread(file, HOLDER.size + LABEL_LIMIT, HOLDER_AT)
        finally:
            _close(file)
        if not tickets:
            return None, free, 0
        holder, process = "a process", 0
        if len(content) >= HOLDER.size:
            ticket, _, found, length = HOLDER.unpack_from(content)
            if ticket == tickets[0]:
                holder = content[HOLDER.size : HOLDER.size + length].decode(errors="replace")
                process = found
        return tickets[0], LockState(holder, None, tickets[0], len(tickets) - 1), process

    def state(self, key: str) -> LockState:
        return self._look(key)[1]

    def held(self) -> dict[str, LockState]:
        self.connect()
        found = {}
        for name in sorted(os.listdir(self._folder)):  # noqa: PTH208
            if name.endswith(ENDING):
                key = self._key_in(f"{self._folder}/{name}")
                state = self.state(key)
                if state.holder is not None:
                    found[key] = state
        return found

    @staticmethod
    def _key_in(path: str) -> str:
        with open(path, "rb") as file:  # noqa: PTH123
            file.seek(KEY_AT)
            return file.read(KEY_LIMIT).rstrip(b"\0").decode(errors="replace")

    def force(self, key: str) -> str | None:
        _, state, process = self._look(key)
        if state.holder is None:
            return None
        raise RefusedByNode(
            f"a local lock cannot be taken away from a process that runs: end process {process}"
            f" ({state.holder}), which frees the lock at once"
        )

    def close(self) -> None:
        """Do nothing: every lock has a file of its own."""

    def share_with_children(self) -> None:
        _SHARED.append(True)

    def abandon(self) -> None:
        """Do nothing: the descriptors are closed already."""


@lru_cache(1_000)
def _file_name(key: str) -> str:
    name = quote(key, safe="")
    if len(name) > NAME_LIMIT:
        name = f"{name[:100]}~{sha256(key.encode()).hexdigest()}"
    return name + ENDING


def _holder(ticket: int, label: str) -> bytes:
    """Return what the file says about the holder."""
    shown = label.encode()[:LABEL_LIMIT]
    return HOLDER.pack(ticket, time_ns() // 1_000, os.getpid(), len(shown)) + shown


def _locked_bytes(file: int, start: int, end: int) -> list[int]:
    found = _locked_byte(file, start, end)
    if found is None:
        return []
    return [
        found,
        *_locked_bytes(file, start, found - 1),
        *_locked_bytes(file, found + 1, end),
    ]


def _unpacked(head: bytes) -> tuple[bytes, int, int, bytes]:
    magic, last, size, boot = HEAD.unpack(head.ljust(HEAD.size, b"\0"))
    return magic, last, size, boot

"""Locks between the processes of one machine, by the kernel's file locks, without any server.

A lock is a file.  The holder has the kernel's lock on its byte HOLD.  A request that finds the byte
locked, or other requests before it, takes the next ticket and locks the byte of that ticket.  Who
has the smallest ticket waits for HOLD: first come, first served.  The kernel unlocks the bytes when
the process ends, however that happens.

The locks are those of open file descriptions (`F_OFD_SETLK`): two threads of one process exclude
each other, and closing another descriptor of the file does not unlock it.  A descriptor is kept for
the next request when its lock is released.  The child of a fork closes the descriptors that it has
inherited.

The token is a number in the file that the holder increments.  Tokens survive a crash of the
machine, although they are not synced one by one.  The upper half of a token counts the starts of
the machine: it is increased, and synced, before the first token after a start is given out.  A new
file appears complete and synced, so one that is empty was cut off, and its tokens are lost.

Waiting takes no polling: a thread waits in the kernel for HOLD, or for the byte of the request
before its own.  A thread in there cannot be interrupted, so a request with a timeout leaves it to a
thread that all requests of this process for the same byte share, and that ends when the byte is
free.
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
from time import sleep
from urllib.parse import quote, unquote, urlsplit

from habemus import boottime
from habemus.client.backend import LockState
from habemus.client.credentials import Credentials
from habemus.client.engines import without_password
from habemus.client.engines.engine import Engine, EngineGrant, LockGone, Wait, WaitOver
from habemus.client.errors import RefusedByNode, Unreachable
from habemus.runtimes.live.default_cluster import check_own, last_file

MAGIC = b"habemus2"
QUEUE = struct.Struct("<8sQQ")
"""The start of a file: magic, last ticket, size of the semaphore.  It is written under GATE."""
HOLDER_AT = 64
HOLDER = struct.Struct("<QQ16sIH")
"""The holder: token, last ticket that does not wait any more, start of the machine, process (0 if
the lock was released), length of the label that follows.  It is written under HOLD."""
BOTH = struct.Struct("<8sQQ40xQQ16sIH")
"""Both of these."""
PROCESS_AT = HOLDER_AT + 32
FREE = bytes(4)
LABEL_LIMIT = 300
KEY_AT = 512
KEY_LIMIT = 1_024
GATE, HOLD, TICKETS = 0, 1, 2
"""Bytes that are locked: to change the queue, to hold the lock, and from this one on by tickets."""
FLOCK = struct.Struct("hhqqi4x")
"""`struct flock` of 64-bit Linux."""
STARTS = 32
"""Bits of a token that count within one start of the machine."""
TRIES, MOMENT = 100, 0.001
"""Attempts of a request that does not wait, if only a thread that notices is in its way; seconds
between two of them."""
IDLE = 64
"""Descriptors that are kept open for the next request."""
NAME_LIMIT = 200
ENDING = ".lock"
BEAT_MS = 1_000
"""Time between two looks whether the file of a held lock is still in its folder."""


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


TAKE = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, HOLD, 1, 0)
LEAVE = FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, HOLD, 1, 0)


class _Exclusive:
    """The gate of a file, held for the moment in which its queue changes."""

    def __init__(self, file: int) -> None:
        self._file = file

    def __enter__(self) -> None:
        _set_lock(self._file, fcntl.F_OFD_SETLKW, fcntl.F_WRLCK, GATE, 1)

    def __exit__(self, *_: object) -> None:
        _set_lock(self._file, fcntl.F_OFD_SETLK, fcntl.F_UNLCK, GATE, 1)


def _locked_ticket(file: int, start: int, end: int) -> int | None:
    """Return a ticket from start to end whose byte another descriptor has locked, or None."""
    if end < start:
        return None
    probe = FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, TICKETS + start, end - start + 1, 0)
    kind, _, found, _, _ = FLOCK.unpack(fcntl.fcntl(file, fcntl.F_OFD_GETLK, probe))
    return None if kind == fcntl.F_UNLCK else int(found) - TICKETS


def _ticket_before(file: int, ticket: int) -> int | None:
    """Return a smaller ticket that is still waiting, the next smaller one if it is; or None."""
    before = _locked_ticket(file, ticket - 1, ticket - 1)
    return _locked_ticket(file, 1, ticket - 2) if before is None else before


def _lock_on_hold(file: int) -> int:
    """Return the kind of lock that another descriptor has on HOLD: that of a holder (F_WRLCK), or
    of a thread that notices that it is free (F_RDLCK).
    """
    kind: int = FLOCK.unpack(fcntl.fcntl(file, fcntl.F_OFD_GETLK, TAKE))[0]
    return kind


def _takes_hold(file: int) -> bool:
    """Lock HOLD if it is free; return whether it was."""
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, TAKE)
    except (BlockingIOError, PermissionError):
        return False
    return True


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


def _wake_when_free(path: str, byte: int, wake: threading.Event) -> None:
    """Set the event when a byte is free; it may be free already."""
    key = (path, byte)
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


def _wait_for(file: int, path: str, byte: int, wait: Wait) -> None:
    """Wait until a byte may be free.  HOLD is taken, unless the wait has an end."""
    if wait.deadline.at is None and wait.is_plain:
        kind = fcntl.F_WRLCK if byte == HOLD else fcntl.F_RDLCK
        _set_lock(file, fcntl.F_OFD_SETLKW, kind, byte, 1)
        if byte != HOLD:
            _set_lock(file, fcntl.F_OFD_SETLK, fcntl.F_UNLCK, byte, 1)
        return
    wake = threading.Event()
    try:
        with wait.waking(wake.set):
            _wake_when_free(path, byte, wake)
            while not wake.wait(wait.longest(boottime.LONGEST_WAIT)):
                pass
    finally:
        _forget_wake(wake)
    wait.left()


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
            shown = without_password(url)
            raise ValueError(f"{shown!r} is not a folder of local locks: write local:///path")
        own = os.path.join(os.path.dirname(last_file()), "local")
        self._folder = unquote(parts.path) if parts.scheme and parts.path else own
        self.shown = f"local ({self._folder})"
        self._boot = boottime.boot_id()
        self._boot_id = self._boot.ljust(16, b"\0")
        self._is_checked = False
        self._idle: dict[str, list[int]] = {}  # by path

    def connect(self) -> None:
        """Make the folder, and check that no other user can change it."""
        try:
            os.makedirs(os.path.dirname(self._folder) or ".", exist_ok=True)
            with suppress(FileExistsError):
                os.mkdir(self._folder, 0o700)
            check_own(self._folder)
        except ValueError as reason:
            raise RefusedByNode(str(reason)) from None
        except OSError as reason:
            raise Unreachable(
                f"{self._folder}: {reason.strerror}; name a folder that you may write to:"
                " local:///path"
            ) from None
        self._is_checked = True

    def _path(self, key: str) -> str:
        return f"{self._folder}/{_file_name(key)}"

    def _file(self, path: str, key: str) -> int:
        """Return a descriptor of the file that no other request uses."""
        with suppress(KeyError, IndexError):
            return self._idle[path].pop()
        while True:
            try:
                return _opened(path, 0)
            except FileNotFoundError:
                self._make(path, key)
            except OSError as reason:
                raise RefusedByNode(f"{path}: {reason.strerror}") from None

    def _make(self, path: str, key: str) -> None:
        """Make the file of a lock, unless another process has just done so."""
        draft = f"{self._folder}/new-{os.urandom(8).hex()}"
        try:
            file = _opened(draft, os.O_CREAT | os.O_EXCL)
        except FileNotFoundError:  # the folder was deleted
            return self.connect()
        except OSError as reason:
            raise RefusedByNode(f"{draft}: {reason.strerror}") from None
        try:
            head = BOTH.pack(MAGIC, 0, 0, 1 << STARTS, 0, self._boot_id, 0, 0)
            os.pwrite(file, head.ljust(KEY_AT, b"\0") + key.encode().ljust(KEY_LIMIT, b"\0"), 0)
            os.fsync(file)
            with suppress(FileExistsError):
                os.link(draft, path)
            os.unlink(draft)
            self._sync_folder()
        except OSError as reason:
            raise RefusedByNode(f"{path}: {reason.strerror}") from None
        finally:
            _close(file)

    def _put_back(self, file: int, path: str) -> None:
        if len(self._idle) >= IDLE and path not in self._idle:
            self.close()
        idle = self._idle.setdefault(path, [])
        if idle:
            _close(file)  # one for each lock is enough
        else:
            idle.append(file)

    def acquire(self, key: str, label: str, lease: float | None, wait: Wait) -> EngineGrant:
        if not self._is_checked:
            self.connect()
        path = self._path(key)
        while True:
            file = self._file(path, key)
            grant = EngineGrant(key, 0, 0, None, (file, path))
            try:
                grant.token = self._granted(file, path, label, wait)
            except BaseException as reason:
                _close(file)
                if isinstance(reason, OSError):
                    raise RefusedByNode(f"{path}: {reason.strerror}") from None
                raise
            if not self.is_gone(grant):
                return grant
            _close(file)  # another process has deleted the file; those who come now use another

    def _granted(self, file: int, path: str, label: str, wait: Wait) -> int:
        """Take the lock if it is free and no request waits, else queue up; return the token."""
        for _ in range(TRIES):
            if _takes_hold(file):
                token, ticket, done = self._head(file, path)
                if ticket == done or _locked_ticket(file, done + 1, ticket) is None:
                    return self._entered(file, token, ticket, label)
                fcntl.fcntl(file, fcntl.F_OFD_SETLK, LEAVE)
            if wait.left() != 0:
                return self._queued(file, path, label, wait)
            if self._is_taken(file):
                break
            sleep(MOMENT)
        raise WaitOver

    @staticmethod
    def _is_taken(file: int) -> bool:
        """Return whether the lock is held or waited for: not only noticed by a thread."""
        if _lock_on_hold(file) == fcntl.F_WRLCK:
            return True
        found = os.pread(file, BOTH.size, 0)
        if len(found) < BOTH.size:
            return False
        _, ticket, _, _, done, *_ = BOTH.unpack(found)
        return _locked_ticket(file, done + 1, ticket) is not None

    def _queued(self, file: int, path: str, label: str, wait: Wait) -> int:
        with _Exclusive(file):
            magic, ticket, size, *_ = _content(file, path)
            ticket += 1
            _set_lock(file, fcntl.F_OFD_SETLK, fcntl.F_WRLCK, TICKETS + ticket, 1)
            os.pwrite(file, QUEUE.pack(magic, ticket, size), 0)
        while (before := _ticket_before(file, ticket)) is not None:
            _wait_for(file, path, TICKETS + before, wait)
        while not _takes_hold(file):
            _wait_for(file, path, HOLD, wait)
        token = self._head(file, path)[0]
        token = self._entered(file, token, ticket, label)
        _set_lock(file, fcntl.F_OFD_SETLK, fcntl.F_UNLCK, TICKETS + ticket, 1)
        return token

    def _entered(self, file: int, token: int, done: int, label: str) -> int:
        """Write the next token and who holds the lock; return the token."""
        token += 1
        os.pwrite(file, _holder(token, done, self._boot, label), HOLDER_AT)
        if not self._boot or not token % (1 << STARTS):
            os.fsync(file)
        return token

    def _head(self, file: int, path: str) -> tuple[int, int, int]:
        """Return the last token, the last ticket, and the last one that does not wait any more.

        Begin to count anew after a start of the machine.
        """
        _, ticket, _, token, done, boot, _, _ = _content(file, path)
        if boot != self._boot_id:
            token = ((token >> STARTS) + 1) << STARTS
            os.pwrite(file, HOLDER.pack(token, done, self._boot_id, 0, 0), HOLDER_AT)
            os.fsync(file)
            self._sync_folder()
        return token, ticket, done

    def _sync_folder(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def renew(self, grant: EngineGrant) -> None:
        file, path = grant.handle
        try:
            is_there = os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(file))
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
        file, path = grant.handle
        if file < 0:
            return
        grant.handle = (-1, path)
        with suppress(OSError):  # the lock is free all the same
            os.pwrite(file, FREE, PROCESS_AT)
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, LEAVE)
        self._put_back(file, path)

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
                    if self.state(key).holder is None:
                        return
                    _wake_when_free(self._path(key), HOLD, wake)
                while not wake.wait(wait.longest(boottime.LONGEST_WAIT)):
                    pass
        finally:
            _forget_wake(wake)

    def agreed_size(self, key: str, size: int | None) -> int | None:
        self.connect()
        path = self._path(key)
        file = self._file(path, key)
        try:
            with _Exclusive(file):
                magic, ticket, stored, *_ = _content(file, path)
                if not stored and size is not None:
                    stored = size
                    os.pwrite(file, QUEUE.pack(magic, ticket, stored), 0)
                    os.fsync(file)
            return stored or None
        finally:
            _close(file)

    # Looking.

    def _look(self, key: str) -> tuple[LockState, int]:
        """Return the state, and the process of the holder."""
        free = LockState(None, None, None, 0)
        try:
            file = _opened(self._path(key), 0)
        except OSError:
            return free, 0
        try:
            content = os.pread(file, BOTH.size + LABEL_LIMIT, 0)
            if len(content) < BOTH.size:
                return free, 0
            _, ticket, _, token, done, _, process, length = BOTH.unpack_from(content)
            waiting = len(_locked_tickets(file, done + 1, ticket))
            if _lock_on_hold(file) != fcntl.F_WRLCK:
                return free._replace(waiting=waiting), 0
        finally:
            _close(file)
        if not process:  # it has just been locked
            return LockState("a process", None, None, waiting), 0
        label = content[BOTH.size : BOTH.size + length].decode(errors="replace")
        return LockState(label, None, token, waiting), process

    def state(self, key: str) -> LockState:
        return self._look(key)[0]

    def held(self) -> dict[str, LockState]:
        self.connect()
        found = {}
        for name in sorted(os.listdir(self._folder)):
            if name.endswith(ENDING):
                key = self._key_in(f"{self._folder}/{name}")
                state = self.state(key)
                if state.holder is not None:
                    found[key] = state
        return found

    @staticmethod
    def _key_in(path: str) -> str:
        with open(path, "rb") as file:
            file.seek(KEY_AT)
            return file.read(KEY_LIMIT).rstrip(b"\0").decode(errors="replace")

    def force(self, key: str) -> str | None:
        state, process = self._look(key)
        if state.holder is None:
            return None
        raise RefusedByNode(
            f"a local lock cannot be taken away from a process that runs: end process {process}"
            f" ({state.holder}), which frees the lock at once"
        )

    def close(self) -> None:
        """Close the descriptors that no request uses."""
        for path in list(self._idle):
            for file in self._idle.pop(path, []):
                _close(file)

    def share_with_children(self) -> None:
        _SHARED.append(True)

    def abandon(self) -> None:
        """Forget the descriptors, which are closed already."""
        self._idle = {}


@lru_cache(1_000)
def _file_name(key: str) -> str:
    name = quote(key, safe="")
    if len(name) > NAME_LIMIT:
        name = f"{name[:100]}~{sha256(key.encode()).hexdigest()}"
    return name + ENDING


def _content(file: int, path: str) -> tuple[bytes, int, int, int, int, bytes, int, int]:
    """Return the fields of BOTH; `RefusedByNode` if they are not those of a lock."""
    found = os.pread(file, BOTH.size, 0)
    if len(found) < BOTH.size or not found.startswith(MAGIC):
        raise RefusedByNode(
            f"{path} is damaged, or not the file of a lock: restore it, or delete it, which takes"
            " its tokens back to the beginning"
        )
    return BOTH.unpack(found)


def _holder(token: int, done: int, boot: bytes, label: str) -> bytes:
    """Return what the file says about the holder."""
    shown = _shown(label)
    return HOLDER.pack(token, done, boot, os.getpid(), len(shown)) + shown


@lru_cache(10)
def _shown(label: str) -> bytes:
    return label.encode()[:LABEL_LIMIT]


def _locked_tickets(file: int, start: int, end: int) -> list[int]:
    found = _locked_ticket(file, start, end)
    if found is None:
        return []
    return [
        found,
        *_locked_tickets(file, start, found - 1),
        *_locked_tickets(file, found + 1, end),
    ]

"""A file that refuses stale writers.

Two files stand beside it: FILE.token has the newest token, and processes lock FILE.lock while they
write (`flock`: the kernel releases it when a process ends).  A write does, under the lock:

    1. compare the token with the newest; a smaller one is refused
    2. if it is larger, make it the newest
    3. give the file its new content

Both 2 and 3 write a new file, fsync it, rename it over the old one and fsync the folder.  So a
reader sees the old content or the new one, never a part.  A crash between 2 and 3 leaves old
content under a newer token, which is safe: a client that held the lock has shown that token.  In
the other order, the file could have content whose token is forgotten.

FILE.token is never written in place.  If it is damaged, the newest token is unknown, and every
write is refused.
"""

from __future__ import annotations

import fcntl
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from habemus.fencing.tokens import admit, check_token


class CorruptFence(ValueError):
    """The file of the newest token is damaged, so no write is accepted."""


class FencedFile:
    """File that accepts writes of the current holder of a lock, and refuses earlier holders.

    Concurrent writes wait for each other.  `FILE.token` and `FILE.lock` are beside the file.

    path: the file; it need not exist.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).resolve()  # two names for one file must not have two tokens
        self._token_path = self.path.with_name(f"{self.path.name}.token")
        self._lock_path = self.path.with_name(f"{self.path.name}.lock")
        self._durable: int | None = None  # a token known to survive the loss of power

    @property
    def newest(self) -> int | None:
        """The largest token so far, or None."""
        try:
            found = self._token_path.read_bytes()
        except FileNotFoundError:
            return None
        matched = re.fullmatch(rb"habemus token (\d{1,19}) [0-9a-f]{8}\n", found)
        if matched is None or found != _line(int(matched[1])):
            raise CorruptFence(
                f"{self._token_path} is damaged, so the newest token is unknown; if no former"
                " holder"
                " is still running, remove it"
            )
        return int(matched[1])

    def read(self) -> bytes:
        """Return the content; reading needs no token."""
        return self.path.read_bytes()

    def write(self, content: bytes, token: int | None) -> None:
        """Replace the content, or raise `StaleToken`.  Content and token are durable (fsync) on
        return.

        token: the token of the lease; `ValueError` if it is None.
        """
        with memoryview(content) as whole, self._admitted(token):
            _replace(self.path, whole)

    def append(self, content: bytes, token: int | None) -> None:
        """Append to the content atomically, or raise `StaleToken`.

        This copies the file, so it is meant for kilobytes, not gigabytes.

        token: the token of the lease; `ValueError` if it is None.
        """
        with memoryview(content) as rest, self._admitted(token):
            before = b""
            with suppress(FileNotFoundError):
                before = self.read()
            _replace(self.path, before + rest)

    @contextmanager
    def _admitted(self, token: int | None) -> Iterator[None]:
        shown = check_token(token)
        with self._locked():
            newest = self.newest
            admit(shown, newest)
            if shown != newest:
                _replace(self._token_path, _line(shown))
            elif shown != self._durable:  # its writer may have died before the fsync
                _sync(self.path.parent)
            self._durable = shown
            yield

    @contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = os.open(
            self._lock_path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666
        )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _replace(path: Path, content: bytes | memoryview) -> None:
    made = path.with_name(f"{path.name}.new")  # one name is enough under the lock
    made.unlink(missing_ok=True)  # a crash has left it
    descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with suppress(FileNotFoundError):
            os.fchmod(descriptor, path.stat().st_mode & 0o777)
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(made, path)  # noqa: PTH105  # among the other calls to the system
    _sync(path.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _line(token: int) -> bytes:
    return b"habemus token %d %08x\n" % (token, zlib.crc32(b"%d" % token))

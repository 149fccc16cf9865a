"""Stable memory: what survives the end of the process, however it ends.

One file, only ever appended to.  It holds a table from keys to values; an entry that comes later replaces an earlier one with
the same key, and an entry without a value removes it.  Entries that are stored together form a *batch*:

    mark (4 bytes)  length (4)  sequence (8)  checksum (4)  body: MessagePack, the entries

A batch is written and synced as a whole before anybody hears of it (group commit: whatever was stored while the disk was busy
goes with the next batch).  So at most the last batch can be incomplete, and which case it is follows from what comes after:

*torn tail*       A bad batch and nothing good behind it.  It was being written when the process or the machine died.  Nobody
                  was told that it was stored, so it is cut off.
*corrupt middle*  A bad batch and a good, later one behind it.  Something was stored, acknowledged and has changed since.
                  There is no honest way to go on: the file is refused.

What cannot be told apart: a last batch that was stored whole and has rotted since is taken for a torn one.

After a failed write or sync nobody knows what is on the disk, and asking again does not help: the kernel may have dropped
the pages and forgotten the error.  The memory then fails for good and its node must stop; the next start reads what is there.

When most of the file is out of date, the table is written to a new file, which is synced and then takes the old one's name.

The first entry says whose memory this is, so that no node starts with another one's.  A lock on the file keeps a second
process out.
"""

from __future__ import annotations

import fcntl
import os
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec

FILE = "memory"
MARK = b"hbm1"
_HEAD = struct.Struct(">4sIQI")
BATCH_LIMIT = 1 << 30
COMPACT_FROM = 4 << 20
"""Bytes: a smaller file is never compacted."""
COMPACT_AT = 4
"""A file so many times as large as what it says is compacted."""
_OWNER = ""  # the key under which the owner stands; no instance has an empty name
_VACANT = "/"  # the key which says that the owner has ended in good order, with nobody inside

Entry = tuple[str, bytes | None]
_ENTRIES = msgspec.msgpack.Decoder(list[tuple[str, bytes | None]])
_ENCODER = msgspec.msgpack.Encoder()


class StorageFailed(Exception):
    """The disk did not do what it was told; the node must stop."""


class CorruptStorage(ValueError):
    """The file is not what was written, and cutting its end would not mend it."""


class Disk(Protocol):
    """What stable memory needs of a file; tests give one that fails."""

    def write(self, data: bytes) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class File:
    """A real one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self.descriptor, rest) :]

    def sync(self) -> None:
        os.fsync(self.descriptor)

    def close(self) -> None:
        os.close(self.descriptor)


class StableMemory:
    """The table, and the file that it is written to.  `commit` may run in a thread of its own; one at a time."""

    def __init__(self, folder: Path, owner: str) -> None:
        self._folder = folder
        self._path = folder / FILE
        self._failed: str | None = None
        self._sequence = 0
        self._lock = File(folder / f"{FILE}.lock")
        try:
            fcntl.flock(self._lock.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise StorageFailed(f"{folder} is in use by another process") from None
        try:
            self._table: dict[str, bytes] = {}
            self.cut = self._read()  # bytes of a torn tail
            self._disk: Disk = File(self._path)
            if not self._sequence:
                self.commit([(_OWNER, owner.encode())])
                _sync_folder(folder)
            self._check_owner(owner)
            self.was_vacant = _VACANT in self._table
            if self.was_vacant:
                self.commit([(_VACANT, None)])  # it is true of the last time, and must not be taken for true of the next
        except BaseException:
            self._lock.close()
            raise

    def _check_owner(self, owner: str) -> None:
        found = self._table.get(_OWNER, b"").decode(errors="replace")
        if found != owner:
            raise CorruptStorage(f"{self._path} is the memory of {found!r}, and this is {owner!r}")

    @property
    def table(self) -> Mapping[str, bytes]:
        """What is stored; not to be read while a commit is under way."""
        return {key: value for key, value in self._table.items() if key not in (_OWNER, _VACANT)}

    def leave_vacant(self) -> None:
        """The last to be stored: nobody was inside at the end."""
        self.commit([(_VACANT, b"")])

    def commit(self, entries: list[Entry]) -> None:
        """Stores the entries, all or none.  When it returns they survive anything but the loss of the disk."""
        if self._failed is not None:
            raise StorageFailed(self._failed)
        try:
            self._disk.write(self._batch(entries))
            self._disk.sync()
            _apply(self._table, entries)
            if self._size > COMPACT_FROM and self._size > COMPACT_AT * self._live():
                self._compact()
        except OSError as error:
            self._failed = f"stable memory in {self._folder}: {error.strerror or error}"
            raise StorageFailed(self._failed) from error

    def close(self) -> None:
        self._disk.close()
        self._lock.close()

    # Writing.

    def _batch(self, entries: list[Entry]) -> bytes:
        body = _ENCODER.encode(entries)
        self._sequence += 1
        batch = _headed(self._sequence, body)
        self._size += len(batch)
        return batch

    def _live(self) -> int:
        return sum(len(key) + len(value) + 8 for key, value in self._table.items())

    def _compact(self) -> None:
        new_path = self._path.with_suffix(".new")
        new_path.unlink(missing_ok=True)
        new = File(new_path)
        self._size = 0
        batch = self._batch(list(self._table.items()))
        try:
            new.write(batch)
            new.sync()
        except OSError:
            new.close()
            raise
        new_path.replace(self._path)
        _sync_folder(self._folder)
        self._disk.close()
        self._disk = new

    # Reading.

    def _read(self) -> int:
        """Fills the table from the file and cuts a torn tail; says how many bytes that were."""
        self._path.with_suffix(".new").unlink(missing_ok=True)  # a compaction that never took effect
        content = self._path.read_bytes() if self._path.exists() else b""
        position = 0
        while position < len(content):
            found = _batch_at(content, position)
            if found is None or (self._sequence and found[0] != self._sequence + 1):
                break
            self._sequence, body, position = found
            try:
                _apply(self._table, _ENTRIES.decode(body))
            except (msgspec.DecodeError, ValueError) as error:
                raise CorruptStorage(f"{self._path}: batch {self._sequence} holds no entries: {error}") from None
        self._size = position
        if position == len(content):
            return 0
        later = _whole_batch_from(content, position, self._sequence)
        if later is not None:
            raise CorruptStorage(
                f"{self._path} is corrupt at byte {position}, and batch {later} behind that is whole: this is no torn write; "
                "restore the file from a copy, or remove it to start this node without its memory"
            )
        with self._path.open("r+b") as file:
            file.truncate(position)
            os.fsync(file.fileno())
        return len(content) - position


def _headed(sequence: int, body: bytes) -> bytes:
    if len(body) > BATCH_LIMIT:
        raise OSError(f"{len(body)} bytes to store at once; the limit is {BATCH_LIMIT}")
    return _HEAD.pack(MARK, len(body), sequence, _checksum(sequence, body)) + body


def _checksum(sequence: int, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(struct.pack(">QI", sequence, len(body))))


def _batch_at(content: bytes, position: int) -> tuple[int, bytes, int] | None:
    """Sequence, body and end of the batch that begins here, if it is whole."""
    start = position + _HEAD.size
    if start > len(content):
        return None
    mark, length, sequence, checksum = _HEAD.unpack_from(content, position)
    body = content[start : start + length]
    if mark != MARK or len(body) != length or _checksum(sequence, body) != checksum:
        return None
    return sequence, body, start + length


def _whole_batch_from(content: bytes, position: int, sequence: int) -> int | None:
    """The sequence of a whole batch from here on, which is not the one that should stand here; it is found by its mark."""
    position = content.find(MARK, position)
    while position >= 0:
        found = _batch_at(content, position)
        if found is not None and found[0] > sequence:
            return found[0]
        position = content.find(MARK, position + 1)
    return None


def _apply(table: dict[str, bytes], entries: list[Entry]) -> None:
    for key, value in entries:
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

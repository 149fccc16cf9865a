"""Stable memory: what survives the end of the process, however it ends.

One file, only ever appended to.  It holds a table from keys to values; an entry that comes later
replaces an earlier one with the same key, and an entry without a value removes it.  Entries that
are stored together form a *batch*:

    mark (4 bytes)  length (4)  sequence (8)  checksum (4)  body: MessagePack, the entries

A batch is written and synced as a whole before anybody hears of it (group commit: whatever was
stored while the disk was busy goes with the next batch).  Beside the file, in the one that is
locked, stands the sequence of the last batch that was synced.  It is written after each sync and
not synced itself: a crash of the process keeps it, a power failure may set it back a little.

How the file is read:

*first batch*     It says whose memory this is.  The file gets its name when this batch is synced, so it is never torn: a file that
                  does not begin with a whole batch has been damaged, and is refused.
*torn tail*       A bad batch, nothing good behind it, and no word that it was synced.  It was being written when the process or the
                  machine died.  Nobody was told that it was stored, so it is cut off, and the log says so.
*corrupt middle*  A bad batch and a good, later one behind it; or a batch is missing that was synced.  Something was stored,
                  acknowledged and has changed since.  There is no honest way to go on: the file is refused.

What cannot be told apart: a last batch that has rotted within the seconds for which the power
failed too, from a torn one.

After a failed write or sync nobody knows what is on the disk, and asking again does not help: the
kernel may have dropped the pages and forgotten the error.  The memory then fails for good and its
node must stop; the next start reads what is there. The same holds when the file is no longer in its
place: what is stored in it would not be found again.

When most of the file is out of date, the table is written to a new file, which is synced and then
takes the old one's name.  If that cannot be done now (no descriptor, no room), the old file is as
good as it was, and goes on.

Each memory has a random *identity*, by which the other nodes know it (see `membership`): who has
lost its memory has another one. A lock keeps a second process out.
"""

from __future__ import annotations

import fcntl
import logging
import os
import struct
import threading
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

log = logging.getLogger("habemus.live")

FILE = "memory"
LOST = "memory.lost"
"""The name that a damaged file gets when the node is replaced."""
MARK = b"hbm1"
_HEAD = struct.Struct(">4sIQI")
_STORED = struct.Struct(">16sQI")  # identity, sequence of the last batch that was synced, checksum
_KNOWN = struct.Struct(">16sI")
BATCH_LIMIT = 1 << 30
COMPACT_FROM = 4 << 20
"""Bytes: a smaller file is never compacted."""
COMPACT_AT = 4
"""A file so many times as large as what it says is compacted."""
IDENTITY_SIZE = 16

# Keys of the memory's own entries; no service has an empty name, so no instance has such a key.
_OWNER = ""
_VACANT = "/"  # the owner has ended in good order, with nobody inside
_IDENTITY = "/identity"
_JOINS = "/joins"  # the owner does not take part yet: see `StableMemory.joins`
_NODE = "/node/"  # what is known of another node

NEW = "new"
REPLACES = "replaces"

Entry = tuple[str, bytes | None]
_ENTRIES = msgspec.msgpack.Decoder(list[tuple[str, bytes | None]])
_ENCODER = msgspec.msgpack.Encoder()

COST = (
    "if it is lost for good, start the node with --replace: it then takes part again when all the"
    " other nodes are up and have told it what they know; do not use an older copy, which has"
    " forgotten votes and grants"
)


class StorageFailed(Exception):
    """The disk did not do what it was told; the node must stop."""


class CorruptStorage(ValueError):
    """The memory is not what was written, and cutting its end would not mend it."""


class KnownPeer(NamedTuple):
    """What a node remembers of another one."""

    identity: bytes  # of its memory
    lives: int  # how many memories it has had, as far as this node has seen


class Disk(Protocol):
    """What stable memory needs of a file; tests give one that fails."""

    def write(self, data: bytes) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class File:
    """A file of the operating system."""

    def __init__(self, path: Path, *, is_new: bool = False) -> None:
        self.path = path
        flags = os.O_CREAT | os.O_EXCL if is_new else 0
        self.descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | flags, 0o600)

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self.descriptor, rest) :]

    def sync(self) -> None:
        os.fsync(self.descriptor)

    def close(self) -> None:
        os.close(self.descriptor)


class StableMemory:
    """The table, and the file that it is written to.  `commit` may be called by several threads.

    With `replace` it begins anew, in the place of a memory that is lost or cannot be read.
    """

    def __init__(self, folder: Path, owner: str, *, replace: bool = False) -> None:
        self._folder = folder = folder.absolute()
        self._path = folder / FILE
        self._failed: str | None = None
        self._sequence = 0
        self._size = 0
        self._compact_from = COMPACT_FROM
        self._commits = threading.Lock()
        self._table: dict[str, bytes] = {}
        self._disk: Disk | None = None
        try:
            self._lock = _locked(folder)
            try:
                self._open(owner, replace)
            except BaseException:
                self.close()
                raise
        except OSError as error:
            raise StorageFailed(f"stable memory in {folder}: {error.strerror or error}") from None

    def _open(self, owner: str, replace: bool) -> None:
        self.cut = 0  # bytes of a torn tail
        self._path.with_suffix(".new").unlink(
            missing_ok=True
        )  # a compaction that never took effect
        try:
            is_there = self._read()
        except CorruptStorage as reason:
            if not replace:
                raise
            log.warning(
                "--replace: this node begins anew, and keeps what it finds as %s: %s", LOST, reason
            )
            if self._path.exists():
                self._path.replace(self._folder / LOST)
            is_there = False
        if is_there:
            self._check(owner, replace)
            self._disk = File(self._path)
            self._place = _place_of(self._path)
            if _IDENTITY not in self._table:  # written before there were identities
                self.commit([(_IDENTITY, os.urandom(IDENTITY_SIZE))])
        else:
            self._table = {
                _OWNER: owner.encode(),
                _IDENTITY: os.urandom(IDENTITY_SIZE),
                _JOINS: NEW.encode(),
            }
            self._sequence = 0
            self._rewrite()
        if replace:
            self.commit([(_JOINS, REPLACES.encode())])
        self._note_stored()
        self.identity = self._table[_IDENTITY]
        self.joins = self._table.get(_JOINS, b"").decode()
        """Empty if the owner takes part.  Else how it will: as "new" as its cluster, or it
        "replaces" one that lost its memory.
        """
        stored = {
            int(key.removeprefix(_NODE)): value
            for key, value in self._table.items()
            if key.startswith(_NODE)
        }
        self.known = {node: KnownPeer(*_KNOWN.unpack(value)) for node, value in stored.items()}
        self.was_vacant = _VACANT in self._table
        if self.was_vacant:
            self.commit(
                [(_VACANT, None)]
            )  # it is true of the last time, and must not be taken for true of the next

    def _check(self, owner: str, replace: bool) -> None:
        found = self._table.get(_OWNER, b"").decode(errors="replace")
        if found != owner:
            raise CorruptStorage(f"{self._path} is the memory of {found!r}, and this is {owner!r}")
        if replace and _JOINS not in self._table:
            raise CorruptStorage(
                f"{self._path} can be read: --replace is for a node that has lost its memory, start"
                " it without"
            )

    @property
    def table(self) -> Mapping[str, bytes]:
        """The entries of instances; not to be read while a commit is under way."""
        return {key: value for key, value in self._table.items() if key and not key.startswith("/")}

    def leave_vacant(self) -> None:
        """The last to be stored: nobody was inside at the end."""
        self.commit([(_VACANT, b"")])

    def learn(self, node: int, identity: bytes) -> None:
        """Remember which memory another node has."""
        before = self.known.get(node)
        if before is None or before.identity != identity:
            found = KnownPeer(identity, 1 if before is None else before.lives + 1)
            self.commit([(f"{_NODE}{node}", _KNOWN.pack(*found))])
            self.known[node] = found

    def join(self, entries: list[Entry]) -> None:
        """The owner takes part from now on, with these entries to begin with."""
        self.commit([*entries, (_JOINS, None)])
        self.joins = ""

    def check_place(self) -> None:
        """Fail if the file has been deleted or moved: what is stored in it would not be found by
        the next start.
        """
        if self._commits.acquire(
            blocking=False
        ):  # else a commit is under way, and will look itself
            try:
                self._check_place()
            finally:
                self._commits.release()

    def _check_place(self) -> None:
        try:
            is_in_place = _place_of(self._path) == self._place
        except FileNotFoundError:
            is_in_place = False
        if not is_in_place:
            reason = f"{self._path} was deleted or replaced while the node was running; {COST}"
            self._failed = self._failed or reason
            raise StorageFailed(self._failed)

    def commit(self, entries: list[Entry]) -> None:
        """Store the entries, all or none.  When it returns they survive anything but the loss of
        the disk.
        """
        with self._commits:
            if self._failed is not None:
                raise StorageFailed(self._failed)
            try:
                assert self._disk is not None
                batch = self._batch(entries)
                self._disk.write(batch)
                self._disk.sync()
                self._check_place()
                self._size += len(batch)
                self._note_stored()
                _apply(self._table, entries)
                if self._size > self._compact_from and self._size > COMPACT_AT * self._live():
                    self._compact()
            except OSError as error:
                self._failed = f"stable memory in {self._folder}: {error.strerror or error}"
                raise StorageFailed(self._failed) from error

    def close(self) -> None:
        if self._disk is not None:
            self._disk.close()
        os.close(self._lock)

    # Writing.

    def _batch(self, entries: list[Entry]) -> bytes:
        body = _ENCODER.encode(entries)
        self._sequence += 1
        return _headed(self._sequence, body)

    def _note_stored(self) -> None:
        head = self._table[_IDENTITY] + self._sequence.to_bytes(8, "big")
        os.pwrite(self._lock, head + zlib.crc32(head).to_bytes(4, "big"), 0)

    def _live(self) -> int:
        return sum(len(key) + len(value) + 8 for key, value in self._table.items())

    def _compact(self) -> None:
        old, sequence = self._disk, self._sequence
        try:
            self._rewrite()
        except _NotRewritten as reason:
            self._sequence = sequence
            self._compact_from = self._size + COMPACT_FROM
            log.warning("stable memory in %s cannot be compacted now: %s", self._folder, reason)
            return
        self._compact_from = COMPACT_FROM
        if old is not None:
            old.close()

    def _rewrite(self) -> None:
        """Write the table to a new file, which takes the place of the old one.  `_NotRewritten`:
        there is no new file.
        """
        path = self._path.with_suffix(".new")
        opened: list[int] = []
        try:
            path.unlink(missing_ok=True)
            folder = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
            opened.append(folder)
            new = File(path, is_new=True)
            opened.append(new.descriptor)
            batch = self._batch(list(self._table.items()))
            new.write(batch)
            new.sync()
            path.replace(self._path)
        except OSError as reason:
            for descriptor in opened:
                os.close(descriptor)
            raise _NotRewritten(*reason.args) from None
        self._disk, self._size, self._place = new, len(batch), _place_of(self._path)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self._note_stored()

    # Reading.

    def _read(self) -> bool:
        """Fill the table from the file and cut a torn tail.  False: there has never been a memory
        in this folder.
        """
        identity, stored = self._last_stored()
        if not self._path.exists():
            if identity:
                raise CorruptStorage(
                    f"{self._path} is gone, and batch {stored} was stored in it; {COST}"
                )
            return False
        content = self._path.read_bytes()
        position = 0
        while (found := _batch_at(content, position)) is not None and (
            not position or found[0] == self._sequence + 1
        ):
            self._sequence, body, position = found
            try:
                _apply(self._table, _ENTRIES.decode(body))
            except (msgspec.DecodeError, ValueError) as error:
                raise CorruptStorage(
                    f"{self._path}: batch {self._sequence} holds no entries: {error}; {COST}"
                ) from None
        self._size = position
        later = _whole_batch_from(content, position, self._sequence)
        if later is not None:
            raise CorruptStorage(
                f"{self._path} is corrupt at byte {position}, and batch {later} behind that is"
                f" whole; {COST}"
            )
        if not position:
            raise CorruptStorage(
                f"{self._path} does not begin with a whole batch ({len(content)} bytes); {COST}"
            )
        if identity == self._table.get(_IDENTITY) and stored > self._sequence:
            raise CorruptStorage(
                f"{self._path} is corrupt at byte {position}: batch {stored} was stored, and cannot"
                f" be read; {COST}"
            )
        self.cut = len(content) - position
        if self.cut:
            self._cut_at(position)
        return True

    def _last_stored(self) -> tuple[bytes, int]:
        """Identity of the memory that was last in use here, and its last batch that was synced, as
        far as that is known.
        """
        found = os.pread(self._lock, _STORED.size, 0)
        if len(found) == _STORED.size:
            identity, sequence, checksum = _STORED.unpack(found)
            if zlib.crc32(found[:-4]) == checksum:
                return identity, sequence
        return b"", 0

    def _cut_at(self, position: int) -> None:
        log.warning(
            "%s: cut off %d bytes of a batch behind batch %d that was never acknowledged (a crash"
            " while it was written)",
            *(self._path, self.cut, self._sequence),
        )
        with self._path.open("r+b") as file:
            file.truncate(position)
            os.fsync(file.fileno())


class _NotRewritten(OSError):
    """The old file is as it was."""


def _locked(folder: Path) -> int:
    """Descriptor of the file by which one process keeps the others out."""
    lock = os.open(folder / f"{FILE}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise StorageFailed(f"{folder} is in use by another process") from None
    return lock


def _place_of(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


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
    """The sequence of a whole batch from here on, which is not the one that should stand here; it
    is found by its mark.
    """
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

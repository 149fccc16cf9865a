"""Stable memory: an append-only log that survives a crash of the process or the machine.

One file holds a table from keys to values.  A later entry replaces an earlier one with the same
key; an entry without a value removes it.  Entries that are stored together form a *batch*
(`batches`).

A batch is written and synced as a whole before it is acknowledged (group commit: entries that were
added while the disk was busy go with the next batch).  The lock file beside the log holds the
sequence of the last synced batch.  It is written after each sync.  It is synced itself only when
the memory is opened: a crash of the process keeps it, a power failure may set it back to that.

Behind the last batch there is *room*: zeros, into which the next batches are written.  A file that
does not grow is synced in half the time, since its size need not be written as well.  A memory that
is closed removes its room.  Each batch is followed by an end mark, over which the next is written.

A process may have been killed between writing and syncing a batch.  So the file is synced when it
is opened, before what is read from it counts.

How the file is read:

*first batch*     Names the owner.  The file gets its name after this batch is synced, so it is
                  never torn.  A file that does not begin with a whole batch is corrupt: refused.
*room*            Zeros behind the end mark.  Kept.
*torn tail*       A bad batch, no good one after it, not known to be synced.  It was being written
                  during a crash and never acknowledged, so it is cut off, with a warning.
*corrupt middle*  A bad batch and a good, later one after it; or a synced batch is missing.
                  Acknowledged data has changed: refused.
*no lock file*    No power failure takes it away.  Without it only the end mark shows that no batch
                  is missing: refused if there is none.

One case is ambiguous: a last batch that is corrupted within the seconds before a power failure
looks like a torn one, or like room if it is zeros.

After a failed write or fsync the content of the disk is unknown, and retrying does not help: the
kernel may have dropped the pages and the error.  The memory fails for good, its node stops, and the
next start reads what is there.  The same holds if the file was deleted or moved.

When most of the file is outdated, the table is written to a new file, which is synced and renamed
over the old one.  If that fails (no descriptor, no space), the old file stays in use.

Entries that a crash of the machine may lose are only *written* (`recent`).  They go to the log when
their file has become long, when the log is compacted, when the memory is closed, and at the next
start if only the process has crashed.  The log names the boot of the machine in which they are
written: after another boot the memory cannot know what it has lost (`lost_us`).

Each memory has a random *identity*, by which other nodes recognise it (see `membership`).  A file
lock keeps a second process out.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import struct
import threading
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from habemus import boottime
from habemus.runtimes.live.storage.batches import (
    END_SIZE,
    ENTRIES,
    MARK,
    Entry,
    apply_entries,
    batch_at,
    batch_of,
    end_mark,
)
from habemus.runtimes.live.storage.recent import FILE as RECENT
from habemus.runtimes.live.storage.recent import RecentEntries, read_recent

log = logging.getLogger("habemus.live")

FILE = "memory"
LOST = "memory.lost"
"""New name of a corrupt file when the node is replaced."""
_sync_data = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync
_STORED = struct.Struct(">16sQI")  # identity, sequence of the last synced batch, checksum
_KNOWN = struct.Struct(">16sI")
ROOM = 64 << 10
"""Bytes by which the file grows at once; some 400 batches of one grant."""
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
COMPACT_FROM = 4 << 20
"""Bytes; a smaller file is never compacted."""
RECENT_LIMIT = 1 << 20
"""Bytes of recent entries above which they go to the log."""
COMPACT_AT = 4
"""Ratio of file size to table size at which the file is compacted."""
IDENTITY_SIZE = 16

# Keys of internal entries; no instance has such a key, because no service has an empty name.
_OWNER = ""
_VACANT = "/"  # clean shutdown while no client held a lock
_IDENTITY = "/identity"
_JOINS = "/joins"  # the owner does not take part yet: see `StableMemory.joins`
_NODE = "/node/"  # identity of another node
_VARIABLES = "/variables/"  # names of the durable variables of a process, as they are stored
_AGREED = "/agreed/"  # identity by which the members have agreed to know another node
_STARTED_WITH = "/nodes"  # the nodes in the file with which the owner last started
_BOOT = "/boot"  # the boot in which entries are written without a sync, and `lost_us` of the next

NEW = "new"
REPLACES = "replaces"

_NAMES = msgspec.msgpack.Decoder(list[str])
_BOOTED = msgspec.msgpack.Decoder(tuple[bytes, int])

COST = (
    "if it is lost for good, start the node with `habemus node --replace`: it recovers its state"
    " from all the other nodes, which must be up (where members change, start it with --join, and"
    " run `habemus member replace`); do not restore an older copy, which lacks votes and grants"
)


class StorageFailed(Exception):
    """Reading or writing stable memory failed; the node must stop."""


class CorruptStorage(ValueError):
    """Stable memory is corrupt, or belongs to another node or configuration."""


class KnownPeer(NamedTuple):
    """Identity of another node's memory."""

    identity: bytes  # of its memory
    lives: int  # number of memories that it has had, as seen by this node


class Disk(Protocol):
    """The file operations that stable memory uses; tests replace them by failing ones."""

    def write(self, data: bytes) -> None: ...

    def sync(self) -> None: ...

    def remove_room(self) -> None: ...

    def close(self) -> None: ...


class File:
    """A file of the operating system, with an end mark and room behind its last batch."""

    def __init__(self, path: Path, end: int = 0, *, is_new: bool = False) -> None:
        self.path = path
        flags = os.O_CREAT | os.O_EXCL if is_new else 0
        self.descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
        self._end = end  # of the last batch
        self._size = os.fstat(self.descriptor).st_size

    def write(self, data: bytes) -> None:
        """Write data that ends with an end mark."""
        if self._end + len(data) <= self._size:
            self._write_at_end(data)
        else:
            try:
                self._write_at_end(data + bytes(ROOM))
            except OSError as error:
                if error.errno not in NO_SPACE:
                    raise
                self.remove_room()  # there may be space for the data alone
                self._write_at_end(data)
            self._size = os.fstat(self.descriptor).st_size
        self._end += len(data) - END_SIZE

    def _write_at_end(self, data: bytes) -> None:
        position, rest = self._end, memoryview(data)
        while rest:
            written = os.pwrite(self.descriptor, rest, position)
            position, rest = position + written, rest[written:]

    def sync(self) -> None:
        """Sync the data, and the size if it has changed."""
        _sync_data(self.descriptor)

    def remove_room(self) -> None:
        os.ftruncate(self.descriptor, self._end + END_SIZE)

    def close(self) -> None:
        os.close(self.descriptor)


class StableMemory:
    """The table, and the file that holds it.  `commit` may be called by several threads.

    With `replace` it begins anew in the place of a lost or corrupt memory.
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
        self._latest: dict[str, int] = {}  # the last batch of each key, while the log is read
        self._recent: dict[str, bytes | None] = {}  # written, and not in the log yet
        self._recent_file: RecentEntries | None = None
        self.lost_us = 0
        """How long the owner has to stay down, because entries that were written may be lost."""
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
        self._path.with_suffix(".new").unlink(missing_ok=True)  # an unfinished compaction
        try:
            is_there = self._read()
        except CorruptStorage as reason:
            if not replace:
                raise
            log.warning(
                "--replace: this node begins anew; the corrupt file is kept as %s (%s)",
                LOST,
                reason,
            )
            if self._path.exists():
                self._path.replace(self._folder / LOST)
            is_there = False
        if is_there:
            self._check(owner, replace)
            self._disk = File(self._path, self._size)
            if not self._is_marked:
                self._disk.write(end_mark(self._sequence))
            self._disk.sync()
            self._place = _place_of(self._path)
            self._regain_recent()
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
        self._sync_lock()
        self.identity = self._table[_IDENTITY]
        self.joins = self._table.get(_JOINS, b"").decode()
        """Empty if the owner takes part; "new" in a new cluster; "replaces" after --replace."""
        stored = {
            int(key.removeprefix(_NODE)): value
            for key, value in self._table.items()
            if key.startswith(_NODE)
        }
        self.known = {node: KnownPeer(*_KNOWN.unpack(value)) for node, value in stored.items()}
        self.agreed = {
            int(key.removeprefix(_AGREED)): value
            for key, value in self._table.items()
            if key.startswith(_AGREED)
        }
        """Identities of other nodes that the members have agreed on."""
        self.was_vacant = _VACANT in self._table
        if self.was_vacant:
            self.commit([(_VACANT, None)])  # valid for this start only

    def _check(self, owner: str, replace: bool) -> None:
        found = self._table.get(_OWNER, b"").decode(errors="replace")
        if found != owner:
            raise CorruptStorage(
                f"{self._path} belongs to {found!r}, not to {owner!r}; use the folder of this node"
            )
        if replace and _JOINS not in self._table:
            raise CorruptStorage(
                f"{self._path} is intact: --replace is for a node that has lost its memory; start"
                " it without --replace"
            )

    def _regain_recent(self) -> None:
        """Move what was written before a crash of the process to the log."""
        latest, self._latest = self._latest, {}
        if _BOOT not in self._table:
            return
        boot, lost_us = _BOOTED.decode(self._table[_BOOT])
        if boot != boottime.boot_id() or not (self._folder / RECENT).exists():
            self.lost_us = lost_us
            return
        found: dict[str, bytes | None] = {}
        batches, is_whole = read_recent(self._folder)
        if not is_whole:  # torn when the process crashed, or damaged since
            self.lost_us = lost_us
        for sequence, entries in batches:
            found.update(each for each in entries if sequence >= latest.get(each[0], 0))
        if found:
            self.commit(list(found.items()))

    def begin_recent(self, lost_us: int) -> None:
        """Allow `write` from now on, unless boots of the machine cannot be told apart.

        lost_us: how long the owner has to stay down if the machine crashes.  It has done so, if it
            had to.
        """
        boot = boottime.boot_id()
        if not boot:
            return
        try:
            self._recent_file = RecentEntries(self._folder)
        except OSError as error:
            raise StorageFailed(
                f"stable memory in {self._folder}: {error.strerror or error}"
            ) from None
        self.commit([(_BOOT, msgspec.msgpack.encode((boot, lost_us)))])
        self.lost_us = 0

    @property
    def table(self) -> Mapping[str, bytes]:
        """The entries of instances.  Do not read them during a commit."""
        return {key: value for key, value in self._table.items() if key and not key.startswith("/")}

    def variables(self, service: str, process: int) -> list[str] | None:
        """Return the names of the variables in the entries of a process; None if unknown."""
        found = self._table.get(f"{_VARIABLES}{service}/{process}")
        return None if found is None else _NAMES.decode(found)

    def name_variables(
        self, service: str, process: int, names: list[str], entries: list[Entry]
    ) -> None:
        """Store the names of the variables in the entries of a process, with these entries."""
        name = (f"{_VARIABLES}{service}/{process}", msgspec.msgpack.encode(names))
        self.commit([name, *entries])

    def leave_vacant(self) -> None:
        """Store that no client held a lock at the shutdown."""
        self.commit([(_VACANT, b"")])

    def learn(self, node: int, identity: bytes) -> None:
        """Store the identity of another node's memory."""
        before = self.known.get(node)
        if before is None or before.identity != identity:
            found = KnownPeer(identity, 1 if before is None else before.lives + 1)
            self.commit([(f"{_NODE}{node}", _KNOWN.pack(*found))])
            self.known[node] = found

    def agree_on(self, node: int, identity: bytes) -> None:
        """Store the identity of another node's memory that the members have agreed on."""
        self.learn(node, identity)
        self.commit([(f"{_AGREED}{node}", identity)])
        self.agreed[node] = identity

    @property
    def started_with(self) -> bytes | None:
        """The nodes in the file with which the owner last started."""
        return self._table.get(_STARTED_WITH)

    def start_with(self, nodes: bytes) -> None:
        """Store the nodes in the file with which the owner starts."""
        if self.started_with != nodes:
            self.commit([(_STARTED_WITH, nodes)])

    def join(self, entries: list[Entry]) -> None:
        """Store the first entries, and that the owner takes part from now on."""
        self.commit([*entries, (_JOINS, None)])
        self.joins = ""

    def check_place(self) -> None:
        """Fail if the file was deleted or moved: the next start would not find its entries."""
        if self._commits.acquire(blocking=False):  # otherwise a commit runs, which checks itself
            try:
                self._check_place()
            finally:
                self._commits.release()

    def _check_place(self) -> None:
        try:
            is_in_place = _place_of(self._path) == self._place
        except FileNotFoundError:
            is_in_place = False
        advice = COST
        if is_in_place and self._recent_file is not None:
            is_in_place, advice = self._recent_file.is_in_place(), "start the node again"
        if not is_in_place:
            file = self._path if advice is COST else self._folder / RECENT
            reason = f"{file} was deleted or replaced while the node was running; {advice}"
            self._failed = self._failed or reason
            raise StorageFailed(self._failed)

    def commit(self, entries: list[Entry]) -> None:
        """Store the entries, all or none.  When it returns they are on disk."""
        with self._commits:
            self._check_is_intact()
            try:
                self._store(entries)
                if self._size > self._compact_from and self._size > COMPACT_AT * self._live():
                    self._compact()
            except OSError as error:
                raise self._broken(error) from error

    def _check_is_intact(self) -> None:
        if self._failed is not None:
            raise StorageFailed(self._failed)

    def _broken(self, error: OSError) -> StorageFailed:
        """Fail for good.  Return what to raise."""
        self._failed = f"stable memory in {self._folder}: {error.strerror or error}"
        return StorageFailed(self._failed)

    def _store(self, entries: list[Entry]) -> None:
        assert self._disk is not None
        batch = self._batch(entries)
        self._disk.write(batch)
        self._disk.sync()
        self._check_place()
        self._size += len(batch) - END_SIZE
        self._note_stored()
        apply_entries(self._table, entries)
        for key, _ in entries:
            self._recent.pop(key, None)  # older than what the log has now
        if self._recent_file is not None and not self._recent:
            self._recent_file.clear()

    @property
    def can_write(self) -> bool:
        return self._recent_file is not None

    def write(self, entries: list[Entry]) -> None:
        """Write the entries: when it returns, a crash of the process cannot lose them."""
        with self._commits:
            self._check_is_intact()
            assert self._recent_file is not None
            try:
                self._recent_file.write(self._sequence, entries)
            except OSError as error:
                raise self._broken(error) from error
            self._recent.update(entries)

    def overdue(self) -> list[Entry]:
        """Return all recent entries, if it is time to commit them: their file has become long."""
        is_long = self._recent_file is not None and self._recent_file.size > RECENT_LIMIT
        return list(self._recent.items()) if is_long else []

    def is_logged(self, key: str) -> bool:
        """Return whether the log has a value for the key, and not only the recent entries."""
        return key in self._table

    def _end_recent(self) -> None:
        """Leave nothing that a crash of the machine could lose."""
        self.commit([*self._recent.items(), (_BOOT, None)])

    def close(self) -> None:
        if self._recent_file is not None:
            is_stored = False
            with suppress(StorageFailed):  # then the next start reads the file
                self._end_recent()
                is_stored = True
            self._recent_file.close(remove=is_stored)
        if self._disk is not None:
            if self._failed is None:
                with suppress(OSError):
                    self._disk.remove_room()
            self._disk.close()
        os.close(self._lock)

    # Writing.

    def _batch(self, entries: list[Entry]) -> bytes:
        batch = batch_of(self._sequence + 1, entries)
        self._sequence += 1
        return batch + end_mark(self._sequence)

    def _note_stored(self) -> None:
        head = self._table[_IDENTITY] + self._sequence.to_bytes(8, "big")
        os.pwrite(self._lock, head + zlib.crc32(head).to_bytes(4, "big"), 0)

    def _sync_lock(self) -> None:
        """Sync the lock file and its name."""
        os.fsync(self._lock)
        folder = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _live(self) -> int:
        return sum(len(key) + len(value) + 8 for key, value in self._table.items())

    def _compact(self) -> None:
        old, sequence = self._disk, self._sequence
        apply_entries(self._table, list(self._recent.items()))
        try:
            self._rewrite()
        except _NotRewritten as reason:
            self._sequence = sequence
            self._compact_from = self._size + COMPACT_FROM
            log.warning(
                "compaction of stable memory in %s failed, will be retried: %s",
                self._folder,
                reason,
            )
            return
        self._compact_from = COMPACT_FROM
        if old is not None:
            old.close()
        if self._recent_file is not None:
            self._recent.clear()
            self._recent_file.clear()

    def _rewrite(self) -> None:
        """Write the table to a new file, which replaces the old one.

        Raise `_NotRewritten` if there is no new file.
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
        self._disk, self._size = new, len(batch) - END_SIZE
        self._place = _place_of(self._path)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self._note_stored()

    # Reading.

    def _read(self) -> bool:
        """Fill the table from the file, and cut a torn tail.  Return False if there is no memory in
        this folder.
        """
        identity, stored = self._last_stored()
        if not self._path.exists():
            if identity:
                raise CorruptStorage(
                    f"{self._path} is missing, with batch {stored} and all before it; {COST}"
                )
            return False
        content = self._path.read_bytes()
        position = 0
        while (found := batch_at(content, position)) is not None and (
            not position or found[0] == self._sequence + 1
        ):
            self._sequence, body, position = found
            try:
                entries = ENTRIES.decode(body)
                apply_entries(self._table, entries)
                self._latest.update((key, self._sequence) for key, _ in entries)
            except (msgspec.DecodeError, ValueError) as error:
                raise CorruptStorage(
                    f"{self._path}: batch {self._sequence} is malformed: {error}; {COST}"
                ) from None
        self._size = position
        self._is_marked = content.startswith(end_mark(self._sequence), position)
        later = _whole_batch_from(content, position, self._sequence)
        if later is not None:
            raise CorruptStorage(
                f"{self._path} is corrupt at byte {position}: the later batch {later} is intact;"
                f" {COST}"
            )
        if not position:
            raise CorruptStorage(
                f"{self._path} is corrupt: its {len(content)} bytes begin with no whole batch;"
                f" {COST}"
            )
        if identity == self._table.get(_IDENTITY) and stored > self._sequence:
            raise CorruptStorage(
                f"{self._path} is corrupt at byte {position}: batch {stored} was stored, and is not"
                f" readable; {COST}"
            )
        if identity != self._table.get(_IDENTITY) and not self._is_marked:
            raise CorruptStorage(
                f"{self._path} may be cut off at byte {position}: it has no end mark after batch"
                f" {self._sequence}, and {FILE}.lock, which has the number of the last batch, is"
                f" lost as well; {COST}"
            )
        self.cut = len(content[position + self._is_marked * END_SIZE :].rstrip(b"\0"))
        if self.cut:
            self._is_marked = False
            self._cut_at(position)
        return True

    def _last_stored(self) -> tuple[bytes, int]:
        """Identity of the memory last used here, and its last synced batch, if known."""
        found = os.pread(self._lock, _STORED.size, 0)
        if len(found) == _STORED.size:
            identity, sequence, checksum = _STORED.unpack(found)
            if zlib.crc32(found[:-4]) == checksum:
                return identity, sequence
        return b"", 0

    def _cut_at(self, position: int) -> None:
        log.warning(
            "%s: cut off a torn tail of %d bytes after batch %d; it was never acknowledged (crash"
            " during a write)",
            *(self._path, self.cut, self._sequence),
        )
        with self._path.open("r+b") as file:
            file.truncate(position)
            os.fsync(file.fileno())


class _NotRewritten(OSError):
    """Compaction failed; the old file is unchanged."""


def _locked(folder: Path) -> int:
    """Return the descriptor of the locked file that keeps other processes out."""
    lock = os.open(folder / f"{FILE}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise StorageFailed(
            f"{folder} is in use by another process; stop that node first"
        ) from None
    return lock


def _place_of(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _whole_batch_from(content: bytes, position: int, sequence: int) -> int | None:
    """Return the sequence of a later whole batch after a corrupt one, found by its mark."""
    position = content.find(MARK, position)
    while position >= 0:
        found = batch_at(content, position)
        if found is not None and found[0] > sequence:
            return found[0]
        position = content.find(MARK, position + 1)
    return None

"""Recent entries: written, and not synced.

A crash of the process keeps them, since the system has them already.  A crash of the machine may
lose any of them.  They are for values whose loss an algorithm tolerates (`Process.unsynced`), and
cost no time of the disk.

The file has the form of the log (`batches`).  The sequence of a batch is that of the last batch in
the log when it was written: of two values with the same key, the one in the log counts if its batch
is a later one.  The end mark counts the batches of the file.
"""

from __future__ import annotations

import os
from pathlib import Path

from habemus.runtimes.live.storage.batches import ENTRIES, Entry, batch_at, batch_of, end_mark

FILE = "memory.recent"


class RecentEntries:
    """The file with the recent entries."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._descriptor = os.open(
            self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600
        )
        self._inode = os.fstat(self._descriptor).st_ino
        self._batches = 0
        self.size = 0
        self._append(b"")

    def is_in_place(self) -> bool:
        """Return whether the next start would find the entries."""
        try:
            return self._path.stat().st_ino == self._inode
        except FileNotFoundError:
            return False

    def write(self, sequence: int, entries: list[Entry]) -> None:
        batch = batch_of(sequence, entries)
        self._batches += 1
        self._append(batch)
        self.size += len(batch)

    def _append(self, batch: bytes) -> None:
        """Write a batch over the end mark, and the next mark."""
        position, rest = self.size, batch + end_mark(self._batches)
        while rest:
            written = os.pwrite(self._descriptor, rest, position)
            position, rest = position + written, rest[written:]

    def clear(self) -> None:
        if self.size:
            os.ftruncate(self._descriptor, 0)
            self._batches = self.size = 0
            self._append(b"")

    def close(self, *, remove: bool) -> None:
        os.close(self._descriptor)
        if remove:
            self._path.unlink(missing_ok=True)


def read_recent(folder: Path) -> tuple[list[tuple[int, list[Entry]]], bool]:
    """Return the batches, each with its sequence, and whether the file has nothing else.  What
    follows a damaged batch is not read.
    """
    content = (folder / FILE).read_bytes()
    batches, position = [], 0
    while (found := batch_at(content, position)) is not None:
        sequence, body, position = found
        batches.append((sequence, ENTRIES.decode(body)))
    return batches, content[position:] == end_mark(len(batches))

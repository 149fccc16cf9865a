"""Group commit: one fsync for all entries that were added while the disk was busy.

Entries are collected in a *batch*.  One batch is stored at a time, by a thread of its own; entries
that are added meanwhile form the next one.  `add` returns the number of the batch, and a callback
reports each batch that is stored.

Waking the disk thread can cost more than a fast fsync.  After 8 single-entry batches in a row, on a
fast disk, fsync runs on the event loop.

If storing fails, no batch is reported any more; one callback stops the node.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from time import monotonic_ns

from habemus.runtimes.live.hosting.turn import Turn
from habemus.runtimes.live.monitoring.meter import Meter
from habemus.runtimes.live.storage.batches import Entry
from habemus.runtimes.live.storage.log import StableMemory, StorageFailed

ALONE = 8
"""Single-entry batches in a row after which the event loop stores the next one itself."""
QUICK_NS = 2_000_000
"""Duration of the last batch above which the disk thread is used."""


class GroupCommit:
    """Stores batches of entries in stable memory."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        turn: Turn,
        memory: StableMemory,
        stored: Callable[[int], None],
        failed: Callable[[StorageFailed], None],
        counts: Counter[str],
    ) -> None:
        self._loop = loop
        self._turn = turn
        self._memory = memory
        self._stored = stored
        self._failed = failed
        self._counts = counts
        self.meter: Meter | None = None
        self._entries: list[Entry] = []  # of the next batch
        self._number = 1  # of that batch
        self._busy = False
        self._has_failed = False
        self._alone = 0  # single-entry batches in a row, with a pause before each
        self._lasted_ns = 0  # duration of the last batch
        self._ended_ns = 0  # end of the last batch
        self._work: SimpleQueue[tuple[int, list[Entry]] | None] = SimpleQueue()
        self._disk = threading.Thread(target=self._store_all, name="habemus-disk", daemon=True)
        self._disk.start()

    @property
    def is_idle(self) -> bool:
        return self._has_failed or not (self._busy or self._entries)

    def add(self, entry: Entry) -> int:
        """Add an entry.  Return the number of its batch."""
        if not self._entries and not self._busy:
            self._turn.at_end(self._begin)  # collects the entries of the whole turn
        self._entries.append(entry)
        return self._number

    def write(self, entry: Entry) -> bool:
        """Write an entry that a crash of the machine may lose.  Return whether it is written: not
        while other entries are being stored, because the order counts.
        """
        if not self._memory.can_write or self._has_failed or self._busy or self._entries:
            return False
        try:
            self._memory.write([entry])
        except StorageFailed as reason:
            self._has_failed = True
            self._failed(reason)
            return False
        self._counts["written"] += 1
        for each in self._memory.overdue():
            self.add(each)
        return True

    def remove(self, key: str) -> int | None:
        """Remove a key.  Return the number of the batch; None if that is done, as only `write` has
        given it a value.
        """
        if not self._memory.is_logged(key) and self.write((key, None)):
            return None
        return self.add((key, None))

    def close(self) -> None:
        """Finish the current batch, and end the thread."""
        self._work.put(None)
        self._disk.join()

    def _begin(self) -> None:
        if self._busy or not self._entries or self._has_failed:
            return
        self._busy = True
        entries, self._entries = self._entries, []
        number, self._number = self._number, self._number + 1
        self._counts["batches"] += 1
        self._counts["stored"] += len(entries)
        # An entry that follows the last batch at once has waited for the disk: there is load.
        is_alone = len(entries) == 1 and monotonic_ns() - self._ended_ns > self._lasted_ns // 4
        self._alone = self._alone + 1 if is_alone else 0
        if self._alone > ALONE and self._lasted_ns < QUICK_NS:
            # after the frames of this turn are sent
            self._turn.at_end(lambda: self._end(number, self._store(entries)))
        else:
            self._work.put((number, entries))

    def _store(self, entries: list[Entry]) -> BaseException | None:
        began = monotonic_ns()
        try:
            self._memory.commit(entries)
        except BaseException as reason:  # after any error no output of the batch may leave
            return reason
        self._ended_ns = monotonic_ns()
        self._lasted_ns = self._ended_ns - began
        if self.meter is not None:
            self.meter.fsyncs.observe(self._lasted_ns // 1_000)
        return None

    def _store_all(self) -> None:
        """Run in the disk thread: store one batch after the other."""
        while (work := self._work.get()) is not None:
            number, entries = work
            error = self._store(entries)
            with suppress(RuntimeError):  # the loop has closed
                self._loop.call_soon_threadsafe(self._stored_in_thread, number, error)

    def _stored_in_thread(self, number: int, error: BaseException | None) -> None:
        self._turn.open()
        try:
            self._end(number, error)
        finally:
            self._turn.close()

    def _end(self, number: int, error: BaseException | None) -> None:
        self._busy = False
        if error is not None:
            self._has_failed = True
            self._failed(error if isinstance(error, StorageFailed) else StorageFailed(str(error)))
            return
        self._stored(number)
        self._begin()

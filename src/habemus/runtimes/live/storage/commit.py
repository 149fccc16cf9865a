"""Group commit: one sync for all that changed while the disk was busy.

Entries gather in a *batch*.  One batch is being stored at a time, in a thread of its own; what is
added meanwhile forms the next one.  Whoever adds an entry learns the number of its batch, and is
told when the batch is stored.

To wake a thread, and to be woken by it, takes a good part of the time of a quick disk.  So when one
entry after the other has come alone for a while, and the disk is quick, the loop itself stores the
next one; nobody else seems to have anything for it to do.

If storing fails, nobody is told anything ever again, except the one callback that ends the node.
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
from habemus.runtimes.live.storage.log import Entry, StableMemory, StorageFailed

ALONE = 8
"""So many batches of one entry, one after the other, and the next is stored by the loop itself."""
QUICK_NS = 2_000_000
"""A disk that took longer for the last batch is waited for by the thread."""


class GroupCommit:
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
        self._entries: list[Entry] = []  # of the batch that gathers
        self._number = 1  # of that batch
        self._busy = False
        self._has_failed = False
        self._alone = (
            0  # how many batches of one entry there were, each some time after the one before
        )
        self._lasted_ns = 0  # how long the last batch took
        self._ended_ns = 0  # and when that was done
        self._work: SimpleQueue[tuple[int, list[Entry]] | None] = SimpleQueue()
        self._disk = threading.Thread(target=self._store_all, name="habemus-disk", daemon=True)
        self._disk.start()

    @property
    def is_idle(self) -> bool:
        return self._has_failed or not (self._busy or self._entries)

    def add(self, entry: Entry) -> int:
        """The number of the batch in which the entry will be stored."""
        if not self._entries and not self._busy:
            self._turn.at_end(self._begin)  # not at once: the rest of this turn goes with it
        self._entries.append(entry)
        return self._number

    def close(self) -> None:
        """After the batch that is being stored."""
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
        # What comes as soon as the disk is done has waited for it, or for the loop: somebody else
        # has come as well.
        is_alone = len(entries) == 1 and monotonic_ns() - self._ended_ns > self._lasted_ns // 4
        self._alone = self._alone + 1 if is_alone else 0
        if self._alone > ALONE and self._lasted_ns < QUICK_NS:
            self._turn.at_end(
                lambda: self._end(number, self._store(entries))
            )  # after what is sent in this turn
        else:
            self._work.put((number, entries))

    def _store(self, entries: list[Entry]) -> BaseException | None:
        began = monotonic_ns()
        try:
            self._memory.commit(entries)
        except BaseException as reason:  # whatever it was, nothing of the batch may leave
            return reason
        self._ended_ns = monotonic_ns()
        self._lasted_ns = self._ended_ns - began
        return None

    def _store_all(self) -> None:
        """In the thread: one batch after the other."""
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

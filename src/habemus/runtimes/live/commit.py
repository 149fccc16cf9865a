"""Group commit: one sync for all that changed while the disk was busy.

Entries gather in a *batch*.  One batch is being stored at a time, in a thread of its own; what is added meanwhile forms the next
one.  Whoever adds an entry learns the number of its batch, and is told when the batch is stored.

If storing fails, nobody is told anything ever again, except the one callback that ends the node.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from habemus.runtimes.live.storage import Entry, StableMemory, StorageFailed


class GroupCommit:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        memory: StableMemory | None,  # None: what is durable lasts as long as the process
        stored: Callable[[int], None],
        failed: Callable[[StorageFailed], None],
        counts: Counter[str],
    ) -> None:
        self._loop = loop
        self._memory = memory
        self._stored = stored
        self._failed = failed
        self._counts = counts
        self._entries: list[Entry] = []  # of the batch that gathers
        self._number = 1  # of that batch
        self._busy = False
        self._has_failed = False
        self._thread = ThreadPoolExecutor(1, "habemus-disk")

    @property
    def is_idle(self) -> bool:
        return self._has_failed or not (self._busy or self._entries)

    def add(self, entry: Entry) -> int:
        """The number of the batch in which the entry will be stored."""
        if not self._entries and not self._busy:
            self._loop.call_soon(self._begin)  # not at once: the rest of this turn goes with it
        self._entries.append(entry)
        return self._number

    def close(self) -> None:
        """After the batch that is being stored."""
        self._thread.shutdown(wait=True)

    def _begin(self) -> None:
        if self._busy or not self._entries or self._has_failed:
            return
        self._busy = True
        entries, self._entries = self._entries, []
        number, self._number = self._number, self._number + 1
        self._counts["batches"] += 1
        self._counts["stored"] += len(entries)
        if self._memory is None:
            self._loop.call_soon(self._end, number, None)
            return
        done = self._loop.run_in_executor(self._thread, self._memory.commit, entries)
        done.add_done_callback(lambda future: self._end(number, future.exception()))

    def _end(self, number: int, error: BaseException | None) -> None:
        self._busy = False
        if error is not None:
            self._has_failed = True
            self._failed(error if isinstance(error, StorageFailed) else StorageFailed(str(error)))
            return
        self._stored(number)
        self._begin()

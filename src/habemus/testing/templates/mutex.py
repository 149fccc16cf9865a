"""Mutual exclusion by a queue that one of the participants keeps.

The participant with the smallest number is the secretary.  The others send it their requests, and
it grants one at a time.

Source   your own.
Assumes  reliable links, in any order; no process crashes.
Cost     3 messages per entry: request, grant, release; none when the secretary itself enters.
Ensures  ME1, ME2; entry in order of arrival at the secretary.
"""

from collections.abc import Sequence

from habemus.algorithm import (
    Assumptions,
    Crashes,
    Links,
    Message,
    Mutex,
    MutexCosts,
    ProcessId,
    average,
    upon,
    whenever,
)


class Request(Message):
    pass


class Grant(Message):
    pass


class Release(Message):
    pass


class MyMutex(Mutex):
    assumes = Assumptions(links=Links.RELIABLE, crashes=Crashes.NONE)

    waits: bool = False  # this participant has requested and is not inside yet
    holder: ProcessId | None = None  # the process inside, known to the secretary
    queue: list[ProcessId] = []  # the waiting processes, the next one first

    def secretary(self) -> ProcessId:
        return min((self.me, *self.peers))

    # A participant.

    def acquire(self) -> None:
        self.waits = True
        self.send(Request(), to=self.secretary())

    @upon(Grant)
    def enter(self, sender: ProcessId, _: Grant) -> None:
        self.waits = False
        self.granted()

    def release(self) -> None:
        self.send(Release(), to=self.secretary())

    # The secretary.

    @upon(Request)
    def enqueue(self, sender: ProcessId, _: Request) -> None:
        self.queue.append(sender)

    @upon(Release)
    def vacate(self, sender: ProcessId, _: Release) -> None:
        self.holder = None

    def is_free_and_wanted(self) -> bool:
        return self.holder is None and bool(self.queue)

    @whenever(is_free_and_wanted)
    def admit_next(self) -> None:
        self.holder = self.queue.pop(0)
        self.send(Grant(), to=self.holder)

    # For reports and tests.

    def awaits(self) -> Sequence[ProcessId]:
        """Return the processes that this one waits for; explains a deadlock."""
        return [self.secretary()] if self.waits else []

    def costs(self, size: int) -> MutexCosts:
        """Return the costs by formula; measurements must equal it."""
        return MutexCosts(messages=average(3 * (size - 1), size))

"""Mutual exclusion by a queue of which every process has a copy: Lamport.

A process that wants to enter puts its request into its own copy of the queue and sends it to all
others, which put it into theirs and acknowledge it.  The queue is in order of (stamp, id), the same
everywhere.  A process enters when its request is the first in its copy and all others have sent it
a later message: then no earlier request can be in transit, because links keep the order.

Source   Lamport: Time, clocks, and the ordering of events in a distributed system, CACM 21(7),
         1978.
Assumes  reliable links that keep the order (FIFO); no process crashes.
Cost     3(N-1) messages per entry: request, acknowledgement, release.
Ensures  ME1, ME2, ME3.
Differs  Lamport lets a process save the acknowledgement when it has sent a later message anyway;
         here each request is acknowledged. Lecture notes call it tolerant of one failure.  It is
         not: one crashed process blocks all others. On links that do not keep the order an
         acknowledgement can overtake a request, and two enter: scenario lamport-not-fifo.
"""

from collections.abc import Sequence

from habemus.core import Message, ProcessId, upon, whenever
from habemus.core.assumptions import Assumptions
from habemus.problems.mutex import Mutex, MutexCosts


class Request(Message):
    stamp: int


class Acknowledgement(Message):
    stamp: int


class Release(Message):
    stamp: int


class Lamport(Mutex):
    name = "lamport"
    shows = ("clock", "queue")
    assumes = Assumptions(fifo=True)

    clock: int = 0
    inside: bool = False
    queue: dict[
        ProcessId, int
    ] = {}  # stamps of the open requests, by process; this process included
    silent: set[ProcessId] = set()  # from whom nothing later than the own request has come

    def acquire(self) -> None:
        self.clock += 1
        self.queue[self.me] = self.clock
        self.silent = set(self.peers)
        self.broadcast(Request(self.clock))

    @upon(Request)
    def enqueue(self, sender: ProcessId, request: Request) -> None:
        self.hear(sender, request.stamp)
        self.queue[sender] = request.stamp
        self.send(Acknowledgement(self.clock), to=sender)

    @upon(Acknowledgement)
    def note_acknowledgement(self, sender: ProcessId, acknowledgement: Acknowledgement) -> None:
        self.hear(sender, acknowledgement.stamp)

    @upon(Release)
    def dequeue(self, sender: ProcessId, release: Release) -> None:
        self.hear(sender, release.stamp)
        self.queue.pop(sender, None)  # None: only where a release can overtake its request

    def hear(self, sender: ProcessId, stamp: int) -> None:
        self.clock = max(self.clock, stamp) + 1
        if self.me in self.queue and (stamp, sender) > (self.queue[self.me], self.me):
            self.silent.discard(sender)

    def is_first_and_knows_it(self) -> bool:
        return (
            self.me in self.queue
            and not self.inside
            and not self.silent
            and self.first() == self.me
        )

    def first(self) -> ProcessId:
        return min((stamp, process) for process, stamp in sorted(self.queue.items()))[1]

    @whenever(is_first_and_knows_it)
    def enter(self) -> None:
        self.inside = True
        self.granted()

    def release(self) -> None:
        self.clock += 1
        self.inside = False
        del self.queue[self.me]
        self.broadcast(Release(self.clock))

    # What the catalog needs to know.

    def awaits(self) -> Sequence[ProcessId]:
        if self.me not in self.queue or self.inside:
            return []
        mine = (self.queue[self.me], self.me)
        return sorted(
            self.silent.union(
                process for process, stamp in sorted(self.queue.items()) if (stamp, process) < mine
            )
        )

    def costs(self, size: int) -> MutexCosts:
        return MutexCosts(messages=3 * (size - 1), client_delay=2, sync_delay=1)

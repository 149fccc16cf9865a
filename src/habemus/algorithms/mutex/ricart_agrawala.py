"""Mutual exclusion by permission of all others: Ricart and Agrawala.

A process that wants to enter asks all others and enters when all have replied.  A process that
is inside, or that asked earlier, keeps its reply back until it has left.

Source   Ricart, Agrawala: An optimal algorithm for mutual exclusion in computer networks, CACM
         24(1), 1981.
Assumes  reliable links, in any order; no process crashes.
Cost     2(N-1) messages per entry: request and reply; 3(N-1) with release notices.
Ensures  ME1, ME2, ME3.
Differs  Every event ticks and every message carries the clock, by Lamport's rule.  In the paper
         only requests have a number, and the clock is the largest that was seen (`tick=0`).  Then
         ME3 is not kept: a process may learn of a request through a reply and ask with a smaller
         number. Release notices (`notices=True`) are an addition found in lecture notes, which
         therefore count 3(N-1) messages.  They carry nothing that the algorithm needs; here they
         only move the clock. The same notes call it tolerant of one failure.  It is not: one
         crashed process blocks all others.
"""

from collections.abc import Sequence
from enum import IntEnum

from habemus.core import Const, Message, ProcessId, upon, whenever
from habemus.problems.mutex import Mutex, MutexCosts


class Request(Message):
    stamp: int


class Reply(Message):
    stamp: int


class Release(Message):
    stamp: int


class Standing(IntEnum):
    RELEASED = 0
    WANTED = 1
    HELD = 2


RELEASED, WANTED, HELD = Standing


class RicartAgrawala(Mutex):
    name = "ricart-agrawala"
    shows = ("state", "clock", "stamp", "deferred")
    sees_waiters = True

    notices: Const[bool] = False
    tick: Const[int] = (
        1  # what an event adds to the clock; 0: only requests carry a number, as in the paper
    )
    clock: int = 0
    state: Standing = RELEASED
    stamp: int = 0  # of the own request
    missing: set[ProcessId] = set()  # who has not replied to it yet
    deferred: set[ProcessId] = set()  # who gets a reply when this process has left

    def acquire(self) -> None:
        self.clock += 1
        self.state = WANTED
        self.stamp = self.clock
        self.missing = set(self.peers)
        self.broadcast(Request(self.stamp))

    @upon(Request)
    def reply_or_defer(self, sender: ProcessId, request: Request) -> None:
        self.clock = max(self.clock, request.stamp) + self.tick
        if self.state == HELD or (
            self.state == WANTED and (self.stamp, self.me) < (request.stamp, sender)
        ):
            self.deferred.add(sender)
        else:
            self.send(Reply(self.clock * self.tick), to=sender)

    @upon(Reply)
    def count_reply(self, sender: ProcessId, reply: Reply) -> None:
        self.clock = max(self.clock, reply.stamp) + self.tick
        self.missing.discard(sender)

    def has_every_reply(self) -> bool:
        return self.state == WANTED and not self.missing

    @whenever(has_every_reply)
    def enter(self) -> None:
        self.state = HELD
        self.granted()

    def release(self) -> None:
        self.clock += self.tick
        self.state = RELEASED
        for waiting in sorted(self.deferred):
            self.send(Reply(self.clock * self.tick), to=waiting)
        self.deferred.clear()
        if self.notices:
            self.broadcast(Release(self.clock))

    @upon(Release)
    def note_release(self, sender: ProcessId, release: Release) -> None:
        self.clock = max(self.clock, release.stamp) + self.tick

    def is_wanted(self) -> bool:
        return bool(self.deferred)

    # What the catalog needs to know.

    def awaits(self) -> Sequence[ProcessId]:
        return sorted(self.missing)

    def costs(self, size: int) -> MutexCosts:
        return MutexCosts(
            messages=(3 if self.notices else 2) * (size - 1), client_delay=2, sync_delay=1
        )

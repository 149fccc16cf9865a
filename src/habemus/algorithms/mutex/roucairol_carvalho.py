"""Mutual exclusion by permissions that are kept: Roucairol and Carvalho.

As with Ricart and Agrawala, a process that wants to enter needs the permission of all others.  But
a permission, once given, stays good until the giver asks for it.  So a process asks only those
whose permission it lacks, and one that enters again before another wants to asks no process.

Between any two processes there is at most one permission, and it is with one of them.  That alone
gives ME1.

Source   Carvalho, Roucairol: On mutual exclusion in computer networks, CACM 26(2), 1983.
Assumes  reliable links, in any order; no process crashes.
Cost     0 to 2(N-1) messages per entry: none for one that enters again, 2(N-1) when all others
         have entered since.
Ensures  ME1, ME2; a process that has all permissions enters without asking, even if an earlier
         request is under way to it (no ME3).
"""

from collections.abc import Sequence

from habemus.algorithms.mutex.ricart_agrawala import (
    HELD,
    RELEASED,
    WANTED,
    Reply,
    Request,
    Standing,
)
from habemus.core import ProcessId, upon, whenever
from habemus.problems.mutex import Mutex, MutexCosts


class RoucairolCarvalho(Mutex):
    name = "roucairol-carvalho"
    shows = ("state", "permitted", "deferred")
    sees_waiters = True

    clock: int = 0
    state: Standing = RELEASED
    stamp: int = 0  # of the own request
    permitted: set[ProcessId] = set()  # whose permission this process has
    deferred: set[ProcessId] = set()  # who gets its permission when it has left

    def acquire(self) -> None:
        self.clock += 1
        self.state = WANTED
        self.stamp = self.clock
        for peer in self.peers:
            if peer not in self.permitted:
                self.send(Request(self.stamp), to=peer)

    @upon(Request)
    def permit_or_defer(self, sender: ProcessId, request: Request) -> None:
        self.clock = max(self.clock, request.stamp) + 1
        if self.state == HELD or (
            self.state == WANTED and (self.stamp, self.me) < (request.stamp, sender)
        ):
            self.deferred.add(sender)
            return
        kept = sender in self.permitted
        self.permit(sender)
        if self.state == WANTED and kept:
            # It goes first, with the permission that this process had kept and so has not asked
            # for: now it must.
            self.send(Request(self.stamp), to=sender)

    def permit(self, process: ProcessId) -> None:
        """Give the permission to another, and so give up the permission of the other."""
        self.send(Reply(self.clock), to=process)
        self.permitted.discard(process)

    @upon(Reply)
    def keep_permission(self, sender: ProcessId, reply: Reply) -> None:
        self.clock = max(self.clock, reply.stamp) + 1
        self.permitted.add(sender)

    def has_every_permission(self) -> bool:
        return self.state == WANTED and len(self.permitted) == len(self.peers)

    @whenever(has_every_permission)
    def enter(self) -> None:
        self.state = HELD
        self.granted()

    def release(self) -> None:
        self.clock += 1
        self.state = RELEASED
        for waiting in sorted(self.deferred):
            self.permit(waiting)
        self.deferred.clear()

    def is_wanted(self) -> bool:
        return bool(self.deferred)

    # What the catalog needs to know.

    def awaits(self) -> Sequence[ProcessId]:
        return sorted(set(self.peers) - self.permitted) if self.state == WANTED else []

    def costs(self, size: int) -> MutexCosts:
        return MutexCosts(
            messages=2 * (size - 1), client_delay=2, sync_delay=1
        )  # when all enter in turn, none keeps a permission

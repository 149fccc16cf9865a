"""Ricart and Agrawala with fixed priorities: the more urgent goes first, and only among equals the
earlier.

The order of requests is (priority, stamp, id), smaller first; 0 is the most urgent.  This takes
more than another comparison.  With stamps alone, a process that has replied to a request asks later
and so comes after it.  With priorities it may come before it, and its reply must no longer count,
or both enter.  So a process that makes way for one that had replied to it asks it again.

Source   Lecture notes on Ricart-Agrawala, optimisation 2.
Assumes  reliable links that keep the order (FIFO), so that a request does not overtake a reply; no
         process crashes.
Cost     2(N-1) messages per entry: request and reply; 2 more for every reply that is void and asked
         for again.
Ensures  ME1; there is no deadlock, but a less urgent process starves while the others keep asking
         (scenario ra-priority-starved).
Differs  The notes only change the comparison.  That lets two processes in: one that has the reply
         of another, and that other, when it asks with a higher priority.
"""

from habemus.algorithms.mutex.ricart_agrawala import HELD, WANTED, Reply, RicartAgrawala
from habemus.core import Const, Message, ProcessId, upon
from habemus.core.assumptions import Assumptions


class PriorityRequest(Message):
    priority: int
    stamp: int


class RicartAgrawalaPriority(RicartAgrawala):
    name = "ra-priority"
    assumes = Assumptions(fifo=True)

    priority: Const[int] = 0

    def acquire(self) -> None:
        self.clock += 1
        self.state = WANTED
        self.stamp = self.clock
        self.missing = set(self.peers)
        self.broadcast(PriorityRequest(self.priority, self.stamp))

    @upon(PriorityRequest)
    def reply_or_defer_by_priority(self, sender: ProcessId, request: PriorityRequest) -> None:
        self.clock = max(self.clock, request.stamp) + 1
        mine = self.place(self.priority, self.stamp, self.me)
        if self.state == HELD or (
            self.state == WANTED and mine < self.place(request.priority, request.stamp, sender)
        ):
            self.deferred.add(sender)
        else:
            self.send(Reply(self.clock), to=sender)
            if self.state == WANTED and sender not in self.missing:
                self.ask_again(sender)

    def place(self, priority: int, stamp: int, process: ProcessId) -> tuple[int, ...]:
        """Return the place in the order of all requests: the smaller goes first."""
        return (priority, stamp, process)

    def ask_again(self, process: ProcessId) -> None:
        """Ask a process again that replied before it wanted to enter itself, and may now be inside
        first; that reply is void.
        """
        self.missing.add(process)
        self.send(PriorityRequest(self.priority, self.stamp), to=process)

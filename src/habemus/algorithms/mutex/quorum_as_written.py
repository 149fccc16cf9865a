"""Mutual exclusion by a quorum, as the older notes write it: any release frees the coordinator.

A coordinator that gets a release is free and grants the next one.  But a participant that enters
with two grants of three releases at all three coordinators, also at the one that has granted
another process.

Source   Lecture notes on coordination, an older version of the section on quorums.
Assumes  reliable links, in any order; no process crashes.
Cost     3n messages per entry, n the number of coordinators: request, grant, release.
Ensures  nothing under contention; a third participant gets the grant that another one still holds.
Differs  Requests have numbers, and a release also removes its sender from the queue, as in quorum:
         the release rule is the only mistake.  The newer notes correct it: a release frees the
         coordinator only if it is that of the process that was granted.
Unsafe   quorum-any-release
"""

from habemus.algorithms.mutex.quorum import Quorum, Release, Request
from habemus.algorithms.mutex.ricart_agrawala import WANTED
from habemus.core import ProcessId, upon
from habemus.core.assumptions import Assumptions


class QuorumAnyRelease(Quorum):
    name = "quorum-any-release"
    assumes = Assumptions()

    @upon(Release)
    def vacate(self, sender: ProcessId, release: Release) -> None:
        self.end_requests(sender, release.number)
        self.holder = None  # also that of another process


class QuorumUnnumbered(Quorum):
    """Mutual exclusion by a quorum whose requests have no numbers.

    A coordinator that is slow answers a request that is over long ago.  Without a number the
    participant takes the grant for an answer to its next request, and enters with a grant that the
    coordinator has given to another one since.

    Source   Lecture notes on coordination, the section on quorums, whose footnote advises numbers.
    Assumes  reliable links, in any order; no process crashes.
    Cost     3n messages per entry, n the number of coordinators: request, grant, release.
    Ensures  nothing if a participant asks more than once; a late grant counts for a later request.
    Differs  All requests have the number 0.
    Unsafe   quorum-unnumbered
    """

    name = "quorum-unnumbered"
    assumes = Assumptions()

    def acquire(self) -> None:
        self.state = WANTED
        self.grants.clear()
        self.tell_coordinators(Request(0))

    @upon(Request)
    def enqueue(self, sender: ProcessId, _: Request) -> None:
        self.queue.append((sender, 0))

    @upon(Release)
    def vacate(self, sender: ProcessId, _: Release) -> None:
        if self.holder == (sender, 0):
            self.holder = None
        elif (sender, 0) in self.queue:
            self.queue.remove((sender, 0))

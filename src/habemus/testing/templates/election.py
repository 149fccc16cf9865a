"""Election of the smallest: each process announces itself to all others.

The process that calls an election announces itself.  A process that hears an announcement does so
too.  A process that has heard all others names the smallest.

Source   your own.
Assumes  reliable links, in any order; no process crashes.
Cost     n(n-1) messages: one from each process to each other.
Ensures  E1, E2, E3, E4.
"""

from collections.abc import Sequence

from habemus.algorithm import (
    Assumptions,
    Crashes,
    Election,
    ElectionCosts,
    Leader,
    Links,
    Message,
    ProcessId,
    upon,
    whenever,
)


class Present(Message):
    pass


class MyElection(Election):
    assumes = Assumptions(links=Links.RELIABLE, crashes=Crashes.NONE)

    announced: bool = False  # this process has announced itself
    heard: set[ProcessId] = set()  # the processes whose announcements have arrived
    leader: ProcessId | None = None

    def elect(self) -> None:
        self.announce()

    def announce(self) -> None:
        if not self.announced:
            self.announced = True
            self.broadcast(Present())

    @upon(Present)
    def hear(self, sender: ProcessId, _: Present) -> None:
        self.heard.add(sender)
        self.announce()

    def has_heard_all(self) -> bool:
        is_complete = self.announced and len(self.heard) == len(self.peers)
        return is_complete and self.leader is None

    @whenever(has_heard_all)
    def follow_the_smallest(self) -> None:
        self.leader = min((self.me, *self.heard))
        self.indicate(Leader(self.leader))

    # For reports and tests.

    def awaits(self) -> Sequence[ProcessId]:
        """Return the processes that this one waits for; explains an election that does not end."""
        return sorted(set(self.peers) - self.heard) if self.announced else []

    def costs(self, size: int) -> ElectionCosts:
        """Return the costs by formula; measurements must equal it."""
        return ElectionCosts(messages=size * (size - 1))

"""Election of the smallest: everybody tells everybody its number.

Whoever calls an election says that it is there.  Whoever hears that says it too.  Who has heard all
others names the smallest.

Source   your own.
Assumes  reliable links, in any order; no process crashes.
Cost     n(n-1) messages: everybody to everybody, once.
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

    announced: bool = False  # the others know that this process is there
    heard: set[ProcessId] = set()  # whom this process knows to be there
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
        everybody = self.announced and len(self.heard) == len(self.peers)
        return everybody and self.leader is None

    @whenever(has_heard_all)
    def follow_the_smallest(self) -> None:
        self.leader = min((self.me, *self.heard))
        self.indicate(Leader(self.leader))

    # For whoever looks at it from outside.

    def awaits(self) -> Sequence[ProcessId]:
        """Whom this process waits for: it explains why an election stands still, if it does."""
        return sorted(set(self.peers) - self.heard) if self.announced else []

    def costs(self, size: int) -> ElectionCosts:
        """The formula, for an election that one process calls; what is measured must equal it."""
        return ElectionCosts(messages=size * (size - 1))

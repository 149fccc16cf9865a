"""Mutual exclusion by a token that goes round a ring.

The process that has the token may enter; one that does not want to enter passes it on at once, for
ever.

Source   Le Lann 1977; Coulouris et al., Distributed Systems, 5th ed., 15.2.
Assumes  reliable links; no process crashes.
Cost     1 message per entry when all want to enter, without bound when none does.
Ensures  ME1, ME2; entry in order of the ring, not of asking (no ME3).
"""

from collections.abc import Sequence
from typing import Any

from habemus.core import Const, Message, ProcessId, System, upon, whenever
from habemus.core.system import ring
from habemus.problems.mutex import Mutex


class Token(Message):
    pass


class TokenRing(Mutex):
    name = "token-ring"
    shows = ("has_token", "wanted")
    largest = 1_000_000

    successor: Const[ProcessId]
    has_token: bool = False
    wanted: bool = False
    inside: bool = False

    def acquire(self) -> None:
        self.wanted = True

    @upon(Token)
    def take_token(self, sender: ProcessId, _: Token) -> None:
        self.has_token = True

    def may_enter(self) -> bool:
        return self.has_token and self.wanted and not self.inside

    @whenever(may_enter)
    def enter(self) -> None:
        self.inside = True
        self.granted()

    def release(self) -> None:
        self.wanted = False
        self.inside = False

    def has_no_use_for_it(self) -> bool:
        return self.has_token and not self.wanted and self.successor != self.me

    @whenever(has_no_use_for_it)
    def pass_on(self) -> None:
        self.has_token = False
        self.send(Token(), to=self.successor)

    # What the catalog needs to know.

    def awaits(self) -> Sequence[ProcessId]:
        return [self.peers[0]] if self.wanted and not self.has_token and self.peers else []

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        """Return a ring of 1 to N; the token starts at 1."""
        around = range(1, size + 1)
        plans = {me: cls(successor=me % size + 1, has_token=me == 1, **options) for me in around}
        return System(plans, ring(around), tuple(around))

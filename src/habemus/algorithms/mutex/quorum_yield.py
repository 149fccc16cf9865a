"""Mutual exclusion by a quorum of coordinators, yielding to earlier requests.

Coordinators give out their grants as the voters of maekawa-sanders do: a process that cannot enter
yet gives a grant back that an earlier request needs.  So split grants come together again at the
earliest request, without any timer.  Grants are stored before they are sent, so coordinators may
crash and recover.

Source   Sanders, ACM TOCS 5(3), 1987, for the yielding; lecture notes on coordination for the
         quorum.
Assumes  reliable links, in any order, copies do no harm; a process that crashes recovers with its
         stable memory.
Cost     3n messages per entry alone, on average at most 6n in a crowd, n the number of
         coordinators; a recovery costs about 3N.
Ensures  ME1, ME2; also when coordinators and participants crash and recover, at any moment, once
         they stay up; no ME3.
Differs  With fewer than all grants needed, one gives back only when so many coordinators have put
         it off that the others are too few. A recovering coordinator sends its grant again under a
         new number, so that a YIELD of the old one, which may still be under way, is not taken for
         one of the new.
"""

from typing import Any

from habemus.algorithms.mutex.maekawa_sanders import Claim, Release, Request, Yielding
from habemus.algorithms.mutex.quorum import (
    COORDINATORS,
    MAJORITY,
    Recovered,
    costs_with_coordinators,
    with_coordinators,
)
from habemus.algorithms.mutex.ricart_agrawala import RELEASED
from habemus.core import Const, Durable, ProcessId, System, upon
from habemus.core.assumptions import Assumptions, Crashes
from habemus.problems.mutex import MutexCosts


class QuorumYield(Yielding):
    name = "quorum-yield"
    assumes = Assumptions(copies=True, crashes=Crashes.RECOVER, stable_memory=True)

    coordinators: Const[int] = (
        COORDINATORS  # how many there are; 0: the participants are the coordinators
    )
    quorum: Const[int] = MAJORITY  # how many of them must grant; 0: the smallest majority

    clock: Durable[int] = 0
    stamp: Durable[int] = 0
    voted_for: Durable[Claim | None] = None
    queue: Durable[list[Claim]] = []
    ended: Durable[dict[ProcessId, int]] = {}

    def on_recover(self) -> None:
        if self.stamp:  # It was a participant; whatever it wanted, or was in, is over.
            self.tell_voters(Release(self.stamp))
        if self.me in self.voters:
            self.send_vote()
            self.broadcast(Recovered())

    @upon(Recovered)
    def say_again(self, sender: ProcessId, _: Recovered) -> None:
        if self.state != RELEASED:
            self.send(Request(self.stamp), to=sender)
        elif self.stamp:
            self.send(Release(self.stamp), to=sender)

    # What the catalog needs to know.

    def costs(self, size: int) -> MutexCosts:
        return costs_with_coordinators(self.coordinators, size)

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        return with_coordinators(cls, size, **options)

"""Ricart and Agrawala over perfect links, for networks that lose, repeat and reorder messages.

The algorithm is the same file, untouched.  Its messages are numbered, acknowledged, sent again
until they are, and dropped when they come twice.

Source   Lecture notes on Ricart-Agrawala, optimisation 3 (reliable broadcast).
Assumes  fair-loss links: a message that is sent again and again arrives in the end; no process
         crashes.
Cost     4(N-1) messages per entry without loss: request, reply, and an acknowledgement of each;
         6(N-1) with release notices.
Ensures  ME1, ME2; ME3 only among what the algorithm itself sends: an acknowledgement of the links
         is also a cause, and has no stamp.
Differs  The notes ask for a reliable broadcast.  Perfect links suffice: the broadcast is one
         message to each, and its sender does not crash.
"""

from typing import Any

from habemus.algorithms.links.perfect import PerfectLinks
from habemus.algorithms.mutex.ricart_agrawala import RicartAgrawala
from habemus.core import Const, Span, System
from habemus.core.assumptions import Assumptions, Links
from habemus.core.system import complete
from habemus.problems.mutex import MutexCosts


class RicartAgrawalaReliable(RicartAgrawala):
    name = "ra-reliable"
    assumes = Assumptions(links=Links.FAIR_LOSS)

    every: Const[Span] = (3_000, 4_000)  # the time after which a message is sent again

    # What the catalog needs to know.

    def costs(self, size: int) -> MutexCosts:
        return super().costs(size)._replace(messages=(6 if self.notices else 4) * (size - 1))

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        plan = cls(**options)
        everybody = range(1, size + 1)
        return System(
            dict.fromkeys(everybody, plan.over(PerfectLinks(every=plan.every))),
            complete(everybody),
            tuple(everybody),
        )

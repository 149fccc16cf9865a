"""Election by the bully algorithm, with a key that restarting makes smaller.

With a fixed key, the strongest process takes over each time it recovers, however often it fails.
Here a process counts its restarts in stable memory, and fewer restarts come before any strength:
the one that comes and goes loses to the one that stays.

Source   Lecture notes on coordination: a process that is often away makes no good leader, however
         strong it is.
Assumes  as `bully`, and stable memory for one number.
Cost     O(n^2) messages: 3n(n-1)/2 + n-1 when all are up and one calls.
Ensures  E1, E2, E3, E4; E1 and E4 as long as round trips are shorter than `timeout` and no link is
         cut.
Differs  The notes want the longest uninterrupted uptime.  There is no clock here, so uptime is
         measured by what ends it: the key is (fewest restarts, `keys`, id).  Two processes that
         have restarted equally often are therefore equal, whenever that was.  No process knows the
         restarts of the others, so Elect goes to all, carries the key, and is ignored by
         smaller ones; the largest of all must wait for the timeout too.
"""

from habemus.algorithms.election.bully import Bully
from habemus.core import Durable, ProcessId
from habemus.core.assumptions import Assumptions, Crashes, Timing
from habemus.problems.election import ElectionCosts


class BullyStable(Bully):
    name = "bully-stable"
    assumes = Assumptions(
        crashes=Crashes.BETWEEN_ELECTIONS, timing=Timing.SYNCHRONOUS, stable_memory=True
    )

    restarts: Durable[int] = 0

    def key(self) -> tuple[int, ...]:
        return (-self.restarts, *self.key_of(self.me))

    def rivals(self) -> list[ProcessId]:
        return list(self.peers)

    def on_recover(self) -> None:
        self.restarts += 1
        self.call()

    # What the catalog needs to know.

    def costs(self, size: int) -> ElectionCosts:
        return ElectionCosts(messages=3 * size * (size - 1) // 2 + size - 1)

"""Election by a failure detector: the first of those that are not suspected leads.

Processes send no messages of their own; each relies on its detector.   As long as detectors err
there may be several leaders, and when they have become perfect all name the same one.

Source   Chandra, Hadzilacos, Toueg: The weakest failure detector for solving consensus, JACM 43(4),
         1996; lecture notes on leader election, algorithm 5.2.
Assumes  a detector that is eventually perfect, hence partial synchrony.  Crashes; a process that
         recovers may lead again.
Cost     no messages but those of the detector: O(n^2) per period.
Ensures  E1, E2, E3, E4; all in the end, when the detector makes no more mistakes.
Differs  The criterion is the smallest id, or the place in `order` if that is given; a subclass may
         have another one. The leader is indicated on each change, where the listing waits to be
         asked.  A call of the application changes nothing.
"""

from collections.abc import Iterable
from typing import Any

from habemus.algorithms.detectors.adaptive import Adaptive
from habemus.algorithms.detectors.eventually_perfect import EventuallyPerfect
from habemus.algorithms.detectors.heartbeat import Heartbeat
from habemus.algorithms.detectors.phi_accrual import PhiAccrual
from habemus.core import Const, ProcessId, System, Uses, upon, whenever
from habemus.core.assumptions import Assumptions, Crashes, Links, Timing
from habemus.core.process import MistakeInPlan
from habemus.problems.detector import Detector, Restored, Suspected
from habemus.problems.election import Election, Leader

DETECTORS = {
    detector.name: detector for detector in (EventuallyPerfect, Heartbeat, Adaptive, PhiAccrual)
}


class Omega(Election):
    name = "omega"
    shows = ("suspected", "leader")
    scope = "eventually"
    callers = "none"
    duration = 2_000_000
    assumes = Assumptions(
        links=Links.MOSTLY_RELIABLE, crashes=Crashes.STOP, timing=Timing.PARTIALLY_SYNCHRONOUS
    )

    detector: Uses[Detector]
    order: Const[tuple[ProcessId, ...]] = ()  # whom to prefer; none: the smaller id
    by: Const[str] = "eventually-perfect"  # which detector the catalog puts below
    suspected: set[ProcessId] = set()
    leader: ProcessId | None = None

    def elect(self) -> None:
        """Do nothing: the detector finds failures by itself."""

    @upon(Suspected)
    def distrust(self, event: Suspected) -> None:
        self.suspected.add(event.process)

    @upon(Restored)
    def trust_again(self, event: Restored) -> None:
        self.suspected.discard(event.process)

    def criterion(self, candidates: Iterable[ProcessId]) -> ProcessId:
        return min(candidates, key=self.order.index if self.order else None)

    def first_trusted(self) -> ProcessId:
        return self.criterion(sorted({self.me, *self.peers} - self.suspected))

    def leader_is_outdated(self) -> bool:
        return self.leader != self.first_trusted()

    @whenever(leader_is_outdated)
    def follow(self) -> None:
        self.leader = self.first_trusted()
        self.indicate(Leader(self.leader))

    # What the catalog needs to know.

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        """Return participants 1 to N, each connected to each, with a detector of the kind that `by`
        names.
        """
        by = options.get("by", "eventually-perfect")
        if by not in DETECTORS:
            raise MistakeInPlan(
                f"there is no detector {by}; there are {', '.join(sorted(DETECTORS))}"
            )
        order = options.get("order", ())
        if order and sorted(order) != list(range(1, size + 1)):
            raise MistakeInPlan(f"the order must name each of the {size} processes once")
        return super().system(size, detector=DETECTORS[by](), **options)

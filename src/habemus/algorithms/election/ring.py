"""Rings: how processes stand in a circle, and in which order of their ids.  What all elections on
rings share.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from habemus.core import Const, MistakeInPlan, ProcessId, System
from habemus.core.system import ring
from habemus.problems.election import Election

Order: TypeAlias = Literal["increasing", "decreasing", "random"] | tuple[ProcessId, ...]
"""Order of the ids in the direction of travel: sorted, shuffled, or given one by one."""

_64_BITS = (1 << 64) - 1


class Ring(Election):
    """Processes in a circle, each of which can speak to the next on its left and on its right.

    Elections that use one direction only send to the right.
    """

    largest = 1_000_000

    @property
    def left(self) -> ProcessId:
        return self.peers[0] if self.peers else self.me

    @property
    def right(self) -> ProcessId:
        return self.peers[-1] if self.peers else self.me

    def around(self, size: int) -> Sequence[ProcessId]:
        """The processes in the direction of travel."""
        return range(1, size + 1)

    def awaits(self) -> Sequence[ProcessId]:
        return [self.left]

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        """Return participants 1 to N, arranged as in the plan; all by the same plan, since there
        may be many.
        """
        plan = cls(**options)
        everybody = range(1, size + 1)
        return System(dict.fromkeys(everybody, plan), ring(plan.around(size)), tuple(everybody))


class RingOfIds(Ring):
    """A ring in which the order of the ids matters.  Another `arrangement` is another
    random order.
    """

    order: Const[Order] = "random"
    arrangement: Const[int] = 0

    def around(self, size: int) -> Sequence[ProcessId]:
        return arranged(size, self.order, self.arrangement)


def arranged(size: int, order: Order, arrangement: int = 0) -> Sequence[ProcessId]:
    """Return the ids 1 to N in the given order."""
    if order == "increasing":
        return range(1, size + 1)
    if order == "decreasing":
        return range(size, 0, -1)
    if order == "random":
        return shuffled(size, arrangement)
    if sorted(order) != list(range(1, size + 1)):
        raise MistakeInPlan(
            f"order is increasing, decreasing, random, or a list with each of the ids 1 to {size}"
            " once"
        )
    return order


def shuffled(size: int, arrangement: int) -> Sequence[ProcessId]:
    """Return the ids 1 to N, shuffled (Fisher and Yates) by the numbers of a small generator
    (SplitMix64): the same on every machine.
    """
    ids = list(range(1, size + 1))
    state = arrangement & _64_BITS
    for last in range(size - 1, 0, -1):
        state = (state + 0x9E3779B97F4A7C15) & _64_BITS
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _64_BITS
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _64_BITS
        chosen = (mixed ^ (mixed >> 31)) * (last + 1) >> 64
        ids[last], ids[chosen] = ids[chosen], ids[last]
    return ids

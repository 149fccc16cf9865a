"""The order that the vector clocks of a trace stand for (Fidge, Mattern)."""

from __future__ import annotations

from collections.abc import Sequence
from operator import le


def happened_before(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether the event with the first clock can have caused the event with the second."""
    assert len(one) == len(other), "clocks of different groups cannot be compared"
    return one != other and all(map(le, one, other))

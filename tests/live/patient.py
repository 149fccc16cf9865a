"""Algorithms of the catalog for a machine that stalls, where options do not suffice."""

from __future__ import annotations

from typing import Any

from habemus.algorithms.detectors.eventually_perfect import EventuallyPerfect
from habemus.algorithms.election.omega import Omega
from habemus.core import System


class PatientOmega(Omega):
    """The detector of `omega` waits for 20 ms at first, and that is no option."""

    name = "omega"

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        detector = EventuallyPerfect(period=1_500_000, step=5_000_000)
        return super(Omega, cls).system(size, detector=detector, **options)

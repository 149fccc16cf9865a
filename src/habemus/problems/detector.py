"""Failure detection: the interface of every detector.

A detector watches its peers and reports which of them it suspects to have crashed.  It may be
wrong; then it withdraws the suspicion.
"""

from __future__ import annotations

from typing import Any, ClassVar

from habemus.core import Indication, Process, ProcessId, System
from habemus.core.system import complete


class Suspected(Indication):
    """A process seems to have crashed.

    process: the suspected process.
    """

    process: ProcessId


class Restored(Indication):
    """A suspicion is withdrawn: it was a mistake, or the process has recovered.

    process: the process that is not suspected any more.
    """

    process: ProcessId


class Detector(Process):
    """Base class of failure detectors: each reports every change of its suspicions."""

    indications = (Suspected, Restored)
    name: ClassVar[str] = ""
    """Name of the algorithm in the catalog."""
    largest: ClassVar[int] = 1_000
    """Largest number of participants of a run.  Each watches all others, so each period costs the
    square.
    """
    duration: ClassVar[int | None] = 2_000_000
    """Default duration of a run after its last fault; detectors never become idle."""

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        """Return participants 1 to N, all of the same plan and all connected to each other."""
        plan = cls(**options)
        participants = range(1, size + 1)
        return System(
            dict.fromkeys(participants, plan), complete(participants), tuple(participants)
        )

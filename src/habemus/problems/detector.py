"""Failure detection: the interface of every detector.

A detector watches its peers and says whom it suspects to have crashed.  It may be wrong, and takes
that back.
"""

from __future__ import annotations

from typing import Any, ClassVar

from habemus.core import Indication, Process, ProcessId, System
from habemus.core.system import complete


class Suspected(Indication):
    """This process seems to have crashed."""

    process: ProcessId


class Restored(Indication):
    """This process was suspected and has shown itself: that was a mistake, or it has come back."""

    process: ProcessId


class Detector(Process):
    """Says which of its peers it suspects, on every change."""

    indications = (Suspected, Restored)
    name: ClassVar[str] = ""
    """Under which the catalog lists the algorithm."""
    largest: ClassVar[int] = 1_000
    """How many participants a run may have; everybody watches everybody, so each period costs the
    square.
    """
    duration: ClassVar[int | None] = 2_000_000
    """How long a run lasts, counted from its last fault, when the run does not say: detectors never
    come to rest.
    """

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        """Participants 1 to N, each connected to each, all by the same plan."""
        plan = cls(**options)
        everybody = range(1, size + 1)
        return System(dict.fromkeys(everybody, plan), complete(everybody), tuple(everybody))

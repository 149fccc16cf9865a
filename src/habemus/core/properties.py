"""Properties: what is claimed of a run, and what became of the claim.

Three kinds of property: *always* (nothing bad happens; one event can refute it), *eventually*
(something good happens; only the end of a run that was not cut off can refute it) and *sometimes*
(something happens at all, so that no check passes on nothing).  And three verdicts, because a run
that was cut off, or a check that never saw the event it is about, has shown nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from habemus.core.process import ProcessId


class Kind(Enum):
    ALWAYS = "always"
    EVENTUALLY = "eventually"
    SOMETIMES = "sometimes"


class Verdict(Enum):
    """What became of a claim.  A run that was cut off leaves some claims undecided."""

    HOLDS = "holds"
    VIOLATED = "violated"
    UNDECIDED = "undecided"


class Property(NamedTuple):
    name: str
    kind: Kind
    says: str


class Finding(NamedTuple):
    """What a monitor found out about one property, with the reason in words."""

    name: str
    verdict: Verdict
    why: str
    time: int | None = None  # when it was violated
    processes: tuple[ProcessId, ...] = ()  # by whom


def worst(findings: Iterable[Finding]) -> Verdict:
    """The verdict on a whole: violated if anything is, else undecided if anything is."""
    verdicts = {finding.verdict for finding in findings}
    for verdict in (Verdict.VIOLATED, Verdict.UNDECIDED):
        if verdict in verdicts:
            return verdict
    return Verdict.HOLDS

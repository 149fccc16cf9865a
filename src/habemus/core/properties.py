"""Properties of a run, and the verdicts on them.

There are three kinds of property.  *Always*: nothing bad happens; one event can refute it.
*Eventually*: something good happens; only the end of a run that was not cut off can refute it.
*Sometimes*: the event that a property is about happens at all, so that no check passes vacuously.

A verdict may be undecided, because a run that was cut off, or a check that never saw the event it
is about, decides nothing.
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
    """The verdict on a property.  A run that was cut off leaves some properties undecided."""

    HOLDS = "holds"
    ALMOST_SURELY = "with probability one"  # unless random draws fail for ever, in a search only
    VIOLATED = "violated"
    UNDECIDED = "undecided"


class Property(NamedTuple):
    name: str
    kind: Kind
    says: str


NO_EXCEPTION = Property("no exception", Kind.ALWAYS, "no handler raises an exception")
"""The property of every algorithm that a search judges beside those of its problem."""


class Finding(NamedTuple):
    """The verdict of a monitor on one property, with the reason in words.

    name: the name of the property, such as ME1.
    verdict: the verdict.
    why: the reason.
    time: when the property was violated, in microseconds; None if it was not.
    processes: the processes that violated it.
    """

    name: str
    verdict: Verdict
    why: str
    time: int | None = None
    processes: tuple[ProcessId, ...] = ()


def worst(findings: Iterable[Finding]) -> Verdict:
    """Return the worst of the verdicts: violated, undecided, with probability one, holds."""
    verdicts = {finding.verdict for finding in findings}
    for verdict in (Verdict.VIOLATED, Verdict.UNDECIDED, Verdict.ALMOST_SURELY):
        if verdict in verdicts:
            return verdict
    return Verdict.HOLDS


def reasons(findings: Iterable[Finding], verdict: Verdict) -> list[str]:
    """Return the reasons of the findings that have this verdict, each once."""
    telling = [finding for finding in findings if finding.verdict is verdict]
    if verdict is Verdict.HOLDS:
        return list(dict.fromkeys(finding.why for finding in telling))
    return [f"{finding.name}: {finding.why}" for finding in telling]

"""Which crashes a card says that its algorithm stands: so far its claims must hold, and no further
are they tried.

A card says it in the words of its `Assumes` (the crashes that do not happen, or those that may)
and, where stable memory makes the difference, of its `Ensures`.  The words are listed here one by
one.  Whatever they do not cover is not tolerated: a card that is silent claims nothing.
"""

from __future__ import annotations

import re
from enum import Enum

from habemus.catalog.entries import Entry


class Tolerance(Enum):
    """Who may crash without breaking a claim."""

    NOBODY = "no process may crash"
    BYSTANDERS = "whoever neither waits nor is inside may crash, as long as more than half stay up"
    OUTSIDERS = "any participant that is not inside may crash"
    FOR_GOOD = "any process may crash and stay down, as long as one stays up"
    RETURNING = "any process may crash at any moment and comes back with its stable memory"
    ANYBODY = (
        "any process may crash at any moment, for good or to come back with its stable memory, as"
        " long as one stays up"
    )
    MINORITY = (
        "any process may crash and come back with its stable memory, and more than half are up in"
        " the end"
    )
    BETWEEN = (
        "any process may crash or come back between two elections, and somebody calls the next one"
    )


_ASSUMPTIONS: tuple[tuple[str, Tolerance], ...] = (
    (r"no process crashes", Tolerance.NOBODY),
    (r"nobody crashes", Tolerance.NOBODY),
    (r"neither waiting nor inside may crash, while more than half are up", Tolerance.BYSTANDERS),
    (r"neither the coordinator nor the process inside crashes", Tolerance.OUTSIDERS),
    (
        r"neither the coordinator nor a process that waits or is inside crashes",
        Tolerance.BYSTANDERS,
    ),
    (r"whoever crashes comes back with its stable memory", Tolerance.RETURNING),
    (r"any number may crash.* come back with their stable memory", Tolerance.ANYBODY),
    (r"more than half of the weight stays up", Tolerance.MINORITY),
    (
        r"stable memory; (?:me1|fence) needs nothing else",
        Tolerance.RETURNING,
    ),  # ME2 needs them back in the end
    (r"may crash and come back, but not come back in the middle of an election", Tolerance.BETWEEN),
    (r"as `bully`", Tolerance.BETWEEN),
    (
        r"crashes; a process that comes back may lead again",
        Tolerance.FOR_GOOD,
    ),  # and so its coming back may unseat a leader
    (r"somebody stays up from some moment on", Tolerance.ANYBODY),
    (r"crashes, and recoveries with stable memory", Tolerance.ANYBODY),
    (r"(?:^|[.;] )crashes\.$", Tolerance.FOR_GOOD),
)


def tolerates(entry: Entry) -> Tolerance:
    """Which crashes the card allows."""
    assumes = " ".join(entry.box.sections.get("Assumes", "").lower().split())
    return next(
        (tolerance for words, tolerance in _ASSUMPTIONS if re.search(words, assumes)),
        Tolerance.NOBODY,
    )


def mentions_crashes(entry: Entry) -> bool:
    """Whether the card says anything about crashes that `tolerates` must have understood."""
    return "crash" in entry.box.sections.get("Assumes", "").lower()


def also_holds(entry: Entry) -> tuple[str, ...]:
    """What the card does not claim, but says to hold while nobody stands still: no run of a sweep
    has a pause.
    """
    assumes = " ".join(entry.box.sections.get("Assumes", "").split())
    return tuple(
        re.findall(
            r"(\w+), which is not claimed, also holds as long as nobody stands still", assumes
        )
    )


_BOUNDED = (
    "bound",
    "synchron",
    "as `bully`",
    "heartbeats arrive",
    "delays that differ",
    "settles in the end",
)


def stands_late_messages(entry: Entry) -> bool:
    """Whether the card assumes no bound on how long a message takes, so that a rare very late one
    must do no harm.
    """
    assumes = entry.box.sections.get("Assumes", "").lower()
    return not any(words in assumes for words in _BOUNDED)


def stands_copies(entry: Entry) -> bool:
    """Whether the card says that a message may come twice."""
    assumes = entry.box.sections.get("Assumes", "").lower()
    return "copies do no harm" in assumes or "fair-loss" in assumes


def stands_loss(entry: Entry) -> bool:
    """Whether the card says that messages may be lost."""
    return "fair-loss" in entry.box.sections.get("Assumes", "").lower()

"""Assumptions of algorithms about the system they run in, as data.

Every process class has an attribute `assumes`. Sweeps, cards and torture read it to decide which
faults an algorithm must survive and which they must not inject.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Links(Enum):
    """Guarantees of links."""

    RELIABLE = "every message between processes that are up arrives, once"
    MOSTLY_RELIABLE = "few messages are lost"
    FAIR_LOSS = "any message may be lost or duplicated; one that is sent again and again arrives"


class Timing(Enum):
    """Bounds on the time that messages and steps take."""

    ASYNCHRONOUS = "no bound on delays"
    PARTIALLY_SYNCHRONOUS = "a bound holds from some unknown moment on"
    SYNCHRONOUS = "a known bound always holds"


class Crashes(Enum):
    """Crashes that break no claim of an algorithm."""

    NONE = "no process crashes"
    IDLE = "a process that neither waits nor is inside may crash, while more than half stay up"
    OUTSIDE = "any participant that is not inside may crash"
    STOP = "any process may crash and stay down, as long as one stays up"
    RECOVER = "any process may crash at any moment, and recovers with its stable memory"
    ANY = (
        "any process may crash at any moment and stay down or recover with its stable memory, as"
        " long as one stays up"
    )
    MINORITY = (
        "any process may crash and recover with its stable memory, and more than half are up in"
        " the end"
    )
    BETWEEN_ELECTIONS = (
        "any process may crash or recover between two elections, and the application calls the"
        " next one"
    )


@dataclass(frozen=True)
class Assumptions:
    """Assumptions of an algorithm about links, crashes and time.

    The default is the most that can be assumed without timing: reliable links in any order, no
    crash.

    links: the guarantees of links.
    fifo: whether links deliver messages in the order in which they were sent.
    copies: whether a message may be delivered twice.
    crashes: the crashes that break no claim.
    timing: the bounds on the time that messages and steps take.
    stable_memory: whether durable variables survive a crash.
    always: names of the properties that need stable memory and nothing else.
    holds_without_pauses: names of properties that are not claimed, but hold in every run in which
        no process is paused.
    """

    links: Links = Links.RELIABLE
    fifo: bool = False
    copies: bool = False
    crashes: Crashes = Crashes.NONE
    timing: Timing = Timing.ASYNCHRONOUS
    stable_memory: bool = False
    always: tuple[str, ...] = ()
    holds_without_pauses: tuple[str, ...] = ()

    @property
    def tolerates_loss(self) -> bool:
        """True if any message may be lost."""
        return self.links is Links.FAIR_LOSS

    @property
    def tolerates_copies(self) -> bool:
        """True if any message may be delivered twice."""
        return self.copies or self.links is Links.FAIR_LOSS

    @property
    def tolerates_delays(self) -> bool:
        """True if a message may take arbitrarily long."""
        return self.timing is Timing.ASYNCHRONOUS

    @property
    def tolerates_cuts(self) -> bool:
        """True if a link may lose every message for a while: where any message may be lost, or
        where some may be and the bound on time holds only from some moment on.
        """
        return self.tolerates_loss or (
            self.links is Links.MOSTLY_RELIABLE and self.timing is Timing.PARTIALLY_SYNCHRONOUS
        )

    @property
    def tolerates_restarts(self) -> bool:
        """True if a node may crash and recover with its stable memory."""
        return self.stable_memory and self.crashes is not Crashes.NONE

"""Election as its safety properties allow it: everything that keeps them, and nothing more.

A search of an algorithm above an election puts this one in the place of the real one.  At any
moment a process may lead, follow the leader of a term, or know no leader.  No message is needed:
the terms belong to the processes in turn, so a process knows by itself which terms it may lead.

Source   ours; Abadi, Lamport: Composing specifications, ACM TOPLAS 15(1), 1993 (a component is
         replaced by what it guarantees).
Assumes  an algorithm above that compares terms and does nothing else with them.  Then it makes no
         difference which numbers they have: the terms of any election can be renumbered in order,
         so that each belongs to the process that leads it.
Cost     no message.
Ensures  nothing live, since it need not elect; T1, T2 and T3 below, which are about terms.
"""

from habemus.core import Const, Durable, ProcessId, Timer, upon
from habemus.core.properties import Kind, Property
from habemus.problems.election import Election, Leader

T1 = Property("T1", Kind.ALWAYS, "all processes that name a leader of a term name the same one")
T2 = Property("T2", Kind.ALWAYS, "a process begins to lead a term at most once")
T3 = Property(
    "T3", Kind.ALWAYS, "the terms that a process names never decrease, even if it recovers"
)
PROPERTIES = (T1, T2, T3)

ANY_TIME = (1, 1_000_000)


class Lead(Timer):
    """The process begins to lead a term."""


class Follow(Timer):
    """The process learns which other process leads a term."""


class Doubt(Timer):
    """The process knows no leader any more."""


class Settle(Timer):
    """The process learns the leader that all will follow for ever."""


class AbstractElection(Election):
    scope = "term"
    callers = "none"
    can_resign = True

    terms: Const[int] = 2  # how many there are
    term: Durable[int] = 0  # the newest that it has named
    led: Durable[int] = 0  # the newest that it has led
    leader: ProcessId | None = None  # of that term, if it knows it

    def elect(self) -> None:
        """Do nothing: it may elect at any moment."""

    def on_start(self) -> None:
        self.set_timers()

    def owner(self, term: int) -> ProcessId:
        everybody = sorted((self.me, *self.peers))
        return everybody[(term - 1) % len(everybody)]

    def current_terms(self) -> range:
        return range(max(self.term, 1), self.terms + 1)

    # The terms that it may name next, and what it then names.

    def terms_to_lead(self) -> list[int]:
        return [
            term for term in self.current_terms() if self.owner(term) == self.me and term > self.led
        ]

    def terms_to_follow(self) -> list[int]:
        return [
            term
            for term in self.current_terms()
            if self.owner(term) != self.me and (term > self.term or self.leader is None)
        ]

    def terms_to_doubt(self) -> list[int]:
        return [
            term for term in self.current_terms() if term > self.term or self.leader is not None
        ]

    @upon(Lead)
    def lead(self, _: Lead) -> None:
        self.led = self.choose(self.terms_to_lead())
        self.name_leader(self.me, self.led)

    @upon(Follow)
    def follow(self, _: Follow) -> None:
        term = self.choose(self.terms_to_follow())
        self.name_leader(self.owner(term), term)

    @upon(Doubt)
    def doubt(self, _: Doubt) -> None:
        self.name_leader(None, self.choose(self.terms_to_doubt()))

    def resign(self, heir: ProcessId) -> None:
        if self.leader == self.me:
            self.name_leader(None, self.term)

    def name_leader(self, leader: ProcessId | None, term: int) -> None:
        self.leader, self.term = leader, term
        self.indicate(Leader(leader, term))
        self.set_timers()

    def set_timers(self) -> None:
        """Set the timer of each thing that it may do, so that it may happen at any moment."""
        for timer, terms in (
            (Lead(), self.terms_to_lead()),
            (Follow(), self.terms_to_follow()),
            (Doubt(), self.terms_to_doubt()),
        ):
            if terms:
                self.set_timer(timer, after=ANY_TIME)
            else:
                self.cancel_timer(timer)


class SettledElection(AbstractElection):
    """The abstract election from the moment on at which it settles: every process names the same
    leader of a new term, each when it learns of it, and nothing else happens.
    """

    settled_on: Const[ProcessId]

    def on_start(self) -> None:
        self.set_timer(Settle(), after=ANY_TIME)

    def resign(self, heir: ProcessId) -> None:
        """Do nothing: the processes follow one leader for ever."""

    @upon(Settle)
    def settle(self, _: Settle) -> None:
        new = range(self.terms + 1, self.terms + len(self.peers) + 2)
        self.term = next(term for term in new if self.owner(term) == self.settled_on)
        self.leader = self.settled_on
        self.indicate(Leader(self.leader, self.term))

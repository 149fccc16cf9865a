"""Election by terms: one vote per term, and more than half of the weight to lead.

Time is cut into terms.  In each a process votes at most once, and stores its vote before it sends
it; the one with more than half of the weight leads for that term.  Two majorities of one term would
share a process that voted twice, so there are never two leaders in one term, whatever the timing.
Leaders of different terms may overlap: the newer term wins wherever it is heard of.

Source   Ongaro, Ousterhout: In search of an understandable consensus algorithm, USENIX ATC 2014,
         5.2; Ongaro's thesis, 9.6 (pre-vote); weighted votes after Gifford 1979.
Assumes  stable memory; E1 needs nothing else.  E2, E3 and E4: more than half of the weight stays up
         and connected, and in the end messages and heartbeats arrive within the shortest timeout.
Cost     O(n) messages: 5(n-1) for an undisturbed election (3(n-1) without the pre-vote), then n-1
         per heartbeat period.
Ensures  E1, E2, E3, E4; E1 in the scope of a term, under any timing and with crashes, recoveries
         and cuts.
Differs  Only the election of the paper; there is no log that could make one candidate better than
         another.  Of an older term only a heartbeat is answered: a process whose candidacy was cut
         off is in a term ahead of the leader's, and since no process backs it, its answer is all
         that tells the leader of that term.  A process backs a pre-vote if it knows of no leader,
         that is if its own patience has run out too.  A process that has just recovered may merely
         not have heard the leader yet, and waits for its patience to run out.  The application may
         call an election; a process that knows of a leader ignores the call, since others may not
         have heard that leader yet and would back the caller.  A leader may resign: it names an
         heir that calls the next election without waiting (TimeoutNow, thesis 3.10).  A candidate
         that has not won when its patience runs out waits twice as long the next time: votes may
         be on their way that take longer.
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Self

from habemus.core import Const, Durable, Message, ProcessId, Span, Timer, request, upon, whenever
from habemus.core.assumptions import Assumptions, Crashes, Links, Timing
from habemus.problems.election import Election, Leader


class Sounding(Message):
    """Would you vote for me in that term?  The receiver changes nothing."""

    next_term: int


class Backing(Message):
    next_term: int


class Candidacy(Message):
    term: int


class Vote(Message):
    term: int


class Heartbeat(Message):
    term: int


class Overtaken(Message):
    """The answer to a heartbeat of an older term: there has been a newer one since."""

    term: int


class Resignation(Message):
    """The leader of the term steps down; the heir calls an election at once, the others back it."""

    term: int
    heir: ProcessId


class Patience(Timer):
    """Nothing has been heard of a leader for too long."""


class Beat(Timer):
    pass


class Stage(IntEnum):
    FOLLOWING = 0
    SOUNDING = 1
    STANDING = 2
    LEADING = 3


FOLLOWING, SOUNDING, STANDING, LEADING = Stage

DOUBLINGS = 3
"""How often the patience doubles: a process waits up to 8 times as long after failed elections."""


class Terms(Election):
    name = "terms"
    shows = ("term", "stage", "voted_for", "leader")
    scope = "term"
    callers = "none"
    can_resign = True
    duration = 2_000_000
    assumes = Assumptions(
        links=Links.MOSTLY_RELIABLE,
        crashes=Crashes.MINORITY,
        timing=Timing.PARTIALLY_SYNCHRONOUS,
        stable_memory=True,
        always=("E1",),
    )

    weights: Const[tuple[int, ...]] = ()  # of processes 1, 2, ...; none: all weigh the same
    prevote: Const[bool] = True
    patience: Const[Span] = (100_000, 200_000)
    period: Const[Span] = 20_000
    term: Durable[int] = 0
    voted_for: Durable[ProcessId | None] = None  # in this term
    stage: Stage = FOLLOWING
    supporters: set[ProcessId] = set()  # of the own sounding or candidacy
    leader: ProcessId | None = None
    just_recovered: bool = False  # there may be a leader that it has not heard yet

    def weight_of(self, processes: Iterable[ProcessId]) -> int:
        return sum(self.weights[process - 1] if self.weights else 1 for process in processes)

    def has_majority(self) -> bool:
        return 2 * self.weight_of(self.supporters) > self.weight_of((self.me, *self.peers))

    def on_start(self) -> None:
        self.set_timer(Patience(), after=self.patience)

    def on_recover(self) -> None:
        self.just_recovered = True
        self.on_start()

    def on_replaced(self, others: Sequence[Self], life: int) -> None:
        """Adopt the newest term and count as having voted in it: any term in which it has voted is
        known to the candidate.
        """
        self.term = max(other.term for other in others)
        self.voted_for = self.me

    # Calling an election.

    def elect(self) -> None:
        if self.leader is None:
            self.call()

    @upon(Patience)
    def give_up_leader(self, _: Patience) -> None:
        self.set_timer(Patience(), after=self.longer_patience())
        self.just_recovered = False
        self.follow(None)
        self.call()

    def longer_patience(self) -> Span:
        """Return the patience, doubled for each failed election, but not more than 3 times."""
        times = 1 << min(self.failed_elections(), DOUBLINGS)
        if isinstance(self.patience, int):
            return self.patience * times
        shortest, longest = self.patience
        return shortest * times, longest * times

    def failed_elections(self) -> int:
        """Return how many elections have failed since the last leader, as far as it knows."""
        return 1 if self.stage == STANDING else 0

    def call(self) -> None:
        if self.prevote:
            self.stage = SOUNDING
            self.supporters = {self.me}
            self.broadcast(Sounding(self.term + 1))
        else:
            self.stand()

    def is_leaderless(self) -> bool:
        return self.leader is None and not self.just_recovered

    @upon(Sounding)
    def back_unless_led(self, sender: ProcessId, sounding: Sounding) -> None:
        if sounding.next_term > self.term and self.is_leaderless():
            self.send(Backing(sounding.next_term), to=sender)

    @upon(Backing)
    def count_backing(self, sender: ProcessId, backing: Backing) -> None:
        if self.stage == SOUNDING and backing.next_term == self.term + 1:
            self.supporters.add(sender)

    def has_enough_backing(self) -> bool:
        """Return whether it may call an election. While there is a leader no other process backs
        it, and its own weight does not count, even if that is a majority.
        """
        return (
            self.stage == SOUNDING
            and self.has_majority()
            and (self.is_leaderless() or self.supporters != {self.me})
        )

    @whenever(has_enough_backing)
    def stand(self) -> None:
        self.adopt(self.term + 1)
        self.stage = STANDING
        self.voted_for = self.me
        self.supporters = {self.me}
        self.broadcast(Candidacy(self.term))

    # Voting.

    @upon(Candidacy)
    def vote_once(self, sender: ProcessId, candidacy: Candidacy) -> None:
        if self.is_current(candidacy.term) and self.voted_for in (None, sender):
            self.voted_for = sender
            self.send(Vote(self.term), to=sender)

    @upon(Vote)
    def count_vote(self, sender: ProcessId, vote: Vote) -> None:
        if self.is_current(vote.term) and self.stage == STANDING:
            self.supporters.add(sender)

    def has_won(self) -> bool:
        return self.stage == STANDING and self.has_majority()

    @whenever(has_won)
    def lead(self) -> None:
        self.stage = LEADING
        self.cancel_timer(Patience())
        self.follow(self.me)
        self.beat(Beat())

    # Leading and following.

    @upon(Beat)
    def beat(self, _: Beat) -> None:
        self.broadcast(Heartbeat(self.term))
        self.set_timer(Beat(), after=self.period)

    @upon(Heartbeat)
    def stay_loyal(self, sender: ProcessId, heartbeat: Heartbeat) -> None:
        if self.is_current(heartbeat.term):
            self.stage = FOLLOWING
            self.just_recovered = False
            self.follow(sender)
            self.set_timer(Patience(), after=self.patience)
        else:
            self.send(Overtaken(self.term), to=sender)

    @upon(Overtaken)
    def step_down(self, _: ProcessId, overtaken: Overtaken) -> None:
        self.is_current(overtaken.term)

    @request
    def resign(self, heir: ProcessId) -> None:
        """Step down in favour of a peer, for example before a shutdown."""
        if self.stage == LEADING:
            self.broadcast(Resignation(self.term, heir))
            self.cease_to_lead()
            self.follow(None)

    @request
    def begin_term(self, after: int) -> None:
        """Stand for the next term, if this process leads the given one.  No pre-vote is needed: the
        leader itself ends its term.
        """
        if self.stage == LEADING and self.term == after:
            self.stand()

    @upon(Resignation)
    def succeed_or_back(self, sender: ProcessId, resignation: Resignation) -> None:
        if self.is_current(resignation.term) and self.leader == sender:
            self.follow(None)
            if self.me == resignation.heir:
                self.call()

    def follow(self, leader: ProcessId | None) -> None:
        if self.leader != leader:
            self.leader = leader
            self.indicate(Leader(leader, self.term))

    # Terms.

    def is_current(self, term: int) -> bool:
        """Adopt a newer term. Return whether a message of this term is current."""
        if term > self.term:
            self.adopt(term)
        return term == self.term

    def adopt(self, term: int) -> None:
        if self.stage == LEADING:
            self.cease_to_lead()
        self.term = term
        self.voted_for = None
        self.stage = FOLLOWING
        self.follow(None)

    def cease_to_lead(self) -> None:
        self.stage = FOLLOWING
        self.cancel_timer(Beat())
        self.set_timer(Patience(), after=self.patience)

    # What the catalog needs to know.

    def awaits(self) -> Sequence[ProcessId]:
        return (
            []
            if self.leader is not None
            else [peer for peer in self.peers if peer not in self.supporters]
        )

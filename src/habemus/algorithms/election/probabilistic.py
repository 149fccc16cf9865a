"""Election in large groups by chance: few stand, rumour spreads, all very probably agree.

The caller of an election names it, and the name gives every process a lot, which every process can
work out.  Only processes with a low lot stand: some `candidates` on average, however large the
group is. What is known, the call and the best candidate so far, is passed on to a few others drawn
at random, and again whenever a better one is heard of.  After a while each process takes the best
that it has heard of for the leader.

Source   Gupta, van Renesse, Birman: A probabilistically correct leader election protocol for large
         groups, DISC 2000.
Assumes  links that are reliable or lose few messages; `patience` is longer than rumours take to
         spread; no process crashes or recovers during an election.  Processes know each other, or
         at least how many they are about.
Cost     `fanout` messages per process for the call and again for each better candidate: on average
         less than (2 + ln candidates) fanout per process, whatever the size.  A round in which no
         process stands costs nothing more.
Ensures  nothing for certain; E1, E2 and E3 together with a probability of about exp(-n (1 -
         fanout/(n-1))^(n-1)), which is that of a rumour to reach all, and with certainty if
         `fanout` is n-1 and no message is lost.  A process that misses the best candidate names
         another, or itself (E1, E3); one that misses all of it names no leader (E2).  Not E4: a
         call elects anew.
Differs  The paper filters by a hash of id and election below K/n, as here, but lets the candidates
         agree through a phase of relays chosen in the same way and then multicast the outcome, over
         a multicast that it takes as given.  Here rumours are that multicast, and carry the best
         candidate themselves: what is heard decides, without a second phase.  The caller draws a
         number into the name of its election, so that no process can know the lots beforehand.  If
         no process stands, with a probability of (1 - K/n)^n, all go on to the next round of the
         same call by themselves.  Of several calls at a time the largest name wins.
"""

from habemus.core import Const, Durable, Message, ProcessId, Timer, Value, upon
from habemus.core.assumptions import Assumptions, Links
from habemus.problems.election import Election, Leader

LOTS = 1 << 32


class Name(Value):
    """Name of an election and of its round.  The larger is the later."""

    number: int
    caller: ProcessId
    nonce: int
    round: int = 0


NO_ELECTION = Name(0, 0, 0)


class Candidate(Value):
    """The smaller is the better."""

    lot: int
    process: ProcessId


class Rumour(Message):
    election: Name
    best: Candidate | None


class Patience(Timer):
    """All that can be heard in this election has been heard."""

    election: Name


def mixed(*numbers: int) -> int:
    """Return a number below LOTS that depends on all of these and looks like chance."""
    state = 0
    for number in numbers:
        state = (state ^ number) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
        state = (state ^ state >> 29) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
        state ^= state >> 32
    return state % LOTS


class Probabilistic(Election):
    name = "probabilistic"
    shows = ("best", "leader")
    assumes = Assumptions(links=Links.MOSTLY_RELIABLE, stable_memory=True)

    candidates: Const[int] = 5  # that stand on average: the K of the paper
    fanout: Const[int] = 10  # receivers of each rumour
    patience: Const[int] = 40_000
    nonces: Const[int] = 1 << 16  # from how many numbers a caller draws
    election: Durable[Name] = NO_ELECTION  # the latest that it knows of
    best: Candidate | None = None  # in that one, as far as heard
    is_open: bool = False
    leader: ProcessId | None = None

    def elect(self) -> None:
        if not self.is_open:
            self.take_part(Name(self.election.number + 1, self.me, self.choose(range(self.nonces))))
            self.pass_on()

    def take_part(self, election: Name) -> None:
        self.cancel_timer(Patience(self.election))
        self.election = election
        self.is_open = True
        self.best = Candidate(self.lot(), self.me) if self.stands() else None
        if self.leader is not None:
            self.leader = None
            self.indicate(Leader(None))  # until this one is decided
        self.set_timer(Patience(election), after=self.patience)

    def lot(self) -> int:
        return mixed(
            self.election.number,
            self.election.caller,
            self.election.nonce,
            self.election.round,
            self.me,
        )

    def stands(self) -> bool:
        """The filter: a chance of `candidates` in n."""
        return self.lot() * (len(self.peers) + 1) < self.candidates * LOTS

    @upon(Rumour)
    def hear(self, sender: ProcessId, rumour: Rumour) -> None:
        is_news = self.election < rumour.election
        if is_news:
            self.take_part(rumour.election)
        elif rumour.election != self.election or not self.is_open:
            return
        if rumour.best is not None and (self.best is None or rumour.best < self.best):
            self.best = rumour.best
            is_news = True
        if is_news:
            self.pass_on()

    def pass_on(self) -> None:
        others = list(self.peers)
        for _ in range(min(self.fanout, len(others))):
            other = self.choose(others)
            others.remove(other)
            self.send(Rumour(self.election, self.best), to=other)

    @upon(Patience)
    def decide(self, _: Patience) -> None:
        if self.best is None:
            self.try_again()
            return
        self.is_open = False
        self.leader = self.best.process
        self.indicate(Leader(self.leader))

    def try_again(self) -> None:
        """No candidate was heard of: begin the next round of the same election, which all the
        others come to as well.
        """
        last = self.election
        self.take_part(Name(last.number, last.caller, last.nonce, last.round + 1))
        if self.best is not None:
            self.pass_on()

"""Ricart and Agrawala with a majority of votes: each process votes for one request at a time, until
that is released.

This is what makes a majority safe.  Two majorities have a member in common, and it has only one
vote.  Every process votes, on its own requests too, so this is a quorum of coordinators in which
every process is a coordinator.

Votes can be split so that no process has a majority.  Then requests yield by their stamps: a voter
that hears of an earlier request asks for its vote back, and a process that is not inside yet gives
it back and stays in the voter's queue.  The earliest request of all is never asked to yield, so it
gets every vote in the end.

Source   Lecture notes on Ricart-Agrawala, optimisation 1, made safe; votes as in Thomas, TODS 4(2),
         1979, and Maekawa, TOCS 3(2), 1985; yielding as in Sanders, TOCS 5(3), 1987.
Assumes  reliable links, in any order.  A process that is neither waiting nor inside may crash,
         while more than half are up.
Cost     3(N-1) messages per entry: request, vote, release; 2 more for every vote that is given
         back.
Ensures  ME1, ME2; entry by stamps among the requests that a voter knows of, not of all (no ME3).
Differs  From Maekawa and Sanders: all processes vote, a majority suffices, and a process that
         waits gives a vote back when asked, without a FAILED of another voter before.
"""

from collections.abc import Sequence

from habemus.algorithms.mutex.ricart_agrawala import HELD, RELEASED, WANTED, Standing
from habemus.core import Message, ProcessId, Value, upon, whenever
from habemus.core.assumptions import Assumptions, Crashes
from habemus.problems.mutex import Mutex, MutexCosts

# Every message names the request it is about by its stamp, so those about an old request are
# recognised.


class Request(Message):
    stamp: int


class Vote(Message):
    stamp: int


class Inquire(Message):
    """May I have my vote back?"""

    stamp: int


class Yield(Message):
    stamp: int


class Release(Message):
    stamp: int


class Claim(Value):
    """A request as a voter knows it.  The smaller goes first."""

    stamp: int
    process: ProcessId


class RicartAgrawalaMajority(Mutex):
    name = "ra-majority"
    shows = ("state", "stamp", "choice", "queue")
    assumes = Assumptions(crashes=Crashes.IDLE)

    clock: int = 0

    state: Standing = RELEASED
    stamp: int = 0  # of the own request
    votes: set[ProcessId] = set()  # for it
    wanted_back: set[ProcessId] = set()  # whose inquiry has overtaken its vote

    choice: Claim | None = None  # for which this process has voted
    inquired: bool = False  # it has asked for that vote back
    queue: set[Claim] = set()  # for which it has not voted
    finished: dict[ProcessId, int] = {}  # the stamp of the last release of each process

    # The requester.  It asks itself, too.

    def acquire(self) -> None:
        self.clock += 1
        self.state = WANTED
        self.stamp = self.clock
        self.votes = set()
        self.wanted_back = set()
        self.send(Request(self.stamp), to=self.me)
        self.broadcast(Request(self.stamp))

    def still_wants(self, stamp: int) -> bool:
        """Return whether a message is about the open request.  A vote for one that is over is freed
        by the release, which went to all.
        """
        return self.state == WANTED and self.stamp == stamp

    @upon(Vote)
    def count_vote(self, sender: ProcessId, vote: Vote) -> None:
        if self.still_wants(vote.stamp):
            self.votes.add(sender)
            if sender in self.wanted_back:
                self.give_back(sender)

    @upon(Inquire)
    def give_back_if_not_inside(self, sender: ProcessId, inquire: Inquire) -> None:
        if self.still_wants(inquire.stamp):
            self.wanted_back.add(sender)
            if sender in self.votes:
                self.give_back(sender)

    def give_back(self, voter: ProcessId) -> None:
        self.votes.remove(voter)
        self.wanted_back.remove(voter)
        self.send(Yield(self.stamp), to=voter)

    def has_a_majority(self) -> bool:
        return self.state == WANTED and 2 * len(self.votes) > len(self.peers) + 1

    @whenever(has_a_majority)
    def enter(self) -> None:
        self.state = HELD
        self.granted()

    def release(self) -> None:
        self.state = RELEASED
        self.send(Release(self.stamp), to=self.me)
        self.broadcast(Release(self.stamp))

    # The voter.

    @upon(Request)
    def enqueue(self, sender: ProcessId, request: Request) -> None:
        self.clock = max(self.clock, request.stamp) + 1
        if request.stamp > self.finished.get(sender, 0):  # else its release has overtaken it
            self.queue.add(Claim(request.stamp, sender))

    def can_vote(self) -> bool:
        return self.choice is None and bool(self.queue)

    @whenever(can_vote)
    def vote_for_the_earliest(self) -> None:
        self.choice = min(self.queue)
        self.queue.remove(self.choice)
        self.inquired = False
        self.send(Vote(self.choice.stamp), to=self.choice.process)

    def has_voted_too_early(self) -> bool:
        return (
            self.choice is not None
            and not self.inquired
            and bool(self.queue)
            and min(self.queue) < self.choice
        )

    @whenever(has_voted_too_early)
    def ask_for_the_vote(self) -> None:
        assert self.choice is not None
        self.inquired = True
        self.send(Inquire(self.choice.stamp), to=self.choice.process)

    @upon(Yield)
    def take_back(self, sender: ProcessId, yielded: Yield) -> None:
        claim = Claim(yielded.stamp, sender)
        if self.choice == claim:
            self.choice = None
            self.queue.add(claim)

    @upon(Release)
    def free(self, sender: ProcessId, release: Release) -> None:
        claim = Claim(release.stamp, sender)
        self.finished[sender] = max(self.finished.get(sender, 0), release.stamp)
        self.queue.discard(claim)
        if self.choice == claim:
            self.choice = None

    # What the catalog needs to know.

    def awaits(self) -> Sequence[ProcessId]:
        if self.state == WANTED:
            return sorted({self.me, *self.peers} - self.votes)
        return [self.choice.process] if self.choice is not None else []

    def costs(self, size: int) -> MutexCosts:
        # Among three or fewer, the votes of the one that leaves and of the one that enters are a
        # majority: no third is waited for.
        return MutexCosts(
            messages=3 * (size - 1), client_delay=2, sync_delay=2 if size > 3 else None
        )

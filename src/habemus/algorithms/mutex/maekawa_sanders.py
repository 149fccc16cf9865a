"""Mutual exclusion by the votes of a few, without deadlock: Maekawa with the corrections of
Sanders.

Requests are ordered by (stamp, id).  A voter that has voted for a later request than one that comes
in asks for its vote back, and a process that cannot enter yet, because another voter has put it
off, gives it back.  So votes flow to the earliest request, and no cycle of waiting lasts.

Source   Maekawa, ACM TOCS 3(2), 1985; Sanders: The information structure of distributed mutual
         exclusion algorithms, ACM TOCS 5(3), 1987.
Assumes  reliable links, in any order, copies do no harm; no process crashes.
Cost     3(K-1) messages per entry alone, on average at most 6(K-1) in a crowd, K the size of the
         voting set.
Ensures  ME1, ME2; in order of the stamps as far as the voters know them (no ME3).
Differs  Sanders: a process that loses the first place in a queue must get a FAILED;
         Maekawa left that out, and it deadlocks. Maekawa needs links that keep the order.  Here
         every vote has a number, which INQUIRE and YIELD name: an INQUIRE may come before its vote
         or after the release, and is then kept, or ignored.  A FAILED that comes after the vote is
         ignored. The number of a vote is the voter's clock, so a process that has entered asks next
         time with a later stamp than all that waited there.  RELINQUISH is called YIELD, as in
         Sanders.
"""

from bisect import insort
from collections.abc import Sequence
from typing import Any, TypeAlias

from habemus.algorithms.mutex.maekawa import PLANE_OR_GRID, Sets, costs_of_voting, voting_sets
from habemus.algorithms.mutex.ricart_agrawala import HELD, RELEASED, WANTED, Standing
from habemus.core import Const, Message, ProcessId, System, upon, whenever
from habemus.core.assumptions import Assumptions
from habemus.core.system import complete
from habemus.problems.mutex import Mutex, MutexCosts


class Request(Message):
    stamp: int


class Vote(Message):
    stamp: int  # of the request that it is for
    number: int  # of this vote; no other vote of the same voter has it


class Failed(Message):
    """Another request comes first: do not count on this vote."""

    stamp: int  # of the request


class Inquire(Message):
    """A process with an earlier request wants this vote: give it back if you cannot enter."""

    number: int  # of the vote


class Yield(Message):
    number: int  # of the vote that is given back


class Release(Message):
    stamp: int


Claim: TypeAlias = tuple[int, ProcessId]
"""The stamp of a request and who asks; the smaller goes first."""


class Yielding(Mutex):
    """The algorithm, for any voters of whom a given number is needed."""

    shows = ("state", "stamp", "voted_for", "queue")
    assumes = Assumptions(copies=True)
    voters: Const[tuple[ProcessId, ...]]
    needed: Const[int]

    clock: int = 0

    # State of a process that wants to enter.
    state: Standing = RELEASED
    stamp: int = 0  # of its latest request
    votes: set[ProcessId] = set()  # who has voted for it
    failed: set[ProcessId] = set()  # who has put it off
    newest: dict[ProcessId, int] = {}  # the number of the newest vote seen of each voter
    inquiries: dict[ProcessId, int] = {}  # the number of the vote that each voter last asked back

    # Of a voter.
    voted_for: Claim | None = None
    number: int = 0  # of that vote
    inquired: bool = False  # whether it has asked for that vote back
    queue: list[Claim] = []  # who else wants its vote, the earliest first
    told: set[Claim] = set()  # requests of the queue whose sender knows that another comes first
    ended: dict[ProcessId, int] = {}  # up to which stamp the requests of a process have ended

    # A process that wants to enter.

    def acquire(self) -> None:
        self.clock += 1
        self.state = WANTED
        self.stamp = self.clock
        self.votes.clear()
        self.failed.clear()
        self.tell_voters(Request(self.stamp))

    @upon(Vote)
    def count_vote(self, sender: ProcessId, vote: Vote) -> None:
        self.clock = max(self.clock, vote.number)
        if vote.number <= self.newest.get(sender, 0):
            return  # This one or a newer one has come before, and may have been given back.
        self.newest[sender] = vote.number
        if self.state == WANTED and vote.stamp == self.stamp:
            self.votes.add(sender)
            self.failed.discard(sender)

    @upon(Failed)
    def note_failure(self, sender: ProcessId, failed: Failed) -> None:
        if self.state == WANTED and failed.stamp == self.stamp and sender not in self.votes:
            self.failed.add(sender)

    @upon(Inquire)
    def note_inquiry(self, sender: ProcessId, inquire: Inquire) -> None:
        self.inquiries[sender] = max(inquire.number, self.inquiries.get(sender, 0))

    def has_enough_votes(self) -> bool:
        return self.state == WANTED and len(self.votes) >= self.needed

    @whenever(has_enough_votes)
    def enter(self) -> None:
        self.state = HELD
        self.granted()

    def wanted_back(self) -> list[ProcessId]:
        return [
            voter for voter in sorted(self.votes) if self.inquiries.get(voter) == self.newest[voter]
        ]

    def should_yield(self) -> bool:
        too_many_failed = len(self.voters) - len(self.failed) < self.needed
        return self.state == WANTED and too_many_failed and bool(self.wanted_back())

    @whenever(should_yield)
    def yield_votes(self) -> None:
        for voter in self.wanted_back():
            self.votes.remove(voter)
            self.failed.add(voter)
            self.send(Yield(self.newest[voter]), to=voter)

    def release(self) -> None:
        self.state = RELEASED
        self.tell_voters(Release(self.stamp))

    def tell_voters(self, message: Message) -> None:
        for voter in self.voters:
            self.send(message, to=voter)

    # A voter.

    @upon(Request)
    def enqueue(self, sender: ProcessId, request: Request) -> None:
        self.clock = max(self.clock, request.stamp)
        self.end_requests(sender, request.stamp - 1)  # A new request ends the old ones.
        claim = (request.stamp, sender)
        if (
            request.stamp > self.ended[sender]
            and claim != self.voted_for
            and claim not in self.queue
        ):
            insort(self.queue, claim)

    @upon(Release)
    def take_vote_back(self, sender: ProcessId, release: Release) -> None:
        self.end_requests(sender, release.stamp)

    def end_requests(self, sender: ProcessId, last: int) -> None:
        # Where not all votes are needed, a release may overtake its own request; so what has ended
        # is remembered.
        self.ended[sender] = max(last, self.ended.get(sender, 0))
        if self.voted_for is not None and self.voted_for[1] == sender and self.voted_for[0] <= last:
            self.voted_for = None
        for claim in [claim for claim in self.queue if claim[1] == sender and claim[0] <= last]:
            self.queue.remove(claim)
            self.told.discard(claim)

    @upon(Yield)
    def pass_vote_on(self, sender: ProcessId, returned: Yield) -> None:
        if self.voted_for is not None and returned.number == self.number:
            insort(self.queue, self.voted_for)
            self.told.add(self.voted_for)  # A process that yields counts itself as put off.
            self.voted_for = None

    def can_vote(self) -> bool:
        return self.voted_for is None and bool(self.queue)

    @whenever(can_vote)
    def vote_for_first(self) -> None:
        self.voted_for = self.queue.pop(0)
        self.told.discard(self.voted_for)
        self.send_vote()

    def send_vote(self) -> None:
        if self.voted_for is not None:
            stamp, process = self.voted_for
            self.clock += 1
            self.number = self.clock
            self.inquired = False
            self.send(Vote(stamp, self.number), to=process)

    def first_is_earlier(self) -> bool:
        return self.voted_for is not None and bool(self.queue) and self.queue[0] < self.voted_for

    def should_inquire(self) -> bool:
        return self.first_is_earlier() and not self.inquired

    @whenever(should_inquire)
    def inquire(self) -> None:
        assert self.voted_for is not None
        self.inquired = True
        self.send(Inquire(self.number), to=self.voted_for[1])

    def untold(self) -> list[Claim]:
        """Return the requests to put off: all in the queue but the first, if the vote may come back
        for it.
        """
        put_off = self.queue[1:] if self.first_is_earlier() else self.queue
        return [claim for claim in put_off if claim not in self.told]

    def should_tell(self) -> bool:
        return bool(self.untold())

    @whenever(should_tell)
    def put_off(self) -> None:
        for stamp, process in self.untold():
            self.told.add((stamp, process))
            self.send(Failed(stamp), to=process)

    # What the catalog needs to know.

    def awaits(self) -> Sequence[ProcessId]:
        if self.voted_for is not None and self.voted_for[1] != self.me:
            return [self.voted_for[1]]
        return (
            [voter for voter in self.voters if voter not in self.votes]
            if self.state == WANTED
            else []
        )


class MaekawaSanders(Yielding):
    name = "maekawa-sanders"

    sets: Const[Sets] = (
        # grid, plane, majority, or [[1,2],[2,3],[3,1]]; by default, plane where there is one, else
        # grid
        PLANE_OR_GRID
    )

    def costs(self, size: int) -> MutexCosts:
        return costs_of_voting(voting_sets(size, self.sets))

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        """Return participants 1 to N, each with its voting set, of which it needs all votes."""
        sets = voting_sets(size, options.get("sets", PLANE_OR_GRID))
        plans = {
            me: cls(voters=voters, needed=len(voters), **options) for me, voters in sets.items()
        }
        return System(plans, complete(sets), tuple(sets))

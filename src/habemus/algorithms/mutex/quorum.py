"""Mutual exclusion by a quorum of coordinators.

Each of n coordinators hands out one grant at a time, like the central one.  A process that has the
grants of more than half of them may enter: two such groups have a coordinator in common.  A
coordinator that restarts forgets its grant, and then that is no longer true.  And when each
participant holds some grants and none has enough, all wait for ever.

Source   Lecture notes on coordination, the section on quorums; Thomas, ACM TODS 4(2), 1979;
         Gifford, SOSP 1979.
Assumes  reliable links, in any order, copies do no harm; no process crashes.
Cost     3n messages per entry, n the number of coordinators: request, grant, release.
Ensures  ME1; no longer once a coordinator has restarted (quorum-amnesia-3, quorum-amnesia-7). Not
         ME2 (grants can be split so that no process has enough), no ME3.
Differs  The notes only hint at numbering requests.  Here each has a number, and a coordinator
         remembers up to which number the requests of each process are over, because a release can
         overtake its own request. With `coordinators=0` the participants are the coordinators, and
         a message to oneself costs nothing: 3(N-1).
Unsafe   quorum-split
"""

from collections.abc import Sequence
from itertools import product
from typing import Any, TypeAlias

from habemus.algorithms.mutex.ricart_agrawala import HELD, RELEASED, WANTED, Standing
from habemus.core import (
    Const,
    Durable,
    Message,
    MistakeInPlan,
    ProcessId,
    Span,
    System,
    Timer,
    Topology,
    upon,
    whenever,
)
from habemus.core.assumptions import Assumptions, Crashes
from habemus.core.quorums import more_than_half
from habemus.core.system import complete
from habemus.problems.mutex import Mutex, MutexCosts


class Request(Message):
    number: int


class Grant(Message):
    number: int  # of the request that it answers


class Release(Message):
    number: int


COORDINATORS = 3
MAJORITY = 0

Claim: TypeAlias = tuple[ProcessId, int]
"""A process, and the number of its request."""


class Quorum(Mutex):
    name = "quorum"
    shows = ("state", "holder", "queue")
    assumes = Assumptions(copies=True)

    coordinators: Const[int] = (
        COORDINATORS  # how many there are; 0: the participants are the coordinators
    )
    quorum: Const[int] = MAJORITY  # how many of them must grant; 0: the smallest majority
    voters: Const[tuple[ProcessId, ...]]  # the coordinators
    needed: Const[int]  # how many of them must grant

    # Of a participant.
    state: Standing = RELEASED
    number: int = 0  # of its latest request
    grants: set[ProcessId] = set()  # who has granted it

    # Of a coordinator.
    holder: Claim | None = None  # to whom it gave its grant
    queue: list[Claim] = []  # who comes next, in order of arrival
    ended: dict[ProcessId, int] = {}  # up to which number the requests of a process have ended

    # A participant.

    def acquire(self) -> None:
        self.state = WANTED
        self.number += 1
        self.grants.clear()
        self.tell_coordinators(Request(self.number))

    @upon(Grant)
    def count(self, sender: ProcessId, grant: Grant) -> None:
        if self.state == WANTED and grant.number == self.number:
            self.grants.add(sender)

    def has_quorum(self) -> bool:
        return self.state == WANTED and len(self.grants) >= self.needed

    @whenever(has_quorum)
    def enter(self) -> None:
        self.state = HELD
        self.granted()

    def release(self) -> None:
        self.state = RELEASED
        self.tell_coordinators(Release(self.number))

    def tell_coordinators(self, message: Message) -> None:
        for coordinator in self.voters:
            self.send(message, to=coordinator)

    # A coordinator.

    @upon(Request)
    def enqueue(self, sender: ProcessId, request: Request) -> None:
        self.end_requests(sender, request.number - 1)  # A new request ends the old ones.
        claim = (sender, request.number)
        if request.number > self.ended[sender] and claim != self.holder and claim not in self.queue:
            self.queue.append(claim)

    @upon(Release)
    def vacate(self, sender: ProcessId, release: Release) -> None:
        self.end_requests(sender, release.number)

    def end_requests(self, sender: ProcessId, last: int) -> None:
        """End requests of a sender: take its grant back, or remove it from the queue."""
        self.ended[sender] = max(last, self.ended.get(sender, 0))
        if self.holder is not None and self.holder[0] == sender and self.holder[1] <= last:
            self.holder = None
        self.queue = [
            (process, number)
            for process, number in self.queue
            if process != sender or number > last
        ]

    def is_free_and_wanted(self) -> bool:
        return self.holder is None and bool(self.queue)

    @whenever(is_free_and_wanted)
    def grant_to_next(self) -> None:
        self.holder = self.queue.pop(0)
        self.send_grant()

    def send_grant(self) -> None:
        if self.holder is not None:
            process, number = self.holder
            self.send(Grant(number), to=process)

    # What the catalog needs to know.

    def awaits(self) -> Sequence[ProcessId]:
        if self.holder is not None and self.holder[0] != self.me:
            return [self.holder[0]]
        return (
            [voter for voter in self.voters if voter not in self.grants]
            if self.state == WANTED
            else []
        )

    def costs(self, size: int) -> MutexCosts:
        return costs_with_coordinators(self.coordinators, size)

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        return with_coordinators(cls, size, **options)


def with_coordinators(algorithm: type[Mutex], size: int, **options: Any) -> System:
    """Return participants 1 to N and the coordinators 101, 102, ... called c1, c2, ..., unless the
    participants are the coordinators.

    Participants are connected to coordinators only, so that what a coordinator broadcasts reaches
    the participants.
    """
    coordinators, quorum = (
        options.get("coordinators", COORDINATORS),
        options.get("quorum", MAJORITY),
    )
    if not all(isinstance(number, int) and number >= 0 for number in (coordinators, quorum)):
        raise MistakeInPlan(
            f"coordinators={coordinators} and quorum={quorum} must be numbers, from 0 on"
        )
    participants = range(1, size + 1)
    first = 100
    while first < size:
        first *= 10
    voters = (
        tuple(range(first + 1, first + coordinators + 1)) if coordinators else tuple(participants)
    )
    needed = quorum or more_than_half(len(voters))
    if not len(voters) < 2 * needed <= 2 * len(voters):
        raise MistakeInPlan(
            f"{needed} of {len(voters)} coordinators are no quorum: it takes more than half, and no"
            " more than all"
        )
    plan = algorithm(voters=voters, needed=needed, **options)
    if not coordinators:
        return System(
            dict.fromkeys(participants, plan), complete(participants), tuple(participants)
        )
    everybody = (*participants, *voters)
    links = Topology.of_edges("coordinators", everybody, product(participants, voters))
    labels = {voter: f"c{index}" for index, voter in enumerate(voters, 1)}
    return System(dict.fromkeys(everybody, plan), links, tuple(participants), labels)


def costs_with_coordinators(coordinators: int, size: int) -> MutexCosts:
    """Return the costs. Where the participants are the coordinators, a vote may come from one of
    the two who hand over, and that is faster.
    """
    if coordinators:
        return MutexCosts(messages=3 * coordinators, client_delay=2, sync_delay=2)
    return MutexCosts(messages=3 * (size - 1), client_delay=2 if size > 1 else None)


# With stable memory.


class Recovered(Message):
    """A coordinator has recovered; what was sent to it while it was down is lost."""


class QuorumDurable(Quorum):
    """Mutual exclusion by a quorum of coordinators with stable memory.

    A grant is stored before it is sent, so a coordinator that restarts still knows to whom it gave
    its grant and who waits. It sends the grant again, in case the crash came between storing and
    sending, and asks all processes to repeat their requests, because messages that came while it
    was down are lost.

    Source   Lecture notes on coordination, the section on quorums; the recovery is ours.
    Assumes  reliable links, in any order, copies do no harm; a process that crashes recovers with
             its stable memory.
    Cost     3n messages per entry, n the number of coordinators; a recovery costs up to 2N + 1.
    Ensures  ME1; also when coordinators and participants crash and recover, at any moment. Not ME2:
             split grants block it as they do without stable memory, and then all wait.
    Differs  The notes lose the grants on purpose, to ask how likely a violation is, and do not say
             how to keep them.
    Unsafe   quorum-durable-split
    """

    name = "quorum-durable"
    assumes = Assumptions(copies=True, crashes=Crashes.RECOVER, stable_memory=True)

    number: Durable[int] = 0
    holder: Durable[Claim | None] = None
    queue: Durable[list[Claim]] = []
    ended: Durable[dict[ProcessId, int]] = {}

    def on_recover(self) -> None:
        if self.number:  # It was a participant; whatever it wanted, or was in, is over.
            self.tell_coordinators(Release(self.number))
        if self.me in self.voters:
            self.send_grant()
            self.broadcast(Recovered())

    @upon(Recovered)
    def say_again(self, sender: ProcessId, _: Recovered) -> None:
        if self.state != RELEASED:
            self.send(Request(self.number), to=sender)
        elif self.number:
            self.send(Release(self.number), to=sender)


# Against split votes.


class GiveUp(Timer):
    number: int  # of the request


class QuorumRetry(QuorumDurable):
    """Mutual exclusion by a quorum, giving up after a while.

    A process that has not got enough grants after a random time gives up and asks anew, which also
    gives back what it had.  So split grants do not last.  But it also loses its places in the
    queues, and one who always gives up too early never gets in.

    Source   Lecture notes on coordination, the section on quorums, which asks for a timer against
             the deadlock.
    Assumes  reliable links, in any order, copies do no harm; a process that crashes recovers with
             its stable memory.
    Cost     3n messages per entry, n the number of coordinators, and up to 2n for each time that a
             process gives up.
    Ensures  ME1; also when coordinators and participants crash and recover, at any moment. Deadlock
             lasts with probability 0, but one may starve (no ME2).
    Differs  The notes only ask the question.  Grants are stored as in quorum-durable.
    Unsafe   quorum-retry-starved
    """

    name = "quorum-retry"

    patience: Const[Span] = (10_000, 30_000)

    def acquire(self) -> None:
        super().acquire()
        self.set_timer(GiveUp(self.number), after=self.patience)

    @upon(GiveUp)
    def ask_anew(self, _: GiveUp) -> None:
        self.acquire()  # A new request ends the old one.

    def enter(self) -> None:
        self.cancel_timer(GiveUp(self.number))
        super().enter()

    def costs(self, size: int) -> MutexCosts:
        return super().costs(size)._replace(sync_delay=None)  # two, unless the grants are split

"""Planted bugs, one broken line each, in Lamport's algorithm and the variants of Ricart and
Agrawala: the monitors find each of them.

Each mutant is caught within a bounded number of seeds by the named property, and the healthy
algorithm passes the very same runs.
"""

from functools import cache

import pytest

from habemus.algorithms.links.perfect import Numbered, PerfectLinks, Unacknowledged
from habemus.algorithms.mutex.lamport import Acknowledgement, Lamport
from habemus.algorithms.mutex.lamport import Release as LamportRelease
from habemus.algorithms.mutex.lamport import Request as LamportRequest
from habemus.algorithms.mutex.ra_majority import Claim, Inquire, RicartAgrawalaMajority, Vote, Yield
from habemus.algorithms.mutex.ra_majority import Request as Candidacy
from habemus.algorithms.mutex.ra_priority import PriorityRequest, RicartAgrawalaPriority
from habemus.algorithms.mutex.ra_priority_aging import RicartAgrawalaPriorityAging
from habemus.algorithms.mutex.ra_reliable import RicartAgrawalaReliable
from habemus.algorithms.mutex.ricart_agrawala import HELD, WANTED, Reply, Request, RicartAgrawala
from habemus.algorithms.mutex.roucairol_carvalho import RoucairolCarvalho
from habemus.catalog.entries import entry_of
from habemus.core import ProcessId, System
from habemus.core.system import complete
from habemus.problems.link import Link
from habemus.problems.mutex import Mutex
from habemus.runs.setup import Setup
from habemus.runs.simulate import execute

SEEDS = 200

# Ricart and Agrawala.


class LosesTheTieBreak(RicartAgrawala):
    """Equal stamps: both keep their reply back."""

    def reply_or_defer(self, sender: ProcessId, request: Request) -> None:
        self.clock = max(self.clock, request.stamp) + 1
        if self.state == HELD or (self.state == WANTED and self.stamp <= request.stamp):
            self.deferred.add(sender)
        else:
            self.send(Reply(self.clock), to=sender)


class ComparesWithItsClock(RicartAgrawala):
    """Takes the clock, which has moved on, for the stamp of its request."""

    def reply_or_defer(self, sender: ProcessId, request: Request) -> None:
        self.clock = max(self.clock, request.stamp) + 1
        if self.state == HELD or (
            self.state == WANTED and (self.clock, self.me) < (request.stamp, sender)
        ):
            self.deferred.add(sender)
        else:
            self.send(Reply(self.clock), to=sender)


class RepliesWhileHeld(RicartAgrawala):
    def reply_or_defer(self, sender: ProcessId, request: Request) -> None:
        self.clock = max(self.clock, request.stamp) + 1
        if self.state == WANTED and (self.stamp, self.me) < (request.stamp, sender):
            self.deferred.add(sender)
        else:
            self.send(Reply(self.clock), to=sender)


class ForgetsTheDeferral(RicartAgrawala):
    """Remembers only the last one that it put off."""

    def reply_or_defer(self, sender: ProcessId, request: Request) -> None:
        before = set(self.deferred)
        super().reply_or_defer(sender, request)
        if len(self.deferred) > len(before):
            self.deferred = {sender}


class ExpectsOneReplyFewer(RicartAgrawala):
    def acquire(self) -> None:
        super().acquire()
        self.missing.discard(self.peers[0])


class RepliesTwice(RicartAgrawala):
    """Does not forget whom it has replied to, so a second release replies once more, to a request
    that it has not seen.
    """

    def release(self) -> None:
        deferred = set(self.deferred)
        super().release()
        self.deferred = deferred


# Lamport.


class HearsNobody(Lamport):
    """Enters when its own request is the first that it knows of."""

    def is_first_and_knows_it(self) -> bool:
        return self.me in self.queue and not self.inside and self.first() == self.me


class IgnoresTheQueue(Lamport):
    """Enters when everybody has answered."""

    def is_first_and_knows_it(self) -> bool:
        return self.me in self.queue and not self.inside and not self.silent


class NeverDequeues(Lamport):
    def dequeue(self, sender: ProcessId, release: LamportRelease) -> None:
        self.hear(sender, release.stamp)


class PutsItselfFirst(Lamport):
    """Among equal stamps everybody takes itself for the first."""

    def first(self) -> ProcessId:
        return min(
            (stamp, process != self.me, process) for process, stamp in sorted(self.queue.items())
        )[2]


class AcknowledgesTheStamp(Lamport):
    """Sends the stamp of the request back, which is not later than the request."""

    def enqueue(self, sender: ProcessId, request: LamportRequest) -> None:
        self.hear(sender, request.stamp)
        self.queue[sender] = request.stamp
        self.send(Acknowledgement(request.stamp), to=sender)


# Roucairol and Carvalho.


class DoesNotAskAgain(RoucairolCarvalho):
    """Gives a permission away that it had kept, and waits for it without asking."""

    def permit_or_defer(self, sender: ProcessId, request: Request) -> None:
        self.clock = max(self.clock, request.stamp) + 1
        if self.state == HELD or (
            self.state == WANTED and (self.stamp, self.me) < (request.stamp, sender)
        ):
            self.deferred.add(sender)
        else:
            self.permit(sender)


class KeepsWhatItGave(RoucairolCarvalho):
    def permit(self, process: ProcessId) -> None:
        self.send(Reply(self.clock), to=process)


# The majority of votes.


class VotesForAll(RicartAgrawalaMajority):
    """A vote that does not bind: the naive majority."""

    def vote_for_the_earliest(self) -> None:
        super().vote_for_the_earliest()
        self.choice = None


class NeverYields(RicartAgrawalaMajority):
    def give_back_if_not_inside(self, sender: ProcessId, inquire: Inquire) -> None:
        pass


class CountsWhatItGaveBack(RicartAgrawalaMajority):
    def give_back(self, voter: ProcessId) -> None:
        self.wanted_back.remove(voter)
        self.send(Yield(self.stamp), to=voter)


class YieldsWhatHasNotCome(RicartAgrawalaMajority):
    """Answers an inquiry that has overtaken its vote; the vote comes later and counts."""

    def give_back_if_not_inside(self, sender: ProcessId, inquire: Inquire) -> None:
        if self.still_wants(inquire.stamp):
            self.votes.discard(sender)
            self.send(Yield(self.stamp), to=sender)


class MissesTheNumber(RicartAgrawalaMajority):
    """Takes a late vote for an old request as one for the new."""

    def count_vote(self, sender: ProcessId, vote: Vote) -> None:
        super().count_vote(sender, Vote(self.stamp))


class ForgetsReleases(RicartAgrawalaMajority):
    """Votes for a request whose release has overtaken it, and never gets that vote back."""

    def enqueue(self, sender: ProcessId, request: Candidacy) -> None:
        self.clock = max(self.clock, request.stamp) + 1
        self.queue.add(Claim(request.stamp, sender))


# Priorities.


class OnlyComparesDifferently(RicartAgrawalaPriority):
    """As the lecture notes have it: who has replied and then asks with a higher priority is not
    asked again.
    """

    def ask_again(self, process: ProcessId) -> None:
        pass


class WaitsWithoutAsking(RicartAgrawalaPriority):
    def ask_again(self, process: ProcessId) -> None:
        self.missing.add(process)


class HandicapsOnlyItself(RicartAgrawalaPriorityAging):
    """Two processes that do not agree on the order both keep their reply back."""

    def place(self, priority: int, stamp: int, process: ProcessId) -> tuple[int, ...]:
        return (stamp - priority * self.handicap if process == self.me else stamp, process)


class AsksAgainWithoutPriority(RicartAgrawalaPriority):
    """The second request looks more urgent than the first: the asked one gives way to somebody who
    does not go first.
    """

    def ask_again(self, process: ProcessId) -> None:
        self.missing.add(process)
        self.send(PriorityRequest(0, 0), to=process)


# Perfect links.


class NeverAgain(PerfectLinks):
    def send_until_acknowledged(self, timer: Unacknowledged) -> None:
        self.send(Numbered(timer.number, self.outgoing[timer.to, timer.number]), to=timer.to)


class TakesRepeats(PerfectLinks):
    def is_repeat(self, sender: ProcessId, number: int) -> bool:
        return False


class Unreliable(RicartAgrawalaReliable):
    """Over links that never send again."""

    @classmethod
    def system(cls, size: int, **options: object) -> System:
        return over(NeverAgain(), size)


class Repetitive(RicartAgrawalaReliable):
    """Over links that do not drop repeats."""

    @classmethod
    def system(cls, size: int, **options: object) -> System:
        return over(TakesRepeats(), size)


def over(links: Link, size: int) -> System:
    everybody = range(1, size + 1)
    return System(
        dict.fromkeys(everybody, RicartAgrawala().over(links)),
        complete(everybody),
        tuple(everybody),
    )


DELAYS = ("exp:1ms", "heavy:1ms", "100..9000", "heavy:200")


def setup_of(healthy: type[Mutex], seed: int) -> Setup:
    """Three or four, calm or crowded, their clocks apart; with priorities or on a bad network where
    that is what the algorithm is for.
    """
    size = 3 + seed % 2
    everybody = range(1, size + 1)
    plain = {
        "algorithm": "mutant",
        "n": size,
        "seed": seed,
        "workload": "burst" if seed % 3 else "steady",
        "requests": 4,
        "hold": "0..10ms",
        "delay": DELAYS[seed % 4],
        "initial": [f"{process}.clock={(seed * process * 5) % 13}" for process in everybody],
        "until": "60s",
    }
    if issubclass(healthy, RicartAgrawalaPriority):
        plain["initial"] = [f"{process}.priority={(seed + process) % 3}" for process in everybody]
    if issubclass(healthy, RicartAgrawalaReliable):
        plain |= {"loss": "30%", "duplicate": "30%"}
    return Setup.from_plain(plain)


@cache
def violations(algorithm: type[Mutex], healthy: type[Mutex], seed: int) -> tuple[str, ...]:
    report = execute(setup_of(healthy, seed), entry=entry_of(algorithm), keep=False)
    return tuple(finding.name for finding in report.findings if finding.verdict.value == "violated")


@pytest.mark.parametrize(
    ("mutant", "healthy", "caught_by"),
    [
        (LosesTheTieBreak, RicartAgrawala, "ME2-deadlock"),
        (ComparesWithItsClock, RicartAgrawala, "ME1"),
        (RepliesWhileHeld, RicartAgrawala, "ME1"),
        (ForgetsTheDeferral, RicartAgrawala, "ME2-deadlock"),
        (ExpectsOneReplyFewer, RicartAgrawala, "ME1"),
        (RepliesTwice, RicartAgrawala, "ME1"),
        (HearsNobody, Lamport, "ME1"),
        (IgnoresTheQueue, Lamport, "ME1"),
        (NeverDequeues, Lamport, "ME2-deadlock"),
        (PutsItselfFirst, Lamport, "ME1"),
        (AcknowledgesTheStamp, Lamport, "ME2-deadlock"),
        (DoesNotAskAgain, RoucairolCarvalho, "ME2-deadlock"),
        (KeepsWhatItGave, RoucairolCarvalho, "ME1"),
        (VotesForAll, RicartAgrawalaMajority, "ME1"),
        (NeverYields, RicartAgrawalaMajority, "ME2-deadlock"),
        (CountsWhatItGaveBack, RicartAgrawalaMajority, "ME1"),
        (MissesTheNumber, RicartAgrawalaMajority, "ME1"),
        (OnlyComparesDifferently, RicartAgrawalaPriority, "ME1"),
        (WaitsWithoutAsking, RicartAgrawalaPriority, "ME2-deadlock"),
        (AsksAgainWithoutPriority, RicartAgrawalaPriority, "ME1"),
        (HandicapsOnlyItself, RicartAgrawalaPriorityAging, "ME2-deadlock"),
        (Unreliable, RicartAgrawalaReliable, "ME2-deadlock"),
        (Repetitive, RicartAgrawalaReliable, "ME1"),
    ],
)
def test_mutant_is_caught(mutant: type[Mutex], healthy: type[Mutex], caught_by: str) -> None:
    first = next(
        (seed for seed in range(SEEDS) if caught_by in violations(mutant, healthy, seed)), None
    )
    assert first is not None, f"{mutant.__name__} passes {SEEDS} runs"
    claimed = entry_of(healthy).box.ensures
    for seed in range(max(first + 1, 20)):
        assert not [
            name for name in violations(healthy, healthy, seed) if name.partition("-")[0] in claimed
        ]


# Bugs that chance hardly finds: each has a run of its own.


def broken_by(setup: Setup, algorithm: type[Mutex]) -> list[str]:
    return execute(setup, entry=entry_of(algorithm)).violated


def test_a_vote_that_was_given_back_before_it_came_does_not_count() -> None:
    """The request of 1 goes first.  It reaches 3 after that of 2, so 3 asks 2 for its vote back,
    and that inquiry overtakes the vote.
    """
    faults = (
        ("slow", "2>3@0=200us"),
        ("slow", "1>2@0=20ms"),
        ("slow", "3>2@0=10ms"),
        ("slow", "3>2@1500us=1ms"),
    )
    setup = Setup("mutant", 3, asks=("1@1ms+10ms", "2@1ms+10ms"), faults=faults)
    assert broken_by(setup, YieldsWhatHasNotCome) == ["ME1"]
    assert broken_by(setup, RicartAgrawalaMajority) == []


def test_a_release_that_overtakes_its_request_is_remembered() -> None:
    """1 enters with the votes of 1 and 2; its release reaches 3 before its request.  Later 3 is
    needed for a majority.
    """
    faults = (("slow", "1>3@0=20ms"), ("slow", "1>3@2ms=1ms"), ("crash", "1@10ms"))
    setup = Setup("mutant", 3, asks=("1@1ms", "2@30ms"), faults=faults)
    assert broken_by(setup, ForgetsReleases) == ["ME2-deadlock"]
    assert broken_by(setup, RicartAgrawalaMajority) == []


@pytest.mark.parametrize(
    "algorithm", [Lamport, RicartAgrawalaPriority, RicartAgrawalaPriorityAging]
)
def test_the_need_for_order_is_real(algorithm: type[Mutex]) -> None:
    """An algorithm that says that it needs FIFO links breaks without them."""
    assert algorithm.assumes.fifo
    setups = (
        Setup.from_plain({**setup_of(algorithm, seed).plain(), "fifo": False})
        for seed in range(SEEDS)
    )
    assert any(
        "ME1" in execute(setup, entry=entry_of(algorithm), keep=False).violated for setup in setups
    )


@pytest.mark.parametrize(
    "algorithm", [RicartAgrawala, RicartAgrawalaMajority, RoucairolCarvalho, RicartAgrawalaReliable]
)
def test_no_other_needs_order(algorithm: type[Mutex]) -> None:
    assert not algorithm.assumes.fifo

"""Planted bugs, one broken line each, in Lamport's algorithm and the variants of Ricart and Agrawala: the monitors find each of them.

Each mutant is caught within a bounded number of seeds by the named property, and the healthy algorithm passes the very same runs.
"""

from functools import cache

import pytest

from habemus.algorithms.links.perfect import Numbered, PerfectLinks, Unacknowledged
from habemus.algorithms.mutex.lamport import Lamport
from habemus.algorithms.mutex.lamport import Release as LamportRelease
from habemus.algorithms.mutex.ra_majority import Claim, Inquire, RicartAgrawalaMajority, Vote, Yield
from habemus.algorithms.mutex.ra_majority import Request as Candidacy
from habemus.algorithms.mutex.ra_priority import PriorityRequest, RicartAgrawalaPriority
from habemus.algorithms.mutex.ra_priority_aging import RicartAgrawalaPriorityAging
from habemus.algorithms.mutex.ra_reliable import RicartAgrawalaReliable
from habemus.algorithms.mutex.ricart_agrawala import HELD, WANTED, Reply, Request, RicartAgrawala
from habemus.algorithms.mutex.roucairol_carvalho import RoucairolCarvalho
from habemus.catalog.entries import entry_of
from habemus.catalog.runs import execute
from habemus.catalog.setup import Setup
from habemus.core import ProcessId, System
from habemus.core.system import complete
from habemus.problems.link import Link
from habemus.problems.mutex import Mutex

SEEDS = 60

# Ricart and Agrawala.


class LosesTheTieBreak(RicartAgrawala):
    """Equal stamps: both keep their reply back."""

    def reply_or_defer(self, sender: ProcessId, request: Request) -> None:
        self.clock = max(self.clock, request.stamp) + 1
        if self.state == HELD or (self.state == WANTED and self.stamp <= request.stamp):
            self.deferred.append(sender)
        else:
            self.send(Reply(self.clock), to=sender)


class ComparesWithItsClock(RicartAgrawala):
    """Takes the clock, which has moved on, for the stamp of its request."""

    def reply_or_defer(self, sender: ProcessId, request: Request) -> None:
        self.clock = max(self.clock, request.stamp) + 1
        if self.state == HELD or (self.state == WANTED and (self.clock, self.me) < (request.stamp, sender)):
            self.deferred.append(sender)
        else:
            self.send(Reply(self.clock), to=sender)


class RepliesWhileHeld(RicartAgrawala):
    def reply_or_defer(self, sender: ProcessId, request: Request) -> None:
        self.clock = max(self.clock, request.stamp) + 1
        if self.state == WANTED and (self.stamp, self.me) < (request.stamp, sender):
            self.deferred.append(sender)
        else:
            self.send(Reply(self.clock), to=sender)


class ForgetsTheDeferral(RicartAgrawala):
    """Remembers only the last one that it put off."""

    def reply_or_defer(self, sender: ProcessId, request: Request) -> None:
        before = list(self.deferred)
        super().reply_or_defer(sender, request)
        if len(self.deferred) > len(before):
            self.deferred = [sender]


class ExpectsOneReplyFewer(RicartAgrawala):
    def acquire(self) -> None:
        super().acquire()
        self.missing.discard(self.peers[0])


class RepliesTwice(RicartAgrawala):
    """Does not forget whom it has replied to, so a second release replies once more, to a request that it has not seen."""

    def release(self) -> None:
        deferred = list(self.deferred)
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
        return min((stamp, process != self.me, process) for process, stamp in sorted(self.queue.items()))[2]


class CountsEarlierMessages(Lamport):
    """Takes anything that comes for something later than its own request."""

    def hear(self, sender: ProcessId, stamp: int) -> None:
        self.clock = max(self.clock, stamp) + 1
        self.silent.discard(sender)


# Roucairol and Carvalho.


class DoesNotAskAgain(RoucairolCarvalho):
    """Gives a permission away that it had kept, and waits for it without asking."""

    def permit_or_defer(self, sender: ProcessId, request: Request) -> None:
        self.clock = max(self.clock, request.stamp) + 1
        if self.state == HELD or (self.state == WANTED and (self.stamp, self.me) < (request.stamp, sender)):
            self.deferred.append(sender)
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
    """As the lecture notes have it: who has replied and then asks with a higher priority is not asked again."""

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
    """The second request looks more urgent than the first: the asked one gives way to somebody who does not go first."""

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
    return System(dict.fromkeys(everybody, RicartAgrawala().over(links)), complete(everybody), tuple(everybody))


def setup_of(healthy: type[Mutex], seed: int) -> Setup:
    """Three or four, calm or crowded; with priorities or on a bad network where that is what the algorithm is for."""
    size = 3 + seed % 2
    plain = {
        "algorithm": "mutant",
        "n": size,
        "seed": seed,
        "workload": "burst" if seed % 3 else "steady",
        "requests": 4,
        "delay": "exp:1ms",
    }
    if issubclass(healthy, RicartAgrawalaPriority):
        plain["initial"] = [f"{process}.priority={(seed + process) % 3}" for process in range(1, size + 1)]
    if issubclass(healthy, RicartAgrawalaReliable):
        plain |= {"loss": "30%", "duplicate": "30%"}
    return Setup.from_plain({**plain, "until": "60s"})


def violations(algorithm: type[Mutex], healthy: type[Mutex], seeds: int = SEEDS, wanted: str = "") -> dict[str, int]:
    """Which properties are violated, with the first seed that shows it; stops when the wanted one is."""
    found: dict[str, int] = {}
    for seed in range(seeds):
        report = execute(setup_of(healthy, seed), entry=entry_of(algorithm), keep=False)
        for finding in report.findings:
            if finding.verdict.value == "violated":
                found.setdefault(finding.name, seed)
        if wanted in found:
            break
    return found


@cache
def violations_of_the_healthy(algorithm: type[Mutex]) -> dict[str, int]:
    return violations(algorithm, algorithm)


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
        (CountsEarlierMessages, Lamport, "ME1"),
        (DoesNotAskAgain, RoucairolCarvalho, "ME2-deadlock"),
        (KeepsWhatItGave, RoucairolCarvalho, "ME1"),
        (VotesForAll, RicartAgrawalaMajority, "ME1"),
        (NeverYields, RicartAgrawalaMajority, "ME2-deadlock"),
        (CountsWhatItGaveBack, RicartAgrawalaMajority, "ME1"),
        (YieldsWhatHasNotCome, RicartAgrawalaMajority, "ME1"),
        (MissesTheNumber, RicartAgrawalaMajority, "ME1"),
        (ForgetsReleases, RicartAgrawalaMajority, "ME2-deadlock"),
        (OnlyComparesDifferently, RicartAgrawalaPriority, "ME1"),
        (WaitsWithoutAsking, RicartAgrawalaPriority, "ME2-deadlock"),
        (AsksAgainWithoutPriority, RicartAgrawalaPriority, "ME1"),
        (HandicapsOnlyItself, RicartAgrawalaPriorityAging, "ME2-deadlock"),
        (Unreliable, RicartAgrawalaReliable, "ME2-deadlock"),
        (Repetitive, RicartAgrawalaReliable, "ME1"),
    ],
)
def test_mutant_is_caught(mutant: type[Mutex], healthy: type[Mutex], caught_by: str) -> None:
    assert caught_by in violations(mutant, healthy, wanted=caught_by)
    claimed = entry_of(healthy).box.ensures
    assert not [name for name in violations_of_the_healthy(healthy) if name.partition("-")[0] in claimed]


@pytest.mark.parametrize("algorithm", [Lamport, RicartAgrawalaPriority, RicartAgrawalaPriorityAging])
def test_the_need_for_order_is_real(algorithm: type[Mutex]) -> None:
    """An algorithm that says that it needs FIFO links breaks without them."""
    assert algorithm.needs_fifo
    setups = (Setup.from_plain({**setup_of(algorithm, seed).plain(), "fifo": False}) for seed in range(SEEDS))
    assert any("ME1" in execute(setup, entry=entry_of(algorithm), keep=False).violated for setup in setups)


@pytest.mark.parametrize("algorithm", [RicartAgrawala, RicartAgrawalaMajority, RoucairolCarvalho, RicartAgrawalaReliable])
def test_no_other_needs_order(algorithm: type[Mutex]) -> None:
    assert not algorithm.needs_fifo

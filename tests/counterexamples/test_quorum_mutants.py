"""Planted bugs, one broken line each, in the quorum mutexes and in Maekawa's: the monitors must
find every one of them.

Each mutant is caught within a bounded number of seeds, by the named property, and the healthy
algorithm passes the very same runs as far as its card, or what is said next to the mutant,
promises.
"""

from collections.abc import Callable, Iterator
from functools import cache
from random import Random

import pytest

from habemus.algorithms.mutex.maekawa import Maekawa
from habemus.algorithms.mutex.maekawa_sanders import Failed, Inquire, MaekawaSanders, Yield
from habemus.algorithms.mutex.maekawa_sanders import Request as StampedRequest
from habemus.algorithms.mutex.quorum import (
    Claim,
    Grant,
    Quorum,
    QuorumDurable,
    QuorumRetry,
    Recovered,
)
from habemus.algorithms.mutex.quorum import Release as NumberedRelease
from habemus.algorithms.mutex.quorum import Request as NumberedRequest
from habemus.algorithms.mutex.quorum_yield import QuorumYield
from habemus.algorithms.mutex.ricart_agrawala import RELEASED, WANTED
from habemus.catalog.entries import entry_of
from habemus.core import ProcessId
from habemus.core.properties import Verdict
from habemus.problems.mutex import Mutex
from habemus.runs.setup import Setup
from habemus.runs.simulate import execute

# Of the quorum.


class HalfIsEnough(Quorum):
    """m = n/2: two halves need not meet."""

    def has_quorum(self) -> bool:
        return self.state == WANTED and 2 * len(self.grants) >= len(self.voters)


class CountsOldGrants(Quorum):
    """A grant for an earlier request counts for this one, although it is given back by then."""

    def count(self, sender: ProcessId, grant: Grant) -> None:
        if self.state == WANTED:
            self.grants.add(sender)


class AnybodyFrees(Quorum):
    """A release from one who only waits frees the grant of another."""

    def vacate(self, sender: ProcessId, release: NumberedRelease) -> None:
        self.holder = None


class KeepsWhoHasLeft(Quorum):
    """A release from one who waits does not take it out of the queue, so the grant goes to one who
    never gives it back.
    """

    def vacate(self, sender: ProcessId, release: NumberedRelease) -> None:
        if self.holder == (sender, release.number):
            self.holder = None


class ForgetsWhatHasEnded(Quorum):
    """A request that its own release has overtaken is granted, to one who never gives it back."""

    def enqueue(self, sender: ProcessId, request: NumberedRequest) -> None:
        self.queue.append((sender, request.number))


class DoesNotStoreGrants(QuorumDurable):
    """The grant is out before it is stored, that is: never stored."""

    holder: Claim | None = None


class StoresOnlyGrants(QuorumDurable):
    """The queue is lost, and a request that is said again is taken for one that is known."""

    queue: list[Claim] = []

    def enqueue(self, sender: ProcessId, request: NumberedRequest) -> None:
        if request.number > self.ended.get(sender, 0):
            self.ended[sender] = request.number
            self.queue.append((sender, request.number))


class DoesNotGrantAgain(QuorumDurable):
    """Takes it that a grant that is stored was also sent."""

    def on_recover(self) -> None:
        if self.number:
            self.tell_coordinators(NumberedRelease(self.number))
        self.broadcast(Recovered())


class AsksNobodyAgain(QuorumDurable):
    """Takes it that nothing was lost while it was down."""

    def say_again(self, sender: ProcessId, _: Recovered) -> None:
        pass


class DoesNotStoreNumbers(QuorumDurable):
    """A participant that restarts numbers its requests from 1 again, and late messages of old
    requests count for new ones.
    """

    number: int = 0


class NeverGivesUp(QuorumRetry):
    def ask_anew(self, _: object) -> None:
        pass


# Of the votes that are given back.


class IgnoresInquiries(MaekawaSanders):
    def note_inquiry(self, sender: ProcessId, inquire: Inquire) -> None:
        pass


class TellsNobody(MaekawaSanders):
    """No FAILED: everybody hopes for ever and gives nothing back."""

    def put_off(self) -> None:
        self.told.update(self.untold())


class TellsOnlyNewcomers(MaekawaSanders):
    """Maekawa's omission, found by Sanders: whoever loses the first place in the queue is
    not told.
    """

    def enqueue(self, sender: ProcessId, request: StampedRequest) -> None:
        super().enqueue(sender, request)
        if self.voted_for is not None and (request.stamp, sender) in self.untold():
            self.told.add((request.stamp, sender))
            self.send(Failed(request.stamp), to=sender)

    def should_tell(self) -> bool:
        return False


class YieldsInside(MaekawaSanders):
    """Gives votes back although it is inside."""

    def should_yield(self) -> bool:
        return self.state != RELEASED and bool(self.wanted_back())


class KeepsWhatItYields(MaekawaSanders):
    """Gives a vote back and still counts it."""

    def yield_votes(self) -> None:
        for voter in self.wanted_back():
            self.failed.add(voter)
            self.inquiries.pop(voter)
            self.send(Yield(self.newest[voter]), to=voter)


class YieldsBeforeTheVote(MaekawaSanders):
    """Answers an INQUIRE that has overtaken its vote, and counts the vote when it comes."""

    def note_inquiry(self, sender: ProcessId, inquire: Inquire) -> None:
        if self.state == WANTED and inquire.number > self.newest.get(sender, 0):
            self.send(Yield(inquire.number), to=sender)
        else:
            self.inquiries[sender] = inquire.number


class AnswersLateInquiries(MaekawaSanders):
    """Takes an INQUIRE of an earlier vote for one of the vote that it has now, gives that back, and
    the voter does not take it.
    """

    def wanted_back(self) -> list[ProcessId]:
        return [voter for voter in sorted(self.votes) if voter in self.inquiries]

    def yield_votes(self) -> None:
        for voter in self.wanted_back():
            self.votes.remove(voter)
            self.failed.add(voter)
            self.send(Yield(self.inquiries.pop(voter)), to=voter)


class DoesNotStoreVotes(QuorumYield):
    voted_for: tuple[int, ProcessId] | None = None


class DoesNotVoteAgain(QuorumYield):
    def on_recover(self) -> None:
        self.broadcast(Recovered())


# Of Maekawa's votes.


class OneVoteLess(Maekawa):
    def has_every_vote(self) -> bool:
        return self.state == WANTED and len(self.votes) >= max(1, len(self.voters) - 1)


class VotesTwice(Maekawa):
    def can_vote(self) -> bool:
        return bool(self.queue)


class KeepsOldVotes(Maekawa):
    """Votes of the last time count again."""

    def acquire(self) -> None:
        kept = set(self.votes)
        super().acquire()
        self.votes = kept


# The runs.


def crowd(
    n: int = 3,
    requests: int = 4,
    options: tuple[str, ...] = (),
    hold: str = "1ms",
    delay: str = "exp:1ms",
) -> Iterator[Setup]:
    """Everybody wants in, at once or a little apart, over links that reorder."""
    for seed in range(SEEDS):
        workload = "burst" if seed % 2 else "steady"
        yield Setup(
            "mutant",
            n,
            seed,
            options,
            workload=workload,
            requests=requests,
            hold=hold,
            delay=delay,
            until="20s",
        )


def pairs() -> Iterator[Setup]:
    """Two of three ask at a time.  Two cannot split three grants so that both lack one, so
    everybody gets in.
    """
    asking = [(1, 2), (2, 3), (2, 3), (1, 3), (1, 2), (2, 3), (1, 3), (1, 2)]
    asks = tuple(
        f"{one}@{50 * turn + 1}ms+100us" for turn, both in enumerate(asking) for one in both
    )
    for seed in range(SEEDS):
        yield Setup("mutant", 3, seed, asks=asks, delay="exp:1ms", until="20s")


def restarts(n: int = 2, victims: tuple[ProcessId, ...] = (101, 102, 103)) -> Iterator[Setup]:
    """Some crash, between two steps or in the middle of one, and come back soon."""
    for seed in range(SEEDS):
        draw = Random(seed)
        faults: list[tuple[str, str]] = []
        for _ in range(4):
            victim, moment = draw.choice(victims), draw.randrange(500, 20_000)
            if seed % 2:
                faults += [
                    ("crash", f"{victim}@{moment}us"),
                    ("recover", f"{victim}@{moment + draw.randrange(100, 3_000)}us"),
                ]
            else:
                faults += [
                    ("crash", f"{victim}@send#{draw.randrange(1, 12)}"),
                    ("recover", f"{victim}@{moment}us"),
                ]
        faults += [
            ("recover", f"{victim}@{moment}ms")
            for victim in victims
            for moment in (30, 60, 100, 200, 500)
        ]
        yield Setup(
            "mutant",
            n,
            seed,
            requests=5,
            hold="6ms",
            delay="exp:1ms",
            faults=tuple(faults),
            until="20s",
        )


SEEDS = 60
RUNS: dict[str, Callable[[], Iterator[Setup]]] = {
    "two": lambda: crowd(2, requests=12),
    "crowd": crowd,
    "crowd of seven": lambda: crowd(7, requests=3),
    "long stays": lambda: crowd(requests=8, hold="6ms"),
    "reordered": lambda: crowd(requests=12, hold="3ms", delay="exp:3ms"),
    "four coordinators": lambda: crowd(options=("coordinators=4",)),
    "pairs": pairs,
    "restarts": restarts,
    "restarts in a crowd": lambda: restarts(4),
    "restarts of participants": lambda: restarts(2, (1, 2)),
}


def first_violations(algorithm: type[Mutex], runs: str, until: str = "") -> dict[str, str]:
    """Which properties are violated, with the first run that shows it; stops at the one that is
    looked for.
    """
    found: dict[str, str] = {}
    for setup in RUNS[runs]():
        for finding in execute(setup, entry=entry_of(algorithm), keep=False).findings:
            if finding.verdict is Verdict.VIOLATED:
                found.setdefault(finding.name, f"{setup.command()}: {finding.why}")
        if until in found:
            break
    return found


@cache
def violations(algorithm: type[Mutex], runs: str) -> dict[str, str]:
    return first_violations(algorithm, runs)


@pytest.mark.parametrize(
    ("mutant", "runs", "caught_by"),
    [
        (HalfIsEnough, "four coordinators", "ME1"),
        (CountsOldGrants, "two", "ME1"),
        (AnybodyFrees, "two", "ME1"),
        (KeepsWhoHasLeft, "pairs", "ME2-deadlock"),
        (ForgetsWhatHasEnded, "pairs", "ME2-deadlock"),
        (DoesNotStoreGrants, "restarts", "ME1"),
        (StoresOnlyGrants, "restarts", "ME2-deadlock"),
        (DoesNotGrantAgain, "restarts", "ME2-deadlock"),
        (AsksNobodyAgain, "restarts", "ME2-deadlock"),
        (DoesNotStoreNumbers, "restarts of participants", "ME2-deadlock"),
        (NeverGivesUp, "crowd", "ME2-deadlock"),
        (IgnoresInquiries, "crowd", "ME2-deadlock"),
        (TellsNobody, "crowd", "ME2-deadlock"),
        (TellsOnlyNewcomers, "crowd", "ME2-deadlock"),
        (YieldsInside, "long stays", "ME1"),
        (KeepsWhatItYields, "crowd of seven", "ME1"),
        (YieldsBeforeTheVote, "reordered", "ME1"),
        (AnswersLateInquiries, "crowd of seven", "ME2-deadlock"),
        (DoesNotStoreVotes, "restarts in a crowd", "ME1"),
        (DoesNotVoteAgain, "restarts in a crowd", "ME2-deadlock"),
        (OneVoteLess, "crowd", "ME1"),
        (VotesTwice, "crowd", "ME1"),
        (KeepsOldVotes, "crowd", "ME1"),
    ],
)
def test_mutant_is_caught(mutant: type[Mutex], runs: str, caught_by: str) -> None:
    assert caught_by in first_violations(mutant, runs, caught_by)
    healthy = mutant.__mro__[1]
    assert issubclass(healthy, Mutex)
    assert caught_by not in violations(healthy, runs)


def test_the_omission_that_sanders_found_deadlocks_in_the_shortest_run() -> None:
    """2 has hopes at voter 3 until 1 comes, is not told, and so keeps its own vote, which 1 needs,
    for ever.
    """
    asks = ("1@1ms", "2@1ms", "3@1ms")
    setup = Setup(
        "mutant",
        3,
        options=("sets=[[1,2,3],[2,3],[1,3]]",),
        asks=asks,
        faults=(("slow", "1>3@0=1200us"),),
    )
    report = execute(setup, entry=entry_of(TellsOnlyNewcomers))
    assert report.violated == ["ME2-deadlock"]
    assert "cycle 1 -> 2 -> 1" in report.why or "cycle 1 -> 2 -> 3 -> 1" in report.why
    assert execute(setup, entry=entry_of(MaekawaSanders)).verdict is Verdict.HOLDS

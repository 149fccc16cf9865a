"""Planted bugs, one broken line each, in the quorum mutexes and in Maekawa's: the monitors must find every one of them.

Each mutant is caught within a bounded number of seeds, by the named property, and the healthy algorithm passes the very
same runs as far as its card, or what is said next to the mutant, promises.
"""

from collections.abc import Iterator
from random import Random

import pytest

from habemus.algorithms.mutex.maekawa import Maekawa, Release, Vote
from habemus.algorithms.mutex.maekawa_sanders import Failed, Inquire, MaekawaSanders, Yield, Yielding
from habemus.algorithms.mutex.maekawa_sanders import Request as StampedRequest
from habemus.algorithms.mutex.maekawa_sanders import Vote as NumberedVote
from habemus.algorithms.mutex.quorum import Claim, Grant, Quorum, QuorumDurable, QuorumRetry, Recovered
from habemus.algorithms.mutex.quorum import Release as NumberedRelease
from habemus.algorithms.mutex.quorum import Request as NumberedRequest
from habemus.algorithms.mutex.quorum_yield import QuorumYield
from habemus.algorithms.mutex.ricart_agrawala import RELEASED, WANTED
from habemus.catalog.entries import entry_of
from habemus.catalog.runs import execute
from habemus.catalog.setup import Setup
from habemus.core import ProcessId
from habemus.problems.mutex import Mutex

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
    """A release from one who waits does not take it out of the queue, so the grant goes to one who never gives it back."""

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


class DoesNotStoreTheQueue(QuorumDurable):
    """Whoever waited is forgotten, and nobody is asked what it wants."""

    queue: list[Claim] = []

    def say_again(self, sender: ProcessId, _: Recovered) -> None:
        pass


class DoesNotGrantAgain(QuorumDurable):
    """Takes it that a grant that is stored was also sent."""

    def send_grant(self) -> None:
        if self.holder is not None and self.holder[1] > self.ended.get(-self.holder[0], 0):
            self.ended[-self.holder[0]] = self.holder[1]
            self.send(Grant(self.holder[1]), to=self.holder[0])


class AsksNobodyAgain(QuorumDurable):
    """Takes it that nothing was lost while it was down."""

    def on_recover(self) -> None:
        self.send_grant()


class DoesNotStoreNumbers(QuorumDurable):
    """A participant that restarts numbers its requests from 1 again, and late messages of old requests count for new ones."""

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
    """Maekawa's omission, found by Sanders: whoever loses the first place in the queue is not told."""

    def untold(self) -> list[tuple[int, ProcessId]]:
        put_off = self.queue[1:] if self.first_is_earlier() else self.queue
        untold = [claim for claim in put_off if claim not in self.told]
        return [claim for claim in untold if self.voted_for is None or claim > self.voted_for]


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
    """Takes an INQUIRE of an earlier vote for one of the vote it has now, and a voter takes any YIELD."""

    def wanted_back(self) -> list[ProcessId]:
        return [voter for voter in sorted(self.votes) if self.inquiries.get(voter, 0)]

    def yield_votes(self) -> None:
        for voter in self.wanted_back():
            self.votes.remove(voter)
            self.send(Yield(self.inquiries.pop(voter)), to=voter)


class TakesAnyYield(QuorumYield):
    """Takes a YIELD of an old vote for one of the vote that was sent again after a restart."""

    def pass_vote_on(self, sender: ProcessId, returned: Yield) -> None:
        if self.voted_for is not None and self.voted_for[1] == sender:
            self.queue.append(self.voted_for)
            self.voted_for = None


class CountsOldVotes(QuorumYield):
    """Counts a vote that was sent before a restart and comes after the one that was sent again has been given back."""

    def count_vote(self, sender: ProcessId, vote: NumberedVote) -> None:
        self.newest[sender] = vote.number
        super().count_vote(sender, vote)
        if self.state == WANTED and vote.stamp == self.stamp:
            self.votes.add(sender)
            self.failed.discard(sender)


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


class VotesForNobodyNext(Maekawa):
    def take_vote_back(self, sender: ProcessId, _: Release) -> None:
        pass

"""Planted bugs, one broken line each, in every family of mutexes: the exhaustive search finds each
of them, by the shortest way.
"""

from typing import Any

from tests.counterexamples import test_elected_coordinator_mutants as elected
from tests.counterexamples import test_ground_mutants as ground
from tests.counterexamples import test_quorum_mutants as quorum
from tests.counterexamples import test_ra_mutants as ra
from tests.counterexamples import test_token_mutants as token
from tests.counterexamples.searching import Bug, assert_caught, gallery, within

from habemus.algorithms.mutex.central import Central
from habemus.algorithms.mutex.elected_coordinator import ElectedCoordinator, ElectedCoordinatorPlain
from habemus.algorithms.mutex.elected_coordinator import NumberedRequest as LockClaim
from habemus.algorithms.mutex.lamport import Acknowledgement, Lamport
from habemus.algorithms.mutex.lamport import Request as LamportRequest
from habemus.algorithms.mutex.quorum import Quorum
from habemus.algorithms.mutex.ricart_agrawala import HELD, WANTED, Reply, Request, RicartAgrawala
from habemus.algorithms.mutex.roucairol_carvalho import RoucairolCarvalho
from habemus.algorithms.mutex.token_ring import TokenRing
from habemus.core import ProcessId

# Bugs that only a search is asked to find.


class ServesTheLastFirst(Central):
    """A stack in place of the queue: whoever came first waits while others come and go."""

    def admit_next(self) -> None:
        self.waiting.insert(0, self.waiting.pop())
        super().admit_next()


class PassesOnWhileInside(TokenRing):
    """Looks neither whether it wants the token nor whether it is inside."""

    def has_no_use_for_it(self) -> bool:
        return self.has_token


class EntersOnTheFirstReply(RicartAgrawala):
    """One reply stands for all."""

    def count_reply(self, sender: ProcessId, reply: Reply) -> None:
        super().count_reply(sender, reply)
        self.missing.clear()


class CountsEarlierAsLater(Lamport):
    """Whatever comes counts as later than the own request, though it may have been sent
    before it.
    """

    def hear(self, sender: ProcessId, stamp: int) -> None:
        self.clock = max(self.clock, stamp) + 1
        self.silent.discard(sender)


class AcknowledgesWithoutQueueing(Lamport):
    """Says that it has the request in its queue, and has not."""

    def enqueue(self, sender: ProcessId, request: LamportRequest) -> None:
        self.hear(sender, request.stamp)
        self.send(Acknowledgement(self.clock), to=sender)


class LeavesInSilence(Lamport):
    """Tells nobody that it has left."""

    def release(self) -> None:
        self.inside = False
        del self.queue[self.me]


class PermitsWhileInside(RoucairolCarvalho):
    """Looks at stamps only, also when it is inside."""

    def permit_or_defer(self, sender: ProcessId, request: Request) -> None:
        before, self.state = self.state, WANTED if self.state == HELD else self.state
        super().permit_or_defer(sender, request)
        self.state = before


class GrantsTwice(Quorum):
    """A coordinator does not look whether its grant is out."""

    def is_free_and_wanted(self) -> bool:
        return bool(self.queue)


class LendsWhatIsLent(ElectedCoordinator):
    """The coordinator does not look whether somebody has the lock."""

    def borrowing(self) -> LockClaim | None:
        return None


class LendsUnsettled(ElectedCoordinatorPlain):
    """A new coordinator lends before it has asked who has the lock."""

    def knows_enough(self) -> bool:
        return self.coordinator == self.me and not self.settled


def faults(**counts: int) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(counts.items()))


NO_PREVOTE = (
    'election_options={"prevote": false}',
)  # so that one timeout is enough for a take-over
LOW: dict[str, Any] = {"initial": ("1.priority=1",)}
DEADLOCK, STARVATION = "ME2-deadlock", "ME2-starvation"

ONE_TIMEOUT = within(2, network="fifo", timeouts=1)
AT_ONCE = within(2, network="fifo", timeouts=1, options=NO_PREVOTE)
RECOVERY = within(2, options=("coordinators=1",), faults=faults(crash=1, recover=1), every=True)
TWICE_IN_ORDER = within(2, entries=2, network="fifo", limit=100_000)

GALLERY = [
    Bug(ground.GrantsWhileHeld, "ME1", within(2), 6, 26),
    Bug(ground.ForgetsTheQueue, DEADLOCK, within(3), 12, 197),
    Bug(ground.NeverFrees, DEADLOCK, within(2), 7, 28),
    Bug(ServesTheLastFirst, STARVATION, within(3, entries=None), 9, 182),
    Bug(ground.DropsTheToken, DEADLOCK, within(2), 1, 4),
    Bug(ground.CopiesTheToken, "ME1", within(2), 4, 13),
    Bug(ground.EntersUnasked, STARVATION, within(2), 4, 12),
    Bug(PassesOnWhileInside, "ME1", within(2), 4, 13),
    Bug(ground.LosesTheTieBreak, "ME1", within(2), 6, 36),
    Bug(ra.LosesTheTieBreak, DEADLOCK, within(2), 4, 25),
    Bug(ra.ComparesWithItsClock, "ME1", within(2), 6, 37),
    Bug(ra.RepliesWhileHeld, "ME1", within(2), 6, 31),
    Bug(ground.ForgetsTheDeferred, DEADLOCK, within(2), 6, 41),
    Bug(ra.ForgetsTheDeferral, DEADLOCK, within(3), 14, 27_198),
    Bug(
        ground.StampsWithoutReceiving, "ME3", within(2, order=True), 5, 35
    ),  # goes on: the mutant claims no ME3
    Bug(ra.ExpectsOneReplyFewer, "ME1", within(2), 2, 5),
    Bug(EntersOnTheFirstReply, "ME1", within(3), 6, 349),
    Bug(ra.RepliesTwice, "ME1", within(2, entries=3), 17, 2_316),
    Bug(ra.HearsNobody, "ME1", within(2), 2, 5),
    Bug(ra.IgnoresTheQueue, "ME1", within(2), 5, 23),
    Bug(CountsEarlierAsLater, "ME1", within(2, entries=2), 12, 381),
    Bug(AcknowledgesWithoutQueueing, "ME1", within(2), 5, 23),
    Bug(ra.PutsItselfFirst, "ME1", within(2), 5, 23),
    Bug(ra.NeverDequeues, DEADLOCK, within(2), 8, 56),
    Bug(LeavesInSilence, DEADLOCK, within(2), 7, 35),
    Bug(ra.AcknowledgesTheStamp, DEADLOCK, within(2), 3, 17),
    Bug(ra.KeepsWhatItGave, "ME1", within(2, entries=2), 8, 62),
    Bug(PermitsWhileInside, "ME1", within(2, entries=2), 8, 63),
    Bug(ra.VotesForAll, "ME1", within(2), 10, 343),
    Bug(ra.NeverYields, DEADLOCK, within(2), 9, 318),
    Bug(ra.CountsWhatItGaveBack, "ME1", within(2), 14, 574),
    Bug(ra.YieldsWhatHasNotCome, "ME1", within(2), 14, 759),
    Bug(ra.OnlyComparesDifferently, "ME1", within(3, **LOW), 10, 2_734),
    Bug(ra.WaitsWithoutAsking, DEADLOCK, within(3, **LOW), 11, 6_204),
    Bug(
        ra.HandicapsOnlyItself, DEADLOCK, within(2, initial=("1.priority=1", "2.priority=2")), 4, 21
    ),
    Bug(
        ra.Repetitive,
        "ME1",
        within(2, entries=2, network="duplicating", timeouts=1, limit=35_000),
        9,
        14_303,
    ),
    Bug(token.SendsTwoTokens, "ME1", within(3), 8, 308),
    Bug(token.LendsTheTokenWhileInside, "ME1", within(2), 4, 12),
    Bug(token.ForgetsWhomItServed, DEADLOCK, within(2, entries=2), 10, 86),
    Bug(token.BelievesOldRequests, DEADLOCK, within(3, entries=2), 13, 7_118),
    Bug(token.GivesWhileInside, "ME1", within(2), 4, 11),
    Bug(token.KeepsPointingAtItself, "ME1", within(2), 4, 11),
    Bug(token.KeepsOnlyTheLast, DEADLOCK, within(3), 7, 156),
    Bug(token.AsksOnlyOnce, DEADLOCK, within(2, entries=2), 5, 27),
    Bug(token.KeepsACopy, "ME1", within(2, entries=2), 6, 34),
    Bug(token.ForgetsWhoIsNext, DEADLOCK, within(2), 4, 18),
    Bug(token.RootForgetsWhoAsked, DEADLOCK, within(2, entries=2), 5, 27),
    Bug(token.NeverBecomesTheRoot, DEADLOCK, within(2, entries=2), 10, 289),
    Bug(quorum.HalfIsEnough, "ME1", within(2, options=("coordinators=2",)), 6, 87),
    Bug(GrantsTwice, "ME1", within(2, options=("coordinators=2",)), 10, 243),
    Bug(quorum.AnybodyFrees, "ME1", TWICE_IN_ORDER, 21, 48_385),
    Bug(quorum.CountsOldGrants, "ME1", TWICE_IN_ORDER, 19, 30_081),
    Bug(quorum.DoesNotStoreGrants, "ME1", RECOVERY, 8, 1_255),
    Bug(
        quorum.NeverGivesUp,
        DEADLOCK,
        within(2, options=("coordinators=2",), network="fifo", limit=150_000),
        10,
        429,
    ),
    Bug(quorum.DoesNotStoreVotes, "ME1", RECOVERY, 7, 3_885),
    Bug(quorum.OneVoteLess, "ME1", within(2), 6, 91),
    Bug(quorum.VotesTwice, "ME1", within(2), 10, 250),
    Bug(quorum.KeepsOldVotes, "ME1", within(2, entries=2, network="fifo", every=True), 14, 7_949),
    Bug(quorum.IgnoresInquiries, DEADLOCK, within(2), 10, 892),
    Bug(quorum.TellsNobody, DEADLOCK, within(2), 9, 482),
    Bug(quorum.TellsOnlyNewcomers, DEADLOCK, within(3, network="fifo"), 18, 67_323),
    Bug(quorum.YieldsInside, "ME1", within(2), 14, 1_765),
    Bug(quorum.YieldsBeforeTheVote, "ME1", within(2), 14, 2_104),
    Bug(
        token.NeverLooksForTheToken,
        DEADLOCK,
        within(2, timing="synchronous", faults=faults(crash=1), limit=20_000),
        5,
        371,
    ),
    Bug(token.StopsNoInquiry, "ME1", within(2, timing="synchronous", limit=20_000), 8, 302),
    Bug(LendsWhatIsLent, "ME1", ONE_TIMEOUT, 15, 5_263),
    Bug(LendsUnsettled, "ME1", AT_ONCE, 13, 8_831),
    Bug(
        elected.UsesItsBlockAfterARestart,
        "TOKEN",
        within(
            2,
            entries=2,
            asking=(2,),
            network="fifo",
            timeouts=1,
            faults=(("crash", 1), ("recover", 1)),
            options=(*NO_PREVOTE, "block=2"),
        ),
        11,
        15_127,
    ),
    Bug(elected.TakesTheLockFromTheBorrower, "ME1", AT_ONCE, 17, 12_387),
    Bug(elected.ForgetsWhatIsLent, "ME1", ONE_TIMEOUT, 15, 5_222),
    Bug(elected.ForgetsTheLastToken, "TOKEN", ONE_TIMEOUT, 19, 11_951),
]

# Only with --times 10 or more: most of the time goes into the search of the healthy form.
LONG = [
    Bug(ra.Unreliable, DEADLOCK, within(2, faults=faults(lose=1), merging=True), 2, 22),
    Bug(
        elected.IgnoresRecalls,
        "ME1",
        within(2, entries=2, network="fifo", timeouts=1, options=(*NO_PREVOTE, "block=2")),
        21,
        39_807,
    ),
]


@gallery(GALLERY, LONG)
def test_found(planted: Bug) -> None:
    assert_caught(planted)

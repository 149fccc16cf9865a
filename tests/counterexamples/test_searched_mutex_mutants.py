"""Planted bugs, one broken line each, in every family of mutexes: the exhaustive search finds each
of them, by the shortest way.
"""

from typing import Any

from tests.counterexamples import test_elected_coordinator_mutants as elected
from tests.counterexamples import test_ground_mutants as ground
from tests.counterexamples import test_quorum_mutants as quorum
from tests.counterexamples import test_ra_mutants as ra
from tests.counterexamples import test_token_mutants as token
from tests.counterexamples.searching import Planted, assert_caught, gallery, within

from habemus.algorithms.mutex.central import Central
from habemus.algorithms.mutex.elected_coordinator import ElectedCoordinator, ElectedCoordinatorPlain
from habemus.algorithms.mutex.elected_coordinator import NumberedRequest as LockClaim
from habemus.algorithms.mutex.lamport import Acknowledgement, Lamport
from habemus.algorithms.mutex.lamport import Request as LamportRequest
from habemus.algorithms.mutex.maekawa import Maekawa
from habemus.algorithms.mutex.maekawa_sanders import MaekawaSanders
from habemus.algorithms.mutex.naimi_trehel import NaimiTrehel
from habemus.algorithms.mutex.quorum import Quorum, QuorumDurable, QuorumRetry
from habemus.algorithms.mutex.quorum_yield import QuorumYield
from habemus.algorithms.mutex.ra_majority import RicartAgrawalaMajority
from habemus.algorithms.mutex.ra_priority import RicartAgrawalaPriority
from habemus.algorithms.mutex.ra_priority_aging import RicartAgrawalaPriorityAging
from habemus.algorithms.mutex.ra_reliable import RicartAgrawalaReliable
from habemus.algorithms.mutex.raymond import Raymond
from habemus.algorithms.mutex.ricart_agrawala import HELD, WANTED, Reply, Request, RicartAgrawala
from habemus.algorithms.mutex.roucairol_carvalho import RoucairolCarvalho
from habemus.algorithms.mutex.suzuki_kasami import SuzukiKasami
from habemus.algorithms.mutex.token_ring import TokenRing
from habemus.algorithms.mutex.token_ring_repair import TokenRingRepair
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

GALLERY = [
    Planted(ground.GrantsWhileHeld, Central, "ME1", within(2), 6, 26),
    Planted(ground.ForgetsTheQueue, Central, DEADLOCK, within(3), 12, 197),
    Planted(ground.NeverFrees, Central, DEADLOCK, within(2), 7, 28),
    Planted(ServesTheLastFirst, Central, STARVATION, within(3, entries=None), 9, 182),
    Planted(ground.DropsTheToken, TokenRing, DEADLOCK, within(2), 1, 4),
    Planted(ground.CopiesTheToken, TokenRing, "ME1", within(2), 4, 13),
    Planted(ground.EntersUnasked, TokenRing, STARVATION, within(2), 4, 12),
    Planted(PassesOnWhileInside, TokenRing, "ME1", within(2), 4, 13),
    Planted(ground.LosesTheTieBreak, RicartAgrawala, "ME1", within(2), 6, 36),
    Planted(ra.LosesTheTieBreak, RicartAgrawala, DEADLOCK, within(2), 4, 25),
    Planted(ra.ComparesWithItsClock, RicartAgrawala, "ME1", within(2), 6, 37),
    Planted(ra.RepliesWhileHeld, RicartAgrawala, "ME1", within(2), 6, 31),
    Planted(ground.ForgetsTheDeferred, RicartAgrawala, DEADLOCK, within(2), 6, 41),
    Planted(ra.ForgetsTheDeferral, RicartAgrawala, DEADLOCK, within(3), 14, 27_198),
    Planted(
        ground.StampsWithoutReceiving, RicartAgrawala, "ME3", within(2, order=True), 5, 35
    ),  # goes on: the mutant claims no ME3
    Planted(ra.ExpectsOneReplyFewer, RicartAgrawala, "ME1", within(2), 2, 5),
    Planted(EntersOnTheFirstReply, RicartAgrawala, "ME1", within(3), 6, 349),
    Planted(ra.RepliesTwice, RicartAgrawala, "ME1", within(2, entries=3), 17, 2_316),
    Planted(ra.HearsNobody, Lamport, "ME1", within(2), 2, 5),
    Planted(ra.IgnoresTheQueue, Lamport, "ME1", within(2), 5, 23),
    Planted(CountsEarlierAsLater, Lamport, "ME1", within(2, entries=2), 12, 381),
    Planted(AcknowledgesWithoutQueueing, Lamport, "ME1", within(2), 5, 23),
    Planted(ra.PutsItselfFirst, Lamport, "ME1", within(2), 5, 23),
    Planted(ra.NeverDequeues, Lamport, DEADLOCK, within(2), 8, 56),
    Planted(LeavesInSilence, Lamport, DEADLOCK, within(2), 7, 35),
    Planted(ra.AcknowledgesTheStamp, Lamport, DEADLOCK, within(2), 3, 17),
    Planted(ra.KeepsWhatItGave, RoucairolCarvalho, "ME1", within(2, entries=2), 8, 62),
    Planted(PermitsWhileInside, RoucairolCarvalho, "ME1", within(2, entries=2), 8, 63),
    Planted(ra.VotesForAll, RicartAgrawalaMajority, "ME1", within(2), 10, 343),
    Planted(ra.NeverYields, RicartAgrawalaMajority, DEADLOCK, within(2), 9, 318),
    Planted(ra.CountsWhatItGaveBack, RicartAgrawalaMajority, "ME1", within(2), 14, 574),
    Planted(ra.YieldsWhatHasNotCome, RicartAgrawalaMajority, "ME1", within(2), 14, 759),
    Planted(ra.OnlyComparesDifferently, RicartAgrawalaPriority, "ME1", within(3, **LOW), 10, 2_734),
    Planted(ra.WaitsWithoutAsking, RicartAgrawalaPriority, DEADLOCK, within(3, **LOW), 11, 6_204),
    Planted(
        ra.HandicapsOnlyItself,
        RicartAgrawalaPriorityAging,
        DEADLOCK,
        within(2, initial=("1.priority=1", "2.priority=2")),
        4,
        21,
    ),
    Planted(
        ra.Repetitive,
        RicartAgrawalaReliable,
        "ME1",
        within(2, entries=2, network="duplicating", timeouts=1, limit=35_000),
        9,
        14_303,
    ),
    Planted(token.SendsTwoTokens, SuzukiKasami, "ME1", within(3), 8, 308),
    Planted(token.LendsTheTokenWhileInside, SuzukiKasami, "ME1", within(2), 4, 12),
    Planted(token.ForgetsWhomItServed, SuzukiKasami, DEADLOCK, within(2, entries=2), 10, 86),
    Planted(token.BelievesOldRequests, SuzukiKasami, DEADLOCK, within(3, entries=2), 13, 7_118),
    Planted(token.GivesWhileInside, Raymond, "ME1", within(2), 4, 11),
    Planted(token.KeepsPointingAtItself, Raymond, "ME1", within(2), 4, 11),
    Planted(token.KeepsOnlyTheLast, Raymond, DEADLOCK, within(3), 7, 156),
    Planted(token.AsksOnlyOnce, Raymond, DEADLOCK, within(2, entries=2), 5, 27),
    Planted(token.KeepsACopy, NaimiTrehel, "ME1", within(2, entries=2), 6, 34),
    Planted(token.ForgetsWhoIsNext, NaimiTrehel, DEADLOCK, within(2), 4, 18),
    Planted(token.RootForgetsWhoAsked, NaimiTrehel, DEADLOCK, within(2, entries=2), 5, 27),
    Planted(token.NeverBecomesTheRoot, NaimiTrehel, DEADLOCK, within(2, entries=2), 10, 289),
    Planted(quorum.HalfIsEnough, Quorum, "ME1", within(2, options=("coordinators=2",)), 6, 87),
    Planted(GrantsTwice, Quorum, "ME1", within(2, options=("coordinators=2",)), 10, 243),
    Planted(
        quorum.AnybodyFrees,
        Quorum,
        "ME1",
        within(2, entries=2, network="fifo", limit=100_000),
        21,
        48_385,
    ),
    Planted(
        quorum.CountsOldGrants,
        Quorum,
        "ME1",
        within(2, entries=2, network="fifo", limit=100_000),
        19,
        30_081,
    ),
    Planted(
        quorum.DoesNotStoreGrants,
        QuorumDurable,
        "ME1",
        within(2, options=("coordinators=1",), faults=faults(crash=1, recover=1), every=True),
        8,
        1_255,
    ),
    Planted(
        quorum.NeverGivesUp,
        QuorumRetry,
        DEADLOCK,
        within(2, options=("coordinators=2",), network="fifo", limit=150_000),
        10,
        429,
    ),
    Planted(
        quorum.DoesNotStoreVotes,
        QuorumYield,
        "ME1",
        within(2, options=("coordinators=1",), faults=faults(crash=1, recover=1), every=True),
        7,
        3_885,
    ),
    Planted(quorum.OneVoteLess, Maekawa, "ME1", within(2), 6, 91),
    Planted(quorum.VotesTwice, Maekawa, "ME1", within(2), 10, 250),
    Planted(
        quorum.KeepsOldVotes,
        Maekawa,
        "ME1",
        within(2, entries=2, network="fifo", every=True),
        14,
        7_949,
    ),
    Planted(quorum.IgnoresInquiries, MaekawaSanders, DEADLOCK, within(2), 10, 892),
    Planted(quorum.TellsNobody, MaekawaSanders, DEADLOCK, within(2), 9, 482),
    Planted(
        quorum.TellsOnlyNewcomers, MaekawaSanders, DEADLOCK, within(3, network="fifo"), 18, 67_323
    ),
    Planted(quorum.YieldsInside, MaekawaSanders, "ME1", within(2), 14, 1_765),
    Planted(quorum.YieldsBeforeTheVote, MaekawaSanders, "ME1", within(2), 14, 2_104),
    Planted(
        token.NeverLooksForTheToken,
        TokenRingRepair,
        DEADLOCK,
        within(2, timing="synchronous", faults=faults(crash=1), limit=20_000),
        5,
        371,
    ),
    Planted(
        token.StopsNoInquiry,
        TokenRingRepair,
        "ME1",
        within(2, timing="synchronous", limit=20_000),
        8,
        302,
    ),
    Planted(
        LendsWhatIsLent, ElectedCoordinator, "ME1", within(2, network="fifo", timeouts=1), 15, 5_263
    ),
    Planted(
        LendsUnsettled,
        ElectedCoordinatorPlain,
        "ME1",
        within(2, network="fifo", timeouts=1, options=NO_PREVOTE),
        13,
        8_831,
    ),
    Planted(
        elected.UsesItsBlockAfterARestart,
        ElectedCoordinator,
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
        15_211,
    ),
    Planted(
        elected.TakesTheLockFromTheBorrower,
        ElectedCoordinator,
        "ME1",
        within(2, network="fifo", timeouts=1, options=NO_PREVOTE),
        17,
        12_387,
    ),
    Planted(
        elected.ForgetsWhatIsLent,
        ElectedCoordinator,
        "ME1",
        within(2, network="fifo", timeouts=1),
        15,
        5_222,
    ),
    Planted(
        elected.ForgetsTheLastToken,
        ElectedCoordinator,
        "TOKEN",
        within(2, network="fifo", timeouts=1),
        19,
        11_951,
    ),
]

# Only with --times 10 or more: most of the time goes into the search of the healthy form.
LONG = [
    Planted(
        ra.Unreliable,
        RicartAgrawalaReliable,
        DEADLOCK,
        within(2, faults=faults(lose=1), merging=True),
        2,
        22,
    ),
    Planted(
        elected.IgnoresRecalls,
        ElectedCoordinator,
        "ME1",
        within(2, entries=2, network="fifo", timeouts=1, options=(*NO_PREVOTE, "block=2")),
        21,
        39_807,
    ),
]


@gallery(GALLERY, LONG)
def test_found(planted: Planted) -> None:
    assert_caught(planted)

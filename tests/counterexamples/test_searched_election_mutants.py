"""Planted bugs, one broken line each, in every family of elections: the exhaustive search finds
each of them, by the shortest way.

The elections over failure detectors are missing: their states have no end, and what they promise is
about the end of a run.
"""

from typing import Any

from tests.counterexamples import test_election_mutants as complete
from tests.counterexamples import test_ring_mutants as ring
from tests.counterexamples.searching import Bug, assert_caught, gallery, within

from habemus.algorithms.election import franklin
from habemus.algorithms.election.chang_roberts import ChangRoberts, Elected
from habemus.algorithms.election.franklin import Franklin
from habemus.algorithms.election.hirschberg_sinclair import HirschbergSinclair, Reply
from habemus.algorithms.election.omega_recovery import Interval, OmegaRecovery
from habemus.algorithms.election.peterson import Elected as PetersonElected
from habemus.algorithms.election.peterson import Peterson
from habemus.core import ProcessId
from habemus.problems.election import Leader

# Bugs that only a search is asked to find.


class SwallowsTheNews(ChangRoberts):
    """The announcement ends at the first who hears it."""

    def follow(self, sender: ProcessId, elected: Elected) -> None:
        self.participant = False
        self.indicate(Leader(elected.process))


class AnnouncesItself(Peterson):
    """Whoever is left alone takes itself for the leader, and announces the one whose id it has."""

    def announce(self) -> None:
        self.leader = self.carried
        self.indicate(Leader(self.me))
        self.send(PetersonElected(self.carried), to=self.right)


class RelaysNothing(Franklin):
    """A passive process does not pass ids on."""

    def take(self, nominee: franklin.Nominee) -> None:
        if self.standing != franklin.PASSIVE:
            super().take(nominee)


class NeverEnds(ring.NoPruning):
    """Nobody leaves and no link is dropped, as the notes have it; stages are not counted, so that
    the run can repeat itself.
    """

    def pass_smallest_down(self) -> None:
        super().pass_smallest_down()
        self.stage = 0


class TurnsNoLinks(ring.DoesNotTurnLinks):
    """A no does not turn its link round; stages are not counted, so that the run can repeat
    itself.
    """

    def pass_smallest_down(self) -> None:
        super().pass_smallest_down()
        self.stage = 0


class KeepsReplies(HirschbergSinclair):
    """Replies to others end here."""

    def count_or_relay(self, sender: ProcessId, reply: Reply) -> None:
        if reply.process == self.me:
            super().count_or_relay(sender, reply)


class NamesOnlyItself(OmegaRecovery):
    """Says who leads only if it is the one."""

    def choose_leader(self, interval: Interval) -> None:
        if min(self.candidates) == self.me:
            super().choose_leader(interval)
        else:
            self.begin_interval()


def faults(**counts: int) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(counts.items()))


IN_TIME: dict[str, Any] = {"timing": "synchronous"}
AT_ONCE = ("prevote=false",)
STAR, TRIANGLE = ("edges=[[1,2],[1,3]]",), ("edges=[[1,2],[1,3],[2,3]]",)

FORGETFUL = within(3, options=AT_ONCE, timeouts=2, faults=faults(crash=1, recover=1))

GALLERY = [
    Bug(ring.DoesNotStandBack, "E2", within(2, every=True), 6, 38),
    Bug(ring.KeepsTheNews, "E2", within(3, every=True), 5, 241),
    Bug(ring.TakesEqualForAlone, "E1", within(2, limit=20_000), 6, 73),
    Bug(ring.LetsSmallerPass, "E1", within(2, limit=20_000), 6, 65),
    Bug(ring.ChoosesTheFirst, "E1", within(2), 6, 21),
    Bug(ring.DoesNotAnnounce, "E2", within(2), 4, 19),
    Bug(ring.LetsEverybodyPass, "E1", within(2), 6, 23),
    Bug(ring.NeverReplaces, "E2", within(2), 2, 10),
    Bug(ring.WinsInSilence, "E2", within(2), 3, 14),
    Bug(AnnouncesItself, "E1", within(2), 8, 26),
    Bug(ring.IgnoresRounds, "E2", within(3), 9, 859),
    Bug(ring.LosesWhatCameEarly, "E2", within(3), 9, 829),
    Bug(RelaysNothing, "E2", within(2), 7, 84),
    Bug(ring.GoesNoFurther, "E2", within(3), 12, 1_203),
    Bug(NeverEnds, "E2", within(2), 7, 19),
    Bug(NeverEnds, "E2", within(3, options=TRIANGLE), 18, 709),
    Bug(ring.KeepsEqualLinks, "E2", within(3, options=TRIANGLE), 15, 694),
    Bug(ring.ForgetsItsChildren, "E2", within(3, options=STAR), 10, 198),
    Bug(complete.TellsNobody, "E2", within(2, **IN_TIME), 3, 17),
    Bug(
        complete.ForgetsItsRestarts,
        "E4",
        within(2, **IN_TIME, faults=faults(crash=1, recover=1), every=True),
        9,
        1_475,
    ),
    Bug(complete.VotesTwice, "E1", within(3, options=AT_ONCE, timeouts=2, limit=300_000), 6, 538),
    Bug(complete.HalfIsEnough, "E1", within(2, options=AT_ONCE, timeouts=2), 2, 6),
    Bug(
        complete.KeepsOldSupporters,
        "E1",
        within(3, timeouts=2, network="fifo", limit=300_000),
        6,
        321,
    ),
    Bug(complete.ForgetsItsVote, "E1", FORGETFUL, 8, 15_962),
    Bug(
        complete.CountsOldVotes,
        "E1",
        within(3, options=AT_ONCE, timeouts=4, network="fifo", limit=60_000),
        7,
        2_045,
    ),
    Bug(complete.ForgetsItsTerm, "E1", FORGETFUL, 8, 16_005),
    Bug(complete.BacksAnybody, "E4", within(2, timeouts=2, network="fifo"), 11, 96),
    Bug(complete.AnswersAndRests, "E2", within(2, **IN_TIME), 5, 42),
    Bug(
        complete.IgnoresOk,
        "E1",
        within(3, **IN_TIME, faults=faults(crash=1), every=True),
        7,
        10_397,
    ),
    Bug(SwallowsTheNews, "E2", within(3), 5, 84),
    Bug(KeepsReplies, "E2", within(3), 16, 3_368),
    Bug(TurnsNoLinks, "E2", within(3, options=("edges=[[1,3],[2,3]]",)), 13, 231),
    Bug(NamesOnlyItself, "E2", within(2, options=("step=0",), merging=True), 6, 44),
]


@gallery(GALLERY)
def test_found(planted: Bug) -> None:
    assert_caught(planted)

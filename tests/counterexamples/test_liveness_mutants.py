"""Planted bugs of liveness, one broken line each: every one must be caught when timers run on, and
the healthy algorithm must hold within the same bound.
"""

from dataclasses import replace
from typing import NamedTuple

import pytest
from tests.counterexamples.searching import verdict_of, within

from habemus.algorithms.election.bully import Bully, Unfinished
from habemus.algorithms.election.itai_rodeh import ACTIVE, ItaiRodeh, Token
from habemus.algorithms.election.omega_recovery import Interval, OmegaRecovery
from habemus.algorithms.election.terms import Beat, Patience, Terms
from habemus.algorithms.mutex.elected_coordinator import ElectedCoordinator
from habemus.algorithms.mutex.elected_coordinator_participant import Repeat
from habemus.algorithms.mutex.quorum import GiveUp, QuorumRetry
from habemus.algorithms.mutex.token_ring_repair import Inquiry, NotTaken, TokenRingRepair
from habemus.catalog.entries import entry_of
from habemus.core.process import Process
from habemus.core.properties import Verdict
from habemus.runs.check import Check, perform


class NeverStandsAgain(Terms):
    def give_up_leader(self, _: Patience) -> None:
        self.just_recovered = False
        self.follow(None)
        self.call()


class BeatsOnce(Terms):
    def beat(self, _: Beat) -> None:
        super().beat(_)
        self.cancel_timer(Beat())


class StaysLoyalForEver(Terms):
    def give_up_leader(self, _: Patience) -> None:
        if self.leader is None:
            super().give_up_leader(_)


class BeginsOneInterval(OmegaRecovery):
    def choose_leader(self, _: Interval) -> None:
        super().choose_leader(_)
        self.cancel_timer(Interval())


class DoesNotCallAgain(Bully):
    def call_again(self, _: Unfinished) -> None:
        self.calling = False


class AsksOnce(ElectedCoordinator):
    def ask_again(self, repeat: Repeat) -> None:
        """Rely on the first request."""


class NeverMakesAToken(TokenRingRepair):
    def make_token(self, inquiry: Inquiry) -> None:
        """Let the inquiry end."""


class SkipsNobody(TokenRingRepair):
    def skip_with_token(self, missed: NotTaken) -> None:
        """Wait for the process that does not answer."""


class NeverGivesUp(QuorumRetry):
    def ask_anew(self, _: GiveUp) -> None:
        """Wait for ever."""


class PlantedLiveness(NamedTuple):
    mutant: type[Process]
    healthy: type[Process]
    broken: str
    check: Check


EVENTUAL = {"timing": "eventual"}
PLANTED = [
    PlantedLiveness(NeverStandsAgain, Terms, "E2", within(2, timeouts=2, entries=0, **EVENTUAL)),
    PlantedLiveness(
        StaysLoyalForEver,
        Terms,
        "E3",
        within(3, timeouts=1, entries=0, faults=(("crash", 1),), **EVENTUAL),
    ),
    PlantedLiveness(
        BeginsOneInterval, OmegaRecovery, "E3", within(2, timeouts=2, entries=0, **EVENTUAL)
    ),
    PlantedLiveness(
        DoesNotCallAgain,
        Bully,
        "E2",
        within(3, timeouts=2, asking=(1,), faults=(("crash", 1),), timing="synchronous"),
    ),
    PlantedLiveness(
        AsksOnce,
        ElectedCoordinator,
        "ME2-deadlock",
        within(2, network="fifo", timeouts=1, **EVENTUAL),
    ),
    *(
        PlantedLiveness(
            mutant,
            TokenRingRepair,
            "ME2-deadlock",
            within(
                2,
                timeouts=1,
                receipts=(("Token", 2),),
                faults=(("crash", 1),),
                timing="synchronous",
                limit=12_000,
            ),
        )
        for mutant in (NeverMakesAToken, SkipsNobody)
    ),
    PlantedLiveness(
        NeverGivesUp,
        QuorumRetry,
        "ME2-deadlock",
        within(2, options=("coordinators=2",), timeouts=1, **EVENTUAL),
    ),
]


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.mutant.__name__)
def test_a_bug_of_liveness_is_caught(planted: PlantedLiveness) -> None:
    healthy = perform(replace(planted.check, every=True), entry=entry_of(planted.healthy))
    assert verdict_of(healthy, planted.broken) is Verdict.HOLDS, healthy.findings
    caught = perform(replace(planted.check, every=True), entry=entry_of(planted.mutant))
    assert verdict_of(caught, planted.broken) is Verdict.VIOLATED, caught.findings
    assert caught.traces[planted.broken].events


def test_leaders_that_change_for_ever_in_ever_new_terms_are_undecided() -> None:
    """The states have no end, so that no run returns to one of them."""
    check = within(3, timeouts=0, entries=0, limit=1_000, **EVENTUAL)
    report = perform(check, entry=entry_of(BeatsOnce))
    assert verdict_of(report, "E2") is Verdict.UNDECIDED
    assert verdict_of(report, "E3") is Verdict.UNDECIDED
    assert "the limit of 1,000 states" in report.findings[-2].why


class DrawsTheSame(ItaiRodeh):
    def draw(self) -> None:
        self.standing = ACTIVE
        self.round += 1
        self.id = self.choose(range(1, 2))
        self.send(Token(self.round, self.id, hops=1, alone=True), to=self.right)


def test_draws_that_are_always_the_same_elect_no_leader() -> None:
    """Of two that draw the same for ever, each counts the rounds of the other."""
    check = within(2, draws=4)
    healthy = perform(check, entry=entry_of(ItaiRodeh))
    assert {each.name: each.verdict for each in healthy.findings} == {
        "E1": Verdict.HOLDS,
        "E2": Verdict.ALMOST_SURELY,
        "E3": Verdict.ALMOST_SURELY,
        "E4": Verdict.HOLDS,
    }
    assert healthy.verdict is Verdict.ALMOST_SURELY
    caught = perform(check, entry=entry_of(DrawsTheSame))
    assert verdict_of(caught, "E2") is Verdict.VIOLATED
    assert "with ever larger numbers" in caught.findings[1].why


def test_too_few_draws_decide_nothing() -> None:
    report = perform(within(3, draws=1), entry=entry_of(DrawsTheSame))
    assert verdict_of(report, "E2") is not Verdict.VIOLATED

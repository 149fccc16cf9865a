"""Locks with one bug each, which torture has to catch: `habemus torture
tests/live/planted.py:ForgetsAll`.

Each is a correct algorithm of the catalog with one method changed.  Each claims what the correct
one claims.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from habemus.algorithms.election.terms import Terms
from habemus.algorithms.mutex.elected_coordinator import (
    ElectedCoordinator,
    ElectedCoordinatorLeased,
)
from habemus.algorithms.mutex.elected_coordinator_members import ElectedCoordinatorLeasedMembers
from habemus.algorithms.mutex.elected_coordinator_participant import RunOut
from habemus.algorithms.mutex.maekawa_sanders import Release
from habemus.algorithms.mutex.quorum_yield import QuorumYield
from habemus.core import System
from habemus.problems.election import Members

LIVE_ELECTION = {"patience": [200_000, 400_000], "period": 50_000}


class ForgetfulTerms(Terms):
    name = "terms-forgetful"

    def on_recover(self) -> None:
        self.term = 0
        self.voted_for = None
        super().on_recover()


class ForgetsAll(ElectedCoordinatorLeased):
    """A node that restarts has forgotten everything: its terms, its votes and what it recorded.

    Assumes  stable memory.
    Ensures  FENCE, ME2.
    """

    name = "planted-forgets-all"

    lease = 400_000
    patience = 100_000
    election_options = LIVE_ELECTION

    def on_recover(self) -> None:
        self.term = self.number = self.reserved = 0
        self.loan = None

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        correct = super().system(size, **options)
        patience, period = (200_000, 400_000), 50_000
        forgetful = ForgetfulTerms(patience=patience, period=period)
        plan = correct.plans[1].replace(election=forgetful)
        return replace(correct, plans=dict.fromkeys(correct.plans, plan))


class EndsLeaseEarly(ElectedCoordinatorLeased):
    """The coordinator takes a lock back after a third of its lease.

    Assumes  stable memory; ME1 holds as long as nobody stands still.
    Ensures  FENCE, ME2.
    """

    name = "planted-ends-lease-early"

    lease = 450_000
    patience = 200_000
    election_options = LIVE_ELECTION

    def outlasting(self) -> int:
        return self.lease // 3


class ReusesBlock(ElectedCoordinatorLeased):
    """A node that restarts takes the loan that it has stored for one that it still has, and counts
    the tokens of the block from the first.

    Assumes  stable memory.
    Ensures  FENCE, ME2.
    """

    name = "planted-reuses-block"

    lease = 400_000
    patience = 200_000
    election_options = LIVE_ELECTION

    def on_recover(self) -> None:
        loan = self.loan
        super().on_recover()
        if loan is not None and loan.borrower == self.me:
            self.number, self.token = loan.number, loan.token
            self.kept = True
            self.set_timer(RunOut(self.number, 0), after=10 * self.lease)


class IgnoresRecall(ElectedCoordinatorLeased):
    """A node keeps a loan that is recalled, and answers that its request is over.

    Assumes  stable memory.
    Ensures  FENCE, ME2.
    """

    name = "planted-ignores-recall"

    patience = 200_000
    election_options = LIVE_ELECTION

    def release(self) -> None:
        self.recalled = False
        super().release()

    def return_unused(self) -> None:
        pass


class ForgetsLoanOnChange(ElectedCoordinatorLeasedMembers):
    """The coordinator forgets that the lock is lent when the members change.

    Assumes  stable memory.
    Ensures  FENCE, ME2.
    """

    name = "planted-forgets-loan-on-change"

    lease = 2_000_000
    patience = 200_000

    def adopt_members(self, members: Members) -> None:
        self.lapsed = self.settled
        super().adopt_members(members)

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        return super().system(size, **{"election_options": LIVE_ELECTION, **options})


class GrantsUnrecorded(ElectedCoordinator):
    """The coordinator grants a lock before any other node has recorded the grant.

    Assumes  stable memory.
    Ensures  ME1, ME2, FENCE.
    """

    name = "planted-grants-unrecorded"

    patience = 200_000
    election_options = LIVE_ELECTION

    def enough(self) -> int:
        return 1

    def have_recorded_by(self, processes: object) -> None:
        pass


class ForgetsVote(QuorumYield):
    """A voter that restarts has forgotten for whom it voted, and does not ask.

    Assumes  reliable links, in any order; stable memory.
    Ensures  ME1, ME2.
    """

    name = "planted-forgets-vote"

    def on_recover(self) -> None:
        self.voted_for = None
        if self.stamp:
            self.tell_voters(Release(self.stamp))

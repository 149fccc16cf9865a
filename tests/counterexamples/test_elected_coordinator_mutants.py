"""Planted bugs, one broken line each, in the elected coordinator: every one must be caught, and the
healthy one pass the same runs.
"""

from dataclasses import replace
from itertools import pairwise

import pytest

from habemus.algorithms.mutex.elected_coordinator import (
    ElectedCoordinator,
    ElectedCoordinatorLeased,
    ElectedCoordinatorPlain,
    ElectedCoordinatorUnrecorded,
    Overdue,
    Remind,
)
from habemus.algorithms.mutex.elected_coordinator_participant import (
    Grant,
    Loan,
    Over,
    Record,
    Repeat,
    Request,
    RunOut,
)
from habemus.algorithms.mutex.ricart_agrawala import WANTED
from habemus.catalog.entries import entry_of
from habemus.core import ProcessId
from habemus.core.properties import Verdict
from habemus.problems.fencing import Token
from habemus.runs.setup import Setup
from habemus.runs.simulate import execute

# Records.


class GrantsBeforeItIsRecorded(ElectedCoordinator):
    def is_recorded(self) -> bool:
        return self.coordinator == self.me and self.lending


class RecordsByAMinority(ElectedCoordinator):
    """Half is not more than half."""

    def is_recorded(self) -> bool:
        return (
            self.coordinator == self.me
            and self.lending
            and len(self.recorders) >= self.majority() - 1
        )


class AsksNobody(ElectedCoordinator):
    """Takes what it has recorded itself for all there is to know."""

    def knows_enough(self) -> bool:
        return self.coordinator == self.me and not self.settled

    def settle(self) -> None:
        super().settle()
        self.prompt = [self.me, *self.peers]


class ForgetsRecords(ElectedCoordinator):
    """What it has recorded is in volatile memory."""

    loan: Loan | None = None


class AcknowledgesWithoutRecording(ElectedCoordinator):
    def record(self, sender: ProcessId, record: Record) -> None:
        before = self.loan
        super().record(sender, record)
        self.loan = before


class TakesTheLockFromTheBorrower(ElectedCoordinator):
    """Knows who has the lock when it takes over, and does not ask whether that is over."""

    def settle(self) -> None:
        super().settle()
        self.lapsed = True


class GoesOnWithoutAnswers(ElectedCoordinatorPlain):
    """Without records a majority knows nothing."""

    def knows_enough(self) -> bool:
        return (
            self.coordinator == self.me
            and not self.settled
            and len(self.answers) >= self.majority()
        )


# Terms.


class LooksAtOldTerms(ElectedCoordinator):
    """Messages carry their term, and nobody looks at it."""

    def is_current(self, term: int) -> bool:
        self.term = max(self.term, term)
        return True


# Tokens.


class CountsTokensAnew(ElectedCoordinator):
    """The token has no term, and each coordinator counts from 1."""

    def next_token(self) -> Token:
        _, count = super().next_token()
        return (0, count)


# Loans that stay.


class UsesItsBlockAfterARestart(ElectedCoordinator):
    """Takes the loan that it has recorded for one that it still has."""

    def on_recover(self) -> None:
        loan = self.loan
        super().on_recover()
        if loan is not None and loan.borrower == self.me:
            self.number, self.token = loan.number, loan.token
            self.kept = True


class IgnoresRecalls(ElectedCoordinator):
    """Goes on with an unused loan, although it says to the coordinator that it is over."""

    def return_unused(self) -> None:
        pass


class TakesTurnsWithoutEnd(ElectedCoordinatorLeased):
    """Serves all the applications that wait at the borrower before it gives the loan back."""

    def may_stay(self) -> bool:
        self.turns_taken = 0
        return super().may_stay()


# Forgetting.


class ForgetsWhatIsLent(ElectedCoordinator):
    """Takes a loan that it has granted for one that is over, as soon as nobody else waits."""

    def can_forget(self) -> bool:
        is_free = self.settled and not self.lending and not self.queue
        is_clean = self.loan is None and not self.ended
        return self.coordinator == self.me and self.term > 0 and is_free and not is_clean


class ForgetsTheLastToken(ElectedCoordinator):
    def forget(self) -> None:
        super().forget()
        self.last = 0


class ForgetsItsNumbers(ElectedCoordinator):
    """What it has reserved is in volatile memory."""

    reserved: int = 0


class SaysTooEarlyThatItIsOver(ElectedCoordinator):
    """Those that have recorded a loan forget it when it is granted."""

    def grant(self) -> None:
        super().grant()
        assert self.loan is not None
        for process in sorted(self.have_records - {self.me}):
            self.send(Over(self.term, self.loan.token), to=process)


# Leases.


class TakesBackTooEarly(ElectedCoordinatorLeased):
    """The coordinator waits for less long than it takes to renew."""

    def outlasting(self) -> int:
        return self.lease // 4


class DoesNotWaitAfterTakingOver(ElectedCoordinatorUnrecorded):
    def take_over(self) -> None:
        super().take_over()
        self.settled = self.lapsed = True


class CountsTheLeaseFromTheGrant(ElectedCoordinatorLeased):
    """A grant is good whenever it comes, however long it was under way."""

    def notice_the_end_of_the_lease(self, run_out: RunOut) -> None:
        if self.state != WANTED:
            super().notice_the_end_of_the_lease(run_out)


class RenewsWithoutRecording(ElectedCoordinatorLeased):
    """A coordinator that has been replaced goes on renewing what it lent."""

    def hear_request(self, sender: ProcessId, request: Request) -> None:
        super().hear_request(sender, request)
        if self.loan is not None and self.borrowing() == (sender, request.number):
            grant = Grant(self.term, request.number, request.attempt, self.loan.token, others=False)
            self.send(grant, to=sender)
            self.set_timer(Overdue(self.term, self.loan.token), after=self.outlasting())


class NeverRunsOut(ElectedCoordinatorLeased):
    """The borrower does not notice that its lease is over."""

    def lose(self) -> None:
        pass


# What keeps the lock going.


class NeverAsksAgain(ElectedCoordinator):
    def ask_again(self, repeat: Repeat) -> None:
        pass


class NeverAsksTheBorrower(ElectedCoordinator):
    def say_again(self, remind: Remind) -> None:
        pass


# The runs.

QUICK = 'election_options={"period": 10000, "patience": [30000, 60000]}'
LEASE = "lease=60ms"


def run(
    *asks: str,
    n: int = 5,
    faults: tuple[tuple[str, str], ...] = (),
    options: tuple[str, ...] = (),
    until: str = "1s",
) -> Setup:
    return Setup("mutant", n, options=(QUICK, *options), asks=asks, faults=faults, until=until)


APART = ("cut", "1,5|2,3,4@25ms")
HEALED = ("heal", "all@200ms")

# 5 is inside, and it and its coordinator are cut off from the others, of which 4 wants in.
SIDES = run("5@10ms+100ms", "4@30ms+20ms", faults=(APART, HEALED))
LONG_SIDES = replace(SIDES, asks=("5@10ms+170ms", "4@30ms+20ms"))
# The same, and those that recorded it restart.
RESTARTS = run(
    "5@10ms+150ms",
    "4@30ms+20ms",
    faults=(
        APART,
        *(
            (kind, f"{who}@{moment}ms")
            for kind, moment in (("crash", 26), ("recover", 28))
            for who in (2, 3, 4)
        ),
        HEALED,
    ),
)
# 5 has not got its grant when the two are cut off; they reach 2 and 3 again, but hear nothing of
# the new coordinator.
LATE = run(
    "5@26ms+150ms",
    "4@30ms+150ms",
    faults=(
        APART,
        *(("heal", f"{one}-{other}@176ms") for one in (1, 5) for other in (2, 3)),
        ("heal", "all@300ms"),
    ),
)
LEASED_SIDES = run("5@10ms+250ms", "4@30ms+100ms", faults=(APART,), options=(LEASE,))
LONG_STAY = run("2@10ms+200ms", "3@20ms+50ms", n=3, options=(LEASE,))
# The grant is under way for longer than the lease, and what 2 says again is lost.
LATE_GRANT = run(
    "2@10ms+20ms",
    "3@20ms+100ms",
    n=3,
    faults=(
        ("slow", "1>2@10500us=120ms"),
        ("cut", "2>1@12ms"),
        ("slow", "1>2@30ms=1ms"),
        ("heal", "all@150ms"),
    ),
    options=(LEASE, 'election_options={"patience": 500000}'),
)
# 2 is inside and can be reached by nobody; its coordinator is dead.
UNREACHABLE = run(
    "2@10ms+200ms",
    "3@30ms+50ms",
    faults=(("cut", "2|1,3,4,5@20ms"), ("crash", "1@22ms")),
    options=(LEASE,),
)
LOST_REQUEST = run("3@18ms", n=3, faults=(("cut", "3>1@15ms"), ("heal", "all@24ms")))
LOST_RELEASE = run("2@10ms+5ms", "3@30ms", n=3, faults=(("cut", "2>1@16ms"), ("heal", "all@24ms")))


# All want the lock all the time: the other two are served 1 + 4 times each in between.
TURNS = Setup("mutant", 3, options=(QUICK,), think="0", requests=30, overtaking=10)


def seeds(setup: Setup, count: int) -> list[Setup]:
    return [replace(setup, seed=seed) for seed in range(count)]


CASES: list[tuple[type[ElectedCoordinator], type[ElectedCoordinator], Setup, str]] = [
    (GrantsBeforeItIsRecorded, ElectedCoordinator, LATE, "ME1"),
    (RecordsByAMinority, ElectedCoordinator, LATE, "ME1"),
    (AsksNobody, ElectedCoordinator, LONG_SIDES, "ME1"),
    (ForgetsRecords, ElectedCoordinator, RESTARTS, "ME1"),
    (AcknowledgesWithoutRecording, ElectedCoordinator, SIDES, "ME1"),
    (TakesTheLockFromTheBorrower, ElectedCoordinator, SIDES, "ME1"),
    (GoesOnWithoutAnswers, ElectedCoordinatorPlain, SIDES, "ME1"),
    (LooksAtOldTerms, ElectedCoordinator, LATE, "ME1"),
    (CountsTokensAnew, ElectedCoordinator, SIDES, "tokens"),
    (ForgetsWhatIsLent, ElectedCoordinator, SIDES, "ME1"),
    (SaysTooEarlyThatItIsOver, ElectedCoordinator, SIDES, "ME1"),
    (TakesBackTooEarly, ElectedCoordinatorLeased, LONG_STAY, "ME1"),
    (DoesNotWaitAfterTakingOver, ElectedCoordinatorUnrecorded, UNREACHABLE, "ME1"),
    (CountsTheLeaseFromTheGrant, ElectedCoordinatorLeased, LATE_GRANT, "ME1"),
    (RenewsWithoutRecording, ElectedCoordinatorLeased, LEASED_SIDES, "ME1"),
    (NeverRunsOut, ElectedCoordinatorLeased, LEASED_SIDES, "ME1"),
    (TakesTurnsWithoutEnd, ElectedCoordinatorLeased, TURNS, "ME4"),
    (NeverAsksAgain, ElectedCoordinator, LOST_REQUEST, "ME2-deadlock"),
    (NeverAsksTheBorrower, ElectedCoordinator, LOST_RELEASE, "ME2-deadlock"),
]


def wrongs(algorithm: type[ElectedCoordinator], setup: Setup) -> set[str]:
    """What is violated; "tokens" if they do not grow from entry to entry."""
    report = execute(setup, entry=entry_of(algorithm))
    assert report.trace is not None
    found = {
        finding.name
        for finding in report.findings
        if finding.verdict is Verdict.VIOLATED and finding.name != "ME3"
    }
    granted = [
        event.fields()["token"]
        for event in report.trace.events
        if event.kind == "indicate" and event.name == "Granted"
    ]
    assert granted or algorithm.__module__ == __name__, "nobody entered"
    return found | (
        {"tokens"} if any(later <= earlier for earlier, later in pairwise(granted)) else set()
    )


@pytest.mark.parametrize(
    ("mutant", "healthy", "setup", "wrong"), CASES, ids=[mutant.__name__ for mutant, *_ in CASES]
)
def test_caught(
    mutant: type[ElectedCoordinator], healthy: type[ElectedCoordinator], setup: Setup, wrong: str
) -> None:
    caught = 0
    for one in seeds(setup, 6):
        assert not wrongs(healthy, one), f"the healthy one: {one.command()}"
        caught += wrong in wrongs(mutant, one)
    assert caught, "in none of six runs"

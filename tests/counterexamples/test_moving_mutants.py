"""Elected coordinators whose applications move, with one broken line each: the search must find it,
and find nothing in the healthy one.

The searches that take longer are made by `make planted` (pytest --times 10).
"""

from typing import Any

import pytest
from tests.counterexamples.searching import Bug, assert_caught, gallery, within

from habemus.algorithms.mutex.elected_coordinator import ElectedCoordinator
from habemus.algorithms.mutex.elected_coordinator_participant import Answer, Grant, Inquire
from habemus.algorithms.mutex.ricart_agrawala import HELD, RELEASED
from habemus.catalog.entries import entry_of
from habemus.core import ProcessId
from habemus.core.properties import Verdict
from habemus.problems.fencing import Token
from habemus.runs.check import Check, perform


class LendsWhatIsOver(ElectedCoordinator):
    """Accepts a claim although the loan is over, and lent to another process."""

    def is_lent(self, token: Token) -> bool:
        return self.loan is not None


class KeepsTheFormerBorrower(ElectedCoordinator):
    """Grants to the process that claims, and still takes the former borrower for the present."""

    def replace_borrower(self, process: ProcessId, number: int) -> None:
        term, count = self.next_token()
        self.last = count
        attempt = self.attempts[process][1]
        self.send(Grant(self.term, number, attempt, (term, count), False), to=process)


class PassesOnTooEarly(ElectedCoordinator):
    """Lets the former borrower out of its loan before a majority has recorded the other one."""

    def replace_borrower(self, process: ProcessId, number: int) -> None:
        super().replace_borrower(process, number)
        self.end_former()


class LendsTheSameTokensAgain(ElectedCoordinator):
    """The tokens of a loan that takes the place of another one do not come behind its block."""

    def next_token(self) -> Token:
        return super().next_token() if self.former is None else self.former.token


class DecidesTooEarly(ElectedCoordinator):
    """Decides on a claim by what it has recorded itself, before it has asked the others."""

    def can_decide(self) -> bool:
        return self.coordinator == self.me and not self.lending and self.claims != []

    def decide(self) -> None:
        self.prompt = [self.me, *self.peers]
        super().decide()


class EntersAgainAfterABreak(ElectedCoordinator):
    """Keeps the loan of an application that has left without a release."""

    def break_off(self, to: ProcessId) -> None:
        if self.state == HELD and not self.moving:
            self.send_application(to)
            self.release()


class EntersAgainAfterAMove(ElectedCoordinator):
    def acquire(self) -> None:
        if self.moving:
            self.moving = False
            self.enter()
        else:
            super().acquire()


class AnswersThatItHasLeft(ElectedCoordinator):
    """Takes an application that goes on elsewhere for one that has left."""

    def answer(self, sender: ProcessId, inquire: Inquire) -> None:
        if self.moving and self.is_from_coordinator(sender, inquire.term):
            self.send(Answer(self.term, self.loan, self.number, self.attempt, RELEASED), to=sender)
        else:
            super().answer(sender, inquire)


class DropsItsRecordAfterAMove(ElectedCoordinator):
    def move(self, to: ProcessId) -> None:
        super().move(to)
        self.drop_own_record()


class AnswersThatItsClaimWaits(ElectedCoordinator):
    """A new coordinator takes its claim for a request that waits for its turn."""

    def answer(self, sender: ProcessId, inquire: Inquire) -> None:
        if self.claimed is not None and self.is_from_coordinator(sender, inquire.term):
            self.send(
                Answer(self.term, self.loan, self.number, self.attempt, self.state), to=sender
            )
        else:
            super().answer(sender, inquire)


def over_election(n: int, leaders: int = 2, **bound: Any) -> Check:
    """Processes whose applications move once, and so many leaders one after the other."""
    timers = (("Doubt", 0), ("Follow", 0), ("Lead", leaders))
    fields: dict[str, Any] = {"abstract": "election", "network": "fifo", "timeouts": leaders}
    fields |= {"timers": timers, "options": ("moves=1",)}
    return within(n, **{**fields, **bound})


def replaced_during_a_move(**bound: Any) -> Check:
    """Process 1 coordinates from the beginning, and another one may be elected once."""
    initial = [f"{process}.{name}=1" for process in (1, 2, 3) for name in ("term", "coordinator")]
    fields: dict[str, Any] = {"asking": (1, 3), "search": "numpy"}
    fields["initial"] = (*initial, "1.settled=true", "1.prompt=[1,2,3]")
    fields["timers"] = (("Doubt", 0), ("Follow", 0), ("Lead", 1), ("Repeat", 0), ("Remind", 0))
    return over_election(3, 1, **{**fields, **bound})


ANNOUNCED: dict[str, Any] = {"options": ("moves=1", "breaks=false")}
ONE_CLAIM: dict[str, Any] = {
    "receipts": (("Answer", 1), ("ClaimLoan", 1), ("ClaimRefused", 0), ("Inquire", 1), ("Over", 0))
}


CRASH = (("crash", 1), ("recover", 1))
BLOCK: dict[str, Any] = {"entries": 2, "options": ("block=2", "moves=1")}
ALONE: dict[str, Any] = {"entries": 2, "asking": (1,)}
QUICK = [
    Bug(LendsWhatIsOver, "ME1", over_election(2, 1), 25, 16_955),
    Bug(EntersAgainAfterAMove, "ME1", over_election(2, 1, **ALONE), 7, 49),
    Bug(EntersAgainAfterABreak, "ME1", over_election(2, 1, **{**BLOCK, **ALONE}), 12, 274),
    # The limit comes before a process that claims crashes, recovers at once and gives back.
    Bug(
        KeepsTheFormerBorrower,
        "ME1",
        over_election(2, 1, faults=CRASH, limit=20_000, **ALONE),
        13,
        2_632,
    ),
]

# Only with --times 10 or more.
LONG = [
    Bug(DropsItsRecordAfterAMove, "ME1", replaced_during_a_move(**ANNOUNCED), 11, None),
    Bug(PassesOnTooEarly, "ME1", replaced_during_a_move(**ANNOUNCED), 16, None),
    Bug(LendsTheSameTokensAgain, "TOKEN", over_election(2, 1, **BLOCK), 18, None),
    Bug(AnswersThatItHasLeft, "ME1", over_election(3, asking=(1, 2)), 14, None),
    Bug(AnswersThatItsClaimWaits, "ME1", over_election(2), 29, None),
]


@pytest.mark.usefixtures("only_the_abstract_election")
@gallery(QUICK, LONG)
def test_found(planted: Bug) -> None:
    assert_caught(planted)


@pytest.mark.usefixtures("only_the_abstract_election")
def test_a_late_claim_of_an_application_taken_for_dead_can_violate_me1() -> None:
    """As docs/lending.md says.  A coordinator that decides too early does so in fewer steps."""
    check = replaced_during_a_move(**ONE_CLAIM)
    healthy = perform(check, entry=entry_of(ElectedCoordinator))
    hasty = perform(check, entry=entry_of(DecidesTooEarly))
    assert {name: told.steps for name, told in healthy.stories.items()} == {"ME1": 19}
    assert {name: told.steps for name, told in hasty.stories.items()} == {"ME1": 18}


def only_leaders(**bound: Any) -> Check:
    """Process 1 wants the lock, and only the election has timers."""
    timers = (("Doubt", 0), ("Follow", 0), ("Lead", 2), ("Remind", 0), ("Repeat", 0))
    return over_election(2, timeouts=None, timers=timers, asking=(1,), **bound)


@pytest.mark.parametrize(
    ("faults", "states"),
    [
        ((("lose", 1),), 33_428),
        pytest.param(CRASH, 84_426, marks=pytest.mark.long_search),
    ],
)
def test_a_stay_that_moves_is_safe_under_faults(
    faults: tuple[tuple[str, int], ...], states: int
) -> None:
    report = perform(only_leaders(faults=faults), entry=entry_of(ElectedCoordinator))
    assert {finding.verdict for finding in report.findings} == {Verdict.HOLDS}
    assert (report.extent.complete, report.extent.states) == (True, states)

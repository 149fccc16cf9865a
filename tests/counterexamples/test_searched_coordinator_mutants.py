"""Elected coordinators with one broken line each, over an abstract election with two leaders: the
search must find it, and find nothing in the healthy one.

The searches that take longer are made by `make planted` (pytest --times 10).
"""

from typing import Any

import pytest
from tests.counterexamples import test_elected_coordinator_mutants as elected
from tests.counterexamples.searching import Bug, assert_caught, gallery, within
from tests.counterexamples.test_token_judges import GivesTheSameTokenTwice

from habemus.algorithms.mutex.elected_coordinator import (
    ElectedCoordinator,
)
from habemus.algorithms.mutex.elected_coordinator_participant import (
    Answer,
    Inquire,
    Record,
    Recorded,
)
from habemus.core import ProcessId
from habemus.runs.check import Check


class CountsTheBorrowerTwice(ElectedCoordinator):
    """A coordinator that lends to itself needs one record too few."""

    def is_recorded(self) -> bool:
        return (
            self.coordinator == self.me
            and self.lending
            and len(self.recorders) + 1 >= self.enough()
        )


class AnswersWithoutItsLoan(ElectedCoordinator):
    """A new coordinator does not hear of the loan that this process has recorded."""

    def answer(self, sender: ProcessId, inquire: Inquire) -> None:
        if self.is_from_coordinator(sender, inquire.term):
            self.send(Answer(self.term, None, self.number, self.attempt, self.state), to=sender)


class RecordsForOldTerms(ElectedCoordinator):
    """Records a loan of a coordinator that has been replaced, after it has told the new one what it
    knows.
    """

    def record(self, sender: ProcessId, record: Record) -> None:
        self.keep_record(record.loan)
        self.send(Recorded(record.term, record.loan.token, record.attempt), to=sender)


class ForgetsTheTerm(ElectedCoordinator):
    """What a process has promised to a coordinator is in volatile memory."""

    term: int = 0


def over_election(leaders: int = 2, **bound: Any) -> Check:
    """Three processes, of which two want the lock, and so many leaders one after the other."""
    timers = (("Doubt", 0), ("Follow", 0), ("Lead", leaders))
    fields: dict[str, Any] = {"abstract": "election", "network": "fifo", "asking": (1, 2)}
    return within(3, **{**fields, "timeouts": leaders, "timers": timers, **bound})


CRASH = (("crash", 1), ("recover", 1))
BLOCK: dict[str, Any] = {"entries": 2, "options": ("block=2",)}
QUICK = [
    Bug(elected.GrantsBeforeItIsRecorded, "ME1", over_election(), 12, 57_293),
    Bug(CountsTheBorrowerTwice, "ME1", over_election(), 12, 57_293),
    Bug(elected.TakesTheLockFromTheBorrower, "ME1", over_election(), 10, 13_535),
    Bug(elected.LooksAtOldTerms, "ME1", over_election(), 10, 18_174),
    Bug(GivesTheSameTokenTwice, "TOKEN", over_election(1), 14, 4_334),
]

# Only with --times 10 or more.
LONG = [
    Bug(elected.RecordsByAMinority, "ME1", over_election(), 12, None),
    Bug(elected.AcknowledgesWithoutRecording, "ME1", over_election(), 16, None),
    Bug(AnswersWithoutItsLoan, "ME1", over_election(), 16, None),
    Bug(RecordsForOldTerms, "ME1", over_election(), 16, None),
    Bug(elected.CountsTokensAnew, "TOKEN", over_election(), 14, None),
    Bug(elected.AsksNobody, "ME1", over_election(asking=(2, 3)), 14, None),
    Bug(elected.GoesOnWithoutAnswers, "ME1", over_election(), 12, None),
    Bug(elected.SaysTooEarlyThatItIsOver, "ME1", over_election(), 17, None),
    Bug(
        elected.UsesItsBlockAfterARestart, "ME1", over_election(1, faults=CRASH, **BLOCK), 18, None
    ),
    Bug(elected.ForgetsRecords, "ME1", over_election(faults=CRASH), 18, None),
    Bug(ForgetsTheTerm, "ME1", over_election(faults=CRASH), 18, None),
]


@pytest.mark.usefixtures("only_the_abstract_election")
@gallery(QUICK, LONG)
def test_found(planted: Bug) -> None:
    assert_caught(planted)

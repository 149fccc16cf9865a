"""Elected coordinators with one broken line each, over an abstract election with two leaders: the
search must find it, and find nothing in the healthy one.

The searches that take longer are made by `make planted` (pytest --times 10).
"""

from dataclasses import replace
from typing import Any

import pytest
from tests.counterexamples import test_elected_coordinator_mutants as elected
from tests.counterexamples.searching import (
    Bug,
    assert_caught,
    gallery,
    verdict_of,
    within,
)
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
from habemus.algorithms.mutex.ricart_agrawala import WANTED
from habemus.catalog.entries import entry_of
from habemus.core import ProcessId
from habemus.core.properties import Verdict
from habemus.problems.fencing import Token
from habemus.runs.check import Check, perform
from habemus.testing.conformance import check_interruptions


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


class CoordinatesByItsOwnMessage(ElectedCoordinator):
    """A message to itself that is late makes a process that has resigned the coordinator again,
    without a take-over.
    """

    def is_from_coordinator(self, sender: ProcessId, term: int) -> bool:
        current = self.is_current(term)
        if current and self.coordinator is None:
            self.coordinator = sender
        return current


class CountsBeyondTheTerm(ElectedCoordinator):
    """Both parts of a token are in one number, and a count that does not fit falls to 0."""

    def is_used_up(self) -> bool:
        return False

    def next_token(self) -> Token:
        term, count = super().next_token()
        return (term, count % (self.largest_count + 1))


def over_election(leaders: int = 2, **bound: Any) -> Check:
    """Three processes, of which two want the lock, and so many leaders one after the other."""
    timers = (("Doubt", 0), ("Follow", 0), ("Lead", leaders))
    fields: dict[str, Any] = {"abstract": "election", "network": "fifo", "asking": (1, 2)}
    return within(3, **{**fields, "timeouts": leaders, "timers": timers, **bound})


CRASH = (("crash", 1), ("recover", 1))
BLOCK: dict[str, Any] = {"entries": 2, "options": ("block=2",)}
QUICK = [
    Bug(elected.GrantsBeforeItIsRecorded, "ME1", over_election(), 12, 57_778),
    Bug(CountsTheBorrowerTwice, "ME1", over_election(), 12, 57_778),
    Bug(elected.TakesTheLockFromTheBorrower, "ME1", over_election(), 10, 13_611),
    Bug(elected.LooksAtOldTerms, "ME1", over_election(), 10, 18_254),
    Bug(GivesTheSameTokenTwice, "TOKEN", over_election(1), 14, 4_594),
    Bug(
        CountsBeyondTheTerm,
        "TOKEN",
        over_election(1, asking=(2,), entries=2, options=("largest_count=1",)),
        12,
        541,
    ),
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


RESIGNS = within(
    2,
    asking=(1,),
    abstract="election",
    network="fifo",
    timers=(("Lead", 1), ("Follow", 0), ("Doubt", 0), ("Repeat", 1), ("Remind", 1)),
    withdrawals=1,
    resignations=1,
)


def test_a_resigned_coordinator_does_not_hear_itself() -> None:
    """1 asks, leads, lends to itself, resigns in its term and withdraws; then the answer to its own
    request arrives.
    """
    report = perform(RESIGNS, entry=entry_of(CoordinatesByItsOwnMessage))
    assert report.violated == ["no exception"]
    assert report.stories["no exception"].steps == 13
    assert "in have_recorded_by: AssertionError" in report.why
    healthy = perform(replace(RESIGNS, every=True), entry=entry_of(ElectedCoordinator))
    assert healthy.violated == [] and healthy.extent.complete
    assert verdict_of(healthy, "ME1") is Verdict.HOLDS


class KeepsWhatWasWithdrawn(ElectedCoordinator):
    """A release before the grant does not end the request, so the lock is granted to a client that
    has gone.
    """

    def release(self) -> None:
        if self.state != WANTED:
            super().release()


def test_conformance_makes_clients_stop_waiting() -> None:
    with pytest.raises(AssertionError, match="an application that had stopped waiting"):
        check_interruptions(entry_of(KeepsWhatWasWithdrawn))


@pytest.mark.usefixtures("only_the_abstract_election")
@gallery(QUICK, LONG)
def test_found(planted: Bug) -> None:
    assert_caught(planted)

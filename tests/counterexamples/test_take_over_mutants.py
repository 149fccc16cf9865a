"""Planted bugs of restarts, take-overs and leases: a sweep with crashes and cuts must see each, and
the seed that sees it is pinned.

A take-over goes wrong only if it meets a holder, so stays must be longer than an election, and some
bugs show only if the old coordinator lives on behind a cut.  What a restart forgets shows only if
others rely on it meanwhile, so it must recover soon, or many must restart at once.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import pytest
from tests.counterexamples import test_elected_coordinator_mutants as elected
from tests.counterexamples.test_elected_coordinator_mutants import (
    AcknowledgesWithoutRecording,
    AsksNobody,
    CountsTokensAnew,
    ForgetsItsNumbers,
    ForgetsTheLastToken,
    ForgetsWhatIsLent,
    GoesOnWithoutAnswers,
    GrantsBeforeItIsRecorded,
    LooksAtOldTerms,
    NeverRunsOut,
    RecordsByAMinority,
    RenewsWithoutRecording,
    SaysTooEarlyThatItIsOver,
    TakesTheLockFromTheBorrower,
)

import habemus.analysis.sweeps.sweep
from habemus.algorithms.election.terms import Terms
from habemus.algorithms.mutex.elected_coordinator import (
    ElectedCoordinator,
    ElectedCoordinatorLeased,
)
from habemus.algorithms.mutex.elected_coordinator_participant import Loan
from habemus.analysis.numbers.ranges import SizeRange
from habemus.analysis.sweeps.seeded_setups import SeededSetups
from habemus.analysis.sweeps.sweep import SeedBatch, Tally, tally_of
from habemus.catalog.entries import Entry, entry_of, find
from habemus.core import ProcessId, System
from habemus.core.system import complete

# Restarts.


class ForgetsItsVote(Terms):
    """The vote is not durable."""

    voted_for: ProcessId | None = None


class ForgetsItsTerm(Terms):
    """Neither the vote nor the term is durable."""

    term: int = 0
    voted_for: ProcessId | None = None


def over(election: Terms, plan: ElectedCoordinator, size: int) -> System:
    everybody = range(1, size + 1)
    return System(
        dict.fromkeys(everybody, plan.replace(election=election)),
        complete(everybody),
        tuple(everybody),
    )


class ForgetsEverything(ElectedCoordinator):
    """A restart leaves nothing, neither of the lock nor of the election."""

    term: int = 0
    loan: Loan | None = None
    reserved: int = 0

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        return over(ForgetsItsTerm(), cls(election=Terms(), **options), size)


# Replacements, of a process whose memory is lost.


class VotesAtOnceWhenReplaced(Terms):
    """It counts as not having voted in the newest term, in which its former life may have."""

    def on_replaced(self, others: Sequence[Self], life: int) -> None:
        super().on_replaced(others, life)
        self.voted_for = None


class NumbersRequestsAnewWhenReplaced(ElectedCoordinator):
    def on_replaced(self, others: Sequence[Self], life: int) -> None:
        super().on_replaced(others, life)
        self.reserved = 0


# Take-overs.


class RemembersOnlyWhatItLent(ElectedCoordinator):
    """Acknowledges without recording, and does not record what it was granted."""

    def keep_record(self, loan: Loan) -> None:
        pass


# Loans that stay.


class RestartsWithItsBlock(elected.UsesItsBlockAfterARestart, ElectedCoordinatorLeased):
    name = ElectedCoordinatorLeased.name


class KeepsWhatIsRecalled(elected.IgnoresRecalls, ElectedCoordinatorLeased):
    name = ElectedCoordinatorLeased.name

    def needs_an_answer(self) -> bool:
        return self.kept or super().needs_an_answer()


# Leases.


class EndsTheLeaseAtAThird(ElectedCoordinatorLeased):
    def outlasting(self) -> int:
        return self.lease // 3


# The sweep.

DRAW = SeededSetups(SizeRange(2, 6), crashes=True)

GALLERY: list[tuple[type[Terms] | type[ElectedCoordinator], int, str]] = [
    (ForgetsItsVote, 17, "E1"),
    (ForgetsEverything, 6, "TOKEN"),
    (AcknowledgesWithoutRecording, 16, "ME1"),
    (RemembersOnlyWhatItLent, 16, "ME1"),
    (AsksNobody, 68, "ME1"),
    (TakesTheLockFromTheBorrower, 16, "ME1"),
    (GrantsBeforeItIsRecorded, 66, "ME1"),
    (RecordsByAMinority, 66, "ME1"),
    (LooksAtOldTerms, 66, "ME1"),
    (GoesOnWithoutAnswers, 26, "TOKEN"),
    (CountsTokensAnew, 2, "TOKEN"),
    (ForgetsWhatIsLent, 1, "ME1"),
    (ForgetsTheLastToken, 0, "TOKEN"),
    (ForgetsItsNumbers, 2, "ME2-deadlock"),
    (SaysTooEarlyThatItIsOver, 16, "ME1"),
    (RestartsWithItsBlock, 0, "TOKEN"),
    (KeepsWhatIsRecalled, 1, "ME2-deadlock"),
    (EndsTheLeaseAtAThird, 2, "ME1"),
    (RenewsWithoutRecording, 2, "ME1"),
    (NeverRunsOut, 24, "ME1"),
    (NumbersRequestsAnewWhenReplaced, 176, "ME2-deadlock"),
]
"""The mutant, the first seed from 0 on that sees it, and what it violates then."""


def swept(
    entry: Entry, seed: int, monkeypatch: pytest.MonkeyPatch, draw: SeededSetups = DRAW
) -> Tally:
    monkeypatch.setattr(habemus.analysis.sweeps.sweep, "find", lambda _: entry)
    return tally_of(SeedBatch(entry.name, draw, seed, 1))


@pytest.mark.parametrize(
    ("mutant", "seed", "broken"), GALLERY, ids=[mutant.__name__ for mutant, *_ in GALLERY]
)
def test_seen(
    mutant: type[Terms] | type[ElectedCoordinator],
    seed: int,
    broken: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    healthy = find(mutant.name)
    assert swept(healthy, seed, monkeypatch).violated == 0
    tally = swept(replace(entry_of(mutant), box=healthy.box), seed, monkeypatch)
    assert tally.violated == 1
    assert broken in tally.failures[0].properties, tally.failures[0].why


def test_a_replaced_process_that_votes_at_once_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two candidates of one term and a voter that is replaced between them are rare: among three
    processes, it is one seed in some thousand.
    """
    three, seed = SeededSetups(SizeRange(3, 3), crashes=True), 2623
    assert any(kind == "replace" for kind, _ in three.setup(find("terms"), seed).faults)
    assert swept(find("terms"), seed, monkeypatch, three).violated == 0
    mutant = replace(entry_of(VotesAtOnceWhenReplaced), box=find("terms").box)
    tally = swept(mutant, seed, monkeypatch, three)
    assert tally.violated == 1
    assert "E1" in tally.failures[0].properties, tally.failures[0].why

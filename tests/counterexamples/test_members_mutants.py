"""Bug bugs in changes of members, one broken line each: the search finds each of them."""

import json
from collections.abc import Iterable
from typing import Any

from tests.counterexamples.searching import Bug, assert_caught, gallery, within

from habemus.algorithms.election.terms import LEADING, Vote
from habemus.algorithms.election.terms_members import Canvass, TermsMembers
from habemus.algorithms.mutex.elected_coordinator import ElectedCoordinator
from habemus.algorithms.mutex.elected_coordinator_members import ElectedCoordinatorMembers
from habemus.core import ProcessId
from habemus.problems.election import Location
from habemus.runs.check import Check

# Elections.


class OldMajoritySuffices(TermsMembers):
    """Counts to the majority of the first members, whatever the members are now."""

    def is_majority(self, processes: Iterable[ProcessId]) -> bool:
        members = self.configuration.members
        return 2 * len([each for each in members if each in processes]) > self.first


class CountsAVoteTwice(TermsMembers):
    """Counts votes instead of voters: a copy of a vote counts again."""

    votes: int = 0

    def stand(self) -> None:
        super().stand()
        self.votes = 1

    def count_vote(self, sender: ProcessId, vote: Vote) -> None:
        super().count_vote(sender, vote)
        self.votes += 1

    def has_majority(self) -> bool:
        return 2 * self.votes > len(self.configuration.members)


class GoesOnWhenRemoved(TermsMembers):
    """A process that was removed stands for election, and counts itself."""

    def is_member(self) -> bool:
        return True

    def is_majority(self, processes: Iterable[ProcessId]) -> bool:
        members = self.configuration.members
        counted = sorted({*members, self.me})
        return 2 * len([each for each in counted if each in processes]) > len(members)


class VotesForAnOlderConfiguration(TermsMembers):
    """Votes for a candidate that has missed a change."""

    def has_newer_than(self, canvass: Canvass) -> bool:
        return False


class VotesWithoutConfiguration(TermsMembers):
    """Votes before it has heard of a configuration: it may have voted, and lost its memory."""

    def is_configured(self) -> bool:
        return True


class RemovesTwoAtOnce(TermsMembers):
    def change(
        self, members: tuple[ProcessId, ...], book: tuple[Location, ...] | None = None
    ) -> None:
        super().change(members[:1], book)


class ChangesBeforeItsTermIsStored(TermsMembers):
    """Changes the members before a majority has stored the present ones in its term."""

    def may_change(self) -> bool:
        return self.stage == LEADING


# Locks.


class RecordsOnlyOnce(ElectedCoordinatorMembers):
    """Lets the members change again, and has the loan recorded by none of the new ones."""

    def can_confirm(self) -> bool:
        return self.is_at_work() and self.confirmed < self.version

    def must_record_again(self) -> bool:
        return False


class CountsProcessesThatAreNoMembers(ElectedCoordinatorMembers):
    """Takes an answer and a record of any process for that of a member."""

    def is_majority(self, processes: Iterable[ProcessId]) -> bool:
        return len(list(processes)) >= self.majority()

    def will_have_recorded(self) -> set[ProcessId]:
        return ElectedCoordinator.will_have_recorded(self)


def election(first: int, changes: int, movable: str) -> tuple[str, ...]:
    return ("prevote=false", f"first={first}", f"changes={changes}", f"movable={movable}")


def bound(n: int, timers: dict[str, int], **others: Any) -> Check:
    """A search that judges T1 (no two leaders in one term), on links that keep the order."""
    found = {"network": "fifo", "entries": 0, "refines": "election", **others}
    return within(n, timers=tuple(sorted({"Beat": 0, **timers}.items())), **found)


def configured(process: ProcessId, term: int, version: int, members: list[ProcessId]) -> str:
    found = {"term": term, "version": version, "members": members, "book": []}
    plain = {"Configuration": found}
    return f"{process}.configuration={json.dumps(plain)}"


RESTART = (("crash", 1), ("recover", 1))

# 1 led term 1 and removed 3 and then 2; 3 has missed both.
TWO_REMOVED = (
    *("1.term=1", "2.term=1", "3.term=1", "1.voted_for=1", "2.voted_for=1", "3.voted_for=1"),
    configured(1, 1, 2, [1]),
    configured(2, 1, 1, [1, 2]),
)

# 1 led term 1 and removed 2, which no other process has heard; 2 has the votes for term 2.
TWO_CHANGES = (
    *("1.term=2", "2.term=2", "3.term=2", "4.term=2"),
    *("2.voted_for=2", "3.voted_for=2", "4.voted_for=2"),
    *('2.stage="STANDING"', "2.supporters=[2,3,4]"),
    configured(1, 1, 1, [1, 3, 4]),
)

# 1 has the vote of 3 for term 1; then 3 has lost its memory, and begins without configuration.  It
# may be removed and added again.
MEMORY_LOST = (
    *("1.term=1", "1.voted_for=1", '1.stage="STANDING"', "1.supporters=[1,3]"),
    configured(3, 0, 0, []),
)

# 1 is the only member, and the lock can be lent; 2 is added, and one of both removed.
LENT = within(
    2,
    options=('election_options={"prevote":false,"first":1,"changes":2,"movable":[1,2]}',),
    network="fifo",
    timers=(("Beat", 0), ("Change", 2), ("Patience", 0), ("Remind", 0), ("Repeat", 0)),
)

GALLERY = [
    Bug(
        OldMajoritySuffices,
        "T1",
        bound(2, {"Patience": 3, "Change": 1}, options=election(1, 1, "[2]"), faults=RESTART),
        11,
        694,
    ),
    Bug(
        CountsAVoteTwice,
        "T1",
        bound(
            4,
            {"Patience": 2},
            options=election(4, 0, "[]"),
            faults=(("copy", 2),),
            receipts=(("Canvass", 2), ("Vote", 4)),
        ),
        8,
        13_599,
    ),
    Bug(
        GoesOnWhenRemoved,
        "T1",
        bound(2, {"Patience": 3, "Change": 1}, options=election(2, 1, "[1]"), faults=RESTART),
        11,
        3_316,
    ),
    Bug(
        VotesForAnOlderConfiguration,
        "T1",
        bound(3, {"Patience": 2}, options=election(3, 0, "[]"), initial=TWO_REMOVED),
        4,
        84,
    ),
    Bug(
        VotesWithoutConfiguration,
        "T1",
        bound(3, {"Patience": 2, "Change": 2}, options=election(3, 2, "[3]"), initial=MEMORY_LOST),
        3,
        67,
    ),
    Bug(
        RemovesTwoAtOnce,
        "T1",
        bound(
            3,
            {"Patience": 3, "Change": 1},
            options=election(3, 1, "[3]"),
            faults=RESTART,
            receipts=(("Canvass", 2), ("Install", 1), ("Installed", 1), ("Vote", 2)),
        ),
        11,
        104_341,
    ),
    Bug(
        ChangesBeforeItsTermIsStored,
        "T1",
        bound(
            4,
            {"Patience": 2, "Change": 1},
            options=election(4, 2, "[1]"),
            initial=TWO_CHANGES,
            network="unordered",
            receipts=(("Canvass", 2), ("Install", 2), ("Installed", 2), ("Vote", 2)),
        ),
        8,
        87_043,
    ),
    Bug(RecordsOnlyOnce, "ME1", LENT, 19, 7_260),
    Bug(CountsProcessesThatAreNoMembers, "ME1", LENT, 19, 8_964),
]


@gallery(GALLERY)
def test_found(planted: Bug) -> None:
    assert_caught(planted)

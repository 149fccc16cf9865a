"""Mutual exclusion by an elected coordinator, among members that change.

As elected-coordinator, over an election whose members are added and removed one at a time.  The
coordinator counts by the members that its election names: a majority of them records each loan, and
a majority of them answers a new coordinator.  Majorities of neighbouring configurations meet, those
of configurations further apart need not.  So before the next change the coordinator has the loan
that may be in use recorded by a majority of the present members, and only then confirms these.

A process that is no member can borrow the lock as any other, but what it records does not count.

Source   Schultz, Dardik, Tripakis: CPP 2022 (MongoRaftReconfig: what was committed is committed by
         the new members before the next change); else as elected-coordinator.
Assumes  stable memory; ME1 needs nothing else.  ME2: an election that settles in the end, a
         majority of the members that is up and connected, and a borrower that leaves.  If the node
         of the last borrower goes down, all wait until it has recovered, or an operator releases
         the lock.
Cost     3*floor(N/2) messages per entry among N members, as elected-coordinator.  A change while
         the lock is lent costs up to 2(N-1) more, apart from the election.
Ensures  ME1, ME2, FENCE, TOKEN; ME1 under any timing, whatever members are added and removed.  No
         ME3.
Differs  The paper has a log; here the newest loan is all that has to be kept.  A coordinator that
         is removed goes on until its election has resigned.
"""

from collections.abc import Iterable
from typing import Any, Self

from habemus.algorithms.election.terms import Terms
from habemus.algorithms.election.terms_members import TermsMembers
from habemus.algorithms.mutex.elected_coordinator import ElectedCoordinator, Remind
from habemus.algorithms.mutex.elected_coordinator_participant import LIFE, Loan, Recorded, Repeat
from habemus.algorithms.mutex.ricart_agrawala import WANTED
from habemus.core import MistakeInPlan, ProcessId, System, upon, whenever
from habemus.core.assumptions import Assumptions, Crashes, Links, Timing
from habemus.core.quorums import more_than_half
from habemus.problems.election import Members


class ElectedCoordinatorMembers(ElectedCoordinator):
    name = "elected-coordinator-members"
    shows = (  # type: ignore[assignment]  # one more than elected-coordinator
        *("term", "coordinator", "state", "queue", "loan", "token"),
        "members",
    )

    elected_by = TermsMembers.name

    members: tuple[ProcessId, ...] = ()  # by which it counts
    version: int = 0  # of the configuration that names them
    confirmed: int = -1  # the newest version that it has confirmed as the coordinator of this term
    repeated: int = -1  # the newest version for which it had the loan recorded again

    # Counting.

    def is_majority(self, processes: Iterable[ProcessId]) -> bool:
        return len([each for each in self.members if each in processes]) >= self.majority()

    def majority(self) -> int:
        return more_than_half(len(self.members))

    def everybody(self) -> list[ProcessId]:
        return list(self.members)

    def knows_enough(self) -> bool:
        return self.coordinator == self.me and not self.settled and self.is_majority(self.answers)

    def will_have_recorded(self) -> set[ProcessId]:
        return super().will_have_recorded() & set(self.members)

    def is_recorded(self) -> bool:
        return self.coordinator == self.me and self.lending and self.has_enough_records()

    def has_enough_records(self) -> bool:
        """Return whether a majority of the members has recorded the loan when the borrower enters
        by it.
        """
        return self.loan is not None and self.is_majority(self.will_have_recorded())

    def count(self, sender: ProcessId, recorded: Recorded) -> None:
        if (
            self.is_for_coordinator(recorded.term)
            and self.loan is not None
            and (recorded.token, recorded.attempt) == (self.loan.token, self.lent_at)
        ):
            self.recorders.add(sender)

    # The members change.

    @upon(Members)
    def adopt_members(self, members: Members) -> None:
        self.is_current(members.term)
        if not self.members:
            self.begin_life(members.version)
        self.version, self.members = members.version, members.members
        if self.coordinator == self.me:
            known = [each for each in self.prompt if each in self.members]
            self.prompt = known + [each for each in self.members if each not in known]
            if self.lending:
                self.have_recorded_by(self.without_record())

    def begin_life(self, version: int) -> None:
        """Use numbers of requests that no earlier process of this name has used: it was removed
        before this version.
        """
        if self.state == WANTED:
            self.cancel_timer(Repeat(self.number))
        self.number = max(self.number, version * LIFE)
        if self.state == WANTED:
            self.begin_request()

    def without_record(self) -> list[ProcessId]:
        return [each for each in self.members if each not in self.recorders and each != self.me]

    def take_over(self) -> None:
        self.confirmed = self.repeated = -1
        self.recorders = {self.me}
        self.lent_at = 0
        super().take_over()

    def is_at_work(self) -> bool:
        """Return whether it coordinates, and no loan is on its way."""
        return self.coordinator == self.me and self.settled and not self.lending

    def must_record_again(self) -> bool:
        """Return whether a loan may be in use that a majority of earlier members has recorded."""
        return (
            self.is_at_work()
            and self.repeated < self.version
            and self.borrowing() is not None
            and not self.has_enough_records()
        )

    @whenever(must_record_again)
    def record_again(self) -> None:
        assert self.loan is not None
        self.repeated = self.version
        self.loan = Loan(self.term, self.loan.token, self.loan.borrower, self.loan.number)
        self.have_recorded_by(self.without_record())
        self.set_timer(Remind(self.term), after=self.patience)

    def say_again(self, remind: Remind) -> None:
        super().say_again(remind)
        if self.is_at_work() and self.borrowing() is not None and not self.has_enough_records():
            self.have_recorded_by(self.without_record())

    def can_confirm(self) -> bool:
        return (
            self.is_at_work()
            and self.confirmed < self.version
            and (self.borrowing() is None or self.has_enough_records())
        )

    @whenever(can_confirm)
    def confirm(self) -> None:
        """Let the election change the members again: no majority of earlier ones is needed."""
        self.confirmed = self.version
        if isinstance(self.election, TermsMembers):
            self.election.confirm(self.version)

    def confirmed_members(self) -> tuple[int, int] | None:
        return (self.term, self.confirmed) if self.coordinator == self.me else None

    def has_terms(self) -> bool:
        return True

    def absorb(self, idle: Self) -> bool:
        same = (self.version, self.members) == (idle.version, idle.members)
        return same and super().absorb(idle)

    # What the catalog needs to know.

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        """Return participants 1 to N, each connected to each; `election_options` say who the first
        members are, and how they change in a run.
        """
        for name, only in (("elected_by", TermsMembers.name), ("recording", "majority")):
            if options.get(name, only) != only:
                raise MistakeInPlan(f"{name}={options[name]}: {cls.name} has {name}={only} only")
        given = options.pop("election_options", {})
        checked = super().system(size, **{**options, "elected_by": Terms.name})
        elections = TermsMembers.system(
            size,
            confirms=True,
            **{
                name: tuple(each) if isinstance(each, list) else each
                for name, each in given.items()
            },
        )
        election = elections.plans[1]
        assert isinstance(election, TermsMembers)
        plan = checked.plans[1].replace(
            elected_by=TermsMembers.name,
            election_options=given,
            election=election,
            members=election.configuration.members,
        )
        return System(dict.fromkeys(checked.plans, plan), checked.topology, checked.clients)


class ElectedCoordinatorLeasedMembers(ElectedCoordinatorMembers):
    """Mutual exclusion by an elected coordinator with leases, among members that change.

    As elected-coordinator-leased, over an election whose members are added and removed one at a
    time, as in elected-coordinator-members.

    Source   Gray, Cheriton: Leases, SOSP 1989; Schultz, Dardik, Tripakis: CPP 2022.
    Assumes  stable memory; FENCE needs nothing else.  ME1 and TOKEN, which are not claimed, also
             hold as long as no process is paused, no clock is slower than another by more than a
             tenth, and no application goes on elsewhere that its process took for dead.  ME2: an
             election that settles in the end, and a majority of the members that is up and
             connected.
    Cost     As elected-coordinator-leased, for N members.  A change while the lock is lent costs up
             to 2(N-1) more, apart from the election.
    Ensures  FENCE, ME2; not ME1, no ME3, and no TOKEN, for the reasons of
             elected-coordinator-leased.
    Differs  A loan whose lease has expired is not recorded again before a change: no process is
             inside by it, and tokens need no record.
    """

    name = "elected-coordinator-leased-members"
    sees_waiters = True
    assumes = Assumptions(
        links=Links.MOSTLY_RELIABLE,
        crashes=Crashes.RECOVER,
        timing=Timing.PARTIALLY_SYNCHRONOUS,
        stable_memory=True,
        always=("FENCE",),
        holds_without_pauses=("ME1", "TOKEN"),
    )

    lease = 100_000
    block = 1_000
    turns = 4

"""Mutual exclusion by a coordinator that is elected, and replaced when it fails.

A coordinator is simple and fast, but a single point of failure, so an election replaces it.  Two
leaders would mean two in the critical section, so leadership has a term, every message carries its
term, and older ones are dropped.  A loan is recorded by a majority before its borrower enters.  The
borrower is one of them, since it records the loan as it enters: so the coordinator has it recorded
by one process fewer, and then sends the grant.  A new coordinator asks a majority, and as two
majorities share a process, it learns the newest loan that any process can still have.  It lends
the lock to no other process before the borrower itself has ended the loan.

A lock that no process has or wants is idle.  Then the coordinator tells the processes that have
recorded its loans that these are over, and all forget them.  What is left is the same for every
idle lock, but for three numbers that only grow: so a node can keep one state for all its idle locks
(`absorb`).

Source   Lecture notes on coordination (the coordinator, and its election); Lamport: The part-time
         parliament, ACM TOCS 16(2), 1998 (what a new leader must learn from a majority); Ongaro,
         Ousterhout: USENIX ATC 2014 (terms).
Assumes  stable memory; ME1 needs nothing else: messages may be lost, copied, late and out of order,
         processes crash, recover and pause.  But an application that goes on at another process
         must not have been taken for dead by its own one (`break_off`).  ME2: an election that
         settles in the end, a majority that is up and connected, and a borrower that leaves.  If
         the node of the last borrower goes down, all wait until it has recovered, or an operator
         releases the lock.
Cost     3*floor(N/2) messages per entry, of the coordinator and of others.  With up to 3 processes
         these are request, grant and release: client delay 2 and synchronisation delay 2.  With
         more both are 4.  Client delay 2 for the coordinator itself.  While others wait, the end of
         a loan is not sent to the processes that have recorded it, which saves up to floor(N/2).  A
         take-over costs 2(N-1), apart from the election.
Ensures  ME1, ME2, FENCE, TOKEN; ME1 under any timing, over an election by terms.  Entry in order of
         arrival (no ME3).
Differs  The notes replace a coordinator without asking what it had granted.  Only a majority
         records: the borrower and the processes that answered last, and all others when these
         are late.  The end of a loan is not recorded by a majority (that would cost as much
         again), so a new coordinator may have to ask a borrower that has long left.  Over elections
         without terms the term is always 0, two coordinators may each have a majority, and nothing
         is forgotten.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Self, TypeAlias

from habemus.algorithms.election.bully import Bully
from habemus.algorithms.election.bully_stable import BullyStable
from habemus.algorithms.election.omega import Omega
from habemus.algorithms.election.omega_recovery import OmegaRecovery
from habemus.algorithms.election.terms import Terms
from habemus.algorithms.mutex.elected_coordinator_participant import (
    Answer,
    ClaimLoan,
    ClaimRefused,
    Grant,
    Inquire,
    Loan,
    Over,
    Participant,
    PassedOn,
    Queued,
    Recall,
    Record,
    Recorded,
    Release,
    Request,
    newer,
)
from habemus.algorithms.mutex.ricart_agrawala import HELD, RELEASED, WANTED
from habemus.core import (
    Const,
    MistakeInPlan,
    ProcessId,
    System,
    Timer,
    Unsynced,
    request,
    upon,
    whenever,
)
from habemus.core.assumptions import Assumptions, Crashes, Links, Timing
from habemus.core.quorums import more_than_half
from habemus.core.system import complete
from habemus.problems.election import Election
from habemus.problems.fencing import LARGEST_COUNT, TermUsedUp, Token
from habemus.problems.mutex import MutexCosts, average

ELECTIONS: dict[str, type[Election]] = {
    each.name: each for each in (Terms, Bully, BullyStable, Omega, OmegaRecovery)
}
RECORDINGS = ("majority", "none")
MOST_TOKENS = 1_000_000
"""Tokens of one loan: a coordinator that lost many of them would run out of numbers."""

NumberedRequest: TypeAlias = tuple[ProcessId, int]
"""A process, and the number of its request."""


class Remind(Timer):
    """Time to repeat what has not been answered."""

    term: int


class Overdue(Timer):
    """The borrower has not renewed its lease."""

    term: int
    token: Token


class WaitedOut(Timer):
    """Any lease of a former coordinator has expired."""

    term: int


class ElectedCoordinator(Participant):
    name = "elected-coordinator"
    shows = ("term", "coordinator", "state", "queue", "loan", "token")
    upkeep = ("Inquire", "Answer")
    duration: ClassVar[int | None] = 60_000_000
    assumes = Assumptions(
        links=Links.MOSTLY_RELIABLE,
        crashes=Crashes.RECOVER,
        timing=Timing.PARTIALLY_SYNCHRONOUS,
        stable_memory=True,
        always=("ME1",),
    )

    elected_by: Const[str] = Terms.name  # which election the catalog puts below
    election_options: Const[dict[str, Any]] = {}  # and with which options
    recording: Const[str] = (
        "majority"  # who records a loan before it is granted: a majority, or "none"
    )

    answers: set[ProcessId] = set()  # processes that have answered the inquiry of this term
    knows_borrower: bool = False  # one of them has the lock in its hands
    settled: bool = False  # this coordinator knows enough to lend
    queue: list[NumberedRequest] = []  # who comes next, in order of arrival
    attempts: dict[
        ProcessId, NumberedRequest
    ] = {}  # of each process, the number and the attempt of its latest request
    ended: dict[ProcessId, int] = {}  # up to which number the requests of a process are over
    lapsed: bool = False  # the borrower has let its lease run out
    lending: bool = False  # the loan is not granted yet, because it is not recorded yet
    lent_at: int = 0  # the attempt that the loan answers
    recorders: set[ProcessId] = set()  # who has recorded it
    knows_of_others: bool = False  # the borrower knows whether others wait
    last: int = 0  # the count of the last token of this term that may have been used
    awaits_term: bool = False  # no block of tokens is left, and a new term was asked for
    prompt: list[ProcessId] = []  # all processes, those that answered last first
    have_records: set[ProcessId] = set()  # others that may have recorded a loan, and not its end
    claims: list[tuple[ProcessId, int, Token]] = []  # requests for what is lent, not decided yet
    former: Loan | None = None  # the loan that a claim replaces, until the new one is granted

    # Taking over: what may the lock's former coordinators have done?

    def take_over(self) -> None:
        self.return_unused()
        self.answers = {self.me}
        self.ended = {self.me: self.number if self.state == RELEASED else self.number - 1}
        self.attempts = {}
        self.queue = []
        self.claims = []
        self.former = None
        self.knows_borrower = self.state == HELD
        self.settled = self.lapsed = self.lending = self.knows_of_others = False
        self.awaits_term = False
        self.last = 0
        self.have_records = set()
        self.broadcast(Inquire(self.term))
        self.set_timer(Remind(self.term), after=self.patience)
        if self.lease and self.recording == "none":
            self.set_timer(WaitedOut(self.term), after=self.outlasting())

    def outlasting(self) -> int:
        """Return a time longer than a lease by a clock that is slower by at most a tenth."""
        return self.lease + self.lease // 10

    @upon(Answer)
    def learn(self, sender: ProcessId, answer: Answer) -> None:
        if not self.is_for_coordinator(answer.term):
            return
        self.answers.add(sender)
        if answer.loan is not None:
            self.have_records.add(sender)
        if not self.settled:
            self.loan = newer(self.loan, answer.loan)
            self.knows_borrower = self.knows_borrower or answer.state == HELD
        if answer.state == RELEASED:
            self.end_requests(sender, answer.number)
        elif answer.state == HELD and not self.lease:
            self.end_requests(sender, answer.number - 1)
        else:
            self.enqueue(sender, answer.number, answer.attempt)

    def knows_enough(self) -> bool:
        """Return whether enough processes have answered. From a majority it learns of every loan
        that was recorded by one.  Without records it needs an answer of all, or of the
        borrower, which is the only one.
        """
        if self.coordinator != self.me or self.settled:
            return False
        if self.recording == "majority":
            return len(self.answers) >= self.majority()
        return self.knows_borrower or len(self.answers) > len(self.peers)

    @whenever(knows_enough)
    def settle(self) -> None:
        self.settled = True
        if self.recording == "majority":
            self.prompt = self.everybody()
            self.put_first(self.answers)
        if self.lease and self.loan is not None:
            self.set_timer(Overdue(self.term, self.loan.token), after=self.outlasting())

    @upon(WaitedOut)
    def settle_without_answers(self, waited: WaitedOut) -> None:
        if self.is_for_coordinator(waited.term) and not self.settled:
            self.settled = self.lapsed = True

    # The processes that want the lock, and those that have had it.

    @upon(Request)
    def hear_request(self, sender: ProcessId, request: Request) -> None:
        if self.is_for_coordinator(request.term):
            self.enqueue(sender, request.number, request.attempt)
            if request.attempt > 1 and (sender, request.number) != self.borrowing():
                self.send(Queued(self.term, request.number, request.attempt), to=sender)

    def enqueue(self, sender: ProcessId, number: int, attempt: int) -> None:
        self.end_requests(sender, number - 1)  # A new request ends the old ones.
        self.attempts[sender] = max((number, attempt), self.attempts.get(sender, (0, 0)))
        if number > self.ended[sender] and (sender, number) not in self.queue:
            self.queue.append((sender, number))

    @upon(Release)
    def vacate(self, sender: ProcessId, release: Release) -> None:
        if self.is_for_coordinator(release.term):
            if (sender, release.number) == self.borrowing():
                self.take_back_unused(release.used)
            self.end_requests(sender, release.number)
            if self.lease and self.loan is not None and self.borrowing() is None:
                self.cancel_timer(Overdue(self.term, self.loan.token))

    def take_back_unused(self, used: int) -> None:
        """Lend the tokens that the borrower has not used to the next one."""
        assert self.loan is not None
        term, count = self.loan.token
        if term == self.term:
            self.last = count + max(1, used) - 1

    def end_requests(self, sender: ProcessId, last: int) -> None:
        self.ended[sender] = max(last, self.ended.get(sender, 0))
        self.queue = [
            (process, number)
            for process, number in self.queue
            if process != sender or number > last
        ]

    @upon(Overdue)
    def take_back(self, overdue: Overdue) -> None:
        if (
            self.is_for_coordinator(overdue.term)
            and self.loan is not None
            and overdue.token == self.loan.token
        ):
            self.lapsed = True

    @request
    def reclaim(self) -> None:
        """Take the lock back: an operator vouches that its holder will not use it any more. Only
        the coordinator acts on it, and a process whose loan is unused.
        """
        self.return_unused()
        if (
            self.coordinator == self.me
            and self.settled
            and not self.lending
            and self.loan is not None
        ):
            self.send_recall()
            self.end_requests(self.loan.borrower, self.loan.number)

    def borrowing(self) -> NumberedRequest | None:
        """Return the request of the process that has the lock, or may have it."""
        if (
            self.loan is None
            or self.lapsed
            or self.loan.number <= self.ended.get(self.loan.borrower, 0)
        ):
            return None
        return self.loan.borrower, self.loan.number

    # Lending.

    def can_lend(self) -> bool:
        """Return whether the coordinator can lend: to the next if the lock is free; else only to
        the borrower that asks again, or renews its lease.
        """
        if self.coordinator != self.me or not self.settled or self.lending or not self.queue:
            return False
        borrowing = self.borrowing()
        return not self.is_used_up() if borrowing is None else borrowing in self.queue

    @whenever(can_lend)
    def lend(self) -> None:
        borrowing = self.borrowing()
        process, number = borrowing or self.queue[0]
        if borrowing and self.loan is not None:
            token = self.loan.token
        else:
            token = self.next_token()
            self.last = token[1] + self.block - 1
        self.queue.remove((process, number))
        self.loan = Loan(self.term, token, process, number)
        self.lent_at = self.attempts[process][1]
        self.lapsed = False
        self.lending = True
        self.recorders = {self.me}
        self.set_timer(Remind(self.term), after=self.patience)
        if self.recording == "majority":
            counted = self.will_have_recorded()
            others = sorted(self.prompt, key=lambda other: other != process)
            missing = self.majority() - len(counted)
            asked = [other for other in others if other not in counted][:missing]
            # They are asked again only when they have answered, or all others have been asked.
            self.prompt = [each for each in self.prompt if each not in asked] + asked
            self.have_recorded_by(asked)

    # Lending to another process what an application took along.

    @upon(ClaimLoan)
    def hear_claim(self, sender: ProcessId, claim: ClaimLoan) -> None:
        if self.is_for_coordinator(claim.term):
            self.end_requests(sender, claim.number - 1)
            latest = (claim.number, claim.attempt)
            self.attempts[sender] = max(latest, self.attempts.get(sender, (0, 0)))
            self.claims = [each for each in self.claims if each[0] != sender]
            self.claims.append((sender, claim.number, claim.token))

    def can_decide(self) -> bool:
        """Return whether the coordinator knows what is lent, and a process claims it."""
        return (
            self.coordinator == self.me
            and self.settled
            and not self.lending
            and self.claims != []
            and not self.is_used_up()
        )

    @whenever(can_decide)
    def decide(self) -> None:
        process, number, token = self.claims.pop(0)
        if (process, number) == self.borrowing():
            self.queue.append((process, number))  # accepted before, and asked for again
        elif number > self.ended.get(process, 0) and self.is_lent(token):
            self.replace_borrower(process, number)
        else:
            self.end_requests(process, number)
            self.send(ClaimRefused(self.term, number), to=process)

    def is_lent(self, token: Token) -> bool:
        """Return whether an application may be inside by this token."""
        if self.borrowing() is None or self.loan is None or self.recording == "none":
            return False
        term, first = self.loan.token
        return token[0] == term and first <= token[1] < first + self.block

    def replace_borrower(self, process: ProcessId, number: int) -> None:
        """Lend to another process in the place of the borrower."""
        assert self.loan is not None
        self.former = self.loan
        if self.lease:
            self.cancel_timer(Overdue(self.term, self.former.token))
        self.end_requests(self.former.borrower, self.former.number)
        self.queue.insert(0, (process, number))
        self.lend()

    def end_former(self) -> None:
        """Let the former borrower out of its loan.  Every later coordinator learns of the loan that
        took its place, since a majority has recorded that one.
        """
        former, self.former = self.former, None
        if former is not None and former.borrower != self.me:
            self.send(PassedOn(self.term, former.number), to=former.borrower)
        elif former is not None and former.number == self.number:
            self.pass_on()

    def next_token(self) -> Token:
        """Return a token larger than any before it: by term, and counted within a term."""
        if self.loan is not None and self.loan.token > (self.term, self.last):
            # lent by another coordinator of this term: the election has no terms
            return (self.term, self.loan.token[1] + self.block)
        return (self.term, self.last + 1)

    def is_used_up(self) -> bool:
        """Return whether the next block of tokens would go beyond the last token of this term."""
        return self.next_token()[1] + self.block - 1 > self.largest_count

    def needs_term(self) -> bool:
        """Return whether a process waits for a token, and none is left in this term."""
        return (
            self.coordinator == self.me
            and self.settled
            and not (self.lending or self.awaits_term)
            and (self.claims != [] or (self.queue != [] and self.borrowing() is None))
            and self.is_used_up()
        )

    @whenever(needs_term)
    def ask_for_term(self) -> None:
        """Have the election begin a new term, in which tokens are counted anew."""
        self.awaits_term = True
        self.set_timer(Remind(self.term), after=self.patience)
        self.election.begin_term(self.term)
        self.indicate(TermUsedUp(self.term))

    def have_recorded_by(self, processes: Sequence[ProcessId]) -> None:
        assert self.loan is not None
        self.have_records.update(processes)
        for process in processes:
            self.send(Record(self.term, self.loan, self.lent_at), to=process)

    @upon(Recorded)
    def count(self, sender: ProcessId, recorded: Recorded) -> None:
        if not self.is_for_coordinator(recorded.term) or not self.lending or self.loan is None:
            return
        if (recorded.token, recorded.attempt) == (self.loan.token, self.lent_at):
            self.recorders.add(sender)

    def will_have_recorded(self) -> set[ProcessId]:
        """Return the processes that have recorded the loan once its borrower enters.  The borrower
        of a claimed loan counts only when its `Recorded` has arrived.
        """
        if self.former is not None or self.loan is None:
            return self.recorders
        return self.recorders | {self.loan.borrower}

    def is_recorded(self) -> bool:
        """Return whether a majority has recorded the loan once its borrower enters."""
        if self.coordinator != self.me or not self.lending:
            return False
        return len(self.will_have_recorded()) >= self.enough()

    @whenever(is_recorded)
    def grant(self) -> None:
        assert self.loan is not None
        self.lending = self.lapsed = False
        self.put_first(self.recorders)
        others = self.knows_of_others = self.do_others_wait()
        if others:
            self.have_records.add(self.loan.borrower)
        self.send(
            Grant(self.term, self.loan.number, self.lent_at, self.loan.token, others),
            to=self.loan.borrower,
        )
        if self.lease:
            self.set_timer(Overdue(self.term, self.loan.token), after=self.outlasting())
        self.end_former()

    # Recalling.

    def do_others_wait(self) -> bool:
        """Return whether others wait.  A loan that is not kept goes back anyway."""
        if self.loan is None or not (self.block > 1 or self.sees_waiters):
            return False
        return any(process != self.loan.borrower for process, _ in self.queue)

    def should_recall(self) -> bool:
        """Return whether others have begun to wait since the loan was granted."""
        return (
            self.coordinator == self.me
            and self.settled
            and not self.lending
            and not self.knows_of_others
            and self.queue != []
            and self.borrowing() is not None
            and self.do_others_wait()
        )

    @whenever(should_recall)
    def recall(self) -> None:
        self.knows_of_others = True
        self.send_recall()

    def send_recall(self) -> None:
        assert self.loan is not None
        self.have_records.add(self.loan.borrower)
        self.send(Recall(self.term, self.loan.number), to=self.loan.borrower)

    # Forgetting.

    def can_forget(self) -> bool:
        """Return whether no process has the lock or waits for it, and there is something to forget.
        Without terms a later coordinator must know the last token.
        """
        return (
            self.coordinator == self.me
            and self.settled
            and not self.lending
            and not self.queue
            and self.borrowing() is None
            and (self.loan is not None or bool(self.ended))
            and self.term > 0
        )

    @whenever(can_forget)
    def forget(self) -> None:
        """Forget all but the term and the last token."""
        for process in sorted(self.have_records - {self.me}):
            self.send(Over(self.term, (self.term, self.last)), to=process)
        self.cancel_timer(Remind(self.term))
        if self.lease and self.recording == "none":
            self.cancel_timer(WaitedOut(self.term))
        if self.lease and self.loan is not None:
            self.cancel_timer(Overdue(self.term, self.loan.token))
        self.loan = None
        self.ended, self.attempts = {}, {}
        self.answers, self.recorders, self.have_records = set(), set(), set()
        self.knows_borrower = self.knows_of_others = self.lapsed = self.awaits_term = False
        self.lent_at = 0

    def is_at_rest(self) -> bool:
        """Return whether nothing is known of this lock that is not true of every idle one."""
        if self.state != RELEASED or self.kept or self.loan is not None:
            return False
        return self.coordinator != self.me or (self.settled and not self.ended)

    def on_woken(self) -> None:
        if self.coordinator == self.me and not self.settled:
            self.say_again(Remind(self.term))  # the answers to the others do not count for it

    def absorb(self, idle: Self) -> bool:
        """Each number only grows, as it would by requests and loans that have come and gone."""
        if not (self.is_at_rest() and idle.is_at_rest()) or (self.term, self.coordinator) != (
            idle.term,
            idle.coordinator,
        ):
            return False
        self.number = max(self.number, idle.number)
        self.reserved = max(self.reserved, idle.reserved)
        self.last = max(self.last, idle.last)
        self.prompt = idle.prompt
        return True

    # What every coordinator has to see to.

    def enough(self) -> int:
        """Return the number of processes that must have recorded a loan."""
        return self.majority() if self.recording == "majority" else 1

    def everybody(self) -> list[ProcessId]:
        return sorted((self.me, *self.peers))

    def put_first(self, answered: set[ProcessId]) -> None:
        """Note which processes answered last; the others keep their order.  A loan that no other
        process had to record says nothing about them.
        """
        self.prompt = sorted(self.prompt, key=lambda each: each not in answered)

    def majority(self) -> int:
        return more_than_half(len(self.peers) + 1)

    def is_for_coordinator(self, term: int) -> bool:
        return self.is_current(term) and self.coordinator == self.me

    @upon(Remind)
    def say_again(self, remind: Remind) -> None:
        """Ask the processes that have not answered yet, if their answers are needed, and the
        borrower, whose release may have been lost.  Recall the loan again.
        """
        if not self.is_for_coordinator(remind.term):
            return
        self.knows_of_others = self.awaits_term = False
        self.set_timer(remind, after=self.patience)
        borrowing = self.borrowing()
        for peer in self.peers:
            is_borrower = borrowing is not None and peer == borrowing[0]
            if is_borrower or not (self.settled or peer in self.answers):
                self.send(Inquire(self.term), to=peer)
        if self.lending and self.recording == "majority":
            self.have_recorded_by([peer for peer in self.peers if peer not in self.recorders])

    def unsynced(self) -> Unsynced:
        """Return the record of a loan: it is of no use when the lease has run out.  Tokens that
        begin with a term need no record.
        """
        if self.lease and self.has_terms():
            return Unsynced(("loan",), self.outlasting())
        return Unsynced()

    def has_terms(self) -> bool:
        return self.elected_by == Terms.name

    # What the catalog needs to know.

    def awaits(self) -> Sequence[ProcessId]:
        if self.coordinator != self.me:
            return (
                [self.coordinator] if self.state == WANTED and self.coordinator is not None else []
            )
        if not self.settled:
            return [peer for peer in self.peers if peer not in self.answers]
        if self.lending:
            return [peer for peer in self.peers if peer not in self.recorders]
        borrowing = self.borrowing()
        return [borrowing[0]] if borrowing is not None and borrowing[0] != self.me else []

    def costs(self, size: int) -> MutexCosts:
        """Return the costs when all enter in turn, and the lock is idle in between: one of them is
        the coordinator, and what it tells itself is no message.
        """
        if self.block > 1:
            return MutexCosts()  # it depends on how many entries a loan serves
        if self.recording == "none" or size == 1:
            return MutexCosts(messages=average(3 * (size - 1), size))
        # Each of the others that record the loan gets two messages and sends one.  If one of them
        # is the borrower, these are the grant, the request and the release.
        return MutexCosts(messages=3 * (size // 2))

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        """Return participants 1 to N, each connected to each, with an election of the kind that
        `elected_by` names.
        """
        variables = cls.__variables__
        elected_by, recording, lease, block, turns, largest = (
            options.get(name, variables[name].default)
            for name in ("elected_by", "recording", "lease", "block", "turns", "largest_count")
        )
        if elected_by not in ELECTIONS:
            raise MistakeInPlan(
                f"there is no election {elected_by} for a coordinator; there are"
                f" {', '.join(sorted(ELECTIONS))}"
            )
        if recording not in RECORDINGS:
            raise MistakeInPlan(f"a loan is recorded by a majority or by none, not by {recording}")
        if not (isinstance(block, int) and 1 <= block <= MOST_TOKENS):
            raise MistakeInPlan(f"a loan has 1 to {MOST_TOKENS} tokens, not {block}")
        if not (isinstance(largest, int) and block <= largest <= LARGEST_COUNT):
            raise MistakeInPlan(
                f"a term has from one block of tokens, here {block}, to {LARGEST_COUNT} tokens, not"
                f" {largest}"
            )
        if not (isinstance(turns, int) and 0 <= turns < MOST_TOKENS):
            raise MistakeInPlan(f"a recalled loan serves 0 to {MOST_TOKENS - 1} turns, not {turns}")
        if not (isinstance(lease, int) and (lease == 0 or lease >= 100)):
            raise MistakeInPlan(
                f"a lease is 0 (for none) or at least 100 microseconds, not {lease}"
            )
        spans = {
            name: tuple(each) if isinstance(each, list) else each
            for name, each in options.get("election_options", {}).items()
        }
        election = ELECTIONS[elected_by].system(size, **spans).plans[1]
        assert isinstance(election, Election)
        plan = cls(election=election, **options)
        everybody = range(1, size + 1)
        return System(dict.fromkeys(everybody, plan), complete(everybody), tuple(everybody))


# The other combinations, each with a card of its own.


class ElectedCoordinatorLeased(ElectedCoordinator):
    """Mutual exclusion by an elected coordinator, with grants that are recorded and run out.

    As elected-coordinator, but a grant is a lease, which its borrower renews while it is inside. If
    the borrower's node goes down, the lock moves on when the lease has run out.  A borrower that is
    paused for longer than that believes itself inside when another one is: then the token decides
    at the resource.

    The loan stays with a process that has left, together with a block of tokens, so that it enters
    again without asking.  It goes back when others wait, when the block is used up, or when it is
    unused at the time of its renewal.  A recalled loan first serves a few applications that wait at
    the same process.

    An application that is inside can go on at another process within its lease, when its own one
    shuts down or crashes: that process claims the loan, and the coordinator lends to it in the
    place of the borrower, before all that wait.

    Source   Gray, Cheriton: Leases, SOSP 1989; Burrows: The Chubby lock service, OSDI 2006
             (sequencers, here fencing tokens).
    Assumes  stable memory; FENCE needs nothing else.  ME1 and TOKEN, which are not claimed, also
             hold as long as no process is paused, no clock is slower than another by more than a
             tenth, and no application goes on elsewhere that its process took for dead.  ME2: an
             election that settles in the end, and a majority that is up and connected.
    Cost     3*floor(N/2) messages per loan, as without a lease, and 2*floor(N/2) for each renewal,
             every third of a lease.  None, and no visit to stable memory, for an entry by a loan
             that has stayed.  A recall costs 1, and none if others waited already when the loan was
             granted.  After a recall the coordinator also sends the end of the loan, later.  A
             claim costs a loan and up to 3 more.
    Ensures  FENCE, ME2; not ME1 (split-brain-fenced), no ME3, and no TOKEN: a process that enters
             by a loan that has stayed, and does not know that its lease has run out, shows a
             smaller token than the next borrower.  Once a recall has arrived, at most `turns` local
             entries come before the next borrower; until then at most a block of them.  A claim is
             granted if the loan is not over, and refused otherwise; the stay goes on with its
             token.
    Differs  A renewal is recorded like a grant, so a coordinator that has been replaced cannot
             renew.  A crash of the machine may lose the record of a loan, if the process then stays
             down for a lease and a tenth (`unsynced`).  The papers have sessions at one master;
             here the borrower is a process, and a stay that moves changes the borrower.
    """

    name = "elected-coordinator-leased"
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


class ElectedCoordinatorPlain(ElectedCoordinator):
    """Mutual exclusion by an elected coordinator, with grants that are neither recorded nor run
    out.

    Only the coordinator and the borrower know of a grant.  So a new coordinator asks every process,
    and goes on when the borrower has answered that it is inside, or all that they are not.

    Source   Lecture notes on coordination (the coordinator, and its election).
    Assumes  stable memory; ME1 needs nothing else.  ME2: an election that settles in the end, and
             that all are up when the coordinator is replaced: one node that stays down then
             blocks the lock.
    Cost     3 messages per entry of a process that is not the coordinator, none of the coordinator
             itself; client delay 2 and synchronisation delay 2.  A take-over costs 2(N-1), apart
             from the election.
    Ensures  ME1, ME2, FENCE, TOKEN; ME1 under any timing, over an election by terms.  No ME3.
    Differs  The notes let the new coordinator go on at once, which lets a second one in.
    """

    name = "elected-coordinator-plain"

    recording = "none"


class ElectedCoordinatorUnrecorded(ElectedCoordinator):
    """Mutual exclusion by an elected coordinator, with leases that are not recorded.

    A new coordinator cannot know who has the lock.  It asks all others, and waits until the
    borrower has answered, or all have, or the longest lease there can be has run out.

    Source   Gray, Cheriton: Leases, SOSP 1989; lecture notes on coordination (the coordinator, and
             its election).
    Assumes  stable memory; FENCE needs nothing else.  ME1, which is not claimed, needs more than a
             bound on clocks: a coordinator that has been replaced and does not know it goes on
             lending to those that it still reaches.  ME2: an election that settles in the end.
    Cost     3 messages per entry of a process that is not the coordinator, none of the coordinator
             itself; client delay 2 and synchronisation delay 2; 2 messages for each renewal.  After
             a take-over up to 1.1 leases of waiting.
    Ensures  FENCE, ME2; not ME1 (split-brain-unrecorded), no ME3, and no TOKEN: a coordinator that
             has been replaced and does not know it still grants, with older tokens than the new
             one.
    Differs  The notes let the new coordinator go on at once.
    """

    name = "elected-coordinator-unrecorded"
    assumes = Assumptions(
        links=Links.MOSTLY_RELIABLE,
        crashes=Crashes.RECOVER,
        timing=Timing.PARTIALLY_SYNCHRONOUS,
        stable_memory=True,
        always=("FENCE",),
    )

    recording = "none"
    lease = 100_000


class ElectedCoordinatorBully(ElectedCoordinatorUnrecorded):
    """Mutual exclusion by a coordinator that the bully algorithm elects.

    The bully elects a leader on each side of a cut, and its leaders have no terms by which one
    could tell the older.  So there are two coordinators, two in the critical section, and two
    grants with the same token.

    Source   Lecture notes on coordination (the coordinator, and the bully).
    Assumes  what the bully assumes: a synchronous system in which no link is ever cut.
    Cost     3 messages per entry of a process that is not the coordinator, none of the coordinator
             itself.
    Ensures  ME2; neither ME1 nor FENCE once there are two leaders, no ME3.
    Differs  A process that gets no answer to a repeated request calls an election.
    Unsafe   split-brain-two-in
    """

    name = "elected-coordinator-bully"
    assumes = Assumptions(
        links=Links.MOSTLY_RELIABLE, timing=Timing.SYNCHRONOUS, stable_memory=True
    )

    elected_by = Bully.name

"""The participant of elected-coordinator: what every process does, whichever one coordinates.

The coordinator lends the lock: each loan has a token and names the process that has the lock by
that token.  Every message carries the term of its sender.  A process drops messages of terms older
than the newest it has seen, and it stores that term: an answer to the coordinator of a term is a
promise to ignore all earlier ones.

A loan comes with a block of tokens.  When the process leaves, the loan may stay: then its
application enters again by the next token of the block, and no message is sent.  The coordinator
recalls a loan for which others wait, and it goes back as soon as it is not in use.  If applications
wait at the borrower too, it first serves a few of them (`turns`), which saves as many hand-overs
between processes.  A loan that is unused when its renewal is due, or when the coordinator inquires,
goes back as well.  Tokens of a block are counted in volatile memory: a process that recovers has no
loan, and the coordinator lends no token of a block of which it has not heard how much was used.

A record of a loan that is over is of no use.  A borrower drops its own when it gives the loan
back, unless others wait: they would wait for its visit to stable memory.  The others drop theirs
when the coordinator says that the loan is over.

A process that waits repeats its request periodically.  A process that holds the lock by a lease
does the same, and the answer renews the lease.  Repetitions are numbered, and a lease counts from
the moment at which the request was sent that the grant answers.  So it expires for the process
before it expires for the coordinator, which began to count later, however long messages take: as
long as clocks run equally fast and no process pauses.

An application that is inside may go on at another process, which claims the loan: its request takes
the place of the loan that has the application's token.  The former borrower keeps its record and
lets no other application in by that loan, until a majority has recorded the loan that took its
place, or its lease has run out.  A claim is no request that waits: if the loan is over it is
refused.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Self

from habemus.algorithms.mutex.ricart_agrawala import HELD, RELEASED, WANTED, Standing
from habemus.core import Const, Durable, Message, ProcessId, Timer, Uses, Value, request, upon
from habemus.problems.election import Election, Leader
from habemus.problems.fencing import (
    LARGEST_COUNT,
    GrantedWithToken,
    LockLostWithToken,
    ResumedWithToken,
    TermUsedUp,
    Token,
)
from habemus.problems.mutex import Mutex


class Loan(Value):
    """The lock lent to one process.  The newer of two loans has the later term, then the larger
    token.
    """

    term: int  # in which it was recorded; a later coordinator may record it anew
    token: Token  # the first of its block
    borrower: ProcessId
    number: int  # of the request that it answers


class Request(Message):
    term: int
    number: int  # of the request, counted by the process that asks
    attempt: int  # how often that process has asked


class Queued(Message):
    """The request waits behind another.  Answers repeated requests only."""

    term: int
    number: int
    attempt: int


class Grant(Message):
    term: int
    number: int
    attempt: int
    token: Token
    others: bool  # other processes wait


class Recall(Message):
    """Others have begun to wait for what the receiver has borrowed."""

    term: int
    number: int


class Release(Message):
    term: int
    number: int  # this request is over, and so are all earlier ones
    used: int  # how many tokens of its block may have been used


class Over(Message):
    """All loans up to this token are over."""

    term: int
    token: Token


class Inquire(Message):
    """A new coordinator asks for the loan a process has recorded, and for its request."""

    term: int


class Answer(Message):
    term: int
    loan: Loan | None  # the newest that it has recorded or holds
    number: int
    attempt: int
    state: Standing


class Record(Message):
    term: int
    loan: Loan
    attempt: int


class Recorded(Message):
    term: int
    token: Token
    attempt: int


class Arrive(Message):
    """The application of the sender goes on at the receiver."""

    token: Token  # of the loan by which it is inside
    shown: Token  # that it shows to the resource


class ClaimLoan(Message):
    """A request in the place of the loan that has this token, and for nothing else."""

    term: int
    number: int
    attempt: int
    token: Token


class ClaimRefused(Message):
    """The loan that this request claims is over."""

    term: int
    number: int


class PassedOn(Message):
    """A majority has recorded the loan that took the place of the receiver's one."""

    term: int
    number: int  # of the receiver's request


class Repeat(Timer):
    number: int


class RunOut(Timer):
    """The lease that a grant of this attempt gives has run out."""

    number: int
    attempt: int


def newer(one: Loan | None, other: Loan | None) -> Loan | None:
    if one is None or other is None:
        return one or other
    return max(one, other)


LIFE = 1 << 40
"""More requests than a process makes before it loses its memory."""


class Participant(Mutex):
    indications = (GrantedWithToken, LockLostWithToken, ResumedWithToken, TermUsedUp)
    withdraws = True
    can_move = True

    election: Uses[Election]
    lease: Const[int] = 0  # how long a grant is good for; 0: until the release
    patience: Const[int] = 50_000  # how long to wait before saying something again
    ahead: Const[int] = (
        0  # how many numbers of requests are set aside by one visit to stable memory
    )
    block: Const[int] = 1  # how many tokens a loan has, and so how many entries
    largest_count: Const[int] = LARGEST_COUNT  # of the tokens of one term
    turns: Const[int] = 0  # how many more entries a loan serves after a recall
    moves: Const[int] = 0  # how often an application moves, in runs and searches
    breaks: Const[bool] = True  # in searches, whether it may leave without a word as well

    term: Durable[int] = 0  # the newest heard of
    coordinator: ProcessId | None = None  # of that term, if this process has heard who it is
    loan: Durable[Loan | None] = None  # the newest recorded here

    state: Standing = RELEASED
    kept: bool = False  # released, but the loan is still here
    recalled: bool = False  # others wait for the loan
    lined_up: bool = False  # another application waits here for the one inside to leave
    turns_taken: int = 0  # entries that the loan has served since the recall
    number: int = 0  # of its latest request
    reserved: Durable[int] = 0  # no number above this one has been used
    attempt: int = 0  # how often it has asked
    answered: int = 0  # the latest attempt that was answered
    granted_at: int = 0  # the attempt that the latest grant answers
    run_out_at: int = 0  # the latest attempt from which on a lease would have run out by now
    token: Token = (0, 0)  # the first of its loan
    used: int = 0  # how many tokens of the loan it has used
    moving: bool = False  # the application has left for another process, which may claim the loan
    passed: bool = False  # its loan was replaced, and the application has not left yet
    postponed: bool = False  # a request that waits until an application that moves has left
    claimed: Token | None = None  # its request claims the loan with this token
    shown: Token | None = None  # the token that the application brought along

    def on_start(self) -> None:
        if self.me == min((self.me, *self.peers)):
            # one process calls the first election: concurrent calls would compete
            self.election.elect()

    def on_recover(self) -> None:
        """Drop the request and the lock of the earlier life; the coordinator will inquire."""
        self.number = self.reserved
        self.drop_own_record()

    def on_replaced(self, others: Sequence[Self], life: int) -> None:
        """Adopt the newest term and loan of the others.  Requests get numbers that the lost memory
        cannot have used.
        """
        self.term = max(other.term for other in others)
        for other in others:
            self.loan = newer(self.loan, other.loan)
        self.reserved = life * LIFE

    # Asking.

    def acquire(self) -> None:
        if self.kept:
            self.enter()
        elif self.moving or self.shown is not None:
            self.postponed = True
        else:
            self.begin_request()

    def begin_request(self) -> None:
        self.state = WANTED
        self.recalled = False
        self.number += 1
        if self.number > self.reserved:
            self.reserved = self.number + self.ahead
        self.attempt = self.answered = self.granted_at = self.run_out_at = 0
        self.ask()

    def ask(self) -> None:
        self.begin_attempt()
        if self.coordinator is not None:
            self.send_request(to=self.coordinator)

    def send_request(self, to: ProcessId) -> None:
        if self.claimed is None:
            self.send(Request(self.term, self.number, self.attempt), to=to)
        else:
            self.send(ClaimLoan(self.term, self.number, self.attempt, self.claimed), to=to)

    def begin_attempt(self) -> None:
        self.attempt += 1
        self.set_timer(Repeat(self.number), after=self.lease // 3 or self.patience)
        if self.lease:
            self.set_timer(RunOut(self.number, self.attempt), after=self.lease)

    def needs_an_answer(self) -> bool:
        """Return whether the process waits, or has a lease to renew."""
        return self.state == WANTED or (self.state == HELD and self.lease > 0 and not self.moving)

    @upon(Repeat)
    def ask_again(self, repeat: Repeat) -> None:
        if repeat.number != self.number:
            return
        self.return_unused()
        if not self.needs_an_answer():
            return
        # The first request may be answered late; a repeated one is answered at once, if there is a
        # coordinator.
        if self.attempt > max(self.answered, 1):
            self.election.elect()
        self.ask()

    @upon(Queued)
    def wait_on(self, sender: ProcessId, queued: Queued) -> None:
        if self.is_from_coordinator(sender, queued.term) and queued.number == self.number:
            self.answered = max(self.answered, queued.attempt)

    # Entering and leaving.

    @upon(Grant)
    def enter_or_renew(self, sender: ProcessId, grant: Grant) -> None:
        if not self.is_from_coordinator(sender, grant.term):
            return
        if grant.number != self.number or (self.state == RELEASED and not self.kept):
            # of a request that is over, or was made in an earlier life
            self.send(Release(self.term, grant.number, self.block), to=sender)
        elif self.state != WANTED and grant.token != self.token:
            self.lose()  # it was lent to others in between
        elif grant.attempt > self.run_out_at:
            self.answered = max(self.answered, grant.attempt)
            self.granted_at = max(self.granted_at, grant.attempt)
            self.recalled = self.recalled or grant.others
            # Counted by the coordinator: a majority has recorded the loan now.
            self.keep_record(Loan(self.term, grant.token, self.me, self.number))
            if self.state == WANTED:
                self.token = grant.token
                self.enter()

    def enter(self) -> None:
        self.state = HELD
        self.kept = self.lined_up = False
        self.used += 1
        if self.claimed is None or self.shown is None:
            self.shown = None
            self.indicate(GrantedWithToken(self.used_last()))
        else:
            self.claimed = None
            self.indicate(ResumedWithToken(self.shown, self.used_last()))

    def used_last(self) -> Token:
        """Return the token of the loan that was used last."""
        term, count = self.token
        return term, count + self.used - 1

    def release(self) -> None:
        """Leave, or stop waiting."""
        if self.moving:
            self.postponed = False
        elif self.state == HELD and self.may_stay():
            self.state = RELEASED
            self.kept = True
            self.shown = None
            if self.recalled:
                self.turns_taken += 1
        elif self.state != RELEASED:
            self.give_back()

    def may_stay(self) -> bool:
        """Return whether the loan may serve another entry here."""
        if self.passed or self.postponed or self.used == self.block:
            return False
        return not self.recalled or (self.lined_up and self.turns_taken < self.turns)

    @request
    def line_up(self) -> None:
        """Note that another application waits here, and acquires when the one inside has left."""
        self.lined_up = self.state == HELD

    @upon(Recall)
    def heed(self, sender: ProcessId, recall: Recall) -> None:
        if self.is_from_coordinator(sender, recall.term) and recall.number == self.number:
            self.return_unused()
            self.recalled = self.state != RELEASED

    @request
    def return_unused(self) -> None:
        """Give the loan back unless the application is inside."""
        if self.kept:
            self.give_back()

    def give_back(self) -> None:
        """End the request and the loan.  If the message is lost, the coordinator will inquire."""
        self.kept = False
        if not self.recalled:
            self.drop_own_record()
        self.cancel_timers()
        if self.coordinator is not None:
            self.send(Release(self.term, self.number, self.used), to=self.coordinator)
        self.end_loan()

    def end_loan(self) -> None:
        """Be outside, without a loan and without a request."""
        self.state = RELEASED
        self.used = self.turns_taken = 0
        self.lined_up = False
        self.moving = self.passed = False
        self.claimed = self.shown = None
        if self.postponed:
            self.postponed = False
            self.begin_request()

    def cancel_timers(self) -> None:
        self.cancel_timer(Repeat(self.number))
        if self.lease:
            for attempt in range(self.run_out_at + 1, self.attempt + 1):
                self.cancel_timer(RunOut(self.number, attempt))

    @upon(RunOut)
    def notice_the_end_of_the_lease(self, run_out: RunOut) -> None:
        if run_out.number == self.number:
            self.run_out_at = run_out.attempt
            if (self.state == HELD or self.kept) and self.granted_at <= self.run_out_at:
                self.lose()

    def runs_out(self) -> Timer | None:
        has_loan = self.state == HELD or self.kept
        return RunOut(self.number, self.granted_at) if self.lease and has_loan else None

    def is_wanted(self) -> bool:
        return self.recalled

    def lose(self) -> None:
        if self.state == HELD:
            self.indicate(LockLostWithToken(self.used_last()))
        self.give_back()

    # Moving.

    @request
    def move(self, to: ProcessId) -> None:
        """Let the application go on at another process.  The loan stays here, and lets no other
        application in: until it has passed on, or the lease has run out.
        """
        if self.state == HELD and not self.moving:
            self.moving = True
            self.send_application(to)
            if self.passed:
                self.pass_on()

    @request
    def break_off(self, to: ProcessId) -> None:
        """Give the loan back: the application has left without a release, and may go on at another
        process.  The first of this release and its claim to arrive decides.
        """
        if self.state == HELD and not self.moving:
            self.send_application(to)
            self.give_back()

    def send_application(self, to: ProcessId) -> None:
        """Send the application, in runs and searches.  A live one finds another process itself."""
        if to in self.peers:
            self.send(Arrive(self.used_last(), self.shown or self.used_last()), to=to)

    @upon(Arrive)
    def go_on(self, sender: ProcessId, arrive: Arrive) -> None:
        self.claim(*arrive.token, *arrive.shown)

    @request
    def claim(self, term: int, count: int, shown_term: int, shown_count: int) -> None:
        """Request the loan that has a token, for the application that is inside by it.

        A request that waits is made again when that application has left.

        shown: the token that the application shows to the resource.
        """
        self.return_unused()
        if self.state == WANTED and self.shown is None:
            self.give_back()
            self.postponed = True
        if self.state == RELEASED:
            self.claimed = (term, count)
            self.shown = (shown_term, shown_count)
            self.begin_request()
        else:
            self.indicate(LockLostWithToken((term, count)))

    @upon(ClaimRefused)
    def drop_claim(self, sender: ProcessId, refused: ClaimRefused) -> None:
        if (
            self.is_from_coordinator(sender, refused.term)
            and refused.number == self.number
            and self.claimed is not None
        ):
            claimed = self.claimed
            self.cancel_timers()
            self.end_loan()
            self.indicate(LockLostWithToken(claimed))

    @upon(PassedOn)
    def hear_passed_on(self, sender: ProcessId, passed_on: PassedOn) -> None:
        if self.is_from_coordinator(sender, passed_on.term) and passed_on.number == self.number:
            self.pass_on()

    def pass_on(self) -> None:
        """Leave for good, as soon as the application has left: another loan has taken the place of
        this one.
        """
        if self.moving:
            self.cancel_timers()
            self.end_loan()
        else:
            self.passed = self.state == HELD

    # Remembering for the coordinator.

    @upon(Record)
    def record(self, sender: ProcessId, record: Record) -> None:
        if self.is_from_coordinator(sender, record.term):
            self.keep_record(record.loan)
            self.send(Recorded(self.term, record.loan.token, record.attempt), to=sender)

    def keep_record(self, loan: Loan) -> None:
        self.loan = newer(self.loan, loan)

    def drop_own_record(self) -> None:
        """Forget a loan that this process had.  The coordinator itself still counts by it, and
        without terms so does every later coordinator.
        """
        if (
            self.loan is not None
            and self.loan.borrower == self.me != self.coordinator
            and self.term > 0
        ):
            self.loan = None

    @upon(Over)
    def drop_record(self, sender: ProcessId, over: Over) -> None:
        if (
            self.is_from_coordinator(sender, over.term)
            and self.loan is not None
            and self.loan.token <= over.token
        ):
            self.loan = None

    @upon(Inquire)
    def answer(self, sender: ProcessId, inquire: Inquire) -> None:
        if self.is_from_coordinator(sender, inquire.term):
            self.return_unused()
            if self.needs_an_answer():
                self.begin_attempt()
            number, state = self.number, self.state
            if self.claimed is not None:  # it does not wait for its turn
                number, state = self.number - 1, RELEASED
            self.send(Answer(self.term, self.loan, number, self.attempt, state), to=sender)
            if self.claimed is not None:
                self.send_request(to=sender)

    # Terms and coordinators.

    def is_current(self, term: int) -> bool:
        """Adopt a newer term.  Return whether a message of this term is current."""
        if term > self.term:
            self.term = term
            self.coordinator = None
        return term == self.term

    def is_from_coordinator(self, sender: ProcessId, term: int) -> bool:
        """Follow the coordinator of a newer term.  Return whether a message is current.

        A process that has resigned does not coordinate again because a message to itself was late.
        """
        current = self.is_current(term)
        if current and self.coordinator is None and sender != self.me:
            self.coordinator = sender
        return current

    @upon(Leader)
    def follow(self, leader: Leader) -> None:
        if not self.is_current(leader.term) or leader.process == self.coordinator:
            return
        self.coordinator = leader.process
        if self.coordinator == self.me:
            self.take_over()
        if self.coordinator is not None and self.needs_an_answer():
            self.ask()

    @request
    def resign(self, heir: ProcessId) -> None:
        """Cease to coordinate, if the election can: an orderly shutdown begins so."""
        self.election.resign(heir)

    @abstractmethod
    def take_over(self) -> None:
        """Begin to coordinate."""

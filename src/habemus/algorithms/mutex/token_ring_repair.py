"""Mutual exclusion by a token that goes round a ring and outlives crashes.

The ring is a logical one: every process can reach every other.  The token is acknowledged; if it is
not, it goes to the next but one.  A process that has not seen it for long sends an inquiry round
the ring, and the process that has the token stops it.  An inquiry cannot overtake the token.  So
when one returns to its starter and the token has not, there is no token any more, and the starter
makes a new one.  Of several starters the one with the smallest id is elected: it stops the
inquiries of the others.

No timeout can tell a slow process from a dead one.  So a token that may not be the only one gets an
epoch of its own, and no process takes a token that is older than one it has seen: the mistake comes
to an end, though it cannot be prevented.

Source   Le Lann: Distributed systems, towards a formal approach, IFIP 1977 (a lost token is
         replaced through an election); Chang, Roberts: An improved algorithm for decentralized
         extrema-finding, CACM 22(5), 1979 (which inquiries are stopped).
Assumes  reliable links, in any order, and a bound: a message and its acknowledgement together take
         less than `patience`, by any clock, so that a process that has not answered by then is
         down. Any number may crash, at any moment, and recover with their stable memory.
Cost     2 messages for each step of the token: 2 per entry when all want to enter, without bound
         when none does.  A new token costs 2N and more, a process that is down a wait of `patience`
         in every round.
Ensures  ME1, ME2; ME1 only as long as the bound holds: a process that is slower inside than
         `patience` is taken for dead, and a second one enters (scenario ring-repair-slow).
         `silence` may be wrong: the holder stops an inquiry that was in vain.
Differs  The sources say neither how a dead process is found, nor what becomes of the old token, nor
         how it recovers: the acknowledgements, the epochs, and that a process that has recovered is
         not relied on for twice `patience`, are additions.
"""

from collections.abc import Sequence
from typing import TypeAlias

from habemus.core import Const, Durable, Message, ProcessId, Span, Timer, upon, whenever
from habemus.core.assumptions import Assumptions, Crashes, Timing
from habemus.problems.mutex import Mutex

Epoch: TypeAlias = tuple[int, ProcessId]
"""A number and who began it, so that no two tokens have the same."""


class Token(Message):
    epoch: Epoch
    hop: int  # counts its steps, so that an acknowledgement of an earlier one is recognised


class Taken(Message):
    token: Token


class Inquiry(Message):
    starter: ProcessId
    number: (
        int  # tells it from those that the starter began before it last had the token, or crashed
    )
    newest: Epoch  # the newest that a process on the way has seen


class Heard(Message):
    inquiry: Inquiry


class NotTaken(Timer):
    to: ProcessId
    token: Token


class NotHeard(Timer):
    to: ProcessId
    inquiry: Inquiry


class Silence(Timer):
    """The token has not been here for long."""


class Settled(Timer):
    """Whatever was under way when the process recovered has arrived."""


class TokenRingRepair(Mutex):
    name = "token-ring-repair"
    shows = ("has_token", "epoch", "wanted")
    assumes = Assumptions(crashes=Crashes.ANY, timing=Timing.SYNCHRONOUS, stable_memory=True)

    patience: Const[int] = 20_000  # how long to wait for an acknowledgement
    silence: Const[Span] = 100_000  # how long to wait for the token before asking for it
    epoch: Durable[Epoch] = (0, 0)  # the newest that this process has seen
    inquiries: Durable[int] = 0  # how many this process has begun
    hop: int = 0  # of the token, when it was last here
    has_token: bool = False
    passing: bool = False  # it has been sent on and is not acknowledged yet
    asking: int = 0  # the number of the first inquiry that is still of use; 0: none is
    absent: bool = False  # back from a crash, and not yet to be relied on
    wanted: bool = False
    inside: bool = False

    def on_start(self) -> None:
        self.has_token = self.me == min((self.me, *self.peers))
        self.set_timer(Silence(), after=self.silence)

    def after(self, process: ProcessId) -> ProcessId:
        """Return the process that comes next in the ring."""
        around = sorted((self.me, *self.peers))
        return around[(around.index(process) + 1) % len(around)]

    # Entering and leaving, as in the plain ring.

    def acquire(self) -> None:
        self.wanted = True

    def may_enter(self) -> bool:
        return self.has_token and self.wanted and not self.inside

    @whenever(may_enter)
    def enter(self) -> None:
        self.inside = True
        self.granted()

    def release(self) -> None:
        self.wanted = False
        self.inside = False

    # The token.

    def has_no_use_for_it(self) -> bool:
        return self.has_token and not self.wanted and bool(self.peers)

    @whenever(has_no_use_for_it)
    def pass_on(self) -> None:
        self.has_token = False
        self.passing = True
        self.send_token(to=self.after(self.me))

    def send_token(self, to: ProcessId) -> None:
        self.hop += 1
        token = Token(self.epoch, self.hop)
        self.send(token, to=to)
        self.set_timer(NotTaken(to, token), after=self.patience)

    @upon(Token)
    def take_token(self, sender: ProcessId, token: Token) -> None:
        # Before anything else: if this process crashes when it has sent the token on, its sender
        # must not send another.
        self.send(Taken(token), to=sender)
        if (token.epoch, token.hop) > (self.epoch, self.hop):
            self.epoch, self.hop = token.epoch, token.hop
            self.has_token = True
            self.passing = False
            self.asking = 0
            self.absent = False
            self.set_timer(Silence(), after=self.silence)

    def is_last_sent(self, token: Token) -> bool:
        return self.passing and token == Token(self.epoch, self.hop)

    @upon(Taken)
    def forget_token(self, sender: ProcessId, taken: Taken) -> None:
        self.cancel_timer(NotTaken(sender, taken.token))
        if self.is_last_sent(taken.token):
            self.passing = False

    @upon(NotTaken)
    def skip_with_token(self, missed: NotTaken) -> None:
        if not self.is_last_sent(missed.token):
            return
        # Should the one that did not answer have the token after all, then that is the old one from
        # now on.
        self.epoch = (self.epoch[0] + 1, self.me)
        following = self.after(missed.to)
        if following != self.me:
            self.send_token(to=following)
        else:
            self.passing = False
            self.has_token = True

    # The search for a lost token.

    def may_be_here(self) -> bool:
        """Return whether the token is here, on its way from here, or on a way that this process has
        forgotten.
        """
        return self.has_token or self.passing or self.absent

    @upon(Silence)
    def inquire(self, _: Silence) -> None:
        self.set_timer(Silence(), after=self.silence)
        if self.may_be_here():
            return
        self.inquiries += 1
        self.asking = self.asking or self.inquiries
        self.send_inquiry(Inquiry(self.me, self.inquiries, self.epoch), to=self.after(self.me))

    def send_inquiry(self, inquiry: Inquiry, to: ProcessId) -> None:
        self.send(inquiry, to=to)
        self.set_timer(NotHeard(to, inquiry), after=self.patience)

    @upon(Inquiry)
    def stop_or_send_on(self, sender: ProcessId, inquiry: Inquiry) -> None:
        self.send(Heard(inquiry), to=sender)
        if self.may_be_here():
            return
        if inquiry.starter == self.me:
            self.make_token(inquiry)
        elif not self.asking or inquiry.starter < self.me:
            self.asking = 0
            self.set_timer(Silence(), after=self.silence)
            seen = Inquiry(inquiry.starter, inquiry.number, max(inquiry.newest, self.epoch))
            self.send_inquiry(seen, to=self.after(self.me))

    def make_token(self, inquiry: Inquiry) -> None:
        if 0 < self.asking <= inquiry.number:
            self.asking = 0
            self.epoch = (max(inquiry.newest, self.epoch)[0] + 1, self.me)
            self.has_token = True
            self.set_timer(Silence(), after=self.silence)

    @upon(Heard)
    def forget_inquiry(self, sender: ProcessId, heard: Heard) -> None:
        self.cancel_timer(NotHeard(sender, heard.inquiry))

    @upon(NotHeard)
    def skip_with_inquiry(self, missed: NotHeard) -> None:
        if missed.to != missed.inquiry.starter:  # without its starter an inquiry is of no use
            self.send_inquiry(missed.inquiry, to=self.after(missed.to))

    # Coming back.

    def on_recover(self) -> None:
        """Wait until a token that it sent before the crash has arrived, and one that found it down
        has been sent to the next.
        """
        self.absent = True
        self.set_timer(Settled(), after=2 * self.patience)
        self.set_timer(Silence(), after=self.silence)

    @upon(Settled)
    def rejoin(self, _: Settled) -> None:
        self.absent = False

    # What the catalog needs to know.

    def awaits(self) -> Sequence[ProcessId]:
        if not self.wanted or self.has_token:
            return ()
        around = sorted((self.me, *self.peers))
        return [around[around.index(self.me) - 1]]

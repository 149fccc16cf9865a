"""Election by the bully algorithm: the largest that is up wins.

A process that suspects the leader asks all that are larger.  If none of them answers in time it has
won and announces that to all; if one answers, that one goes on in its place.

Source   Garcia-Molina: Elections in a distributed computing system, IEEE Trans. Computers 31(1),
         1982; lecture notes on coordination (the listing and the example with five processes).
Assumes  reliable links and a synchronous system: `timeout` is longer than any round trip and
         `patience` longer than that and two messages more.  The application calls an election when
         the leader has crashed.  Processes may crash and recover, but not recover in the middle of
         an election.
Cost     best case n-2 messages to processes that are up (the second largest calls after the largest
         has crashed), worst case O(n^2): n(n-1) + 2n-3 when all are up and the smallest calls.
Ensures  E1, E2, E3; not E4 (a larger process that recovers takes over from a healthy leader), and
         no E1 if a round trip may be longer than `timeout` (bully-impatient) or links are cut.
Differs  What the listing of the notes leaves out and their example needs: a process that answers Ok
         calls an election of its own, unless it has one going; after an Ok without a Coordinator in
         time, the election is called again; the largest of all announces itself at once.  What they
         leave open: a process that learns of a smaller coordinator calls an election; an Ok that
         comes too late is ignored; a process that has just learned of a coordinator does not call
         on behalf of a smaller one (or else the messages that cross multiply without bound), and a
         new coordinator repeats its announcement to the one whose Elect has crossed it.  The key is
         `keys`, one for each process, known to all; the id breaks ties.  The original paper first
         halts the smaller processes, so that the old leader has stopped before the new one begins;
         here, as in the notes, the news takes the time of one message.
"""

from collections.abc import Sequence

from habemus.core import Const, Message, ProcessId, Span, Timer, upon
from habemus.core.assumptions import Assumptions, Crashes, Timing
from habemus.problems.election import Election, ElectionCosts, Leader


class Elect(Message):
    key: tuple[int, ...]


class Ok(Message):
    pass


class Coordinator(Message):
    key: tuple[int, ...]


class Unanswered(Timer):
    """No larger process has answered in time."""


class Unfinished(Timer):
    """A larger process has answered, but no coordinator has come of it in time."""


class Stale(Timer):
    """The last announcement is no longer news."""


class Bully(Election):
    name = "bully"
    shows = ("calling", "leader")
    assumes = Assumptions(crashes=Crashes.BETWEEN_ELECTIONS, timing=Timing.SYNCHRONOUS)

    keys: Const[
        tuple[int, ...]
    ] = ()  # of processes 1, 2, ...: memory, bandwidth, whatever makes a good leader
    timeout: Const[Span] = 20_000
    patience: Const[Span] = 50_000
    calling: bool = False  # this process has an election going
    leader: ProcessId | None = None
    is_fresh: bool = False  # the leader has announced itself a moment ago

    def key_of(self, process: ProcessId) -> tuple[int, ...]:
        return (self.keys[process - 1],) if self.keys else ()

    def key(self) -> tuple[int, ...]:
        return self.key_of(self.me)

    def outranks(self, key: tuple[int, ...], process: ProcessId) -> bool:
        return (self.key(), self.me) > (key, process)

    def rivals(self) -> list[ProcessId]:
        return [peer for peer in self.peers if not self.outranks(self.key_of(peer), peer)]

    def on_recover(self) -> None:
        self.call()

    def elect(self) -> None:
        self.call()

    def call(self) -> None:
        if self.calling:
            return
        self.calling = True
        rivals = self.rivals()
        for rival in rivals:
            self.send(Elect(self.key()), to=rival)
        if rivals:
            self.set_timer(Unanswered(), after=self.timeout)
        else:
            self.announce()

    @upon(Elect)
    def bully_the_smaller(self, sender: ProcessId, elect: Elect) -> None:
        if not self.outranks(elect.key, sender):
            return
        self.send(Ok(), to=sender)
        if not self.is_fresh:
            self.call()
        elif self.leader == self.me:
            self.send(Coordinator(self.key()), to=sender)

    @upon(Ok)
    def stand_back(self, sender: ProcessId, _: Ok) -> None:
        if self.calling:
            self.cancel_timer(Unanswered())
            self.set_timer(Unfinished(), after=self.patience)

    @upon(Unanswered)
    def win(self, _: Unanswered) -> None:
        self.announce()

    def announce(self) -> None:
        self.follow(self.me)
        self.broadcast(Coordinator(self.key()))

    @upon(Unfinished)
    def call_again(self, _: Unfinished) -> None:
        self.calling = False
        self.call()

    @upon(Coordinator)
    def obey_or_object(self, sender: ProcessId, coordinator: Coordinator) -> None:
        if self.outranks(coordinator.key, sender):
            self.call()
        else:
            self.follow(sender)

    def follow(self, leader: ProcessId) -> None:
        self.calling = False
        self.cancel_timer(Unanswered())
        self.cancel_timer(Unfinished())
        self.leader = leader
        self.is_fresh = True
        self.set_timer(Stale(), after=self.timeout)
        self.indicate(Leader(leader))

    @upon(Stale)
    def doubt_again(self, _: Stale) -> None:
        self.is_fresh = False

    # What the catalog needs to know.

    def awaits(self) -> Sequence[ProcessId]:
        return self.rivals() if self.calling else []

    def costs(self, size: int) -> ElectionCosts:
        return (
            ElectionCosts(messages=size * (size - 1) + 2 * size - 3, turnaround=2)
            if size > 1
            else ElectionCosts(0, 0)
        )

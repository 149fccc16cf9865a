"""Election by the bully algorithm: the largest that is up wins.

Whoever suspects the leader asks all that are larger.  If none of them answers in time it has won and tells everybody;
if one answers, that one goes on in its place.

Source   Garcia-Molina: Elections in a distributed computing system, IEEE Trans. Computers 31(1), 1982; lecture notes on
         coordination (the listing and the example with five processes).
Assumes  reliable links and a synchronous system: `timeout` is longer than any round trip and `patience` longer than that and
         two messages more.  The application calls an election when the leader is gone.  Processes may crash and come
         back, but not come back in the middle of an election.
Cost     best case n-2 messages to processes that are up (the second largest calls), worst case O(n^2).
Ensures  E1, E2, E3; not E4 (a larger process that comes back takes over from a healthy leader), and no E1 if a round trip
         may be longer than `timeout` (bully-impatient) or links are cut.
Differs  What the listing of the notes leaves out and their example needs: whoever answers Ok calls an election of its own,
         unless it has one going; after an Ok without a Coordinator in time, the election is called again; the largest of
         all announces itself at once.  What both leave open: a process that is told of a smaller coordinator
         calls an election, and an Ok that comes too late is ignored.  The key is `keys`, one for each
         process, known to all; the id breaks ties.  The original paper first halts the smaller processes, so that the old
         leader has stopped before the new one begins; here, as in the notes, the news takes the time of one message.
"""

from collections.abc import Sequence

from habemus.core import Const, Message, ProcessId, Span, Timer, upon
from habemus.problems.election import Election, Leader


class Elect(Message):
    pass


class Ok(Message):
    pass


class Coordinator(Message):
    pass


class Unanswered(Timer):
    """Nobody larger has answered in time."""


class Unfinished(Timer):
    """Somebody larger has answered, but no coordinator has come of it in time."""


class Bully(Election):
    name = "bully"

    keys: Const[tuple[int, ...]] = ()  # of processes 1, 2, ...: memory, bandwidth, whatever makes a good leader
    timeout: Const[Span] = 20_000
    patience: Const[Span] = 50_000
    calling: bool = False  # this process has an election going
    leader: ProcessId | None = None

    def rank(self, process: ProcessId) -> tuple[int, ProcessId]:
        return (self.keys[process - 1] if self.keys else 0, process)

    def larger(self) -> list[ProcessId]:
        return [peer for peer in self.peers if self.rank(peer) > self.rank(self.me)]

    def on_recover(self) -> None:
        self.call()

    def elect(self) -> None:
        self.call()

    def call(self) -> None:
        if self.calling:
            return
        self.calling = True
        for peer in self.larger():
            self.send(Elect(), to=peer)
        if self.larger():
            self.set_timer(Unanswered(), after=self.timeout)
        else:
            self.announce()

    @upon(Elect)
    def bully_the_smaller(self, sender: ProcessId, _: Elect) -> None:
        self.send(Ok(), to=sender)
        self.call()

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
        self.broadcast(Coordinator())

    @upon(Unfinished)
    def call_again(self, _: Unfinished) -> None:
        self.calling = False
        self.call()

    @upon(Coordinator)
    def obey_or_object(self, sender: ProcessId, _: Coordinator) -> None:
        if self.rank(sender) > self.rank(self.me):
            self.follow(sender)
        else:
            self.call()

    def follow(self, leader: ProcessId) -> None:
        self.calling = False
        self.cancel_timer(Unanswered())
        self.cancel_timer(Unfinished())
        self.leader = leader
        self.indicate(Leader(leader))

    # What the catalog needs to know.

    def awaits(self) -> Sequence[ProcessId]:
        return self.larger() if self.calling else []

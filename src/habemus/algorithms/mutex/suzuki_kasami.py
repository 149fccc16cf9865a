"""Mutual exclusion by a token that is asked for by broadcast: Suzuki and Kasami.

The process that has the token may enter, as often as it likes.  A process that wants it asks all
others, because it does not know where the token is.  Requests are numbered, and the token carries
the number of each process's last entry: so its holder can tell an open request from an old one.
The token also carries the queue of the processes that enter next.

Source   Suzuki, Kasami: A distributed mutual exclusion algorithm, ACM TOCS 3(4), 1985.
Assumes  reliable links, in any order; no process crashes.
Cost     N messages per entry: N-1 requests and the token; 0 if the process has the token already.
Ensures  ME1, ME2; entry in order of the token's queue, not of asking (no ME3).
Differs  The paper tries to pass the token on in two places, on leaving and on a request that finds
         it idle; here one rule covers both.  Numbers that are still 0 are left out of the token.
"""

from typing import Any

from habemus.core import Message, ProcessId, System, upon, whenever
from habemus.core.system import complete
from habemus.problems.mutex import Mutex, MutexCosts


class Request(Message):
    number: int


class Token(Message):
    served: tuple[tuple[ProcessId, int], ...]
    queue: tuple[ProcessId, ...]


class SuzukiKasami(Mutex):
    name = "suzuki-kasami"
    shows = ("has_token", "requested", "queue")

    requested: dict[
        ProcessId, int
    ] = {}  # RN in the paper: the number of the newest request of each process
    wanted: bool = False  # from asking to leaving
    inside: bool = False
    has_token: bool = False
    served: dict[
        ProcessId, int
    ] = {}  # LN, part of the token: the number of the last request of each that was served
    queue: list[ProcessId] = []  # Q, part of the token: who gets it next

    def acquire(self) -> None:
        self.wanted = True
        if not self.has_token:
            self.requested[self.me] = self.requested.get(self.me, 0) + 1
            self.broadcast(Request(self.requested[self.me]))

    @upon(Request)
    def note_request(self, sender: ProcessId, request: Request) -> None:
        self.requested[sender] = max(self.requested.get(sender, 0), request.number)

    @upon(Token)
    def take_token(self, sender: ProcessId, token: Token) -> None:
        self.has_token = True
        self.served = dict(token.served)
        self.queue = list(token.queue)

    def may_enter(self) -> bool:
        return self.has_token and self.wanted and not self.inside

    @whenever(may_enter)
    def enter(self) -> None:
        self.inside = True
        self.granted()

    def release(self) -> None:
        self.inside = False
        self.wanted = False
        self.served[self.me] = self.requested.get(self.me, 0)

    def newcomers(self) -> list[ProcessId]:
        """Return the processes that have asked since their last entry and are not in the
        queue yet.
        """
        queued = set(self.queue)
        return [
            peer
            for peer in self.peers
            if self.requested.get(peer, 0) == self.served.get(peer, 0) + 1 and peer not in queued
        ]

    def is_idle_and_asked_for(self) -> bool:
        return self.has_token and not self.wanted and bool(self.queue or self.newcomers())

    @whenever(is_idle_and_asked_for)
    def pass_token(self) -> None:
        first, *others = self.queue + self.newcomers()
        self.has_token = False
        self.send(Token(tuple(sorted(self.served.items())), tuple(others)), to=first)
        self.served = {}
        self.queue = []

    # What the catalog needs to know.  It has no awaits(): a process that asks by
    # broadcast does not know for whom it waits.

    def costs(self, size: int) -> MutexCosts:
        return MutexCosts(sync_delay=1)

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        """Return participants 1 to N, each connected to each; the token starts at 1."""
        everybody = range(1, size + 1)
        plans = {me: cls(has_token=me == 1, **options) for me in everybody}
        return System(plans, complete(everybody), tuple(everybody))

"""Mutual exclusion by a token and path reversal: Naimi and Trehel.

Two pointers make the algorithm.  `last` leads to the process that asked last, as far as one knows.
A request follows it from process to process, and each of them points at the one that asks from then
on: the path is reversed.  So the process that asked last is the root of a tree, and the next
request ends there.  `next` is who gets the token after a process's own turn.  These pointers are
the queue, and each process knows only who stands behind it.

Source   Trehel, Naimi: An improvement of the log(n) distributed algorithm for mutual exclusion,
         1987; Naimi, Trehel, Arnold: A log(N) distributed mutual exclusion algorithm based on path
         reversal, J. Parallel Distrib. Comput. 34(1), 1996.
Assumes  reliable links, in any order; no process crashes.
Cost     0 messages if the process asked last, else one for each step to the root and the token: at
         most N, on average 1 + 1/2 + ... + 1/(N-1), about 0.6 + ln N, if all are equally likely to
         ask (Lavault 1992).
Ensures  ME1, ME2; entry in order of the requests' arrival at the root, not of asking (no ME3).
Differs  The first tree is a star around 1, which has the token; the paper lets any process begin.
         The regeneration of a lost token, which the authors describe apart, is left out.
"""

from typing import Any

from habemus.core import Message, ProcessId, System, upon, whenever
from habemus.core.system import complete
from habemus.problems.mutex import Mutex, MutexCosts


class Request(Message):
    requester: ProcessId


class Token(Message):
    pass


class NaimiTrehel(Mutex):
    name = "naimi-trehel"
    shows = ("last", "next", "has_token")

    last: (
        ProcessId | None
    )  # who asked last, as far as this process knows; None: it was this process
    next: ProcessId | None = None  # who gets the token after this process
    has_token: bool = False
    wanted: bool = False  # from asking to leaving
    inside: bool = False

    def acquire(self) -> None:
        self.wanted = True
        if self.last is not None:
            self.send(Request(self.me), to=self.last)
            self.last = None

    @upon(Request)
    def serve_or_forward(self, sender: ProcessId, request: Request) -> None:
        if self.last is not None:
            self.send(request, to=self.last)
        elif self.wanted:
            self.next = request.requester
        else:
            self.pass_token(request.requester)
        self.last = request.requester

    @upon(Token)
    def take_token(self, sender: ProcessId, _: Token) -> None:
        self.has_token = True

    def may_enter(self) -> bool:
        return self.has_token and self.wanted and not self.inside

    @whenever(may_enter)
    def enter(self) -> None:
        self.inside = True
        self.granted()

    def release(self) -> None:
        self.inside = False
        self.wanted = False
        if self.next is not None:
            self.pass_token(self.next)
            self.next = None

    def pass_token(self, to: ProcessId) -> None:
        self.has_token = False
        self.send(Token(), to=to)

    # What the catalog needs to know.  It has no awaits(): a process knows who stands behind it in
    # the queue, never who before it.

    def costs(self, size: int) -> MutexCosts:
        return MutexCosts(sync_delay=1)

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        """Return participants 1 to N, each connected to each; the token starts at 1, and all know
        it.
        """
        everybody = range(1, size + 1)
        plans = {
            me: cls(last=None if me == 1 else 1, has_token=me == 1, **options) for me in everybody
        }
        return System(plans, complete(everybody), tuple(everybody))

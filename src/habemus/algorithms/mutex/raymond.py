"""Mutual exclusion by a token in a tree: Raymond.

Every process knows only its neighbours in a tree, and of the token only on which side it is.  A
request goes from neighbour to neighbour towards the token, each asking on its own behalf, and the
token returns the same way, turning the pointers round as it goes.  A process that has asked once
need not ask again for further requests: they wait in its queue.

Source   Raymond: A tree-based algorithm for distributed mutual exclusion, ACM TOCS 7(1), 1989.
Assumes  reliable links, in any order; no process crashes.
Cost     0 messages if the process has the token, else 2 for each edge between it and the token: at
         most twice the longest path in the tree, which is about 4 log2 N messages in a binary one;
         about 4 per entry when all processes want to enter.
Ensures  ME1, ME2; entry in order of the queues on the way, not of asking (no ME3).
Differs  The pointers are set when the system is built; the paper sends INITIALIZE messages through
         the tree.  Its recovery of a failed node from what its neighbours know is left out.
"""

from collections.abc import Sequence
from typing import Any

from habemus.core import Message, ProcessId, System, upon, whenever
from habemus.core.system import tree
from habemus.problems.mutex import Mutex


class Request(Message):
    pass


class Token(Message):
    """The paper's PRIVILEGE."""


class Raymond(Mutex):
    name = "raymond"
    shows = ("holder", "queue")
    largest = 1_000_000

    # where the token is, seen from here: this process itself, or the neighbour on the way to it
    holder: ProcessId
    inside: bool = False
    asked: bool = False  # the holder knows that the token is wanted here
    queue: list[ProcessId] = []  # who wants it: neighbours, and this process itself

    def acquire(self) -> None:
        self.queue.append(self.me)

    @upon(Request)
    def enqueue(self, sender: ProcessId, _: Request) -> None:
        self.queue.append(sender)

    @upon(Token)
    def take_token(self, sender: ProcessId, _: Token) -> None:
        self.holder = self.me

    def release(self) -> None:
        self.inside = False

    def has_token_to_give(self) -> bool:
        return self.holder == self.me and not self.inside and bool(self.queue)

    @whenever(has_token_to_give)
    def give_token(self) -> None:
        self.holder = self.queue.pop(0)
        self.asked = False
        if self.holder == self.me:
            self.inside = True
            self.granted()
        else:
            self.send(Token(), to=self.holder)

    def must_ask(self) -> bool:
        return self.holder != self.me and bool(self.queue) and not self.asked

    @whenever(must_ask)
    def ask(self) -> None:
        self.asked = True
        self.send(Request(), to=self.holder)

    # What the catalog needs to know.

    def awaits(self) -> Sequence[ProcessId]:
        return [self.holder] if self.queue and self.holder != self.me else []

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        """Return a binary tree of 1 to N, filled level by level; the token starts at its
        root, 1.
        """
        nodes = range(1, size + 1)
        plans = {me: cls(holder=max(1, me // 2), **options) for me in nodes}
        return System(plans, tree(nodes), tuple(nodes))

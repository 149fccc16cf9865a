"""Ricart-Agrawala and a token ring in SimPy, in the two ways people write message passing with it.

`idiom` is SimPy's documented one: a Store per process and a process per message under way.
`callbacks` uses SimPy as a bare queue: one Timeout per message, whose callback is the handler.
Both run the same algorithm with the same workload as ours: each process asks R times, stays inside
for one message time and thinks for up to one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from typing import Any

import simpy

DELAY = 1_000
HOLD = 1_000
THINK = 1_000

RELEASED, WANTED, HELD = range(3)


class Peer:
    """One process of Ricart-Agrawala; how it sends and waits is the rival's affair."""

    def __init__(self, me: int, group: Group) -> None:
        self.me = me
        self.group = group
        self.others = [other for other in range(group.size) if other != me]
        self.clock = 0
        self.state = RELEASED
        self.stamp = 0
        self.missing: set[int] = set()
        self.deferred: list[int] = []
        self.left = group.rounds

    def acquire(self) -> None:
        self.left -= 1
        self.clock += 1
        self.state = WANTED
        self.stamp = self.clock
        self.missing = set(self.others)
        for other in self.others:
            self.group.send(self.me, other, ("request", self.stamp))

    def handle(self, sender: int, kind: str, stamp: int) -> None:
        self.clock = max(self.clock, stamp) + 1
        if kind == "request":
            if self.state == HELD or (
                self.state == WANTED and (self.stamp, self.me) < (stamp, sender)
            ):
                self.deferred.append(sender)
            else:
                self.group.send(self.me, sender, ("reply", self.clock))
        else:
            self.missing.discard(sender)
            if self.state == WANTED and not self.missing:
                self.state = HELD
                self.group.later(HOLD, self.release)

    def release(self) -> None:
        self.clock += 1
        self.state = RELEASED
        for waiting in self.deferred:
            self.group.send(self.me, waiting, ("reply", self.clock))
        self.deferred.clear()
        if self.left:
            self.group.later(self.group.draw.randrange(THINK + 1), self.acquire)


class Group:
    size: int
    rounds: int
    delivered = 0

    def __init__(self, size: int, rounds: int, seed: int) -> None:
        self.size = size
        self.rounds = rounds
        self.draw = random.Random(seed)
        self.env = simpy.Environment()
        self.peers = [Peer(me, self) for me in range(size)]
        for peer in self.peers:
            self.later(self.draw.randrange(THINK + 1), peer.acquire)

    def later(self, delay: int, call: Callable[[], None]) -> None:
        self.env.timeout(delay).callbacks.append(lambda _: call())

    def send(self, sender: int, to: int, message: tuple[str, int]) -> None:
        raise AssertionError("each rival sends in its own way")

    def run(self) -> int:
        self.env.run()
        return self.delivered


class Idiom(Group):
    def __init__(self, size: int, rounds: int, seed: int) -> None:
        super().__init__(size, rounds, seed)
        self.stores = [simpy.Store(self.env) for _ in range(size)]
        for peer in self.peers:
            self.env.process(self.receive(peer))

    def receive(self, peer: Peer) -> Generator[Any, Any, None]:
        store = self.stores[peer.me]
        while True:
            sender, (kind, stamp) = yield store.get()
            self.delivered += 1
            peer.handle(sender, kind, stamp)

    def deliver(self, sender: int, to: int, message: tuple[str, int]) -> Generator[Any, Any, None]:
        yield self.env.timeout(DELAY)
        yield self.stores[to].put((sender, message))

    def send(self, sender: int, to: int, message: tuple[str, int]) -> None:
        self.env.process(self.deliver(sender, to, message))


class Callbacks(Group):
    def send(self, sender: int, to: int, message: tuple[str, int]) -> None:
        self.env.timeout(DELAY, (sender, to, message)).callbacks.append(self.arrive)

    def arrive(self, event: Any) -> None:
        sender, to, (kind, stamp) = event.value
        self.delivered += 1
        self.peers[to].handle(sender, kind, stamp)


def idiom_ring(size: int, hops: int) -> int:
    """A token that goes round a ring of Stores; nobody wants it."""
    env = simpy.Environment()
    stores = [simpy.Store(env) for _ in range(size)]
    delivered = 0

    def deliver(to: int) -> Generator[Any, Any, None]:
        yield env.timeout(DELAY)
        yield stores[to].put("token")

    def member(me: int) -> Generator[Any, Any, None]:
        nonlocal delivered
        while True:
            yield stores[me].get()
            delivered += 1
            if delivered < hops:
                env.process(deliver((me + 1) % size))

    for me in range(size):
        env.process(member(me))
    env.process(deliver(0))
    env.run()
    return delivered

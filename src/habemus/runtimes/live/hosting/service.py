"""A service: one kind of instances that a cluster offers, and where its processes live.

A system has as many participants as the cluster has nodes, and participant k lives on node k.  Some
systems have more processes (a coordinator, voters); these are dealt out to the nodes in turn.  So a
node may host several processes of one instance, and what they say to each other never leaves it.

Every instance of a service is its own copy of the system: "locks/printer" and "locks/scanner" know
nothing of each other.

A service is *silent* if nothing happens when its processes start: no message, no timer, no change
of state.  Then an instance that is back in its initial state cannot be told from one that was never
there, so it can be forgotten and made again by the first message.  An instance of any other service
(somebody has to make the token, the detectors begin to beat) must be started everywhere once and
stays: nodes tell each other that it exists, and it is never forgotten.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from habemus.core.node import PureNode, Stack
from habemus.core.process import ProcessId
from habemus.core.stable import Stable
from habemus.core.system import System
from habemus.core.values import Indication, Timer
from habemus.runtimes.live.peers.codec import PortCodec, codecs_of


class Feed(NamedTuple):
    """What one instance of another service says on a node is news for one part of every instance of
    this service there.

    So many instances share what would otherwise be a component of each of them: a thousand locks,
    one election.  The part is told by a timer that expires with the news, which is an event like
    any other, in traces too.
    """

    service: str
    instance: str
    part: str  # its path in the instances that are told
    news: Callable[[Indication], Timer | None]


class Service:
    def __init__(
        self,
        name: str,
        system: System,
        nodes: Iterable[int],
        run: Mapping[str, Any] | None = None,
        feed: Feed | None = None,
    ) -> None:
        self.name = name
        self.system = system
        self.run = dict(run or {})  # what identifies it in traces; nothing here looks into it
        self.feed = feed
        self.nodes = tuple(sorted(nodes))
        self.home = _homes(system, self.nodes)
        made: dict[int, tuple[Stack, list[PortCodec], Stable]] = {}  # one plan, one stack
        for plan in system.plans.values():
            if id(plan) not in made:
                stack = Stack(plan)
                made[id(plan)] = (stack, codecs_of(stack), Stable(stack))
        self.stacks: dict[ProcessId, Stack] = {
            me: made[id(plan)][0] for me, plan in system.plans.items()
        }
        self.codecs: dict[ProcessId, list[PortCodec]] = {
            me: made[id(plan)][1] for me, plan in system.plans.items()
        }
        self.stable: dict[ProcessId, Stable] = {
            me: made[id(plan)][2] for me, plan in system.plans.items()
        }

    def at(self, node: int) -> list[ProcessId]:
        """The processes that live on a node."""
        return [process for process in self.system.topology.processes if self.home[process] == node]

    @cached_property
    def is_silent(self) -> bool:
        return all(self._starts_silently(process) for process in self.system.plans)

    def _starts_silently(self, process: ProcessId) -> bool:
        stack = self.stacks[process]
        fresh = PureNode(
            stack, process, self.system.topology.neighbours[process], lambda options: options[0]
        )
        return not fresh.start() and fresh.capture() == stack.initial

    def described(self) -> list[Any]:
        """What two nodes must agree on to understand each other, as plain values."""
        neighbours = [
            [process, list(others)]
            for process, others in sorted(self.system.topology.neighbours.items())
        ]
        parts = [
            [
                process,
                [
                    [part.path, type(part.plan).__name__, codec.described()]
                    for part, codec in zip(stack.parts, codecs, strict=True)
                ],
            ]
            for process, stack, codecs in (
                (each, self.stacks[each], self.codecs[each]) for each in sorted(self.stacks)
            )
        ]
        fed = None if self.feed is None else list(self.feed[:3])
        return [self.name, sorted(self.run.items(), key=repr), neighbours, parts, fed]


def _homes(system: System, nodes: Sequence[int]) -> dict[ProcessId, int]:
    others = [process for process in system.topology.processes if process not in nodes]
    dealt = {process: nodes[turn % len(nodes)] for turn, process in enumerate(others)}
    return {process: dealt.get(process, process) for process in system.topology.processes}


def fingerprint(services: Sequence[Service], recording: bool) -> bytes:
    """Equal on two nodes exactly if they would understand each other."""
    described = [service.described() for service in services]
    return hashlib.sha256(msgspec.msgpack.encode([described, recording])).digest()

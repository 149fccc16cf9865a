"""A service: a kind of instance that a cluster offers, and the nodes on which its processes run.

A system has as many participants as the cluster has nodes, and participant k runs on node k.  Some
systems have more processes (a coordinator, voters), which are assigned to the nodes round-robin.
So a node may host several processes of one instance, and messages between them stay on the node.

Every instance of a service is its own copy of the system: "locks/printer" and "locks/scanner" are
independent.

A service is *silent* if its processes do nothing when they start: no message, no timer, no change
of state.  Then an instance in its initial state is indistinguishable from one that does not exist,
so it can be dropped, and created again by the first message.  An instance of any other service (one
process creates the token, detectors send heartbeats) must start on every node and is never dropped:
nodes announce it to each other.

A service *grows* if the members of its election change while the cluster runs.  Its system has all
processes that the cluster may ever have, all of one plan.  The peers of its processes are the nodes
that the cluster has now (`members`): messages to all others would be lost.

A service is *forgetful* if its processes can absorb each other when they are idle
(`Process.absorb`).  Then one process of each node stands for all its idle instances (`idle`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from habemus.core.node import PureNode, Stack
from habemus.core.process import Process, ProcessId
from habemus.core.stable import Stable
from habemus.core.system import System
from habemus.core.values import Indication, Timer
from habemus.problems.detector import Detector
from habemus.problems.election import Election
from habemus.runtimes.live.peers.codec import PortCodec, codecs_of
from habemus.runtimes.live.rules import AccessRule


class Feed(NamedTuple):
    """Indications of one instance of another service are passed to a part of every instance of this
    service on the same node.

    So many instances share what would otherwise be a component of each: a thousand locks, one
    election.  The part receives a timer that carries the indication: an event like any other, in
    traces too.
    """

    service: str
    instance: str
    part: str  # path of the part
    news: Callable[[Indication], Timer | None]
    kinds: tuple[type[Timer], ...]  # of news; a process that starts gets the latest of each


class Service:
    """A system, the node of each of its processes, and the codecs of their messages."""

    def __init__(
        self,
        name: str,
        system: System,
        nodes: Iterable[int],
        run: Mapping[str, Any] | None = None,
        feed: Feed | None = None,
        grows: bool = False,
        continues: Mapping[str, str] | None = None,
        growing: str = "",
    ) -> None:
        """Describe a service.

        grows: its members change.
        continues: classes of processes with fixed members whose stable memory is of use for this
            service, each with the class that takes its place.
        growing: the algorithm that can take the place of this one, to have members that change.
        """
        self.name = name
        self.system = system
        self.run = dict(run or {})  # identifies it in traces
        self.feed = feed
        self.grows = grows
        self.continues = dict(continues or {})
        self.growing = growing
        self.nodes = tuple(sorted(nodes))
        self.home = _homes(system, self.nodes)
        made: dict[int, tuple[Stack, list[PortCodec], Stable]] = {}  # one stack per plan
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
        """Return the processes that run on a node."""
        if self.grows:
            return [node]
        return [process for process in self.system.topology.processes if self.home[process] == node]

    @cached_property
    def is_silent(self) -> bool:
        processes = list(self.system.plans)[:2] if self.grows else self.system.plans
        return all(self._starts_silently(process) for process in processes)

    @cached_property
    def is_forgetful(self) -> bool:
        """Whether each node has one process of an instance, and that can absorb idle ones."""
        return (
            self.is_silent
            and len(self.home) == len(self.nodes)
            and all(_can_absorb(stack) for stack in self.stacks.values())
        )

    @cached_property
    def is_urgent(self) -> bool:
        """Whether its messages and timers are handled first: heartbeats must be on time."""
        return isinstance(next(iter(self.system.plans.values())), Election | Detector)

    def _starts_silently(self, process: ProcessId) -> bool:
        stack = self.stacks[process]
        fresh = PureNode(
            stack, process, self.system.topology.neighbours[process], lambda options: options[0]
        )
        return not fresh.start() and fresh.capture() == stack.initial

    def described(self) -> list[Any]:
        """Return what two nodes must agree on, as plain values.

        Messages are not part of it: nodes of two versions may understand different ones.
        """
        neighbours = [
            [process, list(others)]
            for process, others in sorted(self.system.topology.neighbours.items())
        ]
        fed = None if self.feed is None else list(self.feed[:3])
        if self.grows:  # nodes may have started with different members
            return [self.name, _without_size(self.run), [], fed, "grows"]
        return [self.name, sorted(self.run.items(), key=repr), neighbours, fed]


def _without_size(run: Mapping[str, Any]) -> list[Any]:
    """Return what identifies a run, without the number of its processes."""
    return [
        [key, _without_size(value) if isinstance(value, dict) else value]
        for key, value in sorted(run.items())
        if key != "n"
    ]


def _can_absorb(stack: Stack) -> bool:
    """Return whether the process on top defines `absorb`, and its components have no state."""
    top, *components = (type(part.plan) for part in stack.parts)
    return top.absorb is not Process.absorb and not any(each.__state_names__ for each in components)


def _homes(system: System, nodes: Sequence[int]) -> dict[ProcessId, int]:
    others = [process for process in system.topology.processes if process not in nodes]
    dealt = {process: nodes[turn % len(nodes)] for turn, process in enumerate(others)}
    return {process: dealt.get(process, process) for process in system.topology.processes}


def fingerprint(
    services: Sequence[Service],
    recording: bool,
    semaphores: Mapping[str, int],
    rules: Sequence[AccessRule] = (),
) -> bytes:
    """Return a digest that is equal on two nodes exactly if they agree on all services, on the
    sizes of all semaphores and on all rules.
    """
    described = [service.described() for service in services]
    content: list[Any] = [described, recording, sorted(semaphores.items())]
    if rules:
        content.append(list(rules))
    return hashlib.sha256(msgspec.msgpack.encode(content)).digest()

"""An instance on one node: its local processes, and the outputs that each of them holds back.

A step of a process takes an event and returns effects.  Timers are set at once.  Outputs, which are
messages and indications, leave only when the durable variables that the step changed are stored.
Until then they are *held*, with those of all later steps of the same process, to keep the order.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from habemus.core.events import Event, note
from habemus.core.node import Effect, PureNode
from habemus.core.process import Process, ProcessId
from habemus.core.values import Indication, Timer
from habemus.runtimes.live.hosting.service import Service
from habemus.runtimes.live.hosting.timers import Alarm

Listener = Callable[[ProcessId, Indication], None]
Choose = Callable[[Any], Any]


Cause: TypeAlias = tuple[str, tuple[Any, ...], int]
"""The event that a step handles: its kind, the arguments of the handler, the number of the message.

Converted to an `Event` only for a record or an error message.
"""


def event_of(cause: Cause, local_process: LocalProcess, time: int) -> Event:
    kind, given, number = cause
    if kind == "receive":
        port, sender, message = given
        return Event(
            time,
            local_process.me,
            kind,
            type(message).__name__,
            message,
            sender,
            number or None,
            local_process.paths[port],
        )
    if kind == "timer":
        port, timer = given
        return Event(
            time,
            local_process.me,
            kind,
            type(timer).__name__,
            timer,
            part=local_process.paths[port],
        )
    if kind == "request":
        name, *arguments = given
        return Event(
            time, local_process.me, kind, name, note(tuple(arguments)) if arguments else None
        )
    return Event(time, local_process.me, kind, value={"stored": given[0]} if given else None)


OnDone: TypeAlias = Callable[[], None] | None
"""Called when the outputs of a step have left."""


class HeldStep(NamedTuple):
    """A step whose outputs wait for a batch to be stored."""

    batch: int
    cause: Cause
    outputs: list[Effect]
    on_done: OnDone


class LocalProcess:
    """A process of an instance that runs on this node."""

    __slots__ = (
        "deferred_requests",
        "held",
        "homes",
        "instance",
        "is_stored",
        "keeps",
        "key",
        "me",
        "paths",
        "peers",
        "pure",
        "stable",
        "stored",
        "timers",
    )

    def __init__(self, instance: Instance, me: ProcessId, choose: Choose) -> None:
        service = instance.service
        stack = service.stacks[me]
        self.instance = instance
        self.me = me
        self.key = f"{service.name}/{me}/{instance.name}"  # in stable memory
        self.peers = instance.peers if service.grows else service.system.topology.neighbours[me]
        self.homes = service.home  # the node of each process
        self.pure = PureNode(stack, me, self.peers, choose)
        self.paths = [part.path for part in stack.parts]
        self.keeps = stack.durable
        self.stable = service.stable[me]
        self.stored: tuple[Any, ...] = self.stable.taken(self.pure.parts)
        self.is_stored = False  # under its own key
        self.held: deque[HeldStep] = deque()
        # None while the process is up; while it is down requests are deferred, messages are lost
        self.deferred_requests: list[tuple[str, tuple[Any, ...], OnDone]] | None = None
        self.timers: dict[tuple[int, Timer], Alarm] = {}  # set timers, by port and timer

    def replug(self, peers: tuple[ProcessId, ...]) -> None:
        """Change the peers, between two steps: messages to others were lost, and are sent now."""
        self.peers = peers
        for part in self.pure.parts:
            part.peers = peers

    def has_request(self, name: str) -> bool:
        return name in type(self.pure.parts[0]).__behaviour__.requests

    def is_initial(self) -> bool:
        return (
            not self.held
            and not self.timers
            and self.deferred_requests is None
            and self.pure.capture() == self.pure.stack.initial
        )


class Instance:
    """The local processes of one instance, and the listeners to their indications."""

    __slots__ = (
        "after_delivery",
        "besides",
        "failed",
        "feedback",
        "is_used",
        "listeners",
        "name",
        "peers",
        "processes",
        "service",
        "service_index",
        "title",
        "unheard",
    )

    def __init__(
        self,
        service: Service,
        service_index: int,
        name: str,
        node: int,
        choose: Choose,
        peers: tuple[ProcessId, ...] = (),
    ) -> None:
        self.service = service
        self.peers = peers  # of its local process, if the service grows
        self.service_index = service_index
        self.name = name
        self.title = f"{service.name}/{name}"
        self.listeners: list[Listener] = []
        # listeners of the node to some indications, which do not keep the instance in use
        self.feedback: Mapping[type[Indication], tuple[Listener, ...]] = {}
        self.after_delivery: Callable[[], None] | None = None  # called after every message
        self.failed: str | None = None  # why it has stopped
        self.unheard: list[Timer] = []  # news that its processes get before any other event
        # of the unnamed instance, which stands for those that are idle: the names of the others
        self.besides: Callable[[], list[str]] | None = None
        self.is_used = True  # since the last sweep
        self.processes = {me: LocalProcess(self, me, choose) for me in service.at(node)}

    def replug(self, peers: tuple[ProcessId, ...]) -> None:
        """Change the peers of the processes of a service that grows."""
        self.peers = peers
        for local_process in self.processes.values():
            local_process.replug(peers)

    def can_be_forgotten(self) -> bool:
        """Return whether the instance is indistinguishable from one that does not exist."""
        if not self.service.is_silent or self.listeners or self.failed is not None:
            return False
        return all(local_process.is_initial() for local_process in self.processes.values())

    def break_cycles(self) -> None:
        """Let reference counts free an instance that was forgotten (`garbage`)."""
        self.processes.clear()


@cache
def _arguments(cls: type[Process], request: str) -> tuple[int, int] | None:
    """Return the least and the largest number of arguments; None if there is no such request."""
    if request not in cls.__behaviour__.requests:
        return None
    parameters = list(inspect.signature(getattr(cls, request)).parameters.values())[1:]
    positional = [
        each
        for each in parameters
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    return sum(each.default is each.empty for each in positional), len(positional)


def check_request(cls: type[Process], request: str, given: int) -> None:
    """Raise for a mistake of the caller, which would otherwise look like one of the algorithm and
    stop the instance.
    """
    takes = _arguments(cls, request)
    if takes is None:
        raise ValueError(
            f"{cls.__name__} has no request {request}; it has"
            f" {', '.join(cls.__behaviour__.requests) or 'none'}"
        )
    if not takes[0] <= given <= takes[1]:
        raise ValueError(f"{request} takes {takes[1]} arguments, not {given}")

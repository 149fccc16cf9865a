"""A node: one operating system process that takes part in a cluster.

It hosts instances of the cluster's services, made on first use: by a request of a local client, or
by a message or notice of a peer. It carries events to them (a message, a request; timers see to
themselves) and lets `Steps` carry out what they lead to.

Before a message reaches a process it has been checked: its sender lives on the node at the other
end of the connection, its receiver lives here, its fields have their declared shapes.  Whoever
sends anything else loses the connection.

A disk that fails stops the node: nothing that is held leaves, and `failure` says why.

After a restart, what was durable is back: each process that had stored something is restored and
told to recover.  An instance without durable variables is gone, as its card says it must not be,
and is made anew when somebody next mentions it.

A node that ends in good order sends its waiting clients to other nodes and lets those that hold a
lock work on for a grace.  It resigns where it leads by an election that has a request `resign`, and
only then ends.  A node whose service has no leader, or that reaches no majority of the nodes of
such a service, sends the clients that wait for it to other nodes as well.

A process that recovers says that its stay is over.  But what a client did in that stay may still go
on: `habemus lock` needs a moment to end its command when the node has gone.  So the participant of
a lock stays down until nobody whom it let in can still be inside, unless the node has ended in good
order when nobody was.

A node with stable memory takes part when every other node knows it by that memory (`membership`).
Until then its processes are down: requests and messages wait.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, cast

import msgspec

from habemus.core.process import ProcessId
from habemus.core.values import Indication, Timer
from habemus.problems.detector import Detector, Restored, Suspected
from habemus.problems.election import Election, Leader
from habemus.problems.mutex import Mutex
from habemus.runtimes.live.clients.connections import ClientConnections
from habemus.runtimes.live.clients.lock_queues import LockQueues
from habemus.runtimes.live.clients.protocol import CLIENT_SHUTDOWN_GRACE_US
from habemus.runtimes.live.clients.watchers import LockWatchers
from habemus.runtimes.live.hosting.failures import InstanceFailed, NodeStopped, TooMany
from habemus.runtimes.live.hosting.instance import Instance, Listener, LocalProcess, check_request
from habemus.runtimes.live.hosting.record import NodeRecorder
from habemus.runtimes.live.hosting.service import Feed, Service, fingerprint
from habemus.runtimes.live.hosting.slices import TimeSlicer
from habemus.runtimes.live.hosting.steps import Steps
from habemus.runtimes.live.hosting.timers import Timers, now_us, random_source
from habemus.runtimes.live.hosting.turn import Turn
from habemus.runtimes.live.log_limits import RateLimitedLog
from habemus.runtimes.live.peers.codec import Refused, check_name, encoded
from habemus.runtimes.live.peers.frames import (
    Frame,
    MessageFrame,
    OpenFrame,
    StatePageFrame,
    StateQueryFrame,
)
from habemus.runtimes.live.peers.handshake import Identity
from habemus.runtimes.live.peers.membership import Membership, StateRecovery, irreplaceable
from habemus.runtimes.live.peers.network import PeerNetwork
from habemus.runtimes.live.settings import Settings
from habemus.runtimes.live.sockets import is_loopback
from habemus.runtimes.live.storage.log import CorruptStorage, StableMemory, StorageFailed

log = logging.getLogger("habemus.live")

SWEEP_AT_ONCE = 200
SWEEP_PAUSE_US = 20_000
CLOSING_SECONDS = 5.0
LOOK_US = 500_000
"""How often a node checks whether its services have a leader and a majority."""
PATIENT_LOOKS = 4
"""So many checks in a row have to fail before clients are sent to other nodes."""
RESIGNATION_SECONDS = 1.0
"""How long a leader that ends waits for its successor."""
HANDOVER_SECONDS = 0.2
"""And how long it then stays to answer what the successor asks about each lock."""
MOST_EARLY = 10_000
JOIN_US = 50_000
RECALL_US = 500_000
"""A question that was not answered for so long is asked again."""
JOIN_PATIENCE_US = 10_000_000
"""A node that does not take part for so long says why, and sends its clients to other nodes."""
LOOK_AFTER_MEMORY_US = 1_000_000
"""How often a node that stores nothing looks whether its stable memory is still in its place."""


class Node:
    """One operating system process of a cluster: hosts the processes of many named instances."""

    def __init__(
        self, settings: Settings, services: Sequence[Service], clock: Callable[[], int] = now_us
    ) -> None:
        self.settings = settings
        self._clock = clock
        self.me = settings.node
        self.services = tuple(sorted(services, key=lambda service: service.name))
        self.configuration = fingerprint(self.services, settings.record is not None).hex()[:16]
        """Digest of what the nodes of a cluster have to agree on."""
        self.counts: Counter[str] = Counter()
        self.address = settings.bind
        self.failure: asyncio.Future[None]  # ends with the reason if the node has to stop
        self._index = {service.name: index for index, service in enumerate(self.services)}
        self._draw = random_source(settings.seed)
        self._instances: dict[tuple[int, str], Instance] = {}
        self._sources = self._listeners_of_sources()
        self._news: dict[int, Timer] = {}  # the latest for all instances of a service that is fed
        self._unswept: list[tuple[int, str]] = []
        self._leaders: dict[tuple[str, str], tuple[ProcessId | None, int]] = {}
        self._suspects: dict[str, set[ProcessId]] = {}
        self._memory: StableMemory | None = None
        self._recollection: StateRecovery | None = None
        self._has_said_why = False  # that it does not take part yet
        self._early: deque[tuple[int, Frame]] = deque(
            maxlen=MOST_EARLY
        )  # messages that came before it took part
        self._recorder: NodeRecorder | None = None
        self._failed_looks: Counter[int] = (
            Counter()
        )  # how often in a row a service had no leader or no majority
        self._is_ending = False
        self._is_hurried = False
        self._stopped = False

    # Beginning and end.

    async def start(self, listening: socket.socket | None = None) -> None:
        """Comes up: takes its address, reads the stable memory, lets what was there recover, and
        begins to talk.
        """
        settings = self.settings
        is_protected = settings.tls is not None and settings.secret is not None
        if not (is_protected or settings.insecure or is_loopback(settings.bind.host)):
            raise ValueError(
                f"{settings.bind} can be reached by other machines, and there are no certificates"
                " or no secret"
            )
        loop = asyncio.get_running_loop()
        self.failure = loop.create_future()
        turn = self._turn = Turn(loop)
        self._timers = Timers(loop, self._draw, self._clock, turn)
        recording = settings.record is not None
        self._memory = self._opened_memory()
        self._membership = Membership(self._memory, self.me, settings.peers, self._fail)
        secrets = (fingerprint(self.services, recording), settings.secret)
        identity = Identity(
            settings.cluster, self.me, frozenset(settings.peers), *secrets, self._membership
        )
        slices, limited_log = TimeSlicer(loop, turn), RateLimitedLog(loop)
        self._slices = slices
        self.lock_queues = LockQueues(self, self._timers, slices)
        self.watchers = LockWatchers(self, self.lock_queues, self._timers, slices)
        clients = ClientConnections(self, self.lock_queues, self.watchers, slices, limited_log)
        heard = (self._received, self._connected)
        self._network = PeerNetwork(
            identity,
            settings.peers,
            *heard,
            clients,
            turn,
            slices,
            limited_log,
            settings.tls,
            settings.seed,
        )
        self.counts = self._network.counts
        try:
            self.address = await self._network.listen(listening or settings.bind, settings.socket)
            if settings.record is not None:
                self._recorder = NodeRecorder(
                    settings.record, settings.cluster, self.me, self.services
                )
            send = self._network.send
            self._steps = Steps(
                loop,
                self._timers,
                self._memory,
                self._recorder,
                send,
                self._fail,
                self._failed,
                self.counts,
                turn,
            )
            if self._membership.is_complete:
                self._take_part()
        except BaseException:
            await self._network.close()
            self._close_files()
            raise
        await self._network.serve()
        self._timers.set(settings.idle_us, self._sweep)
        self._timers.set(LOOK_US, self._look_around)
        if self._memory is not None:
            self._look_after(self._memory)
            self._join(self._memory, 0)

    def _opened_memory(self) -> StableMemory | None:
        settings = self.settings
        if settings.replace and not (settings.folder and settings.peers):
            raise ValueError(
                "--replace: there is no stable memory, or no other node, from which this one could"
                " learn what it has forgotten"
            )
        hindrance = irreplaceable(self.services, self.me) if settings.replace else ""
        if hindrance:
            raise ValueError(
                f"the algorithm of {hindrance} has no way back for a node that has lost its memory:"
                " end all nodes, empty all data folders and begin anew; who holds what, and all"
                " tokens, are then forgotten"
            )
        if settings.folder is None:
            return None
        return StableMemory(
            settings.folder, f"{settings.cluster}/{self.me}", replace=settings.replace
        )

    def _join(self, memory: StableMemory, waited_us: int) -> None:
        """Take part as soon as every other node knows this one by its memory, and has told what it
        knows where that is needed.
        """
        membership = self._membership
        if membership.is_complete or self.failure.done():
            return
        if waited_us >= JOIN_PATIENCE_US:
            waited_us = 0
            self._has_said_why = True
            who = ", ".join(map(str, sorted(membership.missing))) or "others"
            log.warning(
                "node %d does not take part yet: its memory is new, and it still has to hear from"
                " node %s",
                self.me,
                who,
            )
        self._timers.set(JOIN_US, partial(self._join, memory, waited_us + JOIN_US))
        if membership.missing:
            return
        if membership.replaces:
            if self._recollection is None:
                self._recollection = StateRecovery(self.me, self.settings.peers, self.services)
            if waited_us % RECALL_US == 0:
                for peer, question in self._recollection.questions():
                    self.send(peer, question)
            if not self._recollection.is_complete:
                return
        try:
            memory.join([] if self._recollection is None else self._recollection.entries())
        except (StorageFailed, ValueError) as reason:
            self._fail(
                reason
                if isinstance(reason, StorageFailed)
                else StorageFailed(f"what other nodes remember makes no sense: {reason}")
            )
            return
        membership.is_complete = True
        self._recollection = None
        log.info("node %d takes part", self.me)
        self._take_part()

    def _take_part(self) -> None:
        """Let all processes come up: those with something in stable memory recover, the others
        start.
        """
        mentioned = list(self._instances.values())  # before this node took part
        found = set() if self._memory is None else self._recover_all(self._memory)
        for instance in mentioned:
            if instance not in found:
                for local_process in instance.processes.values():
                    self._come_up(local_process, partial(self._steps.start, local_process))
        for index, name in self._sources:
            self.open(self.services[index].name, name)
        while self._early:
            self._received(*self._early.popleft())

    async def stop(self, grace: float = 0.0) -> None:
        """End in good order: clients move to other nodes, a successor is elected, and what is held
        is stored and sent.

        grace: seconds for which clients that hold a lock may go on, unless `hurry` ends it.
        """
        if self._is_ending:
            return
        self._is_ending = True
        for service in self.lock_queues.locks:
            self.lock_queues.close(service, f"node {self.me} is shutting down")
        await self._while(lambda: not self.lock_queues.is_unused(), grace)
        await self._resign()
        self._stopped = True
        self._timers.close()
        for _ in range(int(CLOSING_SECONDS * 100)):
            if self._steps.is_idle or self.failure.done():
                break
            await asyncio.sleep(0.01)
        self._steps.close()
        if self._memory is not None and self._is_vacant():
            try:
                self._memory.leave_vacant()
            except StorageFailed as reason:
                log.warning("%s: the next start will wait for clients that are not there", reason)
        await self._network.close()
        self._close_files()
        if not self.failure.done():
            self.failure.cancel()

    def hurry(self) -> None:
        """End the grace of `stop`, and let it wait for no successor."""
        self._is_hurried = True

    async def _while(self, condition: Callable[[], bool], seconds: float) -> None:
        deadline = self._clock() + round(seconds * 1_000_000)
        while (
            condition()
            and self._clock() < deadline
            and not (self._is_hurried or self.failure.done())
        ):
            await asyncio.sleep(0.01)

    async def _resign(self) -> None:
        """Have a reachable peer elected in the place of this node, and stay until it has taken
        over.
        """
        heirs = self.reaches()
        led = [
            instance
            for instance in self._instances.values()
            if self._leads(instance) and instance.failed is None
        ]
        led = [
            each
            for each in led
            if "resign" in type(each.processes[self.me].pure.parts[0]).__behaviour__.requests
        ]
        if not led or not heirs or self._is_hurried or self.failure.done():
            return
        for instance in led:
            self.make_request_of(instance.processes[self.me], "resign", (heirs[0],))
        await self._while(
            lambda: any(self._leader_of(instance) in (None, self.me) for instance in led),
            RESIGNATION_SECONDS,
        )
        await self._while(lambda: True, HANDOVER_SECONDS)

    def _leader_of(self, instance: Instance) -> ProcessId | None:
        return self._leaders.get((instance.service.name, instance.name), (None, 0))[0]

    def _leads(self, instance: Instance) -> bool:
        return self._leader_of(instance) == self.me

    def _look_around(self) -> None:
        """Close the services that cannot grant anything here for now, so that clients ask
        elsewhere; reopen them later.
        """
        self._timers.set(LOOK_US, self._look_around)
        if self._is_ending:
            return
        for index, service in enumerate(self.services):
            if service.feed is None:
                # only services under a shared election are known to need a leader and a majority
                continue
            why = self._impediment(service.feed)
            self._failed_looks[index] = self._failed_looks[index] + 1 if why else 0
            if not why:
                self.lock_queues.reopen(service.name)
            elif self._failed_looks[index] >= PATIENT_LOOKS:
                self.lock_queues.close(service.name, why)

    def _impediment(self, feed: Feed) -> str:
        """Why nothing is granted here; empty if nothing is in the way."""
        if not self._membership.is_complete:
            return f"node {self.me} does not take part yet" if self._has_said_why else ""
        reached, size = len(self.reaches()) + 1, len(self.settings.peers) + 1
        if 2 * reached <= size:
            return f"node {self.me} reaches {reached - 1} of {size - 1} peers, which is no majority"
        leader, _ = self._leaders.get((feed.service, feed.instance), (None, 0))
        return f"node {self.me} knows of no leader" if leader is None else ""

    def _is_vacant(self) -> bool:
        """Whether nobody is inside, neither by a grant of this life nor, perhaps, by one of the
        life before.
        """
        down = (
            local_process.deferred_requests is not None
            for instance in self._instances.values()
            for local_process in instance.processes.values()
        )
        if not any(map(_parting_us, self.services)) or any(down):
            return False
        return (
            self._steps.is_idle and not self.failure.done() and not self.lock_queues.has_holders()
        )

    def _close_files(self) -> None:
        if self._recorder is not None:
            self._recorder.close(now_us())
        if self._memory is not None:
            self._memory.close()

    def _fail(self, reason: StorageFailed) -> None:
        if not self.failure.done():
            self.failure.set_exception(reason)

    def _look_after(self, memory: StableMemory) -> None:
        try:
            memory.check_place()
        except StorageFailed as reason:
            self._fail(reason)
        else:
            self._timers.set(LOOK_AFTER_MEMORY_US, partial(self._look_after, memory))

    def _failed(self, instance: Instance) -> None:
        self.lock_queues.give_up(
            instance.service.name, instance.name, f"{instance.title} has stopped: {instance.failed}"
        )

    # For those above.

    def open(self, service: str, name: str) -> Instance:
        """The instance, made if there was none."""
        self._check_is_up()
        index = self._index.get(service)
        if index is None:
            raise LookupError(f"there is no service {service}; there are {', '.join(self._index)}")
        found = self._instances.get((index, name))
        if found is not None:
            return found
        check_name(name)
        return self._made(index, name)

    def ask(
        self,
        service: str,
        name: str,
        request: str,
        *arguments: Any,
        told: Callable[[], None] | None = None,
    ) -> None:
        """Makes a request of the local participant.  `told` is called when what it leads to at once
        has been stored and sent.
        """
        local_process = self.participant(service, name)
        check_request(type(local_process.pure.parts[0]), request, len(arguments))
        self.make_request_of(local_process, request, arguments, told)

    def participant(self, service: str, name: str) -> LocalProcess:
        """That of this node in an instance, which stays the same for as long as somebody listens to
        it.
        """
        return self.open(service, name).processes[self.me]

    def make_request_of(
        self,
        local_process: LocalProcess,
        request: str,
        arguments: tuple[Any, ...] = (),
        told: Callable[[], None] | None = None,
    ) -> None:
        """Makes a request that the participant is known to have."""
        self._check_is_up()
        self._steps.request(local_process, request, arguments, told)
        instance = local_process.instance
        if instance.failed is not None:
            raise InstanceFailed(f"{instance.title} has stopped: {instance.failed}")

    def _check_is_up(self) -> None:
        if self._stopped or self.failure.done():
            raise NodeStopped(f"node {self.me} has stopped")

    async def request(self, service: str, name: str, request: str, *arguments: Any) -> None:
        """The same, and returns when it has been stored and sent."""
        done = asyncio.get_running_loop().create_future()
        self.ask(service, name, request, *arguments, told=partial(_finish, done))
        if not done.done():
            await asyncio.wait((done, self.failure), return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            reason = None if self.failure.cancelled() else self.failure.exception()
            raise NodeStopped(f"node {self.me} has stopped{f': {reason}' if reason else ''}")

    def subscribe(self, service: str, name: str, listener: Listener) -> Callable[[], None]:
        """The listener is told every indication of the instance's processes here; call what this
        gives to end that.
        """
        instance = self.open(service, name)
        instance.listeners.append(listener)
        return partial(instance.listeners.remove, listener)

    def left_us(self, local_process: LocalProcess) -> int | None:
        """How long what a process of a mutex holds is good for, if it is not renewed; None where it
        does not run out.
        """
        timer = cast(Mutex, local_process.pure.parts[0]).runs_out()
        if timer is None:
            return None
        alarm = local_process.timers.get((0, timer))
        return 0 if alarm is None else self._timers.left(alarm)

    def is_recorded(self, service: str, name: str) -> bool:
        """Whether what happens to this instance is written down."""
        return self._recorder is not None and (self._index[service], name) in self._instances

    def send(self, peer: int, frame: Frame) -> None:
        self._network.send(peer, encoded(frame))

    def number_of(self, service: str) -> int:
        """By which frames name it."""
        return self._index[service]

    def instances(self) -> list[Instance]:
        return list(self._instances.values())

    def leaders(self) -> list[tuple[str, str, ProcessId | None, int]]:
        """Of each election: whom the local participant takes for the leader, and in which term."""
        return [
            (service, name, leader, term)
            for (service, name), (leader, term) in sorted(self._leaders.items())
        ]

    def suspects(self) -> dict[str, list[ProcessId]]:
        """Of each detector: whom it suspects."""
        return {title: sorted(suspected) for title, suspected in sorted(self._suspects.items())}

    def reaches(self) -> list[int]:
        """The peers to which there is a connection now."""
        return self._network.reaches()

    # Instances come and go.

    def _new(self, index: int, name: str) -> Instance:
        instance = Instance(self.services[index], index, name, self.me, self._draw.choice)
        instance.listeners += self._sources.get(
            (index, name), ()
        )  # before it starts: what it says then is news as well
        if isinstance(next(iter(instance.service.system.plans.values())), Election | Detector):
            instance.listeners.append(partial(self._note, instance))
        if not self._membership.is_complete:
            for local_process in instance.processes.values():
                local_process.deferred_requests = []
        self._instances[index, name] = instance
        return instance

    def _note(self, instance: Instance, process: ProcessId, said: Indication) -> None:
        """What those who look at this node want to see: who leads, who is suspected."""
        if process != self.me:
            return
        if isinstance(said, Leader):
            self._leaders[instance.service.name, instance.name] = (said.process, said.term)
        elif isinstance(said, Suspected):
            self._suspects.setdefault(instance.title, set()).add(said.process)
        elif isinstance(said, Restored):
            self._suspects.setdefault(instance.title, set()).discard(said.process)

    def _made(self, index: int, name: str) -> Instance:
        if len(self._instances) >= self.settings.most_instances:
            raise TooMany(f"this node hosts {len(self._instances)} instances, as many as it may")
        instance = self._new(index, name)
        if not instance.service.is_silent:
            notice = encoded(OpenFrame(index, name))
            for peer in self.settings.peers:
                self._network.send(peer, notice)
        for local_process in instance.processes.values():
            self._steps.start(local_process)
            self._tell_news(local_process)
        return instance

    def _recover_all(self, memory: StableMemory) -> set[Instance]:
        found: dict[tuple[int, str], dict[ProcessId, bytes]] = {}
        for key, value in memory.table.items():
            service, process, name = key.split("/", 2)
            index = self._index.get(service)
            if index is None:
                log.warning(
                    "%s/%s is in stable memory, and there is no service %s any more: left as it is",
                    service,
                    name,
                    service,
                )
                continue
            found.setdefault((index, name), {})[int(process)] = value
        for (index, name), stored in sorted(found.items()):
            instance = self._instances.get((index, name)) or self._new(index, name)
            for me, local_process in instance.processes.items():
                try:
                    begin: Callable[[], None] = partial(self._steps.start, local_process)
                    if me in stored:
                        begin = partial(
                            self._steps.recover,
                            local_process,
                            self._steps.restore(local_process, stored[me]),
                        )
                    parting_us = (
                        _parting_us(instance.service)
                        if me == self.me and not memory.was_vacant
                        else 0
                    )
                    if parting_us:
                        local_process.deferred_requests = local_process.deferred_requests or []
                        self._timers.set(parting_us, partial(self._come_up, local_process, begin))
                    else:
                        self._come_up(local_process, begin)
                except (msgspec.DecodeError, ValueError) as reason:
                    raise CorruptStorage(
                        f"what is stored of {instance.title} is not of this algorithm or these"
                        f" options: {reason}"
                    ) from None

        return {self._instances[key] for key in found}

    def _come_up(self, local_process: LocalProcess, begin: Callable[[], None]) -> None:
        asked, local_process.deferred_requests = local_process.deferred_requests, None
        begin()
        self._tell_news(local_process)
        for each in asked or ():
            self._steps.request(local_process, *each)

    def _sweep(self) -> None:
        """Forgets what nobody has used since the last time, and what cannot be told from what never
        was; a few at a time, so that nobody waits for it."""
        if not self._unswept:
            self.lock_queues.sweep()
            self._unswept = list(self._instances)
        for key in self._unswept[-SWEEP_AT_ONCE:]:
            instance = self._instances.get(key)
            if instance is None:
                continue
            if instance.is_used:
                instance.is_used = False
            elif instance.can_be_forgotten():
                del self._instances[key]
                self.counts["forgotten"] += 1
                for local_process in instance.processes.values():
                    self._steps.forget(local_process)
        del self._unswept[-SWEEP_AT_ONCE:]
        self._timers.set(SWEEP_PAUSE_US if self._unswept else self.settings.idle_us, self._sweep)

    # LockStatusFrame for all instances of a service.

    def _listeners_of_sources(self) -> dict[tuple[int, str], list[Listener]]:
        """For each instance by which others are fed, who has to hear what it says."""
        found: dict[tuple[int, str], list[Listener]] = {}
        for index, service in enumerate(self.services):
            if service.feed is not None:
                source = (self._index[service.feed.service], service.feed.instance)
                found.setdefault(source, []).append(partial(self._hear_news, index, service.feed))
        return found

    def _hear_news(
        self, index: int, feed: Feed, process: ProcessId, indication: Indication
    ) -> None:
        news = feed.news(indication) if process == self.me else None
        if news is not None:
            self._news[index] = news
            told = [
                instance for instance in self._instances.values() if instance.service_index == index
            ]
            self._slices.run(feed, self._tell_all(told, feed.part, news))

    def _tell_all(self, instances: list[Instance], part: str, news: Timer) -> Iterator[None]:
        for instance in instances:
            for local_process in instance.processes.values():
                self._steps.tell(local_process, part, news)
            yield

    def _tell_news(self, local_process: LocalProcess) -> None:
        instance = local_process.instance
        news = self._news.get(instance.service_index)
        if news is not None and instance.service.feed is not None:
            self._steps.tell(local_process, instance.service.feed.part, news)

    # From the peers.

    def _connected(self, peer: int) -> None:
        """A notice may have been lost with a connection, so a peer hears of everything again."""
        for (index, name), instance in self._instances.items():
            if not instance.service.is_silent:
                self._network.send(peer, encoded(OpenFrame(index, name)))
        self.watchers.connected(peer)

    def _received(self, peer: int, frame: Frame) -> Refused | None:
        if isinstance(frame, StateQueryFrame):
            self.send(peer, self._membership.page_after(peer, frame, self._instances))
            return None
        if isinstance(frame, StatePageFrame):
            return self._recall(peer, frame)
        if not self._membership.is_complete and isinstance(frame, MessageFrame):
            self._early.append((peer, frame))  # as if it were still under way
            return None
        if not 0 <= frame.service < len(self.services) or not frame.instance:
            return Refused("a frame for no instance")
        service = self.services[frame.service]
        if isinstance(frame, MessageFrame):
            to, sender, port = frame.to, frame.sender, frame.port
            if service.home.get(sender) != peer or service.home.get(to) != self.me:
                return Refused(
                    f"a message from process {sender} to {to}, which node {peer} cannot send to"
                    " this one"
                )
            codecs = service.codecs[to]
            if not 0 <= port < len(codecs):
                return Refused(f"process {to} of {service.name} has no part {port}")
            message = codecs[port].decode(frame.kind, frame.fields)
            if isinstance(message, Refused):
                return message
            instance = self._mentioned(frame.service, frame.instance)
            if instance is not None:
                self._steps.deliver(instance.processes[to], sender, port, message, frame.number)
                if instance.after_delivery is not None:
                    instance.after_delivery()
        elif isinstance(frame, OpenFrame):
            self._mentioned(frame.service, frame.instance)
        else:
            self.watchers.hear(peer, service.name, frame)
        return None

    def _recall(self, peer: int, page: StatePageFrame) -> Refused | None:
        further = None if self._recollection is None else self._recollection.take(peer, page)
        if isinstance(further, StateQueryFrame):
            self.send(peer, further)
        return further if isinstance(further, Refused) else None

    def _mentioned(self, index: int, name: str) -> Instance | None:
        """The instance of which a peer speaks, made if there was none; None if this node cannot
        host any more.
        """
        found = self._instances.get((index, name))
        if found is not None:
            return found
        try:
            return self._made(index, name)
        except TooMany:
            self.counts["turned away"] += 1
            return None


def _parting_us(service: Service) -> int:
    """How long those that hold locks may go on after their node has died, if it was the participant
    of this service that let them in.
    """
    plan = next(iter(service.system.plans.values()))
    if not isinstance(plan, Mutex):
        return 0
    return cast(int, getattr(plan, "lease", 0)) or 2 * CLIENT_SHUTDOWN_GRACE_US


def _finish(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)

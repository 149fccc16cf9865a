"""A node: one operating system process of a cluster.

It hosts instances of the cluster's services.  They are created on first use, by a request of a
local client or by a frame of a peer.  The node passes events to them; `Steps` carries out their
effects.

Every message is checked before it reaches a process: its sender runs on the node at the other end
of the connection, its receiver runs here, its fields have their declared shapes.  Any other frame
closes the connection.

A disk error stops the node: held outputs never leave, and `failure` has the reason.

After a restart, each process that had stored durable variables is restored and recovers.  Volatile
state is lost; the cards of algorithms without durable variables exclude such restarts.

A clean shutdown refuses waiting clients, so that they use other nodes, and waits for a grace period
for clients that hold a lock.  Where the node leads by an election with a request `resign`, it
resigns.  A node whose service has no leader, or that reaches no majority of the nodes of such a
service, refuses waiting clients as well.

A process that recovers indicates that its lease has ended.  But its client may still be at work:
`habemus lock` needs a moment to stop its command when the node crashes.  So the participant of a
lock stays down until no client of the earlier life can be at work, unless the node was shut down
when no client held a lock.

A node with stable memory takes part when every other node knows the identity of that memory
(`membership`).  Until then its processes are down, and requests and messages wait.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

import msgspec

from habemus.core.process import ProcessId
from habemus.problems.detector import Detector
from habemus.problems.election import Election
from habemus.problems.mutex import Mutex
from habemus.runtimes.live.clients.connections import ClientConnections
from habemus.runtimes.live.clients.lock_queues import LockQueues
from habemus.runtimes.live.clients.protocol import CLIENT_SHUTDOWN_GRACE_US
from habemus.runtimes.live.clients.watchers import LockWatchers
from habemus.runtimes.live.cluster_file import Address
from habemus.runtimes.live.hosting.conversion import convert_entries
from habemus.runtimes.live.hosting.failures import InstanceFailed, NodeStopped, TooMany
from habemus.runtimes.live.hosting.feeds import Feeds
from habemus.runtimes.live.hosting.idle import IdleInstances
from habemus.runtimes.live.hosting.instance import Instance, Listener, LocalProcess, check_request
from habemus.runtimes.live.hosting.joining import Joining
from habemus.runtimes.live.hosting.members import ClusterMembers
from habemus.runtimes.live.hosting.observations import Observations
from habemus.runtimes.live.hosting.record import NodeRecorder
from habemus.runtimes.live.hosting.service import Service, fingerprint
from habemus.runtimes.live.hosting.service_checks import ServiceChecks
from habemus.runtimes.live.hosting.slices import TimeSlicer
from habemus.runtimes.live.hosting.steps import Steps
from habemus.runtimes.live.hosting.timers import Timers, now_us, random_source
from habemus.runtimes.live.hosting.turn import Turn
from habemus.runtimes.live.log_limits import RateLimitedLog
from habemus.runtimes.live.monitoring.monitor import Monitor
from habemus.runtimes.live.peers.codec import (
    Refused,
    TermBound,
    check_name,
    encoded,
    message_prefix,
)
from habemus.runtimes.live.peers.frames import (
    Frame,
    IdleMessageFrame,
    MessageFrame,
    OpenFrame,
    StatePageFrame,
    StateQueryFrame,
    StayAnswerFrame,
    StayQueryFrame,
    TicketKeyFrame,
)
from habemus.runtimes.live.peers.handshake import Identity
from habemus.runtimes.live.peers.membership import Membership, irreplaceable
from habemus.runtimes.live.peers.network import PeerNetwork
from habemus.runtimes.live.peers.tls import TlsContexts
from habemus.runtimes.live.settings import Settings
from habemus.runtimes.live.sockets import is_loopback
from habemus.runtimes.live.storage.log import CorruptStorage, StableMemory, StorageFailed

log = logging.getLogger("habemus.live")

SWEEP_AT_ONCE = 200
SWEEP_PAUSE_US = 20_000
CLOSING_SECONDS = 5.0
RESIGNATION_SECONDS = 1.0
"""How long a leader that shuts down waits for its successor."""
HANDOVER_SECONDS = 0.2
"""How long it then stays up to answer the inquiries of the successor."""
MOST_EARLY = 10_000
FORGET_US = 200_000
"""How often a node gives back locks that no client uses, and looks for idle instances."""
FORGET_SHARE_US = 100
"""More time between two looks for each instance, so that many of them do not keep the node busy."""
CHECK_MEMORY_US = 1_000_000
"""How often a node checks that the file of its stable memory is still there."""


class Node:
    """One operating system process of a cluster: hosts the processes of many named instances."""

    def __init__(
        self, settings: Settings, services: Sequence[Service], clock: Callable[[], int] = now_us
    ) -> None:
        self.settings = settings
        self._clock = clock
        self.me = settings.node
        self.services = tuple(sorted(services, key=lambda service: service.name))
        self._fingerprint = fingerprint(
            self.services, settings.record is not None, settings.semaphores, settings.rules
        )
        self.configuration = self._fingerprint.hex()[:16]
        """Digest of what the nodes of a cluster have to agree on."""
        self.counts: Counter[str] = Counter()
        self.address = settings.bind
        self.failure: asyncio.Future[None]  # set if the node has to stop
        self._index = {service.name: index for index, service in enumerate(self.services)}
        self._draw = random_source(settings.seed)
        self._instances: dict[tuple[int, str], Instance] = {}
        self._idle = IdleInstances(self._instances)
        self._feeds = Feeds(self.me, self.services, self._instances, self._idle.representatives)
        self.members = ClusterMembers(self, self._instances, self._idle.representatives)
        self.removal = ""  # why the node is not in the cluster any more
        self.removed = asyncio.Event()
        self.left_orderly = False  # it was removed while it took part
        self._unswept: list[tuple[int, str]] = []
        self._observations = Observations(self.me)
        self._memory: StableMemory | None = None
        self._joining: Joining | None = None
        # messages that arrived before this node took part
        self._early: deque[tuple[int, Frame]] = deque(maxlen=MOST_EARLY)
        self._terms = TermBound()
        self._recorder: NodeRecorder | None = None
        self._waited_us = 0  # before it started, because its machine had crashed
        self._is_ending = False
        self._is_hurried = False
        self._stopped = False

    # Start and stop.

    async def start(self, listening: socket.socket | None = None) -> None:
        """Bind the address, read stable memory, recover the processes, and begin to serve."""
        self._check_protection()
        loop = asyncio.get_running_loop()
        self.failure = loop.create_future()
        self._assemble(loop)
        try:
            await self._outwait_losses()
            await self._listen(loop, listening)
        except BaseException:
            await self._monitor.close()
            await self._network.close()
            self._close_files()
            raise
        await self._network.serve()
        self._schedule()

    async def _outwait_losses(self) -> None:
        """Stay down until what a crash of the machine may have lost is of no use any more."""
        memory = self._memory
        if memory is None:
            return
        down_us = max(
            service.stable[process].down_us
            for service in self.services
            for process in service.at(self.me)
        )
        if memory.lost_us:
            wait_us = max(memory.lost_us, down_us)
            log.warning(
                "the machine has crashed: records of grants may be lost; this node starts in %.1f"
                " seconds, when the leases of those grants have expired",
                wait_us / 1_000_000,
            )
            await asyncio.sleep(wait_us / 1_000_000)
            self._waited_us = wait_us
        if down_us:
            memory.begin_recent(down_us)

    def _check_protection(self) -> None:
        settings = self.settings
        is_protected = settings.tls is not None and settings.secret is not None
        if not (is_protected or settings.insecure or is_loopback(settings.bind.host)):
            raise ValueError(
                f"{settings.bind} can be reached by other machines without certificates and secret;"
                " give both, bind to 127.0.0.1, or set insecure"
            )

    def _assemble(self, loop: asyncio.AbstractEventLoop) -> None:
        """Open stable memory, and make the parts of the node."""
        settings = self.settings
        turn = self._turn = Turn(loop)
        self._timers = Timers(loop, self._draw, self._clock, turn)
        self._memory = self._opened_memory()
        self._membership = Membership(self._memory, self.me, self.peers, self._fail)
        slices, limited_log = TimeSlicer(loop, turn), RateLimitedLog(loop)
        self._slices = slices
        self.lock_queues = LockQueues(self, self._timers, slices)
        self.lock_queues.releases_on_disconnect = settings.release_on_disconnect
        self._monitor = Monitor(self, limited_log)
        self.watchers = LockWatchers(self, self.lock_queues, self._timers, slices)
        self._service_checks = ServiceChecks(
            self, self._observations, self.lock_queues, self._timers
        )
        self._clients = ClientConnections(
            self, self.lock_queues, self.watchers, slices, limited_log
        )
        self._network = PeerNetwork(
            self._identity(),
            self.peers,
            self._received,
            self._connected,
            self._clients,
            turn,
            slices,
            limited_log,
            settings.tls,
            settings.seed,
            frozenset(
                message_prefix(index)
                for index, service in enumerate(self.services)
                if service.is_urgent
            ),
            self._terms,
        )
        self.counts = self._network.counts
        self.members.begin(self._network, self._membership)

    def _identity(self) -> Identity:
        return Identity(
            self.settings.cluster,
            self.me,
            self.members.accepted,
            self._fingerprint,
            self.settings.secret,
            self._membership,
            self.members,
        )

    async def _listen(
        self, loop: asyncio.AbstractEventLoop, listening: socket.socket | None
    ) -> None:
        """Listen, and start the processes if the other nodes know this one."""
        settings = self.settings
        self.address = await self._network.listen(listening or settings.bind, settings.socket)
        if settings.record is not None:
            self._recorder = NodeRecorder(settings.record, settings.cluster, self.me, self.services)
        self._steps = Steps(
            loop,
            self._timers,
            self._memory,
            self._recorder,
            self._network.send,
            [service.codecs for service in self.services],
            self._fail,
            self._failed,
            self.counts,
            self._turn,
        )
        self._feeds.begin(self._steps, self._slices, self._timers, self.counts)
        self._idle.begin(self._steps, self._slices)
        await self._monitor.start(self._steps)
        if self._membership.is_complete:
            self._take_part()
        self.members.check_file(self._memory)

    def _schedule(self) -> None:
        """Set the timers of what a node does again and again."""
        self._timers.set(self.settings.idle_us, self._sweep)
        self._timers.set(self._forget_us, self._forget_idle)
        self._service_checks.schedule()
        if self._memory is not None:
            self._check_memory(self._memory)
            self._joining = Joining(
                self,
                self._memory,
                self._membership,
                self._timers,
                self._fail,
                self._take_part,
            )
            self._joining.attempt()

    def _opened_memory(self) -> StableMemory | None:
        settings = self.settings
        if settings.replace and not (settings.folder and settings.peers):
            raise ValueError(
                "--replace: this node has no stable memory, or there is no other node to recover"
                " from; start it without --replace"
            )
        hindrance = irreplaceable(self.services, self.me) if settings.replace else ""
        if hindrance:
            raise ValueError(
                f"--replace: the algorithm of service {hindrance} cannot recover a node that has"
                " lost its memory; stop all nodes, empty all data folders and start the cluster"
                " anew; all locks and tokens are then lost"
            )
        if settings.folder is None:
            return None
        return StableMemory(
            settings.folder, f"{settings.cluster}/{self.me}", replace=settings.replace
        )

    def _take_part(self) -> None:
        """Start all processes; those with entries in stable memory recover."""
        mentioned = list(self._instances.values())  # before this node took part
        if self._memory is not None:
            convert_entries(self._memory, self.services, self.me, self.settings.peers)
        stored = {} if self._memory is None else self._stored_in(self._memory)
        for index, service in enumerate(self.services):
            if service.is_forgetful and self._recorder is None:
                representative = self._new_instance(index, "")
                self._idle.add(representative)
                self._recover(representative, stored.pop((index, ""), {}))
        for (index, name), found in sorted(stored.items()):
            self._recover(self._instances.get((index, name)) or self._new(index, name), found)
        for instance in mentioned:
            if (instance.service_index, instance.name) not in stored:
                for local_process in instance.processes.values():
                    self._come_up(local_process, partial(self._begin, local_process))
        for index, name in self._feeds.sources:
            self.open(self.services[index].name, name)
        while self._early:
            self._received(*self._early.popleft())

    async def stop(self, grace: float = 0.0) -> None:
        """Shut down: refuse clients, hand over leadership, store and send held outputs.

        grace: seconds to wait for clients that hold a lock, unless `hurry` is called.
        """
        if self._is_ending:
            return
        self._is_ending = self._service_checks.is_over = True
        for service in self.lock_queues.locks:
            self.lock_queues.close(service, f"node {self.me} is shutting down")
        if grace and (self.removal or self.reaches()):
            self.lock_queues.ask_to_move(f"node {self.me} is shutting down")
        # The other nodes refuse one that was removed: it hears of nothing that it waits for.
        is_unused = self.lock_queues.is_left if self.removal else self.lock_queues.is_unused
        await self._while(lambda: not is_unused(), grace)
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
                log.warning("%s: the next start will wait although no client holds a lock", reason)
        await self._monitor.close()
        await self._network.close()
        self._close_files()
        if not self.failure.done():
            self.failure.cancel()

    def leave(self, reason: str, *, is_orderly: bool) -> None:
        """Note that this node is not in the cluster any more: the application has to stop it.

        is_orderly: it was removed while it took part.  Otherwise it should not have been started.
        """
        if not self.removal:
            self.removal = reason
            self.left_orderly = is_orderly
            log.warning("%s", reason)
            self.removed.set()

    def announce(self, configuration: int, nodes: Mapping[str, str]) -> None:
        """Tell the clients of this node which nodes there are now."""
        self._clients.announce(configuration, nodes)

    def hurry(self) -> None:
        """End the grace period of `stop`, and do not wait for a successor."""
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
        """Resign in favour of a reachable peer, and stay up until it has taken over."""
        successors = self.reaches()
        led = [
            instance
            for instance in self._instances.values()
            if self._leader_of(instance) == self.me and instance.failed is None
        ]
        led = [each for each in led if each.processes[self.me].has_request("resign")]
        if not led or not successors or self._is_hurried or self.failure.done():
            return
        for instance in led:
            self.make_request_of(instance.processes[self.me], "resign", (successors[0],))
        await self._while(
            lambda: any(self._leader_of(instance) in (None, self.me) for instance in led),
            RESIGNATION_SECONDS,
        )
        await self._while(lambda: True, HANDOVER_SECONDS)

    def _leader_of(self, instance: Instance) -> ProcessId | None:
        return self._observations.leader(instance.service.name, instance.name)

    def _is_vacant(self) -> bool:
        """Return whether no client holds a lock, neither of this life nor of the one before."""
        down = (
            local_process.deferred_requests is not None
            for instance in self._instances.values()
            for local_process in instance.processes.values()
        )
        if not any(map(_shutdown_grace_us, self.services)) or any(down):
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

    def _check_memory(self, memory: StableMemory) -> None:
        try:
            memory.check_place()
        except StorageFailed as reason:
            self._fail(reason)
        else:
            self._timers.set(CHECK_MEMORY_US, partial(self._check_memory, memory))

    def _failed(self, instance: Instance) -> None:
        self.lock_queues.give_up(
            instance.service.name, instance.name, f"{instance.title} has stopped: {instance.failed}"
        )

    # For clients and embedding applications.

    def open(self, service: str, name: str) -> Instance:
        """Return the instance; create it if necessary."""
        self._check_is_up()
        index = self._index.get(service)
        if index is None:
            raise LookupError(f"no service {service!r}; this cluster has {', '.join(self._index)}")
        found = self._instances.get((index, name))
        if found is not None:
            return found
        check_name(name)
        return self._made(index, name)

    def make_request(
        self,
        service: str,
        name: str,
        request: str,
        *arguments: Any,
        on_done: Callable[[], None] | None = None,
    ) -> None:
        """Make a request of the local participant.  Call `on_done` when the outputs of its step are
        stored and sent.
        """
        local_process = self.participant(service, name)
        check_request(type(local_process.pure.parts[0]), request, len(arguments))
        self.make_request_of(local_process, request, arguments, on_done)

    def participant(self, service: str, name: str) -> LocalProcess:
        """Return this node's process of an instance.  It stays valid while the instance has a
        listener.
        """
        return self.open(service, name).processes[self.me]

    def make_request_of(
        self,
        local_process: LocalProcess,
        request: str,
        arguments: tuple[Any, ...] = (),
        on_done: Callable[[], None] | None = None,
    ) -> None:
        """Make a request that the participant is known to have."""
        self._check_is_up()
        self._steps.request(local_process, request, arguments, on_done)
        instance = local_process.instance
        if instance.failed is not None:
            raise InstanceFailed(f"{instance.title} has stopped: {instance.failed}")

    def _check_is_up(self) -> None:
        if self._stopped or self.failure.done():
            raise NodeStopped(f"node {self.me} has stopped")

    async def request(self, service: str, name: str, request: str, *arguments: Any) -> None:
        """Make a request, and return when its outputs have been stored and sent."""
        done = asyncio.get_running_loop().create_future()
        self.make_request(service, name, request, *arguments, on_done=partial(_finish, done))
        if not done.done():
            await asyncio.wait((done, self.failure), return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            reason = None if self.failure.cancelled() else self.failure.exception()
            raise NodeStopped(f"node {self.me} has stopped{f': {reason}' if reason else ''}")

    def subscribe(self, service: str, name: str, listener: Listener) -> Callable[[], None]:
        """Call the listener with every indication of the local processes of an instance.  Return a
        function that ends the subscription.
        """
        instance = self.open(service, name)
        instance.listeners.append(listener)
        return partial(instance.listeners.remove, listener)

    def left_us(self, local_process: LocalProcess) -> int | None:
        """Time until the grant of a mutex process expires if it is not renewed; None if it does not
        expire.
        """
        timer = cast(Mutex, local_process.pure.parts[0]).runs_out()
        if timer is None:
            return None
        alarm = local_process.timers.get((0, timer))
        return 0 if alarm is None else max(0, alarm.deadline - self._timers.turn_us())

    def is_late(self, local_process: LocalProcess) -> bool:
        """Return whether a timer of the process is overdue."""
        if not local_process.timers:
            return False
        now = self._timers.turn_us()
        for alarm in local_process.timers.values():  # noqa: SIM110  # compiled without a generator
            if alarm.deadline <= now:
                return True
        return False

    def is_recorded(self, service: str, name: str) -> bool:
        """Return whether the events of this instance are recorded."""
        return self._recorder is not None and (self._index[service], name) in self._instances

    def send(self, peer: int, frame: Frame) -> None:
        self._network.send(peer, encoded(frame))

    def service_index(self, service: str) -> int:
        """Index of the service in wire frames."""
        return self._index[service]

    def instances(self) -> list[Instance]:
        return list(self._instances.values())

    def leader_of(self, service: str, name: str) -> tuple[ProcessId | None, int]:
        """Leader and term of an election, as known to this node."""
        return self._observations.leader_and_term(service, name)

    def leaders(self) -> list[tuple[str, str, ProcessId | None, int]]:
        """Service, instance, leader and term of each election, as known to this node."""
        return self._observations.leaders()

    def suspects(self) -> dict[str, list[ProcessId]]:
        """Processes that each detector suspects."""
        return self._observations.suspects()

    def term(self) -> int:
        """Highest term of all elections, as known to this node; 0 if it knows none."""
        return max((term for *_, term in self._observations.leaders()), default=0)

    def leader_changes(self) -> Counter[str]:
        """Count the changes of leaders that this node has seen, by service."""
        return self._observations.changes

    def clients(self) -> int:
        """Number of connections of clients."""
        return len(self._clients.connections)

    def impediments(self) -> list[str]:
        """Return why clients cannot get locks at this node, or may lose locks if another node fails
        now; nothing if neither is so.
        """
        if self._stopped or self._is_ending or self.failure.done():
            return [f"node {self.me} is shutting down"]
        if not self.is_member:
            return [f"node {self.me} does not take part yet: every other node has to meet it once"]
        return self._service_checks.impediments() or self.unsettled()

    def unsettled(self) -> list[str]:
        """Return why clients may lose locks if another node fails now; nothing if none would."""
        return self._service_checks.unsettled()

    @property
    def metrics_address(self) -> Address | None:
        """Address of metrics and probes."""
        return self._monitor.address

    @property
    def certificate_expires(self) -> float | None:
        """End of the node's certificate, in seconds of the epoch."""
        return None if self._network.tls is None else self._network.tls.expires

    def use_certificates(self, tls: TlsContexts) -> None:
        """Use these certificates for new connections; those that are open stay."""
        self._network.use(tls)
        self._monitor.use(tls)

    @property
    def is_member(self) -> bool:
        """Whether this node takes part: all other nodes know its stable memory."""
        return self._membership.is_complete

    @property
    def is_late_to_join(self) -> bool:
        """Whether this node has waited long to take part, and has logged why."""
        return self._joining is not None and self._joining.is_late

    @property
    def peers(self) -> Mapping[int, Address]:
        """The other nodes and their addresses, as this node knows them now."""
        return self.members.peers

    def reaches(self) -> list[int]:
        """Return the peers to which there is a connection."""
        return self._network.reaches()

    # Instances.

    def _new_instance(self, index: int, name: str) -> Instance:
        peers = tuple(sorted(self.peers))
        return Instance(self.services[index], index, name, self.me, self._draw.choice, peers)

    def _new(self, index: int, name: str) -> Instance:
        instance = self._new_instance(index, name)
        # subscribed before it starts: its first indications count too
        instance.listeners += self._feeds.sources.get((index, name), ())
        instance.feedback = self._feeds.feedback.get(index, {})
        if isinstance(next(iter(instance.service.system.plans.values())), Election | Detector):
            instance.listeners.append(partial(self._observations.note, instance))
            if instance.service.grows:
                instance.listeners.insert(0, self.members.note)  # before locks send by them
        if not self._membership.is_complete:
            for local_process in instance.processes.values():
                local_process.deferred_requests = []
        self._instances[index, name] = instance
        return instance

    def _made(self, index: int, name: str) -> Instance:
        if len(self._instances) >= self.settings.most_instances:
            raise TooMany(f"this node hosts {len(self._instances)} instances, its limit")
        instance = self._new(index, name)
        if not instance.service.is_silent:
            for peer in self.peers:
                self.send(peer, OpenFrame(index, name))
        for local_process in instance.processes.values():
            self._begin(local_process)
        return instance

    def _begin(self, local_process: LocalProcess) -> None:
        if not self._idle.wake(local_process):
            self._steps.start(local_process)
            self._feeds.tell(local_process)

    def _stored_in(self, memory: StableMemory) -> dict[tuple[int, str], dict[ProcessId, bytes]]:
        """Return the entries of the processes of each instance."""
        found: dict[tuple[int, str], dict[ProcessId, bytes]] = {}
        for key, value in memory.table.items():
            service, process, name = key.split("/", 2)
            index = self._index.get(service)
            if index is None:
                log.warning(
                    "ignored %s/%s in stable memory: the cluster has no service %s any more",
                    service,
                    name,
                    service,
                )
                continue
            found.setdefault((index, name), {})[int(process)] = value
        return found

    def _recover(self, instance: Instance, stored: dict[ProcessId, bytes]) -> None:
        """Bring up the processes of an instance, with the entries that were stored."""
        for me, local_process in instance.processes.items():
            try:
                begin: Callable[[], None] = partial(self._steps.start, local_process)
                if me in stored:
                    plain = self._steps.restore(local_process, stored[me])
                    begin = partial(self._steps.recover, local_process, plain)
                    self._terms.note_stored(local_process.pure.parts)
            except (msgspec.DecodeError, ValueError) as reason:
                raise CorruptStorage(
                    f"stable memory of {instance.title} does not fit its algorithm and options;"
                    f" restore the earlier configuration ({reason})"
                ) from None
            come_up = partial(
                self._come_up, local_process, partial(self._tell_after, begin, local_process)
            )
            grace_us = self._grace_us(instance) if me == self.me else 0
            if grace_us:
                local_process.deferred_requests = local_process.deferred_requests or []
                self._timers.set(grace_us, come_up)
            else:
                come_up()

    def _grace_us(self, instance: Instance) -> int:
        """Time until no client of an earlier life can hold the lock: none where it was idle."""
        if self._memory is None or self._memory.was_vacant or not instance.name:
            return 0
        return max(0, _shutdown_grace_us(instance.service) - self._waited_us)

    def _come_up(self, local_process: LocalProcess, begin: Callable[[], None]) -> None:
        asked, local_process.deferred_requests = local_process.deferred_requests, None
        begin()
        for each in asked or ():
            self._steps.request(local_process, *each)

    def _tell_after(self, begin: Callable[[], None], local_process: LocalProcess) -> None:
        begin()
        self._feeds.tell(local_process)

    def _sweep(self) -> None:
        """Drop instances that are unused since the last sweep and in their initial state.  Handle a
        few at a time, to keep the loop responsive.
        """
        if not self._unswept:
            self._unswept = list(self._instances)
        for key in self._unswept[-SWEEP_AT_ONCE:]:
            instance = self._instances.get(key)
            if instance is None:
                continue
            if instance.is_used:
                instance.is_used = False
            elif instance.can_be_forgotten():
                for local_process in instance.processes.values():
                    self._steps.forget(local_process)
                self._forget(key, instance)
        del self._unswept[-SWEEP_AT_ONCE:]
        self._timers.set(SWEEP_PAUSE_US if self._unswept else self.settings.idle_us, self._sweep)

    @property
    def _forget_us(self) -> int:
        return min(FORGET_US + FORGET_SHARE_US * len(self._instances), self.settings.idle_us)

    def _forget_idle(self) -> None:
        """Drop locks that no client uses, and instances that are idle."""
        self._slices.run(self, self._forget_all())

    def _forget_all(self) -> Iterator[None]:
        yield from self.lock_queues.sweep()
        yield from self._idle.sweep(self._forget)
        if not self._stopped:
            self._timers.set(self._forget_us, self._forget_idle)

    def _forget(self, key: tuple[int, str], instance: Instance) -> None:
        del self._instances[key]
        self.counts["forgotten"] += 1
        instance.break_cycles()

    # Frames of peers.

    def _connected(self, peer: int) -> None:
        """Announce all instances again: earlier notices may be lost with a connection."""
        for (index, name), instance in self._instances.items():
            if not instance.service.is_silent:
                self.send(peer, OpenFrame(index, name))
        self.watchers.connected(peer)
        self.lock_queues.stay_claims.connected(peer)

    def _received(self, peer: int, frame: Frame) -> Refused | None:
        if isinstance(frame, StateQueryFrame):
            hosted = {(index, ""): each for index, each in self._idle.representatives.items()}
            self.send(peer, self._membership.page_after(peer, frame, hosted | self._instances))
            return None
        if isinstance(frame, TicketKeyFrame):
            return self.lock_queues.stay_claims.learn(peer, frame)
        if isinstance(frame, StatePageFrame):
            return None if self._joining is None else self._joining.take(peer, frame)
        if not self._membership.is_complete and isinstance(frame, (MessageFrame, IdleMessageFrame)):
            self._early.append((peer, frame))  # as if it were still in transit
            return None
        is_named = not isinstance(frame, IdleMessageFrame)
        if not 0 <= frame.service < len(self.services) or bool(frame.instance) != is_named:
            return Refused("frame for an unknown service or an unnamed instance")
        service = self.services[frame.service]
        if isinstance(
            frame, (MessageFrame, IdleMessageFrame)
        ):  # a tuple, as in `Steps._split_effects`
            to, sender, port = frame.to, frame.sender, frame.port
            if service.home.get(sender) != peer or service.home.get(to) != self.me:
                return Refused(
                    f"message from process {sender} to process {to}: not from node {peer} to node"
                    f" {self.me}"
                )
            codecs = service.codecs[to]
            if not 0 <= port < len(codecs):
                return Refused(f"process {to} of {service.name} has no part {port}")
            message = codecs[port].decode(frame.kind, frame.fields, self._terms)
            if isinstance(message, Refused):
                return message
            if isinstance(frame, IdleMessageFrame):
                self._idle.deliver(
                    frame.service, to, sender, port, message, frame.besides, self._mentioned
                )
                return None
            instance = self._mentioned(frame.service, frame.instance)
            if instance is not None:
                self._steps.deliver(instance.processes[to], sender, port, message, frame.number)
                if instance.after_delivery is not None:
                    instance.after_delivery()
        elif isinstance(frame, OpenFrame):
            self._mentioned(frame.service, frame.instance)
        elif isinstance(frame, StayQueryFrame | StayAnswerFrame):
            self.lock_queues.stay_claims.hear(peer, service.name, frame)
        else:
            self.watchers.hear(peer, service.name, frame)
        return None

    def _mentioned(self, index: int, name: str) -> Instance | None:
        """Return the instance that a peer names; create it if necessary.  None if the limit of
        instances is reached.
        """
        found = self._instances.get((index, name))
        if found is not None:
            return found
        try:
            return self._made(index, name)
        except TooMany:
            self.counts["turned away"] += 1
            return None


def _shutdown_grace_us(service: Service) -> int:
    """Time for which clients may still use locks of this service after their node crashed."""
    plan = next(iter(service.system.plans.values()))
    if not isinstance(plan, Mutex):
        return 0
    return cast(int, getattr(plan, "lease", 0)) or 2 * CLIENT_SHUTDOWN_GRACE_US


def _finish(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)

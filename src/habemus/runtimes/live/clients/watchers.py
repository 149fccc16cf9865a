"""Clients that watch a lock or an election: who holds it, who leads.

A node knows only its own clients.  While one of them watches a lock, the node sends `WatchFrame` to
its peers, which answer with the status of their clients now and at every change.  The frame is
repeated periodically, so a peer forgets a node that has crashed, and a restarted peer learns of it.
These reports come late, and no algorithm depends on them.

Repetitions are spread over time, so that many watches cause a steady trickle of frames.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from habemus.core.process import ProcessId
from habemus.core.values import Indication
from habemus.problems.election import Leader
from habemus.runtimes.live.clients.lock_queues import LineSender, LockQueues, LockStatus
from habemus.runtimes.live.hosting.slices import TimeSlicer
from habemus.runtimes.live.hosting.timers import Alarm, Timers
from habemus.runtimes.live.peers.frames import LockStatusFrame, TransferFrame, WatchFrame

if TYPE_CHECKING:
    from habemus.runtimes.live.hosting.node import Node

REPEAT_US = 2_000_000
TICK_US = 50_000
FIRST_US = 200_000
"""How long the first report waits for slow peers."""
FORGET_US = 3 * REPEAT_US
MOST_PEER_WATCHES = 100_000
"""Locks that peers may watch at this node."""

Key = tuple[str, str]


@dataclass(eq=False)
class _WatchedLock:
    """A lock or an election that clients of this node watch."""

    watchers: dict[tuple[LineSender, int], None] = field(default_factory=dict)
    reported: dict[str, Any] | None = None  # latest report to the watchers
    unanswered_peers: set[int] = field(default_factory=set)  # before the first report
    peer_status: dict[int, LockStatus] = field(default_factory=dict)
    queried_us: int = 0  # when the peers were queried
    unsubscribe: Callable[[], None] | None = None  # from the indications of an election


class LockWatchers:
    """All watches of clients and peers at one node."""

    def __init__(
        self, node: Node, lock_queues: LockQueues, timers: Timers, slices: TimeSlicer
    ) -> None:
        self._node = node
        self._lock_queues = lock_queues
        self._timers = timers
        self._slices = slices
        self._elections: dict[Key, _WatchedLock] = {}
        # ordered by the time of the last query, oldest first
        self._locks: OrderedDict[Key, _WatchedLock] = OrderedDict()
        # deadlines of first reports, which then ignore peers that have not answered
        self._unanswered: deque[tuple[int, Key]] = deque()
        self._tick: Alarm | None = None
        self._peer_watches: dict[Key, dict[int, int]] = {}  # until when each peer watches
        self._forgetting: Alarm | None = None
        lock_queues.changed = self._changed
        lock_queues.transferred = self._transferred
        lock_queues.asked_about = self._ask_about

    # Clients.

    def watch(self, connection: LineSender, id: int, service: str, name: str) -> None:
        key = (service, name)
        watched = self._elections.get(key) or self._locks.get(key)
        if watched is not None:
            watched.watchers[connection, id] = None
            if watched.reported is not None:
                connection.send("news", id, watched.reported)
        elif self._lock_queues.kind(service) == "election":
            unsubscribe = self._node.subscribe(service, name, partial(self._on_leader, key))
            watched = self._elections[key] = _WatchedLock(
                {(connection, id): None}, unsubscribe=unsubscribe
            )
            leader, term = self._node.leader_of(service, name)
            self._report(
                watched, {"service": service, "name": name, "leader": leader, "term": term}
            )
        else:
            watched = self._locks[key] = _WatchedLock(
                {(connection, id): None}, unanswered_peers=set(self._node.reaches())
            )
            self._query_peers(key, watched)
            self._unanswered.append((self._timers.now_us() + FIRST_US, key))
            self._report_if_changed(key)
            if self._tick is None:
                self._tick = self._timers.set(TICK_US, self._on_tick)

    def unwatch(self, connection: LineSender, id: int, key: Key) -> None:
        watched = self._elections.get(key) or self._locks.get(key)
        if watched is None:
            return
        watched.watchers.pop((connection, id), None)
        if not watched.watchers:
            (self._locks if watched.unsubscribe is None else self._elections).pop(key, None)
            if watched.unsubscribe is not None:
                watched.unsubscribe()

    @staticmethod
    def _report(watched: _WatchedLock, reported: dict[str, Any]) -> None:
        watched.reported = reported
        for connection, id in watched.watchers:
            connection.send("news", id, reported)

    def _on_leader(self, key: Key, process: ProcessId, indication: Indication) -> None:
        watched = self._elections.get(key)
        if watched is not None and isinstance(indication, Leader) and process == self._node.me:
            self._report(
                watched,
                {
                    "service": key[0],
                    "name": key[1],
                    "leader": indication.process,
                    "term": indication.term,
                },
            )

    def _view(self, key: Key, peer_status: dict[int, LockStatus]) -> dict[str, Any]:
        """Return holder and waiters.  If two nodes report a holder, the larger token is newer."""
        known = {self._node.me: self._lock_queues.status_of(*key), **peer_status}
        holding = [
            (status.token or 0, node, status)
            for node, status in known.items()
            if status.holder is not None
        ]
        _, node, status = max(holding, default=(0, None, LockStatus()))
        waiting = sum(each.waiting for each in known.values())
        reported = {
            "holder": status.holder,
            "node": node,
            "token": status.token,
            "waiting": waiting,
        }
        return {"service": key[0], "name": key[1], **reported}

    def _report_if_changed(self, key: Key) -> None:
        watched = self._locks.get(key)
        if watched is not None and not watched.unanswered_peers:
            view = self._view(key, watched.peer_status)
            if view != watched.reported:
                self._report(watched, view)

    def _on_tick(self) -> None:
        """Send overdue first reports, and repeat the query for a share of the watched locks."""
        self._tick = None
        now = self._timers.now_us()
        self._slices.run(self, self._tell_overdue(now))
        for _ in range(-(-len(self._locks) * TICK_US // REPEAT_US)):
            key, watched = next(iter(self._locks.items()))
            if watched.queried_us + REPEAT_US > now:
                break
            self._locks.move_to_end(key)
            self._query_peers(key, watched)
        if self._locks:
            self._tick = self._timers.set(TICK_US, self._on_tick)
        else:
            self._unanswered.clear()

    def _tell_overdue(self, now: int) -> Iterator[None]:
        while self._unanswered and self._unanswered[0][0] <= now:
            _, key = self._unanswered.popleft()
            watched = self._locks.get(key)
            if watched is not None:
                watched.unanswered_peers.clear()
                self._report_if_changed(key)
            yield

    # Between nodes.

    def _query_peers(self, key: Key, watched: _WatchedLock) -> None:
        watched.queried_us = self._timers.now_us()
        frame = WatchFrame(self._node.service_index(key[0]), key[1])
        for peer in self._node.peers:
            self._node.send(peer, frame)

    def connected(self, peer: int) -> None:
        self._slices.run(self, self._query_again(peer, list(self._locks)))

    def _query_again(self, peer: int, keys: list[Key]) -> Iterator[None]:
        for key in keys:
            if key in self._locks:
                self._node.send(peer, WatchFrame(self._node.service_index(key[0]), key[1]))
            yield

    def _changed(self, service: str, name: str) -> None:
        if not self._peer_watches and not self._locks:
            return
        key = (service, name)
        peer_watches = self._peer_watches.get(key)
        if peer_watches is not None:
            news = LockStatusFrame(
                self._node.service_index(service), name, *self._lock_queues.status_of(*key)
            )
            for peer in peer_watches:
                self._node.send(peer, news)
        self._report_if_changed(key)

    def _transferred(self, service: str, name: str, label: str) -> None:
        for peer in self._node.peers:
            self._node.send(peer, TransferFrame(self._node.service_index(service), name, label))

    def hear(
        self, peer: int, service: str, frame: WatchFrame | LockStatusFrame | TransferFrame
    ) -> None:
        key = (service, frame.instance)
        if isinstance(frame, TransferFrame):
            self._lock_queues.reserve(service, frame.instance, frame.label)
        elif isinstance(frame, WatchFrame) and frame.once:
            if self._lock_queues.is_held(*key):
                self._send_status(peer, frame)
        elif isinstance(frame, WatchFrame):
            self._note_peer_watch(peer, key)
            self._send_status(peer, frame)
        else:
            if frame.once:
                self._lock_queues.note_held(*key)
            watched = self._locks.get(key)
            if watched is not None:
                watched.peer_status[peer] = LockStatus(frame.holder, frame.token, frame.waiting)
                watched.unanswered_peers.discard(peer)
                self._report_if_changed(key)

    def _send_status(self, peer: int, frame: WatchFrame) -> None:
        service = self._node.services[frame.service].name
        status = self._lock_queues.status_of(service, frame.instance)
        news = LockStatusFrame(frame.service, frame.instance, *status, frame.once)
        self._node.send(peer, news)

    def _ask_about(self, service: str, name: str) -> None:
        """Ask the other nodes whether one of their clients holds a lock."""
        frame = WatchFrame(self._node.service_index(service), name, once=True)
        for peer in self._node.reaches():
            self._node.send(peer, frame)

    def _note_peer_watch(self, peer: int, key: Key) -> None:
        if key in self._peer_watches or len(self._peer_watches) < MOST_PEER_WATCHES:
            self._peer_watches.setdefault(key, {})[peer] = self._timers.now_us() + FORGET_US
            if self._forgetting is None:
                self._forgetting = self._timers.set(FORGET_US, self._forget)

    def _forget(self) -> None:
        """Drop watches of peers that were not repeated in time."""
        self._forgetting = None
        self._slices.run(
            self, self._drop_peer_watches(list(self._peer_watches), self._timers.now_us())
        )
        if self._peer_watches:
            self._forgetting = self._timers.set(FORGET_US, self._forget)

    def _drop_peer_watches(self, keys: list[Key], now: int) -> Iterator[None]:
        for key in keys:
            peer_watches = self._peer_watches.get(key, {})
            for peer in [peer for peer, until in peer_watches.items() if until < now]:
                del peer_watches[peer]
            if not peer_watches:
                self._peer_watches.pop(key, None)
            yield

"""What one client process has at a node: its connections, its leases, and the thread that keeps
them.

The *keeper* is a thread with a connection of its own.  It says "alive" for everything that the
process holds or waits for, three times in the time of the shortest lease, and hears what was lost.
It is a thread and not a task of an event loop, so neither code that blocks nor a loop that is busy
keeps it from running.  It begins when the first lease has been held for a while: who takes a lock
for a moment pays nothing for it.

How long a lease is good for is counted from when the client said something, not from when the node
answered: so the client knows that it may have lost a lock before anybody else can get it, even if
its node does not answer or all of this stood still.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from math import inf
from typing import Any
from weakref import WeakSet

from habemus import boottime
from habemus.client.address import ClusterAddress, NodeAddress
from habemus.client.connection import ConnectionClosed, NodeConnection, first_of
from habemus.client.credentials import Credentials
from habemus.client.errors import HabemusError, NodeTimeout, RefusedByNode, Unreachable
from habemus.client.lease import Lease

BEATS = 3
"""How often a lease is renewed in its time."""
SLOWEST_BEAT = 1.0
"""Seconds between two signs of life where nothing runs out: what was lost is heard of at once, but
a node may have vanished.
"""
SILENCE_SECONDS = 3.0
"""A node that has not answered for so long is left: requests that wait move to another node."""
IDLE_CONNECTIONS = 32


def now_us() -> int:
    return boottime.nanoseconds() // 1_000


class NodeSession:
    """With one node; ends with the last connection to it."""

    def __init__(
        self,
        where: ClusterAddress,
        credentials: Credentials,
        label: str,
        left: Mapping[NodeAddress, float] | None = None,
        within: float | None = None,
    ) -> None:
        """Connect to one of the nodes; see `first_of`."""
        self.label = label
        self.credentials = credentials
        first = first_of(where, credentials, label, left, within)
        self.place: NodeAddress = first.place
        self.welcome = first.welcome
        self.key: str = first.welcome["session"]
        self.node: int = first.welcome["node"]
        self.ids = count(1)
        self.over = ""  # why it is
        self.leaving = ""  # why nothing more is asked for here
        self.left: Callable[[], None] = lambda: None  # tells requests that no thread waits for
        self._has_heard = False  # something from the node, in this beat
        self._silence = 0.0  # seconds for which the keeper has listened in vain
        self._idle: list[NodeConnection] = [first]
        self._leases: dict[int, Lease] = {}
        self._connections: dict[
            int, NodeConnection
        ] = {}  # on which the leases of blocking clients were granted
        self._awaited: dict[
            int, NodeConnection | None
        ] = {}  # the ids of requests that wait, and where, if a thread does
        self._beat = SLOWEST_BEAT
        self._wanted = threading.Event()  # there is something to keep
        self._hurry = threading.Event()  # the keeper is needed at once, or not any more
        self._lock = threading.Lock()
        self._keeper: threading.Thread | None = None
        self._keeping: NodeConnection | None = None
        _SESSIONS.add(self)

    # Connections.

    def connection(self) -> NodeConnection:
        """One that nobody uses; `ConnectionClosed` if the session is over."""
        try:
            return self._idle.pop()
        except IndexError:
            pass
        try:
            return NodeConnection(self.place, self.credentials, self.label, self.key)
        except (RefusedByNode, Unreachable) as reason:
            raise ConnectionClosed(str(reason)) from None

    def put_back(self, connection: NodeConnection) -> None:
        if len(self._idle) >= IDLE_CONNECTIONS:
            connection.close()
            return
        self._idle.append(connection)
        if self.over:  # looked at last: who ends the session may have closed the others already
            self._close_idle()

    @property
    def is_open(self) -> bool:
        """Whether requests can be made here."""
        return not (self.over or self.leaving)

    def leave(self, why: str) -> None:
        """Ask for nothing more here.  Requests that wait move to another node; leases stay until
        they are released or lost.
        """
        if self.is_open:
            self.leaving = why
            for connection in list(self._awaited.values()):
                if connection is not None:
                    connection.close()
            self.left()
            self._wanted.set()  # the keeper ends the session when nothing is left of it

    def close(self, why: str = "the client has closed its connection") -> None:
        self.over = self.over or why
        for lease in list(self._leases.values()):
            lease._lose(why)
        for connection in self._used_connections():
            connection.close()
        self._close_idle()
        self._hurry.set()
        self._wanted.set()

    def _used_connections(self) -> list[NodeConnection]:
        connections = [
            self._keeping,
            *list(self._awaited.values()),
            *list(self._connections.values()),
        ]
        return [connection for connection in connections if connection is not None]

    def _close_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    # Leases.

    def lease_ms(self, service: str, wanted: float | None) -> int | None:
        """How long the node waits for a sign of life: as wanted, but no longer than what it is
        granted itself.
        """
        offered: int | None = self.welcome["services"].get(service, {}).get("lease_ms")
        if wanted is None:
            return offered
        wanted_ms = max(1, round(wanted * 1_000))
        if offered is not None and wanted_ms > offered:
            raise ValueError(
                f"a lease of {wanted:g} s is longer than that of the cluster's {service}"
                f" ({offered / 1_000:g} s): ask for less, or let its nodes be configured with a"
                " longer one"
            )
        return wanted_ms

    def begin_waiting(
        self, id: int, lease_ms: int | None, connection: NodeConnection | None = None
    ) -> None:
        if lease_ms is not None:
            self._beat = min(self._beat, lease_ms / 1_000 / BEATS)
        self._awaited[id] = connection
        if not self.is_open:
            raise ConnectionClosed(
                self.over or self.leaving
            )  # who ended the session may not have seen this request
        if not self._wanted.is_set():
            self._wanted.set()
            if self._keeper is None:
                self._start_keeper()

    def hurry(self) -> None:
        """Something is held of which the keeper has to hear."""
        self._hurry.set()

    def end_waiting(self, id: int) -> None:
        self._awaited.pop(id, None)

    def granted(self, service: str, line: list[Any], connection: NodeConnection | None) -> Lease:
        """A lease from what the node said; lost at once if it comes too late to be worth anything."""
        _, id, token, left_ms, at, name = line
        since = at / 1_000_000
        lease = Lease(
            self,
            id,
            service,
            name,
            token,
            since,
            inf if left_ms is None else since + left_ms / 1_000,
        )
        self._leases[id] = lease
        if connection is not None:
            self._connections[id] = connection
        if self.over or lease.lost:  # this process stood still while it waited
            lease._lose(self.over or "its lease ran out while it was on its way")
        return lease

    def forget(self, lease: Lease) -> None:
        """It is lost; the node may not know that yet."""
        self._leases.pop(lease._id, None)
        connection = self._connections.pop(lease._id, None)
        if connection is not None:
            connection.close()

    def release(self, lease: Lease, last: bytes) -> None:
        """On the connection on which it was granted, which is free then; nobody waits for an
        answer.
        """
        if not lease._end():
            return
        self._leases.pop(lease._id, None)
        connection = self._connections.get(lease._id)
        if connection is None:
            return  # the session has ended in between, and its connections with it
        try:
            with connection.in_use:
                del self._connections[lease._id]
                connection.send(last)
        except OSError:
            connection.close()  # which is as good as a release
        else:
            self.put_back(connection)

    def note_write(self, service: str, name: str, token: int) -> None:
        with suppress(OSError):  # a record that ends with its node is nothing to fail for
            connection = self.connection()
            connection.say("wrote", service, name, token)
            self.put_back(connection)

    def look(self, lease: Lease) -> None:
        """Take in what the node has said on the connection of a lease, without waiting."""
        connection = self._connections.get(lease._id)
        if connection is None:
            return
        try:
            with connection.in_use:
                lines = connection.heard() if self._connections.get(lease._id) is connection else []
        except OSError as reason:
            lease._lose(str(reason))
            return
        for line in lines:
            self.hear(line)

    def hear(self, line: list[Any]) -> None:
        if line[0] == "lost":
            lease = self._leases.get(line[1])
            if lease is not None:
                lease._lose(line[2])
        elif line[0] == "wanted":
            lease = self._leases.get(line[1])
            if lease is not None and lease._on_wanted is not None:
                lease._on_wanted()
        elif line[0] == "alive":
            self._hear_alive(line[1] / 1_000_000, dict(line[2]))

    def _hear_alive(self, at: float, left_ms: dict[int, int | None]) -> None:
        for id, lease in list(self._leases.items()):
            if id in left_ms:
                left = left_ms[id]
                lease._renew(inf if left is None else at + left / 1_000)
            elif lease._since < at:
                lease._lose("the node knows nothing of it any more")

    # The keeper.

    def _start_keeper(self) -> None:
        with self._lock:
            if self._keeper is None:
                self._keeper = threading.Thread(
                    target=self._keep, name="habemus-keeper", daemon=True
                )
                self._keeper.start()

    def _keep(self) -> None:
        while not self.over:
            self._wanted.wait()
            if self._keeping is None:
                self._hurry.wait(self._beat)  # most locks are held for a shorter time than this
            if not (self._leases or self._awaited):
                if self.leaving:
                    self.close(self.leaving)
                    return
                self._wanted.clear()
                if self._leases or self._awaited:
                    self._wanted.set()  # it came in between
                continue
            began = boottime.seconds()
            self._has_heard = False
            try:
                self._beat_once()
            except NodeTimeout:
                pass  # it may be slow; the leases have their own time
            except (OSError, HabemusError):
                self._recover()
            self._drop_lost()
            listened = min(
                self._beat, boottime.seconds() - began
            )  # not longer: this process may have been suspended
            self._silence = 0.0 if self._has_heard else self._silence + listened
            if self._silence >= SILENCE_SECONDS:
                self.leave(f"node {self.node} does not answer")

    def _beat_once(self) -> None:
        connection = self._keeping or self._connect_keeper()
        connection.say("alive", now_us())
        end = boottime.seconds() + self._beat
        while (left := end - boottime.seconds()) > 0 and not self.over:
            try:
                line = connection.hear(self._patience(min(left, boottime.LONGEST_WAIT)))
                self._has_heard = True
                self.hear(line)
            except TimeoutError:
                self._drop_lost()

    def _connect_keeper(self) -> NodeConnection:
        connection = self._keeping = NodeConnection(
            self.place, self.credentials, self.label, self.key, self._patience(self._beat)
        )
        if self.over:
            connection.close()  # whoever ended the session meanwhile did not see it
        return connection

    def _patience(self, longest: float) -> float:
        """Until the next lease runs out, at most."""
        return max(
            0.001, min([longest, *(lease.remaining for lease in list(self._leases.values()))])
        )

    def _drop_lost(self) -> None:
        for lease in list(self._leases.values()):
            if lease.lost:
                lease._lose("its lease was not renewed in time")

    def _recover(self) -> None:
        """The keeper's connection has ended: by itself, or because the node has."""
        if self._keeping is not None:
            self._keeping.close()
            self._keeping = None
        if self.over:
            return
        try:
            self._connect_keeper()
        except NodeTimeout:
            pass
        except (OSError, HabemusError) as reason:
            self.close(f"node {self.node} has gone: {reason}")

    def abandon(self) -> None:
        """After a fork, in the child: these connections and leases are the parent's."""
        self.over = "it belongs to the process that forked"
        for lease in list(self._leases.values()):
            lease._end()
        for connection in [*self._used_connections(), *self._idle]:
            connection.abandon()
        self._connections.clear()  # another thread of the parent may have been using one
        self._idle.clear()


_SESSIONS: WeakSet[NodeSession] = WeakSet()


def _abandon_all() -> None:
    for session in list(_SESSIONS):
        session.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)


def own_label() -> str:
    return f"{socket.gethostname()}/{os.getpid()}"

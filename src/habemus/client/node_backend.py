"""Locks of the nodes of a cluster, for the blocking client.

Every held lock has a connection of its own, from a pool.  To acquire takes one line out and one
line in, to release one line out.  So threads do not wait for each other.  A thread that is
interrupted in the middle closes its connection, which withdraws its request.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, suppress
from time import sleep
from typing import Any

from habemus import boottime
from habemus.client.address import NodeAddress, cluster_address
from habemus.client.attempts import Attempts
from habemus.client.backend import Backend, LockState
from habemus.client.connection import ANSWER_SECONDS, ConnectionClosed, NodeConnection, first_of
from habemus.client.credentials import Credentials
from habemus.client.errors import (
    HabemusError,
    NodeTimeout,
    ProtocolError,
    RefusedByNode,
    Unreachable,
)
from habemus.client.lease import Lease
from habemus.client.protocol import (
    GRACE_US,
    HOLDER_US,
    AcquireRequest,
    encode_line,
    release_line,
)
from habemus.client.session import NodeSession, own_label


def opened(
    named: str | None,
    given: Credentials,
    label: str,
    left: Mapping[NodeAddress, float] | None = None,
    within: float | None = None,
    told: tuple[NodeAddress, ...] = (),
) -> NodeSession:
    """Open a session with a node of the named cluster; if none answers, with one of those told."""
    cluster = cluster_address(named)._replace(told=told)
    credentials = given.at(cluster)
    first = first_of(cluster, credentials, label, left, within)
    return NodeSession(first, cluster, credentials, label)


class LeftNodes:
    """The nodes that a client has left, and the sessions with leases there, or taken elsewhere."""

    def __init__(self, named: str | None, credentials: Credentials) -> None:
        self._named = named
        self._credentials = credentials
        self.addresses: dict[NodeAddress, float] = {}  # and when each was left
        self.is_known = False  # whether any node has ever answered
        self.told: tuple[NodeAddress, ...] = ()  # nodes that nodes have named
        self._sessions: list[NodeSession] = []

    def add(self, session: NodeSession) -> None:
        self.addresses[session.address] = boottime.seconds()
        self.told = session.told() or self.told
        self._sessions = [each for each in (*self._sessions, session) if not each.over]

    def successor(self, session: NodeSession) -> NodeSession:
        """Open a session with another node, for leases of a session that has to leave its node."""
        self.addresses[session.address] = boottime.seconds()
        self.told = session.told() or self.told
        found = opened(
            self._named, self._credentials, session.label, self.addresses, 1.0, self.told
        )
        found.successor = self.successor
        self._sessions = [each for each in (*self._sessions, found) if not each.over]
        return found

    def close(self) -> None:
        for session in self._sessions:
            session.close()


class NodeBackend:
    """The nodes of a cluster, as the blocking client sees them."""

    def __init__(self, named: str | None, credentials: Credentials, label: str | None) -> None:
        self._named = named
        self._credentials = credentials
        self._label = label
        self._session: NodeSession | None = None
        self._left = LeftNodes(named, credentials)
        self._opening = threading.Lock()

    def connect(self) -> None:
        """Connect to a node, unless none answers: then the first request tries again.

        Raise `Unreachable` if no cluster is named, and `RefusedByNode` if the nodes refuse the
        client.
        """
        cluster_address(self._named)
        with suppress(Unreachable):
            self.connected()

    def close(self) -> None:
        """Release all locks and close all connections."""
        # The attribute first: a thread that waits may open the next session at once.
        session, self._session = self._session, None
        if session is not None:
            session.close()
        self._left.close()

    def connected(self, within: float | None = None) -> NodeSession:
        """Return a session with a node that answers, a new one if the last one has ended."""
        session = self._session
        if session is not None and session.is_open:
            return session
        if not self._opening.acquire(timeout=-1 if within is None else within):
            raise NodeTimeout("no node answered in time")
        try:
            session = self._session
            if session is None or not session.is_open:
                if session is not None:
                    self._left.add(session)
                self._session = session = opened(
                    self._named,
                    self._credentials,
                    self._label or own_label(),
                    self._left.addresses,
                    within,
                    self._left.told,
                )
                self._left.is_known = True
                session.successor = self._left.successor
            return session
        finally:
            self._opening.release()

    def acquire(
        self,
        request: AcquireRequest,
        timeout: float | None,
        names_holder: bool = True,
    ) -> Lease:
        """Wait until one of the locks is granted; ask another node if one ends or hangs."""
        session = self._session
        if timeout is None and session is not None and session.is_open:
            lease = self._acquire_at(session, request)  # as most are; nothing has failed yet
            if lease is not None:
                return lease
        attempts = Attempts(timeout, request, names_holder)
        while True:
            try:
                session = self.connected(attempts.left())
            except Unreachable as reason:
                attempts.failed(reason, is_known=self._left.is_known)
            else:
                lease = self._acquire_at(session, request, attempts)
                if lease is not None:
                    return lease
            sleep(attempts.pause())

    def _acquire_at(
        self, session: NodeSession, request: AcquireRequest, attempts: Attempts | None = None
    ) -> Lease | None:
        """Ask one node; return None if another node has to be asked.

        attempts: None for the first one of a request that has no timeout.
        """
        left = None if attempts is None else attempts.left()
        id, sent = session.request(request, None if attempts is None else attempts.asked())
        try:
            connection = session.connection()
        except ConnectionClosed as reason:
            session.lose_node(f"lost the connection to node {session.node}: {reason}")
            return None
        try:
            session.begin_waiting(id, connection)
            patience = None if left is None else left + GRACE_US / 1_000_000
            line = connection.ask(sent, id, patience)
            answer = session.receive_answer(line, connection)
        except BaseException as reason:  # an interrupt, too: closing withdraws the request
            with suppress(OSError, HabemusError):
                connection.heard()  # an idle connection may have received which nodes there are
            session.learn_from(connection.welcome)
            connection.close(release_line(id))
            session.end_waiting(id)
            session.protocol.forget(id)
            if attempts is not None and isinstance(reason, TimeoutError):
                why = f"node {session.node} does not answer"
                attempts.failed(why)
                session.leave(why)
                raise attempts.timed_out() from None
            if not isinstance(reason, OSError) or isinstance(reason, HabemusError):
                raise
            if session.is_open:
                session.lose_node(f"lost the connection to node {session.node}: {reason}")
            return None
        if isinstance(answer, Lease):
            return None if answer._why else answer
        if line[1] is None:  # the node refuses everything on this connection
            connection.close()
            session.end_waiting(id)
            session.protocol.forget(id)
        elif attempts is not None and answer.word == "timeout":
            news = self._ask_holder(session, connection, request) if attempts.names_holder else None
            session.put_back(connection)
            raise attempts.timed_out(news)
        else:
            session.put_back(connection)
        (attempts or Attempts(None)).refused(answer.word, answer.why)
        session.leave(answer.why)
        return None

    @staticmethod
    def _ask_holder(
        session: NodeSession, connection: NodeConnection, request: AcquireRequest
    ) -> list[Any] | None:
        """Return the news of the lock; None if there are none soon."""
        id = session.protocol.next_id()
        watch = request.watch_line(id)
        if watch is None:
            return None
        try:
            return connection.ask(watch, id, HOLDER_US / 1_000_000)
        except OSError:  # the connection has ended, or the time is over
            return None
        finally:
            with suppress(OSError):
                connection.say("unwatch", id)

    def release(self, lease: Lease, to: str | None = None) -> None:
        """Release the lock.  If it turns out to be lost, call `on_lost` and set `lease.lost`."""
        lease._look()
        if lease._end():
            session: Any = lease._session  # read after its end: see `NodeSession.send_release`
            session.send_release(lease, to)

    def watch(self, service: str, name: str) -> Generator[LockState, None, None]:
        """Yield the holder of a lock, now and after each change, for ever."""
        attempts = Attempts(None)
        while True:
            connection = None
            try:
                session = self.connected()
                # A connection of its own: it has nothing to do with any lock.
                connection = NodeConnection(session.address, session.credentials, session.label)
                id = session.protocol.next_id()
                session.begin_waiting(id, connection)  # so that a node that hangs is left
                try:
                    connection.say("watch", id, service, name)
                    while True:
                        line = connection.hear()
                        if line[0] == "refused":
                            raise RefusedByNode(line[3])
                        if line[0] == "news":
                            attempts = Attempts(None)
                            yield LockState.of(line[2])
                finally:
                    session.end_waiting(id)
            except Unreachable as reason:
                attempts.failed(reason, is_known=self._left.is_known)
            except OSError as reason:
                if session.is_open:
                    session.lose_node(f"lost the connection to node {session.node}: {reason}")
            finally:
                if connection is not None:
                    connection.close()
            sleep(attempts.pause())

    def status(self) -> dict[str, Any]:
        """Return the status of the node that this client is connected to."""
        return self._ask("status")

    def force(self, service: str, name: str) -> dict[str, Any]:
        """Take a lock away from its holder, at the node of the holder."""
        session = self.connected()
        node = LockState.of(self._ask("watch", service, name, session=session)).node
        if node is None or node == session.node:
            return self._ask("force", service, name, session=session)
        return force_at(node, self._named, session, service, name)

    def _ask(self, word: str, *rest: str, session: NodeSession | None = None) -> dict[str, Any]:
        session = session or self.connected()
        connection = session.connection()
        id = session.protocol.next_id()
        try:
            answer = _asked(connection, id, word, *rest)
        except RefusedByNode:
            session.put_back(connection)
            raise
        except BaseException:  # an interrupt, too
            connection.close()
            raise
        session.put_back(connection)
        return answer


def force_at(
    node: int, named: str | None, session: NodeSession, service: str, name: str
) -> dict[str, Any]:
    """Take a lock away from a client of another node than that of the session."""
    try:
        connection = _connected_to(node, named, session)
        with closing(connection):
            return _asked(connection, 1, "force", service, name)
    except Unreachable as reason:
        raise Unreachable(
            f"{name!r} is held by a client of node {node}, which does not answer ({reason}): start"
            " that node, or use `habemus release --force --all-nodes` if the holder is dead"
        ) from None


def _connected_to(node: int, named: str | None, session: NodeSession) -> NodeConnection:
    """Connect to a node, by an address that the client was given or that its node has named."""
    announced = session.welcome["nodes"].get(str(node))
    others = [] if announced is None else cluster_address(announced).nodes
    reasons = []
    for address in dict.fromkeys((*cluster_address(named).nodes, *others)):
        try:
            connection = NodeConnection(address, session.credentials, session.label)
        except (RefusedByNode, Unreachable, ProtocolError) as reason:
            reasons.append(str(reason))
            continue
        if connection.welcome["node"] == node:
            return connection
        connection.close()
    raise Unreachable("; ".join(reasons) or "no address is known")


def _asked(connection: NodeConnection, id: int, word: str, *rest: str) -> dict[str, Any]:
    """Return the answer of a node; `Unreachable` if there is none, or `RefusedByNode`."""
    try:
        line = connection.ask(encode_line(word, id, *rest), id, ANSWER_SECONDS)
        if word == "watch":
            connection.say("unwatch", id)
    except OSError as reason:
        node = connection.welcome["node"]
        raise Unreachable(f"node {node} does not answer: {reason}") from None
    if line[0] == "refused":
        raise RefusedByNode(line[3])
    answer: dict[str, Any] = line[2]
    return answer


def round_trips(nodes: Backend, count: int, pause: float = 0.001) -> Iterator[int]:
    """Measure `count` times how many microseconds the node of the client takes to answer."""
    if not isinstance(nodes, NodeBackend):
        raise TypeError("round trips are measured to a node of a cluster; name a cluster")
    session = nodes.connected()
    connection = session.connection()
    try:
        for _ in range(count):
            sent = boottime.microseconds()
            connection.ask(encode_line("alive", sent), sent, ANSWER_SECONDS)
            yield boottime.microseconds() - sent
            sleep(pause)
    except BaseException as reason:  # also if the caller stops early
        connection.close()
        if isinstance(reason, OSError):
            raise Unreachable(f"node {session.node} does not answer: {reason}") from None
        raise
    session.put_back(connection)

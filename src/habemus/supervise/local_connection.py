"""Connections of commands to a node on this machine, which take about as long as Python takes to
start.

They import neither sockets nor JSON.  `habemus.supervise.node_connections` connects to every other
cluster, and to every node if none answers at a local socket.  `habemus.client.protocol` says what
the lines of the node mean, as for the other clients.
"""

from __future__ import annotations

import _socket
import os

from habemus.client.errors import HabemusError
from habemus.client.protocol import Greeting, LineBuffer, can_move, decode, lease_ms_in
from habemus.runtimes.live.clients.protocol import CONNECT_SECONDS, TRY_MS
from habemus.runtimes.live.default_cluster import SOCKET, cluster_meant, sockets_in
from habemus.supervise.process_tree import now_us

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from habemus.supervise.elected_node import LeaderFinder
    from habemus.supervise.locked_command import LockConnection, LockRequest
    from habemus.supervise.node_connections import NodeFinder

PATH_LIMIT = 100
"""Bytes of the path of a socket; systems differ."""
LINE_LIMIT = 1 << 20
"""Bytes of a line of the node; this command receives short ones."""


def finder(request: LockRequest, node: int | None = None) -> Callable[[int | None], LockConnection]:
    """Return the function that connects a command to its cluster or engine.

    node: the node that has to lead, for a command that leads.
    """
    named = os.environ.get("HABEMUS_CLUSTER") if request.cluster is None else request.cluster
    is_engine = named is not None and (named == "local" or "://" in named)
    if is_engine or node is not None or request.credential_files:
        from habemus.supervise import node_connections

        return node_connections.finder(request, node)
    return LocalFinder(request)


class LocalFinder:
    """Connects to a node by a local socket first, and by `habemus.client` after that."""

    def __init__(self, request: LockRequest) -> None:
        self._request = request
        self._left = ""  # the socket of the first node
        self._others: NodeFinder | LeaderFinder | None = None

    def __call__(self, deadline_us: int | None) -> LockConnection:
        if self._others is None and not self._left:
            found = nearest(self._request.cluster, deadline_us)
            if found is not None and (not self._request.leads or self._has_locks(found)):
                self._left = found.path
                return found
        if self._others is None:
            self._others = self._slow()
        return self._others(deadline_us)

    def _has_locks(self, found: LocalConnection) -> bool:
        """Return whether a client can lead in the service; in others, nodes do."""
        if found.problem(self._request.service) == "mutex":
            return True
        found.close()
        return False

    def _slow(self) -> NodeFinder | LeaderFinder:
        if self._request.leads:
            from habemus.supervise.elected_node import LeaderFinder

            return LeaderFinder(self._request, left=self._left)
        from habemus.supervise.node_connections import NodeFinder

        return NodeFinder(self._request.cluster, {}, self._left)


def nearest(named: str | None, deadline_us: int | None = None) -> LocalConnection | None:
    """Connect to a node at a local socket, each process to another; None if none answers."""
    label = f"{os.uname().nodename}/{os.getpid()}"
    try:
        cluster = cluster_meant(named)
    except ValueError:  # `habemus.client` reports it
        return None
    paths = [path for path in _paths(cluster) if len(os.fsencode(path)) < PATH_LIMIT]
    patience = CONNECT_SECONDS
    if deadline_us is not None and paths:
        patience = min(patience, max(TRY_MS, (deadline_us - now_us()) / 1_000 / len(paths)) / 1_000)
    first = os.getpid() % len(paths) if paths else 0
    for path in paths[first:] + paths[:first]:
        connection = LocalConnection.to(path, label, patience)
        if connection is not None:
            connection.is_only = cluster.endswith(SOCKET)
            return connection
    return None


def _paths(cluster: str) -> list[str]:
    if cluster.endswith(SOCKET):
        return [cluster]
    try:
        return sockets_in(cluster) if cluster else []
    except OSError:  # not a folder
        return []


class LocalConnection:
    """A connection to a node of this machine."""

    def __init__(
        self, path: str, socket: _socket.socket, welcome: dict[str, Any], lines: LineBuffer
    ) -> None:
        self.path = path
        self.is_only = False  # whether the command names this node
        self._socket = socket
        self._welcome = welcome
        self._lines = lines

    @classmethod
    def to(cls, path: str, label: str, patience: float = CONNECT_SECONDS) -> LocalConnection | None:
        """Connect to the node at a socket; return None if no node there admits this client."""
        socket = _socket.socket(_socket.AF_UNIX)
        greeting, lines = Greeting(path, label, is_local=True), LineBuffer(path, LINE_LIMIT)
        try:
            socket.settimeout(patience)
            socket.connect(path)
            socket.sendall(greeting.hello)
            while (line := lines.next_line()) is None:
                data = socket.recv(65_536)
                if not data:
                    raise ConnectionError
                lines.feed(data)
            greeting.answer(decode(line, path))
            socket.settimeout(None)
        except (OSError, HabemusError):  # `habemus.client` tries again, and reports it
            socket.close()
            return None
        assert greeting.welcome is not None
        return cls(path, socket, greeting.welcome, lines)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, line: bytes) -> None:
        self._socket.sendall(line)

    def close(self) -> None:
        self._socket.close()

    def heard(self) -> list[list[Any]]:
        """Return the lines that have arrived, without waiting; `ConnectionError` at the end."""
        try:
            data = self._socket.recv(65_536, _socket.MSG_DONTWAIT)
        except BlockingIOError:
            data = None
        if data == b"":
            raise ConnectionError("the connection has ended")
        self._lines.feed(data or b"")
        found = []
        while (line := self._lines.next_line()) is not None:
            found.append(decode(line, self.path))
        return found

    def lease_ms(self, service: str) -> int | None:
        return lease_ms_in(self._welcome, service)

    def moves(self, service: str) -> bool:
        return not self.is_only and can_move(self._welcome, service)

    def problem(self, service: str) -> object:
        """Return the problem that a service solves; None if there is no such service."""
        return self._welcome["services"].get(service, {}).get("problem")

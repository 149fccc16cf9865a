"""The quick path of `habemus lock NAME -- COMMAND` with a node on this machine, about as fast as
Python starts.

`parse` understands the plain form of the command line only.  Everything else is left to the click
command in `habemus.cli.commands.lock`, which means the same.  Likewise a cluster without a local
socket is left to `habemus.client`.

`habemus.client.protocol` says what the lines of the node mean, as for the other clients.
"""

from __future__ import annotations

import _socket
import os

from habemus.client.errors import HabemusError
from habemus.client.protocol import Greeting, LineBuffer, can_move, decode, lease_ms_in
from habemus.runtimes.live.clients.protocol import (
    CONNECT_SECONDS,
    LOCKS,
    TRY_MS,
    lock_name,
)
from habemus.runtimes.live.default_cluster import SOCKET, cluster_meant, sockets_in
from habemus.supervise.locked_command import LockRequest, hold
from habemus.supervise.process_tree import now_us

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from habemus.supervise.elected_node import LeaderFinder
    from habemus.supervise.locked_command import LockConnection
    from habemus.supervise.node_connections import NodeFinder

PATH_LIMIT = 100
"""Bytes of the path of a socket; systems differ."""
LINE_LIMIT = 1 << 20
"""Bytes of a line of the node; this command receives short ones."""


def run(arguments: list[str]) -> None:
    """Run the command and exit if the arguments are plain; else return, with nothing done."""
    request = parse(arguments)
    if request is None:
        return

    code = hold(request, _finder(request))
    os._exit(code)  # nothing is left to clean up, which would take a while


def _finder(request: LockRequest) -> Callable[[int | None], LockConnection]:
    named = os.environ.get("HABEMUS_CLUSTER") if request.cluster is None else request.cluster
    if named is not None and (named == "local" or "://" in named):
        from habemus.supervise.node_connections import finder

        return finder(request)
    return _QuickFinder(request)


# The command line.


def parse(arguments: list[str]) -> LockRequest | None:
    """Return the request, or None if this is not the plain form: `lock NAME [--OPTION VALUE ...] --
    COMMAND ...`, in any order before the dashes.
    """
    try:
        return _parsed(arguments)
    except ValueError:
        return None


def _parsed(arguments: list[str]) -> LockRequest:
    dashes = arguments.index("--")
    command = arguments[dashes + 1 :]
    names = []
    given: dict[str, str] = {}
    tries = False
    words = iter(arguments[1:dashes])
    for word in words:
        option, equals, value = word.partition("=")
        if not word.startswith("-"):
            names.append(word)
        elif word == "--try":
            tries = True
        elif option in ("--timeout", "--lease", "--cluster", "--service"):
            given[option] = value if equals else next(words, "")
        else:
            raise ValueError(word)
    (name,) = names
    if (
        not command
        or not all(map(_is_plain, (name, *given.values())))
        or (tries and "--timeout" in given)
    ):
        raise ValueError
    timeout, lease = _seconds(given.get("--timeout")), _seconds(given.get("--lease"))
    if lease == 0:
        raise ValueError
    if arguments[0] != "lead":
        lock_name(name)
    return LockRequest(
        name,
        command,
        leads=arguments[0] == "lead",
        timeout=0.0 if tries else timeout,
        lease=lease,
        cluster=given.get("--cluster"),
        service=given.get("--service", LOCKS),
    )


def _is_plain(text: str) -> bool:
    """Return whether a text needs no escapes, on a command line and in JSON."""
    return (
        text != ""
        and text.isascii()
        and text.isprintable()
        and not text.startswith("-")
        and '"' not in text
        and "\\" not in text
    )


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    if len(text) > 8 or not text.replace(".", "", 1).isdecimal():
        raise ValueError(text)
    return float(text)


# The connection.


class _QuickFinder:
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

    def _has_locks(self, found: _QuickConnection) -> bool:
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


def nearest(named: str | None, deadline_us: int | None = None) -> _QuickConnection | None:
    """Connect to a node at a local socket, each process to another; None if none answers."""
    label = f"{os.uname().nodename}/{os.getpid()}"
    try:
        cluster = cluster_meant(named)
    except ValueError:  # `habemus.client` reports it
        return None
    if not _is_plain(label):
        return None
    paths = [path for path in _paths(cluster) if len(os.fsencode(path)) < PATH_LIMIT]
    patience = CONNECT_SECONDS
    if deadline_us is not None and paths:
        patience = min(patience, max(TRY_MS, (deadline_us - now_us()) / 1_000 / len(paths)) / 1_000)
    first = os.getpid() % len(paths) if paths else 0
    for path in paths[first:] + paths[:first]:
        connection = _QuickConnection.to(path, label, patience)
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


class _QuickConnection:
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
    def to(
        cls, path: str, label: str, patience: float = CONNECT_SECONDS
    ) -> _QuickConnection | None:
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

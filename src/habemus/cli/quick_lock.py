"""The short way to a lock: `habemus lock NAME -- COMMAND` with a node on this machine, about as
fast as Python starts.

`parse` understands the plain form of the command line and nothing else; whatever it does not
understand is left to the command of click in `habemus.cli.commands.lock`, which understands all of
it, and means the same.  Likewise a cluster that is not found by a local socket is left to
`habemus.client`.

The lines of the node are read by hand as long as that is easy, because the module for JSON takes as
long to import as Python takes to start.
"""

from __future__ import annotations

import _socket
import os

from habemus.runtimes.live.clients.protocol import (
    CONNECT_SECONDS,
    LOCKS,
    TRY_MS,
    VERSION,
    lock_name,
)
from habemus.runtimes.live.default_cluster import SOCKET, cluster_meant, sockets_in
from habemus.supervise.locked_command import LockRequest, hold
from habemus.supervise.process_tree import now_us

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from habemus.supervise.locked_command import Line
    from habemus.supervise.node_connections import NodeFinder

PATH_LIMIT = 100
"""Bytes of the path of a socket, about which systems differ."""
LINE_LIMIT = 1 << 20
"""Bytes of a line of the node; those that this command hears are short."""


def run(arguments: list[str]) -> None:
    """Leaves the program if the arguments are plain; else returns, with nothing done."""
    request = parse(arguments)
    if request is None:
        return

    code = hold(request, _Connecting(request.cluster), _quoted)
    os._exit(code)  # nothing is left to be cleaned up, and that takes a while


# The command line.


def parse(arguments: list[str]) -> LockRequest | None:
    """None if this is not the plain form: `lock NAME [--OPTION VALUE ...] -- COMMAND ...`, in this
    or another order before the dashes.
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
    """Whether it stands for itself, on a command line and in JSON."""
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


def _quoted(text: str) -> str:
    return f'"{text}"'


# The connection.


class _Connecting:
    """By a local socket the first time.  If that node cannot grant anything, by whatever way there
    is.
    """

    def __init__(self, named: str | None) -> None:
        self._named = named
        self._left = ""  # the path of the node that was asked first
        self._others: NodeFinder | None = None

    def __call__(self, deadline_us: int | None) -> Line:
        if self._others is None and not self._left:
            found = nearest(self._named, deadline_us)
            if found is not None:
                self._left = found.path
                return found
        if self._others is None:
            from habemus.supervise.node_connections import NodeFinder

            self._others = NodeFinder(self._named, {}, self._left)
        return self._others(deadline_us)


def nearest(named: str | None, deadline_us: int | None = None) -> _QuickLine | None:
    """To a node that answers at a local socket, not the same one for everybody; None if there is
    none.
    """
    label = f"{os.uname().nodename}/{os.getpid()}"
    try:
        cluster = cluster_meant(named)
    except ValueError:  # `habemus.client` says what is wrong
        return None
    if not _is_plain(label):
        return None
    paths = [path for path in _paths(cluster) if len(os.fsencode(path)) < PATH_LIMIT]
    patience = CONNECT_SECONDS
    if deadline_us is not None and paths:
        patience = min(patience, max(TRY_MS, (deadline_us - now_us()) / 1_000 / len(paths)) / 1_000)
    first = os.getpid() % len(paths) if paths else 0
    for path in paths[first:] + paths[:first]:
        line = _QuickLine.to(path, label, patience)
        if line is not None:
            return line
    return None


def _paths(cluster: str) -> list[str]:
    if cluster.endswith(SOCKET):
        return [cluster]
    try:
        return sockets_in(cluster) if cluster else []
    except OSError:  # it is no folder
        return []


class _QuickLine:
    """A connection to a node of this machine."""

    def __init__(self, path: str, socket: _socket.socket, welcome: bytes, rest: bytes) -> None:
        self.path = path
        self._socket = socket
        self._welcome = welcome
        self._rest = rest

    @classmethod
    def to(cls, path: str, label: str, patience: float = CONNECT_SECONDS) -> _QuickLine | None:
        """None if there is no node that lets us in."""
        socket = _socket.socket(_socket.AF_UNIX)
        try:
            socket.settimeout(patience)
            socket.connect(path)
            socket.send(f'["hello",{VERSION},"{label}",null,null]\n'.encode())
            heard = b""
            while b"\n" not in heard and len(heard) < LINE_LIMIT:
                more = socket.recv(65_536)
                if not more:
                    break
                heard += more
            socket.settimeout(None)
        except OSError:
            heard = b""
        welcome, _, rest = heard.partition(b"\n")
        if welcome.startswith(b'["welcome",'):
            return cls(path, socket, welcome, rest)
        socket.close()
        return None

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, line: bytes) -> None:
        self._socket.sendall(line)

    def close(self) -> None:
        self._socket.close()

    def heard(self) -> list[list[Any]]:
        """What has come, without waiting; `ConnectionError` if that is the end."""
        try:
            more = self._socket.recv(65_536, _socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        if not more:
            raise ConnectionError("the connection has ended")
        *lines, self._rest = (self._rest + more).split(b"\n")
        if len(self._rest) > LINE_LIMIT:
            raise ValueError(f"a line of more than {LINE_LIMIT:,} bytes")
        return [read(line) for line in lines]

    def lease_ms(self, service: str) -> int | None:
        return lease_in(self._welcome, service)


def lease_in(welcome: bytes, service: str) -> int | None:
    """What a welcome says of the service:
    `..."locks":{"problem":"mutex","algorithm":"...","lease_ms":2000}...`.
    """
    _, _, services = welcome.partition(b'"services":')
    _, _, mine = services.partition(f'"{service}":{{'.encode())
    _, _, lease = mine.partition(b"}")[0].partition(b'"lease_ms":')
    digits = lease.partition(b",")[0]
    return int(digits) if digits.isdigit() else None


def read(line: bytes) -> list[Any]:
    if line.startswith(b'["granted",'):
        _, id, token, left_ms, at, name = line[1:-1].split(b",", 5)
        return ["granted", int(id), _number(token), _number(left_ms), int(at), name]
    from habemus.client.protocol import (
        decode,  # the command lasts for a while, or there will be none: nobody has to hurry
    )

    return decode(line, "it")


def _number(text: bytes) -> int | None:
    return None if text == b"null" else int(text)

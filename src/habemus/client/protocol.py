"""The client's side of the protocol of `habemus.runtimes.live.clients.protocol`, without I/O.

Bytes from a node go through `LineBuffer` and `decode`.  `Greeting` leads the handshake.
`SessionProtocol` numbers requests, counts the time of leases and turns lines into events.  The
blocking client, the asynchronous one and `habemus lock` own the sockets and the clocks.

A node is not trusted to speak correctly: a line that no node would send raises `ProtocolError`.

All times are microseconds of the client's own clock.  A node sends back the time of the last line
that it has received from the session, so a lease is counted from when the client sent that line.
The lease is therefore over for the client before it is over for the node, however long lines were
delayed.

`habemus lock` imports this module, and should take no longer than Python takes to start.  So `json`
and `hmac`, whose imports take as long, are imported when they are first needed.
"""

from __future__ import annotations

import os
from _thread import allocate_lock
from itertools import count

from habemus.client.errors import ProtocolError, RefusedByNode
from habemus.runtimes.live.clients.protocol import (
    ELECTIONS,
    SEMAPHORES,
    WIRE_VERSION,
    proof,
    secret_name,
)
from habemus.runtimes.live.clients.protocol import LINE_LIMIT as REQUEST_LIMIT

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeAlias

    RequestForm: TypeAlias = tuple["SessionProtocol | None", int | None, int | None, bytes]
    """Sender, timeout and lease in milliseconds, and template of a request."""

LINE_LIMIT = 64 << 20
"""Bytes of a line of a node; a status of many locks is long."""
NUMBERS_LIMIT = 200
"""Bytes of a request beside its service and name."""
ENCODED_LIMIT = 1_000
"""Locks whose encoded names are kept."""
SLOWEST_BEAT_US = 1_000_000
"""Time between two heartbeats while no lease expires: the node may have vanished."""
SILENT_BEATS = 3
"""Heartbeats that a node may leave unanswered.  Then requests and leases move to another node."""
SILENCE_US = SILENT_BEATS * SLOWEST_BEAT_US
"""How long that is while no lease expires."""
SHORTEST_SILENCE_US = 500_000
"""How long a node may be silent even if a lease is short: it may wait for a processor."""
GRACE_US = 250_000
"""How much longer than the node the client waits before it gives up a request."""
HOLDER_US = 250_000
"""How long a client that timed out waits to learn who holds the lock.  The node asks the others."""
MOVE_PAUSE_US = 50_000
"""Time between two attempts to take leases to another node."""
CLAIM_ELSEWHERE = ("unavailable", "full", "stopped")
"""Refusals of a claim after which another node may still accept it."""


# Lines.


def encode(value: object) -> str:
    """Return the JSON text of a value; short for what clients send, which is mostly plain text."""
    if value is None:
        return "null"
    if type(value) is int:
        return str(value)
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is str and _is_plain(value):
        return f'"{value}"'
    if type(value) in (list, tuple):
        return f"[{','.join(map(encode, value))}]"  # type: ignore[call-overload]
    import json

    return json.dumps(value, separators=(",", ":"))


_ENCODED: dict[tuple[str, str], bytes] = {}  # of the last locks; `functools` takes long to import


def _encoded_lock(service: str, name: str) -> bytes:
    found = _ENCODED.get((service, name))
    if found is None:
        if len(_ENCODED) >= ENCODED_LIMIT:
            _ENCODED.clear()
        found = _ENCODED[service, name] = f"{encode(service)},[{encode(name)}]".encode()
    return found


def encode_line(*line: object) -> bytes:
    """Return a line to send to a node."""
    return encode(line).encode() + b"\n"


_RELEASE = b'["release",%d]\n'


def release_line(id: int) -> bytes:
    """Return the line that withdraws a request or releases a lock."""
    return _RELEASE % id


def _is_plain(text: str) -> bool:
    """Return whether JSON needs no escapes for a text."""
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text


class LineBuffer:
    """Bytes from a node, until they are complete lines."""

    def __init__(self, source: object, limit: int = LINE_LIMIT) -> None:
        self._source = source
        self._limit = limit
        self.rest = bytearray()
        """Bytes that were received and are not returned yet."""
        self._scanned = 0  # there is no newline before this position

    def feed(self, data: bytes) -> None:
        """Add what was received."""
        self.rest += data

    def next_line(self) -> bytes | None:
        """Return the next line without its newline; None if it is not complete yet."""
        end = self.rest.find(b"\n", self._scanned)
        if end < 0:
            self._scanned = len(self.rest)
            if self._scanned > self._limit:
                raise ProtocolError(
                    f"{self._source} sends a line of more than {self._limit:,} bytes"
                )
            return None
        line = bytes(self.rest[:end])
        del self.rest[: end + 1]
        self._scanned = 0
        return line


_NONE = type(None)
_SHAPES: dict[str, set[tuple[type, ...]]] = {
    "challenge": {(str, str, int, str, str)},
    "welcome": {(str, dict)},
    "granted": {
        (str, int, token, left, int, str, *ticket)
        for token in (int, _NONE)
        for left in (int, _NONE)
        for ticket in ((), (str,))
    },
    "wanted": {(str, int)},
    "lost": {(str, int, str)},
    "leave": {(str, int, str)},
    "nodes": {(str, int, int, dict)},
    "alive": {(str, int, list)},
    "news": {(str, int, dict)},
    "status": {(str, int, dict)},
    "done": {(str, int, dict)},
    "refused": {(str, int, str, str), (str, _NONE, str, str)},
}
"""Types of the values in a line, by its first word."""
_NESTED = ("welcome", "alive")
"""Lines with values in which there is more to check."""
_FLAT_SHAPES = {word: shapes for word, shapes in _SHAPES.items() if word not in _NESTED}
_WELCOME = {"cluster": str, "node": int, "session": str, "nodes": dict, "services": dict}


def _scanner() -> Callable[[str, int], tuple[Any, int]]:
    """Return the scanner of `json`, which is quick to import by itself; outside CPython one that
    reads nothing.
    """
    try:
        from _json import make_scanner
    except ImportError:
        return lambda text, at: (None, -1)

    class JsonSettings:
        """Settings of `json.loads`."""

        strict = True
        object_hook = object_pairs_hook = array_hook = parse_constant = None
        parse_float, parse_int = float, int

    made: Any = make_scanner
    scanner: Callable[[str, int], tuple[Any, int]] = made(JsonSettings)
    return scanner


_scan = _scanner()


def decode(line: bytes, source: object) -> list[Any]:
    """Return the line of a node; `ProtocolError` if no node would send it."""
    try:
        text = line.decode()
        read, end = _scan(text, 0)
        if end == len(text) and tuple(map(type, read)) in _FLAT_SHAPES[read[0]]:
            return read  # type: ignore[no-any-return]  # as most lines are
    except Exception:  # the scanner raises classes of `json`, which may not be imported
        pass
    return _decode_other(line, source)


def decode_grant(data: bytes) -> list[Any] | None:
    """Return the line if the bytes from a node are one grant, as they mostly are; None if they
    have to go through `LineBuffer` and `decode`, which take twice as long.
    """
    try:
        read, end = _scan(data.decode(), 0)
        if len(read) == 7:
            word, id, token, left_ms, at_us, name, ticket = read
        else:
            word, id, token, left_ms, at_us, name = read
            ticket = ""
    except Exception:  # as above
        return None
    if (
        word == "granted"
        and type(id) is int
        and (token is None or type(token) is int)
        and (left_ms is None or type(left_ms) is int)
        and type(at_us) is int
        and type(name) is str
        and type(ticket) is str
        and data.find(b"\n") == end == len(data) - 1
    ):
        return read  # type: ignore[no-any-return]
    return None


def _decode_other(line: bytes, source: object) -> list[Any]:
    """Return a line with nested values or unknown fields; `ProtocolError` if it is none."""
    try:
        read = _read_json(line.decode())
    except (ValueError, RecursionError):
        read = None
    if not _is_well_formed(read) and not _is_well_formed(read := _known_fields(read)):
        raise ProtocolError(f"{source} sends what no node would send: {line[:60]!r}")
    found: list[Any] = read
    return found


def _read_json(text: str) -> Any:
    """Return `json.loads(text)`, without the import of `json` if the text is plain."""
    try:
        found, end = _scan(text, 0)
        if end == len(text):
            return found
    except Exception:  # as above
        pass
    import json

    return json.loads(text)


def _is_well_formed(line: object) -> bool:
    if type(line) is not list or len(line) < 2 or type(line[0]) is not str:
        return False
    word = line[0]
    shapes = _SHAPES.get(word)
    if shapes is None:
        return True  # a node of another release may send more lines; clients ignore them
    if tuple(map(type, line)) not in shapes:
        return False
    if word == "alive":
        return all(type(each) is list and len(each) == 2 and _is_time(*each) for each in line[2])
    return _is_welcome(line[1]) if word == "welcome" else True


def _known_fields(line: object) -> object:
    """Return a line without the fields at its end that this client does not know."""
    if type(line) is list and line and type(line[0]) is str and line[0] in _SHAPES:
        return line[: max(map(len, _SHAPES[line[0]]))]
    return line


def _is_time(id: object, left_ms: object) -> bool:
    return type(id) is int and type(left_ms) in (int, _NONE)


def _is_welcome(table: dict[str, Any]) -> bool:
    if any(type(table.get(name)) is not kind for name, kind in _WELCOME.items()):
        return False
    services = table["services"].values()
    return all(
        type(each) is dict and type(each.get("lease_ms")) in (int, _NONE) for each in services
    )


def lease_ms_in(welcome: dict[str, Any], service: str) -> int | None:
    """Return the lease that a node grants for locks of a service; None if none expires."""
    lease_ms: int | None = welcome["services"].get(service, {}).get("lease_ms")
    return lease_ms


def can_move(welcome: dict[str, Any], service: str) -> bool:
    """Return whether locks of a service can be taken to another node."""
    table = welcome["services"].get(service, {})
    # a node that was removed from the cluster names the others only
    others = set(welcome["nodes"]) - {str(welcome["node"])}
    return bool(table.get("moves")) and bool(others)


def learn_nodes(welcome: dict[str, Any], configuration: int, nodes: dict[str, Any]) -> None:
    """Note in the welcome of a node which nodes there are now, unless it has a newer list."""
    if configuration > welcome.get("configuration", 0):
        welcome["configuration"], welcome["nodes"] = configuration, nodes


# The handshake.


class Greeting:
    """The handshake of a connection: send `hello`, then what `answer` returns.

    is_local: whether the node is reached by a local socket.  The system controls who can connect
        to it and who listens there, so the node need not prove that it knows the secret.
    """

    def __init__(
        self,
        node: object,
        label: str,
        session: str | None = None,
        secret: bytes | None = None,
        *,
        is_local: bool = False,
    ) -> None:
        self._node = node
        self._secret = secret
        self._nonce = None if secret is None else os.urandom(32).hex()
        self._is_proved = secret is None or is_local
        named = None if secret is None or is_local else secret_name(secret)
        self.hello = encode_line("hello", WIRE_VERSION, label, session, self._nonce, named)
        self.welcome: dict[str, Any] | None = None

    def answer(self, line: list[Any]) -> bytes | None:
        """Return what to send next; None once the node has sent welcome."""
        nonce, self._nonce = self._nonce, None  # good for one challenge
        if line[0] == "challenge" and self._secret is not None and nonce is not None:
            return self._proof(self._secret, nonce, *line[1:])
        if line[0] == "refused":
            raise RefusedByNode(f"{self._node}: {line[3]}{self._remedy(line[2])}")
        if line[0] != "welcome":
            raise RefusedByNode(f"{self._node}: an unexpected answer, {str(line[0])[:20]!r}")
        if not self._is_proved:
            raise RefusedByNode(
                f"{self._node} does not prove that it knows the cluster's secret: "
                "it is not a node of this cluster, or it runs without secret_file"
            )
        self.welcome = line[1]
        return None

    def _remedy(self, reason: str) -> str:
        if reason != "unauthenticated" or self._secret is not None:
            return ""
        from habemus.argument_names import argument  # a command with a good secret starts faster

        return f"; give {argument('secret_file')}"

    def _proof(
        self, secret: bytes, nonce: str, cluster: str, node: int, theirs: str, shown: str
    ) -> bytes:
        from hmac import compare_digest

        nonces = (nonce, theirs)
        expected = proof(secret, "node", cluster, node, nonces)
        if not compare_digest(shown.encode(), expected.encode()):
            raise RefusedByNode(f"{self._node} does not know the cluster's secret")
        self._is_proved = True
        return encode_line("proof", proof(secret, "client", cluster, node, nonces))


# Requests and leases.


class AcquireRequest:
    """A request for a lock; it can be sent to any node, any number of times.

    lease: seconds after which a silent client loses the lock; None for the lease of the cluster.
    keep: ask the node for a notice when other clients wait for the lock.
    """

    def __init__(
        self, service: str, name: str, lease: float | None = None, *, keep: bool = False
    ) -> None:
        self.service = service
        self.lease = lease
        self.keep = keep
        self.shown = f"lock {name!r}"
        self.name = name
        self._word, self._what = b"request", _encoded_lock(service, name)
        self.form: RequestForm = (None, None, None, b"")
        """The form of the last line; the next one is mostly the same."""

    def _start_line(self, word: str, *what: object) -> None:
        """Encode the part of the line that is always the same: what is requested."""
        self._word = word.encode()
        self._what = ",".join(map(encode, (self.service, *what))).encode()

    def lease_ms(self, offered: int | None) -> int | None:
        """Return the lease to ask for, at most what the cluster offers; `ValueError` if longer."""
        if self.lease is None:
            return offered
        wanted = max(1, round(self.lease * 1_000))
        if offered is not None and wanted > offered:
            raise ValueError(
                f"a lease of {self.lease:g} s is longer than that of the cluster's {self.service}"
                f" ({offered / 1_000:g} s): ask for a shorter lease, or configure a longer one at"
                " the nodes"
            )
        return wanted

    def template(self, timeout_ms: int | None, lease_ms: int | None) -> bytes:
        """Return the line that sends the request, with places for its id and the time."""
        if len(self._what) > REQUEST_LIMIT - NUMBERS_LIMIT:
            raise ValueError(
                f"a name of {len(self._what):,} bytes is too long for a request; give a shorter one"
            )
        times = f"{encode(timeout_ms)},{encode(lease_ms)}".encode()
        keep = b",true" if self.keep else b""
        return b'["%b",%%d,%b,%b,%%d%b]\n' % (
            self._word,
            self._what.replace(b"%", b"%%"),
            times,
            keep,
        )

    def watch_line(self, id: int) -> bytes | None:
        """Return the line that asks the node who holds the lock; None where several may."""
        return encode_line("watch", id, self.service, self.name)

    def timed_out(self, timeout: float, news: list[Any] | None = None) -> str:
        """Return the message of a request that timed out.

        news: the answer to `watch_line`; it names the holder, if the node knows it.
        """
        message = f"timed out after {timeout:g} s waiting for {self.shown}"
        state: dict[str, Any] = {} if news is None or news[0] != "news" else news[2]
        if state.get("holder") is None:
            return message
        if timeout == 0:  # it did not want to wait
            message = f"{self.shown} is not free"
        where = "" if state.get("node") is None else f" at node {state['node']}"
        return f"{message} (held by {state['holder']}{where})"


class LeadRequest(AcquireRequest):
    """A request to lead an election."""

    def __init__(self, service: str, name: str, lease: float | None = None) -> None:
        super().__init__(service, ELECTIONS + name, lease)
        self.shown = f"election {name!r}"
        self._start_line("lead", name)


class SemaphoreRequest(AcquireRequest):
    """A request for a place of a semaphore.

    size: the number of places that the client expects; None for any.
    """

    def __init__(
        self, service: str, name: str, size: int | None = None, lease: float | None = None
    ) -> None:
        super().__init__(service, SEMAPHORES + name, lease)
        self.shown = f"semaphore {name!r}"
        self.size = size
        self._start_line("semaphore", name, size)

    def watch_line(self, id: int) -> bytes | None:
        return None


class AnyRequest(AcquireRequest):
    """A request for one of several locks.

    shown: what the locks stand for, for messages.
    """

    def __init__(
        self, service: str, shown: str, names: tuple[str, ...], lease: float | None = None
    ) -> None:
        super().__init__(service, names[0], lease)
        self.shown = shown
        self.names = names
        self._start_line("request", list(names))

    def watch_line(self, id: int) -> bytes | None:
        return None


class LeaseState:
    """A granted lock, and until when the node has promised it."""

    __slots__ = (
        *("id", "service", "name", "token", "ticket"),
        *("since_us", "renewed_us", "left_ms", "until_us", "holder"),
    )

    def __init__(
        self,
        id: int,
        service: str,
        name: str,
        token: int | None,
        at_us: int,
        left_ms: int | None,
        ticket: str = "",
    ) -> None:
        self.id = id
        self.service = service
        self.name = name
        self.token = token
        self.ticket = ticket
        """Secret that shows another node that the lock is this client's."""
        self.since_us = at_us
        """When the client sent the last line that the node had received before the grant."""
        self.renewed_us = at_us
        """When the client sent the last line that the node has answered."""
        self.left_ms = left_ms
        """The promise, counted from `renewed_us`; None if the lease does not expire."""
        self.until_us = None if left_ms is None else at_us + left_ms * 1_000
        self.holder: Any = None
        """The object of the client that stands for the lease."""

    def renew(self, at_us: int, left_ms: int | None) -> None:
        """Take in a promise.  An older or shorter one does not take back an earlier one."""
        self.renewed_us = max(self.renewed_us, at_us)
        self.left_ms = left_ms
        if self.until_us is None or left_ms is None:
            self.until_us = None
        else:
            self.until_us = max(self.until_us, at_us + left_ms * 1_000)

    def has_expired(self, now_us: int) -> bool:
        """Return whether the promise is over."""
        return self.until_us is not None and self.until_us <= now_us


class LeaseEvent:
    """Base class of what can happen to a session's leases and requests."""

    def __init__(self, id: int) -> None:
        self.id = id

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"


class LeaseGranted(LeaseEvent):
    """A request was granted."""

    def __init__(self, lease: LeaseState) -> None:
        super().__init__(lease.id)
        self.lease = lease


class RequestRefused(LeaseEvent):
    """A request was refused, for a reason that has a word for programs and a text for people."""

    def __init__(self, id: int, word: str, why: str) -> None:
        super().__init__(id)
        self.word = word
        self.why = why


class LeaseRenewed(LeaseEvent):
    """The node has answered a heartbeat and still holds the lock for this client."""


class LeaseLost(LeaseEvent):
    """A lock is not held any more, or may not be."""

    def __init__(self, id: int, why: str) -> None:
        super().__init__(id)
        self.why = why


class LeaseUnknown(LeaseEvent):
    """The node lends a lock that this client neither holds nor waits for: it has to be released."""


class LeaseWanted(LeaseEvent):
    """Another client waits for a lock that this client keeps."""


class NodeLeaves(LeaseEvent):
    """The node shuts down: take what is held there to another node."""

    def __init__(self, why: str) -> None:
        super().__init__(0)
        self.why = why


CLOSED = "the client has closed its connection"
EXPIRED = "its lease was not renewed in time"
NO_TOKEN = "it has no token to claim it by"
FORGOTTEN = "the node does not know the lock any more"
TOO_LATE = "its lease expired before the grant arrived"


class SessionProtocol:
    """The state of one client session at a node: request ids, pending requests and leases.

    Several threads may call the methods.

    beats: how many heartbeats to send in the time of the shortest lease.
    offered_ms: the leases that the node grants, by services; see `lease_ms_in`.
    """

    def __init__(self, beats: int, offered_ms: Mapping[str, int | None]) -> None:
        self._beats = beats
        self._offered_ms = offered_ms
        # `next` of a counter and changes of entries of dictionaries are atomic.
        self._ids = count(1)
        self._lock = allocate_lock()  # of the next two
        self._shortest_ms = SLOWEST_BEAT_US * beats // 1_000  # lease that decides about heartbeats
        self.beat_us = SLOWEST_BEAT_US
        """Time between two heartbeats."""
        self._pending: dict[int, str] = {}  # the service of each request
        self.leases: dict[int, LeaseState] = {}
        """The leases that the client holds, by id; for reading."""
        # the lease of each request that asked for another one than the cluster offers
        self._own_ms: dict[int, int | None] = {}

    # To the node.

    @property
    def silence_us(self) -> int:
        """How long a node may be silent before it is left: a share of the shortest lease."""
        return max(SHORTEST_SILENCE_US, SILENT_BEATS * self.beat_us)

    def next_id(self) -> int:
        """Return an id that was not used before in this session."""
        return next(self._ids)

    def request(
        self, request: AcquireRequest, timeout_ms: int | None, now_us: int
    ) -> tuple[int, bytes]:
        """Begin a request; return its id and the line to send."""
        form = request.form
        if form[0] is not self or form[1] != timeout_ms:
            form = request.form = self._form_of(request, timeout_ms)
        id = next(self._ids)
        self._pending[id] = request.service
        if request.lease is not None:
            self._own_ms[id] = form[2]
        return id, form[3] % (id, now_us)

    def _form_of(self, request: AcquireRequest, timeout_ms: int | None) -> RequestForm:
        lease_ms = request.lease_ms(self._offered_ms.get(request.service))
        template = request.template(timeout_ms, lease_ms)
        if lease_ms is not None:
            self._beat_for(lease_ms)
        return self, timeout_ms, lease_ms, template

    def claim(
        self,
        lease: LeaseState,
        shown: int | None,
        lease_ms: int | None,
        now_us: int,
        *,
        keep: bool = False,
    ) -> tuple[int, bytes] | None:
        """Begin to claim a lock that was granted by another node; return the id and the line.

        shown: the token that the client shows to resources.
        lease_ms: what `own_lease_ms` of the other session returns, or what this node offers.
        """
        if lease.token is None or shown is None:
            return None
        id = self.next_id()
        what = (lease.service, lease.name, lease.token, shown, lease_ms, now_us)
        line = encode_line("claim", id, *what, keep, lease.ticket)
        self._pending[id] = lease.service
        self._own_ms[id] = lease_ms
        if lease_ms is not None:
            self._beat_for(lease_ms)
        return id, line

    def own_lease_ms(self, id: int, offered_ms: int | None) -> int | None:
        """Return the lease that a request has asked for; by default what a cluster offers."""
        return self._own_ms.get(id, offered_ms)

    def _beat_for(self, lease_ms: int) -> None:
        with self._lock:
            if lease_ms < self._shortest_ms:
                self._shortest_ms = lease_ms
                self.beat_us = lease_ms * 1_000 // self._beats

    def forget(self, id: int) -> None:
        """End a request or a lease that the client has given up, released or lost."""
        if self.leases.pop(id, None) is None:
            self._pending.pop(id, None)
        if self._own_ms:
            self._own_ms.pop(id, None)

    def end(self, lease: LeaseState, to: str | None = None) -> bytes | None:
        """End a lease that the client has released or lost; return the line that releases it at the
        node.  None if the lease is none of this session.

        to: the label of the client that gets the lock next; None if the queue decides.
        """
        id = lease.id
        if self.leases.get(id) is not lease:
            return None
        self.leases.pop(id, None)
        lease.holder = None  # which refers to the lease: leave no work for `gc`
        if self._own_ms:
            self._own_ms.pop(id, None)
        return _RELEASE % id if to is None else encode_line("transfer", id, to)

    # From the node.

    def receive(self, line: list[Any], now_us: int) -> list[LeaseEvent]:
        """Return what a line means.

        Lines about requests and leases that were forgotten are ignored: they may have crossed the
        release.  `ProtocolError` if the node grants what was not requested, or promises time
        counted from a moment that has not come yet.
        """
        word = line[0]
        if word == "granted":
            lease = self.receive_grant(line, now_us)
            return [] if lease is None else [LeaseGranted(lease)]
        if word == "alive":
            return self._receive_alive(line[1], dict(line[2]), now_us)
        if word == "refused" and line[1] in self._pending:
            del self._pending[line[1]]
            return [RequestRefused(*line[1:])]
        if word == "lost" and line[1] in self.leases:
            return [LeaseLost(line[1], line[2])]
        if word == "wanted" and line[1] in self.leases:
            return [LeaseWanted(line[1])]
        if word == "leave":
            return [NodeLeaves(line[2])]
        return []

    def receive_grant(self, line: list[Any], now_us: int) -> LeaseState | None:
        """Return the lease that a grant means; None if its request was forgotten."""
        _, id, token, left_ms, at_us, name = line[:6]
        if at_us > now_us:
            raise _too_early(at_us)
        service = self._pending.get(id)
        if service is not None:
            ticket = line[6] if len(line) > 6 else ""
            lease = self.leases[id] = LeaseState(id, service, name, token, at_us, left_ms, ticket)
            self._pending.pop(id, None)  # after it is a lease: see `_receive_alive`
            return lease
        if not 0 < id < next(self._ids):
            raise ProtocolError(f"the node grants request {id}, which was never sent")
        return None

    def _receive_alive(
        self, at_us: int, left_ms: dict[int, int | None], now_us: int
    ) -> list[LeaseEvent]:
        if at_us > now_us:
            raise _too_early(at_us)
        events: list[LeaseEvent] = []
        for id, lease in list(self.leases.items()):
            if id in left_ms:
                lease.renew(at_us, left_ms[id])
                events.append(LeaseRenewed(id))
            elif lease.since_us < at_us:
                events.append(LeaseLost(id, FORGOTTEN))
        # In this order: a request that another thread takes in is a lease before it stops pending.
        unknown = [id for id in left_ms if id not in self._pending and id not in self.leases]
        return events + [LeaseUnknown(id) for id in unknown]

    # The clock.

    def expired(self, now_us: int) -> list[LeaseEvent]:
        """Return the losses of leases that were not renewed in time."""
        leases = list(self.leases.values())
        return [LeaseLost(each.id, EXPIRED) for each in leases if each.has_expired(now_us)]

    def next_expiry_us(self) -> int | None:
        """Return when the next lease expires; None if none does."""
        times = [each.until_us for each in list(self.leases.values())]
        return min((time for time in times if time is not None), default=None)


def _too_early(at_us: int) -> ProtocolError:
    return ProtocolError(f"the node answers a line of the time {at_us}, which is not over yet")

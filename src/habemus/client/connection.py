"""A connection to a node: a blocking socket that carries lines (`habemus.client.protocol`)."""

from __future__ import annotations

import errno
import os
import select
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from habemus.client.address import ClusterAddress, NodeAddress
from habemus.client.attempts import TRY_SECONDS, in_order
from habemus.client.credentials import Credentials
from habemus.client.errors import (
    HabemusError,
    NodeTimeout,
    ProtocolError,
    RefusedByNode,
    Unreachable,
)
from habemus.client.protocol import (
    Greeting,
    LineBuffer,
    can_move,
    decode,
    decode_grant,
    encode_line,
    learn_nodes,
    lease_ms_in,
)
from habemus.runtimes.live.clients.protocol import CONNECT_SECONDS

if TYPE_CHECKING:
    from ssl import SSLContext

ANSWER_SECONDS = 10.0
CHUNK = 1 << 12
"""Bytes to receive at once; the C library takes long to free larger buffers."""


class ConnectionClosed(ConnectionError):
    """The connection has ended."""


class NodeConnection:
    """A connection that one thread at a time uses, and any thread may close.

    The descriptor of a connection in use is never closed: its number would be given to the next
    file that the process opens, and OpenSSL would go on to read from it and to write into it.
    So `close` shuts the connection down, and the last thread inside closes the descriptor.
    """

    def __init__(
        self,
        address: NodeAddress,
        credentials: Credentials,
        label: str,
        session: str | None = None,
        patience: float = CONNECT_SECONDS,
    ) -> None:
        """Connect and greet; `Unreachable` if no node answers there, `RefusedByNode` if the node
        does not admit this client.
        """
        self.address = address
        self.in_use = threading.Lock()
        """Held by the thread that receives for a lease, or sends for one that came from another
        node.
        """
        self.is_only = False  # whether the client knows no other node
        self.welcome: dict[str, Any] = {}
        self._lines = LineBuffer(address)
        self._patience = patience
        self._ending = threading.RLock()  # a signal handler may close what its thread is entering
        self._inside: list[None] = []  # one for each call that uses the descriptor now
        self._is_closed = False
        self._nothing_yet: tuple[type[Exception], ...] = (BlockingIOError, TimeoutError)
        self._is_tls = bool(credentials.authority and not address.path)
        try:
            self._socket = _connected(address, credentials, patience)
            if self._is_tls:
                from ssl import SSLWantReadError

                self._nothing_yet += (SSLWantReadError,)
        except (TimeoutError, BlockingIOError):
            raise NodeTimeout(f"{address} does not answer") from None
        except OSError as reason:
            raise Unreachable(f"{address}: {reason.strerror or reason}") from None
        # Linux wakes a thread in recv(2) of a local socket also when the other end has read
        # something; it does not wake one in poll(2).  What OpenSSL has read, poll(2) cannot see.
        self._arrival = self._news = None
        if not self._is_tls and hasattr(select, "poll"):  # Windows has none
            # One for the thread that receives, and one for all that look for news.
            self._arrival, self._news = select.poll(), select.poll()
            for each in (self._arrival, self._news):
                each.register(self._socket, select.POLLIN)
        try:
            self.welcome = self._greet(credentials, label, session)
            self._socket.settimeout(None)
        except BaseException:
            self._socket.close()
            raise

    def _greet(self, credentials: Credentials, label: str, session: str | None) -> dict[str, Any]:
        greeting = Greeting(
            self.address,
            label,
            session,
            credentials.secret,
            is_local=bool(self.address.path),
        )
        line: bytes | None = greeting.hello
        try:
            while line is not None:  # a node may end between accepting a connection and this
                self.send(line)
                line = greeting.answer(self.hear(self._patience))
        except TimeoutError:
            raise NodeTimeout(f"{self.address} does not answer") from None
        except OSError as reason:
            raise Unreachable(f"{self.address} does not answer as a node would: {reason}") from None
        welcome = greeting.welcome
        assert welcome is not None
        if self._is_tls:
            certificate: dict[str, Any] = getattr(self._socket, "getpeercert", dict)()
            check_certificate(
                self.address, certificate, f"node-{welcome['node']}.{welcome['cluster']}"
            )
        return welcome

    def lease_ms(self, service: str) -> int | None:
        """Return the lease that the node grants for locks of a service; None if none expires."""
        return lease_ms_in(self.welcome, service)

    def moves(self, service: str) -> bool:
        """Return whether locks of a service can be taken to another node."""
        return not self.is_only and can_move(self.welcome, service)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, line: bytes) -> None:
        """Send a line that is encoded already; `ConnectionClosed` if the connection has ended."""
        self._inside.append(None)  # first: `close` looks there after it has set `_is_closed`
        try:
            if self._is_closed:
                raise self._closed()
            self._socket.sendall(line)
        except OSError as reason:
            raise self._translated(reason) from None
        finally:
            self._inside.pop()
            if self._is_closed:
                self._close_unused()

    def say(self, *line: object) -> None:
        """Send a line."""
        self.send(encode_line(*line))

    def ask(self, line: bytes, id: int, timeout: float | None = None) -> list[Any]:
        """Send a request and return its answer; skip what is left over from earlier requests.
        Raise as `hear` does.
        """
        self._inside.append(None)
        try:
            if self._is_closed:
                raise self._closed()
            self._socket.sendall(line)
            answer = self._next_line(timeout)
            while answer[1] != id and not (answer[0] == "refused" and answer[1] is None):
                answer = self._next_line(timeout)
        except OSError as reason:
            raise self._translated(reason) from None
        else:
            return answer
        finally:
            self._inside.pop()
            if self._is_closed:
                self._close_unused()

    def hear(self, timeout: float | None = None) -> list[Any]:
        """Return the next line; `TimeoutError` if none arrives in time, `ConnectionClosed` if the
        connection has ended.
        """
        self._inside.append(None)
        try:
            return self._next_line(timeout)
        except OSError as reason:
            raise self._translated(reason) from None
        finally:
            self._inside.pop()
            if self._is_closed:
                self._close_unused()

    def heard(self) -> list[list[Any]]:
        """Return the lines that have arrived, without waiting; `ConnectionClosed` at the end."""
        lines = []
        try:
            while True:
                lines.append(self.hear(0.0))
        except self._nothing_yet:
            return lines

    def has_news(self) -> bool:
        """Return whether something has arrived, or may have, or the connection has ended."""
        news = self._news
        try:
            # Nothing is read here, of a descriptor that is closed meanwhile: so this is not
            # `_inside`.
            if news is None or news.poll(0) or self._lines.rest:
                return True
        except RuntimeError:  # another thread looks just now; an object of poll(2) serves one
            return True
        return self._is_closed

    def _next_line(self, timeout: float | None) -> list[Any]:
        """Return the next line, for callers that are counted in `_inside`."""
        lines, arrival = self._lines, self._arrival
        line = lines.next_line() if lines.rest else None
        while line is None:
            if self._is_closed:
                raise self._closed()
            if arrival is None:
                if timeout != self._socket.gettimeout():
                    self._socket.settimeout(timeout)
            elif not arrival.poll(None if timeout is None else timeout * 1_000):
                raise TimeoutError
            data = self._socket.recv(CHUNK)
            if not data:
                raise ConnectionClosed(f"{self.address} has closed the connection")
            if not lines.rest:
                grant = decode_grant(data)
                if grant is not None:
                    return grant
            lines.feed(data)
            line = lines.next_line()
        found = decode(line, self.address)
        if found[0] == "nodes":
            learn_nodes(self.welcome, found[2], found[3])
            return self._next_line(timeout)
        return found

    def _translated(self, reason: OSError) -> OSError:
        """Return what callers are promised for an error of the system."""
        is_ours = isinstance(reason, (ConnectionClosed, HabemusError))
        # With ETIMEDOUT, it is not the time of the caller that is over: the peer is lost.
        if is_ours or (isinstance(reason, self._nothing_yet) and reason.errno != errno.ETIMEDOUT):
            return reason
        return ConnectionClosed(f"the connection to {self.address}: {reason.strerror or reason}")

    def _closed(self) -> ConnectionClosed:
        return ConnectionClosed(f"the connection to {self.address} is closed")

    def _close_unused(self) -> None:
        with self._ending:  # not while `close` shuts the same descriptor down
            if not self._inside:
                self._socket.close()

    def close(self, last: bytes = b"") -> bool:
        """End the connection, from any thread, and wake threads that wait in it.  Return whether
        the last line was sent.

        last: a line to send before that, if it can be sent now.
        """
        with self._ending:
            if self._is_closed:
                return False
            self._is_closed = True
            is_sent = bool(last) and self._send_last(last)
            if not self._inside:
                self._socket.close()
                return is_sent
            with suppress(OSError):
                # Not `SSLSocket.shutdown`, which takes the TLS state from under the other thread.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
            return is_sent

    def _send_last(self, line: bytes) -> bool:
        if self._is_tls and self._inside:  # OpenSSL serves one thread at a time
            return False
        with suppress(OSError):
            if not self._is_tls:
                return self._socket.send(line, getattr(socket, "MSG_DONTWAIT", 0)) == len(line)
            self._socket.settimeout(0.0)
            return self._socket.send(line) == len(line)
        return False

    def abandon(self) -> None:
        """Close the descriptor in the child of a fork, where no other thread can be inside."""
        self._socket.close()


def _connected(address: NodeAddress, credentials: Credentials, patience: float) -> socket.socket:
    if address.path:
        return at_path(address.path, patience)
    made = socket.create_connection((address.host, address.port), patience)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):  # not every system has all of them
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    if not credentials.authority:
        return made
    try:
        return security(credentials).wrap_socket(made)
    except BaseException:
        made.close()
        raise


def at_path(path: str, patience: float) -> socket.socket:
    """Connect to a local socket."""
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(patience)
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        # The name of a socket has at most a hundred bytes; paths can be longer.
        is_long = len(os.fsencode(path)) >= 100 and sys.platform == "linux"
        made.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}" if is_long else path)
    except BaseException:
        made.close()
        raise
    finally:
        os.close(folder)
    return made


def security(credentials: Credentials) -> SSLContext:
    """Return the TLS settings of a client of nodes."""
    import ssl

    context = with_certificates(credentials)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # `check_certificate` compares the number of the node
    return context


def with_certificates(credentials: Credentials) -> SSLContext:
    """Return TLS settings with the given certificates; `ValueError` names an unusable file."""
    import ssl

    try:
        context = ssl.create_default_context(cafile=credentials.authority)
    except OSError as reason:
        raise ValueError(
            f"certificate of the authority {credentials.authority}: {_why(reason)}"
        ) from None
    if credentials.certificate:
        try:
            context.load_cert_chain(credentials.certificate, credentials.key or None)
        except OSError as reason:
            files = " and ".join(filter(None, (credentials.certificate, credentials.key)))
            raise ValueError(f"certificate {files}: {_why(reason)}") from None
    return context


def _why(reason: OSError) -> str:
    return getattr(reason, "reason", None) or reason.strerror or str(reason)


def check_certificate(address: NodeAddress, certificate: dict[str, Any], name: str) -> None:
    """Raise `RefusedByNode` unless the certificate is that of the named node."""
    if ("DNS", name) not in certificate.get("subjectAltName", ()):
        raise RefusedByNode(f"{address} claims to be {name}, but its certificate is for another")


def first_of(
    cluster: ClusterAddress,
    credentials: Credentials,
    label: str,
    left: Mapping[NodeAddress, float] | None = None,
    within: float | None = None,
) -> NodeConnection:
    """Connect to the first node that answers, in the order of `in_order`.

    Each attempt may take its share of the time.
    """
    cluster = cluster.resolved()
    patience = patience_for(cluster, within)
    reasons: list[HabemusError] = []
    for address in in_order(cluster.nodes, cluster.told, left or {}):
        try:
            return NodeConnection(address, credentials, label, patience=patience)
        except (RefusedByNode, Unreachable, ProtocolError) as reason:
            reasons.append(reason)
    raise no_node(cluster, reasons)


def patience_for(cluster: ClusterAddress, within: float | None) -> float:
    """Return how long one attempt may take if all together have so many seconds."""
    if within is None:
        return CONNECT_SECONDS
    count = len(cluster.nodes) + len(cluster.told)
    return min(CONNECT_SECONDS, max(TRY_SECONDS, within / max(1, count)))


def no_node(cluster: ClusterAddress, reasons: Sequence[HabemusError]) -> HabemusError:
    """Return the error if no node admits this client: the refusal of the first node if trying
    again cannot help.
    """
    if not cluster.nodes:
        return Unreachable(
            f"no node is up in {cluster.folder}: start its cluster by `habemus up --folder"
            f" {cluster.folder}`"
        )
    if not any(isinstance(reason, Unreachable) for reason in reasons):
        return reasons[0]
    listed = "; ".join(str(reason) for reason in reasons[:3])
    return Unreachable(f"no node answers: {listed}{'; ...' if len(reasons) > 3 else ''}")

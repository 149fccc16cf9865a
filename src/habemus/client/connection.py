"""A connection to a node: a bare blocking socket on which lines of JSON come and go
(`habemus.runtimes.live.clients.protocol`).
"""

from __future__ import annotations

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
from habemus.client.protocol import LINE_LIMIT, Greeting, decode, encode
from habemus.runtimes.live.clients.protocol import CONNECT_SECONDS

if TYPE_CHECKING:
    from ssl import SSLContext

ANSWER_SECONDS = 10.0
CHUNK = 1 << 16


class ConnectionClosed(ConnectionError):
    """The other end has gone."""


class NodeConnection:
    """A connection that one thread at a time uses, and any thread may close.

    The descriptor of a connection in use is never closed: its number would be given to the next
    file that the process opens, and OpenSSL would go on to read from it and to write into it.
    So `close` shuts the connection down, and the last thread inside closes the descriptor.
    """

    def __init__(
        self,
        place: NodeAddress,
        credentials: Credentials,
        label: str,
        session: str | None = None,
        patience: float = CONNECT_SECONDS,
    ) -> None:
        """Connects and greets; `Unreachable` if nobody is there, `RefusedByNode` if this one is not
        let in.
        """
        self.place = place
        self.in_use = threading.Lock()
        """For the holder of a lock: one thread listens or releases at a time."""
        self._rest = b""
        self._patience = patience
        self._ending = threading.RLock()  # a signal handler may close what its thread is entering
        self._inside = 0  # calls that use the descriptor now
        self._is_closed = False
        self._nothing_yet: tuple[type[Exception], ...] = (BlockingIOError, TimeoutError)
        try:
            self._socket = _connected(place, credentials, patience)
            if credentials.authority and not place.path:
                from ssl import SSLWantReadError

                self._nothing_yet += (SSLWantReadError,)
        except (TimeoutError, BlockingIOError):
            raise NodeTimeout(f"{place} does not answer") from None
        except OSError as reason:
            raise Unreachable(f"{place}: {reason.strerror or reason}") from None
        # In recv(2) Linux wakes whoever waits at a local socket also when the other end has read
        # something; in poll(2) it does not.
        self._arrival = None
        if place.path:
            self._arrival = select.poll()
            self._arrival.register(self._socket, select.POLLIN)
        try:
            self.welcome: dict[str, Any] = self._greet(credentials, label, session)
            self._socket.settimeout(None)
        except BaseException:
            self._socket.close()
            raise

    def _greet(self, credentials: Credentials, label: str, session: str | None) -> dict[str, Any]:
        greeting = Greeting(self.place, credentials, label, session)
        said: list[Any] | None = greeting.hello
        try:
            while said is not None:  # a node may end between taking a connection and hearing this
                self.say(*said)
                said = greeting.answer(self.hear(self._patience))
        except TimeoutError:
            raise NodeTimeout(f"{self.place} does not answer") from None
        except OSError as reason:
            raise Unreachable(f"{self.place} does not answer as a node would: {reason}") from None
        welcome = greeting.welcome
        assert welcome is not None
        if credentials.authority and not self.place.path:
            certificate: dict[str, Any] = getattr(self._socket, "getpeercert", dict)()
            check_certificate(
                self.place, certificate, f"node-{welcome['node']}.{welcome['cluster']}"
            )
        return welcome

    def lease_ms(self, service: str) -> int | None:
        """Return the lease that the node grants for locks of a service; None if none expires."""
        lease_ms: int | None = self.welcome["services"].get(service, {}).get("lease_ms")
        return lease_ms

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, line: bytes) -> None:
        self._enter()
        try:
            self._socket.sendall(line)
        finally:
            self._leave()

    def say(self, *line: object) -> None:
        self.send(encode(line).encode() + b"\n")

    def hear(self, timeout: float | None = None) -> list[Any]:
        """The next line; `TimeoutError` if none comes in time, `ConnectionClosed` if none will."""
        rest = self._rest
        while True:
            line, found, after = rest.partition(b"\n")
            if found:
                self._rest = after
                return decode(line, self.place)
            if len(rest) > LINE_LIMIT:
                raise ProtocolError(f"{self.place} sends a line of more than {LINE_LIMIT:,} bytes")
            self._rest = rest
            more = self._received(timeout)
            if not more:
                raise ConnectionClosed(f"{self.place} has closed the connection")
            rest = rest + more if rest else more

    def _received(self, timeout: float | None) -> bytes:
        self._enter()
        try:
            return self._received_inside(timeout)
        finally:
            self._leave()

    def _received_inside(self, timeout: float | None) -> bytes:
        if self._arrival is None:
            if timeout != self._socket.gettimeout():
                self._socket.settimeout(timeout)
            return self._socket.recv(CHUNK)
        if timeout == 0:
            return self._socket.recv(CHUNK, socket.MSG_DONTWAIT)
        if not self._arrival.poll(None if timeout is None else timeout * 1_000):
            raise TimeoutError
        return self._socket.recv(CHUNK)

    def heard(self) -> list[list[Any]]:
        """What has come already, without waiting; `ConnectionClosed` if that is the end."""
        lines = []
        try:
            while True:
                lines.append(self.hear(0.0))
        except self._nothing_yet:
            return lines

    def _enter(self) -> None:
        with self._ending:
            if self._is_closed:
                raise ConnectionClosed(f"the connection to {self.place} is closed")
            self._inside += 1

    def _leave(self) -> None:
        with self._ending:
            self._inside -= 1
            if self._is_closed and not self._inside:
                self._socket.close()

    def close(self) -> None:
        """End the connection, from any thread; threads that wait in it are woken."""
        with self._ending:
            if self._is_closed:
                return
            self._is_closed = True
            if not self._inside:
                self._socket.close()
                return
            with suppress(OSError):
                # Not `SSLSocket.shutdown`, which takes the TLS state from under the other thread.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def abandon(self) -> None:
        """Close the descriptor in the child of a fork, where no other thread can be inside."""
        self._socket.close()


def _connected(place: NodeAddress, credentials: Credentials, patience: float) -> socket.socket:
    if place.path:
        return at_path(place.path, patience)
    made = socket.create_connection((place.host, place.port), patience)
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
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(patience)
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)  # noqa: PTH120
    try:
        # The name of a socket is at most a hundred bytes long, and paths are longer.
        is_long = len(os.fsencode(path)) >= 100 and sys.platform == "linux"
        made.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}" if is_long else path)  # noqa: PTH119
    except BaseException:
        made.close()
        raise
    finally:
        os.close(folder)
    return made


def security(credentials: Credentials) -> SSLContext:
    import ssl

    try:
        context = ssl.create_default_context(cafile=credentials.authority)
    except OSError as reason:
        raise ValueError(
            f"certificate of the authority {credentials.authority}: {_why(reason)}"
        ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = (
        False  # a node is named for its number, which is in the welcome, and compared there
    )
    if credentials.certificate:
        try:
            context.load_cert_chain(credentials.certificate, credentials.key or None)
        except OSError as reason:
            files = " and ".join(filter(None, (credentials.certificate, credentials.key)))
            raise ValueError(f"certificate {files}: {_why(reason)}") from None
    return context


def _why(reason: OSError) -> str:
    return getattr(reason, "reason", None) or reason.strerror or str(reason)


def check_certificate(place: NodeAddress, certificate: dict[str, Any], name: str) -> None:
    if ("DNS", name) not in certificate.get("subjectAltName", ()):
        raise RefusedByNode(f"{place} says that it is {name}, and its certificate does not")


def first_of(
    where: ClusterAddress,
    credentials: Credentials,
    label: str,
    left: Mapping[NodeAddress, float] | None = None,
    within: float | None = None,
) -> NodeConnection:
    """Connect to a node that answers, in the order of `in_order`; each may take its share of the
    time.
    """
    patience = CONNECT_SECONDS
    if within is not None:
        patience = min(patience, max(TRY_SECONDS, within / max(1, len(where.nodes))))
    reasons: list[HabemusError] = []
    for place in in_order(where.nodes, left or {}):
        try:
            return NodeConnection(place, credentials, label, patience=patience)
        except (RefusedByNode, Unreachable, ProtocolError) as reason:
            reasons.append(reason)
    raise no_node(where, reasons)


def no_node(where: ClusterAddress, reasons: Sequence[HabemusError]) -> HabemusError:
    """Return what to raise if no node lets this client in.  If none may do so later, it is what the
    first of them has said.
    """
    if not where.nodes:
        return Unreachable(f"no node is up in {where.folder}")
    if not any(isinstance(reason, Unreachable) for reason in reasons):
        return reasons[0]
    told = "; ".join(str(reason) for reason in reasons[:3])
    return Unreachable(f"no node answers: {told}{'; ...' if len(reasons) > 3 else ''}")

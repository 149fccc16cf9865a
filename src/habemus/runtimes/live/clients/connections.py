"""Connections of clients: lines come in, the desk is asked, lines go out.

Whoever comes by the local socket is of the same user.  Whoever comes by the network has to prove
that it knows the cluster's secret, if there is one.  Nothing but a greeting is understood before
that, and whatever is not understood ends the connection.
"""

from __future__ import annotations

import asyncio
import hmac
import os
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import msgspec

from habemus.problems.mutex import Mutex
from habemus.runtimes.compiled import is_compiled
from habemus.runtimes.live.clients.lock_queues import Desk, Session
from habemus.runtimes.live.clients.messages import (
    Acquire,
    Alive,
    Force,
    Hello,
    Proof,
    Release,
    Status,
    Transfer,
    Unwatch,
    Watch,
    Wrote,
)
from habemus.runtimes.live.clients.protocol import (
    LABEL_LIMIT,
    LINE_LIMIT,
    NAMES_LIMIT,
    VERSION,
    proof,
)
from habemus.runtimes.live.clients.watchers import Watching
from habemus.runtimes.live.hosting.slices import Slices
from habemus.runtimes.live.log_limits import Complaints
from habemus.runtimes.live.peers.codec import check_name
from habemus.runtimes.live.peers.strangers import Strangers
from habemus.runtimes.live.sockets import HANDSHAKE_SECONDS, origin, tune

if TYPE_CHECKING:
    from habemus.runtimes.live.hosting.node import Node

MOST_CLIENTS = 10_000
UNREAD_LIMIT = 4 << 20
"""Bytes that a client may leave unread before its connection is closed."""


_LINES = msgspec.json.Decoder(
    Hello | Proof | Acquire | Release | Transfer | Alive | Wrote | Watch | Unwatch | Status | Force
)
_ENCODER = msgspec.json.Encoder()
LONGEST_US = 10 * 365 * 24 * 3_600_000_000
MOST_WATCHES = 1_000
"""Locks and elections that one client may watch at a time."""


class Clients:
    """All connections of clients of one node."""

    def __init__(
        self, node: Node, desk: Desk, watching: Watching, slices: Slices, complaints: Complaints
    ) -> None:
        self.node = node
        self.desk = desk
        self.watching = watching
        self.slices = slices
        self.complaints = complaints
        self.connections: set[Connection] = set()
        self.welcomed = 0
        self.is_compiled = is_compiled()
        self.is_closed = False

    def connection(self, strangers: Strangers | None = None) -> Connection:
        """A connection by the local socket, or by the network, where it is a stranger at first."""
        return Connection(self, strangers)

    def close(self) -> None:
        self.is_closed = True
        for connection in list(self.connections):
            connection.end()

    def services(self) -> dict[str, Any]:
        found = {}
        for service in self.node.services:
            plan = next(iter(service.system.plans.values()))
            lease_us = getattr(plan, "lease", 0) or None
            found[service.name] = {
                "problem": self.desk.kind(service.name),
                "algorithm": getattr(type(plan), "name", type(plan).__name__),
                "lease_ms": None if lease_us is None else lease_us // 1_000,
                "hears_wishes": isinstance(plan, Mutex) and plan.hears_wishes,
            }
        return found

    def status(self) -> dict[str, Any]:
        node = self.node
        counts = dict(sorted(node.counts.items()))
        return {
            "cluster": node.settings.cluster,
            "node": node.me,
            "pid": os.getpid(),
            "compiled": self.is_compiled,
            "address": str(node.address),
            "configuration": node.configuration,
            "reaches": node.reaches(),
            "clients": len(self.connections),
            "services": self.services(),
            "leaders": [
                {"service": service, "name": name, "leader": leader, "term": term}
                for service, name, leader, term in node.leaders()
            ],
            "suspects": node.suspects(),
            "locks": list(self.desk.places()),
            "instances": len(node.instances()),
            "counts": counts,
        }


class Connection(asyncio.Protocol):
    def __init__(self, clients: Clients, strangers: Strangers | None) -> None:
        self._clients = clients
        self._desk = clients.desk
        self._strangers = strangers
        self._needs_proof = strangers is not None and clients.node.settings.secret is not None
        self._transport: asyncio.Transport | None = None
        self._session: Session | None = None
        self._hello: Hello | None = None
        self._nonces = ("", "")
        self._rest = b""
        self._lines: deque[bytes] = deque()  # that have come and are not read yet
        self._deadline: asyncio.TimerHandle | None = None
        self._watches: dict[int, tuple[str, str]] = {}  # what it watches, by id

    # The connection.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(
            asyncio.Transport, transport
        )  # that of uvloop does not derive from it
        if self._clients.is_closed or (
            self._strangers is None and len(self._clients.connections) >= MOST_CLIENTS
        ):
            self._transport.abort()
            return
        self._clients.connections.add(self)
        if self._strangers is not None:
            self._strangers.add(self)
        tune(self._transport)
        self._transport.set_write_buffer_limits(high=UNREAD_LIMIT)
        self._deadline = asyncio.get_running_loop().call_later(HANDSHAKE_SECONDS, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._clients.connections.discard(self)
        if self._strangers is not None:
            self._strangers.remove(self)
        if self._deadline is not None:
            self._deadline.cancel()
        if self._session is not None:
            session, self._session = self._session, None
            self._clients.welcomed -= 1
            self._clients.slices.run(self, self._unwatch_all(session))
            self._desk.leave(self, session)

    def _unwatch_all(self, session: Session) -> Iterator[None]:
        for id in list(self._watches):
            self._unwatch(session, id)
            yield

    def end(self) -> None:
        """Nothing more is said, nor listened to."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()

    def pause_writing(self) -> None:
        self._clients.complaints.warn(
            "a client does not read what it is told: its connection is closed"
        )
        self.abort()

    def abort(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()

    def _give_up(self) -> None:
        if self._session is None:
            self._refuse("rude", "no greeting in time")

    def _refuse(self, word: str, why: str) -> None:
        self._clients.node.counts["refused"] += 1
        self._clients.complaints.warn("refused a client%s: %s", origin(self._transport), why)
        self.say("refused", None, word, why)
        self.end()

    def say(self, *line: object) -> None:
        transport = self._transport
        if transport is not None and not transport.is_closing():
            transport.write(_ENCODER.encode(line) + b"\n")

    # Lines.

    def data_received(self, data: bytes) -> None:
        is_behind = bool(self._lines)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._lines.extend(lines)
        if len(self._rest) > LINE_LIMIT:
            self._lines.append(self._rest)
            self._rest = b""
        if (
            not is_behind
            and not self._clients.slices.run(self, self._read_lines())
            and self._transport is not None
        ):
            self._transport.pause_reading()

    def _read_lines(self) -> Iterator[None]:
        while self._lines and self._transport is not None:
            try:
                self._read(self._lines[0])
            except BaseException:
                self.abort()  # a connection that nobody reads any more must not stay
                raise
            self._lines.popleft()
            yield
        if self._transport is None:
            self._lines.clear()
        elif not self._transport.is_reading():
            self._transport.resume_reading()

    def _read(self, text: bytes) -> None:
        try:
            line = _LINES.decode(text) if len(text) <= LINE_LIMIT else None
        except (msgspec.DecodeError, ValueError, RecursionError):
            line = None
        session = self._session
        if line is None:
            is_long = len(text) > LINE_LIMIT
            self._refuse(
                "rude",
                f"a line of more than {LINE_LIMIT} bytes"
                if is_long
                else "this is no line that a client may say",
            )
        elif session is None:
            self._greet(line)
        elif isinstance(line, Acquire):
            timeout_us = None if line.timeout_ms is None else line.timeout_ms * 1_000
            lease_us = None if line.lease_ms is None else line.lease_ms * 1_000
            is_timeout = timeout_us is None or 0 <= timeout_us <= LONGEST_US
            is_lease = lease_us is None or 0 < lease_us <= LONGEST_US
            if is_timeout and is_lease and len(line.names) <= NAMES_LIMIT:
                self._desk.acquire(
                    self,
                    session,
                    line.id,
                    line.service,
                    line.names,
                    timeout_us,
                    lease_us,
                    line.at,
                    line.keeps,
                )
            else:
                self.say("refused", line.id, "rude", "too many names, or a time that is none")
        elif isinstance(line, Release):
            self._desk.release(session, line.id)
        elif isinstance(line, Alive):
            self._desk.alive(self, session, line.at)
        else:
            self._answer(session, line)

    def _answer(self, session: Session, line: Any) -> None:
        if isinstance(line, Watch):
            self._watch(session, line)
        elif isinstance(line, Unwatch):
            self._unwatch(session, line.id)
        elif isinstance(line, Wrote):
            with suppress(
                ValueError, RuntimeError
            ):  # it is for the record only, and nobody hears of it
                self._desk.note_write(line.service, line.name, line.token)
        elif isinstance(line, Transfer):
            self._desk.transfer(session, line.id, line.label)
        elif isinstance(line, Status):
            self.say("status", line.id, self._clients.status())
        elif isinstance(line, Force):
            try:
                check_name(line.name)
                self.say("done", line.id, self._desk.force(line.service, line.name))
            except (ValueError, RuntimeError) as reason:
                self.say("refused", line.id, "rude", str(reason))
        else:
            self._refuse("rude", "a second greeting")

    def _watch(self, session: Session, line: Watch) -> None:
        if line.id in self._watches:
            self.say("refused", line.id, "rude", f"the id {line.id} is in use")
        elif session.watches >= MOST_WATCHES:
            self.say(
                "refused",
                line.id,
                "full",
                f"one client watches at most {MOST_WATCHES} locks and elections at a time",
            )
        elif self._desk.kind(line.service) == "other":
            self.say(
                "refused",
                line.id,
                "unknown",
                f"there is nothing to watch in a service {line.service}",
            )
        else:
            try:
                check_name(line.name)
                self._clients.watching.watch(self, line.id, line.service, line.name)
            except (RuntimeError, ValueError) as reason:
                self.say("refused", line.id, "full", str(reason))
                return
            self._watches[line.id] = (line.service, line.name)
            session.watches += 1

    def _unwatch(self, session: Session, id: int) -> None:
        key = self._watches.pop(id, None)
        if key is not None:
            session.watches -= 1
            self._clients.watching.unwatch(self, id, key)

    # Greetings.

    def _greet(self, line: Any) -> None:
        settings = self._clients.node.settings
        if isinstance(line, Hello) and self._hello is None:
            self._hello = line
            if line.version != VERSION:
                self._refuse(
                    "rude", f"this node speaks version {VERSION} to its clients, not {line.version}"
                )
            elif len(line.label) > LABEL_LIMIT or not line.label.isprintable():
                self._refuse(
                    "rude",
                    f"a client's label is printable and has at most {LABEL_LIMIT} characters",
                )
            elif not self._needs_proof:
                self._welcome(line)
            elif line.nonce is None or not 32 <= len(line.nonce) <= 128:
                self._refuse("secret", "this cluster has a secret: name it")
            else:
                assert settings.secret is not None
                self._nonces = (line.nonce, os.urandom(32).hex())
                shown = proof(
                    settings.secret, "node", settings.cluster, settings.node, self._nonces
                )
                self.say("challenge", settings.cluster, settings.node, self._nonces[1], shown)
        elif isinstance(line, Proof) and self._hello is not None and self._needs_proof:
            assert settings.secret is not None
            wanted = proof(settings.secret, "client", settings.cluster, settings.node, self._nonces)
            if hmac.compare_digest(line.proof.encode(), wanted.encode()):
                self._welcome(self._hello)
            else:
                self._refuse("secret", "the secret is another one")
        else:
            self._refuse("rude", "greet first")

    def _welcome(self, hello: Hello) -> None:
        if self._clients.welcomed >= MOST_CLIENTS:
            self._refuse(
                "full", f"this node has {self._clients.welcomed} clients, as many as it may"
            )
            return
        session = self._desk.join(self, hello.label, hello.session)
        if session is None:
            self._refuse("unknown", "that session is over")
            return
        if self._deadline is not None:
            self._deadline.cancel()
        if self._strangers is not None:
            self._strangers.remove(self)
        self._session = session
        self._clients.welcomed += 1
        node = self._clients.node
        nodes = {
            str(each): str(address)
            for each, address in sorted({**node.settings.peers, node.me: node.address}.items())
        }
        told = {
            "cluster": node.settings.cluster,
            "node": node.me,
            "session": session.key,
            "nodes": nodes,
        }
        self.say("welcome", {**told, "services": self._clients.services()})

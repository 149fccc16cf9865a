"""Connections of clients: read lines, call the lock queues, write lines.

A client on the local socket belongs to the same user.  A client on the network has to prove that it
knows the cluster's secret, if there is one.  Before that only the handshake is accepted; any
malformed line closes the connection.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast, get_args

import msgspec

from habemus.problems.mutex import Mutex
from habemus.runtimes.compiled import is_compiled
from habemus.runtimes.live.clients.lock_queues import ClientSession, LockQueues
from habemus.runtimes.live.clients.messages import (
    AliveLine,
    ClaimLine,
    ElectLine,
    ForceLine,
    GoodbyeLine,
    HelloLine,
    LeadLine,
    MemberLine,
    MoveLine,
    ProofLine,
    ReleaseLine,
    RequestLine,
    SemaphoreLine,
    StatusLine,
    TransferLine,
    UnwatchLine,
    WatchLine,
    WroteLine,
)
from habemus.runtimes.live.clients.peer_process import ProcessEnd, process_behind
from habemus.runtimes.live.clients.protocol import (
    ELECTIONS,
    GOODBYE,
    LABEL_LIMIT,
    LINE_LIMIT,
    NAMES_LIMIT,
    RESERVED,
    SEMAPHORES,
    WIRE_VERSION,
    lock_name,
    proof,
    semaphore_places,
)
from habemus.runtimes.live.clients.watchers import LockWatchers
from habemus.runtimes.live.hosting.slices import TimeSlicer
from habemus.runtimes.live.log_limits import RateLimitedLog
from habemus.runtimes.live.monitoring.logs import details
from habemus.runtimes.live.monitoring.wall_clock import wall_clock_ms
from habemus.runtimes.live.peers.codec import check_name
from habemus.runtimes.live.peers.handshake import client_name, wire_refusal
from habemus.runtimes.live.peers.tls import names_in
from habemus.runtimes.live.peers.unauthenticated import UnauthenticatedConnections
from habemus.runtimes.live.rules import (
    BY_SECRET,
    BY_SOCKET,
    FORCE,
    LOCK,
    MEMBERS,
    STATUS,
    WATCH,
    AccessRules,
    is_client_name,
)
from habemus.runtimes.live.sockets import HANDSHAKE_SECONDS, origin, share_of_descriptors, tune

if TYPE_CHECKING:
    from habemus.runtimes.live.hosting.node import Node

log = logging.getLogger("habemus.live")

MOST_CLIENTS = 10_000
DESCRIPTORS_SHARE = 2
"""Clients may use one of so many of the descriptors that the process may have."""
UNREAD_LIMIT = 4 << 20
"""Bytes of unread output at which the connection of a client is closed."""
CLOSING_SECONDS = 10.0
"""Time in which a client may read the last lines of a connection that the node closes.  Until then
its session lasts, with what it holds.
"""


ClientLine: TypeAlias = (
    HelloLine
    | ProofLine
    | RequestLine
    | LeadLine
    | SemaphoreLine
    | ReleaseLine
    | TransferLine
    | ClaimLine
    | MoveLine
    | GoodbyeLine
    | AliveLine
    | WroteLine
    | WatchLine
    | UnwatchLine
    | StatusLine
    | ForceLine
    | ElectLine
    | MemberLine
)
_LINES = msgspec.json.Decoder(ClientLine)
_WORDS = frozenset(line.__struct_config__.tag for line in get_args(ClientLine))
_ENCODER = msgspec.json.Encoder()
FEW_LINES: Final = 4
"""Lines of a client that are handled at once: mostly one, or a release and the next request."""
LONGEST_MS: Final = 10 * 365 * 24 * 3_600_000
"""Longest timeout and lease of a request."""
MOST_WATCHES = 1_000
"""Locks and elections that one client may watch."""


class ClientConnections:
    """All client connections of one node."""

    def __init__(
        self,
        node: Node,
        lock_queues: LockQueues,
        watchers: LockWatchers,
        slices: TimeSlicer,
        limited_log: RateLimitedLog,
    ) -> None:
        self.node = node
        self.lock_queues = lock_queues
        self.watchers = watchers
        self.slices = slices
        self.limited_log = limited_log
        self.connections: set[ClientConnection] = set()
        self.welcomed = 0
        self.most = min(MOST_CLIENTS, share_of_descriptors(DESCRIPTORS_SHARE))
        self.is_compiled = is_compiled()
        self.version = version("habemus")
        self.is_closed = False
        # of clients whose connections have closed, by their sessions
        self._process_ends: dict[str, ProcessEnd] = {}
        rules = node.settings.rules
        self.rules = AccessRules(rules) if rules else None

    def connection(
        self, unauthenticated: UnauthenticatedConnections | None = None
    ) -> ClientConnection:
        """Return a connection: on the local socket, or on the network with `unauthenticated`."""
        return ClientConnection(self, unauthenticated)

    def close(self) -> None:
        self.is_closed = True
        for connection in list(self.connections):
            connection.end()
        for key in list(self._process_ends):
            self._process_ends.pop(key).cancel()

    def end_with_process(self, session: ClientSession, process: int) -> None:
        """End a session without connections when the process of its client is gone."""
        self._forget_process(session)

        def end() -> None:
            if not session.connections:
                self.lock_queues.end(session)

        session.ended = partial(self._forget_process, session)
        process_end = ProcessEnd(process, end)
        if session.requests:
            self._process_ends[session.key] = process_end
        else:
            process_end.cancel()

    def _forget_process(self, session: ClientSession) -> None:
        process_end = self._process_ends.pop(session.key, None)
        if process_end is not None:
            process_end.cancel()

    def announce(self, configuration: int, nodes: Mapping[str, str]) -> None:
        """Tell all clients which nodes there are now."""
        for connection in self.connections:
            if connection.is_welcome:
                connection.send("nodes", 0, configuration, nodes)

    def services(self) -> dict[str, Any]:
        found = {}
        for service in self.node.services:
            plan = next(iter(service.system.plans.values()))
            lease_us = self.lock_queues.lease_us(service.name)
            found[service.name] = {
                "problem": self.lock_queues.kind(service.name),
                "algorithm": getattr(type(plan), "name", type(plan).__name__),
                "lease_ms": None if lease_us is None else lease_us // 1_000,
                "sees_waiters": isinstance(plan, Mutex) and plan.sees_waiters,
                "moves": service.name in self.lock_queues.movable,
            }
        return found

    def status(self, locks: list[bytes]) -> dict[str, Any]:
        """Return the status of the node, with these locks, each encoded already."""
        node = self.node
        counts = dict(sorted(node.counts.items()))
        return {
            "cluster": node.settings.cluster,
            "node": node.me,
            "pid": os.getpid(),
            "version": self.version,
            "compiled": self.is_compiled,
            "now_ms": wall_clock_ms(),
            "address": str(node.address),
            "configuration": node.configuration,
            "reaches": node.reaches(),
            "member": node.is_member,
            "unsettled": node.unsettled() if node.is_member else [],
            "members": node.members.plain(),
            "fixed_members": node.members.fixed(),
            "clients": self.lock_queues.clients(),
            "services": self.services(),
            "leaders": [
                {"service": service, "name": name, "leader": leader, "term": term}
                for service, name, leader, term in node.leaders()
            ],
            "suspects": node.suspects(),
            "locks": msgspec.Raw(b"[" + b",".join(locks) + b"]"),
            "instances": len(node.instances()),
            "counts": counts,
        }


class ClientConnection(asyncio.Protocol):
    """One connection of a client."""

    def __init__(
        self, clients: ClientConnections, unauthenticated: UnauthenticatedConnections | None
    ) -> None:
        self._clients = clients
        self._lock_queues = clients.lock_queues
        self._meter = clients.lock_queues.meter
        self._unauthenticated = unauthenticated
        self._needs_proof = unauthenticated is not None and clients.node.settings.secret is not None
        self._transport: asyncio.Transport | None = None
        self._closing: asyncio.Transport | None = None  # after what was written
        self._process: int | None = None  # at the other end, if it is on this machine
        self._session: ClientSession | None = None
        self._hello: HelloLine | None = None
        self._nonces = ("", "")
        self._who: tuple[str, ...] = ()  # names by which rules know the client
        self._rest = b""
        self._lines: deque[bytes] = deque()  # received and not handled yet
        self._deadline: asyncio.TimerHandle | None = None
        self._turn = clients.slices.turn
        self._written_in = 0  # the last turn in which a line was written
        self._unwritten: list[bytes] = []  # further lines of this turn
        self._is_behind = False  # lines wait until the client reads
        self._watches: dict[int, tuple[str, str]] = {}  # by id

    @property
    def is_welcome(self) -> bool:
        return self._session is not None

    # The connection.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not derive from it
        if self._clients.is_closed or (
            self._unauthenticated is None and len(self._clients.connections) >= self._clients.most
        ):
            self._transport.abort()
            return
        self._clients.connections.add(self)
        if self._unauthenticated is not None:
            self._unauthenticated.add(self)
        else:
            self._process = process_behind(transport)
        tune(self._transport)
        if self._transport.get_extra_info("sslcontext") is None:
            # So older versions of uvloop write at once, too.  With TLS it would pause for ever.
            self._transport.set_write_buffer_limits(high=0)
        else:
            self._transport.set_write_buffer_limits(high=UNREAD_LIMIT)
        self._limit(HANDSHAKE_SECONDS, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = self._closing = None
        self._clients.connections.discard(self)
        if self._unauthenticated is not None:
            self._unauthenticated.remove(self)
        if self._deadline is not None:
            self._deadline.cancel()
        if self._session is not None:
            session, self._session = self._session, None
            self._clients.welcomed -= 1
            log.debug("client %s has left", session.label)
            self._clients.slices.run(self, self._unwatch_all(session))
            self._hear_goodbye(session)
            self._lock_queues.leave(self, session)
            if self._process is not None and session.requests and not session.connections:
                self._clients.end_with_process(session, self._process)

    def _hear_goodbye(self, session: ClientSession) -> None:
        """End the session if the client has closed the connection after a goodbye that is not
        handled yet.
        """
        if self._lines and self._lines[-1] + b"\n" == GOODBYE:
            self._lock_queues.end(session)

    def _unwatch_all(self, session: ClientSession) -> Iterator[None]:
        for id in list(self._watches):
            self._unwatch(session, id)
            yield

    def end(self) -> None:
        """Close the connection after what was sent; ignore what still arrives."""
        self._flush()
        transport, self._transport = self._transport, None
        if transport is not None:
            self._closing = transport
            transport.close()
            self._limit(CLOSING_SECONDS, self.abort)

    def eof_received(self) -> None:
        if self._session is not None:
            self._hear_goodbye(self._session)
        self.end()

    def _limit(self, seconds: float, action: Callable[[], None]) -> None:
        """Run the action after this time, in place of an earlier one."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = asyncio.get_running_loop().call_later(seconds, action)

    def pause_writing(self) -> None:
        self._is_behind = True
        self._check_unread()

    def resume_writing(self) -> None:
        self._is_behind = False

    def _check_unread(self) -> None:
        """Close the connection of a client that does not read what it is sent."""
        transport = self._transport or self._closing
        if transport is not None and transport.get_write_buffer_size() > UNREAD_LIMIT:
            self._clients.limited_log.warning(
                "closed the connection of a client that does not read: more than %d bytes unread",
                UNREAD_LIMIT,
            )
            self.abort()

    def abort(self) -> None:
        transport, self._transport = self._transport or self._closing, None
        if transport is not None:
            transport.abort()

    def _give_up(self) -> None:
        if self._session is None:
            self._refuse("bad_request", f"no hello within {HANDSHAKE_SECONDS:g} s")

    def _refuse(self, word: str, why: str) -> None:
        self._clients.node.counts["refused"] += 1
        self._clients.limited_log.warning("refused a client%s: %s", origin(self._transport), why)
        self.send("refused", None, word, why)
        self.end()

    def send(self, *line: object) -> None:
        """Send a line at once if it is the first one of this turn.  The others leave together at
        the end of the turn: every write may wake the client.

        The loss of a lease leaves at once, before the lock is granted to another client.
        """
        if self._meter is not None and line[0] == "refused":
            self._meter.refusals[cast(str, line[2])] += 1
        data = _ENCODER.encode(line) + b"\n"
        turn = self._turn
        if turn.is_open and turn.number == self._written_in and line[0] != "lost":
            if not self._unwritten:
                turn.at_end(self._flush)
            self._unwritten.append(data)
        else:
            if self._unwritten:  # the end of an earlier turn was put off, or failed
                self._flush()
            self._written_in = turn.number
            self._write(data)

    def _flush(self) -> None:
        if self._unwritten:
            lines, self._unwritten = self._unwritten, []
            self._write(b"".join(lines))

    def _write(self, data: bytes) -> None:
        transport = self._transport
        if transport is not None and not transport.is_closing():
            transport.write(data)
            if self._is_behind:
                self._check_unread()

    # Lines.

    def data_received(self, data: bytes) -> None:
        is_behind = bool(self._lines)
        lines = (self._rest + data).split(b"\n")  # not unpacked, which takes longer if compiled
        self._rest = lines.pop()
        self._lines.extend(lines)
        if len(self._rest) > LINE_LIMIT:
            self._lines.append(self._rest)
            self._rest = b""
        if is_behind:
            return
        slices = self._clients.slices
        # Handshakes do not wait behind locks: few connections may be unauthenticated at a time.
        is_at_once = self._session is None or slices.may_do_at_once()
        work = self._read_few() if is_at_once and len(self._lines) <= FEW_LINES else None
        if (
            self._lines
            and not slices.run(self, self._read_lines(work), at_once=is_at_once)
            and self._transport is not None
        ):
            self._transport.pause_reading()

    def _read_few(self) -> Iterator[None] | None:
        """Handle the lines at once, without the cost of time slices, up to one that may take long.
        Return what is left to do for that.
        """
        turn = self._clients.slices.turn
        is_outermost = turn.open_unless_open()
        try:
            while self._lines and self._transport is not None:
                work = self._read(self._lines[0])
                if work is not None:
                    return work
                self._lines.popleft()
        except BaseException:
            self.abort()  # its lines are not read any more
            raise
        finally:
            if is_outermost:
                turn.close()
        return None

    def _read_lines(self, work: Iterator[None] | None = None) -> Iterator[None]:
        """Handle the lines that have arrived.

        work: what is left to do for the first of them, if it was read already.
        """
        while self._lines and self._transport is not None:
            try:
                if work is None:
                    work = self._read(self._lines[0])
                if work is not None:
                    yield from work
                    work = None
            except BaseException:
                self.abort()  # its lines are not read any more
                raise
            self._lines.popleft()
            if self._lines:
                yield
        if self._transport is None:
            self._lines.clear()
        elif not self._transport.is_reading():
            self._transport.resume_reading()

    def _read(self, text: bytes) -> Iterator[None] | None:
        """Handle a line.  Return what is left to do before the next one, if that may take long."""
        try:
            line = _LINES.decode(text) if len(text) <= LINE_LIMIT else None
        except (msgspec.DecodeError, ValueError, RecursionError):
            line = None
        session = self._session
        if line is None:
            self._refuse_line(text)
        elif session is None:
            self._greet(line)
        elif self._clients.rules is not None and self._refuse_if_forbidden(session, line):
            pass
        elif type(line) is ReleaseLine:  # the most frequent ones, compared without a call
            self._lock_queues.release(session, line.id)
        elif type(line) is RequestLine:
            self._request(session, line, line.keeps)
        elif isinstance(line, LeadLine | SemaphoreLine):
            self._request(session, line)
        elif isinstance(line, AliveLine):
            self._lock_queues.alive(self, session, line.at)
        elif isinstance(line, StatusLine):
            return self._answer_status(line.id)
        else:
            self._answer(session, line)
        return None

    def _refuse_line(self, text: bytes) -> None:
        """Refuse a line that is not valid.  Close the connection, unless the line is of a type that
        this node does not know: a client of another release may have sent it.
        """
        if len(text) > LINE_LIMIT:
            self._refuse("bad_request", f"line exceeds the limit of {LINE_LIMIT} bytes")
            return
        unknown = None if self._session is None else _unknown_line(text)
        if unknown is None:
            self._refuse("bad_request", "not a valid line of the client protocol")
            return
        word, id = unknown
        node = f"node {self._clients.node.me} (habemus {self._clients.version})"
        why = f"{node} does not know the line {word[:20]!r}; upgrade the node"
        self.send("refused", id, "unsupported", why)

    def _answer_status(self, id: int) -> Iterator[None]:
        """Send the status.  It is linear in all locks and waiting clients of this node."""
        locks: list[bytes] = []
        rules = self._clients.rules
        for lock in self._lock_queues.table():
            if lock is not None and (rules is None or rules.allow(self._who, WATCH, lock["name"])):
                locks.append(_ENCODER.encode(lock))
            yield
        self.send("status", id, self._clients.status(locks))

    def _refuse_if_forbidden(self, session: ClientSession, line: Any) -> bool:
        """Refuse a line that the rules do not allow.  This is the only place where they are asked,
        but for the locks that a status lists.
        """
        rules, wanted = self._clients.rules, _wanted(line)
        assert rules is not None
        if wanted is None:
            return False
        action, names = wanted
        forbidden = [name for name in names if not rules.allow(self._who, action, name)]
        if not forbidden and (names or rules.allow_some(self._who, action)):
            return False
        why = f"may not {action} {forbidden[0]!r}" if forbidden else f"may not {action} any lock"
        if action == MEMBERS:
            why = "may not change the members"
        elif action == STATUS:
            why = "may not see the status"
        self._clients.limited_log.warning(
            "refused client %s%s: %s",
            self._known(session),
            origin(self._transport),
            why,
            extra=details("forbidden", client=session.label, who=self._who, action=action),
        )
        if not isinstance(line, WroteLine):
            known = ", ".join(self._who) or "unknown"
            text = f"{known} {why}; the rules of the cluster do not allow it"
            self.send("refused", line.id, "forbidden", text)
        return True

    def _known(self, session: ClientSession) -> str:
        """Return the label of the client, which it chose, and the names that it has proved."""
        return f"{session.label} ({', '.join(self._who)})" if self._who else session.label

    def _request(
        self,
        session: ClientSession,
        line: RequestLine | LeadLine | SemaphoreLine,
        keeps: bool = False,
    ) -> None:
        timeout_ms, lease_ms = line.timeout_ms, line.lease_ms
        try:
            _check_times(timeout_ms, lease_ms)
            names = self._names_in(line)
        except ValueError as reason:
            self.send("refused", line.id, "bad_request", str(reason))
            return
        self._lock_queues.request(
            self,
            session,
            line.id,
            line.service,
            names,
            None if timeout_ms is None else timeout_ms * 1_000,
            None if lease_ms is None else lease_ms * 1_000,
            line.at,
            keeps,
        )

    def _names_in(self, line: RequestLine | LeadLine | SemaphoreLine) -> list[str]:
        """Return the names of the locks that a line requests; raise `ValueError` if it may not."""
        if isinstance(line, RequestLine):
            names = line.names
            if len(names) > NAMES_LIMIT:
                raise ValueError(f"request names {len(names)} locks; the limit is {NAMES_LIMIT}")
            for name in names:
                if name.startswith(RESERVED):
                    lock_name(name)  # raises
            return names
        if isinstance(line, LeadLine):
            return [ELECTIONS + line.name]
        size = self._clients.node.settings.semaphores.get(line.name)
        if size is None:
            raise ValueError(
                f"no semaphore {line.name!r} in this cluster; declare its size under [semaphores]"
                " in the cluster.toml of all nodes"
            )
        if line.size not in (None, size):
            raise ValueError(
                f"semaphore {line.name!r} has size {size} in this cluster, not {line.size}; leave"
                " the size out, or change it in the cluster.toml of all nodes"
            )
        return semaphore_places(line.name, size)

    def _answer(self, session: ClientSession, line: Any) -> None:
        if isinstance(line, WatchLine):
            self._watch(session, line)
        elif isinstance(line, UnwatchLine):
            self._unwatch(session, line.id)
        elif isinstance(line, WroteLine):
            with suppress(ValueError, RuntimeError):  # for the record only
                self._lock_queues.note_write(line.service, line.name, line.token)
        elif isinstance(line, TransferLine):
            self._lock_queues.transfer(session, line.id, line.label)
        elif isinstance(line, MoveLine):
            self._lock_queues.move(session, line.id)
        elif isinstance(line, GoodbyeLine):
            self._lock_queues.end(session)
        elif isinstance(line, ClaimLine):
            self._claim(session, line)
        elif isinstance(line, ForceLine):
            self._force(session, line)
        elif isinstance(line, ElectLine):
            self._elect(line)
        elif isinstance(line, MemberLine):
            self._change_members(session, line)
        else:
            self._refuse("bad_request", "second hello on one connection")

    def _claim(self, session: ClientSession, line: ClaimLine) -> None:
        try:
            _check_times(None, line.lease_ms)
            check_name(line.name)
        except ValueError as reason:
            self.send("refused", line.id, "bad_request", str(reason))
            return
        self._lock_queues.claim(
            self,
            session,
            line.id,
            line.service,
            line.name,
            line.token,
            line.shown,
            None if line.lease_ms is None else line.lease_ms * 1_000,
            line.at,
            line.keeps,
            line.ticket,
        )

    def _force(self, session: ClientSession, line: ForceLine) -> None:
        """Take a lock from its holder, with a line in the log that says who did it."""
        try:
            check_name(line.name)
            done = self._lock_queues.force(line.service, line.name)
        except (ValueError, RuntimeError) as reason:
            self.send("refused", line.id, "bad_request", str(reason))
            return
        who, taken = session.label, done["taken"]
        log.warning(
            "audit: client %s%s forced the release of lock %r of service %s: %s",
            self._known(session),
            origin(self._transport),
            line.name,
            line.service,
            f"taken from {taken}" if taken else "not held by a client of this node",
            extra=details(
                "forced",
                client=who,
                who=self._who,
                lock=line.name,
                service=line.service,
                taken=taken,
            ),
        )
        if self._meter is not None:
            self._meter.forced += 1
        self.send("done", line.id, done)

    def _change_members(self, session: ClientSession, line: MemberLine) -> None:
        """Make a step of a change of members, with a line in the log that says who asked for it."""
        members = self._clients.node.members
        try:
            has_begun = members.change(line.step, line.node, line.address, line.memory)
        except (ValueError, RuntimeError) as reason:
            self.send("refused", line.id, "bad_request", str(reason))
            return
        if has_begun:
            log.warning(
                "audit: client %s%s changes the members: %s node %d%s",
                self._known(session),
                origin(self._transport),
                line.step,
                line.node,
                f" at {line.address}" if line.address else "",
                extra=details(
                    "members changed",
                    client=session.label,
                    who=self._who,
                    step=line.step,
                    changed=line.node,
                ),
            )
        self.send("done", line.id, {"begun": has_begun, "members": members.plain()})

    def _elect(self, line: ElectLine) -> None:
        if self._lock_queues.kind(line.service) != "election":
            self.send(
                "refused",
                line.id,
                "unknown",
                f"no service {line.service!r} with elections to call;"
                " habemus up --algorithm bully starts a cluster that has them",
            )
            return
        try:
            check_name(line.name)
            self._clients.node.make_request(line.service, line.name, "elect")
        except (ValueError, RuntimeError) as reason:
            self.send("refused", line.id, "bad_request", str(reason))
        else:
            self.send("done", line.id, {"called": line.name})

    def _watch(self, session: ClientSession, line: WatchLine) -> None:
        if line.id in self._watches:
            self.send(
                "refused",
                line.id,
                "bad_request",
                f"watch id {line.id} is in use; use each id once per session",
            )
        elif session.watches >= MOST_WATCHES:
            self.send(
                "refused",
                line.id,
                "full",
                f"this client watches {MOST_WATCHES} locks and elections, the limit; unwatch some",
            )
        elif self._lock_queues.kind(line.service) == "other":
            self.send(
                "refused",
                line.id,
                "unknown",
                f"no service {line.service!r} with locks or elections to watch",
            )
        else:
            try:
                check_name(line.name)
                self._clients.watchers.watch(self, line.id, line.service, line.name)
            except (RuntimeError, ValueError) as reason:
                self.send("refused", line.id, "full", str(reason))
                return
            self._watches[line.id] = (line.service, line.name)
            session.watches += 1

    def _unwatch(self, session: ClientSession, id: int) -> None:
        key = self._watches.pop(id, None)
        if key is not None:
            session.watches -= 1
            self._clients.watchers.unwatch(self, id, key)

    # Handshake.

    def _greet(self, line: Any) -> None:
        settings = self._clients.node.settings
        if isinstance(line, HelloLine) and self._hello is None:
            self._hello = line
            if line.wire != WIRE_VERSION:
                why = wire_refusal("the client", line.wire, f"node {settings.node}")
                self._refuse("wire_version", why)
            elif len(line.label) > LABEL_LIMIT or not line.label.isprintable():
                self._refuse(
                    "bad_request",
                    f"label {line.label[:20]!r}...: use at most {LABEL_LIMIT} printable characters",
                )
            elif not self._needs_proof:
                self._welcome(line)
            elif line.nonce is None or not 32 <= len(line.nonce) <= 128:
                self._refuse("unauthenticated", "this cluster needs its secret")
            else:
                self._nonces = (line.nonce, os.urandom(32).hex())
                secret = self._secret_of(line)
                shown = proof(secret, "node", settings.cluster, settings.node, self._nonces)
                self.send("challenge", settings.cluster, settings.node, self._nonces[1], shown)
        elif isinstance(line, ProofLine) and self._hello is not None and self._needs_proof:
            secret = self._secret_of(self._hello)
            wanted = proof(secret, "client", settings.cluster, settings.node, self._nonces)
            if hmac.compare_digest(line.proof.encode(), wanted.encode()):
                self._welcome(self._hello)
            else:
                self._refuse("unauthenticated", "wrong cluster secret")
        else:
            self._refuse("bad_request", "the first line must be a hello")

    def _secret_of(self, hello: HelloLine) -> bytes:
        """Return the secret that the client has to know: the one that it names, if there is one."""
        settings = self._clients.node.settings
        assert settings.secret is not None
        return settings.secrets.get(hello.secret or "", settings.secret)

    def _names_of(self, hello: HelloLine) -> tuple[str, ...]:
        """Return the names by which rules know the client, after it has proved its secret."""
        settings = self._clients.node.settings
        if self._unauthenticated is None:
            return (BY_SOCKET,)
        shown = None if self._transport is None else self._transport.get_extra_info("peercert")
        start, end = client_name(settings.cluster, "\0").split("\0")
        names = (
            name.removeprefix(start).removesuffix(end)
            for name in sorted(names_in(shown))
            if name.startswith(start) and name.endswith(end)
        )
        found = [name for name in names if is_client_name(name)]
        if self._needs_proof:
            is_named = hello.secret is not None and hello.secret in settings.secrets
            found.append(f"@{hello.secret}" if is_named else BY_SECRET)
        return tuple(found)

    def _welcome(self, hello: HelloLine) -> None:
        if self._clients.welcomed >= self._clients.most:
            self._refuse(
                "full",
                f"this node has {self._clients.welcomed} clients, its limit; use another node",
            )
            return
        self._who = self._names_of(hello) if self._clients.rules is not None else ()
        session = self._lock_queues.join(self, hello.label, hello.session, self._who)
        if session is None:
            self._refuse("unknown", "the session has ended; begin a new one")
            return
        if self._deadline is not None:
            self._deadline.cancel()
        if self._unauthenticated is not None:
            self._unauthenticated.remove(self)
        self._session = session
        self._clients.welcomed += 1
        log.debug("client %s has joined%s", session.label, origin(self._transport))
        node = self._clients.node
        nodes = {
            str(each): str(address)
            for each, address in sorted({**node.peers, node.me: node.address}.items())
        }
        welcome = {
            "cluster": node.settings.cluster,
            "node": node.me,
            "session": session.key,
            "nodes": nodes,
            "version": self._clients.version,
        }
        if self._lock_queues.releases_on_disconnect:
            welcome["release_on_disconnect"] = True
        if changed := node.members.told():
            welcome["configuration"], welcome["nodes"] = changed
        self.send("welcome", {**welcome, "services": self._clients.services()})


def _unknown_line(text: bytes) -> tuple[str, int | None] | None:
    """Return the word and the id of a line that this node does not know; None if it is none."""
    try:
        line = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    if not isinstance(line, list) or not line or not isinstance(line[0], str) or line[0] in _WORDS:
        return None
    id = line[1] if len(line) > 1 and type(line[1]) is int and abs(line[1]) < 1 << 63 else None
    return line[0], id


def _wanted(line: Any) -> tuple[str, list[str]] | None:
    """Return the action and the locks for which a line needs permission; no names: any lock.  None
    if it concerns only what the client was granted already.
    """
    if isinstance(line, RequestLine):
        return LOCK, line.names
    if isinstance(line, LeadLine):
        return LOCK, [ELECTIONS + line.name]
    if isinstance(line, ClaimLine):
        is_place = line.name.startswith(SEMAPHORES)
        return LOCK, [line.name.rpartition("/")[0] if is_place else line.name]
    if isinstance(line, SemaphoreLine):
        return LOCK, [SEMAPHORES + line.name]
    if isinstance(line, WatchLine):
        return WATCH, [line.name]
    if isinstance(line, WroteLine):
        return LOCK, [line.name]
    if isinstance(line, ForceLine | ElectLine):
        return FORCE, [line.name]
    if isinstance(line, MemberLine):
        return MEMBERS, []
    return (STATUS, []) if isinstance(line, StatusLine) else None


def _check_times(timeout_ms: int | None, lease_ms: int | None) -> None:
    """Raise `ValueError` if the timeout or the lease of a request is out of range."""
    if timeout_ms is not None and not 0 <= timeout_ms <= LONGEST_MS:
        raise ValueError(f"timeout of {timeout_ms} ms; it must be between 0 and {LONGEST_MS}")
    if lease_ms is not None and not 0 < lease_ms <= LONGEST_MS:
        raise ValueError(f"lease of {lease_ms} ms; it must be between 1 and {LONGEST_MS}")

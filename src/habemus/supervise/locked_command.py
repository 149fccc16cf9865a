"""A command that runs while a lock is held: the engine of `habemus lock` and `habemus lead`.

It waits for the lock, starts the command as a process group of its own, passes on signals, renews
the lease on the connection on which the lock was granted, and releases when the command has ended.
If the lock is lost, or may be, the command is ended before the lease expires:

    |<------------------------------ what the node has promised -------------------------------->|
    |.......... renewed every fifth of the lease ..........| SIGTERM ............| SIGKILL ......|
    at                                              until - lease/4     until - lease/10       until

`at` is when the last line was sent that the node has answered.  Everything is counted from there on
this process's own clock, so neither a slow answer nor a pause makes the promise longer.  If this
process is suspended, its guard does the last step (`habemus.supervise.process_tree`).

All of it takes about as long as starting Python, because it imports next to nothing: neither
sockets nor JSON.  `habemus.client.protocol` says what the lines of the node mean.
"""

from __future__ import annotations

import os
import select
from time import sleep

from habemus.client.errors import ProtocolError
from habemus.client.protocol import (
    CLAIM_ELSEWHERE,
    EXPIRED,
    GRACE_US,
    HOLDER_US,
    MOVE_PAUSE_US,
    NO_TOKEN,
    SILENCE_US,
    AcquireRequest,
    LeadRequest,
    LeaseGranted,
    LeaseLost,
    LeaseRenewed,
    NodeLeaves,
    RequestRefused,
    SessionProtocol,
    encode_line,
    release_line,
)
from habemus.runtimes.live.clients.protocol import (
    CLIENT_SHUTDOWN_GRACE_US,
    ELECTIONS,
    GOODBYE,
    LOCKS,
    TRY_MS,
)
from habemus.supervise.process_tree import Guard, ProcessTree, guarded, now_us, tell, wait_ms

TYPE_CHECKING = False

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from habemus.client.protocol import LeaseState

    class LockConnection(Protocol):
        """A connection to a node that has sent welcome."""

        def fileno(self) -> int: ...
        def send(self, line: bytes) -> None: ...
        def heard(self) -> list[list[Any]]: ...
        def close(self) -> object: ...
        def lease_ms(self, service: str) -> int | None: ...
        def moves(self, service: str) -> bool: ...

else:
    # Without the enumerations of `signal`, which take longer to import than a lock to acquire.
    import _signal as signal

LOST, TIMEOUT, UNREACHABLE, NOT_EXECUTABLE, NOT_FOUND = 123, 124, 125, 126, 127
BAD_USE = 2

PASSED_ON = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
)
AS_AT_FIRST = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTTOU, signal.SIGTSTP)
"""Signals that Python or this program ignores; the command should not."""

BEATS = 10
"""Heartbeats in the time of a lease."""
ASK, END = 4, 10
"""Fractions of a lease: how long before its end the command gets SIGTERM and SIGKILL."""
LOOK_US = 10_000
"""How often to check whether all processes of the command have ended."""
PAUSES_US = (0, 20_000, 50_000, 100_000, 200_000, 500_000)
"""Pauses before further attempts to find a node; the last one repeats."""


class CommandExit(Exception):
    """The reason why the command does not run, and the exit code."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


class NoNodeReached(CommandExit):
    """No node answers for now; trying again may help."""

    def __init__(self, why: str) -> None:
        super().__init__(UNREACHABLE, why)


class LockRequest:
    """The lock and the command that the command line names."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        leads: bool = False,
        timeout: float | None = None,
        lease: float | None = None,
        cluster: str | None = None,
        service: str = LOCKS,
        credential_files: dict[str, str | None] | None = None,
    ) -> None:
        self.name = ELECTIONS + name if leads else name
        self.command = list(command)
        self.leads = leads
        self.tries = timeout == 0
        self.timeout = None if timeout is None else max(timeout, TRY_MS / 1_000)
        self.lease = lease
        self.cluster = cluster
        self.service = service
        self.credential_files = credential_files or {}  # files with credentials

    @property
    def shown(self) -> str:
        """The name for messages."""
        return self.name.removeprefix(ELECTIONS) if self.leads else self.name

    def acquire(self) -> AcquireRequest:
        """Return the request for the lock."""
        kind = LeadRequest if self.leads else AcquireRequest
        return kind(self.service, self.shown, self.lease)

    def environment(self, token: int | None) -> dict[str, str]:
        """Return the environment of the command."""
        made = {
            name: value
            for name, value in os.environ.items()
            if name not in ("HABEMUS_TOKEN", "HABEMUS_TERM")
        }
        made["HABEMUS_LOCK"] = self.name
        if token is not None:
            made["HABEMUS_TOKEN"] = str(token)
            if self.leads:
                from habemus.fencing.tokens import token_text  # takes a while to import

                made["HABEMUS_TERM"] = token_text(token)
        return made


def hold(request: LockRequest, connect: Callable[[int | None], LockConnection]) -> int:
    """Wait for the lock, run the command, and return the exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # just end while there is no command yet
    try:
        return LockedCommand(request, acquired(request, connect), connect).run()
    except CommandExit as exit:
        complain(str(exit))
        return exit.code


def complain(line: str) -> None:
    """Print a message on one line."""
    try:
        os.write(2, f"habemus: {' '.join(line.split())}\n".encode())
    except OSError:
        return  # the terminal is gone; go on with the lock


# Waiting.


class LockGrant:
    """A granted lock, and the connection and protocol state on which it is renewed."""

    def __init__(
        self,
        connection: LockConnection,
        protocol: SessionProtocol,
        lease: LeaseState,
        lease_ms: int | None,
    ) -> None:
        self.connection = connection
        self.protocol = protocol
        self.lease = lease
        self.lease_us = (lease_ms or lease.left_ms or 0) * 1_000
        """Microseconds for which the lease is granted at a time; 0 if it does not expire."""


def acquired(request: LockRequest, connect: Callable[[int | None], LockConnection]) -> LockGrant:
    """Wait for the lock; ask another node if one ends, hangs or has no majority."""
    deadline_us = None if request.timeout is None else now_us() + round(request.timeout * 1_000_000)
    # Without a timeout, wait only for a cluster that has answered before.
    is_known = False
    attempt = 0
    while True:
        failure = _timed_out(request)
        try:
            connection = connect(deadline_us)
        except NoNodeReached as reason:
            if deadline_us is None and not is_known:
                raise
            failure = reason
        else:
            is_known = True
            grant = _granted(connection, request, deadline_us)
            if grant is not None:
                return grant
        now = now_us()
        if deadline_us is not None and now >= deadline_us:
            raise failure
        pause_us = PAUSES_US[min(attempt, len(PAUSES_US) - 1)]
        sleep((pause_us if deadline_us is None else min(pause_us, deadline_us - now)) / 1_000_000)
        attempt += 1


def _granted(
    connection: LockConnection, request: LockRequest, deadline_us: int | None
) -> LockGrant | None:
    """Return None if this node cannot grant the lock, or did so too late to start a command."""
    try:
        grant = _asked(connection, request, deadline_us)
    except ProtocolError as reason:
        raise CommandExit(UNREACHABLE, str(reason)) from None
    except ValueError as reason:  # the lease is too long
        raise CommandExit(BAD_USE, str(reason)) from None
    except OSError:  # the connection has ended
        grant = None
    if grant is not None:
        until_us = grant.lease.until_us
        if until_us is None or now_us() < until_us - grant.lease_us // ASK:
            return grant
    _say_goodbye(connection)  # it may have been granted in the meantime
    connection.close()
    return None


def _say_goodbye(connection: LockConnection) -> None:
    try:
        connection.send(GOODBYE)
    except OSError:
        return  # what may have been granted is not renewed


def _asked(
    connection: LockConnection, request: LockRequest, deadline_us: int | None
) -> LockGrant | None:
    """Return None if the node does not answer, or cannot grant anything for now."""
    offered_ms = connection.lease_ms(request.service)
    protocol = SessionProtocol(BEATS, {request.service: offered_ms})
    acquire = request.acquire()
    now = now_us()
    timeout_ms = None if deadline_us is None else max(TRY_MS, (deadline_us - now) // 1_000)
    if request.tries:
        timeout_ms = 0  # the node waits for the others, while it does not know the holder
    id, line = protocol.request(acquire, timeout_ms, now)
    connection.send(line)
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    heard_us, beat_at = now, now + protocol.beat_us
    until_us = None if deadline_us is None else max(deadline_us, now + TRY_MS * 1_000) + GRACE_US
    while now < heard_us + SILENCE_US and (until_us is None or now < until_us):
        if poll.poll(max(0, beat_at - now) // 1_000 + 1):
            lines = connection.heard()
            heard_us = now_us()
            for position, answer in enumerate(lines):
                for event in protocol.receive(answer, heard_us):
                    if isinstance(event, LeaseGranted):
                        grant = LockGrant(
                            connection, protocol, event.lease, acquire.lease_ms(offered_ms)
                        )
                        rest = lines[position + 1 :] + connection.heard()
                        return None if _is_lost(grant, rest) else grant
                if answer[0] == "refused" and answer[1] in (id, None):
                    if answer[2] == "unavailable":
                        return None
                    if answer[2] == "timeout":
                        raise _timed_out(request, _news_of(connection, protocol, acquire))
                    raise _refusal(answer[2], answer[3])
        now = now_us()
        if now >= beat_at:
            connection.send(encode_line("alive", now))
            beat_at = now + protocol.beat_us
    return None


def _claimed(
    connection: LockConnection, held: LockGrant, shown: int | None, until_us: int
) -> LockGrant | str | None:
    """Claim a lock that another node has granted.  Return why it is lost, if it is; None if another
    node has to be asked.
    """
    protocol = SessionProtocol(BEATS, {})
    lease_ms = held.lease_us // 1_000
    begun = protocol.claim(held.lease, shown, lease_ms, now_us())
    if begun is None:
        return NO_TOKEN
    connection.send(begun[1])
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    while (now := now_us()) < until_us:
        poll.poll((until_us - now) // 1_000 + 1)
        for line in connection.heard():
            for event in protocol.receive(line, now_us()):
                if isinstance(event, LeaseGranted):
                    return LockGrant(connection, protocol, event.lease, lease_ms)
                if isinstance(event, RequestRefused):
                    connection.close()
                    return None if event.word in CLAIM_ELSEWHERE else event.why
    connection.close()
    return None


def _is_lost(grant: LockGrant, lines: list[list[Any]]) -> bool:
    """Return whether lines that came with the grant take it back: this process was suspended."""
    events = [event for line in lines for event in grant.protocol.receive(line, now_us())]
    return any(isinstance(event, LeaseLost) for event in events)


def _refusal(word: str, why: str) -> CommandExit:
    return CommandExit(
        BAD_USE if word in ("bad_request", "unknown", "forbidden") else UNREACHABLE, why
    )


def _news_of(
    connection: LockConnection, protocol: SessionProtocol, acquire: AcquireRequest
) -> list[Any] | None:
    """Ask the node who holds the lock; return None if it does not answer soon."""
    id = protocol.next_id()
    watch = acquire.watch_line(id)
    if watch is None:
        return None
    connection.send(watch)
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    now = now_us()
    until_us = now + HOLDER_US
    while now < until_us:
        if poll.poll((until_us - now) // 1_000 + 1):
            for line in connection.heard():
                if line[1] == id:
                    return line
        now = now_us()
    return None


def _timed_out(request: LockRequest, news: list[Any] | None = None) -> CommandExit:
    timeout = 0 if request.tries else request.timeout or 0
    return CommandExit(TIMEOUT, request.acquire().timed_out(timeout, news))


# Holding.


class LockedCommand:
    """A command and its lock, from the grant to the end of the command."""

    def __init__(
        self,
        request: LockRequest,
        grant: LockGrant,
        connect: Callable[[int | None], LockConnection],
    ) -> None:
        self._request = request
        self._connect = connect
        self._shown = grant.lease.token  # what the command knows
        self._grant = grant
        self._connection = grant.connection
        self._lost = ""  # the reason why the lock is lost
        self._status: int | None = None  # of the command that has ended
        self._has_asked = False
        self._has_ended = False
        self._terminal = False  # whether the command has the terminal
        self._beat_at: int | None = None
        self._silent_at: int | None = None  # when to leave a node that does not answer
        self._ask_at: int | None = None
        self._end_at: int | None = None
        self._guard: Guard | None = None
        self._poll = select.poll()

    def run(self) -> int:
        """Run the command; return the exit code."""
        wakes = self._listen_to_signals()
        self._renew()
        self._command = self._start()
        self._tree = ProcessTree(self._command)
        try:
            self._give_terminal()
            self._guard = guarded(
                self._command, self._end_at, None if self._expires() else self._connection.fileno()
            )
            self._poll.register(wakes, select.POLLIN)
            self._poll.register(self._connection.fileno(), select.POLLIN)
            while self._status is None or self._is_ending():
                self._step(wakes)
        finally:
            self._take_terminal()
        if self._guard is not None:
            self._guard.dismiss()
        return self._left(self._status)

    def _left(self, status: int) -> int:
        """Release the lock after the command has ended; return the exit code."""
        try:
            last = self._connection.heard()
        except (OSError, ValueError):
            last = []  # the node has crashed, but its promise has held until now
        self._hear(last)
        if self._lost:
            complain(
                f"{self._request.shown} was lost while {self._request.command[0]} ran: {self._lost}"
            )
            return LOST
        self._release()
        return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

    def _release(self) -> None:
        try:
            self._connection.send(release_line(self._grant.lease.id))
        except OSError:
            return  # its lease is not renewed any more

    def _step(self, wakes: int) -> None:
        """Wait until something arrives or is due, and handle it."""
        deadlines = (self._beat_at, self._silent_at, self._ask_at, self._end_at)
        times = [each for each in deadlines if each is not None]
        if self._status is not None:
            times.append(now_us() + LOOK_US)  # there is no signal when the rest has ended
        for ready, _ in self._poll.poll(wait_ms(times)):
            if ready != wakes:
                self._hear_all()
            else:
                for number in os.read(wakes, 512):
                    self._take_signal(number)
        now = now_us()
        if self._end_at is not None and now >= self._end_at:
            self._lose(EXPIRED)
            self._end()
        elif self._ask_at is not None and now >= self._ask_at:
            self._lose(EXPIRED)
            self._ask_to_end()
        elif self._silent_at is not None and now >= self._silent_at:
            self._silent_at = None
            if self._can_move():
                self._move("the node does not answer", is_planned=False)
        elif self._beat_at is not None and now >= self._beat_at:
            self._beat(now)

    # The lease.

    def _renew(self) -> None:
        """Set the times of the next steps by what the node has promised last."""
        lease, lease_us = self._grant.lease, self._grant.lease_us
        if lease.until_us is None or self._lost:
            return
        self._beat_at = lease.renewed_us + self._grant.protocol.beat_us
        self._ask_at = lease.until_us - lease_us // ASK
        self._end_at = lease.until_us - lease_us // END
        if self._guard is not None:
            self._guard.move_to(self._end_at)

    def _expires(self) -> bool:
        """Return whether the algorithm's own grant expires.

        If so, no other client has the lock before that.  If not, a node that restarts soon declares
        its leases over, whatever lease the command line has asked for.
        """
        return self._connection.lease_ms(self._request.service) is not None

    def _beat(self, now: int) -> None:
        protocol = self._grant.protocol
        self._beat_at = now + protocol.beat_us
        if self._silent_at is None:
            self._silent_at = now + protocol.silence_us
        try:
            self._connection.send(encode_line("alive", now))
        except OSError as reason:
            self._lose_node(reason)

    def _hear_all(self) -> None:
        try:
            self._hear(self._connection.heard())
        except (OSError, ValueError) as reason:
            self._lose_node(reason)

    def _hear(self, lines: list[list[Any]]) -> None:
        if lines:
            self._silent_at = None
        for line in lines:
            for event in self._grant.protocol.receive(line, now_us()):
                if isinstance(event, LeaseRenewed):
                    self._renew()
                elif isinstance(event, LeaseLost):
                    self._lose(event.why)
                    self._end()
                elif isinstance(event, NodeLeaves) and self._can_move():
                    self._move(event.why, is_planned=True)
                    return

    def _can_move(self) -> bool:
        return (
            not self._lost
            and self._status is None
            and self._ask_at is not None
            and self._connection.moves(self._request.service)
        )

    def _move(self, why: str, *, is_planned: bool) -> None:
        """Take the lock to another node while the command goes on, within the lease.  Signals wait
        meanwhile.

        is_planned: the node is up, and keeps the lock for this process.
        """
        assert self._ask_at is not None
        grant = self._grant
        self._silent_at = None
        self._poll.unregister(self._connection.fileno())
        try:
            if is_planned:
                self._connection.send(encode_line("move", grant.lease.id))
        except OSError:
            pass  # the node has crashed in the meantime
        self._connection.close()
        while now_us() < self._ask_at:
            try:
                connection = self._connect(self._ask_at)
                found = _claimed(connection, grant, self._shown, self._ask_at)
            except (CommandExit, OSError, ValueError):
                found = None
            if isinstance(found, str):
                self._lose(found)
                self._end()
                return
            if found is not None:
                self._grant, self._connection = found, found.connection
                self._poll.register(self._connection.fileno(), select.POLLIN)
                self._renew()
                return
            sleep(MOVE_PAUSE_US / 1_000_000)
        self._lose(why)

    def _lose_node(self, reason: Exception) -> None:
        """Take the lock to another node.  Where that cannot be, end the command: the lease is not
        renewed any more, but still holds for its time.
        """
        if self._can_move():
            self._move(f"lost the connection to the node: {reason}", is_planned=False)
            return
        self._lose(f"lost the connection to the node: {reason}")
        self._poll.unregister(self._connection.fileno())
        if not self._expires():
            parting = now_us() + CLIENT_SHUTDOWN_GRACE_US
            self._end_at = parting if self._end_at is None else min(parting, self._end_at)
        self._ask_to_end()

    def _lose(self, why: str) -> None:
        self._lost = self._lost or why
        self._beat_at = self._silent_at = None

    def _ask_to_end(self) -> None:
        self._ask_at = None
        if not self._has_asked and self._status is None:
            self._has_asked = True
            self._tree.ask_to_end()

    def _is_ending(self) -> bool:
        """Return whether processes of the command still run after SIGTERM has ended it."""
        return self._has_asked and not self._has_ended and not self._tree.is_gone()

    def _end(self) -> None:
        self._ask_at = self._end_at = None
        if not self._has_ended and (self._status is None or self._has_asked):
            self._has_ended = True
            self._tree.end()

    # The command.

    def _start(self) -> int:
        command = self._request.command
        try:
            environment = self._request.environment(self._grant.lease.token)
            return os.posix_spawnp(
                command[0], command, environment, setpgroup=0, setsigdef=AS_AT_FIRST
            )
        except FileNotFoundError:
            raise CommandExit(NOT_FOUND, f"{command[0]}: command not found") from None
        except OSError as reason:
            raise CommandExit(NOT_EXECUTABLE, f"{command[0]}: {reason.strerror}") from None

    def _listen_to_signals(self) -> int:
        """Have signals written to a pipe; return the end to read from.

        Ignored signals remain so, for the command as well.
        """
        wakes, woken = os.pipe()
        os.set_blocking(wakes, False)
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        for number in (*PASSED_ON, signal.SIGCHLD):
            if signal.getsignal(number) != signal.SIG_IGN or number == signal.SIGCHLD:
                signal.signal(number, _noted)
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # to give the terminal away and take it back
        signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # a process that holds a lock does not stop
        return wakes

    def _take_signal(self, number: int) -> None:
        if number == signal.SIGCHLD:
            self._see_to_command()
        else:
            if number == signal.SIGCONT:
                self._give_terminal()
            tell(self._command, number, group=True)

    def _see_to_command(self) -> None:
        while self._status is None:
            process, status = os.waitpid(self._command, os.WNOHANG | os.WUNTRACED)
            if process == 0:
                return
            if not os.WIFSTOPPED(status):
                self._status = status
                if self._end_at is not None and now_us() >= self._end_at:
                    self._lose(EXPIRED)
            elif not self._has_ended:
                self._go_on(os.WSTOPSIG(status))

    def _go_on(self, stopped_by: int) -> None:
        """Continue a command that was stopped, because the terminal was not its own or by Ctrl-Z:
        other clients would wait for a lock that is not in use.
        """
        if stopped_by in (signal.SIGTTIN, signal.SIGTTOU):
            self._give_terminal()
            if self._terminal:
                tell(self._command, signal.SIGCONT, group=True)
        elif stopped_by == signal.SIGTSTP and self._terminal:
            complain(f"{self._request.command[0]} continues: it holds {self._request.shown}")
            tell(self._command, signal.SIGCONT, group=True)

    def _give_terminal(self) -> None:
        """Put the command in the foreground if this program is: else it could not read from the
        terminal, nor be interrupted.
        """
        try:
            if os.tcgetpgrp(0) == os.getpgrp():
                os.tcsetpgrp(0, self._command)
                self._terminal = True
        except OSError:  # this is no terminal, or not that of this program
            pass

    def _take_terminal(self) -> None:
        if self._terminal:
            try:
                if os.tcgetpgrp(0) == self._command:
                    os.tcsetpgrp(0, os.getpgrp())
            except OSError:
                pass


def _noted(number: int, frame: object) -> None:
    """Do nothing: the number is read from the pipe."""

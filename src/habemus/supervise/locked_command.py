"""A command that runs while a lock is held: the engine of `habemus lock` and `habemus lead`.

It waits for the lock, starts the command as a process group of its own, passes on the signals that
it is sent, renews the lease on the connection on which the lock was granted, and releases when the
command has ended.  If the lock is lost, or might be, the command is ended before anybody else can
have the lock:

    |<------------------------------ what the node has promised -------------------------------->|
    |.......... renewed every fifth of the lease ..........| SIGTERM ............| SIGKILL ......|
    at                                              until - lease/4     until - lease/10       until

`at` is when the last question that the node has answered was asked; everything is counted from
there on this process's own clock, so neither a slow answer nor a pause makes the promise longer
than it is.  Should this process stand still, its guard does the last step
(`habemus.supervise.process_tree`).

The whole of it takes about as long as starting Python, because it imports next to nothing: neither
sockets nor JSON.  What a line from the node means has been found out by whoever made the
connection.
"""

from __future__ import annotations

import os
import select
import sys
from time import sleep

from habemus.runtimes.live.clients.protocol import (
    CLIENT_SHUTDOWN_GRACE_US,
    ELECTIONS,
    LOCKS,
    TRY_MS,
)
from habemus.supervise.process_tree import Guard, ProcessTree, guarded, now_us, tell, wait_ms

TYPE_CHECKING = False

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    class Line(Protocol):
        """A connection to a node that has said welcome."""

        def fileno(self) -> int: ...
        def send(self, line: bytes) -> None: ...
        def heard(self) -> list[list[Any]]: ...
        def close(self) -> None: ...
        def lease_ms(self, service: str) -> int | None: ...

else:
    # without the enumerations, which take longer to make than a lock takes to get
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
"""Signals that Python or this program ignores, and the command should not."""

BEAT, ASK, END = 5, 4, 10
"""Parts of a lease: how often it is renewed, and how long before it is over the command is asked to
end, and is ended.
"""
LEASELESS_US = 1_000_000
"""Where nothing runs out: how often to show that one is there."""
LOOK_US = 10_000
"""How often to look whether all has ended that the command has started."""
SILENCE_US = 3_000_000
"""A node that has not answered for so long while one waits is left for another."""
GRACE_US = 250_000
"""How much longer than the node the client itself waits."""
PAUSES_US = (0, 20_000, 50_000, 100_000, 200_000, 500_000)
"""Before further attempts to find a node; the last of them again and again."""


class CommandExit(Exception):
    """Why the command cannot be run, and with which code to leave."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


class NoNodeReached(CommandExit):
    """No node answers for now."""

    def __init__(self, why: str) -> None:
        super().__init__(UNREACHABLE, why)


class LockRequest:
    """What the command line asks for."""

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
        papers: dict[str, str | None] | None = None,
    ) -> None:
        self.name = ELECTIONS + name if leads else name
        self.command = list(command)
        self.leads = leads
        self.timeout = None if timeout is None else max(timeout, TRY_MS / 1_000)
        self.lease = lease
        self.cluster = cluster
        self.service = service
        self.papers = papers or {}  # files that show who this client is

    @property
    def shown(self) -> str:
        return self.name.removeprefix(ELECTIONS) if self.leads else self.name

    def environment(self, token: int | None) -> dict[str, str]:
        """That of the command."""
        made = {
            name: value
            for name, value in os.environ.items()
            if name not in ("HABEMUS_TOKEN", "HABEMUS_TERM")
        }
        made["HABEMUS_LOCK"] = self.name
        if token is not None:
            made["HABEMUS_TOKEN"] = str(token)
            if self.leads:
                made["HABEMUS_TERM"] = str(token)
        return made


def hold(
    request: LockRequest, connect: Callable[[int | None], Line], quoted: Callable[[str], str]
) -> int:
    """Waits for the lock, runs the command, and says with which code to leave."""
    _open_standard_files()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(
            signal.SIGINT, signal.SIG_DFL
        )  # until there is a command, to end is all that there is to do
    try:
        return LockedCommand(request, acquired(request, connect, quoted)).run()
    except CommandExit as leaving:
        complain(str(leaving))
        return leaving.code


def _open_standard_files() -> None:
    """If one of them is closed, the connection to the node could get its number, and whoever opens
    the standard files anew lose it.
    """
    for standard in range(3):
        try:
            os.fstat(standard)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the smallest number that is free


def complain(line: str) -> None:
    if sys.stderr is not None:  # else something of ours may have that number
        try:
            os.write(2, f"habemus: {' '.join(line.split())}\n".encode())
        except OSError:
            return  # the terminal is gone; the lock has to be seen to all the same


# WaitingClient.


class Grant:
    def __init__(
        self, line: Line, id: int, lease_us: int | None, told: list[Any], rest: list[list[Any]]
    ) -> None:
        _, _, self.token, self.left_ms, self.at_us, _ = told
        self.line = line
        self.id = id
        self.lease_us = lease_us
        self.rest = rest  # what else has been heard already


def acquired(
    request: LockRequest, connect: Callable[[int | None], Line], quoted: Callable[[str], str]
) -> Grant:
    """From a node that can grant it.  If one ends, hangs or has no majority, from another, until
    the time is over.
    """
    deadline_us = None if request.timeout is None else now_us() + round(request.timeout * 1_000_000)
    # a cluster that has answered is waited for; one that never has, only if a timeout says for how
    # long
    is_known = False
    attempt = 0
    while True:
        failure = _too_late(request)
        try:
            line = connect(deadline_us)
        except NoNodeReached as reason:
            if deadline_us is None and not is_known:
                raise
            failure = reason
        else:
            is_known = True
            grant = _granted(line, request, deadline_us, quoted)
            if grant is not None:
                return grant
        now = now_us()
        if deadline_us is not None and now >= deadline_us:
            raise failure
        pause_us = PAUSES_US[min(attempt, len(PAUSES_US) - 1)]
        sleep((pause_us if deadline_us is None else min(pause_us, deadline_us - now)) / 1_000_000)
        attempt += 1


def _granted(
    line: Line, request: LockRequest, deadline_us: int | None, quoted: Callable[[str], str]
) -> Grant | None:
    """None if this node cannot grant it, or did too late for it to be worth anything."""
    try:
        grant = _asked(line, request, deadline_us, quoted)
    except ValueError as reason:
        raise CommandExit(
            UNREACHABLE, f"the node sends what no node would send: {reason}"
        ) from None
    except OSError:  # the node has gone
        grant = None
    if grant is not None and (
        grant.left_ms is None or now_us() < _until(grant) - _lease(grant) // ASK
    ):
        return grant
    line.close()
    return None


def _asked(
    line: Line, request: LockRequest, deadline_us: int | None, quoted: Callable[[str], str]
) -> Grant | None:
    """None if the node does not answer, or cannot grant anything for now."""
    lease_ms = _lease_ms(line.lease_ms(request.service), request)
    lease_us = None if lease_ms is None else lease_ms * 1_000
    beat_us = LEASELESS_US if lease_us is None else min(LEASELESS_US, lease_us // BEAT)
    now = now_us()
    timeout = "null" if deadline_us is None else max(TRY_MS, (deadline_us - now) // 1_000)
    names = f"[{quoted(request.name)}]"
    lease = "null" if lease_ms is None else lease_ms
    line.send(f'["request",1,{quoted(request.service)},{names},{timeout},{lease},{now}]\n'.encode())
    poll = select.poll()
    poll.register(line.fileno(), select.POLLIN)
    heard_us, beat_at = now, now + beat_us
    until_us = None if deadline_us is None else max(deadline_us, now + TRY_MS * 1_000) + GRACE_US
    while now < heard_us + SILENCE_US and (until_us is None or now < until_us):
        if poll.poll(max(0, beat_at - now) // 1_000 + 1):
            heard = line.heard()
            heard_us = now_us()
            for position, told in enumerate(heard):
                if told[0] == "granted":
                    rest = heard[position + 1 :] + line.heard()
                    is_lost = any(
                        each[:2] == ["lost", 1] for each in rest
                    )  # this process stood still in between
                    return None if is_lost else Grant(line, 1, lease_us, told, rest)
                if told[0] == "refused":
                    if told[2] == "unavailable":
                        return None
                    raise _refusal(request, told)
        now = now_us()
        if now >= beat_at:
            line.send(b'["alive",%d]\n' % now)
            beat_at = now + beat_us
    return None


def _lease_ms(offered: int | None, request: LockRequest) -> int | None:
    """Return the lease to ask for, which is no longer than that of the cluster."""
    if request.lease is None:
        return offered
    wanted = max(1, round(request.lease * 1_000))
    if offered is not None and wanted > offered:
        raise CommandExit(
            BAD_USE,
            f"--lease {request.lease:g} is longer than that of the cluster's {request.service}"
            f" ({offered / 1_000:g} s)",
        )
    return wanted


def _refusal(request: LockRequest, told: list[Any]) -> CommandExit:
    word, why = told[2], told[3]
    if word == "timeout":
        return _too_late(request)
    return CommandExit(BAD_USE if word in ("bad_request", "unknown") else UNREACHABLE, why)


def _too_late(request: LockRequest) -> CommandExit:
    return CommandExit(
        TIMEOUT, f"timed out after {request.timeout or 0:g} s waiting for {request.shown}"
    )


def _lease(grant: Grant) -> int:
    """The time for which it was given, in microseconds."""
    return grant.lease_us or grant.left_ms * 1_000


def _until(grant: Grant) -> int:
    until: int = grant.at_us + grant.left_ms * 1_000
    return until


# Holding.


class LockedCommand:
    """From the grant of the lock to the end of the command."""

    def __init__(self, request: LockRequest, grant: Grant) -> None:
        self._request = request
        self._grant = grant
        self._line = grant.line
        self._lost = ""  # why
        self._status: int | None = None  # with which the command has ended
        self._has_asked = False
        self._has_ended = False
        self._terminal = False  # it is the command's now
        self._beat_at: int | None = None
        self._ask_at: int | None = None
        self._end_at: int | None = None
        self._guard: Guard | None = None
        self._poll = select.poll()

    def run(self) -> int:
        wakes = self._listen_to_signals()
        self._renew(self._grant.at_us, self._grant.left_ms)
        self._command = self._start()
        self._tree = ProcessTree(self._command)
        try:
            self._give_terminal()
            self._guard = guarded(
                self._command, self._end_at, None if self._runs_out() else self._line.fileno()
            )
            self._poll.register(wakes, select.POLLIN)
            self._poll.register(self._line.fileno(), select.POLLIN)
            self._hear(self._grant.rest)
            while self._status is None or self._is_ending():
                self._step(wakes)
        finally:
            self._take_terminal()
        if self._guard is not None:
            self._guard.dismiss()
        return self._left(self._status)

    def _left(self, status: int) -> int:
        """The command has ended: the exit code."""
        try:
            last = self._line.heard()
        except (OSError, ValueError):
            last = []  # the node has gone, but what it has promised has held until now
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
            self._line.send(b'["release",%d]\n' % self._grant.id)
        except OSError:
            return  # that the connection ends means the same

    def _step(self, wakes: int) -> None:
        """One turn: until something is heard, or something is due."""
        times = [each for each in (self._beat_at, self._ask_at, self._end_at) if each is not None]
        if self._status is not None:
            times.append(now_us() + LOOK_US)  # nobody tells when the rest has ended
        for ready, _ in self._poll.poll(wait_ms(times)):
            if ready != wakes:
                self._hear_all()
            else:
                for number in os.read(wakes, 512):
                    self._take_signal(number)
        now = now_us()
        if self._end_at is not None and now >= self._end_at:
            self._lose("its lease was not renewed in time")
            self._end()
        elif self._ask_at is not None and now >= self._ask_at:
            self._lose("its lease was not renewed in time")
            self._ask_to_end()
        elif self._beat_at is not None and now >= self._beat_at:
            self._beat(now)

    # The lease.

    def _renew(self, at_us: int, left_ms: int | None) -> None:
        lease_us = self._grant.lease_us or (left_ms or 0) * 1_000
        if left_ms is None or self._lost:
            return
        until = at_us + left_ms * 1_000
        self._beat_at = at_us + lease_us // BEAT
        self._ask_at = max(self._ask_at or 0, until - lease_us // ASK)
        self._end_at = max(self._end_at or 0, until - lease_us // END)
        if self._guard is not None:
            self._guard.move_to(self._end_at)

    def _runs_out(self) -> bool:
        """Whether the algorithm's own grant does, so that nobody else has the lock before that.  If
        it does not, a node that comes back says soon that its stays are over, whatever lease the
        command line has asked for."""
        return self._line.lease_ms(self._request.service) is not None

    def _beat(self, now: int) -> None:
        self._beat_at = now + _lease(self._grant) // BEAT
        try:
            self._line.send(b'["alive",%d]\n' % now)
        except OSError as reason:
            self._lose_node(reason)

    def _hear_all(self) -> None:
        try:
            self._hear(self._line.heard())
        except (OSError, ValueError) as reason:
            self._lose_node(reason)

    def _hear(self, lines: list[list[Any]]) -> None:
        id = self._grant.id
        for line in lines:
            if line[0] == "alive":
                left_ms = dict(line[2])
                if id in left_ms:
                    self._renew(line[1], left_ms[id])
                else:
                    self._lose("the node knows nothing of it any more")
                    self._end()
            elif line[0] == "lost" and line[1] == id:
                self._lose(line[2])
                self._end()

    def _lose_node(self, reason: Exception) -> None:
        """Nobody renews the lease any more; what it was good for, it still is."""
        self._lose(f"the node has gone: {reason}")
        self._poll.unregister(self._line.fileno())
        if not self._runs_out():
            parting = now_us() + CLIENT_SHUTDOWN_GRACE_US
            self._end_at = parting if self._end_at is None else min(parting, self._end_at)
        self._ask_to_end()

    def _lose(self, why: str) -> None:
        self._lost = self._lost or why
        self._beat_at = None

    def _ask_to_end(self) -> None:
        self._ask_at = None
        if not self._has_asked and self._status is None:
            self._has_asked = True
            self._tree.ask_to_end()

    def _is_ending(self) -> bool:
        """The command has ended when it was asked to, but not all that it started."""
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
            environment = self._request.environment(self._grant.token)
            return os.posix_spawnp(
                command[0], command, environment, setpgroup=0, setsigdef=AS_AT_FIRST
            )
        except FileNotFoundError:
            raise CommandExit(NOT_FOUND, f"{command[0]}: there is no such command") from None
        except OSError as reason:
            raise CommandExit(NOT_EXECUTABLE, f"{command[0]}: {reason.strerror}") from None

    def _listen_to_signals(self) -> int:
        """From now on they are read from here; those that were ignored remain so, for the command
        as well.
        """
        wakes, woken = os.pipe()
        os.set_blocking(wakes, False)
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        for number in (*PASSED_ON, signal.SIGCHLD):
            if signal.getsignal(number) != signal.SIG_IGN or number == signal.SIGCHLD:
                signal.signal(number, _noted)
        signal.signal(
            signal.SIGTTOU, signal.SIG_IGN
        )  # so as to give the terminal away and take it back
        signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # whoever holds a lock does not stand still
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
                    self._lose("its lease was not renewed in time")
            elif not self._has_ended:
                self._go_on(os.WSTOPSIG(status))

    def _go_on(self, stopped_by: int) -> None:
        """The command was stopped: because the terminal was not its own, or by Ctrl-Z, which would
        have others wait for a lock that nobody uses."""
        if stopped_by in (signal.SIGTTIN, signal.SIGTTOU):
            self._give_terminal()
            if self._terminal:
                tell(self._command, signal.SIGCONT, group=True)
        elif stopped_by == signal.SIGTSTP and self._terminal:
            complain(f"{self._request.command[0]} goes on: it holds {self._request.shown}")
            tell(self._command, signal.SIGCONT, group=True)

    def _give_terminal(self) -> None:
        """If this program is in the foreground, the command has to be: else it could not read from
        the terminal, nor be interrupted.
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
    """The number is read from the pipe."""

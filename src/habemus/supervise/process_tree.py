"""The processes of a command: finding and ending all of them.

The command leads a process group of its own, and most of what it starts is in that group.  A shell
with job control, `timeout` and `setsid` make other groups.  So on Linux the descendants are looked
up as well; on other systems the group has to do.  A process that has left the group and whose
parent has ended cannot be found.

A *guard* is a process that ends the command if `habemus lock` was killed or is suspended.  The
guard has the connection to the node open as well, so the node does not take the lock for released
before the guard has done its work.
"""

from __future__ import annotations

import os
import select
from time import sleep

from habemus import boottime
from habemus.runtimes.live.clients.protocol import CLIENT_SHUTDOWN_GRACE_US

TYPE_CHECKING = False

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterable
else:
    # Without the enumerations of `signal`, which take longer to import than a lock to acquire.
    import _signal as signal

IGNORED_BY_GUARD = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTSTP,
)


def now_us() -> int:
    """Return the time on the clock of leases."""
    return boottime.microseconds()


def children(process: int) -> list[int]:
    """Return the children of a process; none if it has ended, or if this system has no `/proc`."""
    found = []
    try:
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/children", encoding="ascii") as file:
                found += [int(child) for child in file.read().split()]
    except OSError:
        pass
    return found


def descendants(roots: Iterable[int]) -> list[int]:
    """Return the processes and all their descendants."""
    found = list(roots)
    for process in found:
        found += [child for child in children(process) if child not in found]
    return found


def tell(process: int, number: int, *, group: bool = False) -> None:
    """Send a signal to a process or its group, if it still exists."""
    try:
        os.kill(-process if group else process, number)
    except (ProcessLookupError, PermissionError):
        return  # it has ended, or belongs to another user now


class ProcessTree:
    """A command and its descendants, as far as they can be found."""

    def __init__(self, command: int) -> None:
        self.command = command
        # Processes outside the group, with a descriptor: they may lose their parents.
        self._outside: list[tuple[int, int]] = []

    def ask_to_end(self) -> None:
        """Send SIGTERM to all.  Remember processes outside the group first: their parents may end
        soon.
        """
        for process in descendants([self.command])[1:]:
            try:
                if os.getpgid(process) != self.command:
                    self._outside.append((process, os.pidfd_open(process)))
            except OSError:  # it has ended
                continue
        tell(self.command, signal.SIGTERM, group=True)
        tell(self.command, signal.SIGCONT, group=True)  # a stopped process has to receive it, too
        for process in self._still_there():
            tell(process, signal.SIGTERM)
            tell(process, signal.SIGCONT)

    def is_gone(self) -> bool:
        """Return whether all processes of the group and all remembered ones have ended."""
        try:
            os.kill(-self.command, 0)
        except ProcessLookupError:
            return not self._still_there()
        except PermissionError:
            pass
        return False

    def end(self) -> set[int]:
        """Send SIGKILL to all, after SIGSTOP, so that none starts another one in between; return
        the processes.
        """
        tell(self.command, signal.SIGSTOP, group=True)
        stopped: set[int] = set()
        while found := set(descendants([self.command, *self._still_there()])) - stopped:
            for process in found:
                tell(process, signal.SIGSTOP)
            stopped |= found
        tell(self.command, signal.SIGKILL, group=True)
        for process in stopped:
            tell(process, signal.SIGKILL)
        return stopped

    def _still_there(self) -> list[int]:
        return [
            process
            for process, handle in self._outside
            if not select.select([handle], [], [], 0)[0]
        ]


class Guard:
    """A process that ends the command at a given time, which can be moved.

    It also ends the command when this process has ended, and, if it is given the connection to the
    node, a while after that has ended.
    """

    def __init__(self, command: int, at_us: int | None, line: int | None) -> None:
        heard, self._told = os.pipe()
        os.set_blocking(self._told, False)
        parent = os.getpid()
        self._process = os.fork()
        if self._process == 0:
            os.close(self._told)
            try:
                _guard(parent, command, heard, at_us, line)
            finally:
                os._exit(0)
        os.close(heard)

    def move_to(self, at_us: int) -> None:
        """Move the time at which the guard ends the command."""
        try:
            os.write(self._told, b"%d\n" % at_us)
        except OSError:
            return  # the guard was killed; this process goes on without it

    def dismiss(self) -> None:
        """End the guard."""
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)


def wait_ms(until: Iterable[int | None]) -> int | None:
    """Return how long a poll may last until the first of these times; None if there is none.

    Not all of it at once: a poll does not count the time for which the machine is suspended.
    """
    times = [time for time in until if time is not None]
    if not times:
        return None
    return min(max(0, min(times) - now_us()) // 1_000 + 1, round(boottime.LONGEST_WAIT * 1_000))


def _is_due(times: Iterable[int | None]) -> bool:
    return any(time is not None and time <= now_us() for time in times)


def guarded(command: int, at_us: int | None, line: int | None) -> Guard | None:
    """Start a guard; return None if the system has no room for another process."""
    try:
        return Guard(command, at_us, line)
    except OSError:
        return None


def _guard(parent: int, command: int, heard: int, at_us: int | None, line: int | None) -> None:
    for number in IGNORED_BY_GUARD:
        signal.signal(number, signal.SIG_IGN)
    signal.set_wakeup_fd(-1)
    # Signals of the terminal and to the group of `habemus lock` must not reach the guard.
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)  # readers of the command's output must not wait for the guard
    poll = select.poll()
    poll.register(heard, select.POLLIN)
    if line is not None:
        poll.register(line, getattr(select, "POLLRDHUP", 0))
    times = {heard: at_us}
    while (ready := poll.poll(wait_ms(times.values()))) or not _is_due(times.values()):
        for each, _ in ready:
            if each == line:
                poll.unregister(each)
                times[each] = now_us() + CLIENT_SHUTDOWN_GRACE_US
            else:
                moved = os.read(heard, 4_096)
                if not moved:  # `habemus lock` has ended
                    poll.unregister(each)
                    _await_end_of(parent)
                times[each] = int(moved.split()[-1]) if moved else 0
    for process in ProcessTree(command).end():
        _await_death_of(process)  # the lock is free when this process ends


def _await_death_of(process: int) -> None:
    """Wait until a process that was killed has stopped running, for half a second at most."""
    for _ in range(500):
        try:
            with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
                if file.read().rpartition(")")[2].split()[0] in ("Z", "X"):
                    return
        except OSError:  # it has ended, or this system has no `/proc`
            return
        sleep(0.001)


def _await_end_of(parent: int) -> None:
    """Wait until the parent has ended, which is a little after its files are closed.

    Then the system sends SIGHUP to the command's group if a process in there is stopped.  The
    command would die before its children were looked up, and they would not be found any more.
    """
    for _ in range(1_000):
        if os.getppid() != parent:
            return
        sleep(0.001)

"""The end of a command and of everything that it started.

The command is the first of a process group of its own, and most of what it starts is in that group.
Not all is: a shell with job control, `timeout` and `setsid` make groups of their own.  So on Linux
the children are looked up as well, all the way down; on other systems the group has to do.  Nothing
finds a process whose parent has ended before, if it has also left the group.

A *guard* is a process that ends the command when nobody else can: when `habemus lock` was killed,
or stands still, and so does not do it itself.  The guard has the connection to the node open as
well, so the node does not take the lock for released before the guard has done its work.
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
    # without the enumerations, which take longer to make than a lock takes to get
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
    return boottime.nanoseconds() // 1_000


def children(process: int) -> list[int]:
    """Nothing if the process has ended, or if this system does not tell."""
    found = []
    try:
        for thread in os.listdir(f"/proc/{process}/task"):  # noqa: PTH208
            with open(f"/proc/{process}/task/{thread}/children", encoding="ascii") as file:  # noqa: PTH123
                found += [int(child) for child in file.read().split()]
    except OSError:
        pass
    return found


def descendants(roots: Iterable[int]) -> list[int]:
    """The roots and all that come from them."""
    found = list(roots)
    for process in found:
        found += [child for child in children(process) if child not in found]
    return found


def tell(process: int, number: int, *, group: bool = False) -> None:
    try:
        os.kill(-process if group else process, number)
    except (ProcessLookupError, PermissionError):
        return  # it has ended, or has become somebody else's


class ProcessTree:
    """A command and what it started, as far as that can be found."""

    def __init__(self, command: int) -> None:
        self.command = command
        self._outside: list[
            tuple[int, int]
        ] = []  # a process that may lose its parents, and what stands for that very process

    def ask_to_end(self) -> None:
        """SIGTERM for all.  Whoever is not in the group is remembered first, because its parents
        may be gone soon.
        """
        for process in descendants([self.command])[1:]:
            try:
                if os.getpgid(process) != self.command:
                    self._outside.append((process, os.pidfd_open(process)))
            except OSError:  # it has ended
                continue
        tell(self.command, signal.SIGTERM, group=True)
        tell(self.command, signal.SIGCONT, group=True)  # whoever was stopped has to hear it, too
        for process in self._still_there():
            tell(process, signal.SIGTERM)
            tell(process, signal.SIGCONT)

    def is_gone(self) -> bool:
        """Nobody in the group is left, nor of those that were remembered."""
        try:
            os.kill(-self.command, 0)
        except ProcessLookupError:
            return not self._still_there()
        except PermissionError:
            pass
        return False

    def end(self) -> None:
        """SIGKILL for all, after SIGSTOP, so that nobody has another child in the meantime."""
        tell(self.command, signal.SIGSTOP, group=True)
        stopped: set[int] = set()
        while found := set(descendants([self.command, *self._still_there()])) - stopped:
            for process in found:
                tell(process, signal.SIGSTOP)
            stopped |= found
        tell(self.command, signal.SIGKILL, group=True)
        for process in stopped:
            tell(process, signal.SIGKILL)

    def _still_there(self) -> list[int]:
        return [
            process
            for process, handle in self._outside
            if not select.select([handle], [], [], 0)[0]
        ]


class Guard:
    """A process that ends the command at a certain time, which can be moved, or when this process
    has ended, or, if it is given the connection to the node, a while after that has ended."""

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
        try:
            os.write(self._told, b"%d\n" % at_us)
        except OSError:
            return  # somebody has killed the guard; this process can do it alone

    def dismiss(self) -> None:
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
    """None if this system has no room for another process."""
    try:
        return Guard(command, at_us, line)
    except OSError:
        return None


def _guard(parent: int, command: int, heard: int, at_us: int | None, line: int | None) -> None:
    for number in IGNORED_BY_GUARD:
        signal.signal(number, signal.SIG_IGN)
    signal.set_wakeup_fd(-1)
    # what is done to the terminal, or to the group of `habemus lock`, is not done to its guard
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(
            nothing, standard
        )  # whoever reads what the command writes must not wait for the guard
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
                said = os.read(heard, 4_096)
                if not said:  # nobody else is there to do it
                    poll.unregister(each)
                    _await_end_of(parent)
                times[each] = int(said.split()[-1]) if said else 0
    ProcessTree(command).end()


def _await_end_of(parent: int) -> None:
    """Its files are closed before it has quite ended.  When it has, the system sends SIGHUP to the
    command's group if anybody in there is stopped by then: the command would die before its
    children had been looked up, and they would not be found any more."""
    for _ in range(1_000):
        if os.getppid() != parent:
            return
        sleep(0.001)

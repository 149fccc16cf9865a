"""Run a command on a machine that stalls: `python tests/stutter.py [--busy 4] [--seed 1] pytest
tests/live`.

Busy loops compete for the processors, and every few seconds all processes that the command has
started stop for a moment, as they do on an overloaded or suspended machine.  What passes otherwise
must pass here: a test that fails depends on speed.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

STOPS_SECONDS = (0.15, 0.4, 1.3)
BETWEEN_SECONDS = (2.0, 4.0)
SET_CHILD_SUBREAPER = 36  # of prctl(2)


def children(pid: int) -> list[int]:
    with suppress(OSError):
        return [
            int(child)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text().split()
        ]
    return []


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def stop_all(root: int) -> list[int]:
    """Stop a process and all its descendants, and return those that the command had not stopped
    itself.

    Parents stop before their children, so that nobody is left to start a process or to stop one
    that is stopped here.
    """
    found, stopped = [root], []
    for pid in found:
        with suppress(OSError):
            if not is_stopped(pid):
                os.kill(pid, signal.SIGSTOP)
                stopped.append(pid)
        found += children(pid)
    return stopped


def stutter(command: int, draw: random.Random) -> tuple[int, int]:
    """Stop the command again and again; return its exit code and how often that was."""
    stops = 0
    while True:
        time.sleep(draw.uniform(*BETWEEN_SECONDS))
        if (code := reaped(command)) is not None:
            return code, stops
        # Orphans of the command are children of this process, and stop as well.
        stopped = [pid for child in children(os.getpid()) for pid in stop_all(child)]
        time.sleep(draw.choice(STOPS_SECONDS))
        for pid in reversed(stopped):
            with suppress(OSError):
                os.kill(pid, signal.SIGCONT)
        stops += 1


def reaped(command: int) -> int | None:
    """Collect the children that have ended; return the exit code of the command if it is one of
    them.
    """
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if pid == command:
            return os.waitstatus_to_exitcode(status)
        if pid == 0:
            return None


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    loop = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
    loops = [subprocess.Popen([sys.executable, "-c", loop]) for _ in range(count)]
    try:
        yield
    finally:
        for each in loops:
            each.kill()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--busy", type=int, default=4, help="how many busy loops run beside the command"
    )
    parser.add_argument(
        "--seed", type=int, default=None, help="of the moments at which the command stops"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with busy_loops(given.busy):
        command = subprocess.Popen(given.command)
        code, stops = stutter(command.pid, random.Random(given.seed))
    sys.stderr.write(f"stopped {stops} times; exit code {code}\n")
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())

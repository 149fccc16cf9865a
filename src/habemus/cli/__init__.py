"""The command line.  `main` is the program `habemus`.

`habemus lock` must start fast, so this module imports nothing before it has read the name of the
command.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing `typing` takes as long as the rest of a short command

if TYPE_CHECKING:
    import signal
    from typing import NoReturn
else:
    # Without the enumerations of `signal`, which take longer to import than a lock to acquire.
    import _signal as signal

LOCKING = ("lock", "lead")
EXITS_AT_ONCE = (*LOCKING, "check")
"""Commands that leave nothing to clean up.  Freeing the states of a search takes a good part of the
search time.
"""
INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the program and exit with its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        code = run(given)
    except KeyboardInterrupt:
        code = _interrupted()
    if arguments is None:  # else another program goes on
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback when the interpreter ends
        if given and given[0] in EXITS_AT_ONCE:
            os._exit(code)
    sys.exit(code)


def _interrupted() -> int:
    try:
        os.write(2, b"habemus: interrupted\n")
    except OSError:
        return INTERRUPTED  # the terminal is gone
    return INTERRUPTED


def run(arguments: list[str]) -> int:
    """Run the program and return its exit code.  An error prints one line, no traceback."""
    _open_standard_files()
    try:
        code = _run(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    except Exception as error:
        from habemus.cli.failures import report

        return report(error, arguments)
    return code


def _run(arguments: list[str]) -> int:
    if arguments and arguments[0] in LOCKING:
        from habemus.cli import lock_arguments

        try:
            return lock_arguments.run(arguments[0], arguments[1:])
        except lock_arguments.HelpRequested:
            arguments = [arguments[0], "--help"]
    from habemus.cli.app import run_command

    return run_command(arguments)


def _open_standard_files() -> None:
    """Open standard files that are closed, so that a connection does not get their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the smallest number that is free
        if getattr(sys, name) is None:
            file = open(number, "r" if name == "stdin" else "w", closefd=False)  # noqa: SIM115
            setattr(sys, name, file)


__all__ = ["main"]

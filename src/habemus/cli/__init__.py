"""The command line.  `main` is the program `habemus`.

Most commands may take their time to start.  `habemus lock` may not: so nothing is imported here
before it is known which one it is.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # that of `typing` takes as long to import as the rest of a short command

if TYPE_CHECKING:
    from typing import NoReturn

QUICK = ("lock", "lead")


def main(arguments: list[str] | None = None) -> NoReturn:
    """Runs the program and leaves with its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if given and given[0] in QUICK:
        from habemus.cli.quick_lock import run

        run(given)  # does not return if it can do what is asked
    from habemus.cli.app import run as run_any

    code = run_any(given)
    if arguments is None and given[:1] == ["check"]:
        _leave_at_once(code)
    sys.exit(code)


def _leave_at_once(code: int) -> NoReturn:
    """To free all that a search has found, piece by piece, takes a good part of the time that it
    took to find it.
    """
    import os

    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


__all__ = ["main"]

"""The command line.  `main` is the program `habemus`.

`habemus lock` must start fast, so this module imports nothing before it has read the name of the
command.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing `typing` takes as long as the rest of a short command

if TYPE_CHECKING:
    from typing import NoReturn

QUICK = ("lock", "lead")


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the program and exit with its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if given and given[0] in QUICK:
        from habemus.cli.quick_lock import run

        run(given)  # returns only if the command line needs the full parser
    from habemus.cli.app import run as run_any

    code = run_any(given)
    if arguments is None and given[:1] == ["check"]:
        _exit_immediately(code)
    sys.exit(code)


def _exit_immediately(code: int) -> NoReturn:
    """Exit without freeing the states of a search, which takes a good part of the search time."""
    import os

    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


__all__ = ["main"]

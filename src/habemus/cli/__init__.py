"""The command line.  `main` is the program `habemus`.

Most commands may take their time to start.  `habemus lock` may not: so nothing is imported here before it is known which one it is.
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
        from habemus.cli.quick import run

        run(given)  # does not return if it can do what is asked
    from habemus.cli.app import main as run_any

    run_any(given)


__all__ = ["main"]

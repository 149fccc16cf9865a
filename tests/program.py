"""The program habemus, as tests start it."""

from __future__ import annotations

import shlex
import sys


def command_line(words: str, *more: object) -> list[str]:
    """Return the command line of the program with these words, in this Python."""
    return [sys.executable, "-m", "habemus", *shlex.split(words), *map(str, more)]

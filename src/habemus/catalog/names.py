"""Names of algorithms that are classes of users."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

NOT_IN_A_FILE = " (not in a file)"
"""End of the name of a class that no command can name: of a notebook, for example."""


def command_line(algorithm: str, words: Sequence[str]) -> str:
    """Return a command that can be pasted into a shell; a comment, if the class has no file."""
    if not algorithm.endswith(NOT_IN_A_FILE):
        return shlex.join(words)
    name = algorithm.removesuffix(NOT_IN_A_FILE)
    named = [f"mine.py:{name}" if word == algorithm else word for word in words]
    return f"# {name} is not in a file; save it as mine.py: {shlex.join(named)}"

"""Names of arguments in findings and messages: `load` in Python, `--load` on the command line.

The same function raises an error for a caller in Python and for a command.  It names an argument by
`argument`; commands do their work within `FLAGS`.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing `typing` takes as long as the rest of a short command

if TYPE_CHECKING:
    from typing import Final

OTHER_FLAGS = {
    "asks": "--ask",
    "initial": "--set",
    "labels": "--label",
    "n": "-n",
    "options": "--option",
}
"""Flags that are not the name of their argument with two hyphens before it."""


def flag_of(name: str) -> str:
    """Return the flag of a command for an argument in Python."""
    return OTHER_FLAGS.get(name) or f"--{name.replace('_', '-')}"


class _Flags:
    """Names arguments by their flags while a command is executed, which it is in one thread."""

    def __init__(self) -> None:
        self.are_named: bool = False
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(self.are_named)
        self.are_named = True

    def __exit__(self, *_: object) -> None:
        self.are_named = self._before.pop()


FLAGS: Final = _Flags()


def argument(name: str, value: str | bool | None = None) -> str:
    """Name an argument, with its value if one is given.

    >>> argument("timing", "eventual"), argument("every", True)
    ("timing='eventual'", 'every=True')
    >>> with FLAGS:
    ...     argument("timing", "eventual"), argument("every", True)
    ('--timing eventual', '--every')
    """
    if FLAGS.are_named:
        return f"{flag_of(name)} {value}" if isinstance(value, str) else flag_of(name)
    return name if value is None else f"{name}={value!r}"


__all__ = ["FLAGS", "argument", "flag_of"]

"""Python files that data names.

A header, a link or a grid names an algorithm of a user by its file.  Executing what it describes
imports that file, with the rights of the user, and the data may come from anyone.  So everything
that reads such data refuses it here, unless the user trusts the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

SUFFIX = ".py"
MOST_NAMED = 3
"""Names in the message."""
LONGEST_NAME = 200


class UntrustedCode(ValueError):
    """The data names Python files, and the user has not said that they are trusted."""

    def __init__(self, what: str, names: str) -> None:
        super().__init__(f"{what} runs the code in {names}; open it only if you trust that file")
        self.names = names


def file_of(name: str) -> tuple[str, str] | None:
    """Return the file and the class that the name of an algorithm consists of, if it names a file.

    Every such name contains SUFFIX, which `refuse_code` looks for.
    """
    if SUFFIX not in name:
        return None
    path, _, cls_name = name.rpartition(":")
    if path.endswith(SUFFIX):
        return path, cls_name
    return (name, "") if name.endswith(SUFFIX) else None


def refuse_code(described: object, what: str, *, trusted: bool) -> None:
    """Raise `UntrustedCode` if data of JSON names Python files in any of its strings.

    what: the data, in words.
    trusted: the user has agreed that these files run.
    """
    names = list(dict.fromkeys(name for name in _strings(described) if SUFFIX in name))
    if names and not trusted:
        shown = [" ".join(name.split())[:LONGEST_NAME] for name in names[:MOST_NAMED]]
        raise UntrustedCode(what, ", ".join(shown) + (", …" if names[MOST_NAMED:] else ""))


def _strings(described: object) -> Iterator[str]:
    """Yield all strings, also those of keys; nesting is not bounded by the recursion limit."""
    pending = [described]
    while pending:
        each = pending.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, Mapping):
            pending += [*each.values(), *each]
        elif isinstance(each, list | tuple):
            pending += reversed(each)


__all__ = ["UntrustedCode", "file_of", "refuse_code"]

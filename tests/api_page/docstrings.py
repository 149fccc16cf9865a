"""Docstrings as Markdown.

A docstring is Markdown already, except for three things: code is indented or begins with `>>>`, and
arguments are explained by lines such as

    timeout: seconds to wait; None waits
        for ever
    secret or secret_file, key: credentials
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

NAMES = re.compile(r"(\w+(?:(?:, | or )\w+)*): (?=\S)")
"""The head of a line that explains arguments."""
INDENT = "    "


def markdown(doc: str, arguments: Collection[str] = ()) -> str:
    """Return a docstring as Markdown; lines that begin with the names of arguments are a list."""
    return "\n\n".join(_converted(list(_blocks(doc)), arguments))


def explained(doc: str, arguments: Collection[str]) -> set[str]:
    """Return the arguments that a docstring has a line for."""
    return {name for line in doc.splitlines() for name in _names(line, arguments)}


def _blocks(doc: str) -> Iterator[str]:
    """Yield the paragraphs; those of one piece of code are one block."""
    code: list[str] = []
    for block in re.split(r"\n{2,}", doc):
        if all(line.startswith(INDENT) for line in block.splitlines()) and block:
            code.append(block)
            continue
        if code:
            yield "\n\n".join(code)
            code = []
        yield block
    if code:
        yield "\n\n".join(code)


def _converted(blocks: list[str], arguments: Collection[str]) -> Iterator[str]:
    for block in blocks:
        if block.startswith(INDENT):
            lines = (line.removeprefix(INDENT) for line in block.splitlines())
            yield "\n".join(["```py", *lines, "```"])
        elif block.startswith(">>>"):
            yield f"```pycon\n{block}\n```"
        else:
            yield _with_list(block, arguments)


def _with_list(block: str, arguments: Collection[str]) -> str:
    made: list[str] = []
    is_list = False
    for line in block.splitlines():
        names = _names(line, arguments)
        if names:
            if made and not is_list:
                made.append("")
            is_list = True
            head = ", ".join(f"`{name}`" for name in names)
            made.append(f"- {head}: {NAMES.sub('', line, count=1)}")
        else:
            made.append(line.replace(INDENT, "  ", 1) if is_list else line)
    return "\n".join(made)


def _names(line: str, arguments: Collection[str]) -> list[str]:
    """Return the arguments that a line explains."""
    found = NAMES.match(line)
    names = re.split(", | or ", found[1]) if found else []
    return names if set(names) <= set(arguments) else []

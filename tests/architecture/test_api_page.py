"""docs/api.md is made from the docstrings of the public API; `make docs` writes it anew."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from tests.architecture.test_exports import PUBLIC

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
HEAD = """# The Python API

Made from the docstrings by `make docs`. What is not on this page is internal and may change.
"""


def signature(member: Any) -> str:
    """Return the parameters as a reader types them: without self, without annotations of
    results.
    """
    text = str(inspect.signature(member))
    text = re.sub(r"\((self|cls)(, )?", "(", text).replace("'", "")
    return re.sub(r"<factory>|<object object at 0x[0-9a-f]+>", "...", text)


def described(member: Any) -> str:
    """Return the docstring as Markdown, with its examples as a block."""
    lines = (inspect.getdoc(member) or "").splitlines()
    made: list[str] = []
    inside = False
    for line in lines:
        if line.startswith(">>>") and not inside:
            inside = True
            made.append("```pycon")
        elif inside and not line.strip():
            inside = False
            made.append("```")
        made.append(line)
    return "\n".join([*made, "```"] if inside else made)


def members(cls: type) -> Iterator[str]:
    if issubclass(cls, Enum):
        for each in cls:
            told = f": {each.value}" if " " in str(each.value) else ""
            yield f"- `{cls.__name__}.{each.name}`{told}"
        return
    for name, member in sorted(inspect.getmembers(cls)):
        if name.startswith("_") or not any(name in vars(each) for each in own(cls)):
            continue
        raw = inspect.getattr_static(cls, name)
        doc = (inspect.getdoc(member) or "").partition("\n\n")[0].replace("\n", " ")
        if isinstance(raw, property) and doc:
            yield f"- `{name}`: {doc}"
        elif inspect.isfunction(member) and doc:
            yield f"- `{name}{signature(member)}`: {doc}"


def own(cls: type) -> list[type]:
    """Return the classes of ours that it is made of."""
    return [each for each in cls.__mro__ if each.__module__.startswith("habemus.")]


def section(name: str, member: Any) -> str:
    if inspect.isclass(member):
        listed = "\n".join(members(member))
        return f"### `{name}`\n\n{described(member)}\n" + (f"\n{listed}\n" if listed else "")
    if inspect.isfunction(member):
        return f"### `{name}{signature(member)}`\n\n{described(member)}\n"
    return f"### `{name}`\n"


def page() -> str:
    parts = [HEAD]
    for module in PUBLIC:
        found = importlib.import_module(module)
        parts.append(f"## `{module}`\n\n{(found.__doc__ or '').partition(chr(10))[0]}\n")
        parts += [section(name, getattr(found, name)) for name in sorted(found.__all__)]
    return "\n".join(parts)


def test_the_page_is_that_of_the_docstrings(request: pytest.FixtureRequest) -> None:
    made = page()
    if request.config.getoption("--rewrite"):
        PAGE.write_text(made, encoding="utf-8")
    assert PAGE.exists() and PAGE.read_text(encoding="utf-8") == made, "run make docs"

"""docs/api.md is made from the docstrings of the public API; `make docs` writes it anew."""

from __future__ import annotations

import ast
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


class Bare(str):
    """A text that a signature shows without quotes."""

    def __repr__(self) -> str:
        return str(self)


def annotation(found: Any) -> Bare:
    """Return an annotation as the source has it."""
    text = found if isinstance(found, str) else inspect.formatannotation(found)
    text = re.sub(r"typing\.Annotated\[int, [^]]*\]", "ProcessId", text)
    text = re.sub(r"ForwardRef\('(.*?)'\)", r"\1", text)
    return Bare(re.sub(r"\b(habemus|typing|collections\.abc|pathlib)\.([a-z_]+\.)*", "", text))


def signature(member: Any) -> str:
    """Return the parameters as a reader types them, without self."""
    found = inspect.signature(member)
    text = str(
        found.replace(
            parameters=[
                each
                if each.annotation is each.empty
                else each.replace(annotation=annotation(each.annotation))
                for each in found.parameters.values()
            ],
            return_annotation=annotation(found.return_annotation)
            if found.return_annotation is not found.empty
            else found.empty,
        )
    )
    text = re.sub(r"\((self|cls)(, )?", "(", text)
    return re.sub(r"<factory>|<object object at 0x[0-9a-f]+>", "...", text)


def fields(cls: type) -> str:
    """Return the fields of a value, with which it is made: (process: ProcessId, when: When)."""
    names = getattr(cls, "__match_args__", ())
    if not names or any(name.startswith("_") for name in names):
        return ""
    types = {
        name: found
        for each in reversed(cls.__mro__)
        for name, found in getattr(each, "__annotations__", {}).items()
    }
    return f"({', '.join(f'{name}: {annotation(types[name])}' for name in names)})"


def documented(module: str, name: str) -> str:
    """Return the text below the assignment of a name, in the module that has it."""
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    for statement, below in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(statement, ast.ImportFrom):
            if name in (alias.name for alias in statement.names):
                return documented(statement.module or "", name)
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if any(isinstance(each, ast.Name) and each.id == name for each in targets):
                assert isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant), (
                    f"{module}.{name} has no text below it"
                )
                return inspect.cleandoc(str(below.value.value))
    raise AssertionError(f"{module} does not assign {name}")


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


def section(module: str, name: str, member: Any) -> str:
    if inspect.isclass(member):
        listed = "\n".join(members(member))
        head = f"### `{name}{fields(member)}`\n\n{described(member)}\n"
        return head + (f"\n{listed}\n" if listed else "")
    if inspect.isfunction(member):
        return f"### `{name}{signature(member)}`\n\n{described(member)}\n"
    if inspect.ismodule(member):
        return f"### `{name}`\n\n{described(member)}\n"
    return f"### `{name}`\n\n{documented(module, name)}\n"


def page() -> str:
    parts = [HEAD]
    for module in PUBLIC:
        found = importlib.import_module(module)
        about = inspect.cleandoc(found.__doc__ or "").partition("\n\n")[0]
        parts.append(f"## `{module}`\n\n{about}\n")
        parts += [section(module, name, getattr(found, name)) for name in sorted(found.__all__)]
    return "\n".join(parts)


def test_the_page_is_that_of_the_docstrings(request: pytest.FixtureRequest) -> None:
    made = page()
    if request.config.getoption("--rewrite"):
        PAGE.write_text(made, encoding="utf-8")
    assert PAGE.exists() and PAGE.read_text(encoding="utf-8") == made, "run make docs"


FOREIGN = frozenset(
    (
        *("Any", "AsyncIterator", "Callable", "F", "Iterable", "Iterator", "Mapping", "Path"),
        *("PathLike", "None", "Self", "Sequence", "True", "False", "Entry", "Value"),
        *("Connection", "Cursor"),  # of sqlite3
    )
)
"""Names of Python itself in signatures; an entry is passed on, and values are the messages,
timers and indications."""


def test_every_name_in_a_signature_is_on_the_page() -> None:
    """A reader finds what a method returns, and how to make what it takes."""
    text = page()
    listed = set(re.findall(r"^### `(\w+)", text, re.MULTILINE))
    heads = re.findall(r"^(?:### |- )`(\w+\(.*?)`(?::|$)", text, re.MULTILINE)
    used = {
        word
        for head in heads
        for word in re.findall(r"\b[A-Z]\w+", re.sub(r"'[^']*'", "", head))
        if not word.isupper() and "_" not in word
    }
    assert used and not used - listed - FOREIGN, sorted(used - listed - FOREIGN)

"""docs/api.md is made from the docstrings of the public API; `make docs` writes it anew."""

from __future__ import annotations

import importlib
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.api_page.contents import CONTENTS, names_of
from tests.api_page.docstrings import markdown
from tests.api_page.members import class_of
from tests.api_page.page import members_of, page, public_names, undocumented
from tests.architecture.test_exports import PUBLIC

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


def test_the_page_is_that_of_the_docstrings(request: pytest.FixtureRequest) -> None:
    made = page()
    if request.config.getoption("--habemus-rewrite"):
        PAGE.write_text(made, encoding="utf-8")
    assert PAGE.exists() and PAGE.read_text(encoding="utf-8") == made, "run make docs"


def test_every_public_name_has_a_place_on_the_page() -> None:
    assert set(CONTENTS) == set(PUBLIC)
    for module in PUBLIC:
        assert sorted(names_of(module)) == sorted(importlib.import_module(module).__all__)


def test_every_public_name_and_member_has_a_docstring() -> None:
    missing = [f"{module}.{path}" for module, each in public_names() for path in undocumented(each)]
    assert not missing


FOREIGN = frozenset(
    (
        *("Any", "AsyncIterator", "Callable", "ClassVar", "Coroutine", "Iterable", "Iterator"),
        *("AsyncContextManager", "ContextManager", "Literal", "Mapping", "Path", "PathLike"),
        *("None", "Self", "Sequence", "True", "False", "Entry", "Value", "Parameters", "Result"),
        *("Connection", "Cursor"),  # of sqlite3
    )
)
"""Names of Python itself in signatures, and type variables; an entry is passed on, and values are
the messages, timers and indications."""


def test_every_name_in_a_signature_is_on_the_page() -> None:
    """A reader finds what a method returns, and how to make what it takes."""
    names = list(public_names())
    codes = [member.code for _, found in names for _, member in members_of(found)]
    used = {
        word
        for code in codes
        for word in re.findall(r"(?<!\.)\b[A-Z]\w+", re.sub(r"'[^']*'", "", code))
        if not word.isupper() and "_" not in word
    }
    unknown = used - {found.name for _, found in names} - FOREIGN
    assert used and not unknown, sorted(unknown)


def test_every_link_on_the_page_leads_to_a_heading() -> None:
    text = page()
    slugs = re.sub(r"[^\w\n-]", "", "\n".join(re.findall(r"^#+ (.*)$", text, re.MULTILINE)).lower())
    targets = {re.sub(r"-\d$", "", each) for each in re.findall(r"\]\(#([^)]*)\)", text)}
    assert targets and targets <= set(slugs.splitlines())


# The generator, on a class that has everything.


class Fields(NamedTuple):
    """A value.

    first: the first field.
    """

    first: int
    second: str = "two"


class Planted:
    """A class; `made` makes it."""

    shared: int = 3

    def __init__(self, name: str) -> None:
        self.name = name
        """The name of it."""
        self._hidden = name

    async def awaited(self) -> None:
        """Wait."""

    def bare(self) -> None: ...

    @contextmanager
    def entered(self, timeout: float = 1) -> Iterator[int]:
        """Enter."""
        yield 1

    @asynccontextmanager
    async def entered_later(self) -> AsyncIterator[int]:
        """Enter."""
        yield 1

    @classmethod
    def made(cls) -> Planted:
        """Make one."""
        return cls("made")

    @property
    def size(self) -> int:
        """The size."""
        return 0


def test_what_has_no_docstring_is_found() -> None:
    assert undocumented(class_of("Planted", Planted, [])) == ["Planted.shared", "Planted.bare"]
    assert undocumented(class_of("Fields", Fields, [])) == ["Fields.second"]


def test_signatures_say_how_to_call() -> None:
    found = class_of("Planted", Planted, [])
    assert not found.code, "only `made` makes it: no argument is explained"
    assert [each.code for each in found.attributes] == ["shared: int", "name: str", "size: int"]
    assert {each.name: each.code for each in found.methods} == {
        "awaited": "async def awaited() -> None",
        "bare": "def bare() -> None",
        "entered": "def entered(timeout: float = 1) -> ContextManager[int]",
        "entered_later": "def entered_later() -> AsyncContextManager[int]",
        "made": "@classmethod\ndef made() -> Planted",
    }
    notes = [note for each in found.methods for note in each.notes]
    assert notes == [
        "Context manager: `with` gives `int`.",
        "Context manager: `async with` gives `int`.",
    ]


def test_the_constructor_of_a_value_has_its_defaults() -> None:
    found = class_of("Fields", Fields, [])
    assert found.code == "Fields(first: int, second: str = 'two')"
    assert found.notes == ("Named tuple.",)


def test_members_of_a_base_on_the_page_are_not_repeated() -> None:
    class Derived(Planted):
        """A derived class."""

        def own(self) -> None:
            """Do something."""

    found = class_of("Derived", Derived, [Planted])
    assert [path for path, _ in members_of(found)] == ["Derived", "Derived.own"]
    assert found.notes == ("Derives from `Planted`.",)


def test_docstrings_become_markdown() -> None:
    doc = """Wait: it is short.

    with it: ...

    pass

timeout: seconds; None
    waits for ever
key or lock, name: others
no: argument

>>> 1
1"""
    assert markdown(doc, ["timeout", "key", "lock", "name"]).split("\n") == [
        *("Wait: it is short.", "", "```py", "with it: ...", "", "pass", "```", ""),
        *("- `timeout`: seconds; None", "  waits for ever"),
        *("- `key`, `lock`, `name`: others", "no: argument", ""),
        *("```pycon", ">>> 1", "1", "```"),
    ]

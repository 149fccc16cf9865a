"""Promises of README.md and README.pt.md are kept by tests.

A sentence that promises (every, only, never, at once, 2 s, ...) has an entry in promises.toml,
which names the tests that fail if it becomes false.
"""

import ast
import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.markdown import ROOT, sentences

LIST = Path(__file__).with_name("promises.toml")
PAGES = {"en": ROOT / "README.md", "pt": ROOT / "README.pt.md"}
PROMISING = {
    "en": r"every|each|all|any|only|never|always|none|no|nothing|same|cannot|without|majority"
    r"|at once|immediately|within|until|at most|at least|exactly|one hour|when",
    "pt": r"tod[oa]s?|tudo|cada|qualquer|só|somente|apenas|nunca|sempre|nenhuma?|nada|mesm[oa]s?"
    r"|sem|maioria|imediatamente|dentro de|no máximo|pelo menos|exatamente|uma hora|quando",
}


def promises() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads(LIST.read_text(encoding="utf-8"))["promise"]
    return found


def is_promise(sentence: str, language: str) -> bool:
    """Return whether the sentence has a promising word outside its code."""
    text = re.sub(r"`[^`]*`", " ", sentence)
    pattern = rf"\b(?:{PROMISING[language]})\b|(?<![-\w.])\d"
    return re.search(pattern, text, re.IGNORECASE) is not None


def unkept(page: Iterable[str], language: str, entries: Iterable[str]) -> list[str]:
    """Return the promising sentences without an entry."""
    listed = set(entries)
    return [each for each in page if is_promise(each, language) and each not in listed]


@cache
def names_of_tests(file: str) -> frozenset[str]:
    """Return the names of the tests in a file, by its syntax: it is not imported."""
    path = ROOT / file
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module([], [])
    names = (each.name for each in tree.body if isinstance(each, ast.FunctionDef))
    return frozenset(name for name in names if name.startswith("test_"))


def is_test(name: str) -> bool:
    file, _, function = name.partition("::")
    return function in names_of_tests(file)


@pytest.mark.parametrize("language", PAGES)
def test_every_promise_has_an_entry(language: str) -> None:
    found = unkept(sentences(PAGES[language]), language, (each[language] for each in promises()))
    assert not found, "name the tests that keep these promises in promises.toml"


@pytest.mark.parametrize("language", PAGES)
def test_every_entry_is_a_sentence_of_the_page(language: str) -> None:
    page = set(sentences(PAGES[language]))
    assert [each[language] for each in promises() if each[language] not in page] == []


def test_every_entry_names_tests_that_exist() -> None:
    found = promises()
    assert len(found) > 20
    assert [each["en"] for each in found if not each["tests"]] == []
    assert [name for each in found for name in each["tests"] if not is_test(name)] == []


@pytest.mark.parametrize(
    ("sentence", "language", "promising"),
    [
        ("A majority records every loan.", "en", True),
        ("It takes 2 s.", "en", True),
        ("An algorithm is a file.", "en", False),
        ("`habemus run -n 3` is a command.", "en", False),
        ("Only one client has it.", "en", True),
        ("Cada nó responde.", "pt", True),
        ("Um nó responde.", "pt", False),
        ("Ele nunca aceita.", "pt", True),
    ],
)
def test_the_rule_itself(sentence: str, language: str, promising: bool) -> None:
    assert bool(unkept([sentence], language, [])) is promising
    assert unkept([sentence], language, [sentence]) == []


def test_a_test_that_does_not_exist_is_seen() -> None:
    here = "tests/architecture/test_promises.py"
    assert is_test(f"{here}::test_the_rule_itself")
    assert not is_test(f"{here}::test_of_nothing")
    assert not is_test("tests/architecture/test_absent.py::test_the_rule_itself")

"""Docstrings are plain technical English: they name their subject, and functions command.

A docstring does not begin with a preposition or with a word like *whoever*.  The docstring of a
function begins with a verb in the imperative ("Return the nodes that..."), or is a plain noun
phrase, never with a verb in the third person ("Returns").

Messages name their subject and use the terms of the field.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import habemus

SOURCE = Path(habemus.__file__).parent

NEVER_FIRST = frozenset(
    (
        *("of", "by", "with", "to", "from", "for", "in", "at", "on", "as"),
        *("about", "above", "across", "after", "against", "among", "around", "before", "behind"),
        *("below", "beside", "between", "beyond", "despite", "during", "except", "inside", "into"),
        *("near", "off", "onto", "out", "outside", "over", "past", "per", "since", "through"),
        *("toward", "towards", "under", "until", "up", "upon", "via", "within", "without"),
        *("who", "whom", "whose", "whoever", "what", "nobody", "somebody", "anybody", "those"),
    )
)

ENDS_IN_S_AND_IS_NO_VERB = frozenset(
    (
        *("always", "this", "these", "its", "is", "does", "has", "unless"),
        *("arguments", "bytes", "cards", "choices", "clients", "events", "fields", "files"),
        *("hours", "indices", "keys", "lines", "links", "lists", "messages", "microseconds"),
        *("milliseconds", "minutes", "names", "nodes", "numbers", "options", "pairs", "parts"),
        *("paths", "processes", "properties", "requests", "results", "rows", "seconds", "settings"),
        *("stages", "states", "status", "times", "values", "verdicts", "words", "axis"),
    )
)
"""Plural nouns and the like with which the docstring of a function may begin."""

FILES = sorted(
    file for file in SOURCE.rglob("*.py") if "wire" not in file.relative_to(SOURCE).parts
)
"""All files but the generated ones."""


OLD_WORDS = re.compile(
    r"\b(whoever|nobody|somebody|everybody|anybody|told|said|cannot be had|to be had|has gone)\b"
    r"|\bfor want of\b"
    r"|\b(comes?|came) back\b|\b(stands?|stood) still\b|\bis not a chance\b"
    r"|(?<!there )\bis no (?!longer\b|more\b)",
    re.IGNORECASE,
)
"""Words that messages do not use: they leave the subject unnamed, or have a technical term."""


def messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Return the texts in the code, with their lines: all that are not docstrings.

    The placeholders of templates are left out.
    """
    notes = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            notes.update(map(id, node.values))
            parts = (each.value if isinstance(each, ast.Constant) else "." for each in node.values)
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and id(node) not in notes:
            yield node.lineno, re.sub(r"\{.*?\}", ".", str(node.value))


UNNAMED = re.compile(
    r"\b(whoever|whomever|nobody|somebody|anybody|everybody|(was|is|been) told|has said|has gone)\b"
    r"|\b(stands?|stood) still\b|\bto be had\b|\bfor want of\b",
    re.IGNORECASE,
)
"""Words that docstrings and comments do not use either."""


def notes(text: str) -> Iterator[tuple[int, str]]:
    """Return the docstrings and comments of a file, with their lines."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.lineno, " ".join(str(node.value.value).split())
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def test_docstrings_and_comments_name_their_subject() -> None:
    found = [
        f"{file.relative_to(SOURCE)}, line {line}: {match[0]!r} in {text!r}"
        for file in FILES
        for line, text in notes(file.read_text(encoding="utf-8"))
        if (match := UNNAMED.search(text))
    ]
    assert not found


@pytest.mark.parametrize(
    ("source", "is_fine"),
    [
        ('"""Wait until nobody is\ninside."""', False),
        ("x = 1  # whoever asks", False),
        ('x = "nobody"', True),
        ('"""Wait until no process is inside."""', True),
    ],
)
def test_the_rule_of_docstrings_and_comments_itself(source: str, is_fine: bool) -> None:
    assert (not any(UNNAMED.search(text) for _, text in notes(source))) is is_fine


def test_messages_name_their_subject() -> None:
    found = [
        f"{file.relative_to(SOURCE)}, line {line}: {match[0]!r} in {text!r}"
        for file in sorted(SOURCE.rglob("*.py"))
        for line, text in messages(ast.parse(file.read_text(encoding="utf-8")))
        if " " in text and (match := OLD_WORDS.search(text))
    ]
    assert not found


@pytest.mark.parametrize(
    ("source", "is_fine"),
    [
        ('raise ValueError("the lock is not to be had")', False),
        ('raise ValueError(f"{name!r} is no name for a lock")', False),
        ('print("process 2 comes back")', False),
        ('print("there is no algorithm x")', True),
        ('print("2 is no longer inside")', True),
        ('WORDS = {"printed": "client {me} printed ({said})"}', True),
        ('def f():\n    """Return what was said by whoever came back."""', True),
    ],
)
def test_the_rule_of_messages_itself(source: str, is_fine: bool) -> None:
    found = [OLD_WORDS.search(text) for _, text in messages(ast.parse(source))]
    assert (not any(found)) is is_fine


def first_word(docstring: str) -> str:
    found = re.match(r"[\"'`*\s]*([\w'-]*)", docstring)
    assert found is not None
    return found.group(1).lower()


def complaints_about(node: ast.AST, docstring: str) -> list[str]:
    word = first_word(docstring)
    complaints = []
    if word in NEVER_FIRST:
        complaints.append(f"begins with {word!r}")
    is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    is_plain = word.isalpha() and not word.endswith("ss") and word not in ENDS_IN_S_AND_IS_NO_VERB
    if is_function and is_plain and word.endswith("s"):
        complaints.append(f"begins with {word!r}, which looks like a verb in the third person")
    return complaints


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_docstrings_begin_plainly(file: Path) -> None:
    complaints = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        docstring = ast.get_docstring(node)
        for complaint in complaints_about(node, docstring) if docstring else ():
            name = getattr(node, "name", "the module")
            complaints.append(f"line {getattr(node, 'lineno', 1)}, {name}: {complaint}")
    assert not complaints


def test_docstrings_of_attributes_begin_plainly() -> None:
    complaints = [
        f"{file.relative_to(SOURCE)}, line {node.lineno}: begins with {word!r}"
        for file in FILES
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and (word := first_word(node.value.value)) in NEVER_FIRST
    ]
    assert not complaints


@pytest.mark.parametrize(
    ("source", "is_fine"),
    [
        ('def f():\n    """Return the nodes."""', True),
        ('def f():\n    """Index of the service in wire frames."""', True),
        ('def f():\n    """Rows of the table."""', True),
        ('def f():\n    """Process the message."""', True),
        ('def f():\n    """Returns the nodes."""', False),
        ('async def f():\n    """Makes a node."""', False),
        ('class C:\n    """Marks an event."""', True),
        ('class C:\n    """Of which all the others are."""', False),
        ('"""`Whoever` asks."""', False),
    ],
)
def test_the_rule_itself(source: str, is_fine: bool) -> None:
    nodes = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node)
    ]
    [complaints] = [complaints_about(node, ast.get_docstring(node) or "") for node in nodes]
    assert (not complaints) is is_fine

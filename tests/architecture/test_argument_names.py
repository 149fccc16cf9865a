"""No text of a module behind the public API has a flag of the command line in it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from habemus.argument_names import flag_of

SOURCE = Path(__file__).parents[2] / "src/habemus"
PUBLIC = (
    *("core", "problems", "algorithms", "catalog", "runs", "schedules", "scenarios", "experiments"),
    *("traces", "fencing", "redis", "client", "runtimes/sim", "runtimes/checker"),
    *("analysis/numbers/compare.py", "analysis/sweeps/workers.py"),
)
"""What `habemus.simulate`, `check`, `compare`, `scenario`, `load_trace`, `connect` execute."""
READS_COMMANDS = "runs/commands.py"
HINT = "choose others with --from, --to, --hide, --only"
"""Shown to commands only."""
FLAG = re.compile(r"(?<![\w-])--[a-z{]")


def texts_of(path: Path) -> list[tuple[int, str]]:
    """Return the texts of a module that are not documentation and not one word."""
    tree = ast.parse(path.read_text())
    passed_over = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            passed_over.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            passed_over |= {id(part) for part in node.values}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            found.append((node.lineno, ast.unparse(node)))
        elif isinstance(node, ast.Constant) and id(node) not in passed_over:
            found.append((node.lineno, str(node.value)))
    return [(line, text) for line, text in found if " " in text]


def names_a_flag(text: str) -> bool:
    """Return whether a text names a flag, other than in a whole command."""
    flag = FLAG.search(text)
    return flag is not None and "habemus " not in text[: flag.start()] and text != HINT


def test_no_message_behind_the_public_api_names_a_flag() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {text}"
        for place in PUBLIC
        for path in ([SOURCE / place] if place.endswith(".py") else (SOURCE / place).rglob("*.py"))
        if path != SOURCE / READS_COMMANDS
        for line, text in texts_of(path)
        if names_a_flag(text)
    ]
    assert not found, "use habemus.argument_names.argument"


def test_a_flag_in_a_message_is_found() -> None:
    assert names_a_flag("leave --load out") and names_a_flag("f'--crash {text} did not strike'")
    assert names_a_flag("f'--{flag} {name}: there is none'")
    assert not names_a_flag("start it by `habemus up --folder x`")
    assert not names_a_flag("a -- b")


def test_flags_are_named_as_commands_have_them() -> None:
    given = ("n", "asks", "secret_file")
    assert [flag_of(each) for each in given] == ["-n", "--ask", "--secret-file"]

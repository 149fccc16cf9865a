"""Functions fit a screen, or nearly: none has more than 100 lines, and no line 100 characters."""

import ast
from pathlib import Path

import habemus

SOURCE = Path(habemus.__file__).parent
LIMIT = 100


def test_no_function_is_longer_than_the_limit() -> None:
    too_long = [
        f"{file.relative_to(SOURCE)}:{node.lineno} {node.name}: {length} lines"
        for file in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > LIMIT
    ]
    assert not too_long, f"split functions of more than {LIMIT} lines: {too_long}"


def test_no_line_is_longer_than_the_limit() -> None:
    """Ruff excuses lines that end with a remark for a tool."""
    too_long = [
        f"{file.relative_to(SOURCE)}:{number}"
        for file in sorted(SOURCE.rglob("*.py"))
        if "_pb2" not in file.name  # generated
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        if len(line) > LIMIT
    ]
    assert not too_long, f"split lines of more than {LIMIT} characters: {too_long}"

"""Each row of the pages on the source texts: the command runs, and prints what the row says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest

from habemus.cli import run

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ELSEWHERE = "make demo"
"""Run by tests/live/printing/test_demo.py."""


class Row(NamedTuple):
    command: str
    seen: tuple[str, ...]
    """The words in bold, which the command prints."""


def rows(page: str) -> list[Row]:
    found = []
    for line in (DOCS / page).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        commands = [cell[1:-1] for cell in cells if re.fullmatch(r"`(habemus|make) [^`]*`", cell)]
        if line.startswith("|") and commands:
            [command] = commands
            found.append(Row(command, tuple(re.findall(r"\*\*(.+?)\*\*", line))))
    return found


def test_every_row_of_the_long_tables_says_what_is_seen() -> None:
    text = (DOCS / "source-texts.md").read_text(encoding="utf-8")
    lines = text[text.index("\n## ") :].splitlines()
    in_tables = [line for line in lines if line.startswith("| ") and "command" not in line]
    seen = [row for row in rows("source-texts.md") if row.seen or row.command == ELSEWHERE]
    assert len(in_tables) > 80 and len(seen) >= len(in_tables)


def test_the_short_table_is_a_part_of_the_long_ones() -> None:
    text = (DOCS / "source-texts.md").read_text(encoding="utf-8")
    short, long = text.split("\n## ", 1)
    commands = re.findall(r"\| `([^`]+)` \|$", short, re.MULTILINE)
    assert len(commands) == 10
    assert all(f"| `{command}` |" in long for command in commands)


@pytest.mark.parametrize(
    ("readme", "page"),
    [("README.md", "source-texts.md"), ("README.pt.md", "source-texts.pt.md")],
)
def test_the_readme_has_the_short_table(readme: str, page: str) -> None:
    if not (ROOT / readme).exists():
        pytest.skip(f"there is no {readme}")
    short = (DOCS / page).read_text(encoding="utf-8").split("\n## ", 1)[0]
    table = re.findall(r"^\|.*\n", short, re.MULTILINE)
    assert len(table) == 12 and "".join(table) in (ROOT / readme).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("command", "seen"),
    sorted({row for row in rows("source-texts.md") if row.seen}),
    ids=lambda cell: cell if isinstance(cell, str) else "",
)
def test_the_command_of_a_row_prints_what_the_row_says(
    command: str, seen: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(shlex.split(command)[1:])
    printed = " ".join(capsys.readouterr().out.split())
    for words in seen:
        assert words in printed
    is_violated = any(words.endswith("violated") for words in seen)
    assert code == (1 if is_violated and not command.startswith("habemus scenario") else 0)


def test_the_page_in_portuguese_has_the_same_rows() -> None:
    assert rows("source-texts.pt.md") == rows("source-texts.md")

"""Every page of docs/ can be followed: its commands run in order, and print what it shows.

`grep -n '<!-- ' docs/*.md` lists the blocks that are not run, with their reasons.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.docs.reader import Reader, blocks

ROOT = Path(__file__).parents[2]
WITHOUT_COMMANDS = ("algorithms.md", "api.md", "cards.md", "glossary.md")
PAGES = [each for each in sorted((ROOT / "docs").glob("*.md")) if each.name not in WITHOUT_COMMANDS]
"""README.md has a test of its own, tests/architecture/test_readme.py."""
DRAWN_ELSEWHERE = ("central-holder-slow.svg", "detectors.svg", "lab")
"""By tests/architecture, in minutes, and by tests/lab."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_reader_can_follow_the_page(
    page: Path, tmp_path: Path, times: int, request: pytest.FixtureRequest
) -> None:
    reader = Reader(tmp_path)
    try:
        for block in blocks(page):
            if not block.left_out and (times >= 10 or not block.long):
                reader.follow(block)
    finally:
        reader.close()
    for name in pictures(page):
        drawn, shown = reader.folder / name, ROOT / "docs" / "images" / name
        if request.config.getoption("--habemus-rewrite"):
            shown.write_bytes(drawn.read_bytes())
        assert shown.read_bytes() == drawn.read_bytes(), f"{name} is out of date; run make docs"


def pictures(page: Path) -> list[str]:
    shown = re.findall(r"!\[[^]]*\]\([^)]*images/([^)]+)\)", page.read_text(encoding="utf-8"))
    return [name for name in shown if not name.startswith(DRAWN_ELSEWHERE)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_the_page_is_followed_or_marked(page: Path) -> None:
    """A block of another language for commands would be run by nobody."""
    if page.name.startswith("printing"):
        return  # tests/live/printing/test_chapter.py runs its commands
    for block in blocks(page):
        assert block.language not in ("sh", "bash", "shell"), f"{block.at}: write ```console"
    indented = re.findall(r"^ {4}(?:\$ |habemus |make |python ).*", page.read_text("utf-8"), re.M)
    assert not indented, f"{page.name}: write ```console: {indented[0]}"

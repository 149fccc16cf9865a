"""Chapters that tell a story: their commands run in order in one folder, and print what the page
shows.

A `diff` block changes the file that was written last by `habemus new`; a `python` block of the
class must stand in it.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
CHAPTERS = ("first-algorithm.md", "checking.md")


def blocks(chapter: str) -> list[tuple[str, str]]:
    text = (DOCS / chapter).read_text(encoding="utf-8")
    return re.findall(r"^```(\w+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def plain(text: str) -> list[str]:
    """The lines without the time that it took, which is never the same."""
    return [
        re.sub(r",? in \d+\.\d+ ?s\b", "", line).rstrip()
        for line in text.splitlines()
        if line.strip()
    ]


def printed(block: str, folder: Path) -> str:
    """What the commands of a block print."""
    output = ""
    for line in block.splitlines():
        assert line.startswith(("$ habemus ", "$ pytest ")), line
        for command in line[2:].split(" && "):
            words = [sys.executable, "-m", *shlex.split(command)]
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
            assert done.returncode in (0, 1) and "Traceback" not in done.stderr, (
                f"{command}: {done.stderr}"
            )
            output += done.stdout
    return output


def changed(text: str, diff: str) -> str:
    before, after = (
        "".join(line[1:] + "\n" for line in diff.splitlines() if line[0] in kinds)
        for kinds in (" -", " +")
    )
    assert text.count(before) == 1, f"the page changes what is not there:\n{before}"
    return text.replace(before, after)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_commands_of_a_chapter_print_what_it_shows(
    chapter: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    output = ""
    for language, block in blocks(chapter):
        own = tmp_path / "my_lock.py"
        if language == "console":
            output = printed(block, tmp_path)
        elif language == "text":
            left = iter(plain(output))
            for line in plain(block):
                found = any(real == line or _says(real, line) for real in left)
                assert found, (
                    f"{chapter} shows a line that is not printed, or not there:\n{line}\n\n{output}"
                )
        elif language == "diff":
            own.write_text(changed(own.read_text(encoding="utf-8"), block), encoding="utf-8")
        elif language == "python" and "import" not in block:
            head, body = block.split("\n", 1)
            assert head in own.read_text(encoding="utf-8") and body in own.read_text(
                encoding="utf-8"
            )
    for name in re.findall(
        r"!\[[^]]*\]\(images/([^)]+)\)", (DOCS / chapter).read_text(encoding="utf-8")
    ):
        if request.config.getoption("--rewrite"):
            (DOCS / "images" / name).write_bytes((tmp_path / name).read_bytes())
        assert (DOCS / "images" / name).read_bytes() == (tmp_path / name).read_bytes(), (
            f"{name} is out of date; run make docs"
        )


def _says(real: str, line: str) -> bool:
    """The page may leave out the reason of a verdict."""
    return real.startswith(f"{line} ") and line.split()[-1] in ("holds", "violated")

"""The reader of pages notices what its page has wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.reader import Reader, blocks

FENCE = "`" * 3


def follow(text: str, folder: Path) -> None:
    page = folder / "page.md"
    page.write_text(text.replace("~~~", FENCE), encoding="utf-8")
    reader = Reader(folder)
    try:
        for block in blocks(page):
            if not block.left_out:
                reader.follow(block)
    finally:
        reader.close()


@pytest.mark.parametrize(
    "text",
    [
        "~~~console\n$ echo one; echo two\none\ntwo\n~~~\n",
        "~~~console\n$ echo one; echo two\n~~~\n\n~~~text\n...\nt...o\n~~~\n",
        "~~~console\n$ mkdir a; cd a; export B=c\n$ pwd; echo $B\n.../a\nc\n~~~\n",
        "Save this as `a.py`:\n\n~~~python\nprint(1)\n~~~\n\n~~~console\n$ python a.py\n1\n~~~\n",
        "~~~console\n$ (echo on; exec sleep 60) &\non\n$ kill %1; wait %1; echo off\noff\n~~~\n",
        "<!-- not run: no such command -->\n~~~console\n$ nosuch\n~~~\n",
        "~~~console\n$ echo 3 states in 0.12 s\n3 states\n$ echo ME1 violated, why; false\n~~~\n",
    ],
)
def test_a_page_that_is_right(text: str, tmp_path: Path) -> None:
    follow(text, tmp_path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("~~~console\n$ echo one\ntwo\n~~~\n", "not printed"),
        ("~~~console\n$ echo one; echo two\ntwo\none\n~~~\n", "not printed"),
        ("~~~console\n$ echo one\n~~~\n\n~~~text\ntwo\n~~~\n", "not printed"),
        ("~~~console\n$ echo one &\ntwo\n~~~\n", "not printed"),
        (
            "~~~console\n$ cat a.txt\n~~~\n\nSave this as `a.txt`:\n\n~~~text\na\n~~~\n",
            "exit code 1",
        ),
        ("~~~console\n$ nosuch\n~~~\n", "exit code 127"),
        ("~~~console\n$ exit 3\n~~~\n", "ended the shell"),
        ("~~~python\nimport nosuch\n~~~\n", "No module named"),
        ("~~~diff\n-a\n+b\n~~~\n", "lines of 0 files"),
    ],
)
def test_a_page_that_is_wrong(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=why):
        follow(text, tmp_path)

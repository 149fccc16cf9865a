"""Text on terminals of 80 columns, and in pipes."""

import os
import shutil
import sys

import pytest

from habemus.cli import output


def test_text_is_folded_for_a_terminal_and_left_alone_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "\n  " + "word " * 30 + "end"
    assert output.folded(text, "    ") == text
    size = os.terminal_size((80, 24))
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: size)
    monkeypatch.setattr(sys, "stdout", _Terminal())
    folded = output.folded(text, "    ").split("\n")
    assert folded[0] == "" and folded[1].startswith("  word") and folded[2].startswith("    word")
    assert max(map(len, folded)) <= 80
    assert " ".join(" ".join(folded).split()) == " ".join(text.split())


class _Terminal:
    def isatty(self) -> bool:
        return True

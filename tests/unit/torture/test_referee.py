"""The referee's rule."""

from __future__ import annotations

import os
from pathlib import Path

from habemus.torture.history import lines_of, read_referee
from habemus.torture.referee import FencedValue, Referee


def test_a_smaller_token_is_refused() -> None:
    resource = FencedValue(is_fenced=True)
    assert resource.access("write", 5, 0) == (True, 1)
    assert resource.access("write", 7, 1) == (True, 2)
    assert resource.access("write", 5, 2) == (False, 7)
    assert resource.access("write", 7, 2) == (True, 3)


def test_a_read_is_a_promise() -> None:
    """Else an older holder could write between the read and the write of the newer one, whose write
    would undo that.
    """
    resource = FencedValue(is_fenced=True)
    assert resource.access("read", 5, None) == (True, 0)
    assert resource.access("read", 7, None) == (True, 0)
    assert resource.access("write", 5, 0) == (False, 7)
    assert resource.access("write", 7, 0) == (True, 1)


def test_unfenced_it_accepts_everything() -> None:
    resource = FencedValue(is_fenced=False)
    assert resource.access("write", 7, 0) == (True, 1)
    assert resource.access("write", 5, 0) == (True, 1)
    assert FencedValue(is_fenced=True).access("write", None, 4) == (True, 5)


def test_everything_is_written_down(tmp_path: Path) -> None:
    path = tmp_path / "record"
    record = os.open(path, os.O_WRONLY | os.O_CREAT)
    referee = Referee(record, is_fenced=True)
    assert referee.answer(["read", "a", "1.1", 3, 9]) == [True, 0]
    assert referee.answer(["write", "a", "1.1", 3, 9, 0]) == [True, 1]
    assert referee.answer(["write", "b", "2.1", 4, 1, 0]) == [True, 1]  # another lock
    assert referee.answer(["read", "a", "2.1", 5, 8]) == [False, 9]
    os.close(record)
    found = read_referee(lines_of(path.read_text()))
    assert [
        (each.kind, each.lock, each.whose, each.token, each.value, each.accepted) for each in found
    ] == [
        ("read", "a", ("1.1", 3), 9, None, True),
        ("write", "a", ("1.1", 3), 9, 0, True),
        ("write", "b", ("2.1", 4), 1, 0, True),
        ("read", "a", ("2.1", 5), 8, None, False),
    ]

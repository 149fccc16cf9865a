"""The journal: nothing that was written is lost, nothing half written is believed, and nothing is
mixed up.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from habemus.analysis.sweeps.journal import BadJournal, SweepJournal, read_rows

HEAD = {"version": "1", "runs": 9, "grid": {"n": [3], "seeds": [0, 8]}}


def row(number: int) -> dict[str, Any]:
    return {
        "number": number,
        "verdict": "holds",
        "command": f"habemus run {number}",
        "why": "é\n" * 3,
    }


def journal(path: Path, head: dict[str, Any] = HEAD) -> SweepJournal:
    return SweepJournal(path, head, 9)


def written(path: Path, *numbers: int) -> Path:
    with journal(path) as opened:
        opened.add([row(number) for number in numbers])
    return path


def left(opened: SweepJournal) -> Sequence[int]:
    return list(opened.missing())


def test_what_was_added_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    path = written(tmp_path / "j", 5, 2)
    with journal(path) as again:
        assert len(again) == 2
        assert left(again) == [0, 1, 3, 4, 6, 7, 8]
        again.add([row(0)])
        again.add([row(8), row(5)])  # one that is there already
        assert [each["number"] for each in again.rows()] == [0, 2, 5, 8]
        assert list(again.rows()) == [row(0), row(2), row(5), row(8)]
    with journal(path) as third:
        assert left(third) == [1, 3, 4, 6, 7]
        assert len(third) == 4


def test_rows_are_on_the_disk_as_soon_as_they_are_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    fsync = os.fsync

    def watched(file: int) -> None:
        fsync(file)
        synced.append(os.fstat(file).st_size)

    monkeypatch.setattr(os, "fsync", watched)
    with journal(tmp_path / "j") as opened:
        opened.add([row(1)])
        assert (tmp_path / "j").read_bytes().count(b"\n") == 2
        assert synced[-1] == (tmp_path / "j").stat().st_size


def test_torn_anywhere_it_goes_on(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole", 3, 4).read_bytes()
    ends = [place + 1 for place, byte in enumerate(whole) if byte == ord("\n")]
    for size in range(len(whole)):
        torn = tmp_path / "torn"
        torn.write_bytes(whole[:size])
        with journal(torn) as opened:
            assert len(opened) == max(0, sum(end <= size for end in ends) - 1), size
            assert opened.damaged == 0
            opened.add([row(number) for number in left(opened)])
        with journal(torn) as again:
            assert list(again.rows()) == [row(number) for number in range(9)]


def test_a_damaged_row_is_made_again(tmp_path: Path) -> None:
    path = written(tmp_path / "j", 3, 4, 5)
    lines = path.read_bytes().splitlines(keepends=True)
    strange = [
        b"\x00\x00\n",
        b'{"number":77,"verdict":"holds","command":"x"}\n',
        b'{"number":true}\n',
        b"[4]\n",
        b"\xff\n",
        b"[" * 9999 + b"\n",
    ]
    path.write_bytes(b"".join([*lines[:2], *strange, lines[3]]))
    with journal(path) as opened:
        assert opened.damaged == len(strange)
        assert left(opened) == [0, 1, 2, 4, 6, 7, 8]
        assert [each["number"] for each in opened.rows()] == [3, 5]


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (
            {**HEAD, "grid": {"n": [3], "seeds": [0, 9]}},
            "was begun with another seeds ([0, 8], now [0, 9])",
        ),
        (
            {**HEAD, "grid": {"n": [3, 4], "seeds": [0, 8]}},
            "was begun with another n ([3], now [3, 4])",
        ),
        (
            {**HEAD, "grid": {"n": [3], "seeds": [0, 8], "delay": "x" * 99}},
            'another delay (null, now "xxx',
        ),
        ({**HEAD, "version": "2"}, 'another version ("1", now "2")'),
    ],
)
def test_another_grid_is_refused(tmp_path: Path, head: dict[str, Any], said: str) -> None:
    path = written(tmp_path / "j", 1)
    before = path.read_bytes()
    with pytest.raises(BadJournal) as refused:
        journal(path, head)
    assert said in str(refused.value)
    assert "--fresh" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"number,algorithm\n1,central\n", b"hello", b'{"kind":"other"}\n', b"\x00" * 100]
)
def test_what_is_no_journal_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "j"
    path.write_bytes(content)
    with pytest.raises(BadJournal, match="not the journal of a sweep"):
        journal(path)
    assert path.read_bytes() == content


def test_it_belongs_to_one_at_a_time(tmp_path: Path) -> None:
    with journal(tmp_path / "j"), pytest.raises(BadJournal, match="another sweep is writing it"):
        journal(tmp_path / "j")
    with journal(tmp_path / "j"):
        pass


def test_it_can_be_looked_at_while_it_grows(tmp_path: Path) -> None:
    path = written(tmp_path / "j", 3, 4)
    path.write_bytes(path.read_bytes() + json.dumps(row(5)).encode())  # no end of the line yet
    assert [each["number"] for each in read_rows(path)] == [3, 4]
    path.write_bytes(b"a,b\n")
    with pytest.raises(BadJournal):
        list(read_rows(path))

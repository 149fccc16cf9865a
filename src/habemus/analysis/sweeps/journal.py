"""The journal of a sweep: every row is kept as soon as it is made, whatever ends the sweep.

A text file beside the results: the first line describes the sweep, each further line is one row.
Rows are appended a few at a time, and are on the disk before the next are. A torn last line is cut
off when the journal is opened again; a row that cannot be read is made again.
"""

from __future__ import annotations

import json
import os
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from habemus.analysis.sweeps.grid_rows import VERDICTS, GridRow

KIND = "habemus sweep"
ENDING = ".journal"
NOWHERE = -1
SHOWN = 60
"""Largest number of characters of a value in a message."""


class BadJournal(ValueError):
    """A journal that this sweep cannot continue; the message says what to do."""


def journal_of(out: Path) -> Path:
    return out.with_name(out.name + ENDING)


class SweepJournal:
    """The rows made so far, by number. One process at a time owns it."""

    def __init__(self, path: Path, head: Mapping[str, Any], size: int) -> None:
        """Open the journal of a sweep of so many rows, or create it. `head` describes the sweep."""
        self.path = path
        self.damaged = 0  # lines that could not be read
        self._places = array("q", [NOWHERE]) * size  # where the row of each number begins
        self._made = 0
        self._file = self._opened(path)
        try:
            self._read_or_begin({"kind": KIND, **head})
        except BaseException:
            self._file.close()
            raise

    @staticmethod
    def _opened(path: Path) -> BinaryIO:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)  # made if missing, never emptied
        file = open(descriptor, "r+b")  # noqa: PTH123, SIM115
        if sys.platform != "win32":
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.close()
                raise BadJournal(f"{path}: another sweep is writing it") from None
        return file

    def __enter__(self) -> SweepJournal:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    # Opening.

    def _read_or_begin(self, head: dict[str, Any]) -> None:
        first = self._file.readline()
        if first.endswith(b"\n"):
            self._compare(head, first)
            self._read_rows()
            return
        if first and not self._line(head).startswith(first):
            raise BadJournal(f"{self.path}: this is not the journal of a sweep; move it away")
        # Nothing was written yet, or everything stopped while the first line was.
        self._file.seek(0)
        self._file.truncate()
        self._append(self._line(head))
        if sys.platform != "win32":
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)  # the name of the file is kept as safely as what is in it
            finally:
                os.close(folder)

    def _compare(self, head: dict[str, Any], line: bytes) -> None:
        found = _parsed(line)
        if found is None or found.get("kind") != KIND:
            raise BadJournal(f"{self.path}: this is not the journal of a sweep; move it away")
        for key, then, now in _differences(found, head):
            raise BadJournal(
                f"{self.path} was begun with another {key} ({_short(then)}, now {_short(now)}): "
                "go on with the file as it was, name another --out, or begin anew with --fresh"
            )

    def _read_rows(self) -> None:
        place = self._file.tell()
        for line in self._file:
            if not line.endswith(b"\n"):
                break
            number = self._number_of(line)
            if number is None:
                self.damaged += 1
            elif self._places[number] == NOWHERE:
                self._places[number] = place
                self._made += 1
            place += len(line)
        self._file.seek(place)
        self._file.truncate()

    def _number_of(self, line: bytes) -> int | None:
        row = _parsed(line)
        if (
            row is None
            or row.get("verdict") not in VERDICTS
            or not isinstance(row.get("command"), str)
        ):
            return None
        number = row.get("number")
        return number if type(number) is int and 0 <= number < len(self._places) else None

    # Writing and reading.

    def add(self, rows: Sequence[GridRow]) -> None:
        """Append rows, and return when they are on the disk."""
        place = self._file.seek(0, os.SEEK_END)
        lines = [self._line(row) for row in rows]
        self._append(b"".join(lines))
        for row, line in zip(rows, lines, strict=True):
            if self._places[row["number"]] == NOWHERE:
                self._places[row["number"]] = place
                self._made += 1
            place += len(line)

    @staticmethod
    def _line(value: Mapping[str, Any]) -> bytes:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

    def _append(self, content: bytes) -> None:
        self._file.write(content)
        self._file.flush()
        os.fsync(self._file.fileno())

    def __len__(self) -> int:
        """Return the number of rows that are made."""
        return self._made

    def missing(self) -> Sequence[int]:
        return array("q", (number for number, place in enumerate(self._places) if place == NOWHERE))

    def rows(self) -> Iterator[GridRow]:
        """Yield the rows by number."""
        for place in self._places:
            if place != NOWHERE:
                self._file.seek(place)
                yield json.loads(self._file.readline())

    def discard(self) -> None:
        self.path.unlink()


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _differences(
    found: Mapping[str, Any], head: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    """Return the first level at which two heads differ, by the keys that the user knows."""
    for key in dict.fromkeys([*head, *found]):
        then, now = found.get(key), head.get(key)
        if then != now:
            if isinstance(then, dict) and isinstance(now, dict):
                yield from _differences(then, now)
            else:
                yield key, then, now


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def read_rows(path: Path) -> Iterator[GridRow]:
    """Yield the rows of the journal of an unfinished sweep."""
    with path.open("rb") as file:
        head = _parsed(file.readline())
        if head is None or head.get("kind") != KIND:
            raise BadJournal(f"{path}: this is not the journal of a sweep")
        for line in file:
            row = _parsed(line)
            if row is not None and line.endswith(b"\n"):
                yield row

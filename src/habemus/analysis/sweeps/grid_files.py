"""The results of a sweep as a file: CSV, JSON lines or Parquet, by the ending of its name.

The same rows give the same file: text files byte by byte, Parquet as a table.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from habemus.analysis.sweeps.grid_rows import AXES, COSTS, ENDING, VERDICTS, Column, GridRow
from habemus.analysis.sweeps.journal import ENDING as JOURNAL
from habemus.analysis.sweeps.journal import read_rows

HINT = "pip install '.[sweep]' in your clone"
IN_A_BATCH = 10_000
LONGEST_CELL = 1_000_000
NEEDED = (*(column.name for column in AXES), "verdict", "command")


class BadResults(ValueError):
    """A file that holds no results of a sweep."""


def check_out(path: Path) -> None:
    """Raise an exception for a file that cannot be written, before the runs are made."""
    _writer(path)
    if path.suffix.lower() == ".parquet":
        _pyarrow()
    if not path.parent.is_dir():
        raise FileNotFoundError(2, "there is no such folder", str(path.parent))


def write(path: Path, columns: Sequence[Column], rows: Iterable[GridRow]) -> None:
    """Write all rows or nothing: the file gets its name only when it is complete."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    try:
        _writer(path)(unfinished, columns, rows)
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _writer(path: Path) -> Callable[[Path, Sequence[Column], Iterable[GridRow]], None]:
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise BadResults(
            f"cannot tell what to write into {str(path)!r}: the name must end in"
            f" {', '.join(_WRITERS)}"
        )
    return writer


def _write_csv(path: Path, columns: Sequence[Column], rows: Iterable[GridRow]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow([column.name for column in columns])
        out.writerows([row.get(column.name) for column in columns] for row in rows)


def _write_json_lines(path: Path, columns: Sequence[Column], rows: Iterable[GridRow]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            file.write(
                json.dumps(
                    {column.name: row.get(column.name) for column in columns}, ensure_ascii=False
                )
                + "\n"
            )


def _write_parquet(path: Path, columns: Sequence[Column], rows: Iterable[GridRow]) -> None:
    pyarrow = _pyarrow()
    from pyarrow.parquet import ParquetWriter

    types = {int: pyarrow.int64(), float: pyarrow.float64(), str: pyarrow.string()}
    schema = pyarrow.schema([(column.name, types[column.kind]) for column in columns])
    left = iter(rows)
    with ParquetWriter(path, schema) as out:
        while batch := list(islice(left, IN_A_BATCH)):
            cells = [
                pyarrow.array([row.get(column.name) for row in batch], types[column.kind])
                for column in columns
            ]
            out.write_table(pyarrow.Table.from_arrays(cells, schema=schema))


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ModuleNotFoundError(f"Parquet needs the package pyarrow: {HINT}") from None
    return pyarrow


_WRITERS = {".csv": _write_csv, ".jsonl": _write_json_lines, ".parquet": _write_parquet}


# Reading them again.


def read(path: Path) -> Iterator[GridRow]:
    """Yield the rows of a file of results, or of the journal of an unfinished sweep.

    Each is checked: whole and real numbers are numbers, everything else is text or missing.
    """
    reader = {**_READERS, JOURNAL: read_rows}.get(path.suffix.lower())
    if reader is None:
        raise BadResults(
            f"cannot tell what is in {str(path)!r}: the name must end in"
            f" {', '.join([*_READERS, JOURNAL])}"
        )
    try:
        for place, row in enumerate(reader(path), 1):
            yield _checked(row, place)
    except UnicodeDecodeError:
        raise BadResults(f"{path} is not UTF-8 text") from None
    except (BadResults, csv.Error) as reason:
        raise BadResults(f"{path} holds no results of a sweep: {reason}") from None


_KINDS = {
    column.name: column.kind
    for column in (*AXES, *(each for columns in COSTS.values() for each in columns), *ENDING)
}


def _checked(row: GridRow, place: int) -> GridRow:
    for name in NEEDED:
        if row.get(name) is None:
            raise BadResults(f"row {place} has no {name}")
    if row["verdict"] not in VERDICTS:
        raise BadResults(f"row {place} has the verdict {str(row['verdict'])[:40]!r}")
    return {str(name): _value(str(name), value, place) for name, value in row.items()}


def _value(name: str, value: Any, place: int) -> Any:
    kind = _KINDS.get(name, str)
    if value is None or value == "":
        return None
    if kind is str:
        return str(value)
    try:
        return int(value) if kind is int else float(value)
    except (TypeError, ValueError, OverflowError):
        raise BadResults(f"row {place} has {str(value)[:40]!r} as {name}") from None


def _read_csv(path: Path) -> Iterator[GridRow]:
    csv.field_size_limit(LONGEST_CELL)
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            row.pop(None, None)  # cells beyond the last column
            yield row


def _read_json_lines(path: Path) -> Iterator[GridRow]:
    with path.open(encoding="utf-8") as file:
        for place, line in enumerate(file, 1):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                raise BadResults(f"line {place} is not JSON") from None
            if not isinstance(row, dict):
                raise BadResults(f"line {place} is not a JSON object")
            yield row


def _read_parquet(path: Path) -> Iterator[GridRow]:
    pyarrow = _pyarrow()
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=IN_A_BATCH):
                yield from batch.to_pylist()
    except pyarrow.ArrowInvalid as reason:
        raise BadResults(str(reason).partition("\n")[0]) from None


_READERS = {".csv": _read_csv, ".jsonl": _read_json_lines, ".parquet": _read_parquet}

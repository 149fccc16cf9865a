"""Results as files: what is written is read again, the same rows give the same file, and what is no
result is refused.
"""

import sys
from pathlib import Path

import pytest

from habemus.analysis.sweeps import grid_files
from habemus.analysis.sweeps.grid import grid_of
from habemus.analysis.sweeps.grid_files import BadResults, read, write
from habemus.analysis.sweeps.grid_rows import Column, GridRow, RunBatches, columns_of, rows_of

GRID = grid_of(
    {
        "algorithms": ["central", "bully"],
        "n": [2, 3],
        "faults": {"none": {}, "x": {"crash": "1@Granted#1"}},
    }
)
COLUMNS = columns_of(GRID.algorithms)
ROWS = [row for piece in RunBatches(GRID, range(len(GRID))) for row in rows_of(piece)]
ROWS.append(
    {
        **ROWS[0],
        "number": 99,
        "verdict": "error",
        "error": 'a "quoted", text; ünd mehr',
        "digest": None,
        "messages_per_entry": 2.5,
    }
)


def padded(row: GridRow) -> GridRow:
    return {column.name: row.get(column.name) for column in COLUMNS}


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet", ".CSV"])
def test_what_is_written_is_read_again(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"rows{ending}"
    write(path, COLUMNS, ROWS)
    again = list(read(path))
    assert again == [padded(row) for row in ROWS]
    assert [list(row) for row in again] == [[column.name for column in COLUMNS]] * len(ROWS)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_the_same_rows_give_the_same_file(tmp_path: Path, ending: str) -> None:
    contents = []
    for name in ("one", "other"):
        write(tmp_path / f"{name}{ending}", COLUMNS, iter(ROWS))
        contents.append((tmp_path / f"{name}{ending}").read_bytes())
    assert contents[0] == contents[1]


def test_parquet_has_types_and_many_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyarrow import parquet

    monkeypatch.setattr(grid_files, "IN_A_BATCH", 2)
    write(tmp_path / "rows.parquet", COLUMNS, ROWS)
    table = parquet.read_table(tmp_path / "rows.parquet")
    assert table.num_rows == len(ROWS)
    assert {
        str(table.schema.field(name).type) for name in ("messages_per_entry", "throughput")
    } == {"double"}
    assert {str(table.schema.field(name).type) for name in ("n", "seed", "time")} == {"int64"}
    assert list(read(tmp_path / "rows.parquet")) == [padded(row) for row in ROWS]


def test_a_file_has_its_name_only_when_it_is_complete(tmp_path: Path) -> None:
    def breaking() -> object:
        yield ROWS[0]
        raise KeyboardInterrupt

    path = tmp_path / "rows.csv"
    path.write_text("before", encoding="utf-8")
    with pytest.raises(KeyboardInterrupt):
        write(path, COLUMNS, breaking())  # type: ignore[arg-type]
    assert path.read_text(encoding="utf-8") == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_an_ending_that_says_nothing_is_refused(tmp_path: Path) -> None:
    for name in ("rows.xlsx", "rows", "rows.csv.gz"):
        with pytest.raises(BadResults, match=r"must end in \.csv, \.jsonl, \.parquet"):
            grid_files.check_out(tmp_path / name)
        with pytest.raises(BadResults, match="must end in"):
            list(read(tmp_path / name))
    with pytest.raises(OSError, match="no such folder"):
        grid_files.check_out(tmp_path / "nowhere" / "rows.csv")


def test_without_pyarrow_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    grid_files.check_out(tmp_path / "rows.csv")
    with pytest.raises(ModuleNotFoundError, match=r"pyarrow: pip install '\.\[sweep\]'"):
        grid_files.check_out(tmp_path / "rows.parquet")


GOOD = "number,algorithm,n,load,delay,fault,seed,verdict,command\n"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.csv", b"a,b\n1,2\n", "row 1 has no number"),
        (
            "x.csv",
            GOOD.encode() + b"1,central,3,0.5,1ms,none,0,fine,habemus\n",
            "row 1 has the verdict 'fine'",
        ),
        (
            "x.csv",
            GOOD.encode() + b"1,central,three,0.5,1ms,none,0,holds,habemus\n",
            "row 1 has 'three' as n",
        ),
        ("x.csv", GOOD.encode() + b"1,central,3,0.5\n", "row 1 has no delay"),
        ("x.csv", b"\xff\xfe", "not UTF-8"),
        ("x.csv", GOOD.encode() + b"1," + b"x" * 1_100_000, "field larger than field limit"),
        ("x.jsonl", b"{}\n", "row 1 has no number"),
        ("x.jsonl", b"[1]\n", "line 1 is not a JSON object"),
        ("x.jsonl", b"{1}\n", "line 1 is not JSON"),
        ("x.jsonl", b"[" * 100_000 + b"\n", "line 1 is not JSON"),
        ("x.parquet", b"PAR1 not really", "holds no results of a sweep"),
        ("x.csv.journal", b"number\n", "not the journal of a sweep"),
    ],
)
def test_what_is_no_result_is_refused(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r".") as refused:
        list(read(path))
    assert said in str(refused.value)
    assert str(refused.value).startswith(str(path))
    assert "\n" not in str(refused.value)


def test_more_cells_than_columns_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(
        f"{GOOD}1,central,3,0.5,1ms,none,0,holds,habemus,more,and more\n", encoding="utf-8"
    )
    assert [row["n"] for row in read(tmp_path / "x.csv")] == [3]


def test_columns_have_the_kinds_that_files_know() -> None:
    assert {column.kind for column in COLUMNS} == {int, float, str}
    assert Column("n", int) in COLUMNS

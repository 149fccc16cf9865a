"""Rows: the same as `habemus run` says, in the columns that are announced, whatever happens."""

import pytest

from habemus.analysis.sweeps import grid_rows
from habemus.analysis.sweeps.grid import Grid, grid_of
from habemus.analysis.sweeps.grid_rows import AXES, RunBatches, columns_of, rows_of
from habemus.runs.setup import Setup
from habemus.runs.simulate import Report, execute

ALGORITHMS = ["central", "maekawa", "elected-coordinator-leased", "bully", "franklin", "heartbeat"]


def grid(**keys: object) -> Grid:
    return grid_of({"algorithms": ["central"], "n": [3], **keys})


def test_a_row_says_what_run_says() -> None:
    (row,) = rows_of(
        RunBatches(grid(load="burst", requests=2, faults={"x": {"crash": "1@Granted#1"}}), [0])[0]
    )
    report = execute(
        Setup(
            "central",
            3,
            workload="burst",
            requests=2,
            faults=(("crash", "1@Granted#1"),),
            events=200_000,
        ),
        keep=False,
    )
    plain = report.plain()
    assert plain["verdict"] == "violated"
    assert (row["fault"], row["load"], row["error"]) == ("x", "burst", None)
    assert {name: row[name] for name in plain["properties"]} == plain["properties"]
    for name in (
        "verdict",
        "why",
        "messages",
        "bytes",
        "messages_per_entry",
        "entries",
        "digest",
        "command",
        "time",
        "events",
        "ended",
    ):
        assert row[name] == plain[name], name


@pytest.mark.parametrize("name", ALGORITHMS)
def test_rows_are_in_their_columns(name: str) -> None:
    columns = columns_of([name])
    assert len({column.name for column in columns}) == len(columns)
    made = grid(
        algorithms=[name],
        seeds=3,
        load="burst",
        faults={"none": {}, "pause": {"pause": "2@2ms+9ms"}},
    )
    for row in rows_of([run for batch in RunBatches(made, range(len(made))) for run in batch]):
        assert list(row) == [column.name for column in columns]
        for column in columns:
            allowed = (int, float) if column.kind is float else (column.kind,)
            assert row[column.name] is None or type(row[column.name]) in allowed, (
                column,
                row[column.name],
            )
        assert None not in [row[column.name] for column in (*AXES,)]


def test_a_mixed_grid_has_the_columns_of_all() -> None:
    names = [column.name for column in columns_of(ALGORITHMS)]
    assert len(set(names)) == len(names)
    assert {"ME1", "E1", "completeness", "client_delay", "turnaround", "mistakes"} <= set(names)
    assert names.index("verdict") == len(AXES)


def test_what_goes_wrong_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(setup: Setup, *, keep: bool) -> Report:
        if setup.seed == 1:
            raise RecursionError("too\ndeep")
        return execute(setup, keep=keep)

    monkeypatch.setattr(grid_rows, "execute", stumble)
    rows = rows_of([run for batch in RunBatches(grid(seeds=3), range(3)) for run in batch])
    assert [row["verdict"] for row in rows] == ["holds", "error", "holds"]
    assert rows[1]["error"] == "RecursionError: too deep"
    assert rows[1]["command"] == "habemus run central -n 3 --seed 1 --events 200000"
    assert rows[1]["digest"] is None


@pytest.mark.parametrize(
    "numbers", [range(1), range(5), range(64), range(1000), [3, 5, 900], range(7, 5000, 3)]
)
def test_pieces_are_all_that_is_left_and_nothing_else(numbers: range) -> None:
    batches = RunBatches(grid(seeds=5000), numbers)
    cut = [[run["number"] for run in batch] for batch in batches]
    assert sorted(number for batch in cut for number in batch) == list(numbers)
    assert len(cut) == len(batches)
    assert max(map(len, cut)) <= grid_rows.AT_ONCE
    assert max(map(len, cut)) - min(map(len, cut)) <= 1
    assert len(cut) >= min(len(numbers), grid_rows.LEAST_BATCHES)
    assert batches[1:2] == [batches[1]] if len(cut) > 1 else True
    with pytest.raises(IndexError):
        batches[len(cut)]

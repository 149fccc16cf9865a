"""However a sweep is stopped, resumed and distributed, the same rows come out."""

import random
import sys
from collections.abc import Callable, Generator, Iterator
from concurrent.futures.process import BrokenProcessPool
from importlib.metadata import version
from pathlib import Path

import pytest

from habemus.analysis.sweeps import dask_cluster as clusters
from habemus.analysis.sweeps import grid_sweep
from habemus.analysis.sweeps.dask_cluster import BadCluster, cluster
from habemus.analysis.sweeps.grid import Grid, grid_of
from habemus.analysis.sweeps.grid_rows import GridRow, RunBatch, RunBatches, rows_of
from habemus.analysis.sweeps.grid_sweep import (
    PATIENCE,
    BadOut,
    Executor,
    GridSweep,
    WorkersDie,
    WorkersGone,
    processes,
)
from habemus.analysis.sweeps.journal import BadJournal
from habemus.core.properties import Verdict

GRID = grid_of(
    {
        "algorithms": ["central", "chang-roberts"],
        "n": [2, 3],
        "seeds": 12,
        "faults": {"none": {}, "crash": {"crash": "1@3ms"}},
    }
)
RUNS = 2 * 2 * 12 * 2


def swept(path: Path, executor: Executor | None = None, grid: Grid = GRID) -> GridSweep:
    made = GridSweep(grid, path)
    made.prepare(fresh=False)
    made.run(executor or processes(1))
    return made


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("undisturbed") / "rows.csv"
    made = swept(path)
    assert (made.made, made.resumed, made.broken_off) == (RUNS, 0, "")
    return path.read_bytes()


def stopping(after: int, error: BaseException) -> Executor:
    """Makes so many batches in an order of its own, and then something happens."""

    def executor(batches: RunBatches) -> Generator[list[GridRow], None, None]:
        order = list(range(len(batches)))
        random.Random(len(batches)).shuffle(order)
        for place in order[:after]:
            yield rows_of(batches[place])
        if after < len(order):
            raise error

    return executor


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_interrupted_again_and_again(tmp_path: Path, ending: str, expected: bytes) -> None:
    path, whole = tmp_path / f"rows{ending}", tmp_path / f"whole{ending}"
    swept(whole)
    seen = []
    for _ in range(100):
        made = swept(path, stopping(13, KeyboardInterrupt()))
        seen.append((made.resumed, made.made))
        if not made.broken_off:
            break
        assert made.broken_off == "interrupted"
        assert made.verdict is Verdict.UNDECIDED
        assert not path.exists()
        assert made.journal.exists()
    assert len(seen) > 3
    assert [resumed for resumed, _ in seen[1:]] == [total for _, total in seen[:-1]]
    assert path.read_bytes() == whole.read_bytes()
    assert ending != ".csv" or path.read_bytes() == expected
    assert not made.journal.exists()


def test_a_process_that_dies_loses_nothing(
    tmp_path: Path, expected: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaths = iter(range(4))

    def dying(
        work: Callable[[RunBatch], list[GridRow]], batches: RunBatches, jobs: int
    ) -> Iterator[tuple[RunBatch, list[GridRow]]]:
        assert jobs == 2
        for batch in batches[:20]:
            yield batch, work(batch)
        if next(deaths, None) is not None:
            raise BrokenProcessPool
        for batch in batches[20:]:
            yield batch, work(batch)

    monkeypatch.setattr(grid_sweep, "results", dying)
    made = swept(tmp_path / "rows.csv", processes(2))
    assert (tmp_path / "rows.csv").read_bytes() == expected
    assert not made.broken_off
    assert next(deaths, None) is None


def test_workers_that_die_lose_nothing(tmp_path: Path, expected: bytes) -> None:
    made = swept(tmp_path / "rows.csv", stopping(9, WorkersDie("a worker died")))
    assert (made.made, made.broken_off) == (RUNS, "")
    assert (tmp_path / "rows.csv").read_bytes() == expected


def test_workers_that_do_nothing_but_die_end_it(tmp_path: Path, expected: bytes) -> None:
    path = tmp_path / "rows.csv"
    swept(path, stopping(20, KeyboardInterrupt()))
    made = swept(path, stopping(0, WorkersDie("a worker died")))
    assert made.broken_off == f"a worker died, {PATIENCE} times in a row"
    assert made.made == made.resumed > 0
    gone = swept(path, stopping(1, WorkersGone("the cluster is lost")))
    assert (gone.broken_off, gone.verdict) == ("the cluster is lost", Verdict.UNDECIDED)
    assert gone.made > gone.resumed
    swept(path)
    assert path.read_bytes() == expected


def test_rows_that_come_twice_are_there_once(tmp_path: Path, expected: bytes) -> None:
    def twice(batches: RunBatches) -> Generator[list[GridRow], None, None]:
        for batch in batches:
            yield rows_of(batch)
            yield rows_of(batch)

    swept(tmp_path / "rows.csv", twice)
    assert (tmp_path / "rows.csv").read_bytes() == expected


def test_a_row_that_is_lost_is_made(tmp_path: Path, expected: bytes) -> None:
    def forgetful(batches: RunBatches) -> Generator[list[GridRow], None, None]:
        for batch in batches:
            yield rows_of(batch)[: -1 if len(batch) > 1 else 1]

    swept(tmp_path / "rows.csv", forgetful)
    assert (tmp_path / "rows.csv").read_bytes() == expected


def test_another_grid_does_not_go_on_from_it(tmp_path: Path) -> None:
    swept(tmp_path / "rows.csv", stopping(3, KeyboardInterrupt()))
    other = grid_of(
        {**GRID.plain(), "seeds": 26, "faults": {}, "fifo": False, "over": "perfect", "until": "1s"}
    )
    with pytest.raises(BadJournal, match="was begun with another"):
        swept(tmp_path / "rows.csv", grid=other)


def test_results_are_not_written_over(tmp_path: Path, expected: bytes) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("mine", encoding="utf-8")
    made = GridSweep(GRID, path)
    with pytest.raises(BadOut, match="is there already"):
        made.prepare(fresh=False)
    made.prepare(fresh=True)
    made.run(stopping(3, KeyboardInterrupt()))
    assert path.read_text(encoding="utf-8") == "mine"
    swept(path)
    assert path.read_bytes() == expected


def test_the_verdict_is_that_of_the_worst_run(tmp_path: Path) -> None:
    def verdict(name: str, **keys: object) -> Verdict:
        return swept(
            tmp_path / f"{name}.csv", grid=grid_of({"algorithms": ["central"], "n": [3], **keys})
        ).verdict

    assert verdict("good", seeds=3) is Verdict.HOLDS
    assert verdict("cut", events=5) is Verdict.UNDECIDED
    assert (
        verdict("bad", load="burst", requests=2, faults={"none": {}, "x": {"crash": "1@Granted#1"}})
        is Verdict.VIOLATED
    )


def test_what_is_shown_is_the_same_in_any_order(tmp_path: Path) -> None:
    one = swept(tmp_path / "one.csv").plain()
    other = swept(tmp_path / "other.csv", stopping(10_000, KeyboardInterrupt())).plain()
    assert one["rows"] == other["rows"]
    assert [row["runs"] for row in one["rows"]] == [48, 48]


# Clusters.


@pytest.mark.parametrize(
    "address", ["local", "local:0", "local:9999", "tcp://somewhere", "http://127.0.0.1:8786", "4"]
)
def test_what_is_no_cluster(address: str) -> None:
    with pytest.raises(BadCluster):
        clusters.check(address)


def test_a_cluster_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "TO_CONNECT", "100ms")
    with (
        pytest.raises(BadCluster, match=r"there is no cluster at tcp://127\.0\.0\.1:9"),
        cluster("tcp://127.0.0.1:9"),
    ):
        pass


def test_workers_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    class Client:
        def wait_for_workers(self, _count: int, timeout: float) -> None: ...

        def run(self, _version: object) -> dict[str, str]:
            return {"tcp://a": version("habemus"), "tcp://b": "0.0.9"}

    with pytest.raises(BadCluster, match=r"the worker tcp://b has habemus 0\.0\.9"):
        clusters._check_workers(Client(), "tcp://x")
    monkeypatch.setattr(Client, "run", lambda *_: {"tcp://a": ""})
    with pytest.raises(BadCluster, match="has habemus not installed"):
        clusters._check_workers(Client(), "tcp://x")


def test_without_distributed_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(
        ModuleNotFoundError,
        match=r"distributed: pip install '\.\[sweep\]'",
    ):
        clusters.check("local:2")

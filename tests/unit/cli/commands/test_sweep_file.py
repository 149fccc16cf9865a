"""`sweep FILE.toml` and `report`, as a person meets them; killed, interrupted and distributed for
real.
"""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Habemus

from habemus.analysis.sweeps.grid_rows import GridRow, RunBatches, rows_of
from habemus.cli.commands import sweep_file

ROOT = Path(__file__).parents[4]
SMALL = 'algorithms = ["central", "bully"]\nn = [2, 3]\nseeds = 3\n'
BAD = (
    'algorithms = "central"\nn = 3\nload = "burst"\nrequests = 2\nseeds ='
    ' 4\n[faults.none]\n[faults.crash]\ncrash = "1@Granted#1"\n'
)
DISTURBED = """
algorithms = ["central", "suzuki-kasami", "chang-roberts"]
n = [3, 4]
delay = ["1ms", "exp:1ms"]
load = "burst"
seeds = 20
[faults.none]
[faults.crash]
crash = "2@4ms"
"""

Said = Callable[..., tuple[int, str, str]]


@pytest.fixture
def habemus(here: Habemus) -> Said:
    """Return a function that runs the program in a folder that has some grids."""
    for name, text in (("small", SMALL), ("bad", BAD)):
        Path(f"{name}.toml").write_text(text, encoding="utf-8")

    def run(*arguments: str) -> tuple[int, str, str]:
        done = here(*arguments)
        return done.returncode, done.stdout, done.stderr

    return run


def test_a_sweep_and_its_report(habemus: Said) -> None:
    code, out, err = habemus("sweep", "small.toml", "--jobs", "1")
    assert code == 0
    assert "holds: 12 of 12 runs made, 12 holds" in out
    assert err == "saved small.csv\n"
    lines = Path("small.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 13
    assert lines[0].startswith("number,algorithm,n,load,delay,fault,seed,verdict,ME1,")
    code, out, err = habemus("report", "small.csv")
    assert (code, err) == (0, "saved small.html\n")
    assert Path("small.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert sorted(path.name for path in Path().iterdir()) == [
        "bad.toml",
        "small.csv",
        "small.html",
        "small.toml",
    ]


def test_what_does_not_hold_is_told_with_its_command(habemus: Said) -> None:
    code, out, _ = habemus("sweep", "bad.toml", "--jobs", "1", "--out", "x.jsonl")
    assert code == 1
    assert "violated: 8 of 8 runs made, " in out
    assert (
        "habemus run central -n 3 --workload burst --requests 2 --crash '1@Granted#1' --events"
        " 200000" in out
    )
    code, out, _ = habemus(
        "sweep", "bad.toml", "--jobs", "1", "--out", "x.jsonl", "--fresh", "--json"
    )
    document = json.loads(out)
    assert (code, document["verdict"], document["complete"], document["runs_made"]) == (
        1,
        "violated",
        True,
        8,
    )
    (row,) = document["rows"]
    assert (row["holds"], row["violated"], row["error"]) == (4, 4, 0)
    assert [failure["fault"] for failure in row["failures"]] == ["crash"] * 4
    code, out, _ = habemus("report", "x.jsonl", "--json", "--out", "page.html", "--title", "Crash")
    report = json.loads(out)
    assert code == 0
    assert report["rows"][0]["properties"]["ME2-deadlock"] == {
        "holds": 4,
        "violated": 4,
        "undecided": 0,
    }
    assert report["rows"][0]["failures"][0]["runs"] == 4
    assert "<h1>Crash</h1>" in Path("page.html").read_text(encoding="utf-8")


def test_csv_json_lines_and_parquet_are_the_same_rows(habemus: Said) -> None:
    from habemus.analysis.sweeps.grid_files import read

    for name in ("x.csv", "x.jsonl", "x.parquet"):
        assert habemus("sweep", "small.toml", "--jobs", "1", "--out", name)[0] == 0
    assert list(read(Path("x.csv"))) == list(read(Path("x.jsonl"))) == list(read(Path("x.parquet")))


def test_where_no_bar_can_be_drawn_lines_say_how_far_it_is(
    habemus: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep_file, "EVERY_S", 0)
    _, _, err = habemus("sweep", "bad.toml", "--jobs", "1")
    lines = err.splitlines()
    assert len(lines) == 8
    assert all(
        re.fullmatch(r"[2-8] of 8 runs(, \d violated)?, about \d+ s left", line)
        for line in lines[:-1]
    )
    assert lines[-2] == "8 of 8 runs, 4 violated, about 0 s left"


def test_dry_run(habemus: Said) -> None:
    code, out, _ = habemus("sweep", "small.toml", "--dry-run")
    assert code == 0
    assert out.startswith(
        "12 runs: 2 algorithms x 2 sizes x 1 load x 1 delay x 1 fault x 3 seeds\n  0  habemus run"
        " central -n 2 "
    )
    assert out.endswith("and 7 more\n")
    document = json.loads(habemus("sweep", "small.toml", "--dry-run", "--json")[1])
    assert (document["runs"], len(document["rows"])) == (12, 5)
    assert sorted(path.name for path in Path().iterdir()) == ["bad.toml", "small.toml"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("sweep", "nowhere.toml"), "nowhere.toml: No such file or directory"),
        (("sweep", "small.toml", "bad.toml"), "one FILE.toml"),
        (("sweep", "small.toml", "central"), "one FILE.toml"),
        (("sweep", "small.toml", "--seeds", "9"), "--seeds cannot be used with FILE.toml"),
        (("sweep", "small.toml", "-n", "9"), "-n cannot be used with FILE.toml"),
        (("sweep", "central", "--out", "x.csv"), "--out needs FILE.toml"),
        (("sweep", "central", "--dry-run"), "--dry-run needs FILE.toml"),
        (("sweep", "small.toml", "--out", "x.xlsx"), "must end in .csv, .jsonl, .parquet"),
        (("sweep", "small.toml", "--out", "nowhere/x.csv"), "nowhere: there is no such folder"),
        (("sweep", "small.toml", "--out", "there.csv"), "there.csv is there already"),
        (("sweep", "small.toml", "--out", "other.csv"), "was begun with another"),
        (("sweep", "small.toml", "--cluster", "everywhere"), "write for example local:4"),
        (
            ("sweep", "small.toml", "--cluster", "local:2", "--jobs", "2"),
            "a Dask cluster has its own workers",
        ),
        (("sweep", "wrong.toml"), "wrong.toml: there is no key sede; did you mean seeds?"),
        (("report", "nowhere.csv"), "nowhere.csv: No such file or directory"),
        (("report", "there.csv"), "row 1 has no number"),
        (("report", "empty.jsonl"), "there is no row"),
        (("report", "there.csv", "--out", "x.pdf"), "ends in .html"),
        (("report", "small.toml"), "must end in .csv"),
    ],
)
def test_bad_input_gets_one_line(habemus: Said, arguments: tuple[str, ...], said: str) -> None:
    Path("there.csv").write_text("a\n1\n", encoding="utf-8")
    Path("empty.jsonl").write_text("", encoding="utf-8")
    Path("wrong.toml").write_text(f"sede = 1\n{SMALL}", encoding="utf-8")
    Path("other.csv.journal").write_text(
        '{"kind": "habemus sweep", "grid": {}}\n', encoding="utf-8"
    )
    code, out, err = habemus(*arguments)
    assert code == 2
    assert out == ""
    assert said in err
    assert err.startswith("habemus: ")
    assert err.count("\n") == 1


def test_killed_and_resumed_and_on_a_cluster_that_loses_a_worker(tmp_path: Path) -> None:
    """What `make sweep-campaign` does with 100,000 runs: real processes, and a real kill -9 of the
    sweep and of a worker.
    """
    grid = tmp_path / "grid.toml"
    grid.write_text(DISTURBED, encoding="utf-8")
    command = [
        sys.executable,
        str(ROOT / "benchmarks" / "sweep" / "campaign.py"),
        str(grid),
        "--folder",
        str(tmp_path / "out"),
        "--jobs",
        "1",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("identical rows\n")
    assert (tmp_path / "out" / "cluster.csv").read_bytes().count(b"\n") == 481


def test_an_interrupt_leaves_something_to_go_on_from(
    habemus: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(pieces: RunBatches) -> Generator[list[GridRow], None, None]:
        for piece in pieces[:5]:
            yield rows_of(piece)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(sweep_file, "processes", lambda _jobs: interrupted)
        code, out, err = habemus("sweep", "small.toml", "--json")
    document = json.loads(out)
    assert code == 3
    assert (document["verdict"], document["complete"], document["broken_off"]) == (
        "undecided",
        False,
        "interrupted",
    )
    assert (document["runs_made"], document["out"]) == (5, "small.csv.journal")
    assert (
        err == "interrupted: 5 of 12 runs are kept in small.csv.journal; run the same command to"
        " resume\n"
    )
    assert habemus("report", "small.csv.journal")[0] == 0
    assert "The sweep has not ended" in Path("small.html").read_text(encoding="utf-8")
    code, out, err = habemus("sweep", "small.toml", "--jobs", "1")
    assert (code, err) == (0, "resumed: 5 runs from before, 7 new\nsaved small.csv\n")
    assert "holds: 12 of 12 runs made, 12 holds" in out

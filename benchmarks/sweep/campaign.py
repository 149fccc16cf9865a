"""A sweep that is killed and resumed, and the same on a Dask cluster that loses a worker: are the
rows identical?

    python benchmarks/sweep/campaign.py GRID.toml [--folder FOLDER] [--jobs N]

The sweep is ended by a real `kill -9` when half of its rows are made, and then goes on.  The
cluster has two worker processes, of which one is ended by a real `kill -9` when half of the rows
are made.  The two files of results must be the same, byte by byte.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import psutil

HABEMUS = (sys.executable, "-m", "habemus")
LOOK_EVERY_S = 0.02
WORKER = "spawn_main"
"""What stands in the command of a process that another one has started to work for it."""


class Sweep:
    """A sweep in a process of its own, and how far it is."""

    def __init__(self, grid: Path, out: Path, *arguments: str) -> None:
        self.journal = out.with_name(f"{out.name}.journal")
        command = [*HABEMUS, "sweep", str(grid), "--out", str(out), "--json", *arguments]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def rows(self) -> int:
        with suppress(FileNotFoundError):
            return max(0, self.journal.read_bytes().count(b"\n") - 1)
        return 0

    def until_half(self) -> int:
        """Waits until half of the rows are made, and says how many there will be.  To be too late
        is a mistake of the campaign.
        """
        runs: int | None = None
        while runs is None or self.rows() < runs // 2:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(LOOK_EVERY_S if runs is None or runs < 10_000 else 1)
                raise SystemExit("the sweep ended before it could be disturbed: give it more runs")
            with (
                suppress(FileNotFoundError, ValueError),
                self.journal.open(encoding="utf-8") as journal,
            ):
                runs = json.loads(journal.readline())["runs"]
        return runs

    def workers(self) -> list[psutil.Process]:
        return [
            each
            for each in psutil.Process(self.process.pid).children(recursive=True)
            if WORKER in " ".join(each.cmdline())
        ]

    def outcome(self) -> dict[str, object]:
        said, _ = self.process.communicate()
        document = json.loads(said)
        assert isinstance(document, dict)
        if not document["complete"]:
            raise SystemExit(f"the sweep did not come to its end: {document['broken_off']}")
        return document


def killed_and_resumed(grid: Path, out: Path, *jobs: str) -> None:
    sweep = Sweep(grid, out, *jobs)
    runs = sweep.until_half()
    sweep.process.kill()
    sweep.process.communicate()
    assert not out.exists(), "there are results of a sweep that was killed"
    kept = sweep.rows()
    document = Sweep(grid, out, *jobs).outcome()
    assert kept == document["runs_resumed"] or document["runs_resumed"] == kept - 1, (
        kept,
        document["runs_resumed"],
    )  # or one was torn
    print(
        f"  killed with {kept:,} of {runs:,} rows made, resumed with {document['runs_resumed']:,},"
        " then complete"
    )


def on_a_cluster(grid: Path, out: Path, *_: str) -> None:
    sweep = Sweep(grid, out, "--cluster", "local:2")
    runs = sweep.until_half()
    first, _ = sweep.workers()
    first.kill()
    print(f"  one of 2 workers killed with {sweep.rows():,} of {runs:,} rows made")
    document = sweep.outcome()
    assert document["runs_made"] == runs
    assert document["runs_resumed"] == 0
    print("  complete")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("grid", type=Path)
    parser.add_argument(
        "--folder", type=Path, help="where the results go; otherwise they are thrown away"
    )
    parser.add_argument("--jobs", help="processes of the sweep that is killed")
    given = parser.parse_args()
    jobs = ("--jobs", given.jobs) if given.jobs else ()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        digests = {}
        for title, make, out in (
            ("a sweep that is killed and resumed", killed_and_resumed, folder / "resumed.csv"),
            ("a cluster that loses a worker", on_a_cluster, folder / "cluster.csv"),
        ):
            print(title)
            started = time.monotonic()
            make(given.grid, out, *jobs)
            digests[title] = sha256(out.read_bytes()).hexdigest()
            print(f"  {time.monotonic() - started:,.0f} s, sha256 {digests[title]}")
    if len(set(digests.values())) > 1:
        raise SystemExit("the rows differ")
    print("identical rows")


if __name__ == "__main__":
    main()

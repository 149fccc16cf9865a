"""`habemus sweep FILE.toml`: simulate the runs of a grid and write one row for each."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import click

from habemus.analysis.sweeps import dask_cluster as clusters
from habemus.analysis.sweeps import grid as grids
from habemus.analysis.sweeps.grid import Grid
from habemus.analysis.sweeps.grid_rows import VERDICTS, RunBatches
from habemus.analysis.sweeps.grid_sweep import AlgorithmVerdicts, GridSweep, processes
from habemus.analysis.sweeps.workers import jobs_for
from habemus.cli.output import EXIT_OF, Exit, progress, say_json, verdict_text
from habemus.cli.tables import say_table

SHOWN = 3
"""Number of failing runs printed for one algorithm; --json has more, the results have all."""
FIRST_ROWS = 5
EVERY_S = 30
"""Seconds between two progress lines, where stderr is not a terminal."""


def sweep_file(
    file: Path,
    *,
    out: Path | None,
    cluster: str | None,
    jobs: int | None,
    dry_run: bool,
    fresh: bool,
    trusted: bool,
    as_json: bool,
) -> int:
    grid = grids.read(file, trusted=trusted)
    if dry_run:
        _say_plan(grid, as_json)
        return Exit.OK
    made = GridSweep(grid, out or Path(f"{file.stem}.csv"))
    if cluster is not None:
        clusters.check(cluster)
    made.prepare(fresh)
    jobs = jobs_for(len(RunBatches(grid, range(len(grid)))), jobs)
    with (
        nullcontext(processes(jobs)) if cluster is None else clusters.cluster(cluster) as executor,
        progress("sweep", len(grid)) as draw_bar,
        _lines(len(grid)) as say_line,
    ):

        def update(done: int, beside: str) -> None:
            draw_bar(done, beside)
            say_line(done, beside)

        made.run(executor, update)
    if as_json:
        say_json(made.plain())
    else:
        _say(made)
    _say_what_next(made)
    return EXIT_OF[made.verdict]


@contextmanager
def _lines(total: int) -> Iterator[Callable[[int, str], None]]:
    """Print a progress line with an estimate every EVERY_S seconds, if stderr is not a terminal."""
    started = printed = time.monotonic()
    first: int | None = None

    def update(done: int, beside: str) -> None:
        nonlocal printed, first
        now = time.monotonic()
        first = done if first is None else first  # resumed runs took no time
        if now - printed >= EVERY_S and done > first and not sys.stderr.isatty():
            printed = now
            click.echo(
                f"{beside}, about {_duration((now - started) * (total - done) / (done - first))}"
                " left",
                err=True,
            )

    yield update


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def _say_plan(grid: Grid, as_json: bool) -> None:
    first = [grid.point(number) for number in range(min(FIRST_ROWS, len(grid)))]
    if as_json:
        rows = [
            {
                "number": each.number,
                "load": each.load,
                "fault": each.fault,
                "command": each.setup.command(),
            }
            for each in first
        ]
        say_json({"runs": len(grid), "grid": grid.plain(), "rows": rows})
        return
    axes = {
        "algorithms": len(grid.algorithms),
        "sizes": len(grid.sizes),
        "loads": len(grid.loads),
        "delays": len(grid.delays),
        "faults": len(grid.troubles),
        "seeds": len(grid.seeds),
    }
    click.echo(
        f"{len(grid):,} runs: "
        + " x ".join(
            f"{count:,} {name if count != 1 else name[:-1]}" for name, count in axes.items()
        )
    )
    for point in first:
        click.echo(f"  {point.number}  {point.setup.command()}")
    if len(grid) > len(first):
        click.echo(f"  and {len(grid) - len(first):,} more")


def _say(made: GridSweep) -> None:
    heads = ["algorithm", "runs", *VERDICTS]
    say_table(heads, [_row(outcome) for outcome in made.outcomes.values()])
    width = shutil.get_terminal_size((240, 24)).columns
    for outcome in made.outcomes.values():
        failed = outcome.verdicts.total() - outcome.verdicts[VERDICTS[0]]
        if not failed:
            continue
        click.echo(
            click.style(
                f"\n{outcome.algorithm}: {failed:,} of {outcome.verdicts.total():,} runs failed",
                fg="red",
            )
        )
        different = {
            row["error"] or row["why"]: row for row in reversed(outcome.failures)
        }  # the first of each kind
        for row in sorted(different.values(), key=lambda row: row["number"])[:SHOWN]:
            click.echo(f"  {row['error'] or row['why']}"[: max(80, width)])
            click.echo(f"    {row['command']}")
        if failed > SHOWN:
            click.echo(f"  and {failed - SHOWN:,} more")
    counts = {
        verdict: sum(outcome.verdicts[verdict] for outcome in made.outcomes.values())
        for verdict in VERDICTS
    }
    told = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items() if count)
    click.echo(
        f"\n{verdict_text(made.verdict)}: {made.made:,} of {len(made.grid):,} runs made, {told}"
    )


def _row(outcome: AlgorithmVerdicts) -> list[str]:
    return [
        outcome.algorithm,
        f"{outcome.verdicts.total():,}",
        *(f"{outcome.verdicts[verdict]:,}" for verdict in VERDICTS),
    ]


def _say_what_next(made: GridSweep) -> None:
    if made.damaged:
        click.echo(
            f"{made.damaged:,} lines of {made.journal} were damaged; their runs were repeated",
            err=True,
        )
    if made.broken_off:
        kept = f"{made.made:,} of {len(made.grid):,} runs are kept in {made.journal}"
        click.echo(f"{made.broken_off}: {kept}; run the same command to resume", err=True)
        return
    if made.resumed:
        click.echo(
            f"resumed: {made.resumed:,} runs from before, {made.made - made.resumed:,} new",
            err=True,
        )
    click.echo(f"saved {made.out}", err=True)

"""`habemus sweep`: many seeded runs, or every run of a grid in a file."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from habemus.analysis.numbers.ranges import sizes
from habemus.analysis.sweeps.seeded_setups import SeededSetups
from habemus.analysis.sweeps.sweep import Sweep, Tally, without_crashes
from habemus.analysis.sweeps.workers import jobs_for
from habemus.catalog.entries import entries, find
from habemus.cli.commands.completion import complete_algorithm
from habemus.cli.output import (
    EXIT_OF,
    jobs_option,
    json_option,
    options_option,
    progress,
    say_json,
    trust_option,
    verdict_text,
)
from habemus.cli.tables import say_table
from habemus.core.words import counted
from habemus.runs import notation
from habemus.runs.options import check_options

SHOWN = 5
"""Number of failing runs printed for one algorithm; --json has more."""


OF_SEEDS = ("seeds", "first", "n", "delay", "crashes", "options")
OF_A_FILE = ("out", "cluster", "dry_run", "fresh", "trusted")


@click.command(epilog="Example: habemus sweep ricart-agrawala maekawa-sanders --seeds 1000 -n 2..6")
@click.argument(
    "algorithms", nargs=-1, shell_complete=complete_algorithm, metavar="[ALGORITHM]... | FILE.toml"
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Runs of each algorithm.",
)
@click.option(
    "--first", type=click.IntRange(min=0), default=0, show_default=True, help="The first seed."
)
@click.option(
    "-n",
    "n",
    default="2..6",
    show_default=True,
    metavar="N|LOW..HIGH",
    help="Numbers of participants; the seeds cycle through them.",
)
@click.option("--delay", help="Message delay, as in `run`.  [default: chosen by the seed]")
@click.option(
    "--crashes",
    is_flag=True,
    help="Also inject the crashes, recoveries and cut links that the algorithm tolerates.",
)
@jobs_option
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With FILE.toml: write the rows as .csv, .jsonl or .parquet.  [default: FILE.csv]",
)
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="With FILE.toml: run on Dask; local:4 (4 local workers) or tcp://HOST:PORT.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="With FILE.toml: print the number of runs and the first of them; run nothing.",
)
@click.option(
    "--fresh", is_flag=True, help="With FILE.toml: discard earlier results and start again."
)
@trust_option
@options_option
@json_option
@click.pass_context
def sweep(
    context: click.Context,
    algorithms: tuple[str, ...],
    seeds: int,
    first: int,
    n: str,
    delay: str | None,
    crashes: bool,
    jobs: int | None,
    out: Path | None,
    cluster: str | None,
    dry_run: bool,
    fresh: bool,
    trusted: bool,
    options: tuple[str, ...],
    as_json: bool,
) -> int:
    """Simulate many seeded runs and report those that violate a claim of the card.

    The seed determines the run: size, workload, delays and, with --crashes, the crashes and
    cut links.  Without a name: all algorithms.

    With FILE.toml: simulate every run of a grid (algorithm x size x load x delay x fault x seed),
    and write one row for each.  After an interruption, the same command resumes the sweep.
    """
    if any(name.endswith(".toml") for name in algorithms):
        if len(algorithms) > 1:
            raise click.UsageError(
                "give one FILE.toml and no other argument: the file names the algorithms"
            )
        _refuse(context, OF_SEEDS, "cannot be used with FILE.toml: set it in the file")
        if cluster is not None and jobs is not None:
            raise click.UsageError(
                "--jobs and --cluster exclude each other: a Dask cluster has its own workers"
                " (local:4)"
            )
        from habemus.cli.commands.sweep_file import sweep_file

        return sweep_file(
            Path(algorithms[0]),
            out=out,
            cluster=cluster,
            jobs=jobs,
            dry_run=dry_run,
            fresh=fresh,
            trusted=trusted,
            as_json=as_json,
        )
    _refuse(context, OF_A_FILE, "needs FILE.toml")
    names = tuple(dict.fromkeys(find(name).name for name in algorithms)) or tuple(entries())
    if delay is not None:
        notation.delay(delay)
    check_options(map(find, names), options)
    made = Sweep(names, SeededSetups(sizes(n), delay, crashes, options), seeds, first)
    with progress("sweep", made.planned) as update:
        made.run(jobs_for(len(made.batches()), jobs), update)
    if as_json:
        say_json(made.plain())
    else:
        _say(made)
    return EXIT_OF[made.verdict]


def _refuse(context: click.Context, names: tuple[str, ...], why: str) -> None:
    """Raise UsageError for options that have no effect in this form of the command."""
    for parameter in context.command.params:
        if (
            parameter.name in names
            and context.get_parameter_source(parameter.name) is not ParameterSource.DEFAULT
        ):
            raise click.UsageError(f"{parameter.opts[0]} {why}")


def _say(made: Sweep) -> None:
    heads = [
        "algorithm",
        "runs",
        "entries",
        "crashes",
        "cuts",
        "violated",
        "undecided",
        "violated, not claimed",
    ]
    say_table(heads, [_row(tally, made.setups.crashes) for tally in made.tallies.values()])
    for tally in made.tallies.values():
        _say_failures(tally)
    if made.setups.crashes and (spared := without_crashes(made.algorithms)):
        click.echo(f"\nno crashes were injected, because the card allows none: {', '.join(spared)}")
    if made.broken_off:
        click.echo(
            click.style(
                f"\n{made.broken_off}: only {made.made:,} of {made.planned:,} runs were made",
                fg="yellow",
            )
        )
    violated = sum(tally.violated for tally in made.tallies.values())
    undecided = sum(tally.undecided for tally in made.tallies.values())
    told = [counted(made.made - violated - undecided, "holds", "hold")]
    told += [f"{violated:,} violated"] if violated else []
    told += [f"{undecided:,} undecided"] if undecided else []
    click.echo(
        f"\n{verdict_text(made.verdict)}: {counted(made.made, 'run')},"
        f" {made.made // max(1, len(made.algorithms)):,} of each algorithm; {', '.join(told)}"
    )


def _row(tally: Tally, with_crashes: bool) -> list[str]:
    unclaimed = ", ".join(f"{name} {count:,}" for name, count in sorted(tally.unclaimed.items()))
    faults = (f"{count:,}" for count in (tally.with_crashes, tally.with_cuts))
    counts = [
        f"{tally.runs:,}",
        f"{tally.entries:,}",
        *(faults if with_crashes else ("-", "-")),
        f"{tally.violated:,}",
        f"{tally.undecided:,}",
    ]
    return [tally.algorithm, *counts, unclaimed or "-"]


def _say_failures(tally: Tally) -> None:
    for count, failures, what in (
        (tally.violated, tally.failures, "violated"),
        (tally.undecided, tally.open, "undecided"),
    ):
        if not count:
            continue
        click.echo(
            click.style(
                f"\n{tally.algorithm}: {what} in {count:,} of {tally.runs:,} runs", fg="red"
            )
        )
        for failure in failures[:SHOWN]:
            click.echo(f"  {', '.join(failure.properties)}: {failure.why}"[:240])
            click.echo(f"    {failure.command}")
        if count > SHOWN:
            click.echo(f"  and {count - SHOWN:,} more")
    if tally.never_held:
        click.echo(f"\n{tally.algorithm}: no run decided {', '.join(tally.never_held)}")

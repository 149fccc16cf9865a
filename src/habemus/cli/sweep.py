"""`habemus sweep`: many runs, each by its own seed."""

from __future__ import annotations

import click

from habemus.analysis.draws import Draw
from habemus.analysis.ranges import sizes
from habemus.analysis.sweep import Sweep, Tally, without_crashes
from habemus.analysis.workers import jobs_for
from habemus.catalog import notation
from habemus.catalog.entries import entries, find
from habemus.cli.completion import complete_algorithm
from habemus.cli.output import EXIT_OF, json_option, progress, say_json, verdict_text
from habemus.cli.tables import say_table

SHOWN = 5
"""Failing runs of one algorithm that are printed; --json has more."""


@click.command(epilog="Example: habemus sweep ricart-agrawala maekawa-sanders --seeds 1000 -n 2..6")
@click.argument("algorithms", nargs=-1, shell_complete=complete_algorithm)
@click.option("--seeds", type=click.IntRange(min=1), default=100, show_default=True, help="Runs of each algorithm.")
@click.option("--first", type=click.IntRange(min=0), default=0, show_default=True, help="The first seed.")
@click.option("-n", "n", default="2..6", show_default=True, metavar="N|LOW..HIGH", help="Numbers of participants; they take turns.")
@click.option("--delay", help="Of a message, as in `run`.  [default: several, drawn by the seed]")
@click.option("--crashes", is_flag=True, help="Also crashes and recoveries, as far as the card of the algorithm allows them.")
@click.option("--jobs", type=click.IntRange(min=1), help="Worker processes; they do not change the results.  [default: all cores]")
@json_option
def sweep(
    algorithms: tuple[str, ...], seeds: int, first: int, n: str, delay: str | None, crashes: bool, jobs: int | None, as_json: bool
) -> int:
    """Make many runs and look for one that violates what a card claims.

    A seed decides its run: size, workload, delays and, with --crashes, who crashes when.  Without a name, all algorithms.
    """
    names = tuple(dict.fromkeys(find(name).name for name in algorithms)) or tuple(entries())
    if delay is not None:
        notation.delay(delay)
    made = Sweep(names, Draw(sizes(n), delay, crashes), seeds, first)
    with progress("sweep", made.planned) as update:
        made.run(jobs_for(len(made.pieces()), jobs), update)
    if as_json:
        say_json(made.plain())
    else:
        _say(made)
    return EXIT_OF[made.verdict]


def _say(made: Sweep) -> None:
    heads = ["algorithm", "runs", "entries", "crashes", "violated", "undecided", "violated, not claimed"]
    say_table(heads, [_row(tally, made.draw.crashes) for tally in made.tallies.values()])
    for tally in made.tallies.values():
        _say_failures(tally)
    if made.draw.crashes and (spared := without_crashes(made.algorithms)):
        click.echo(f"\nno crash was drawn for these, whose cards allow none: {', '.join(spared)}")
    if made.broken_off:
        click.echo(
            click.style(f"\n{made.broken_off}: {made.made:,} of {made.planned:,} runs were made; the rest shows nothing", fg="yellow")
        )
    click.echo(f"\n{made.made:,} runs, {made.made // max(1, len(made.algorithms)):,} of each algorithm: {verdict_text(made.verdict)}")


def _row(tally: Tally, with_crashes: bool) -> list[str]:
    unclaimed = ", ".join(f"{name} {count:,}" for name, count in sorted(tally.unclaimed.items()))
    crashes = f"{tally.with_crashes:,}" if with_crashes else "-"
    counts = [f"{tally.runs:,}", f"{tally.entries:,}", crashes, f"{tally.violated:,}", f"{tally.undecided:,}"]
    return [tally.algorithm, *counts, unclaimed or "-"]


def _say_failures(tally: Tally) -> None:
    for count, failures, what in ((tally.violated, tally.failures, "violated"), (tally.undecided, tally.open, "undecided")):
        if not count:
            continue
        click.echo(click.style(f"\n{tally.algorithm}: {what} in {count:,} of {tally.runs:,} runs", fg="red"))
        for failure in failures[:SHOWN]:
            click.echo(f"  {', '.join(failure.properties)}: {failure.why}"[:240])
            click.echo(f"    {failure.command}")
        if count > SHOWN:
            click.echo(f"  and {count - SHOWN:,} more")
    if tally.never_held:
        click.echo(f"\n{tally.algorithm}: no run showed {', '.join(tally.never_held)}")

"""`habemus compare`: costs of algorithms under one workload."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from habemus.analysis.numbers import ranges
from habemus.analysis.numbers.compare import (
    Comparison,
    ComparisonRow,
    Crossing,
    crossings,
    measured_quantities,
    safe_mutexes,
)
from habemus.analysis.sweeps.workers import jobs_for
from habemus.catalog.entries import find
from habemus.cli.commands.completion import complete_algorithm
from habemus.cli.output import (
    Exit,
    folded,
    jobs_option,
    json_option,
    options_option,
    plot_option,
    progress,
    say_json,
)
from habemus.cli.tables import say_table
from habemus.core.words import counted
from habemus.runs.setup import Setup

REPEATS_IN_PLOTS = 5
"""A line through one run of each point would show its noise as if it were the law."""


@click.command(
    epilog="Example: habemus compare ricart-agrawala maekawa-sanders -n 2..20 --plot growth.svg"
)
@click.argument("algorithms", nargs=-1, shell_complete=complete_algorithm)
@click.option(
    "-n",
    "n",
    default="5",
    show_default=True,
    metavar="N|LOW..HIGH",
    help="Number of participants, or a range.",
)
@click.option(
    "--load",
    metavar="L|LOW..HIGH",
    help=("Offered load: the mean think time of a participant is hold * N / load.  [default: 0.5]"),
)
@click.option(
    "--points",
    type=click.IntRange(2, 100),
    default=8,
    show_default=True,
    help="Points measured in a range.",
)
@click.option(
    "--requests", type=int, default=20, show_default=True, help="Requests of each participant."
)
@click.option("--hold", default=Setup.hold, show_default=True, help="Time in the critical section.")
@click.option("--delay", default=Setup.delay, show_default=True, help="Message delay, as in `run`.")
@click.option(
    "--processing",
    default=Setup.processing,
    show_default=True,
    metavar="TIME",
    help="Time that a process needs for each message that it gets.",
)
@click.option(
    "--repeat",
    type=click.IntRange(1, 1000),
    help="Runs of each row, with other seeds; the row is their mean.  [default: 1, with --plot 5]",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="The same seed gives the same numbers."
)
@plot_option("Plot the costs against n or load.")
@jobs_option
@options_option
@json_option
def compare(
    algorithms: tuple[str, ...],
    n: str,
    load: str | None,
    points: int,
    requests: int,
    hold: str,
    delay: str,
    processing: str,
    repeat: int | None,
    seed: int,
    plot: Path | None,
    jobs: int | None,
    options: tuple[str, ...],
    as_json: bool,
) -> int:
    """Measure the cost of an entry for several algorithms under one workload, beside the formulas.

    For elections: the cost of one election.  Without a name: all safe mutual exclusion algorithms.
    """
    names = tuple(dict.fromkeys(find(name).name for name in algorithms)) or safe_mutexes()
    loads = None if load is None else ranges.loads(load)
    comparison = Comparison(
        names,
        ranges.sizes(n),
        loads,
        points,
        requests,
        seed,
        hold,
        delay,
        options,
        processing,
        repeat or (REPEATS_IN_PLOTS if plot is not None else 1),
    )
    comparison.check()
    if plot is not None:
        from habemus.analysis.pictures.plots import check_plot

        check_plot(comparison, plot)
    runs = len(comparison.tasks())
    with progress("compare", runs) as update:
        rows = comparison.measure(jobs_for(runs, jobs), update)
    found = crossings(comparison, rows)
    if plot is not None:
        from habemus.analysis.pictures.plots import save_plot

        save_plot(comparison, rows, plot)
        click.echo(f"saved {plot}", err=True)
    if as_json:
        plain = [row.plain(comparison.quantities) for row in rows]
        say_json(
            {"over": comparison.axis, "rows": plain, "crossings": [each.plain() for each in found]}
        )
    else:
        _say(comparison, rows, found)
    return Exit.FAILED if any(row.broken_claims for row in rows) else Exit.OK


def _say(comparison: Comparison, rows: Sequence[ComparisonRow], found: Sequence[Crossing]) -> None:
    heads, cells = ["algorithm", "n"], [[row.algorithm, str(row.n)] for row in rows]
    if not comparison.is_election:
        heads.append("load")
        for row, line in zip(rows, cells, strict=True):
            line.append(f"{row.load:g}" if row.load is not None else "-")
    for quantity in measured_quantities(comparison):
        heads += [quantity.title] + (["formula"] if quantity.formula else [])
        for row, line in zip(rows, cells, strict=True):
            line.append(_number(row.measured[quantity.name]))
            if quantity.formula:
                line.append(_number(row.formula.get(quantity.formula)))
    say_table(heads, cells)
    for row in rows:
        if row.violated:
            aside = "" if row.broken_claims else " (not claimed)"
            click.echo(
                f"\n{row.algorithm}, {counted(row.n, 'participant')}: {', '.join(row.violated)}"
                f" violated{aside}\n  {row.command}"
            )
    for crossing in found:
        click.echo(f"\n{_crossing(crossing)}")
    what = (
        "one election, called by the first participant"
        if comparison.is_election
        else "one entry without contention"
    )
    units = (
        "\nUnit of delays: message times.  Throughput: entries per message time.  Busiest receives:"
        f" messages per entry.  Formulas: {what}.{_repeats(comparison)}"
    )
    click.echo(click.style(folded(units), dim=True))


def _repeats(comparison: Comparison) -> str:
    return f"  Each row: the mean of {comparison.repeats} runs." if comparison.repeats > 1 else ""


def _crossing(crossing: Crossing) -> str:
    def since(size: int | None) -> str:
        return "nowhere in this range" if size is None else f"from N = {size} on"

    name = f"{crossing.cheaper} needs fewer messages than {crossing.than}"
    known = "3 sqrt(N) = 2(N-1) at N = 4"
    return (
        f"{name}: by the formulas {since(crossing.by_formula)} ({known}), measured"
        f" {since(crossing.measured)}"
    )


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return (
        f"{value:,}"
        if isinstance(value, int)
        else f"{value:,.3f}".rstrip("0").rstrip(".")
        if value < 10
        else f"{value:,.1f}"
    )

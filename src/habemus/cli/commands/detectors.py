"""`habemus detectors`: compare failure detectors on the same delays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from habemus.analysis.numbers.detectors import (
    FAMILIES,
    DetectorQuality,
    Trial,
    cells,
    check,
    measure,
    save_plot,
)
from habemus.analysis.pictures.figures import check_picture
from habemus.analysis.sweeps.workers import cores
from habemus.cli.output import (
    Exit,
    folded,
    jobs_option,
    json_option,
    plot_option,
    progress,
    say_json,
)
from habemus.cli.tables import say_table


@click.command(
    epilog="Example: habemus detectors heartbeat phi-accrual --delay exp:10ms --plot quality.svg"
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "-n",
    "n",
    type=int,
    default=4,
    show_default=True,
    help="Number of processes; each monitors all others.",
)
@click.option("--delay", default="heavy:1ms", show_default=True, help="Message delay, as in `run`.")
@click.option(
    "--loss",
    default="0",
    show_default=True,
    help="Probability that a message is lost, for example 1%.",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Runs of each setting.",
)
@click.option(
    "--crash-at",
    default="10s",
    show_default=True,
    help="Time at which the last process crashes; false suspicions are counted before and after.",
)
@plot_option("Plot one curve for each detector.")
@jobs_option
@json_option
def detectors(
    names: tuple[str, ...],
    n: int,
    delay: str,
    loss: str,
    seeds: int,
    crash_at: str,
    plot: Path | None,
    jobs: int | None,
    as_json: bool,
) -> int:
    """Measure the detection time of failure detectors against their rate of false suspicions.

    Each detector runs with several settings, from short to long timeouts, on the same delays.
    Without a name: all detectors.
    """
    chosen = tuple(check(name).name for name in dict.fromkeys(names)) or tuple(FAMILIES)
    trial = Trial(delay, loss, n, seeds, crash_at)
    trial.check()
    if plot is not None:
        check_picture(plot)
    every = cells(trial, chosen)
    with progress("detectors", len(every)) as update:
        points = measure(every, jobs or cores(), update)
    if plot is not None:
        save_plot(trial, points, plot)
        click.echo(f"saved {plot}", err=True)
    if as_json:
        say_json([point.plain() for point in points])
    else:
        _say(points)
    return Exit.OK


def _say(points: Sequence[DetectorQuality]) -> None:
    heads = ["detector", "setting", "detection ms", "longest ms", "mistakes/h", "duration ms"]
    rows = []
    for point in points:
        longest = max(point.detections, default=None)
        rate = f"{point.mistakes_per_hour:,.0f}" if point.mistakes else f"< {point.least_rate:,.0f}"
        rows.append(
            [
                point.detector,
                point.setting,
                _ms(point.detection_time),
                _ms(longest),
                rate,
                _ms(point.mistake_duration),
            ]
        )
    say_table(heads, rows, left=2)
    for point in points:
        if point.undetected:
            click.echo(
                f"{point.detector} {point.setting}: {point.undetected} of"
                f" {point.undetected + len(point.detections)} did not detect the crash"
            )
    hours = points[0].watched / 3_600_000_000
    rates = (
        "\nA mistake is a false suspicion.  Rates are per hour of one process monitoring another;"
        f" {hours:.2f} such hours were simulated for each setting."
    )
    click.echo(click.style(folded(rates), dim=True))


def _ms(time: float | None) -> str:
    return "-" if time is None else f"{time / 1000:,.1f}"

"""`habemus numbers`: violation probability, timeouts and growth."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from fractions import Fraction
from math import comb
from pathlib import Path

import click

from habemus.analysis.numbers import ranges, timeouts, violation
from habemus.analysis.numbers.compare import safe_mutexes
from habemus.analysis.numbers.detectors import PERIOD
from habemus.analysis.numbers.growth import Growth, Line, lines
from habemus.analysis.numbers.violation import CASES, HOW, Experiment, ViolationQuery, scientific
from habemus.analysis.sweeps.workers import cores, jobs_for
from habemus.catalog.election import ELECTION
from habemus.catalog.entries import find
from habemus.cli.commands.completion import complete_algorithm
from habemus.cli.output import (
    Exit,
    jobs_option,
    json_option,
    plot_option,
    progress,
    say_json,
    text_width,
)
from habemus.cli.tables import say_table

seed_option = click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="The same seed gives the same numbers.",
)


@click.group(no_args_is_help=False, epilog="Example: habemus numbers pv -n 32 -m 24 -p 1e-4")
def numbers() -> None:
    """Compute violation probabilities and timeouts, and measure the growth of costs."""


# Violation probability.


@numbers.command(epilog="Example: habemus numbers pv -n 32 -m 24 -p 1e-4 --simulate 1000")
@click.option("-n", "n", type=int, required=True, help="Number of coordinators.")
@click.option(
    "-m",
    "sizes",
    type=int,
    multiple=True,
    help="Size of a quorum; repeat it for several.  [default: every majority]",
)
@click.option(
    "-p",
    "chances",
    multiple=True,
    required=True,
    help="Probability that a coordinator restarts; repeat it for several.",
)
@click.option(
    "--target",
    metavar="CHANCE",
    help="Find the smallest m whose violation probability is at most this.",
)
@click.option(
    "--simulate",
    "runs",
    type=click.IntRange(1, 10_000_000),
    metavar="RUNS",
    help="Confirm the numbers by simulating RUNS runs of `quorum`.",
)
@click.option(
    "--case",
    type=click.Choice(list(CASES)),
    default="worst",
    show_default=True,
    help="With --simulate and --target: order in which the requests arrived.",
)
@click.option(
    "--how",
    type=click.Choice(HOW),
    default="auto",
    show_default=True,
    help="With --simulate: plain sampling, or importance sampling (weighted).",
)
@seed_option
@plot_option("Save a plot.")
@jobs_option
@json_option
def pv(
    n: int,
    sizes: tuple[int, ...],
    chances: tuple[str, ...],
    target: str | None,
    runs: int | None,
    case: str,
    how: str,
    seed: int,
    plot: Path | None,
    jobs: int | None,
    as_json: bool,
) -> int:
    """Compute how likely restarts of coordinators with volatile memory violate mutual exclusion.

    \b
    worst   any 2m-n of the m that granted A restart: the formula of the notes
    given   the whole intersection of two given quorums restarts: P^(2m-n)
    first   A was first at all n, and any m of them restart
    """
    _check_plot(plot)
    laws = list(dict.fromkeys(violation.chance(text) for text in chances))
    wanted = None if target is None else violation.chance(target, "--target")
    if wanted == 0:
        raise click.UsageError(
            "--target 0: a violation is impossible only with P = 0; give a target above 0"
        )
    if wanted is not None and sizes:
        raise click.UsageError("--target and -m exclude each other: --target finds m")
    answers = (
        [] if wanted is None else [(p, violation.smallest_quorum(n, p, wanted, case)) for p in laws]
    )
    chosen = [(m, p) for p in laws for m in dict.fromkeys(sizes) or violation.quorums(n)]
    if wanted is not None:
        chosen = [(m or n, p) for p, m in answers]
    for m, _ in chosen:
        violation.check_sizes(n, m)
    cells = [ViolationQuery(n, m, p, case) for m, p in chosen]
    made: list[Experiment] = []
    if runs is not None:
        work = violation.batches(cells, runs, how, seed)
        with progress("numbers pv", runs * len(cells)) as update:
            made = violation.experiments(work, jobs_for(len(work), jobs), update)
    if plot is not None:
        from habemus.analysis.numbers.number_plots import save_violation

        save_violation(cells, made, plot)
        click.echo(f"saved {plot}", err=True)
    unmet = any(m is None for _, m in answers)
    contradicted = violation.contradicted(made)
    if as_json:
        by_cell = {each.cell: each.plain() for each in made}
        say_json(
            {
                "rows": [{**cell.plain(), "simulated": by_cell.get(cell)} for cell in cells],
                "target": (
                    None
                    if wanted is None
                    else {"chance": float(wanted), "case": case, "m": [m for _, m in answers]}
                ),
                "contradicted": len(contradicted),
            }
        )
    else:
        _say_chances(cells)
        if wanted is not None:
            _say_answers(n, wanted, answers, case)
        if made:
            _say_experiments(made, contradicted)
    return Exit.FAILED if unmet or contradicted else Exit.OK


def _say_chances(cells: Sequence[ViolationQuery]) -> None:
    heads = ["n", "m", "P", "2m-n", "P_v, any 2m-n of m", "whole intersection", "A first at all"]
    rows = [
        [str(cell.n), str(cell.m), f"{float(cell.p):g}", str(cell.shared)]
        + [scientific(ViolationQuery(cell.n, cell.m, cell.p, case).probability) for case in CASES]
        for cell in cells
    ]
    say_table(heads, rows, left=0)
    if len(cells) == 1:
        click.echo("\n" + textwrap.fill(_difference(cells[0]), text_width(110)))


def _difference(cell: ViolationQuery) -> str:
    """Explain the formula against the probability that one given intersection restarts."""
    n, m, shared = cell.n, cell.m, cell.shared
    whole = scientific(ViolationQuery(n, m, cell.p, "given").probability)
    return (
        f"Two quorums share at least 2m-n = {shared} of the coordinators.  P_v, the formula of the"
        f" notes, is the worst case: A entered by m = {m} grants, the n-m = {n - m} others are free"
        f" for B, and any {shared} of A's {m} that restart let B in.  That a whole intersection"
        f" restarts, {whole}, is the chance for one given quorum of B.  There are C({m}, {shared})"
        f" = {comb(m, shared):,} such intersections, and P_v is the chance that at least one of"
        " them restarts."
    )


def _say_answers(
    n: int, wanted: Fraction, answers: Sequence[tuple[Fraction, int | None]], case: str
) -> None:
    click.echo(f"\nfor a violation probability of at most {scientific(wanted, 2)}, case {case}:")
    for p, m in answers:
        if m is None:
            click.echo(
                f"  P = {float(p):g}: no m is large enough; m = n has"
                f" {scientific(ViolationQuery(n, n, p, case).probability)}"
            )
            continue
        less = (
            ""
            if 2 * (m - 1) <= n
            else f" (m = {m - 1} has {scientific(ViolationQuery(n, m - 1, p, case).probability)})"
        )
        click.echo(
            f"  P = {float(p):g}: m = {m}{less}; then {n - m} of the {n} coordinators may be down"
        )


def _say_experiments(made: Sequence[Experiment], contradicted: Sequence[Experiment]) -> None:
    heads = [
        "how",
        "m",
        "P",
        "runs",
        "violations",
        "theory",
        "estimate",
        "deviation",
        "95% from",
        "to",
        "theory inside",
    ]
    rows = []
    for each in made:
        low, high = each.interval()
        deviation = float(each.variance / each.estimate**2) ** 0.5 if each.estimate else None
        rows.append(
            [
                "plain" if each.is_plain else "weighted",
                str(each.cell.m),
                f"{float(each.cell.p):g}",
                f"{each.runs:,}",
                f"{each.violations:,}",
                scientific(each.cell.probability),
                scientific(each.estimate),
                "-" if deviation is None else f"{deviation:.1%}",
                scientific(low),
                scientific(high),
                "yes" if each.agrees() else "no",
            ]
        )
    click.echo(f"\nsimulated runs of quorum, case {made[0].cell.case}, judged by the ME1 monitor:")
    say_table(heads, rows)
    inside = sum(each.agrees() for each in made)
    click.echo(
        f"\nthe theory lies inside {inside} of {len(made)} intervals (Clopper-Pearson for plain"
        " runs, normal for weighted ones)"
    )
    example = next((each.example for each in made if each.example), "")
    if example and len(example) < 600:
        click.echo(f"a run with a violation:\n  {example}")
    for each in contradicted:
        click.echo(
            click.style(
                f"m = {each.cell.m}, P = {float(each.cell.p):g}: the deviation is significant, the"
                " runs contradict the theory",
                fg="red",
            )
        )


# The timeout.


@numbers.command(
    epilog="Example: habemus numbers timeout --delay heavy:1ms -C 100 -E 1 --plot cost.svg"
)
@click.option(
    "--delays",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File of measured delays, one per line: 1500, 1.5ms.",
)
@click.option(
    "--delay",
    "law",
    metavar="LAW",
    help="Distribution of delays, as in `run`: exp:10ms, heavy:1ms, 500..1500.",
)
@click.option(
    "--live",
    metavar="CLUSTER",
    help="Measure --draws round trips to a node: 127.0.0.1:7400, a socket, a folder.",
)
@click.option(
    "-C",
    "--mistake",
    required=True,
    metavar="COST",
    help="Cost of a mistake, that is of suspecting a process that is only slow.",
)
@click.option(
    "-E", "--waiting", required=True, metavar="COST", help="Cost of waiting for one millisecond."
)
@click.option(
    "--draws",
    type=click.IntRange(2, 1_000_000),
    default=10_000,
    show_default=True,
    help="Number of delays to draw or measure.",
)
@seed_option
@click.option(
    "--detectors/--no-detectors",
    default=True,
    show_default=True,
    help="Also run every failure detector on these delays.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 1_000),
    default=2,
    show_default=True,
    help="Runs of each setting of a detector.",
)
@plot_option("Save a plot.")
@jobs_option
@json_option
def timeout(
    file: Path | None,
    law: str | None,
    live: str | None,
    mistake: str,
    waiting: str,
    draws: int,
    seed: int,
    detectors: bool,
    seeds: int,
    plot: Path | None,
    jobs: int | None,
    as_json: bool,
) -> int:
    """Find the timeout with the least expected cost, E T + C p(T), and compare it with every
    failure detector on the same delays.
    """
    _check_plot(plot)
    if [file, law, live].count(None) != 2:
        raise click.UsageError(
            "give exactly one source of delays: --delays FILE, --delay LAW or --live CLUSTER"
        )
    costs = timeouts.costs(mistake, waiting)
    if live is not None:
        sample = _measured(live, draws)
    else:
        sample = (
            timeouts.of_file(file) if file is not None else timeouts.of_law(law or "", draws, seed)
        )
    best, check = timeouts.cheapest(sample, costs), timeouts.check(sample, costs)
    found: dict[str, list[timeouts.DetectorCost]] = {}
    if detectors:
        with progress("numbers timeout", timeouts.SETTINGS) as update:
            found = timeouts.outcomes(sample, costs, jobs or cores(), seeds, update)
    if plot is not None:
        from habemus.analysis.numbers.number_plots import save_timeouts

        save_timeouts(sample, costs, found, plot)
        click.echo(f"saved {plot}", err=True)
    if as_json:
        say_json(
            {
                "origin": sample.origin,
                "delays": len(sample.delays),
                "mistake_cost": float(costs.mistake),
                "waiting_cost_per_ms": float(costs.waiting),
                **best.plain(),
                "other_half": None if check is None else check.plain(),
                "curve": [each.plain() for each in timeouts.curve(sample, costs)],
                "detectors": {
                    name: [each.plain() for each in outcomes] for name, outcomes in found.items()
                },
            }
        )
    else:
        _say_timeout(sample, best, check)
        if found:
            _say_detectors(timeouts.best_of(found))
    return Exit.OK


def _measured(live: str, count: int) -> timeouts.Sample:
    """Measure round trips from a client to a node."""
    from habemus import Unreachable, connect
    from habemus.client.node_backend import round_trips

    try:
        with connect(live) as cluster, progress("asking the node", count) as update:
            delays = []
            for delay in round_trips(cluster._backend, count):
                delays.append(delay)
                update(len(delays), "")
            return timeouts.Sample(tuple(delays), f"node {cluster.status()['node']}, round trips")
    except Unreachable as reason:
        raise click.ClickException(str(reason)) from None


def _say_timeout(
    sample: timeouts.Sample, best: timeouts.Choice, check: timeouts.CrossValidation | None
) -> None:
    shares = ", ".join(
        f"{name} within {_ms(sample.quantile(share))} ms"
        for name, share in (("half", 0.5), ("99 %", 0.99), ("all", 1.0))
    )
    click.echo(f"{len(sample.delays):,} delays of {sample.origin}: {shares}")
    if best.timeout:
        longer = (
            f"{best.mistakes:,} of {len(sample.delays):,} delays are longer; upper bound"
            f" {best.share_at_most:.2g}"
        )
        cost = f": cost {best.cost:.4g}, probability of a mistake {best.share:.3g} ({longer})"
        click.echo(click.style(f"timeout {_ms(best.timeout)} ms", bold=True) + cost)
    else:
        cost = f": cost {best.cost:.4g}, less than with any timeout"
        click.echo(click.style("do not wait at all", bold=True) + cost)
    if best.timeout and best.timeout == sample.ordered[-1]:
        click.echo(
            "This is the longest delay of the sample; a larger sample may give a longer timeout."
        )
    if check is not None:
        chosen = f"chosen by one half of the delays ({_ms(check.chosen.timeout)} ms)"
        click.echo(
            f"{chosen}, it costs {check.chosen.cost:.4g} on the other half, {check.regret:.1%} more"
            " than the best there"
        )


def _say_detectors(best: Sequence[timeouts.DetectorCost]) -> None:
    click.echo()
    heads = ["detector", "cheapest setting", "detection ms", "mistakes per heartbeat", "cost"]
    rows = [
        [
            each.point.detector,
            each.point.setting,
            (
                "-"
                if each.point.detection_time is None
                else f"{each.point.detection_time / 1000:,.1f}"
            ),
            f"{each.mistakes:.4f}",
            "-" if each.cost is None else f"{each.cost:.4g}",
        ]
        for each in best
    ]
    say_table(heads, rows, left=2)
    period = f"Heartbeats are sent every {PERIOD // 1000} ms"
    click.echo(
        click.style(
            f"\n{period}.  Cost of a detector: E times the detection time plus C times the mistakes"
            " per heartbeat.",
            dim=True,
        )
    )


def _ms(time: int) -> str:
    return f"{time / 1000:,.3f}".rstrip("0").rstrip(".")


# Growth.


@numbers.command(
    epilog="Example: habemus numbers growth ricart-agrawala maekawa -n 4..40 --plot growth.svg"
)
@click.argument("algorithms", nargs=-1, shell_complete=complete_algorithm)
@click.option(
    "-n",
    "n",
    default="4..32",
    show_default=True,
    metavar="LOW..HIGH",
    help="Range of numbers of participants.",
)
@click.option(
    "--points",
    type=click.IntRange(2, 100),
    default=8,
    show_default=True,
    help="Number of sizes to measure.",
)
@click.option(
    "--load",
    metavar="L",
    help=("Offered load, as in `compare`.  [default: no contention]"),
)
@click.option(
    "--requests", type=int, default=1, show_default=True, help="Requests of each participant."
)
@click.option(
    "--repeat",
    type=click.IntRange(1, 1_000),
    help="Runs of each size, averaged.  [default: 10 for elections, else 1]",
)
@click.option("--delay", default="1ms", show_default=True, help="Message delay, as in `run`.")
@seed_option
@plot_option("Save a plot.")
@jobs_option
@json_option
def growth(
    algorithms: tuple[str, ...],
    n: str,
    points: int,
    load: str | None,
    requests: int,
    repeat: int | None,
    delay: str,
    seed: int,
    plot: Path | None,
    jobs: int | None,
    as_json: bool,
) -> int:
    """Measure messages, bytes and delays against the number of participants, and fit a law.

    Without a name: all safe mutual exclusion algorithms.
    """
    names = tuple(dict.fromkeys(find(name).name for name in algorithms)) or safe_mutexes()
    repeats = repeat or (10 if find(names[0]).problem is ELECTION else 1)
    loads = None if load is None else ranges.loads(load)
    compared = Growth(
        names, ranges.sizes(n), loads, points, requests, seed, delay=delay, repeats=repeats
    )
    compared.check()
    _check_plot(plot)
    runs = len(compared.tasks())
    with progress("numbers growth", runs) as update:
        rows = compared.measure(jobs_for(runs, jobs), update)
    found = lines(compared, rows)
    if plot is not None:
        from habemus.analysis.pictures.plots import save_plot

        save_plot(compared, rows, plot, found)
        click.echo(f"saved {plot}", err=True)
    if as_json:
        say_json([line.plain() for line in found])
    else:
        _say_growth(found)
    broken = any(row.broken_claims for row in rows) or (
        compared.must_equal_formula and any(line.furthest_from_formula for line in found)
    )
    return Exit.FAILED if broken else Exit.OK


def _say_growth(found: Sequence[Line]) -> None:
    heads = [
        "algorithm",
        "quantity",
        "law",
        "error",
        "next best",
        "error",
        "largest n",
        "measured",
        "formula",
        "off by",
    ]
    rows = []
    for line in found:
        second = line.fits[1] if len(line.fits) > 1 else None
        off = line.furthest_from_formula
        formula = line.formula[-1]
        rows.append(
            [line.algorithm, line.quantity.title, str(line.best), f"{line.best.error:.1%}"]
            + ([second.law, f"{second.error:.1%}"] if second else ["-", "-"])
            + [
                str(line.sizes[-1]),
                f"{line.measured[-1]:g}",
                "-" if formula is None else f"{formula:g}",
                "-" if off is None else f"{off:.1%}",
            ]
        )
    say_table(heads, rows, left=3)
    click.echo(
        click.style(
            "\nerror: of predicting each size from the others, relative to the mean.\n"
            "log is to base 2, m is the number of links; delays are in message times.",
            dim=True,
        )
    )


def _check_plot(path: Path | None) -> None:
    """Raise an error for a bad suffix before anything is computed."""
    if path is not None:
        from habemus.analysis.pictures.figures import check_picture

        check_picture(path)

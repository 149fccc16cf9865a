"""`habemus torture`: test the guarantees of a lock with real processes and real faults."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from habemus.cli.commands.completion import complete_algorithm
from habemus.cli.output import (
    EXIT_OF,
    FiniteRange,
    json_option,
    option_option,
    progress,
    say_findings,
    say_json,
    verdict_text,
)
from habemus.cli.tables import say_table
from habemus.core.properties import Verdict
from habemus.core.words import counted

if TYPE_CHECKING:
    from habemus.torture.run import TortureReport


@click.command(
    epilog=(
        "Example: habemus torture elected-coordinator-leased --minutes 10 --faults kill,pause,cut"
        " --seed 7"
    )
)
@click.argument("algorithm", shell_complete=complete_algorithm, required=False)
@click.option(
    "--engine",
    metavar="ENGINE",
    help=(
        "In the place of ALGORITHM: local, or real servers of postgresql, redis, redis-volatile,"
        " etcd or zookeeper.  With --nodes 2, postgresql and redis have a replica and fail over."
    ),
)
@click.option(
    "--nodes",
    type=click.IntRange(1, 100),
    help="Number of node processes.  [default: 5; 1 with --engine]",
)
@click.option(
    "--clients",
    type=click.IntRange(2, 100),
    default=4,
    show_default=True,
    help="Number of client processes.",
)
@click.option(
    "--locks",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Number of locks that the clients compete for.",
)
@click.option(
    "--minutes",
    type=FiniteRange(0, 10_000, min_open=True),
    help="Duration.  [default: 1]",
)
@click.option(
    "--hours",
    type=FiniteRange(0, 1_000, min_open=True),
    help="Duration of a soak: resources of the nodes are judged as well, from 10 minutes on.",
)
@click.option(
    "--faults",
    metavar="KIND,...",
    default="",
    help=(
        "kill, stop-node, kill-all, power, pause, cut, close-client, delay, drop, disk, member; or"
        " kill-node, kill-client, kill-majority, power-node, power-all, pause-node, pause-client,"
        " cut-one-way, cut-client, disk-full, disk-cut, disk-garble, disk-lost, member-swap,"
        " member-replace.  [default: those of kill, stop-node, pause, cut and close-client"
        " that the card of the algorithm claims to tolerate]"
    ),
)
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="The same seed gives the same schedule of faults.",
)
@option_option
@click.option(
    "--over",
    metavar="LINKS",
    help="perfect, perfect-fifo or none.  [default: perfect where the card assumes reliable links]",
)
@click.option(
    "--no-fencing",
    is_flag=True,
    help="The referee does not check tokens: it accepts every write.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="Keep histories, logs and report here.  [default: a temporary folder, kept on failure]",
)
@json_option
def torture(
    algorithm: str | None,
    engine: str | None,
    nodes: int | None,
    clients: int,
    locks: int,
    minutes: float | None,
    hours: float | None,
    faults: str,
    seed: int,
    options: tuple[str, ...],
    over: str | None,
    no_fencing: bool,
    folder: Path | None,
    as_json: bool,
) -> int:
    """Test a lock with real nodes and clients under faults, and judge what the clients observed.

    Nodes and clients are killed, paused and partitioned.  A referee outside the cluster knows every
    write.  Ctrl-C ends the test early; the history so far is judged.
    """
    from habemus.cli.commands.node import live

    if minutes is not None and hours is not None:
        raise click.UsageError("give --minutes or --hours, not both")
    seconds = 3_600 * hours if hours is not None else 60 * (1.0 if minutes is None else minutes)
    with live():
        from habemus.torture.plan import BadPlan, plan_of
        from habemus.torture.processes import DidNotStart
        from habemus.torture.run import perform

        common: dict[str, Any] = {
            "clients": clients,
            "seconds": seconds,
            "seed": seed,
            "faults": [word.strip() for word in faults.split(",") if word.strip()],
            "locks": locks,
            "is_fenced": not no_fencing,
        }
        if (algorithm is None) == (engine is None):
            raise click.UsageError("give the name of an algorithm, or --engine; not both")
        if algorithm is not None:
            plan = plan_of(algorithm, nodes=nodes or 5, options=options, over=over, **common)
        elif engine is not None:
            from habemus.torture.engines import engine_plan

            if options or over:
                raise click.UsageError("an engine has no options, and no links under it")
            plan = engine_plan(engine, nodes=nodes, **common)
    for warning in plan.warnings():
        click.echo(f"habemus: {warning}", err=True)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise BadPlan(
                f"--folder {folder} is not empty: old histories would be judged with the new"
                " ones; use an"
                " empty folder"
            )
    place = (
        folder.absolute()
        if folder is not None
        else Path(tempfile.mkdtemp(prefix="habemus-torture-"))
    )
    try:
        with progress("torture", round(seconds)) as update:
            report = perform(plan, place, lambda seconds, beside: update(round(seconds), beside))
    except DidNotStart as reason:
        raise click.ClickException(str(reason)) from None
    if as_json:
        say_json(report.plain())
    else:
        _say(report)
    if folder is None and report.verdict is Verdict.HOLDS:
        shutil.rmtree(place)
    else:
        click.echo(f"histories, logs and report are in {place}", err=True)
    return EXIT_OF[report.verdict]


def _say(report: TortureReport) -> None:
    plan, found = report.plan, report.judgement
    over = f" over {plan.over} links" if plan.over else ""
    click.echo(
        f"{plan.algorithm}{over}, {counted(plan.nodes, 'node')}, {counted(plan.clients, 'client')},"
        f" {found.seconds:.0f} s, seed {plan.seed}\n"
    )
    say_table(
        ("faults", ""),
        [(kind, f"{count:,}") for kind, count in found.faults.items()] or [("none", "0")],
    )
    plain = found.plain()
    after = {
        "first grant after healing": plain["first_grant_after_healing_s"],
        "next grant after the death of a holder": plain["grant_after_death_of_holder_s"],
        "next grant after the death of a leader": plain["grant_after_death_of_leader_s"],
    }
    excused = found.excused.items() if plan.claim.accepts_excuses else ()
    rows = [
        ("grants", f"{found.grants:,}"),
        ("grants per second", f"{plain['grants_per_second']:,}"),
        ("unknown outcomes", f"{found.unknown:,}"),
        ("overlapping holders", f"{len(found.overlaps):,}"),
        *((f"overlapping, excused by {kind}", f"{count:,}") for kind, count in excused),
        ("overlapping without an excuse", f"{len(found.unexcused):,} in {found.judged_s:.0f} s"),
        ("stalls of the machine", f"{found.stalls:,}, {found.stalled_s:.1f} s"),
        ("updates", f"{found.updates:,}"),
        ("stale writes accepted", f"{len(found.stale):,}"),
        ("stale writes refused", f"{found.refused:,}"),
        ("lost updates", f"{len(found.lost):,}"),
        (
            "token regressions",
            (
                f"{len(found.regressions) + len(found.duplicates):,}"
                if plan.claim.has_tokens
                else "no tokens"
            ),
        ),
        (
            "tokens shown but not granted",
            f"{len(found.mismatches):,}" if plan.claim.has_tokens else "no tokens",
        ),
        ("longest outage", f"{found.longest_outage_s:.2f} s"),
        *(
            (f"{what}, {which}", "-" if times[which] is None else f"{times[which]:.3f} s")
            for what, times in after.items()
            for which in ("median", "longest")
        ),
    ]
    click.echo()
    say_table(("observed", ""), rows)
    click.echo()
    say_findings(report.findings, found.uncounted)
    for failure in report.failures:
        click.echo(f"  {failure}")
    click.echo(f"\n{verdict_text(report.verdict)}")

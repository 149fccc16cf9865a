"""`habemus bench`: measure locks with real servers."""

from __future__ import annotations

from typing import Any

import click

from habemus.cli.output import Exit, FiniteRange, json_option, say_json
from habemus.cli.tables import say_table


@click.group(no_args_is_help=False, epilog="Example: habemus bench live --engines")
def bench() -> None:
    """Measure the speed of locks on this machine."""


@bench.command(epilog="Example: habemus bench live --engines --rounds 5 --json")
@click.option(
    "--engines",
    is_flag=True,
    help=(
        "Beside a cluster of habemus: local, PostgreSQL, Redis, etcd and ZooKeeper, each with a"
        " server of its own, if it is installed."
    ),
)
@click.option(
    "--only",
    metavar="NAME,...",
    default="",
    help="Some of them: habemus, local, postgresql, redis, etcd, zookeeper.",
)
@click.option(
    "--nodes",
    type=click.Choice(["1", "3"]),
    default="1",
    show_default=True,
    help="Number of nodes of habemus, and of servers of etcd and ZooKeeper.",
)
@click.option(
    "--seconds",
    type=FiniteRange(0, 3_600, min_open=True),
    default=1.0,
    show_default=True,
    help="Length of each measurement.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 1_000),
    default=3,
    show_default=True,
    help="Number of rounds; the medians are printed.",
)
@click.option(
    "--sync", "syncs", is_flag=True, help="Nodes and servers sync what they store to the disk."
)
@json_option
def live(
    engines: bool, only: str, nodes: str, seconds: float, rounds: int, syncs: bool, as_json: bool
) -> int:
    """Measure locks under the same API: cycles, hand-overs, waits and fail-over.

    All servers are started with their data in a temporary folder, and take turns.
    """
    from habemus.cli.commands.node import live as with_live

    with with_live():
        from habemus.bench.live import ENGINES, OWN, BenchFailed, LiveBench
    names = [OWN, *ENGINES] if engines else [OWN]
    if only:
        names = [word.strip() for word in only.split(",") if word.strip()]
        unknown = [name for name in names if name not in (OWN, *ENGINES)]
        if unknown:
            raise click.UsageError(f"unknown {unknown[0]!r}; use {', '.join((OWN, *ENGINES))}")
    made = LiveBench(names, int(nodes), seconds, rounds, syncs=syncs)
    try:
        made.run(lambda what: click.echo(f"habemus: {what}", err=True))
    except BenchFailed as reason:
        raise click.ClickException(str(reason)) from None
    results = {name: found.plain() for name, found in made.results.items()}
    if as_json:
        say_json({"nodes": int(nodes), "synced": syncs, "systems": results, "absent": made.absent})
    else:
        _say(results, made.absent)
    return Exit.OK if results else Exit.FAILED


def _say(results: dict[str, dict[str, Any]], absent: dict[str, str]) -> None:
    heads = (
        "",
        "cycles/s",
        "p99",
        "by hand",
        "overhead",
        "cpu",
        "hand-overs/s",
        "wait p99",
        "fail-over",
    )
    rows = [
        (
            name,
            _number(found["cycles_per_second"], "{:,.0f}"),
            _number(found["cycle_p99_us"], "{:,.0f} us"),
            _number(found["by_hand_cycles_per_second"], "{:,.0f}/s"),
            _spread(found["overhead_percent"], found["overhead_quartiles_percent"]),
            _spread(found["cpu_overhead_percent"], found["cpu_overhead_quartiles_percent"]),
            _number(found["handovers_per_second"], "{:,.0f}"),
            _number(found["wait_p99_us"], "{:,.0f} us"),
            _number(found["failover_s"], "{:.4f} s"),
        )
        for name, found in results.items()
    ]
    say_table(heads, rows)
    local, redis = results.get("local"), results.get("redis-py")
    if local and redis:
        times = local["cycles_per_second"] / redis["cycles_per_second"]
        click.echo(f"\nA free local lock is {times:.1f} times as fast as the lock of redis-py.")
    if local and local["by_hand_failover_s"]:
        times = local["failover_s"] / local["by_hand_failover_s"]
        flock = local["by_hand_failover_s"] * 1_000
        click.echo(f"Its fail-over takes {times:.1f} times that of flock(2), {flock:.2f} ms.")
    for name, why in absent.items():
        click.echo(f"{name} was not measured: {why}")


def _spread(value: float | None, quartiles: list[float] | None) -> str:
    if value is None or quartiles is None:
        return ""
    return "{:+.0f} % ({:+.0f} to {:+.0f})".format(value, *quartiles)


def _number(value: float | None, text: str) -> str:
    return "" if value is None else text.format(value)

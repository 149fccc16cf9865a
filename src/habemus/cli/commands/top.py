"""`habemus top`: the locks of a cluster that are held longest and wanted most, live."""

from __future__ import annotations

import json
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import click

from habemus.cli.commands.lock import cluster_options
from habemus.cli.output import Exit, FiniteRange, json_option, say_json
from habemus.cli.tables import say_table
from habemus.core.words import counted
from habemus.fencing.tokens import token_text
from habemus.operations.cluster_view import (
    ClusterView,
    LockView,
    in_term,
    longest_wait_ms,
    shown_name,
    shown_time,
)

HEADS = ("lock", "holder", "node", "token", "held for", "waiting", "longest wait", "next")
FIXED_ROWS = 6
"""Lines of the terminal that are not rows of locks."""
ORDERS: dict[str, Callable[[LockView], Any]] = {
    "waiting": lambda lock: (-len(lock.waiting), -longest_wait_ms(lock), shown_name(lock)),
    "wait": lambda lock: (-longest_wait_ms(lock), shown_name(lock)),
    "held": lambda lock: (-(lock.held_ms or 0), shown_name(lock)),
    "name": shown_name,
}


@click.command(epilog="Example: habemus top --sort held --once")
@cluster_options
@click.option(
    "--sort",
    type=click.Choice(list(ORDERS)),
    default="waiting",
    show_default=True,
    help="First the locks with most waiting clients, the longest wait, or the longest hold.",
)
@click.option(
    "--rows",
    type=click.IntRange(1, 100_000),
    help="Most locks that are shown.  [default: as many as fit; 20 with --once]",
)
@click.option(
    "--interval",
    type=FiniteRange(0.1, 3_600),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two refreshes.",
)
@click.option("--once", is_flag=True, help="Print once and exit; also if stdout is not a terminal.")
@json_option
def top(
    cluster: str | None,
    sort: str,
    rows: int | None,
    interval: float,
    once: bool,
    as_json: bool,
    **credential_files: str | None,
) -> int:
    """Show who holds which lock, who waits, and for how long, until q or Ctrl-C.

    Any other key refreshes at once.

    With --json: one document with --once, else one line per refresh.
    """
    from habemus.operations.node_survey import survey_cluster

    survey = survey_cluster(cluster, **credential_files)
    try:
        if once or not (as_json or sys.stdout.isatty()):
            seen = survey.look()
            shown = sorted(seen.locks, key=ORDERS[sort])[: rows or 20]
            if as_json:
                say_json(plain(seen, shown))
            else:
                say(seen, shown)
            return Exit.OK if seen.is_well else Exit.FAILED
        show = _print_line if as_json else _screen()
        with _keyboard() as quits_within:
            while True:
                seen = survey.look()
                show(seen, sorted(seen.locks, key=ORDERS[sort]), rows)
                if quits_within(interval):
                    return Exit.OK
    except KeyboardInterrupt:
        return Exit.OK
    finally:
        survey.close()


def plain(seen: ClusterView, locks: list[LockView]) -> dict[str, Any]:
    """Return what is shown as one document."""
    election = seen.election
    return {
        "cluster": seen.cluster,
        "nodes": len(seen.nodes),
        "up": sum(node.up for node in seen.nodes),
        "leader": election and election.leader,
        "term": election and election.term,
        "members": None if seen.members is None else asdict(seen.members),
        "clients": sum(node.clients for node in seen.nodes),
        "held": sum(lock.holder is not None for lock in seen.locks),
        "waiting": sum(len(lock.waiting) for lock in seen.locks),
        "troubles": list(seen.troubles()),
        "locks": [{**asdict(lock), "longest_wait_ms": longest_wait_ms(lock)} for lock in locks],
    }


def heading(seen: ClusterView) -> str:
    """Return the state of the cluster in one line."""
    found = plain(seen, [])
    leads = (
        "no leader"
        if found["leader"] is None
        else f"leader is node {found['leader']}{in_term(found['term'])}"
    )
    return (
        f"cluster {seen.cluster}: {found['up']} of {found['nodes']} nodes up"
        f"{f'; {leads}' if seen.election else ''}"
        f"{f'; {seen.members}' if seen.members else ''}; {counted(found['clients'], 'client')},"
        f" {counted(found['held'], 'lock')} held, {counted(found['waiting'], 'request')} waiting"
    )


def row_of(lock: LockView) -> list[str]:
    waited = longest_wait_ms(lock)
    return [
        shown_name(lock),
        lock.holder or "-",
        "-" if lock.node is None else str(lock.node),
        "-" if lock.token is None else token_text(lock.token),
        "-" if lock.held_ms is None else shown_time(lock.held_ms),
        str(len(lock.waiting)),
        shown_time(waited) if lock.waiting else "-",
        lock.waiting[0].client if lock.waiting else "-",
    ]


def say(seen: ClusterView, locks: list[LockView]) -> None:
    """Print the state as plain text."""
    click.echo(heading(seen))
    for trouble in seen.troubles():
        click.echo(trouble)
    if not locks:
        click.echo("no lock is held or requested")
        return
    say_table(HEADS, [row_of(lock) for lock in locks], left=len(HEADS))
    hidden = len(seen.locks) - len(locks)
    if hidden:
        click.echo(f"and {hidden:,} more")


def _print_line(seen: ClusterView, locks: list[LockView], rows: int | None) -> None:
    click.echo(json.dumps(plain(seen, locks[: rows or len(locks)]), ensure_ascii=False))


def _never_quits_within(seconds: float) -> bool:
    time.sleep(seconds)
    return False


@contextmanager
def _keyboard() -> Iterator[Callable[[float], bool]]:
    """Yield a function that waits for seconds or for a key, and returns whether the key was q."""
    if not sys.stdin.isatty():
        yield _never_quits_within
        return
    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)

    def quits_within(seconds: float) -> bool:
        typed, _, _ = select.select([file], [], [], seconds)
        return bool(typed) and b"q" in os.read(file, 1_024).lower()

    tty.setcbreak(file)  # Ctrl-C is a signal as before
    try:
        yield quits_within
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)


def _screen() -> Callable[[ClusterView, list[LockView], int | None], None]:
    """Return a function that shows a look on the whole terminal."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    console = Console()
    live = Live(console=console, screen=True, auto_refresh=False)
    live.start()
    click.get_current_context().call_on_close(live.stop)

    def show(seen: ClusterView, locks: list[LockView], rows: int | None) -> None:
        troubles = [Text(trouble, style="red") for trouble in seen.troubles()]
        room = max(1, console.size.height - FIXED_ROWS - len(troubles))
        table = Table(*HEADS, box=None, pad_edge=False, header_style="bold")
        for lock in locks[: min(rows or room, room)]:
            cells = [Text(cell, overflow="ellipsis") for cell in row_of(lock)]
            table.add_row(*cells, style="yellow" if lock.waiting else "")
        hidden = len(locks) - table.row_count
        more = [Text(f"and {hidden:,} more")] if hidden else []
        line = Text(heading(seen), style="bold")
        live.update(Group(line, *troubles, Text(), table, *more), refresh=True)

    return show

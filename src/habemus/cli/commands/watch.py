"""`habemus watch`: print the holder of a lock, or the leader, on every change."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from habemus.cli.commands.lock import cluster_options, service_option
from habemus.cli.output import Exit, json_option
from habemus.fencing.tokens import token_text
from habemus.runtimes.live.clients.protocol import ELECTIONS

if TYPE_CHECKING:
    from habemus.client.backend import LockState


@click.command(epilog="Example: habemus watch scheduler --election --json")
@click.argument("name")
@click.option("--election", is_flag=True, help="NAME is an election (`habemus lead`), not a lock.")
@click.option(
    "--changes",
    type=click.IntRange(1),
    metavar="N",
    help="Exit after N lines.  [default: run until Ctrl-C]",
)
@cluster_options
@service_option
@json_option
def watch(
    name: str,
    election: bool,
    changes: int | None,
    cluster: str | None,
    service: str,
    as_json: bool,
    **credential_files: str | None,
) -> int:
    """Print the holder of the lock NAME: one line now, and one for every change, until Ctrl-C.

    In a cluster of `habemus up --algorithm bully`, or with another election: the node that leads.
    With --json: one document per line.

    The lines are for observation only.  They may be late, and short holds may be missing: do not
    decide by them whether a lock is held.
    """
    from habemus.client.blocking import Cluster
    from habemus.client.credentials import Credentials
    from habemus.supervise.elected_node import election_service

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # a signal is the normal end of this command
    with Cluster(cluster, Credentials.of_files(**credential_files)) as here:
        elected = election_service(here.status().get("services", {}), service)
        standings: Iterator[LockState] = here.watch(
            ELECTIONS + name if election and elected is None else name,
            service=elected or service,
        )
        election = election or elected is not None
        for count, standing in enumerate(standings, 1):
            click.echo(_line(name, election, standing, as_json))
            if count == changes:
                break
    return Exit.OK


def _line(name: str, election: bool, standing: LockState, as_json: bool) -> str:
    if as_json:
        return json.dumps(
            {"name": name, "election": election, **standing._asdict()}, ensure_ascii=False
        )
    if standing.holder is None:
        held = "no leader" if election else "free"
    else:
        number = (
            ""
            if not standing.token
            else f", {'term' if election else 'token'} {token_text(standing.token)}"
        )
        is_plain = standing.node is None or standing.holder == f"node {standing.node}"
        place = "" if is_plain else f" at node {standing.node}"
        held = f"{'led' if election else 'held'} by {standing.holder}{place}{number}"
    return f"{name}: {held}{f'; {standing.waiting} waiting' if standing.waiting else ''}"

"""`habemus lead`: run a command while this client is the leader."""

from __future__ import annotations

from typing import Any

import click

from habemus.cli.commands.lock import holding_options, lock_request
from habemus.supervise.locked_command import hold


@click.command(epilog="Example: habemus lead scheduler -- ./scheduler")
@click.option(
    "--node",
    type=click.IntRange(1),
    metavar="N",
    help="With a service of elections: lead while node N does.  [default: the first that answers]",
)
@holding_options
def lead(node: int | None, **given: Any) -> int:
    """Wait until this client leads the election NAME, run COMMAND, and exit with its exit code.

    The environment of COMMAND has the fencing token in HABEMUS_TOKEN, a number that grows with
    every new leader, and in HABEMUS_TERM, as people write it: 2.3 is the third grant of term 2.
    Compare HABEMUS_TOKEN, not HABEMUS_TERM.  If the leadership is lost, COMMAND and all processes
    that it started are terminated before the lease expires.  Exit codes are those of
    `habemus lock`.

    In a cluster of `habemus up --algorithm bully`, or with another election, nodes are elected.
    COMMAND runs while the node of this client leads, and is terminated when that node names
    another leader.  HABEMUS_TERM is set if the election has terms.
    """
    from habemus.supervise.node_connections import finder

    request = lock_request(leads=True, **given)
    return hold(request, finder(request, node))

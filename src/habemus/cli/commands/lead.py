"""`habemus lead`: its help.  `habemus.cli.lock_arguments` reads its arguments."""

from __future__ import annotations

from typing import Any

import click

from habemus.cli.commands.lock import options
from habemus.cli.lock_arguments import EXAMPLES, OPTIONS


@click.command(epilog=EXAMPLES["lead"])
@options(*OPTIONS["lead"])
@click.argument("name")
@click.argument("command", nargs=-1, required=True)
def lead(**_: Any) -> None:
    """Wait until this client leads the election NAME, run COMMAND, and exit with its exit code.

    The environment of COMMAND has the fencing token in HABEMUS_TOKEN, a number that grows with
    every new leader, and in HABEMUS_TERM, as people write it: 2.3 is the third grant of term 2.
    Compare HABEMUS_TOKEN, not HABEMUS_TERM.  If the leadership is lost, COMMAND and all processes
    that it started are terminated before the lease expires.  Options and exit codes are those of
    `habemus lock`.

    In a cluster of `habemus up --algorithm bully`, or with another election, nodes are elected.
    COMMAND runs while the node of this client leads, and is terminated when that node names
    another leader.  HABEMUS_TERM is set if the election has terms.
    """

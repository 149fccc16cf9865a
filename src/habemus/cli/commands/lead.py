"""`habemus lead`: run a command while this client is the leader."""

from __future__ import annotations

from typing import Any

import click

from habemus.cli.commands.lock import held, holding_options, lock_request


@click.command(epilog="Example: habemus lead scheduler -- ./scheduler")
@holding_options
def lead(**given: Any) -> int:
    """Wait until this client leads the election NAME, run COMMAND, and exit with its exit code.

    The environment of COMMAND has the term in HABEMUS_TERM.  The term grows with every new leader
    and is the fencing token as well (HABEMUS_TOKEN).  If the leadership is lost, COMMAND and all
    processes that it started are terminated before another client can lead.  Exit codes are those
    of `habemus lock`.
    """
    return held(lock_request(leads=True, **given))

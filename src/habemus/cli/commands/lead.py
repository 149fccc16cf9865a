"""`habemus lead`: runs a command while this client leads."""

from __future__ import annotations

from typing import Any

import click

from habemus.cli.commands.lock import held, holding_options, wish_of


@click.command(epilog="Example: habemus lead scheduler -- ./scheduler")
@holding_options
def lead(**given: Any) -> int:
    """Run COMMAND once this client leads the election NAME, and leave with its exit code.

    The command finds its term, which grows with every new leader, in HABEMUS_TERM; it is the
    fencing token as well (HABEMUS_TOKEN).  If the leadership is lost the command is ended, with
    everything that it has started, before anybody else can lead.  Exit codes are those of `habemus
    lock`.
    """
    return held(wish_of(leads=True, **given))

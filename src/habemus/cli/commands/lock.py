"""`habemus lock`: its help, and the options that other commands have in common with it.

`habemus.cli.lock_arguments` reads its arguments, so that it starts fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from habemus.cli.lock_arguments import (
    CLUSTER,
    CREDENTIALS,
    EXAMPLES,
    FLAG,
    OPTIONS,
    SERVICE,
    Option,
)
from habemus.runtimes.live.clients.protocol import LOCKS

Command = TypeVar("Command", bound=Callable[..., Any])


def _option(option: Option) -> Callable[[Command], Command]:
    more: dict[str, Any] = {"metavar": option.value, "type": str}
    if option.value == FLAG:
        more = {"is_flag": True}
    elif option in CREDENTIALS:
        more |= {"envvar": f"HABEMUS_{option.name.upper()}", "show_envvar": True}
    elif option is SERVICE:
        more |= {"default": LOCKS, "show_default": True}
    return click.option(option.flag, help=option.help, **more)


def options(*given: Option) -> Callable[[Command], Command]:
    """Return one decorator that adds several options."""

    def add(command: Command) -> Command:
        for each in reversed(given):
            command = _option(each)(command)
        return command

    return add


cluster_options = options(CLUSTER, *CREDENTIALS)
"""Address of the cluster, and the credentials of this client."""
service_option = options(SERVICE)


@click.command(epilog=EXAMPLES["lock"])
@options(*OPTIONS["lock"])
@click.argument("name")
@click.argument("command", nargs=-1, required=True)
def lock(**_: Any) -> None:
    """Acquire the lock NAME, run COMMAND, release the lock, and exit with COMMAND's exit code.

    Options end at the first word of COMMAND: what follows belongs to COMMAND.

    The environment of COMMAND has the fencing token in HABEMUS_TOKEN and the name of the lock in
    HABEMUS_LOCK.  If the lock is lost, COMMAND and all processes that it started are terminated,
    before the lease expires.  A resource that checks the token is safe even if this machine is
    paused, or a network closes the connection of a client that lives.

    \b
    Other exit codes:
      123  the lock was lost            126  COMMAND cannot be executed
      124  timed out                    127  COMMAND not found
      125  no node can be reached       128+n  COMMAND was killed by signal n
    """

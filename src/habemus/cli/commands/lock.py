"""`habemus lock`: runs a command while a lock is held.  The plain form of it goes a shorter way
(`habemus.cli.quick_lock`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from habemus.cli.output import FiniteRange
from habemus.runtimes.live.clients.protocol import LOCKS, lock_name
from habemus.supervise.locked_command import LockRequest, hold

Command = TypeVar("Command", bound=Callable[..., Any])

MOST_SECONDS = 10**8

PAPERS = {
    "ca": "Certificate of the cluster's authority, for nodes that are reached over the network.",
    "certificate": "This client's certificate.",
    "key": "The key of that certificate.",
    "secret-file": "The cluster's secret.",
}


def options(*given: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return one decorator that stands for several options."""

    def add(command: Command) -> Command:
        for each in reversed(given):
            command = each(command)
        return command

    return add


cluster_options = options(
    click.option(
        "--cluster",
        metavar="WHERE",
        help=(
            "Addresses of nodes, a socket, a cluster.toml or the folder of `habemus up`; else"
            " HABEMUS_CLUSTER, .habemus/ or the last one."
        ),
    ),
    *(
        click.option(
            f"--{name}",
            envvar=f"HABEMUS_{name.replace('-', '_').upper()}",
            show_envvar=True,
            metavar="FILE",
            help=text,
        )
        for name, text in PAPERS.items()
    ),
)
"""Where the cluster is, and the files that show it who this client is."""
service_option = click.option(
    "--service",
    default=LOCKS,
    show_default=True,
    help="Which locks, if the cluster has several kinds.",
)


holding_options = options(
    click.option(
        "--timeout",
        type=FiniteRange(0, MOST_SECONDS),
        metavar="SECONDS",
        help="How long to wait; else for ever.",
    ),
    click.option("--try", "tries", is_flag=True, help="Do not wait at all."),
    click.option(
        "--lease",
        type=FiniteRange(0, MOST_SECONDS, min_open=True),
        metavar="SECONDS",
        help=(
            "How long the lock stays with a client that is not heard of; not longer than the"
            " cluster's own."
        ),
    ),
    cluster_options,
    service_option,
    click.argument("name"),
    click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED),
)
"""What `lock` and `lead` have in common."""


def wish_of(
    name: str,
    command: tuple[str, ...],
    timeout: float | None,
    tries: bool,
    leads: bool,
    **more: Any,
) -> LockRequest:
    if tries and timeout is not None:
        raise click.UsageError("--try does not wait, so it has no --timeout")
    if not leads:
        try:
            lock_name(name)
        except ValueError as reason:
            raise click.UsageError(str(reason)) from None
    papers = {name.replace("-", "_"): more.pop(name.replace("-", "_")) for name in PAPERS}
    said = {name: file for name, file in papers.items() if file}
    return LockRequest(
        name, command, leads=leads, timeout=0.0 if tries else timeout, papers=said, **more
    )


def held(request: LockRequest) -> int:
    from habemus.supervise.node_connections import NodeFinder, quoted

    return hold(request, NodeFinder(request.cluster, request.papers), quoted)


@click.command(epilog="Example: habemus lock nightly-report --timeout 60 -- ./report.sh --all")
@holding_options
def lock(**given: Any) -> int:
    """Run COMMAND while the lock NAME is held, and leave with its exit code.

    The command finds the fencing token in HABEMUS_TOKEN, and the name of the lock in HABEMUS_LOCK.
    If the lock is lost it is ended, with everything that it has started, before anybody else can
    get it.

    \b
    Other exit codes:
      123  the lock was lost            126  COMMAND cannot be executed
      124  timed out                     127  there is no such COMMAND
      125  no node can be reached       128+n  COMMAND was ended by signal n
    """
    return held(wish_of(leads=False, **given))

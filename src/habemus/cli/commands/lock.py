"""`habemus lock`: run a command while a lock is held.

`habemus.cli.quick_lock` handles the plain form without importing click.
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

CREDENTIALS = {
    "ca": "CA certificate of the cluster, for nodes reached over the network.",
    "certificate": "This client's certificate.",
    "key": "Private key of that certificate.",
    "secret-file": "File with the cluster secret.",
}


def options(*given: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return one decorator that adds several options."""

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
            "Node addresses (HOST:PORT,...), a socket, a cluster.toml, the folder of `habemus up`,"
            " `local`, or the URL of an engine."
            "  [default: HABEMUS_CLUSTER, then .habemus/, then the last cluster of `habemus up`]"
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
        for name, text in CREDENTIALS.items()
    ),
)
"""Address of the cluster, and the credentials of this client."""
service_option = click.option(
    "--service",
    default=LOCKS,
    show_default=True,
    help="Lock service of the cluster, if it has several.",
)


holding_options = options(
    click.option(
        "--timeout",
        type=FiniteRange(0, MOST_SECONDS),
        metavar="SECONDS",
        help="Wait at most this long.  [default: no limit]",
    ),
    click.option("--try", "tries", is_flag=True, help="Do not wait: fail if the lock is not free."),
    click.option(
        "--lease",
        type=FiniteRange(0, MOST_SECONDS, min_open=True),
        metavar="SECONDS",
        help=(
            "Lease of the lock: it expires when the cluster has not heard from this client for so"
            " long.  [default and maximum: the lease of the cluster]"
        ),
    ),
    cluster_options,
    service_option,
    click.argument("name"),
    click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED),
)
"""Options that `lock` and `lead` share."""


def lock_request(
    name: str,
    command: tuple[str, ...],
    timeout: float | None,
    tries: bool,
    leads: bool,
    **more: Any,
) -> LockRequest:
    if tries and timeout is not None:
        raise click.UsageError("--try and --timeout exclude each other: --try does not wait")
    if not leads:
        try:
            lock_name(name)
        except ValueError as reason:
            raise click.UsageError(str(reason)) from None
    credential_files = {
        name.replace("-", "_"): more.pop(name.replace("-", "_")) for name in CREDENTIALS
    }
    given = {name: file for name, file in credential_files.items() if file}
    return LockRequest(
        name,
        command,
        leads=leads,
        timeout=0.0 if tries else timeout,
        credential_files=given,
        **more,
    )


def held(request: LockRequest) -> int:
    from habemus.supervise.node_connections import finder

    return hold(request, finder(request))


@click.command(epilog="Example: habemus lock nightly-report --timeout 60 -- ./report.sh --all")
@holding_options
def lock(**given: Any) -> int:
    """Acquire the lock NAME, run COMMAND, release the lock, and exit with COMMAND's exit code.

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
    return held(lock_request(leads=False, **given))

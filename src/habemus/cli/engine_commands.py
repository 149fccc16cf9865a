"""`habemus status` and `habemus release` for engines, which have no nodes."""

from __future__ import annotations

import os

import click

from habemus.cli.output import Exit, say_json
from habemus.cli.tables import say_table
from habemus.fencing.tokens import token_text

HEADS = ("lock", "holder", "token", "waiting")


def is_engine_named(cluster: str | None) -> bool:
    """Return whether --cluster or HABEMUS_CLUSTER names an engine."""
    from habemus.client.engines import is_engine

    try:
        return is_engine(os.environ.get("HABEMUS_CLUSTER") if cluster is None else cluster)
    except ValueError as reason:
        raise click.UsageError(str(reason)) from None


def say_engine(
    name: str | None,
    cluster: str | None,
    service: str,
    as_json: bool,
    credential_files: dict[str, str | None],
) -> int:
    """Show the locks of an engine, or one of them; return the exit code."""
    from habemus.client.blocking import Cluster
    from habemus.client.credentials import Credentials

    with Cluster(cluster, Credentials.of_files(**credential_files)) as here:
        seen = here.status()
    if name is not None:
        wanted = (service, name)
        found = [each for each in seen["locks"] if (each["service"], each["name"]) == wanted]
        free = {"service": service, "name": name, "holder": None, "token": None, "waiting": 0}
        seen["locks"] = found or [free]
    if as_json:
        say_json(seen)
        return Exit.OK
    click.echo(seen["engine"])
    rows = [
        [
            each["name"],
            each["holder"] or "-",
            "-" if each["token"] is None else token_text(each["token"]),
            str(each["waiting"]),
        ]
        for each in seen["locks"]
    ]
    if rows:
        say_table(HEADS, rows, left=len(HEADS))
    else:
        click.echo("no lock is held or requested")
    return Exit.OK


def release_at_engine(
    name: str,
    cluster: str | None,
    service: str,
    as_json: bool,
    credential_files: dict[str, str | None],
) -> int:
    """Revoke a lock of an engine; return the exit code."""
    from habemus.client.blocking import Cluster
    from habemus.client.credentials import Credentials

    with Cluster(cluster, Credentials.of_files(**credential_files)) as here:
        taken = here.force(name, service=service)["taken"]
    if as_json:
        say_json({"name": name, "lost": [] if taken is None else [{"client": taken}]})
    else:
        click.echo(f"{name}: not held" if taken is None else f"{name}: revoked from {taken}")
    return Exit.FAILED if taken is None else Exit.OK

"""`habemus doctor`: check a cluster, and the machine of a node, for what will break them."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import click

from habemus.cli.commands.lock import cluster_options
from habemus.cli.output import Exit, hanging, json_option, say_json

COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


@click.command(epilog="Example: habemus doctor --config cluster.toml --id 2")
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    help="The cluster.toml of a node on this machine: check its disk and certificates too.",
)
@click.option("--id", "number", type=int, help="The node on this machine.  [default: all]")
@cluster_options
@json_option
def doctor(
    file: Path | None,
    number: int | None,
    cluster: str | None,
    as_json: bool,
    **credential_files: str | None,
) -> int:
    """Check nodes, quorum, leader, versions and clocks of a cluster; with --config also the disk,
    the certificates and the clock of this machine.

    \b
    Exit codes:
      0  no problem; there may be warnings
      1  a problem
      2  usage error
    """
    from habemus.cli.commands.node import live

    with live():
        from habemus.client.errors import Unreachable
        from habemus.operations import checkup
        from habemus.operations.node_survey import survey_cluster
        from habemus.runtimes.live.config import load

        checks: list[checkup.HealthCheck] = []
        if file is not None:
            config = load(file, os.environ, {})
            if number is not None and number not in config.nodes:
                raise click.UsageError(f"{file} has no node {number}")
            checks += checkup.check_machine(config, number, datetime.now(UTC))
        elif number is not None:
            raise click.UsageError("--id needs --config")
        try:
            survey = survey_cluster(
                cluster or (None if file is None else str(file)), **credential_files
            )
        except Unreachable as reason:
            checks.append(checkup.HealthCheck("nodes", checkup.PROBLEM, str(reason)))
        else:
            checks += checkup.check_cluster(checkup.ask_nodes(survey))
            survey.close()
    if as_json:
        say_json(checkup.plain(checks))
    else:
        for check in checks:
            level = click.style(f"{check.level:8}", fg=COLOURS[check.level])
            click.echo(hanging(f"{level} {check.name:12} ", check.text))
    return Exit.OK if checkup.is_healthy(checks) else Exit.FAILED

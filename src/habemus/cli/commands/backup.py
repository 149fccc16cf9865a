"""`habemus backup`: what a new cluster needs to continue the tokens of this one."""

from __future__ import annotations

from pathlib import Path

import click

from habemus.cli.commands.lock import cluster_options
from habemus.cli.output import Exit, json_option, say_json


@click.command(epilog="Example: habemus backup office.backup --cluster cluster.toml")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@cluster_options
@json_option
def backup(file: Path, cluster: str | None, as_json: bool, **credential_files: str | None) -> int:
    """Write a backup of a running cluster to FILE.

    It contains the largest term, so that the fencing tokens of a restored cluster are larger than
    all earlier ones.  It contains no secrets and no locks: after `habemus restore` all locks are
    free.

    \b
    Exit codes:
      0  written      1  the cluster has no leader      125  no node answers
    """
    from habemus.operations.backup import Backup, BadBackup
    from habemus.operations.node_survey import survey_cluster

    survey = survey_cluster(cluster, **credential_files)
    seen = survey.look()
    survey.close()
    try:
        made = Backup.of(seen)
        made.write(file)
    except BadBackup as reason:
        raise click.ClickException(str(reason)) from None
    if as_json:
        say_json(made.plain())
    else:
        click.echo(f"cluster {made.cluster}, term {made.term}: written to {file}")
    return Exit.OK

"""`habemus restore`: the data folders of a new cluster that continues a lost one."""

from __future__ import annotations

import os
from pathlib import Path

import click

from habemus.cli.commands.node import live
from habemus.cli.output import Exit, json_option, say_json


@click.command(epilog="Example: habemus restore office.backup --config cluster.toml")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    envvar="HABEMUS_CONFIG",
    required=True,
    help="The cluster.toml of the new cluster.",
)
@click.option(
    "--id",
    "numbers",
    type=int,
    multiple=True,
    help="Restore this node only; repeat it.  [default: all nodes of the file]",
)
@click.option(
    "--data", metavar="FOLDER", help="Folder of stable memory; each node has a folder in it."
)
@json_option
def restore(
    file: Path, config: Path, numbers: tuple[int, ...], data: str | None, as_json: bool
) -> int:
    """Write the data folders of a cluster whose nodes have all lost theirs, from a backup.

    Stop every node of the old cluster first: its clients would go on with smaller tokens.  All
    locks are free then.  Restore every node, each on its own machine or all here, and start them.
    If only some nodes have lost their data, do not restore: start these with `habemus node
    --replace`.
    """
    with live():
        from habemus.operations.backup import Backup, BadBackup
        from habemus.operations.backup import restore as write
        from habemus.runtimes.live.config import load
        from habemus.runtimes.live.storage.log import StorageFailed

        found = load(config, os.environ, {"data": data and str(Path(data).absolute())})

    try:
        kept = Backup.read(file)
        folders = write(kept, found, numbers or sorted(found.nodes))
    except (BadBackup, StorageFailed, ValueError) as reason:
        raise click.ClickException(str(reason)) from None
    if as_json:
        say_json({"term": kept.first_term, "folders": [str(folder) for folder in folders]})
    else:
        click.echo(f"terms go on from {kept.first_term} (the backup of {kept.taken}: {kept.term})")
        for folder in folders:
            click.echo(f"restored {folder}")
    return Exit.OK

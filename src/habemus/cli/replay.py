"""`habemus replay`: runs a saved trace again and compares the digests."""

from __future__ import annotations

from pathlib import Path

import click

from habemus.catalog.runs import replayed
from habemus.cli.output import Exit, json_option, say_json


@click.command(epilog="Example: habemus run central --diagram run.json && habemus replay run.json")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
def replay(file: Path, as_json: bool) -> int:
    """Run the saved trace FILE again; it must give the same events."""
    from habemus.traces import digest
    from habemus.traces.file import read

    trace = read(file)
    saved = digest(trace.events)
    report = replayed(trace)
    same = report.digest == saved
    if as_json:
        say_json({"file": str(file), "digest": report.digest, "saved": saved, "same": same, "events": len(trace.events)})
    elif same:
        click.echo(f"same: {len(trace.events):,} events, digest {saved}")
    else:
        click.echo(f"different: the file has digest {saved}, the run now gives {report.digest}")
    return Exit.AS_WANTED if same else Exit.NOT_AS_WANTED

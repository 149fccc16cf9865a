"""`habemus new`: write a template of an algorithm and its test."""

from __future__ import annotations

from pathlib import Path

import click

from habemus.cli.output import json_option, say_json

PROBLEMS = ("mutex", "election", "detector")


@click.command(epilog="Example: habemus new mutex my_lock && habemus check my_lock.py:MyLock -n 3")
@click.argument("problem", type=click.Choice(PROBLEMS))
@click.argument("name")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Folder to write to.  [default: the current one]",
)
@json_option
def new(problem: str, name: str, folder: Path, as_json: bool) -> None:
    """Write NAME.py, a small working algorithm to start from, and test_NAME.py, its tests."""
    from habemus.testing.scaffold import class_name, scaffold

    written = scaffold(problem, name, folder)
    algorithm = f"{written[0]}:{class_name(name)}"
    what_next = [
        f"habemus run {algorithm} -n 3",
        *([f"habemus check {algorithm} -n 3"] if problem != "detector" else []),
        f"pytest {written[1]}",
    ]
    if as_json:
        say_json(
            {
                "problem": problem,
                "algorithm": algorithm,
                "files": list(map(str, written)),
                "next": what_next,
            }
        )
        return
    for path in written:
        click.echo(f"wrote {path}")
    click.echo("\nnext:")
    for line in what_next:
        click.echo(f"  {line}")

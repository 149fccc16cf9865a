"""`habemus new`: the first version of your own algorithm."""

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
    help="Where to write.  [default: here]",
)
@json_option
def new(problem: str, name: str, folder: Path, as_json: bool) -> None:
    """Write NAME.py, a small algorithm that works and is there to be changed, and test_NAME.py,
    which holds it to what it must keep.
    """
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
    click.echo("\nnow:")
    for line in what_next:
        click.echo(f"  {line}")

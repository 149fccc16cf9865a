"""`habemus faults`: effect of a crash of each role."""

from __future__ import annotations

import re
from pathlib import Path

import click

from habemus.analysis.cards.crashes import (
    BLOCKED,
    GO_ON,
    ROLES,
    SOME_WAIT,
    TWO_INSIDE,
    WORDS,
    CrashCell,
    cells,
    check,
    mutexes,
)
from habemus.catalog.entries import find
from habemus.cli.commands.completion import complete_algorithm
from habemus.cli.output import Exit, folded, json_option, options_option, progress, say_json
from habemus.cli.tables import say_table
from habemus.runs.options import check_options, options_for

_COLOURS = {GO_ON: "green", SOME_WAIT: "yellow", BLOCKED: "yellow", TWO_INSIDE: "red"}
_HEADS = {
    "holder": "inside",
    "center": "coordinator / token",
    "waiting": "waiting",
    "bystander": "bystander",
}


@click.command(epilog="Example: habemus faults central ricart-agrawala --diagrams faults")
@click.argument("algorithms", nargs=-1, shell_complete=complete_algorithm)
@click.option(
    "--recover", is_flag=True, help="The crashed process recovers with its stable memory."
)
@click.option(
    "--diagrams",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Save a diagram of every run.",
)
@options_option
@json_option
def faults(
    algorithms: tuple[str, ...],
    recover: bool,
    diagrams: Path | None,
    options: tuple[str, ...],
    as_json: bool,
) -> int:
    """Crash each role in turn and show what the other processes do.

    Roles: the process in the critical section, the coordinator or owner of the token, a waiting
    process, and one that does not request.  Without a name: all mutual exclusion algorithms.
    """
    chosen = [find(name) for name in dict.fromkeys(algorithms)] or [
        find(name) for name in mutexes()
    ]
    for entry in chosen:
        check(entry)
    check_options(chosen, options)
    table: dict[str, dict[str, CrashCell]] = {}
    with progress("faults", len(chosen)) as update:
        for done, entry in enumerate(chosen):
            update(done, entry.name)
            table[entry.name] = {
                cell.role: cell for cell in cells(entry, recover, options_for(entry, options))
            }
    every = [cell for row in table.values() for cell in row.values()]
    if diagrams is not None:
        _save(every, diagrams)
    if as_json:
        say_json([cell.plain() for cell in every])
    else:
        _say(table, every)
    return Exit.OK


def _save(every: list[CrashCell], folder: Path) -> None:
    from habemus.traces.export import save

    folder.mkdir(parents=True, exist_ok=True)
    for cell in every:
        # The name of a user's own algorithm is a path.
        save(
            cell.trace,
            folder / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', cell.algorithm)}-{cell.role}.svg",
        )
    click.echo(f"saved {len(every)} diagrams in {folder}", err=True)


def _say(table: dict[str, dict[str, CrashCell]], every: list[CrashCell]) -> None:
    heads = ["algorithm", *(_HEADS[role] for role in ROLES)]
    rows = [
        [name, *(_word(row[role]) if role in row else "-" for role in ROLES)]
        for name, row in table.items()
    ]
    say_table(heads, rows, left=len(heads))
    click.echo()
    for word, meaning in WORDS.items():
        if any(cell.others == word for cell in every):
            click.echo(f"{word}: {meaning}")
    if len(table) > 3:
        click.echo("\nTo see the run of each cell, name the algorithms.")
        return
    for cell in every:
        click.echo(
            f"\n{click.style(cell.algorithm, bold=True)}, {cell.title} ({cell.process}) crashes:"
            f" {_word(cell)}"
        )
        verdicts = [f"{name} {verdict}" for name, verdict in cell.properties.items()]
        click.echo(folded(f"  {', '.join(verdicts)}", "    "))
        click.echo(folded(f"  {cell.why}", "    "))
        click.echo(f"  {cell.command}")


def _word(cell: CrashCell) -> str:
    return click.style(cell.others, fg=_COLOURS[cell.others])

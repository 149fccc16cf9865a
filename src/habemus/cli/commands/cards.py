"""`habemus cards`: what each algorithm guarantees under which faults, found out anew."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from habemus.analysis.cards.search import (
    SHOWN,
    SYNCHRONOUS,
    Row,
    Shown,
    claims,
    contradictions,
    grounds,
    make,
    page,
    problems_of,
    properties_of,
    rows_of,
    tasks_of,
)
from habemus.analysis.cards.table import MARKS, MODELS, UNTIMED, Card, Cell, text_of
from habemus.analysis.cards.table import cards as stored_cards
from habemus.analysis.sweeps.workers import jobs_for
from habemus.catalog.entries import entries, find
from habemus.cli.commands.completion import complete_algorithm
from habemus.cli.output import COLOURS, Exit, json_option, progress, say_json

EVIDENCE_OF = 3
"""So many algorithms are told with what their cells rest on; for more that would be too long."""


@click.command(epilog="Example: habemus cards central ricart-agrawala")
@click.argument("algorithms", nargs=-1, shell_complete=complete_algorithm)
@click.option(
    "--stored", is_flag=True, help="Show the cards that were made last, without searching."
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="How many searches side by side.  [default: as many as there are cores]",
)
@click.option("--markdown", is_flag=True, help="As a page of Markdown, with the evidence.")
@click.option(
    "--store",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Keep them for the catalog.",
)
@json_option
def cards(
    algorithms: tuple[str, ...],
    stored: bool,
    jobs: int | None,
    markdown: bool,
    store: Path | None,
    as_json: bool,
) -> int:
    """Search each algorithm under each kind of fault, and say which properties hold.

    Each cell is backed by a search within a stated bound, or by a scenario.  Without a name, all
    algorithms: that takes minutes.
    """
    if markdown and as_json:
        raise click.UsageError("choose one of --markdown and --json")
    names = list(dict.fromkeys(find(name).name for name in algorithms)) or list(entries())
    made = _stored(names) if stored else _made(names, jobs)
    if store is not None:
        store.write_text(text_of(made), encoding="utf-8")
        click.echo(f"saved {store}", err=True)
    wrong = [(card, *each) for card in made for each in contradictions(card)]
    if as_json:
        say_json(
            {
                "rows": [row for card in made for row in card.rows()],
                "contradictions": [card.row(place, cell) for card, place, cell in wrong],
            }
        )
    elif markdown:
        click.echo(page(made), nl=False)
    else:
        _say(made)
    for card, (timing, model, name), cell in wrong:
        where = f"{model}, {timing}" if timing else model
        told = f"{card.algorithm} claims {name}, which is violated ({where}): {card.command(cell)}"
        click.echo(click.style(told, fg="red"), err=as_json or markdown)
    return Exit.NOT_AS_WANTED if wrong else Exit.AS_WANTED


def _stored(names: list[str]) -> list[Card]:
    known = stored_cards()
    lacking = [name for name in names if name not in known]
    if lacking:
        raise click.UsageError(f"no card of {lacking[0]} is stored; make it without --stored")
    return [known[name] for name in names]


def _made(names: list[str], jobs: int | None) -> list[Card]:
    planned = sum(len(tasks_of(find(name))) for name in names)
    with progress("cards", planned) as update:
        return make(names, shown_by_scenarios(names), jobs_for(planned, jobs), update)


def shown_by_scenarios(names: Iterable[str]) -> list[Shown]:
    """The scenarios that cells of these algorithms rest on, each run once more."""
    from habemus.scenarios import find as find_scenario

    wanted = set(names)
    shown = []
    for name in SHOWN:
        scenario = find_scenario(name)
        if scenario.setup.algorithm in wanted:
            outcome = scenario.run()
            if not outcome.as_expected:
                raise click.ClickException(
                    f"scenario {name} no longer comes out as expected: {outcome.verdict}"
                )
            shown.append(Shown(name, scenario.setup.algorithm, scenario.violates))
    return shown


def _say(made: list[Card]) -> None:
    for problem, of_it in problems_of(made).items():
        for name, says in properties_of(problem, of_it).items():
            click.echo(click.style(f"{name}: {says}", bold=True))
            _say_matrix(rows_of(of_it, name), name)
            click.echo()
    click.echo("✔ holds in every state within the bound, of which n is the number of participants.")
    click.echo("✘ a run is known that violates it.  ? undecided, which says nothing.")
    click.echo(
        "* claimed by the algorithm, under its own assumptions.  Pauses and delays are no fault:"
        " every cell is about them as well."
    )
    if len(made) > EVIDENCE_OF:
        click.echo("Name algorithms to see what each cell rests on.")
        return
    for card in made:
        _say_evidence(card)


def _say_matrix(rows: list[Row], name: str) -> None:
    models = [model.name for model in MODELS if any(model.name in row.cells for row in rows)]
    labels = [_label(row, name) for row in rows]
    width = max(len("algorithm"), *map(len, labels))
    columns = {model: max(len(model), len("? undecided n=3")) for model in models}
    heads = ["algorithm".ljust(width), *(model.ljust(columns[model]) for model in models)]
    click.echo(click.style(f"  {'  '.join(heads).rstrip()}", bold=True))
    for row, label in zip(rows, labels, strict=True):
        cells = [_in_colour(row.card, row.cells.get(model), columns[model]) for model in models]
        click.echo(f"  {label:{width}}  {'  '.join(cells).rstrip()}")


def _label(row: Row, name: str) -> str:
    short = {UNTIMED: "", SYNCHRONOUS: ", in time"}.get(row.timing, ", any time")
    return f"{row.card.algorithm}{short}{' *' if claims(find(row.card.algorithm), name) else ''}"


def _in_colour(card: Card, cell: Cell | None, width: int) -> str:
    if cell is None:
        return "-".ljust(width)
    word = " ".join(filter(None, [MARKS[cell.verdict], cell.verdict.value, card.size(cell)]))
    return click.style(word, fg=COLOURS[cell.verdict]) + " " * (width - len(word))


def _say_evidence(card: Card) -> None:
    click.echo(f"\n{click.style(card.algorithm, bold=True)}")
    for ground in grounds(card):
        click.echo(f"  {ground.faults}: {'; '.join(ground.verdicts)}")
        click.echo(f"    {ground.bound}" if ground.bound else "", nl=bool(ground.bound))
        click.echo(f"    {ground.command}" if ground.command else "", nl=bool(ground.command))

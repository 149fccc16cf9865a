"""`habemus cards`: guarantees of each algorithm under each fault model."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from habemus.analysis.cards.bounds import EVENTUAL, SYNCHRONOUS
from habemus.analysis.cards.search import (
    CardRow,
    Shown,
    contradictions,
    grounds,
    make,
    outdated,
    page,
    problems_of,
    properties_of,
    rows_of,
    tasks_of,
)
from habemus.analysis.cards.table import MODELS, UNTIMED, Card, Cell, text_of
from habemus.analysis.cards.table import cards as stored_cards
from habemus.analysis.sweeps.workers import jobs_for
from habemus.catalog.entries import entries, find
from habemus.cli.commands.completion import complete_algorithm
from habemus.cli.output import (
    COLOURS,
    Exit,
    folded,
    json_option,
    options_option,
    progress,
    say_json,
)
from habemus.cli.output import columns as terminal_columns
from habemus.cli.tables import blocks
from habemus.core.properties import Verdict
from habemus.runs.options import check_options

EVIDENCE_OF = 3
"""Print the evidence of cells for at most so many algorithms."""


@click.command(epilog="Example: habemus cards central ricart-agrawala")
@click.argument("algorithms", nargs=-1, shell_complete=complete_algorithm)
@click.option("--stored", is_flag=True, help="Show the stored cards; do not search.")
@click.option(
    "--update",
    is_flag=True,
    help="Search only algorithms whose code or bounds have changed since their card was stored.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="Searches in parallel.  [default: all cores]",
)
@click.option("--markdown", is_flag=True, help="Print a Markdown page with the evidence.")
@click.option(
    "--store",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Store the cards in FILE, for the catalog.",
)
@options_option
@json_option
def cards(
    algorithms: tuple[str, ...],
    stored: bool,
    update: bool,
    jobs: int | None,
    markdown: bool,
    store: Path | None,
    options: tuple[str, ...],
    as_json: bool,
) -> int:
    """Search each algorithm under each fault model and say which properties hold.

    Each cell is backed by a search within a stated bound, or by a scenario.  Without a name: all
    algorithms, which takes minutes.
    """
    if markdown and as_json:
        raise click.UsageError("--markdown and --json exclude each other")
    if stored and update:
        raise click.UsageError("--stored and --update exclude each other")
    names = list(dict.fromkeys(find(name).name for name in algorithms)) or list(entries())
    if options and (stored or update or store):
        raise click.UsageError(
            "--option excludes --stored, --update and --store: cards are of the defaults"
        )
    check_options(map(find, names), options)
    known = stored_cards()
    kept = [
        name
        for name in names
        if stored or (update and name in known and not outdated(known[name], find(name)))
    ]
    anew = [name for name in names if name not in kept]
    cards_of = {card.algorithm: card for card in [*_stored(kept), *_made(anew, jobs, options)]}
    made = [cards_of[name] for name in names]
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
        line = f"{card.algorithm} claims {name}, which is violated ({where}): {card.command(cell)}"
        click.echo(click.style(line, fg="red"), err=as_json or markdown)
    return Exit.FAILED if wrong else Exit.OK


def _stored(names: list[str]) -> list[Card]:
    known = stored_cards()
    lacking = [name for name in names if name not in known]
    if lacking:
        raise click.UsageError(
            f"--stored: there is no stored card of {lacking[0]}; omit --stored to make it"
        )
    return [known[name] for name in names]


def _made(names: list[str], jobs: int | None, options: tuple[str, ...]) -> list[Card]:
    if not names:
        return []
    planned = sum(len(tasks_of(find(name))) for name in names)
    with progress("cards", planned) as update:
        # The scenarios show the defaults.
        shown = [] if options else shown_by_scenarios(names)
        return make(names, shown, jobs_for(planned, jobs), update, options)


def shown_by_scenarios(names: Iterable[str]) -> list[Shown]:
    """Run the scenarios that are evidence for cells of these algorithms."""
    from habemus.scenarios import scenarios

    wanted = set(names)
    shown = []
    for scenario in scenarios().values():
        if scenario.shows and scenario.setup.algorithm in wanted:
            outcome = scenario.run()
            if not outcome.as_expected:
                raise click.ClickException(
                    f"scenario {scenario.name} has an unexpected outcome: {outcome.verdict}"
                )
            shown.append(
                Shown(scenario.name, scenario.setup.algorithm, scenario.shows, scenario.violates)
            )
    return shown


def _say(made: list[Card]) -> None:
    for problem, of_it in problems_of(made).items():
        for name, says in properties_of(problem, of_it).items():
            click.echo(click.style(folded(f"{name}: {says}"), bold=True))
            _say_matrix(rows_of(of_it, name), name)
            click.echo()
    click.echo("✔ holds in every state within the bound; n: participants, + coordinators.")
    click.echo("✘ violated by a known run.  ? undecided.  n/a: a search cannot ask.")
    if any(cell.verdict is Verdict.ALMOST_SURELY for card in made for cell in card.cells.values()):
        click.echo("≈ holds unless random draws fail for ever.")
    claimed = (
        "* claimed by the algorithm under its assumptions.  Pauses and delays are not faults: every"
        " cell includes them."
    )
    click.echo(folded(claimed))
    if len(made) > EVIDENCE_OF:
        click.echo("To see the evidence of each cell, name the algorithms.")
        return
    for card in made:
        _say_evidence(card)


def _say_matrix(rows: list[CardRow], name: str) -> None:
    models = [model.name for model in MODELS if any(model.name in row.cells for row in rows)]
    labels = [_label(row, name) for row in rows]
    width = max(len("algorithm"), *map(len, labels))
    words = {model: [_word(row.card, row.cells.get(model)) for row in rows] for model in models}
    usual = len("n/a not applicable")
    columns = {model: max(len(model), usual, *map(len, words[model])) for model in models}
    for block in blocks([width + 2, *columns.values()], terminal_columns()):
        shown = [models[column - 1] for column in block[1:]]
        heads = ["algorithm".ljust(width), *(model.ljust(columns[model]) for model in shown)]
        click.echo(click.style(f"  {'  '.join(heads).rstrip()}", bold=True))
        for row, label in zip(rows, labels, strict=True):
            cells = [_in_colour(row.card, row.cells.get(model), columns[model]) for model in shown]
            click.echo(f"  {label:{width}}  {'  '.join(cells).rstrip()}")


def _label(row: CardRow, name: str) -> str:
    short = {UNTIMED: "", SYNCHRONOUS: ", in time", EVENTUAL: ", in time at last"}.get(
        row.timing, ", any time"
    )
    return f"{row.card.algorithm}{short}{' *' if find(row.card.algorithm).claims(name) else ''}"


def _in_colour(card: Card, cell: Cell | None, width: int) -> str:
    word = _word(card, cell)
    colour = None if cell is None or cell.verdict is None else COLOURS[cell.verdict]
    return (click.style(word, fg=colour) if cell else word) + " " * (width - len(word))


def _word(card: Card, cell: Cell | None) -> str:
    return " ".join(filter(None, [cell.mark, cell.word, card.size(cell)])) if cell else "-"


def _say_evidence(card: Card) -> None:
    click.echo(f"\n{click.style(card.algorithm, bold=True)}")
    for ground in grounds(card):
        click.echo(f"  {ground.faults}: {'; '.join(ground.verdicts)}")
        bound = folded(f"    {ground.bound}", "      ") if ground.bound else ""
        click.echo(bound, nl=bool(bound))
        click.echo(f"    {ground.command}" if ground.command else "", nl=bool(ground.command))

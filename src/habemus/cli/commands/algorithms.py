"""`habemus algorithms`: list the catalog, or show one card."""

from __future__ import annotations

import textwrap
from pathlib import Path

import click

from habemus.analysis.cards.table import Card, cards
from habemus.catalog.entries import SECTIONS, Entry, entries, find
from habemus.cli.commands.completion import complete_algorithm
from habemus.cli.output import COLOURS, columns, folded, hanging, json_option, say_json, text_width


@click.command(
    epilog=(
        "Example: habemus algorithms ricart-agrawala, or: habemus algorithms maekawa --sets 13"
        " --diagram sets.svg"
    )
)
@click.argument("name", required=False, shell_complete=complete_algorithm)
@click.option(
    "--sets",
    type=int,
    metavar="N",
    help="Show the voting sets of the algorithm for N participants.",
)
@click.option(
    "--how",
    type=click.Choice(["grid", "plane", "majority"]),
    help="Construction of the voting sets.  [default: that of the algorithm]",
)
@click.option(
    "--diagram",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.svg|.png",
    help="Draw the voting sets.",
)
@json_option
def algorithms(
    name: str | None, sets: int | None, how: str | None, diagram: Path | None, as_json: bool
) -> None:
    """List the algorithms, or show the card or the voting sets of one."""
    if sets is not None:
        if name is None:
            raise click.UsageError("--sets needs the name of an algorithm, for example maekawa")
        _say_sets(find(name), sets, how, diagram, as_json)
        return
    if how or diagram:
        raise click.UsageError("--how and --diagram need --sets N")
    if name is None:
        known = entries()
        if as_json:
            say_json([entry.plain() for entry in known.values()])
            return
        for problem in dict.fromkeys(entry.problem.name for entry in known.values()):
            _say_list([entry for entry in known.values() if entry.problem.name == problem])
        return
    entry = find(name)
    card = cards().get(entry.name)
    if as_json:
        say_json({**entry.plain(), "guarantees": card.rows() if card else []})
    else:
        _say_card(entry)
        if card is not None:
            _say_guarantees(card)


def _say_sets(
    entry: Entry, size: int, how: str | None, diagram: Path | None, as_json: bool
) -> None:
    from habemus.analysis.pictures.voting import in_words, voting_of

    voting = voting_of(entry, size, how)
    if diagram is not None:
        from habemus.analysis.pictures.voting_picture import save

        save(voting, diagram)
        click.echo(f"saved {diagram}", err=True)
    if as_json:
        say_json({"algorithm": entry.name, **voting.plain()})
    elif diagram is None:
        click.echo(in_words(voting))
    else:
        click.echo("\n".join([voting.title(), *(f"  {remark}" for remark in voting.remarks())]))


def _say_list(listed: list[Entry]) -> None:
    click.echo(click.style(listed[0].problem.title, bold=True))
    width = max(len(entry.name) for entry in listed)
    for entry in listed:
        unsafe = "  unsafe" if entry.unsafe else ""
        shown = hanging(f"  {entry.name:{width}}  ", f"{entry.box.title.rstrip('.')}{unsafe}")
        if unsafe:
            shown = shown.removesuffix("unsafe") + click.style("unsafe", fg="red")
        click.echo(shown)


def _say_card(entry: Entry) -> None:
    click.echo(hanging(click.style(entry.name, bold=True), f"  {entry.box.title}"))
    for paragraph in filter(None, entry.box.idea.split("\n\n")):
        click.echo("\n" + textwrap.fill(paragraph, text_width()))
    click.echo()
    sections = {
        section: entry.box.sections[section]
        for section in SECTIONS
        if section in entry.box.sections
    }
    if entry.unsafe:
        sections["Unsafe"] = f"to see a violation: habemus scenario {entry.unsafe}"
    if entry.options:
        sections["Options"] = ", ".join(
            f"{option}={default}" for option, default in entry.options.items()
        )
    for section, text in sections.items():
        wrapped = textwrap.fill(
            text, text_width(), initial_indent=f"{section:9}", subsequent_indent=" " * 9
        )
        click.echo(click.style(wrapped[:9], bold=True) + wrapped[9:])


def _say_guarantees(card: Card) -> None:
    """Print the verdicts of the stored card, one fault model per line."""
    click.echo(
        "\n"
        + hanging(
            click.style("Under these faults", bold=True),
            f" (evidence: habemus cards {card.algorithm} --stored)",
        )
    )
    width = max(len(model) for model in card.models)
    for timing in card.timings:
        if timing:
            click.echo(f"  {timing}")
        for model in card.models:
            bounds: dict[str, list[str]] = {}
            for (each, one, name), cell in card.cells.items():
                if (each, one) == (timing, model):
                    colour = None if cell.verdict is None else COLOURS[cell.verdict]
                    verdict = click.style(f"{cell.mark} {name}", fg=colour)
                    bounds.setdefault(card.bound(cell), []).append(verdict)
            heads = [model, *[""] * len(bounds)]
            for head, (bound, verdicts) in zip(heads, bounds.items(), strict=False):
                line = f"  {head:{width}}  {'  '.join(verdicts)}"
                if bound and len(click.unstyle(line)) + 3 + len(bound) > columns():
                    indent = " " * (width + 4)
                    click.echo(line)
                    click.echo(folded(f"{indent}{bound}", indent))
                else:
                    click.echo(f"{line}   {bound}" if bound else line)
    click.echo("  ✔ holds  ✘ violated  ? undecided  n/a not applicable")

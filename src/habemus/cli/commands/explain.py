"""`habemus explain`: a property, a fault model or a word in one or two sentences."""

from __future__ import annotations

from textwrap import fill

import click

from habemus.analysis.glossary import FAULT_MODEL, PROPERTY, WORD, GlossaryTerm, glossary
from habemus.analysis.glossary import explain as terms_of
from habemus.cli.output import Exit, json_option, say_json, text_width

_TITLES = {PROPERTY: "Properties", FAULT_MODEL: "Fault models", WORD: "Words"}


@click.command(epilog="Example: habemus explain ME1")
@click.argument("name", nargs=-1)
@json_option
def explain(name: tuple[str, ...], as_json: bool) -> int:
    """Explain a property, a fault model or a word; without a name, all of them."""
    terms = terms_of(" ".join(name)) if name else list(glossary().values())
    if as_json:
        say_json([term._asdict() for term in terms])
        return Exit.OK
    width = max(len(term.name) for term in terms)
    for kind, title in _TITLES.items():
        of_kind = [term for term in terms if term.kind == kind]
        if of_kind and not name:
            click.echo(click.style(f"{title}", bold=True))
        for term in of_kind:
            click.echo(_entry(term, width, indent="" if name else "  "))
        if of_kind and not name:
            click.echo()
    return Exit.OK


def _entry(term: GlossaryTerm, width: int, indent: str) -> str:
    """Return the name and the text beside it, wrapped to the terminal."""
    head = f"{indent}{term.name:{width}}  "
    filled = fill(term.text, text_width(), initial_indent=head, subsequent_indent=" " * len(head))
    return filled.replace(term.name, click.style(term.name, bold=True), 1)

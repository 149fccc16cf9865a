"""`habemus completion`: print the completion script of a shell."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem, get_completion_class


@click.command(epilog='Example: eval "$(habemus completion bash)"')
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell."""
    from habemus.cli.app import habemus

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(habemus, {}, "habemus", "_HABEMUS_COMPLETE").source())


def complete_algorithm(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from habemus.catalog.entries import entries

    return [
        CompletionItem(name, help=entry.box.title)
        for name, entry in entries().items()
        if name.startswith(incomplete)
    ]


def complete_scenario(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from habemus.scenarios import scenarios

    return [
        CompletionItem(name, help=each.title)
        for name, each in scenarios().items()
        if name.startswith(incomplete)
    ]

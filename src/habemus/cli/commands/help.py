"""`habemus help`: show all commands, or the help of one."""

from __future__ import annotations

import click


@click.command(epilog="Example: habemus help member add")
@click.argument("command", nargs=-1)
def help(command: tuple[str, ...]) -> int:
    """Show all commands, or the help of COMMAND."""
    from habemus.cli.app import run_command

    return run_command([*command, "--help"])

"""The group of all commands.  Errors become one line and an exit code here, nowhere else."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, NoReturn

import click

from habemus.argument_names import FLAGS
from habemus.cli.output import Exit
from habemus.core.words import did_you_mean

SECTIONS = {
    "Locks and leaders": {
        "up": "Start a cluster on this machine",
        "lock": "Run a command while it holds a lock",
        "lead": "Run a command while it leads an election",
        "status": "Show the nodes and locks of a cluster",
        "top": "Show who holds which lock and who waits, live",
        "watch": "Print each change of the holder of a lock",
        "release": "Take a lock from its holder",
        "elect": "Call an election of the nodes",
    },
    "Operation of a cluster": {
        "node": "Run one node",
        "member": "Add, remove and replace nodes of a running cluster",
        "doctor": "Check nodes, quorum, leader, versions, clocks and disks",
        "config": "Check a cluster.toml",
        "certs": "Create a CA and the certificates of the nodes",
        "backup": "Write a backup of a running cluster",
        "restore": "Write the data folders of a stopped cluster from a backup",
        "torture": "Test a lock with real nodes and clients under faults",
        "bench": "Measure the speed of locks on this machine",
        "trace": "Merge and judge the records of live nodes",
    },
    "Algorithms": {
        "algorithms": "List the algorithms, or show one",
        "scenario": "List runs with a known outcome, or run one",
        "run": "Simulate one run and judge it",
        "check": "Search every interleaving within a bound",
        "lab": "Watch a run in the browser, step it, break it, fork it",
        "replay": "Execute a saved trace again, and compare",
        "new": "Write an algorithm to start from, and its test",
        "explain": "Explain a property, a fault model or a word",
    },
    "Many runs": {
        "compare": "Measure what an entry or an election costs",
        "faults": "Crash each role in turn, and show the effect",
        "cards": "Search each algorithm under each fault model",
        "detectors": "Compare the speed and the mistakes of failure detectors",
        "numbers": "Violation probabilities, timeouts, laws of growth",
        "sweep": "Simulate many seeded runs, and report violations",
        "report": "Render the results of a sweep as one HTML page",
    },
    "Others": {
        "printer": "The printer of the printing system",
        "print": "A client of the printing system",
        "completion": "Print the completion script for a shell",
    },
}
"""Commands and their summaries.  A command is imported when it is called."""
COMMANDS = [name for section in SECTIONS.values() for name in section]

PLAIN_WORDS = {
    "is not a valid integer range.": "is not a whole number",
    "is not a valid integer.": "is not a whole number",
    "is not a valid float range.": "is not a number",
    "is not a valid float.": "is not a number",
}
"""Words of click about values, and plain ones."""


class _Group(click.Group):
    """Import a command only when it is called, so that each command starts fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return COMMANDS

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = "print_" if cmd_name == "print" else cmd_name  # do not shadow the builtin
        command = getattr(importlib.import_module(f"habemus.cli.commands.{name}"), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            hint = did_you_mean(args[0], COMMANDS, "habemus --help lists all")
            raise click.UsageError(f"unknown command {args[0]!r}; {hint}") from None


def _print_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        from habemus.runtimes.compiled import is_compiled

        click.echo(
            f"habemus, version {version('habemus')},"
            f" {'compiled' if is_compiled() else 'pure Python'}"
        )
        ctx.exit()


@click.group(
    cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def habemus() -> None:
    """Mutual exclusion and leader election between processes that share nothing but messages.

    Each algorithm is written once.  The same file is simulated, model-checked and run between real
    processes.

    \b
    Start with:
      habemus scenario central-holder-slow --diagram slow.svg
      habemus run ricart-agrawala -n 5
      habemus up -n 3 -- habemus lock printer -- echo hello

    \b
    Exit codes:
      0  success       1  a property is violated, or an outcome is unexpected
      2  usage error   3  undecided within the given bound
    """


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the program and exit with its exit code.  A user error prints one line, no traceback."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None) -> int:
    try:
        with FLAGS:
            code: Any = habemus.main(arguments, prog_name="habemus", standalone_mode=False)
    except click.exceptions.Abort:
        return _fail("interrupted", 130)
    except click.exceptions.Exit as requested:
        return requested.exit_code
    except click.UsageError as error:
        return _fail(_usage(error))
    except click.ClickException as error:
        return _fail(error.format_message())
    except BrokenPipeError:
        # The reader of our output has closed the pipe, as `head` does; that is not an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except _unreachable() as error:
        from habemus.supervise.locked_command import UNREACHABLE

        return _fail(str(error), UNREACHABLE)
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except _user_errors() as error:
        return _fail(str(error))
    return code if isinstance(code, int) else Exit.OK


def _usage(error: click.UsageError) -> str:
    """Say what is wrong with the arguments, and show an example if some are missing."""
    context, message = error.ctx, error.format_message()
    for words, plain in PLAIN_WORDS.items():
        message = message.replace(words, plain)
    if context is None or context.parent is None:
        return message
    if isinstance(context.command, click.Group):
        commands = ", ".join(context.command.list_commands(context))
        if message == "Missing command." or message.startswith("Usage:"):
            return f"{context.command_path} needs a command: {commands}"
        if message.startswith("No such command"):
            return f"{message} {context.command_path} has {commands}"
    if isinstance(error, click.MissingParameter) and context.command.epilog:
        return f"{message} {context.command.epilog}"
    return message


def _unreachable() -> type[Exception]:
    from habemus.client.errors import Unreachable

    return Unreachable


def _user_errors() -> tuple[type[Exception], ...]:
    from habemus.client.errors import RefusedByNode
    from habemus.core import MistakeInAlgorithm
    from habemus.runs.agreement import JudgementsDisagree
    from habemus.traces.png import CannotDraw

    # Every other error in user input is a ValueError or LookupError of ours whose message is
    # written for the user.
    return (
        MistakeInAlgorithm,
        JudgementsDisagree,
        CannotDraw,
        RefusedByNode,
        ValueError,
        LookupError,
        ModuleNotFoundError,
    )


def _fail(line: str, code: int = Exit.USAGE_ERROR) -> int:
    click.echo(f"habemus: {' '.join(line.split())}", err=True)
    return code

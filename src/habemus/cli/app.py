"""The group of all commands."""

from __future__ import annotations

import importlib
import os
from textwrap import wrap
from typing import Any

import click

from habemus.argument_names import FLAGS
from habemus.cli.output import Exit, errors_as_json
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
        "prove": "Prove a property for every number of processes",
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
        "help": "Show all commands, or the help of one",
    },
}
"""Commands and their summaries.  A command is imported when it is called."""
COMMANDS = [name for section in SECTIONS.values() for name in section]
COMPLETE = "_HABEMUS_COMPLETE"
"""Variable by which the completion script of a shell asks for completions."""

ABOUT = "Mutual exclusion and leader election for processes that share only messages."
FIRST = {
    "habemus scenario central-holder-slow --diagram slow.svg": "see a lock fail",
    "habemus run ricart-agrawala -n 5": "simulate a run",
    "habemus up -n 3 -- habemus lock printer -- echo hello": "hold a real lock",
}
"""Commands to begin with, and what they do."""
MORE = (
    "habemus help             what each command does, and the exit codes",
    "habemus help COMMAND     its options and an example",
)


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
            hint = did_you_mean(args[0], COMMANDS, "`habemus help` lists the commands")
            raise click.UsageError(f"unknown command {args[0]!r}; {hint}") from None


def _print_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        import habemus

        click.echo(f"habemus, version {habemus.__version__}, {_kind()}")
        ctx.exit()


def _kind() -> str:
    """Return what is installed: sources that may be changed, or a part that is compiled or not."""
    from importlib.metadata import distribution
    from pathlib import Path

    from habemus.runtimes.compiled import is_compiled

    if '"editable": true' in (distribution("habemus").read_text("direct_url.json") or ""):
        return f"sources in {Path(__file__).parents[2]}"
    return "compiled" if is_compiled() else "pure Python"


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
    """Mutual exclusion and leader election between processes that share only messages.

    Each algorithm is written once.  The same file is simulated, model-checked and run between real
    processes.  `habemus help COMMAND` shows the options of a command.

    \b
    Exit codes:
      0  success       1  a property is violated, or an outcome is unexpected
      2  usage error   3  undecided within the given bound
      70   internal error; HABEMUS_DEBUG=1 shows where
      130  interrupted by Ctrl-C
      141  the reader of the output closed the pipe, as `head` does
    """


def run_command(arguments: list[str]) -> int:
    """Run a command and return its exit code; errors are raised."""
    errors_as_json.set(False)
    shell = os.environ.get(COMPLETE)
    if shell:
        from click.shell_completion import shell_complete

        return shell_complete(habemus, {}, "habemus", COMPLETE, shell)
    if not arguments:
        click.echo(overview())
        return Exit.OK
    with FLAGS, habemus.make_context("habemus", list(arguments), color=_coloured()) as context:
        code: Any = habemus.invoke(context)
    return code if isinstance(code, int) else Exit.OK


def overview() -> str:
    """Return the help of one screen: what habemus is, how to begin, and the names of commands."""
    lines = [ABOUT, "", "Start with:"]
    lines += [f"  {command:55}  {what}" for command, what in FIRST.items()]
    lines += ["", "Commands:"]
    for title, commands in SECTIONS.items():
        start = f"  {title.lower():{max(map(len, SECTIONS))}}  "
        lines += wrap(", ".join(commands), 79, initial_indent=start, subsequent_indent=" " * 26)
    return "\n".join([*lines, "", *MORE])


def _coloured() -> bool | None:
    """Return whether the environment asks for colours or for none; None: a terminal gets colours.

    See no-color.org and force-color.org.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return False if os.environ.get("TERM") == "dumb" else None

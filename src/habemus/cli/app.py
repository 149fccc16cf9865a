"""The group of all commands, and the one place where errors become a line and an exit code."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, NoReturn

import click

from habemus.cli.output import Exit

COMMANDS = (
    *(
        "algorithms",
        "run",
        "check",
        "scenario",
        "compare",
        "faults",
        "cards",
        "detectors",
        "numbers",
        "sweep",
        "report",
        "replay",
        "new",
    ),
    *(
        "trace",
        "config",
        "certs",
        "up",
        "node",
        "status",
        "lock",
        "lead",
        "watch",
        "release",
        "torture",
        "printer",
        "print",
        "completion",
    ),
)


class _Group(click.Group):
    """Loads a command when it is called: starting up must not cost what a command does not need."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = (
            "print_" if cmd_name == "print" else cmd_name
        )  # the function of Python keeps its name
        command = getattr(importlib.import_module(f"habemus.cli.commands.{name}"), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            import difflib  # only mistakes need it

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(COMMANDS)}"
            raise click.UsageError(f"there is no command {args[0]}; {hint}") from None


def _say_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
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
    callback=_say_version,
    help="Show the version and exit.",
)
def habemus() -> None:
    """Mutual exclusion and leader election between processes that share nothing but messages.

    Each algorithm is written once and is simulated, judged and drawn from that file.

    \b
    Begin with:
      habemus scenario central-holder-slow --diagram slow.svg
      habemus run ricart-agrawala -n 5
    """


def main(arguments: list[str] | None = None) -> NoReturn:
    """Runs the program and leaves with its exit code.  Mistakes of the user get one line and no
    traceback.
    """
    sys.exit(run(arguments))


def run(arguments: list[str] | None) -> int:
    try:
        code: Any = habemus.main(arguments, prog_name="habemus", standalone_mode=False)
    except click.exceptions.Abort:
        return _fail("interrupted", 130)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as mistake:
        return _fail(mistake.format_message())
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # whoever read our output has gone; that is no mistake
        return Exit.AS_WANTED
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except _user_mistakes() as mistake:
        return _fail(str(mistake))
    return code if isinstance(code, int) else Exit.AS_WANTED


def _user_mistakes() -> tuple[type[Exception], ...]:
    from habemus.core import MistakeInAlgorithm
    from habemus.traces.png import CannotDraw

    # Every other mistake in what the user wrote is a ValueError or LookupError of ours with a
    # message made to be read.
    return (MistakeInAlgorithm, CannotDraw, ValueError, LookupError, ModuleNotFoundError)


def _fail(line: str, code: int = Exit.BAD_USE) -> int:
    click.echo(f"habemus: {' '.join(line.split())}", err=True)
    return code

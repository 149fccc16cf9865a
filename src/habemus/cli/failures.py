"""Errors become one line and an exit code here, nowhere else.

An error of the user is a `ValueError`, `LookupError` or `ModuleNotFoundError` that habemus raises
itself, or an error of a class of its own: the message is written for the user.  Any other error is
a defect of habemus.
"""

from __future__ import annotations

import os
import select
import sys
import traceback
from contextlib import suppress
from opcode import opmap
from typing import TextIO

import click

from habemus.cli import INTERRUPTED, LOCKING
from habemus.cli.output import Exit, errors_as_json, say_error
from habemus.core.words import did_you_mean

PLAIN_WORDS = {
    "is not a valid integer range.": "is not a whole number",
    "is not a valid integer.": "is not a whole number",
    "is not a valid float range.": "is not a number",
    "is not a valid float.": "is not a number",
}
"""Words of click about values, and plain ones."""
DEBUG = "HABEMUS_DEBUG"


def report(error: Exception, arguments: list[str]) -> int:
    """Report an error that ended the program; return the exit code."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, BrokenPipeError) and _discard_unwritable_output():
        return Exit.BROKEN_PIPE
    if os.environ.get(DEBUG, "0") not in ("", "0"):
        traceback.print_exception(error)
    code, line = _described(error)
    with suppress(OSError):  # stderr may have no reader
        say_error(line, _wants_json(error, arguments))
    _discard_unwritable_output()
    return code


def _wants_json(error: Exception, arguments: list[str]) -> bool:
    """Return whether the command was called with --json, also if its options are wrong."""
    if arguments and arguments[0] in LOCKING:
        return False  # stdout is that of COMMAND
    if errors_as_json.get():
        return True
    if not isinstance(error, click.UsageError) or error.ctx is None:
        return False
    command = error.ctx.command
    takes_json = any(each.name == "as_json" for each in command.params)
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return (takes_json or isinstance(command, click.Group)) and "--json" in ours


def _described(error: Exception) -> tuple[int, str]:
    """Return the exit code and the message."""
    if isinstance(error, click.exceptions.Abort):
        return INTERRUPTED, "interrupted"
    if isinstance(error, click.UsageError):
        return Exit.USAGE_ERROR, _usage(error)
    if isinstance(error, click.ClickException):
        return Exit.USAGE_ERROR, error.format_message()
    from habemus.client.errors import Unreachable
    from habemus.supervise.locked_command import UNREACHABLE

    if isinstance(error, Unreachable):
        return UNREACHABLE, str(error)
    if isinstance(error, OSError):
        named = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        return Exit.USAGE_ERROR, named
    from habemus.core.named_code import UntrustedCode

    if isinstance(error, UntrustedCode):
        return Exit.USAGE_ERROR, f"{error} (--trust)"
    if is_for_the_user(error):
        return Exit.USAGE_ERROR, str(error)
    kind = type(error).__name__
    return Exit.INTERNAL_ERROR, f"internal error: {kind}: {error}; {DEBUG}=1 shows where"


def is_for_the_user(error: BaseException) -> bool:
    """Return whether the message of an error is written for the user."""
    if type(error).__module__.startswith("habemus."):
        return True
    if not isinstance(error, ValueError | LookupError | ModuleNotFoundError):
        return False
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    if at is None or not at.tb_frame.f_globals.get("__name__", "").startswith("habemus."):
        return False
    # Whether a `raise` raised it; a frame of a compiled module has no instruction.
    return at.tb_lasti < 0 or at.tb_frame.f_code.co_code[at.tb_lasti] == opmap["RAISE_VARARGS"]


def _discard_unwritable_output() -> bool:
    """Return whether stdout or stderr cannot be written, because `head` has closed the pipe or the
    disk is full.  What is left of the output is discarded: the interpreter would fail to flush it
    at its end, and change the exit code.
    """
    unwritable = [
        n for n, stream in ((1, sys.stdout), (2, sys.stderr)) if not _can_flush(n, stream)
    ]
    for number in unwritable:
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    return bool(unwritable)


def _can_flush(number: int, stream: TextIO) -> bool:
    try:
        stream.flush()
    except OSError:
        return False
    poll = select.poll()  # click lets a flush to a closed pipe succeed
    poll.register(number, 0)
    return not any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


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
        if message.startswith("No such command '"):
            word = message.split("'")[1]
            known = context.command.list_commands(context)
            hint = did_you_mean(word, known, f"{context.command_path} has {commands}")
            named = f"{context.command_path} {word}".removeprefix("habemus ")
            return f"unknown command {named!r}; {hint}"
    if isinstance(error, click.MissingParameter) and context.command.epilog:
        return f"{message} {context.command.epilog}"
    return message


__all__ = ["report"]

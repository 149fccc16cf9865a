"""Output of commands: results on stdout, everything else on stderr, one line for an error."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import IntEnum
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Protocol

import click

from habemus.core.properties import Finding, Verdict

if TYPE_CHECKING:
    from habemus.traces import Trace


class Exit(IntEnum):
    """Exit codes of all commands."""

    OK = 0
    FAILED = 1
    USAGE_ERROR = 2
    UNDECIDED = 3
    INTERNAL_ERROR = 70
    BROKEN_PIPE = 141


EXIT_OF = {
    Verdict.HOLDS: Exit.OK,
    Verdict.ALMOST_SURELY: Exit.OK,
    Verdict.VIOLATED: Exit.FAILED,
    Verdict.UNDECIDED: Exit.UNDECIDED,
}
COLOURS = {
    Verdict.HOLDS: "green",
    Verdict.ALMOST_SURELY: "green",
    Verdict.VIOLATED: "red",
    Verdict.UNDECIDED: "yellow",
}

LEAST_ROOM = 30
"""Text beside a head that leaves less room than this continues below the head."""
FURTHER_IN = 6

errors_as_json: ContextVar[bool] = ContextVar("errors_as_json", default=False)
"""Whether the command was called with --json: an error is then a JSON document, too."""


def _note_json(_: click.Context, __: click.Parameter, as_json: bool) -> bool:
    errors_as_json.set(as_json)
    return as_json


json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    is_eager=True,  # noted before another option is found wrong
    callback=_note_json,
    help="Print one JSON document on stdout; messages go to stderr.",
)
trust_option = click.option(
    "--trust",
    "trusted",
    is_flag=True,
    help="Import the Python files that the file names; they run with your rights.",
)
option_option = click.option(
    "-o",
    "--option",
    "options",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Option of the algorithm; see `habemus algorithms NAME`.",
)
over_option = click.option(
    "--over",
    type=click.Choice(["perfect", "perfect-fifo"]),
    help="Run every process over links that retransmit.",
)
set_option = click.option(
    "--set",
    "initial",
    multiple=True,
    metavar="P.VAR=VALUE",
    help="Initial value of a variable of one process.",
)
options_option = click.option(
    "-o",
    "--option",
    "options",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Option of the algorithms that have it; see `habemus algorithms NAME`.",
)


jobs_option = click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="Worker processes; the results do not depend on them.  [default: all cores]",
)


def plot_option(text: str) -> Callable[[click.decorators.FC], click.decorators.FC]:
    """Return the option --plot with this help."""
    kind = click.Path(dir_okay=False, path_type=Path)
    return click.option("--plot", type=kind, metavar="FILE.png|.svg", help=text)


class FiniteRange(click.FloatRange):
    """A float within bounds.  `click.FloatRange` alone accepts `nan`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if number != number:
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


def say_json(document: Any) -> None:
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def say_error(message: str, as_json: bool) -> None:
    """Print an error on one line of stderr, and on stdout as a JSON document."""
    line = " ".join(message.split())
    click.echo(f"habemus: {line}", err=True)
    if as_json:
        click.echo(json.dumps({"error": line}, ensure_ascii=False))


def columns() -> int:
    """Return the width of the terminal; a pipe or a file is as wide as needed."""
    if not sys.stdout.isatty():
        return 10_000
    from shutil import get_terminal_size  # takes time that a short command does not have

    return get_terminal_size().columns


def text_width(most: int = 100) -> int:
    """Return the width of running text: that of the terminal, at most `most`."""
    return min(columns(), most)


def folded(text: str, indent: str = "") -> str:
    """Return a text folded to the terminal, further lines indented; a pipe gets it as it is."""
    return hanging("", text, indent)


def hanging(head: str, text: str, indent: str | None = None) -> str:
    """Return a head and the text beside it, folded to the terminal; a pipe gets it as it is.

    head: may be styled; the text may not.
    indent: that of further lines; without it, they begin below the text, or, where that leaves
      less than LEAST_ROOM, a little further in than the head.
    """
    if not sys.stdout.isatty():
        return head + text
    width, taken = columns(), len(click.unstyle(head))
    if indent is None:
        indent = " " * (taken if width - taken >= LEAST_ROOM else FURTHER_IN)
    first, *others = text.split("\n")
    lines = _wrapped(first, width, " " * taken, indent)
    lines += [each for line in others for each in _wrapped(line, width, "", indent)]
    return head + "\n".join(lines)[taken:]


def _wrapped(line: str, width: int, first: str, indent: str) -> list[str]:
    return wrap(
        line,
        width,
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first]


def verdict_text(verdict: Verdict) -> str:
    return click.style(verdict.value, fg=COLOURS[verdict], bold=True)


def say_findings(findings: list[Finding], uncounted: list[str]) -> None:
    width = max((len(finding.name) for finding in findings), default=0)
    for finding in findings:
        padding = " " * (9 - len(finding.verdict.value))
        aside = "  (not claimed)" if finding.name in uncounted else ""
        start = f"  {finding.name:{width}}  {verdict_text(finding.verdict)}{padding}  "
        text = hanging(start, finding.why + aside)
        click.echo(text.removesuffix(aside) + click.style(aside, dim=True) if aside else text)


class Progressing(Protocol):
    def __call__(
        self, done: int, beside: str, *, title: str = ..., total: int | None = ...
    ) -> None: ...


def say_events(table: str, trace: Trace) -> None:
    """Print a table of events, with those that violate a property in colour."""
    marked = {
        (f"{finding.time / 1000:.3f}", trace.label(finding.processes[-1]))
        for finding in trace.violations
        if finding.time is not None and finding.processes
    }
    lines = table.splitlines()
    last = {}  # the last line of a process at a moment, which is the event itself
    for number, line in enumerate(lines):
        cells = line.split(maxsplit=1)
        if len(cells) == 2:
            for time, label in marked:
                if cells[0] == time and cells[1].startswith(f"{label} "):
                    last[time, label] = number
    for number, line in enumerate(lines):
        is_marked = number in last.values()
        click.echo(click.style(line, fg="red", bold=True) if is_marked else line)


@contextmanager
def progress(title: str, total: int | None = None) -> Iterator[Progressing]:
    """Show a progress bar on stderr after one second, if stderr is a terminal.

    The yielded function takes the work done so far and the text beside the bar; a new phase also
    gives its title and its total.
    """
    started = time.monotonic()
    shown: Any = None
    task: Any = None

    def update(done: int, beside: str, *, title: str = title, total: int | None = total) -> None:
        nonlocal shown, task
        if shown is None:
            if time.monotonic() - started < 1 or not sys.stderr.isatty():
                return
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                Progress,
                SpinnerColumn,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )
            from rich.table import Column

            def time_column() -> Column:
                return Column(min_width=7)  # 0:00:00, at any width of the terminal

            remaining = [TimeRemainingColumn(table_column=time_column())] if total else []
            beside_bar = Column(ratio=1, no_wrap=True, overflow="ellipsis")
            shown = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=20),
                TimeElapsedColumn(table_column=time_column()),
                *remaining,
                TextColumn("{task.fields[beside]}", markup=False, table_column=beside_bar),
                expand=True,
                console=Console(stderr=True),
                transient=True,
            )
            shown.start()
            task = shown.add_task(title, total=total, beside=beside)
        shown.update(task, description=title, total=total, completed=done, beside=beside)

    try:
        yield update
    finally:
        if shown is not None:
            shown.stop()

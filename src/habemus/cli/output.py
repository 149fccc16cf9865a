"""Output of commands: results on stdout, everything else on stderr, one line for an error."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

import click

from habemus.core.properties import Finding, Verdict


class Exit(IntEnum):
    """Exit codes of all commands."""

    OK = 0
    FAILED = 1
    USAGE_ERROR = 2
    UNDECIDED = 3


EXIT_OF = {
    Verdict.HOLDS: Exit.OK,
    Verdict.VIOLATED: Exit.FAILED,
    Verdict.UNDECIDED: Exit.UNDECIDED,
}
COLOURS = {Verdict.HOLDS: "green", Verdict.VIOLATED: "red", Verdict.UNDECIDED: "yellow"}

json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON document on stdout; messages go to stderr.",
)


class FiniteRange(click.FloatRange):
    """A float within bounds.  `click.FloatRange` alone accepts `nan`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if number != number:
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


def say_json(document: Any) -> None:
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def verdict_text(verdict: Verdict) -> str:
    return click.style(verdict.value, fg=COLOURS[verdict], bold=True)


def say_findings(findings: list[Finding], uncounted: list[str]) -> None:
    width = max((len(finding.name) for finding in findings), default=0)
    for finding in findings:
        padding = " " * (9 - len(finding.verdict.value))
        aside = click.style("  (not claimed)", dim=True) if finding.name in uncounted else ""
        click.echo(
            f"  {finding.name:{width}}  {verdict_text(finding.verdict)}{padding} "
            f" {finding.why}{aside}"
        )


@contextmanager
def progress(title: str, total: int | None = None) -> Iterator[Callable[[int, str], None]]:
    """Show a progress bar on stderr after one second, if stderr is a terminal.

    The yielded function takes the work done so far and the text beside the bar.
    """
    started = time.monotonic()
    shown: Any = None
    task: Any = None

    def update(done: int, beside: str) -> None:
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

            beside_bar = TextColumn("{task.fields[beside]}", markup=False)
            columns = [
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                beside_bar,
                TimeElapsedColumn(),
            ]
            shown = Progress(
                *columns,
                *([TimeRemainingColumn()] if total else []),
                console=Console(stderr=True),
                transient=True,
            )
            shown.start()
            task = shown.add_task(title, total=total, beside=beside)
        shown.update(task, completed=done, beside=beside)

    try:
        yield update
    finally:
        if shown is not None:
            shown.stop()

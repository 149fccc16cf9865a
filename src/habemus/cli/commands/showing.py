"""Options that choose what tables and pictures of a run show."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from habemus.core.system import System
from habemus.traces import Trace


@dataclass(frozen=True)
class Showing:
    """The choice of the user."""

    begin: str | None
    end: str | None
    hide: str
    only: str
    fold: bool
    variables: str | None

    def arguments(self, trace: Trace, system: Callable[[], System]) -> dict[str, Any]:
        """Return the arguments of `save` and of the table for one trace."""
        from habemus.traces.view import Selection

        states = None
        if self.variables is not None:
            from habemus.runs.states import states_of

            states = states_of(trace, system(), _words(self.variables))
        selection = Selection(
            self._time(self.begin, trace),
            self._time(self.end, trace),
            _words(self.hide),
            _words(self.only),
            self.fold,
        )
        return {"selection": selection, "states": states}

    def _time(self, text: str | None, trace: Trace) -> int | None:
        """Return a time of the trace, as its pictures write it.

        Axes begin at 0 even if the clock of the nodes had been running for long.
        """
        from habemus.runs.parsing import time
        from habemus.traces.diagram.scale import Scale

        if text is None:
            return None
        return time(text) + Scale(trace.events, ()).origin()

    def save(self, trace: Trace, paths: tuple[Path, ...], system: Callable[[], System]) -> None:
        """Save the trace to files, each in the format of its suffix."""
        from habemus.traces.export import check_ending, save

        for path in paths:
            check_ending(path)
        arguments = self.arguments(trace, system) if paths else {}
        for path in paths:
            save(trace, path, **arguments)
            click.echo(f"saved {path}", err=True)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


_OPTIONS = (
    click.option(
        "--show",
        "variables",
        is_flag=False,
        flag_value="default",
        metavar="VARIABLES",
        help=(
            "Show variables of the processes, such as queue,holder; `changes` for all that change;"
            " without a value those that the algorithm names."
        ),
    ),
    click.option("--from", "begin", metavar="TIME", help="Show only what happens from here on."),
    click.option("--to", "end", metavar="TIME", help="Show only what happens up to here."),
    click.option(
        "--hide",
        default="",
        metavar="WORDS",
        help="Do not show these: names (Heartbeat), kinds (timer), components, processes.",
    ),
    click.option("--only", default="", metavar="WORDS", help="Show only these, and all faults."),
    click.option(
        "--fold/--no-fold",
        default=True,
        help="In pictures, let one message or timer stand for those that repeat it.",
    ),
)


def showing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options, and pass them to the command as `showing`."""

    @functools.wraps(command)
    def with_showing(
        *args: Any,
        begin: str | None,
        end: str | None,
        hide: str,
        only: str,
        fold: bool,
        variables: str | None,
        **given: Any,
    ) -> Any:
        showing = Showing(begin, end, hide, only, fold, variables)
        return command(*args, showing=showing, **given)

    wrapped: Callable[..., Any] = with_showing
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped

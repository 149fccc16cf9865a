"""Options of algorithms: as texts in the notation of runs, and given to several algorithms at once,
of which each gets those that it has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from habemus.argument_names import argument
from habemus.catalog.entries import Entry
from habemus.core.process import ProcessId
from habemus.core.words import did_you_mean
from habemus.runs.parsing import option
from habemus.runs.setup import BadSetup


def options_for(entry: Entry, given: Iterable[str]) -> tuple[str, ...]:
    """Return the options that the algorithm has."""
    return tuple(text for text in given if option(text)[0] in entry.options)


def check_options(chosen: Iterable[Entry], given: Iterable[str]) -> None:
    """Refuse an option that none of the algorithms has."""
    known = {name for entry in chosen for name in entry.options}
    for text in given:
        name, _ = option(text)
        if name not in known:
            hint = did_you_mean(name, sorted(known))
            raise BadSetup(
                f"{argument('options')} {text}: no algorithm here has an option {name}; {hint}"
            )


def option_texts(options: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return options in the notation of runs: `timeout=5ms`."""
    return tuple(
        f"{name}={value if isinstance(value, str) else _json(name, value)}"
        for name, value in (options or {}).items()
    )


def initial_texts(initial: Mapping[ProcessId, Mapping[str, Any]] | None) -> tuple[str, ...]:
    """Return initial values in the notation of runs: `1.clock=5`."""
    return tuple(
        f"{process}.{name}={_json(name, value)}"
        for process, values in (initial or {}).items()
        for name, value in values.items()
    )


def _json(name: str, value: Any) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name}={value!r}: a command cannot contain a {type(value).__name__}; give a number,"
            " a text, True, False, None, or a list or dictionary of these"
        ) from None

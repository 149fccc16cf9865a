"""Options given to several algorithms at once: each gets those that it has."""

from __future__ import annotations

from collections.abc import Iterable

from habemus.argument_names import argument
from habemus.catalog.entries import Entry, nearest
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
            near = nearest(name, sorted(known))
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
            raise BadSetup(
                f"{argument('options')} {text}: no algorithm here has an option {name}; {hint}"
            )

"""Bounds of the searches behind the guarantee cards, from `bounds.toml` beside the algorithms."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from habemus.analysis.cards.table import UNTIMED
from habemus.catalog.entries import Entry

FILE = "bounds.toml"
ALGORITHMS = "habemus.algorithms."
ASYNCHRONOUS, SYNCHRONOUS = "asynchronous", "synchronous"
UNBOUNDED = "unbounded"
"""Written in the file for None, which TOML does not have."""


class Bounds(NamedTuple):
    """Bounds of the searches of one algorithm."""

    sizes: tuple[int, ...] = (3, 2)
    """Numbers of participants, tried in this order until a search is complete."""
    order_sizes: tuple[int, ...] = (3, 2)
    """The same for ME3, which takes more states."""
    entries: int | None = 1
    options: tuple[str, ...] = ()
    initial: tuple[str, ...] = ()
    merging: bool = False
    timed: bool = False
    """Search twice: with timers that expire at any moment, and with timers slower than messages."""
    timeouts: int | None = None
    """How many timers expire, where they do so at any moment."""
    limit: int = 60_000
    """States of one search."""
    synchronous_limit: int = 60_000
    """States of a search in which messages are faster than timers."""
    fifo: bool = False
    """Search links that keep the order, because any order has too many states."""
    recovery_limit: int = 0
    """States of one more search of recoveries, with three participants and links that keep the
    order. A majority of two is both, so two participants never forget a vote."""
    not_searched: str = ""
    """The reason why there is no search at all."""

    @property
    def timings(self) -> tuple[str, ...]:
        """The timings to search."""
        return (ASYNCHRONOUS, SYNCHRONOUS) if self.timed else (UNTIMED,)


def bounds_of(entry: Entry) -> Bounds:
    """Return the bounds of an algorithm: those of its `bounds.toml`, or the defaults."""
    module = entry.algorithm.__module__
    if not module.startswith(ALGORITHMS):
        return Bounds()
    return bounds_in(module.rpartition(".")[0]).get(entry.name, Bounds())


@cache
def bounds_in(package: str) -> dict[str, Bounds]:
    """Return the bounds listed in the file of a package, by algorithm."""
    file = resources.files(package).joinpath(FILE)
    tables = tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return {name: _bounds(tables[table.get("same_as", name)]) for name, table in tables.items()}


def _bounds(table: dict[str, Any]) -> Bounds:
    return Bounds(**{name: _value(value) for name, value in table.items()})


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    return None if value == UNBOUNDED else value

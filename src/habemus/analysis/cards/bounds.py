"""Bounds of the searches behind the guarantee cards, from `bounds.toml` beside the algorithms."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from habemus.analysis.cards.table import UNTIMED
from habemus.catalog.entries import Entry

FILE = "bounds.toml"
ALGORITHMS = "habemus.algorithms."
ASYNCHRONOUS, SYNCHRONOUS, EVENTUAL = "asynchronous", "synchronous", "eventual"
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
    timings: tuple[str, ...] = (UNTIMED,)
    """Timings to search, for algorithms with timers. `eventual` is one search for two rows of the
    card: timers expire at any moment, for safety; and then messages are faster, for liveness."""
    timeouts: int | None = None
    """How many timers expire, where they do so at any moment."""
    timers: tuple[tuple[str, int], ...] = ()
    """How many timers of each name expire."""
    receipts: tuple[tuple[str, int], ...] = ()
    """How many messages of each name are received, where messages go round for ever."""
    draws: int | None = None
    """How many steps draw at random, and how many more for liveness."""
    asking: tuple[int, ...] = ()
    """Participants that make requests; empty: all."""
    abstract: str = ""
    """The component that an abstract one replaces."""
    losses: int = 1
    """How many messages are lost, for liveness or where links keep the order. A majority of three
    does without any one of its messages, and not without two."""
    limit: int = 60_000
    """States of one search."""
    search: str = "breadth"
    """The kind of search; with numpy where there are many states."""
    fifo: bool = False
    """Search links that keep the order, because any order has too many states."""
    models: tuple[str, ...] = ()
    """Fault models to search; empty: all."""
    properties: tuple[str, ...] = ()
    """Properties to judge; empty: all."""
    recovery_limit: int = 0
    """States of one more search of recoveries, with three participants and links that keep the
    order. A majority of two is both, so two participants never forget a vote."""
    exceptions: Mapping[str, Mapping[str, Any]] = {}
    """Fields that differ for a timing, a fault model, both (`eventual-crash`), or ME3 (`order`,
    `eventual-order`): the tables of these names in the table of the algorithm."""

    def at(self, timing: str, model: str = "", *, order: bool = False) -> Bounds:
        """Return the bounds for a timing and a fault model, or for ME3 there."""
        bounds = self
        for name in (timing, model, f"{timing}-{model}", *(["order", f"{timing}-order"] * order)):
            bounds = bounds._replace(**self.exceptions.get(name, {}))
        return bounds


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
    return {name: _bounds(_with_inherited(tables, name)) for name in tables}


def _with_inherited(tables: Mapping[str, dict[str, Any]], name: str) -> dict[str, Any]:
    """Return a table with what it does not say taken from the table that it names."""
    table = dict(tables[name])
    same = table.pop("same_as", "")
    return {**_with_inherited(tables, same), **table} if same else table


def _bounds(table: dict[str, Any]) -> Bounds:
    given, exceptions = _fields(table), {}
    for name in [each for each in given if each not in Bounds._fields]:
        exceptions[name] = _fields(given.pop(name))
    return Bounds(**given, exceptions=exceptions)


def _fields(table: dict[str, Any]) -> dict[str, Any]:
    return {name: _value(name, value) for name, value in table.items()}


def _value(name: str, value: Any) -> Any:
    if name in ("timers", "receipts"):
        return tuple(value.items())
    if isinstance(value, list):
        return tuple(value)
    return None if value == UNBOUNDED else value

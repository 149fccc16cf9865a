"""A grid of runs, described by a TOML file: every combination of algorithm, size, load, delay,
fault and seed.

The runs are numbered in that order, the seed fastest, so that a number alone says which run it is.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from habemus.analysis.numbers import ranges
from habemus.analysis.numbers.compare import think
from habemus.analysis.sweeps.seeded_setups import EVENTS
from habemus.catalog.entries import Entry, find
from habemus.catalog.mutex import MUTEX
from habemus.core.named_code import UntrustedCode, refuse_code
from habemus.core.process import MistakeInPlan
from habemus.core.system import System
from habemus.core.words import did_you_mean
from habemus.runs import notation
from habemus.runs.setup import EVENT_LIMIT, FAULT_FLAGS, WORKLOADS, BadSetup, Setup
from habemus.runs.simulate import LINKS, faults_of, system_of
from habemus.runtimes.sim.faults import processes_of

MOST_RUNS = 1_000_000
"""Largest number of runs of a grid; a file that asks for more is probably mistaken."""

LONGEST_FILE = 1_000_000
LARGEST_SEED = 2**53
"""Largest seed that every program that reads the results represents exactly."""

MOST_REQUESTS = 1_000_000
WITHOUT = "none"
"""The name of the one fault in a file that has no faults."""


class BadGrid(ValueError):
    """A file that describes no grid; the message names the key and says what was expected."""


class Trouble(NamedTuple):
    """One value of the axis of faults: named faults."""

    name: str
    faults: tuple[tuple[str, str], ...] = ()
    loss: str = Setup.loss
    duplicate: str = Setup.duplicate


class GridPoint(NamedTuple):
    """One run of the grid: its number, the values of the axes that a setup does not spell out, and
    its setup.
    """

    number: int
    load: str
    fault: str
    setup: Setup


@dataclass(frozen=True)
class Grid:
    algorithms: tuple[str, ...]
    sizes: tuple[int, ...]
    loads: tuple[str, ...]  # numbers, or the names of workloads
    delays: tuple[str, ...]
    troubles: tuple[Trouble, ...]
    seeds: range
    options: Mapping[str, tuple[str, ...]]  # by algorithm
    requests: int = 1
    think: str = Setup.think
    hold: str = Setup.hold
    over: str = Setup.over
    fifo: bool | None = None
    until: str | None = None
    events: int = EVENTS

    def __len__(self) -> int:
        return self.cells * len(self.seeds)

    @property
    def cells(self) -> int:
        """Number of combinations, apart from the seed."""
        return (
            len(self.algorithms)
            * len(self.sizes)
            * len(self.loads)
            * len(self.delays)
            * len(self.troubles)
        )

    def point(self, number: int) -> GridPoint:
        rest, seed = divmod(number, len(self.seeds))
        rest, trouble = divmod(rest, len(self.troubles))
        rest, delay = divmod(rest, len(self.delays))
        rest, load = divmod(rest, len(self.loads))
        algorithm, size = divmod(rest, len(self.sizes))
        setup = self._setup(
            self.algorithms[algorithm],
            self.sizes[size],
            self.loads[load],
            self.delays[delay],
            self.troubles[trouble],
            self.seeds[seed],
        )
        return GridPoint(number, self.loads[load], self.troubles[trouble].name, setup)

    def _setup(
        self, algorithm: str, size: int, load: str, delay: str, trouble: Trouble, seed: int
    ) -> Setup:
        named = load in WORKLOADS
        return Setup(
            algorithm,
            size,
            seed=seed,
            options=self.options.get(algorithm, ()),
            workload=load if named else Setup.workload,
            requests=self.requests,
            think=self.think if named else think(notation.time(self.hold), size, Decimal(load)),
            hold=self.hold,
            delay=delay,
            fifo=self.fifo,
            loss=trouble.loss,
            duplicate=trouble.duplicate,
            over=self.over,
            faults=trouble.faults,
            until=self.until,
            events=self.events,
        )

    def check(self) -> None:
        """Raise an exception if a run is impossible, before many are started."""
        if any(load not in WORKLOADS for load in self.loads):
            for name in self.algorithms:
                if find(name).problem is not MUTEX:
                    raise BadGrid(
                        f"load: only mutual exclusion has loads in numbers, and {name} is"
                        f" {find(name).problem.title}"
                    )
        for name in self.algorithms:
            for size in self.sizes:
                self._check_size(name, size)

    def _check_size(self, name: str, size: int) -> None:
        entry = find(name)
        fewest = getattr(entry.algorithm, "fewest", 1)
        if size < fewest:
            raise BadGrid(f"n: {name} runs with {fewest} participants or more, not with {size}")
        system = _built(Setup(name, size, over=self.over), entry, "n")
        if name in self.options:
            system = _built(
                Setup(name, size, options=self.options[name], over=self.over),
                entry,
                f"options.{name}",
            )
        for trouble in self.troubles:
            for fault in faults_of(Setup(name, size, faults=trouble.faults)):
                for process in processes_of(fault):
                    if process not in system.plans:
                        raise BadGrid(
                            f"faults.{trouble.name}: {name} with n = {size} has no process"
                            f" {process}"
                        )

    def plain(self) -> dict[str, Any]:
        """Return the grid as JSON values by the keys of the file; equal grids have equal values."""
        return {
            "algorithms": list(self.algorithms),
            "n": list(self.sizes),
            "load": list(self.loads),
            "delay": list(self.delays),
            "faults": {
                each.name: {
                    "faults": [list(pair) for pair in each.faults],
                    "loss": each.loss,
                    "duplicate": each.duplicate,
                }
                for each in self.troubles
            },
            "seeds": [self.seeds.start, self.seeds.stop - 1],
            "options": {name: list(texts) for name, texts in self.options.items()},
            **{
                key: getattr(self, key)
                for key in ("requests", "think", "hold", "over", "fifo", "until", "events")
            },
        }


def _built(setup: Setup, entry: Entry, key: str) -> System:
    try:
        return system_of(setup, entry)
    except (MistakeInPlan, BadSetup) as reason:
        raise BadGrid(f"{key}: {reason}") from None


# The file.


def read(path: Path, *, trusted: bool = False) -> Grid:
    """Read the grid that a file describes. Raise `BadGrid` with one line if it is invalid.

    trusted: the grid may name Python files, else that raises `UntrustedCode`.
    """
    with path.open("rb") as file:
        content = file.read(LONGEST_FILE + 1)
    try:
        if len(content) > LONGEST_FILE:
            raise BadGrid(f"the file is longer than {LONGEST_FILE:,} bytes")
        document = tomllib.loads(content.decode("utf-8"))
        refuse_code(document, str(path), trusted=trusted)
        return grid_of(document)
    except UntrustedCode:
        raise
    except UnicodeDecodeError:
        raise BadGrid(f"{path}: the file is not UTF-8 text") from None
    except RecursionError:
        raise BadGrid(f"{path}: too many brackets inside brackets") from None
    except (ValueError, LookupError) as reason:
        raise BadGrid(f"{path}: {reason}") from None


def grid_of(document: Mapping[str, Any]) -> Grid:
    """Return the grid of a document, checked."""
    _refuse_unknown(document, KEYS, "")
    for key in ("algorithms", "n"):
        if key not in document:
            raise BadGrid(f"{key} is missing; {_EXAMPLES[key]}")
    algorithms = _several("algorithms", document["algorithms"], _algorithm)
    grid = Grid(
        algorithms,
        _sizes(document["n"]),
        _several("load", document.get("load", Setup.workload), _load),
        _several("delay", document.get("delay", Setup.delay), _in_notation(notation.delay)),
        _troubles(document.get("faults", {})),
        _seeds(document.get("seeds", 1)),
        _options(document.get("options", {}), algorithms),
        **{key: _ONE[key](key, document[key]) for key in _ONE if key in document},
    )
    if len(grid) > MOST_RUNS:
        axes = "algorithms * n * load * delay * faults * seeds"
        raise BadGrid(
            f"{len(grid):,} runs are more than {MOST_RUNS:,} ({axes}); make several sweeps of it"
        )
    if any(load not in WORKLOADS for load in grid.loads):
        hold = notation.span(grid.hold)
        if hold == 0 or not isinstance(hold, int):
            raise BadGrid(
                "hold: a load in numbers is counted by one time inside, at least 1us, not by"
                f" {grid.hold}"
            )
    grid.check()
    return grid


def _refuse_unknown(table: Mapping[str, Any], known: Iterable[str], within: str) -> None:
    for key in table:
        if key not in known:
            hint = did_you_mean(key, known)
            raise BadGrid(f"there is no key {within}{_short(key)}; {hint}")


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def _refusal(key: str, wanted: str, value: object) -> BadGrid:
    shown = (
        {True: "true", False: "false"}[value]
        if isinstance(value, bool)
        else repr(value)
        if isinstance(value, str)
        else value
    )
    return BadGrid(f"{key} must be {wanted}, not {_short(shown)}")


def _several(key: str, value: Any, one: Callable[[str, Any], Any]) -> tuple[Any, ...]:
    """Return a value alone or a list of them, each once."""
    values = [one(key, each) for each in (value if isinstance(value, list) else [value])]
    if not values:
        raise BadGrid(f"{key} is an empty list; {_EXAMPLES[key]}")
    for place, each in enumerate(values):
        if each in values[:place]:
            raise BadGrid(f"{key} names {each} twice")
    return tuple(values)


def _algorithm(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _refusal(key, "a list of names", value)
    try:
        return find(value).name
    except LookupError as reason:
        raise BadGrid(f"{key}: {reason}") from None


def _sizes(value: Any) -> tuple[int, ...]:
    if isinstance(value, str):
        try:
            bounds = ranges.sizes(value)
        except ranges.BadRange as reason:
            raise BadGrid(f"n: {reason}") from None
        if bounds.high - bounds.low >= MOST_RUNS:
            raise BadGrid(f"n: {value} is more than {MOST_RUNS:,} sizes")
        return tuple(range(bounds.low, bounds.high + 1))
    return _several("n", value, _size)


def _size(key: str, value: Any) -> int:
    if type(value) is not int:
        raise _refusal(key, 'a whole number, a list of them, or a range such as "2..6"', value)
    if not 1 <= value <= ranges.LARGEST_SIZE:
        raise BadGrid(f"{key}: there are 1 to {ranges.LARGEST_SIZE:,} participants, not {value}")
    return value


def _load(key: str, value: Any) -> str:
    if isinstance(value, str):
        if value not in WORKLOADS:
            raise _refusal(key, f"a number such as 0.5, or {', '.join(WORKLOADS)}", value)
        return value
    if type(value) not in (int, float):
        raise _refusal(key, f"a number such as 0.5, or {', '.join(WORKLOADS)}", value)
    number = Decimal(repr(value))
    if not (number.is_finite() and ranges.LEAST_LOAD <= number <= ranges.LARGEST_LOAD):
        raise BadGrid(f"{key}: a load is {ranges.LEAST_LOAD} to {ranges.LARGEST_LOAD}, not {value}")
    return format(number.normalize(), "f")


def _seeds(value: Any) -> range:
    if isinstance(value, str) and (matched := re.fullmatch(r"(\d{1,16})\.\.(\d{1,16})", value)):
        first, last = int(matched[1]), int(matched[2])
        if first > last:
            raise BadGrid(f"seeds: {value!r} goes from more to less; write {last}..{first}")
        if last > LARGEST_SEED:
            raise BadGrid(f"seeds: a seed is 0 to {LARGEST_SEED}, not {last}")
        return range(first, last + 1)
    if type(value) is not int:
        raise _refusal(
            "seeds", 'how many there are, such as 100, or which, such as "100..199"', value
        )
    if not 1 <= value <= MOST_RUNS:
        raise BadGrid(f"seeds: there are 1 to {MOST_RUNS:,} of them, not {value}")
    return range(value)


def _troubles(value: Any) -> tuple[Trouble, ...]:
    if not isinstance(value, dict):
        raise _refusal("faults", "tables such as [faults.crash]", value)
    return tuple(_trouble(name, table) for name, table in value.items()) or (Trouble(WITHOUT),)


def _trouble(name: str, table: Any) -> Trouble:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 _.+-]{0,39}", name):
        raise BadGrid(
            f"faults: {_short(name)!r} is not a valid name; use 1 to 40 letters, digits, spaces and"
            " -_.+"
        )
    key = f"faults.{name}"
    if not isinstance(table, dict):
        raise _refusal(
            key,
            f'a table with keys such as crash = "1@5ms"; a table of its own begins with [{key}]',
            table,
        )
    _refuse_unknown(table, (*FAULT_FLAGS, "loss", "duplicate"), f"{key}.")
    faults = []
    for kind in FAULT_FLAGS:
        parse = _in_notation(notation.FAULT_PARSERS[kind])
        texts = table.get(kind, [])
        faults += [
            (kind, parse(f"{key}.{kind}", text))
            for text in (texts if isinstance(texts, list) else [texts])
        ]
    chances = {
        each: _chance(f"{key}.{each}", table[each])
        for each in ("loss", "duplicate")
        if each in table
    }
    return Trouble(name, tuple(faults), **chances)


def _options(value: Any, algorithms: Sequence[str]) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise _refusal("options", 'a table such as quorum = ["quorum=3"]', value)
    for name in value:
        if name not in algorithms:
            raise BadGrid(f"options: {_short(name)} is not one of the algorithms of the file")
    return {
        name: _several(f"options.{name}", texts, _in_notation(notation.option))
        for name, texts in value.items()
    }


def _in_notation(parse: Callable[[str], Any]) -> Callable[[str, Any], str]:
    def read_text(key: str, value: Any) -> str:
        if not isinstance(value, str):
            raise _refusal(key, "a text in quotes, or a list of them", value)
        try:
            parse(value)
        except ValueError as reason:
            raise BadGrid(f"{key}: {reason}") from None
        return value

    return read_text


def _chance(key: str, value: Any) -> str:
    """Return a chance written in quotes as on the command line, or simply as a number."""
    text = repr(value) if type(value) in (int, float) else value
    return _in_notation(notation.chance)(key, text)


def _whole(low: int, high: int) -> Callable[[str, Any], int]:
    def read_number(key: str, value: Any) -> int:
        if type(value) is not int:
            raise _refusal(key, "a whole number", value)
        if not low <= value <= high:
            raise BadGrid(f"{key} must be {low:,} to {high:,}, not {value:,}")
        return value

    return read_number


def _links(key: str, value: Any) -> str:
    if value not in tuple(LINKS):
        raise _refusal(key, " or ".join(LINKS), value)
    return str(value)


def _flag(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _refusal(key, "true or false", value)
    return value


_ONE: dict[str, Callable[[str, Any], Any]] = {
    "requests": _whole(1, MOST_REQUESTS),
    "think": _in_notation(notation.span),
    "hold": _in_notation(notation.span),
    "over": _links,
    "fifo": _flag,
    "until": _in_notation(notation.time),
    "events": _whole(1, EVENT_LIMIT),
}
"""Keys with one value for all runs."""

KEYS = ("algorithms", "n", "load", "delay", "faults", "seeds", "options", *_ONE)
_EXAMPLES = {
    "algorithms": 'write for example algorithms = ["central", "ricart-agrawala"]',
    "n": "write for example n = [3, 5, 9]",
    "load": "leave it out, or write for example load = [0.1, 1]",
    "delay": 'leave it out, or write for example delay = ["1ms", "exp:1ms"]',
}

"""The guarantee cards: verdicts on each algorithm under each kind of fault, with their evidence.

A card is a table of cells, one for each timing, fault model and property. A cell has one of three
verdicts and refers to its evidence: a search, whose bound is stated, or a scenario. `habemus cards`
makes the cards in some minutes. They are stored in a file beside this one, so that the catalog can
show them at once.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from habemus.catalog.entries import Entry, find
from habemus.core.properties import Verdict
from habemus.runs.check import STATE_LIMIT, Check

FILE = "cards.json"
MARKS = {
    Verdict.HOLDS: "✔",
    Verdict.ALMOST_SURELY: "≈",  # with probability one
    Verdict.VIOLATED: "✘",
    Verdict.UNDECIDED: "?",
}
NOT_APPLICABLE = "not applicable"
UNTIMED = ""
"""The timing of algorithms without timers, which is any."""


class FaultModel(NamedTuple):
    """One kind of fault."""

    name: str
    title: str


MODELS = (
    FaultModel("none", "no faults: links as the algorithm assumes them, and no process crashes"),
    FaultModel("unordered", "messages overtake each other"),
    FaultModel("lossy", "messages are lost"),
    FaultModel("duplicating", "a message is delivered twice"),
    FaultModel("crash", "a process crashes at any moment and stays down"),
    FaultModel("recovery", "a process crashes and recovers with its stable memory"),
    FaultModel("amnesia", "a process crashes and recovers without any memory"),
)


@cache
def others(check: Check) -> int:
    """Return the number of processes of a check that are no participants, such as coordinators."""
    return len(check.system(find(check.algorithm)).plans) - check.n


@dataclass(frozen=True)
class Searched:
    """A search that decides cells, and its extent."""

    check: Check
    states: int
    depth: int
    stopped: str = ""  # the reason, if the search is incomplete

    def command(self) -> str:
        """Return the command that repeats the search; a complete search needs no limit."""
        return (self.check if self.stopped else replace(self.check, limit=STATE_LIMIT)).command()

    def bound(self, entry: Entry) -> str:
        """Return the bound in words."""
        many = f"{self.check.n} participants"
        given = (*self.check.options, *self.check.initial)
        options = f", {', '.join(given)}" if given else ""
        return f"{many}{options}, {self.check.description(entry)}"


@dataclass(frozen=True)
class Cell:
    """One verdict and its evidence."""

    verdict: Verdict | None  # None: a search cannot ask
    search: int | None = None  # which of the card's searches
    steps: int | None = None  # of the shortest counterexample
    why: str = ""  # the reason why it is undecided or not applicable
    scenario: str = ""  # the scenario that shows the violation

    @property
    def word(self) -> str:
        return NOT_APPLICABLE if self.verdict is None else self.verdict.value

    @property
    def mark(self) -> str:
        return "n/a" if self.verdict is None else MARKS[self.verdict]

    def plain(self) -> list[Any]:
        """Return the cell as a short list: verdict, search, steps or reason, scenario."""
        full: list[Any] = [
            self.word,
            self.search,
            self.steps if self.steps is not None else self.why,
            self.scenario,
        ]
        while not full[-1] and full[-1] != 0:
            full.pop()
        return full

    @classmethod
    def from_plain(cls, plain: list[Any]) -> Cell:
        verdict, search, found, scenario = (plain + [None] * 3)[:4]
        steps, why = (found, "") if isinstance(found, int) else (None, found or "")
        known = None if verdict == NOT_APPLICABLE else Verdict(verdict)
        return cls(known, search, steps, why, scenario or "")


Place = tuple[str, str, str]
"""Key of a cell: timing, fault model, property."""


@dataclass
class Card:
    algorithm: str
    problem: str
    sources: str
    """A fingerprint of the files that the algorithm is made of."""
    plan: str = ""
    """A fingerprint of the searches that were planned, also of those that decided nothing."""
    searches: list[Searched] = field(default_factory=list)
    cells: dict[Place, Cell] = field(default_factory=dict)

    @property
    def timings(self) -> list[str]:
        return list(dict.fromkeys(timing for timing, _, _ in self.cells))

    @property
    def models(self) -> list[str]:
        return list(dict.fromkeys(model for _, model, _ in self.cells))

    @property
    def properties(self) -> list[str]:
        return list(dict.fromkeys(name for _, _, name in self.cells))

    def size(self, cell: Cell) -> str:
        """Return the number of participants of the search, and of its coordinators where there are
        several; empty if a scenario is the evidence, or nothing.
        """
        if not self.rests_on_search(cell) or cell.search is None:
            return ""
        check = self.searches[cell.search].check
        coordinators = others(check)
        return f"n={check.n}+{coordinators}" if coordinators > 1 else f"n={check.n}"

    def rests_on_search(self, cell: Cell) -> bool:
        """Return whether a search decided the cell, and not a scenario beyond its bound."""
        return cell.search is not None and (cell.steps is not None or not cell.scenario)

    def bound(self, cell: Cell) -> str:
        """Return the bound of the verdict in words."""
        if self.rests_on_search(cell) and cell.search is not None:
            return f"within {self.searches[cell.search].bound(find(self.algorithm))}"
        return f"by scenario {cell.scenario}" if cell.scenario else ""

    def evidence(self, cell: Cell) -> str:
        """Return the evidence for a cell in words."""
        told = []
        if cell.search is not None:
            searched = self.searches[cell.search]
            bound = searched.bound(find(self.algorithm))
            if cell.verdict in (Verdict.HOLDS, Verdict.ALMOST_SURELY):
                told.append(f"in all {searched.states:,} states: {bound}")
            elif cell.steps is not None:
                earliest = "" if searched.check.abstract else " at the earliest"
                told.append(f"after {cell.steps} steps{earliest}: {bound}")
            elif cell.verdict is Verdict.UNDECIDED:
                why = (
                    cell.why
                    or f"no violation in {searched.states:,} states up to {searched.depth} steps,"
                    f" but {searched.stopped}"
                )
                told.append(f"{why}: {bound}")
            else:
                told.append(f"not within the bound of the search: {bound}")
        elif cell.why:
            told.append(cell.why)
        if cell.scenario:
            told.append(f"scenario {cell.scenario}")
        return "; ".join(told)

    def command(self, cell: Cell) -> str:
        """Return the command that shows the evidence."""
        if self.rests_on_search(cell) and cell.search is not None:
            return self.searches[cell.search].command()
        return f"habemus scenario {cell.scenario}" if cell.scenario else ""

    def rows(self) -> list[dict[str, Any]]:
        """Return every cell with its evidence."""
        return [self.row(place, cell) for place, cell in self.cells.items()]

    def row(self, place: Place, cell: Cell) -> dict[str, Any]:
        timing, model, name = place
        searched = None if cell.search is None else self.searches[cell.search]
        return {
            "algorithm": self.algorithm,
            "problem": self.problem,
            "timing": timing or "any",
            "faults": model,
            "property": name,
            "verdict": cell.word,
            "bound": self.bound(cell) or None,
            "evidence": self.evidence(cell),
            "command": self.command(cell),
            "n": searched.check.n if searched else None,
            "states": searched.states if searched else None,
            "exhaustive": not searched.stopped if searched else None,
            "steps": cell.steps,
            "scenario": cell.scenario or None,
        }

    def plain(self) -> dict[str, Any]:
        cells: dict[str, dict[str, dict[str, Any]]] = {}
        for (timing, model, name), cell in self.cells.items():
            cells.setdefault(timing, {}).setdefault(model, {})[name] = cell.plain()
        searches = [
            [_short(each.check), each.states, each.depth, *([each.stopped] if each.stopped else [])]
            for each in self.searches
        ]
        return {
            "problem": self.problem,
            "sources": self.sources,
            "plan": self.plan,
            "searches": searches,
            "cells": cells,
        }

    @classmethod
    def from_plain(cls, name: str, plain: Mapping[str, Any]) -> Card:
        searches = [
            Searched(Check.from_plain({"algorithm": name, **_OF_ALL, **check}), *rest)
            for check, *rest in plain["searches"]
        ]
        cells = {
            (timing, model, each): Cell.from_plain(cell)
            for timing, models in plain["cells"].items()
            for model, properties in models.items()
            for each, cell in properties.items()
        }
        return cls(name, plain["problem"], plain["sources"], plain["plan"], searches, cells)


_OF_ALL = {"every": True, "search": "breadth"}
"""Fields of nearly all searches of cards: they go on after a violation, and need no numpy."""


def _short(check: Check) -> dict[str, Any]:
    plain = check.plain()
    return {
        name: value
        for name, value in plain.items()
        if name != "algorithm" and (name, value) not in _OF_ALL.items()
    }


@cache
def cards() -> dict[str, Card]:
    """Return the stored cards."""
    text = resources.files("habemus.analysis.cards").joinpath(FILE).read_text(encoding="utf-8")
    return {name: Card.from_plain(name, plain) for name, plain in json.loads(text).items()}


def text_of(made: Iterable[Card]) -> str:
    """Return the content of the file: one line for each search and each fault model, so that
    differences are readable.
    """
    blocks = []
    for card in sorted(made, key=lambda each: each.algorithm):
        plain = card.plain()
        searches = ",\n".join(f"   {_line(each)}" for each in plain["searches"])
        timings = [
            f"   {_line(timing)}: {{\n"
            + ",\n".join(f"    {_line(model)}: {_line(cells)}" for model, cells in models.items())
            + "\n   }"
            for timing, models in plain["cells"].items()
        ]
        head = (
            f' {_line(card.algorithm)}: {{\n  "problem": {_line(card.problem)},\n  "sources":'
            f' {_line(card.sources)},\n  "plan": {_line(card.plan)},\n'
        )
        blocks.append(
            head
            + '  "searches": [\n'
            + searches
            + '\n  ],\n  "cells": {\n'
            + ",\n".join(timings)
            + "\n  }\n }"
        )
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _line(plain: Any) -> str:
    return json.dumps(plain, ensure_ascii=False)


# Fingerprints: they tell whether a card is up to date with its algorithm.


def fingerprint(entry: Entry) -> str:
    """Return the fingerprint of the code of an algorithm, its ancestors and its components.
    Comments, docstrings and layout do not count.
    """
    found = hashlib.sha256()
    for name in sorted(_modules(entry.algorithm.__module__)):
        found.update(code_of(_text_of(name)).encode())
    return found.hexdigest()[:16]


def _modules(name: str, known: set[str] | None = None) -> set[str]:
    """Return a module and the modules of `habemus.algorithms` that it imports, recursively."""
    known = set() if known is None else known
    if name not in known:
        known.add(name)
        for node in ast.walk(ast.parse(_text_of(name))):
            if (
                isinstance(node, ast.ImportFrom)
                and node.module
                and node.module.startswith("habemus.algorithms.")
            ):
                _modules(node.module, known)
    return known


def _text_of(module: str) -> str:
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).read_text(encoding="utf-8")


def code_of(text: str) -> str:
    """Return what a module does: its syntax tree without docstrings, declared assumptions and the
    variables that pictures show, whatever its layout.
    """
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [each for each in node.body if not _is_declaration(each)]
    return _shape(tree)


def _is_declaration(statement: ast.stmt) -> bool:
    """Return whether a statement is a docstring, declares what an algorithm assumes or what
    pictures show of it, or imports the names for that.
    """
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str)
    if isinstance(statement, ast.ImportFrom):
        return statement.module == "habemus.core.assumptions"
    return isinstance(statement, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id in ("assumes", "shows")
        for target in statement.targets
    )


_LAYOUT = ("ctx", "kind", "type_comment")


def _shape(node: object) -> str:
    """Return a tree as text, the same on every version of Python (`ast.dump` is not)."""
    if isinstance(node, ast.AST):
        fields = (
            f"{name}={_shape(value)}"
            for name, value in ast.iter_fields(node)
            if name not in _LAYOUT and value is not None and value != []
        )
        return f"{type(node).__name__}({','.join(fields)})"
    if isinstance(node, list):
        return f"[{','.join(map(_shape, node))}]"
    return repr(node)

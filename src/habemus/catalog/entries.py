"""The catalog: every algorithm that a file under `habemus.algorithms` names, found by looking.

An algorithm is listed when its class has a `name`.  What the catalog says of it is read from the box in its
module's docstring, so there is one place to write it, and it stands next to the code.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import habemus.algorithms
from habemus.catalog.detector import DETECTOR
from habemus.catalog.election import ELECTION
from habemus.catalog.mutex import MUTEX
from habemus.catalog.problems import Problem
from habemus.core.process import MistakeInPlan, Process, ProcessType
from habemus.core.system import System

SECTIONS = ("Source", "Assumes", "Cost", "Ensures", "Differs", "Unsafe")
PROBLEMS: tuple[Problem, ...] = (MUTEX, ELECTION, DETECTOR)


class UnknownAlgorithm(LookupError):
    """No algorithm of that name; the message suggests the nearest."""


@dataclass(frozen=True)
class Box:
    """The docstring of an algorithm's module: a title, an idea, and the sections."""

    title: str
    idea: str
    sections: Mapping[str, str]

    @property
    def ensures(self) -> tuple[str, ...]:
        """The properties that the first clause of `Ensures` names.  What comes after a semicolon is explanation."""
        clause = re.split(r"[;.]", self.sections.get("Ensures", ""), maxsplit=1)[0]
        return tuple(re.findall(r"\b(?:ME[1-4]|E[1-4]|FENCE|completeness|accuracy)\b", clause))

    @classmethod
    def of(cls, docstring: str) -> Box:
        paragraphs = inspect.cleandoc(docstring).split("\n\n")
        sections: dict[str, str] = {}
        idea: list[str] = []
        for paragraph in paragraphs[1:]:
            if not paragraph.startswith(tuple(f"{section} " for section in SECTIONS)):
                idea.append(" ".join(paragraph.split()))
                continue
            current = ""
            for text in paragraph.splitlines():
                matched = re.match(rf"({'|'.join(SECTIONS)})\s+(.*)", text)
                if matched:
                    current = matched[1]
                    sections[current] = matched[2].strip()
                else:
                    sections[current] = f"{sections[current]} {text.strip()}".strip()
        return cls(paragraphs[0].strip(), "\n\n".join(idea), sections)


@dataclass(frozen=True)
class Entry:
    name: str
    problem: Problem
    algorithm: type[Process]
    box: Box

    @property
    def unsafe(self) -> str | None:
        """The scenario that breaks it, for algorithms that are here to be broken."""
        return self.box.sections.get("Unsafe")

    @property
    def options(self) -> dict[str, str]:
        """The constants that a user may set, with their defaults."""
        variables = self.algorithm.__variables__.values()
        return {each.name: repr(each.default) for each in variables if each.kind == "const" and not _is_required(each)}

    def system(self, size: int, options: Mapping[str, Any]) -> System:
        known = self.options
        for name in options:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(known) or 'none'}"
                raise MistakeInPlan(f"{self.name} has no option {name}; {hint}")
        build = self.algorithm.system  # type: ignore[attr-defined]  # every problem has it
        system: System = build(size, **options)
        return system

    def plain(self) -> dict[str, Any]:
        sections = {section.lower(): text for section, text in self.box.sections.items() if section != "Ensures"}
        return {
            "id": self.name,
            "problem": self.problem.name,
            "title": self.box.title,
            "idea": self.box.idea,
            **sections,
            "ensures": list(self.box.ensures),
            "ensures_in_words": self.box.sections.get("Ensures", ""),
            "unsafe": self.unsafe,
            "options": self.options,
        }


def _is_required(variable: Any) -> bool:
    return type(variable.default) is object


@cache
def entries() -> dict[str, Entry]:
    """All algorithms by name."""
    found: dict[str, Entry] = {}
    for module_info in pkgutil.walk_packages(habemus.algorithms.__path__, "habemus.algorithms."):
        module = importlib.import_module(module_info.name)
        for _, cls in inspect.getmembers(module, lambda member: isinstance(member, ProcessType)):
            if cls.__module__ == module.__name__ and "name" in cls.__dict__:
                entry = entry_of(cls)
                if entry.name in found:
                    raise MistakeInPlan(f"two algorithms are called {entry.name}")
                found[entry.name] = entry
    return dict(sorted(found.items()))


def entry_of(cls: type[Process]) -> Entry:
    """The entry of a class, whether it is in the catalog or a user's own."""
    problem = next((each for each in PROBLEMS if issubclass(cls, each.base)), None)
    if problem is None:
        bases = " or ".join(each.base.__name__ for each in PROBLEMS)
        raise MistakeInPlan(f"{cls.__name__} solves no problem that is known: derive it from {bases}")
    module = inspect.getmodule(cls)
    # A class with a docstring of its own has its own box: several algorithms may share a file.
    docstring = cls.__dict__.get("__doc__") or (module.__doc__ if module else None) or cls.__name__
    return Entry(getattr(cls, "name", "") or cls.__name__, problem, cls, Box.of(docstring))


def find(name: str) -> Entry:
    known = entries()
    if name not in known:
        near = difflib.get_close_matches(name.lower().replace("_", "-"), known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        raise UnknownAlgorithm(f"there is no algorithm {name}; {hint}")
    return known[name]
